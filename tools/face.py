"""How much of the product a person meets first, and how much there is: ``python -m tools.face``.

What is first are the keys of the first table of docs/configuration.md, the commands that `--help` lists with their
options, the pages that every page links to at its head, and the first list of docs/alerts.md.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from receiver.capabilities import registry
from receiver.cli.main import DAILY
from receiver.config.model import Configuration
from receiver.reports.screen import aligned
from tools.command_page import commands
from tools.configuration_page import FIRST, keys

ROOT = Path(__file__).resolve().parents[1]
BASE = ROOT / "receiver" / "web" / "templates" / "base.html"


class Count(NamedTuple):
    """How many there are *first*, in *all*, and how many there were *before* they were sorted (None: not counted)."""

    what: str
    first: int
    all: int
    before: int | None


def counts() -> Iterator[Count]:
    """Yield the counts. `explain` and other groups count by the commands below them."""
    yield Count("keys of the configuration", len(FIRST), len(list(keys(Configuration))), 147)
    found = list(commands())
    yield Count("commands", len(DAILY), len(found), 24)
    options = {name: sum(_listed(parameter) for parameter in command.params) for name, command in found}
    daily = sum(count for name, count in options.items() if name.split()[0] in DAILY)
    yield Count("options", daily, sum(options.values()), 109)
    head = BASE.read_text(encoding="utf-8").partition("</nav>")[0]
    own = len(re.findall(r'\("\w+\.\w+", "[A-Z][^"]*"\)', head))
    added = sum(link.on == "navigation" for capability in registry.installed() for link in capability.web.links)
    pages = [path for path in (ROOT / "receiver").rglob("*.html") if '{% extends "base.html" %}' in path.read_text()]
    yield Count("pages", own + added, len(pages), 11)
    first, *others = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8").split("\n## ")[1:]
    yield Count("alerts", first.count("\n- ["), sum(part.count("\n- [") for part in (first, *others)), 45)


def _listed(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and not parameter.hidden


if __name__ == "__main__":
    rows = [(each.what, str(each.first), str(each.all), str(each.before or "-")) for each in counts()]
    print("\n".join(aligned([("", "FIRST", "ALL", "BEFORE"), *rows], "<>>>")))
