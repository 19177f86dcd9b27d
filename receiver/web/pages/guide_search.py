"""Sections of the documentation: a page's table of contents, and the search of /docs."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from receiver.web.pages.guide_text import COMMENT, FENCED, slug, title_of

HEADING = re.compile(r"^(#{1,4}) (.+)$", re.MULTILINE)
MARKUP = re.compile(r"\]\([^)]*\)|[\[`*|]|^#+ |^[-| ]+$", re.MULTILINE)
MOST_WORDS = 8  # of a query; the others do not count
MOST_HITS = 30
AROUND = 90  # characters of a hit's text before and after the first word that was searched for
WEIGHT_OF_HEADING, WEIGHT_OF_TITLE, MOST_COUNTED = 10, 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class GuideSection:
    """A heading of a page with the text up to the next one. *level* is 1 for the page's title, whose *anchor* is
    empty."""

    page: str
    title: str
    level: int
    heading: str
    anchor: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A section that has every word of a query, and an excerpt of its text."""

    section: GuideSection
    excerpt: str


def sections(page: str, text: str) -> Iterator[GuideSection]:
    """Yield the sections of the Markdown *text* of *page* in order."""
    title = title_of(text)
    blocks = FENCED.split(COMMENT.sub("", text))
    # In a fence a # begins a comment, no heading.
    plain = "".join(block.replace("\n#", "\n ") if number % 2 else block for number, block in enumerate(blocks))
    heads = list(HEADING.finditer(plain))
    ends = [head.start() for head in heads[1:]] + [len(plain)]
    for head, end in zip(heads, ends, strict=True):
        level, heading = len(head[1]), MARKUP.sub("", head[2])
        body = " ".join(MARKUP.sub("", plain[head.end() : end]).split())
        anchor = slug(heading) if level > 1 else ""
        yield GuideSection(page=page, title=title, level=level, heading=heading, anchor=anchor, text=body)


def search(query: str, within: Iterable[GuideSection]) -> Sequence[SearchHit]:
    """Return the sections *within* that have every word of *query*, the best first: a word in a heading counts more
    than in a page's title, and that more than in the text."""
    wanted = query.lower().split()[:MOST_WORDS]
    scored = [(_score(wanted, section), section) for section in within] if wanted else []
    best = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])[:MOST_HITS]
    return [SearchHit(section=section, excerpt=_excerpt(section.text, wanted)) for _, section in best]


def _score(wanted: Sequence[str], section: GuideSection) -> int:
    heading, title, text = section.heading.lower(), section.title.lower(), section.text.lower()
    score = 0
    for word in wanted:
        counted = min(text.count(word), MOST_COUNTED)
        points = WEIGHT_OF_HEADING * (word in heading) + WEIGHT_OF_TITLE * (word in title) + counted
        if not points:
            return 0
        score += points
    return score


def _excerpt(text: str, wanted: Sequence[str]) -> str:
    places = [at for at in map(text.lower().find, wanted) if at >= 0]
    middle = min(places, default=0)
    begin = max(0, middle - AROUND)
    begin = text.find(" ", begin) + 1 if begin else 0
    end = middle + AROUND
    before, after = "… " if begin else "", " …" if end < len(text) else ""
    return before + text[begin:end].strip() + after
