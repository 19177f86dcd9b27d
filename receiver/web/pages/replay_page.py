"""The page of a replay: one file that needs no server, runs no script and asks nobody for anything."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from receiver.core.model.text import brief, some
from receiver.web.pages import replay_pictures as pictures
from receiver.web.pages import show

SHEETS = ("style.css", "replay.css")
FILTERS = {
    "usd": show.usd,
    "percent": show.percent,
    "hours": show.hours,
    "lasting": show.lasting,
    "brief": brief,
    "some": some,
}


def replay_page(traces: Sequence[Mapping[str, Any]], ratios: Mapping[str, Any], version: str) -> str:
    """Return the page on *traces*, each as `receiver.replay.document.pictured` has it; *ratios* are over them all."""
    environment = Environment(
        loader=PackageLoader("receiver.web", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    sheets = [(files("receiver.web") / "static" / name).read_text(encoding="utf-8") for name in SHEETS]
    style = "\n".join(sheets)
    return environment.get_template("replay.html").render(
        style=style,
        policy=_policy(style),
        version=version,
        traces=[_shown(trace) for trace in traces],
        ratios=ratios,
    )


def _policy(style: str) -> str:
    """The content security policy that the page gives itself: its own style sheet, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(f"\n{style}\n  ".encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'"


def _shown(trace: Mapping[str, Any]) -> dict[str, Any]:
    """What the template needs on one trace."""
    over_time, by_hour = trace["over_time"], trace["by_hour"]
    most = pictures.highest(list(over_time.values()))
    first = trace["policies"][0]["name"]
    against = trace["against"] if trace["against"] in by_hour else None
    return {
        "trace": trace,
        "by_the_hour": trace["setting"]["billing"] == "hour",
        "plot": pictures.plot(trace["policies"], by_the_hour=trace["setting"]["billing"] == "hour"),
        "panels": [pictures.panel(name, found, most) for name, found in over_time.items()],
        "days": pictures.days(trace["begins"], trace["until"]),
        "first": first,
        "against": against,
        "hours": pictures.hours(by_hour[first], by_hour.get(against), against or ""),
        "by_hour": list(zip(by_hour[first], by_hour.get(against) or by_hour[first], strict=True)),
    }
