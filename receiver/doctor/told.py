"""Lists of names in a finding, short enough to be read."""

from collections.abc import Iterable

SHOWN = 5


def few(names: Iterable[str]) -> str:
    """Return the first of *names*, and how many more there are."""
    listed = list(dict.fromkeys(names))
    more = len(listed) - SHOWN
    return ", ".join(listed[:SHOWN]) + (f" and {more} more" if more > 0 else "")
