"""How values look on a page: money, counts, ratios and times. What is not known says so; it is never 0."""

from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files
from typing import Any

from jinja2 import ChainableUndefined, Environment, PackageLoader, Undefined
from markupsafe import Markup, escape

from receiver.core.model.text import brief, some, span
from receiver.reports.formats import assumed, foreseen, minute, standstill
from receiver.reports.screen import UNKNOWN, dollars, fine_dollars, moment, number
from receiver.reports.screen import percent as spaced_percent


def count(value: Any) -> str:
    """Return a count, or a question mark."""
    found = number(value)
    return "?" if found is None else f"{found.normalize():f}"


def percent(value: Any) -> str:
    """Return a ratio 0-1 as whole percent."""
    return spaced_percent(value).replace(" ", "\N{NO-BREAK SPACE}")


def hours(value: Any) -> str:
    """Return GPU-hours, or another large count, to a tenth."""
    found = number(value)
    return UNKNOWN if found is None else f"{found:,.1f}".removesuffix(".0")


def lasting(value: Any) -> str:
    """Return a length of time, given in seconds, in the units people think in."""
    found = number(value)
    return UNKNOWN if found is None else span(float(found))


def ago(value: Any, now: datetime) -> str:
    """Return how far *value* lies from *now*: ``3 min ago`` or ``in 5 min``."""
    at = moment(value)
    if at is None:
        return UNKNOWN
    seconds = (now - at).total_seconds()
    return f"in {span(seconds)}" if seconds <= -1 else f"{span(max(seconds, 0))} ago"


def stamp(value: Any, now: datetime) -> Markup:
    """Return a time element: relative text for the eye, the exact UTC moment for machines and on hover."""
    at = moment(value)
    if at is None:
        return escape(UNKNOWN)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat().replace("+00:00", "Z"), f"{at:%Y-%m-%d %H:%M:%S} UTC", ago(at, now)
    )


def clock(value: Any) -> str:
    """Return a stored time as it was, to the second."""
    at = moment(value)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "an unknown time"


def before(value: Any, then: Any) -> str:
    """Return how long before *then*, a time that was stored, *value* was: ``4 min before``; nothing if unknown."""
    at, stored = moment(value), moment(then)
    if at is None or stored is None:
        return ""
    seconds = (stored - at).total_seconds()
    return f"{span(seconds)} {'before' if seconds >= 0 else 'after'}"


FILTERS = {
    "ago": ago,
    "assumed": assumed,
    "before": before,
    "brief": brief,
    "clock": clock,
    "count": count,
    "fine_usd": fine_dollars,
    "foreseen": foreseen,
    "hours": hours,
    "lasting": lasting,
    "moment": minute,
    "percent": percent,
    "some": some,
    "stamp": stamp,
    "standstill": standstill,
    "usd": dollars,
}


def alone(template: str, sheets: Sequence[str], undefined: type[Undefined] = ChainableUndefined, **values: Any) -> str:
    """Return the page of *template* as a file that needs no server: the style *sheets* are in it as ``style``."""
    environment = Environment(
        loader=PackageLoader("receiver.web", "templates"),
        autoescape=True,
        undefined=undefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    style = "\n".join((files("receiver.web") / "static" / name).read_text(encoding="utf-8") for name in sheets)
    return environment.get_template(template).render(style=style, **values)
