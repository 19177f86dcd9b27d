"""Pages of docs/ of which a part is written by a program: write one, or say that it would change."""

import sys
from collections.abc import Callable
from pathlib import Path


def keep(page: Path, filled: Callable[[str], str], source: str) -> int:
    """Write what *filled* makes of *page*'s text if that differs; return the exit status.

    With ``--check`` on the command line nothing is written, and the status is 1 where the page would change; *source*
    says from what it differs then.
    """
    check = "--check" in sys.argv[1:]
    before = page.read_text(encoding="utf-8")
    after = filled(before)
    if after == before:
        return 0
    print(f"docs/{page.name}", f"differs from {source}" if check else "written")
    if not check:
        page.write_text(after, encoding="utf-8")
    return 1 if check else 0
