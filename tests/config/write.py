"""Write what is reported about each file in tests/config/bad: `python -m tests.config.write`, then read the diff."""

from tests.config.test_bad_files import FOLDER, said

if __name__ == "__main__":
    for file in FOLDER.glob("*.yaml"):
        if text := said(file):
            file.with_suffix(".txt").write_text(text, encoding="utf-8")
