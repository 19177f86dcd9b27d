"""Write the golden messages anew: ``python -W ignore -m tests.messages.write``. Read them as the one who is on call."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.messages.cases import GOLDEN, every_golden
from tests.messages.sent import WIRE, every_request


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write *files* into *folder*, and take away what else is in it."""
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        if file.name not in files:
            file.unlink()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(files)} files written to {folder}\n")


if __name__ == "__main__":
    write(GOLDEN, every_golden())
    write(WIRE, every_request())
