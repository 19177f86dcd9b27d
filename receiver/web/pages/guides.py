"""The documentation as pages: docs/ below /docs, so that a runbook is one click away from its alert."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from flask import Blueprint, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from receiver.web.errors import Problem
from receiver.web.pages.guide_search import GuideSection, search, sections
from receiver.web.pages.guide_text import html_of, portable, title_of
from receiver.web.parts import WebParts

FOLDER = Path(__file__).parents[1] / "docs"  # a link to docs/ in a checkout, a copy of it in the wheel
HOME = "README.md"
LONGEST_QUERY = 200  # characters
# The navigation of these pages and of the static site. A folder stands for all its pages.
GROUPS: Mapping[str, Sequence[str]] = {
    "Start": (
        "README.md",
        "getting-started.md",
        "install.md",
        "vm.md",
        "why-not-cluster-autoscaler.md",
    ),
    "Use": (
        "operations.md",
        "workloads.md",
        "costs.md",
        "replay.md",
        "replay-traces.md",
        "dashboards.md",
        "security.md",
    ),
    "Reference": (
        "configuration.md",
        "command-line.md",
        "http-api.md",
        "guardrails.md",
        "alerts.md",
        "metrics.md",
        "glossary.md",
    ),
    "On call": ("troubleshooting.md", "runbooks", "doctor.md", "limits.md"),
    "Inside": ("how-it-decides.md", "evidence.md", "decisions"),
}
# Former pages, and where their text is now: old messages and bookmarks lead to them.
MOVED: Mapping[str, str] = {
    "benchmarks": "evidence.md",
    "development": "README.md",
    "faq": "README.md#questions",
    "image": "install.md#the-image",
    "invariants": "evidence.md#invariants",
    "policy": "evidence.md#cost-and-wait",
    "reports": "costs.md",
}
# What explains each of the product's own pages.
ABOUT: Mapping[str, str] = {
    "pages.status": "operations.md#read-the-pages",
    "pages.pool": "operations.md#read-the-pages",
    "pages.sources": "guardrails.md#sources",
    "pages.decision": "guardrails.md",
    "pages.decisions": "guardrails.md",
    "acting.budgets": "operations.md#raise-this-months-budget",
    "acting.overrides": "operations.md#override-policy-for-a-while",
    "login.log_in": "operations.md#who-may-read-who-may-act",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidePage:
    """One page: its *name* below docs/, the *title*, the HTML of its text, and the sections below the title."""

    name: str
    title: str
    html: str
    contents: Sequence[GuideSection]


class Guides:
    """The pages of one folder, known by name from the start: a request chooses among them and forms no path."""

    def __init__(self, folder: Path) -> None:
        home = folder.resolve()
        self._files = {path.relative_to(home).as_posix(): path for path in sorted(home.rglob("*.md"))}
        # A folder without a page of its own has a list of its pages.
        self._lists = {f"{posixpath.dirname(name)}/{HOME}" for name in self._files if "/" in name} - self._files.keys()
        self._rendered: dict[str, GuidePage] = {}

    def __iter__(self) -> Iterator[str]:
        """Yield the name of every page, each folder's list before its pages."""
        yield from sorted((*self._files, *self._lists), key=lambda name: (posixpath.dirname(name), name != HOME, name))

    def find(self, name: str) -> str | None:
        """Return the page that *name* asks for: a path below docs/ with or without ``.md``, or a folder."""
        candidates = (name, f"{name}.md", posixpath.join(name, HOME))
        return next(
            (candidate for candidate in candidates if candidate in self._files or candidate in self._lists), None
        )

    def text(self, name: str) -> str:
        """Return the Markdown of the page *name*. KeyError without one."""
        if name not in self._lists:
            return self._files[name].read_text(encoding="utf-8")
        folder = posixpath.dirname(name)
        inside = [page for page in self._files if posixpath.dirname(page) == folder]
        rows = "\n".join(f"- [{self.title(page)}]({posixpath.basename(page)})" for page in inside)
        return f"# {folder.capitalize()}\n\n{rows}\n"

    def title(self, name: str) -> str:
        """Return the heading of the page *name*."""
        return title_of(self.text(name))

    @cached_property
    def groups(self) -> Mapping[str, Sequence[tuple[str, str]]]:
        """The navigation: address and title of each page by group."""
        return {
            group: [(address(name), self.title(name)) for name in map(self.find, entries) if name]
            for group, entries in GROUPS.items()
        }

    def target(self, page: str, link: str) -> tuple[str, str] | None:
        """Return the page and the anchor (with ``#``) to which *link* leads on *page*; None outside docs/, and
        for a file that is no page. A page that does not exist is returned too, so that a mistake shows."""
        path, mark, anchor = link.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if target.startswith("..") or posixpath.splitext(target)[1] not in ("", ".", ".md"):
            return None
        return self.find("" if target == "." else target) or target, mark + anchor

    def page(self, name: str) -> GuidePage:
        """Return the page *name*, rendered when it is asked for the first time."""
        if name not in self._rendered:

            def link(target: str) -> str | None:
                page_and_anchor = self.target(name, target)
                return _from(name, page_and_anchor[0]) + page_and_anchor[1] if page_and_anchor else None

            text = self.text(name)
            contents = [section for section in sections(name, text) if section.level in (2, 3)]
            self._rendered[name] = GuidePage(
                name=name, title=title_of(text), html=html_of(portable(text, link)), contents=contents
            )
        return self._rendered[name]

    @cached_property
    def sections(self) -> Sequence[GuideSection]:
        """Every section of every page that has a text of its own."""
        return [section for name in self._files for section in sections(name, self.text(name))]


@cache
def shipped() -> Guides:
    """Return the pages that the program carries, one index for all requests."""
    return Guides(FOLDER)


def address(name: str) -> str:
    """Return what `Guides.find` finds *name* by in an address: the folder of a ``README.md``, else the name itself."""
    return posixpath.dirname(name) if posixpath.basename(name) == HOME else name


def _from(page: str, target: str) -> str:
    """Return the address of the page *target* relative to that of *page*, whatever stands before /docs in both."""
    begins, ends = (posixpath.join("/docs", address(name)).rstrip("/") for name in (page, target))
    up = posixpath.relpath(posixpath.dirname(ends), posixpath.dirname(begins))
    return posixpath.normpath(posixpath.join(up, posixpath.basename(ends)))


def blueprint(parts: WebParts) -> Blueprint:
    """Return /docs and the pages below it, and tell every page its guide. They are open like /static, also where
    reading takes a token: nothing in them is secret, and a person with a pager opens a runbook before any log-in."""
    routes = Blueprint("guides", __name__)
    guides = shipped()
    about = dict(ABOUT)
    for addition in parts.added:
        about |= addition.guides

    @routes.get("/docs/search")
    def find() -> str:
        query = request.args.get("q", "").strip()[:LONGEST_QUERY]
        hits = search(query, guides.sections)
        return render_template("guide_search.html", query=query, hits=hits, groups=guides.groups, current=None)

    @routes.get("/docs", defaults={"name": ""})
    @routes.get("/docs/<path:name>")
    def page(name: str) -> ResponseReturnValue:
        page_name = guides.find(name.rstrip("/"))
        if moved := MOVED.get(name.rstrip("/").removesuffix(".md")):
            target, _, anchor = moved.partition("#")
            return redirect(url_for("guides.page", name=address(target), _anchor=anchor or None), 301)
        if page_name is None and name.startswith("decisions/0"):  # one whose page is gone has a line in the list
            return redirect(url_for("guides.page", name="decisions"), 301)
        if page_name is None:
            raise Problem(404, "no such page in the documentation", "see /docs for all pages")
        if name.endswith("/"):
            return redirect(url_for("guides.page", name=address(page_name)), 308)
        guide_page = guides.page(page_name)
        folder = posixpath.dirname(page_name)
        return render_template(
            "guide.html", page=guide_page, groups=guides.groups, current=folder or address(page_name)
        )

    @routes.app_context_processor
    def of_the_page() -> dict[str, object]:
        return {"guide": parts.guide, "about": about.get(request.endpoint or "")}

    @routes.get("/docs/")
    def home() -> ResponseReturnValue:
        return redirect(url_for("guides.page"), 308)

    return routes
