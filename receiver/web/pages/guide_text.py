"""The text of a guide: the Markdown of docs/, which GitHub's rules hold for, made ready for Python-Markdown.

GitHub nests whatever is indented to the text of a list item. Python-Markdown asks for four spaces a level and knows no
fence inside a list. The product's pages and the static site (`tools/documentation_site.py`) both render what `portable`
returns and give headings the anchors of `slug`.
"""

import re
from collections.abc import Callable

from markdown import Markdown
from markdown.extensions.fenced_code import FencedCodeExtension
from markdown.extensions.sane_lists import SaneListExtension
from markdown.extensions.tables import TableExtension
from markdown.extensions.toc import TocExtension

FENCED = re.compile(r"(^ *`{3,}[^\n]*\n.*?^ *`{3,} *$)", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"^<!--.*?-->\n?", re.MULTILINE | re.DOTALL)
# A span of code, in which nothing is a link, or a link with its text and its target.
LINK = re.compile(r"(`+)(?:(?!\n\n).)+?(?<!`)\1(?!`)|\[((?:`[^`]*`|[^\[\]`])+)\]\(([^)\s]+)\)", re.DOTALL)
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
ITEM = re.compile(r" *([-*+]|\d+\.) +(?=\S)")
LEVEL = " " * 4


def slug(title: str, separator: str = "-") -> str:
    """Return the anchor that GitHub gives to a heading with the text *title*."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", separator)


def title_of(text: str) -> str:
    """Return the first heading of *text*, empty without one."""
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    return heading[1] if heading else ""


def portable(text: str, link: Callable[[str], str | None]) -> str:
    """Return *text* for Python-Markdown, without comments. *link* gives the new target of a relative link; the link
    becomes plain text where it gives None."""

    def linked(link_match: re.Match[str]) -> str:
        words, target = link_match[2], link_match[3]
        if words is None or target.startswith("#") or re.match(r"[a-z]+:", target):
            return link_match[0]
        new_target = link(target)
        return words if new_target is None else f"[{words}]({new_target})"

    columns: list[int] = []  # at which the texts of the open list items begin
    markdown = ""
    for number, part in enumerate(FENCED.split(text)):
        markdown += _code(part, columns) if number % 2 else _prose(LINK.sub(linked, COMMENT.sub("", part)), columns)
    return markdown


def _close(columns: list[int], indent: int) -> None:
    """Drop the list items that a line with *indent* is no part of."""
    while columns and indent < columns[-1]:
        columns.pop()


def _code(block: str, columns: list[int]) -> str:
    """Return a fenced *block*, inside a list as indented code."""
    indent = len(block) - len(block.lstrip(" "))
    _close(columns, indent)
    if not columns:
        return block
    margin = LEVEL * (len(columns) + 1)
    return "".join(f"\n{margin}{line[indent:]}" if line.strip() else "\n" for line in block.splitlines()[1:-1]) + "\n"


def _prose(text: str, columns: list[int]) -> str:
    """Return *text* with four spaces before a line for each list that it is in."""
    lines = []
    blank = True  # the line above: after it a line belongs to the item that it is indented to, else to the paragraph
    paragraph = False  # the lines above, up to a blank one, are no item and none of its first lines
    for line in text.split("\n"):
        indent, item = len(line) - len(line.lstrip(" ")), ITEM.match(line)
        if line.strip() and (item or blank):
            _close(columns, indent)
        margin = LEVEL * len(columns)
        if item:
            lines += [""] if paragraph and not blank else []
            paragraph = False
            columns.append(item.end())
            lines.append(f"{margin}{item[1]} {line[item.end() :]}")
        else:
            paragraph = paragraph or blank
            lines.append(margin + line[min(indent, columns[-1]) :] if columns and line.strip() else line)
        blank = not line.strip()
    return "\n".join(lines)


def html_of(text: str) -> str:
    """Return the HTML of *text*, which `portable` returned. HTML in it stays text; no inline style comes out."""
    extensions = [
        FencedCodeExtension(),
        SaneListExtension(),
        TableExtension(use_align_attribute=True),
        TocExtension(slugify=slug),
    ]
    markdown = Markdown(extensions=extensions)
    markdown.preprocessors.deregister("html_block")
    markdown.inlinePatterns.deregister("html")
    html: str = markdown.convert(text)
    return stackable(html)


def stackable(html: str) -> str:
    """Return *html* with the heading of its column on each cell: a phone shows a row as a card. Elsewhere a table that
    is too wide scrolls in a frame of its own, which the keyboard reaches."""

    def framed(table: re.Match[str]) -> str:
        heads = re.findall(r"<th[^>]*>(.*?)</th>", table[0])
        labels = [re.sub(r"<[^>]+>", "", head).replace('"', "&quot;") for head in heads]

        def labelled(row: re.Match[str]) -> str:
            rest = iter(labels)
            return re.sub(r"<td([^>]*)>", lambda cell: f'<td{cell[1]} data-label="{next(rest, "")}">', row[0])

        return f'<div class="scroll" tabindex="0">\n{ROW.sub(labelled, table[0])}\n</div>'

    return TABLE.sub(framed, html)
