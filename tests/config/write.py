"""Write what is reported about each file in tests/config/bad: `python -m tests.config.write`, then read the diff."""

from receiver.config import ConfigError, load_file
from tests.config.test_bad_files import FILES

if __name__ == "__main__":
    for file in FILES:
        try:
            load_file(file)
        except ConfigError as error:
            file.with_suffix(".txt").write_text(f"{error}\n")
