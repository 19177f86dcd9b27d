"""GET /costs: the costs of a month. The command line writes the page as a file of its own."""

import calendar
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from flask import Blueprint, render_template

from receiver.capabilities.costs.api import ONE_AT_A_TIME, report_asked
from receiver.capabilities.costs.formats import PAID_FOR, UNALLOCATED, form_of, standstill, verdict_on
from receiver.core.model.policy import Unallocated
from receiver.reports.screen import assumed, foreseen
from receiver.web.pages.show import alone
from receiver.web.parts import WebParts

TEMPLATES = Path(__file__).parent / "templates"


def add_page(routes: Blueprint, parts: WebParts) -> None:
    """Add GET /costs to *routes*."""

    @routes.get("/costs")
    def costs() -> str:
        with ONE_AT_A_TIME:
            context = _shown(report_asked(parts))
        return render_template("costs.html", layout="base.html", mode=parts.mode, now=parts.clock.now(), **context)


def standalone(document: Mapping[str, Any], version: str) -> str:
    """Return the page as one file that needs no server: the style is in it, and it links nowhere."""
    return alone(
        "costs.html", ["style.css"], folder=TEMPLATES, layout="alone.html", version=version, **_shown(document)
    )


def _shown(document: Mapping[str, Any]) -> dict[str, Any]:
    first = date.fromisoformat(f"{document['month']}-01")
    length = calendar.monthrange(first.year, first.month)[1]
    return {
        "report": document,
        "cluster_name": document.get("cluster_name", ""),
        "paid_for": PAID_FOR,
        "unallocated": UNALLOCATED[form_of(document)],
        "is_shared": form_of(document) is Unallocated.SHARE,
        "standstill": standstill,
        "verdict_on": verdict_on,
        "foreseen": foreseen,
        "assumed": assumed,
        "title": f"{first:%B %Y}",
        "before": f"{first - timedelta(days=1):%Y-%m}",
        "after": f"{first + timedelta(days=length):%Y-%m}" if document["over"] else None,
        "pace": Decimal((document["budget"] or {}).get("monthly_usd") or 0) / length,
    }
