"""The book of messages, ``messages.md``, which is generated: read its diff as the person on call."""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from receiver.core.notices.grouping import PageLinks, compose
from tests.core.notices.cases import CASES, PAGES, PARTS

BOOK = Path(__file__).parent / "messages.md"
HEAD = "# Messages\n\nEvery message as people get it. Generated from the cases in `of_*.py` by `make generate`.\n"
WITHOUT_ADDRESSES = "grew_without_addresses"


def written(name: str, links: PageLinks = PAGES) -> str:
    """The message *name* as people get it: title, an empty line, the text."""
    message = compose(CASES[name](), links)
    return f"{message.title}\n\n{message.body}\n"


@cache
def every_message() -> Mapping[str, str]:
    """Every message of the book by its name."""
    return {**{name: written(name) for name in CASES}, WITHOUT_ADDRESSES: written("grew", PageLinks())}


def _lines() -> Iterator[str]:
    yield HEAD
    messages = every_message()
    for title, names in {**PARTS, "Without public_url and docs_url": [WITHOUT_ADDRESSES]}.items():
        yield f"\n## {title}\n"
        yield from (f"\n### {name}\n\n```text\n{messages[name]}```\n" for name in names)


def generated() -> dict[Path, str]:
    """Return the book as it should be."""
    return {BOOK: "".join(_lines())}
