"""How values look on a page: money, counts, ratios and times. What is not known says so; it is never 0."""

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import (
    ChainableUndefined,
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PackageLoader,
    StrictUndefined,
    Undefined,
)
from markupsafe import Markup, escape

from receiver.core.model.text import brief, dollars, number, percent, some, span
from receiver.core.model.text import with_names as names_for_ids
from receiver.core.report.would_have import against, day
from receiver.reports.screen import UNKNOWN, minute, moment
from receiver.web.api.documents import pod_word


def count(value: object) -> str:
    """Return a count, or a question mark."""
    quantity = number(value)
    return "?" if quantity is None else f"{quantity.normalize():f}"


def hours(value: object) -> str:
    """Return GPU-hours, or another large count, to a tenth."""
    gpu_hours = number(value)
    return UNKNOWN if gpu_hours is None else f"{gpu_hours:,.1f}".removesuffix(".0")


def lasting(value: object) -> str:
    """Return a length of time, given in seconds, in the units people think in."""
    seconds = number(value)
    return UNKNOWN if seconds is None else span(float(seconds))


def ago(value: object, now: datetime) -> str:
    """Return how far *value* lies from *now*: ``3 min ago`` or ``in 5 min``."""
    at = moment(value)
    if at is None:
        return UNKNOWN
    seconds = (now - at).total_seconds()
    return f"in {span(seconds)}" if seconds <= -1 else f"{span(max(seconds, 0))} ago"


def stamp(value: object, now: datetime) -> Markup:
    """Return a time element: relative text for the eye, the exact UTC moment for machines and on hover."""
    at = moment(value)
    if at is None:
        return escape(UNKNOWN)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat().replace("+00:00", "Z"), f"{at:%Y-%m-%d %H:%M:%S} UTC", ago(at, now)
    )


def clock(value: object) -> str:
    """Return a stored time as it was, to the second."""
    at = moment(value)
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "an unknown time"


def before(value: object, then: object) -> str:
    """Return how long before *then*, a time that was stored, *value* was: ``4 min before``; nothing if unknown."""
    at, stored = moment(value), moment(then)
    if at is None or stored is None:
        return ""
    seconds = (stored - at).total_seconds()
    return f"{span(seconds)} {'before' if seconds >= 0 else 'after'}"


def node_name(name: object, instance: object = None) -> str:
    """Return the *name* of a node, or of one that has none yet the beginning of its *instance*'s id."""
    return str(name or f"unnamed ({str(instance or '?')[:8]})")


def with_names(text: object, names: Mapping[str, str]) -> str:
    """Return *text* with names for the ids in *names*; nothing for what is not known."""
    return names_for_ids(str(text or ""), names)


def with_code(text: object) -> Markup:
    """Return *text* with each part between backticks as code."""
    parts = [escape(part) for part in str(text or "").split("`")]
    if len(parts) % 2 == 0:  # a backtick without another
        return escape(text)
    return Markup().join(Markup("<code>{}</code>").format(part) if n % 2 else part for n, part in enumerate(parts))


OWN_NAMES = (
    against,
    ago,
    before,
    brief,
    clock,
    count,
    day,
    hours,
    lasting,
    node_name,
    percent,
    pod_word,
    some,
    stamp,
    with_code,
)
FILTERS: dict[str, Callable[..., Any]] = {function.__name__: function for function in OWN_NAMES}
FILTERS |= {"moment": minute, "usd": dollars}


def alone(
    template: str,
    sheets: Sequence[str],
    undefined: type[Undefined] = ChainableUndefined,
    folder: Path | None = None,
    **values: object,
) -> str:
    """Return the page of *template* as a file that needs no server: the style *sheets* are in it as ``style``. A
    capability has its templates in a *folder* of its own."""
    own = PackageLoader("receiver.web", "templates")
    loader = own if folder is None else ChoiceLoader([own, FileSystemLoader(folder)])
    environment = Environment(loader=loader, autoescape=True, undefined=undefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(FILTERS)
    style = "\n".join((files("receiver.web") / "static" / name).read_text(encoding="utf-8") for name in sheets)
    return environment.get_template(template).render(style=style, **values)


def replay_page(traces: Sequence[Mapping[str, Any]], ratios: Mapping[str, Any], version: str) -> str:
    """Return the page on *traces*, each a `replay.document.page_document`; *ratios* are over all of them."""
    return alone(
        "replay.html",
        ["style.css", "replay.css"],
        StrictUndefined,
        policy_of=_policy,
        version=version,
        cluster_name="",
        traces=[_shown(trace) for trace in traces],
        ratios=ratios,
    )


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(f"\n{style}\n  ".encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'"


def _shown(trace: Mapping[str, Any]) -> dict[str, Any]:
    by_the_hour, by_hour = trace["setting"]["billing"] == "hour", trace["by_hour"]
    first = trace["policies"][0]["name"]
    against = trace["against"] if trace["against"] in by_hour else None
    return {
        "trace": trace,
        "bars": _bars(trace["policies"], "gpu_hours_started" if by_the_hour else "gpu_hours_second"),
        "first": first,
        "against": against,
        "by_hour": list(zip(by_hour[first], by_hour.get(against) or by_hour[first], strict=True)),
    }


def _bars(policies: Sequence[Mapping[str, Any]], paid: str) -> list[dict[str, Any]]:
    """Return the GPU-hours (under *paid*) and mean wait of each policy, with bars in percent of the longest."""
    most, longest = (max(float(policy[key]) for policy in policies) or 1.0 for key in (paid, "wait_mean_s"))
    return [
        {
            "name": policy["name"],
            "gpu_hours": policy[paid],
            "wait_s": policy["wait_mean_s"],
            "paid": round(100 * policy[paid] / most, 2),
            "wait": round(100 * policy["wait_mean_s"] / longest, 2),
        }
        for policy in policies
    ]
