"""What the person on call reads of a life: the top of the overview, `gpu-autoscaler status`, and messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser

import click
from flask.testing import FlaskClient

from receiver.cli.status import about_status
from receiver.core.notices.grouping import PageLinks, compose
from tests.clocks import FixedClock
from tests.given.life import Life
from tests.incidents.plays import DAY
from tests.web.builders import OPERATOR, Bench

CLUSTER = "prod-lon1"
LINKS = PageLinks(cluster_name=CLUSTER, public_url="https://gpus.example.com", docs_url="https://gpus.example.com/docs")
COLUMNS = 100  # of the terminal
VOID = frozenset({"area", "br", "col", "hr", "img", "input", "link", "meta", "path", "rect", "circle", "line"})
BLOCKS = frozenset({"p", "li", "h1", "h2", "h3", "div", "tr", "dl", "dt", "table", "section", "summary", "ul", "ol"})
REGIONS = ("mode", "attention-region", "doing-region", "pools-region")  # of the overview, in its order
IN_BUTTONS = ("a", "button")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The *page*, the lines of *status*, and the *messages* since it began, oldest first."""

    page: str
    status: str
    messages: tuple[str, ...]


class Reading(HTMLParser):
    """The text that is visible of some elements, by their ids: no closed details, no words for screen readers alone.
    What can be tapped stands in brackets."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__()
        self.lines, self._ids = [""], ids
        self._open: list[tuple[str, bool]] = []  # elements with whether they are visible

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        attributes = dict(attrs)
        if tag in VOID:
            return
        outside = not any(visible for _, visible in self._open)
        visible = (attributes.get("id") in self._ids) if outside else self._open[-1][1]
        classes = (attributes.get("class") or "").split()
        if "sr" in classes or tag in ("script", "style", "thead"):
            visible = False
        if len(self._open) > 1 and self._open[-1][0] == "details closed" and tag != "summary":
            visible = False
        closed = tag == "details" and "open" not in attributes
        self._open.append(("details closed" if closed else tag, visible))
        if visible and tag in BLOCKS:
            self.lines.append("")
        if visible and tag in IN_BUTTONS:
            self.lines[-1] += "["

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        if tag in VOID or not self._open:
            return
        _, visible = self._open.pop()
        if visible and tag in IN_BUTTONS:
            self.lines[-1] = f"{self.lines[-1].rstrip()}]"
        if visible and tag in BLOCKS:
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        """Text."""
        if self._open and self._open[-1][1]:
            self.lines[-1] += data.replace("\n", " ")

    @property
    def text(self) -> str:
        """Return the lines."""
        lines = (" ".join(line.split()) for line in self.lines)
        return "\n".join(line for line in lines if line)


def bench_of(life: Life) -> Bench:
    """Return an app over what *life* has stored, at its time."""
    return Bench(store=life.store, clock=FixedClock(life.now), policy=life.policy, mode=life.mode, cluster_name=CLUSTER)


def operator_of(bench: Bench) -> FlaskClient:
    """Return a browser with an operator's session."""
    client = bench.client()
    client.post("/login", data={"token": OPERATOR}, headers={"Origin": "http://localhost"})
    return client


def seen(life: Life) -> Seen:
    """Return what *life* shows now."""
    client = operator_of(bench_of(life))
    overview = Reading(REGIONS)
    overview.feed(client.get("/").get_data(as_text=True))
    status = about_status(client.get("/api/v1/status").get_json(), life.now, COLUMNS)
    due = life.store.notices_due(life.now + DAY, limit=1000)
    messages = [compose(stored.notice, LINKS) for stored in due]
    return Seen(
        page=overview.text,
        status="\n".join(click.unstyle(line) for line in status),
        messages=tuple(f"{message.title}\n{message.body}" for message in messages),
    )
