"""Write the golden messages anew: ``python -W ignore -m tests.core.notices.write``. Read each as the person on call."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.core.notices.cases import GOLDEN, every_golden
from tests.core.notices.sent import WIRE, every_request


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
