"""The books of messages, ``messages.md`` here and beside the tests of a capability, which are generated: read their
diffs as the person on call."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from receiver.core.notices.grouping import PageLinks, compose
from tests.core.notices.cases import ADDED, CASES, PAGES, PARTS

HERE = Path(__file__).parent
CAPABILITIES = HERE.parents[1] / "capabilities"
HEAD = "# Messages\n\nEvery message as people get it. Generated from the cases in `{}` by `make generate`.\n"
WITHOUT_ADDRESSES = "grew_without_addresses"


def written(name: str, links: PageLinks = PAGES) -> str:
    """The message *name* as people get it: title, an empty line, the text."""
    message = compose(CASES[name](), links)
    return f"{message.title}\n\n{message.body}\n"


@cache
def every_message() -> Mapping[str, str]:
    """Every message of the books by its name."""
    return {**{name: written(name) for name in CASES}, WITHOUT_ADDRESSES: written("grew", PageLinks())}


def _entries(names: Iterable[str]) -> Iterator[str]:
    messages = every_message()
    return (f"\n### {name}\n\n```text\n{messages[name]}```\n" for name in names)


def _lines() -> Iterator[str]:
    yield HEAD.format("of_*.py")
    for title, names in {**PARTS, "Without public_url and docs_url": [WITHOUT_ADDRESSES]}.items():
        yield f"\n## {title}\n"
        yield from _entries(names)


def generated() -> dict[Path, str]:
    """Return the books as they should be."""
    added = {
        CAPABILITIES / name / "messages.md": "".join([HEAD.format("messages.py"), *_entries(cases)])
        for name, cases in ADDED.items()
    }
    return {HERE / "messages.md": "".join(_lines()), **added}
