"""Text that a person gives with a request and that everybody reads: one line, not too long."""

from collections.abc import Mapping
from typing import Any

from receiver.web.errors import Problem

LONGEST_TEXT = 500  # characters


def words_asked(said: Mapping[str, Any], field: str, remedy: str) -> str:
    """Return the text in *field* of *said* on one line; Problem 400 with *remedy* when there is none."""
    text = said.get(field)
    if text is None or (isinstance(text, str) and not text.strip()):
        raise Problem(400, f"{field} is missing", remedy, field=field)
    if not isinstance(text, str):
        raise Problem(400, f"{field} is no text", remedy, field=field)
    plain = one_line(text)
    if len(plain) > LONGEST_TEXT:
        raise Problem(400, f"{field} is longer than {LONGEST_TEXT} characters", "say it shorter", field=field)
    return plain


def one_line(text: str) -> str:
    """Return *text* on one line, without what cannot be printed."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
