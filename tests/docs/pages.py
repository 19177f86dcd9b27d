"""The project's pages: what they say, and where they are."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from receiver.web.pages.guide_text import slug

ROOT = Path(__file__).parents[2]
READMES = (ROOT / folder / "README.md" for folder in ("rules", "tests"))
PAGES = sorted([*ROOT.glob("*.md"), *READMES, *(ROOT / "docs").rglob("*.md")])


@cache
def text_of(name: str) -> str:
    """Return the page at *name*, a path from the project's root."""
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def every_page() -> dict[str, str]:
    """Return the text of every page by its path from the project's root."""
    return {name: text_of(name) for name in (page.relative_to(ROOT).as_posix() for page in PAGES)}


def in_pages(wrong: Callable[[str], Iterable[str]]) -> Iterator[str]:
    """Yield what *wrong* finds in the text of each page, with the page's name before it."""
    for name, text in every_page().items():
        yield from (f"{name}: {found}" for found in sorted(wrong(text)))


def without_code(text: str) -> str:
    """Return *text* without its fenced blocks: a `#` in them is no heading."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def section(text: str, title: str) -> str:
    """Return what stands below the heading *title*, up to the next one of its level or above. KeyError without it."""
    plain = without_code(text)
    found = re.search(rf"^(#+) {re.escape(title)}$", plain, re.MULTILINE)
    if found is None:
        raise KeyError(title)
    rest = plain[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def headings(text: str, level: int) -> list[str]:
    """Return the headings of *level* in order."""
    return re.findall(rf"^{'#' * level} (.+)$", without_code(text), re.MULTILINE)


@cache
def anchors(text: str) -> frozenset[str]:
    """Return the anchors that a forge gives to the headings of *text*."""
    titles = [re.sub(r"[`*]|\]\([^)]*\)|\[", "", t) for n in range(1, 5) for t in headings(text, n)]
    return frozenset(map(slug, titles))


def table(text: str) -> Sequence[list[str]]:
    """Return the cells of the first table in *text*, without its head. ValueError when there is none."""
    lines = re.search(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    if lines is None:
        raise ValueError("no table")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()[2:]]
