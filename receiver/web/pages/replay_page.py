"""The page of a replay: one file without scripts or external resources."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import StrictUndefined

from receiver.web.pages.show import alone


def replay_page(traces: Sequence[Mapping[str, Any]], ratios: Mapping[str, Any], version: str) -> str:
    """Return the page on *traces*, each a `replay.document.page_document`; *ratios* are over all of them."""
    return alone(
        "replay.html",
        ["style.css", "replay.css"],
        StrictUndefined,
        policy_of=_policy,
        version=version,
        traces=[_shown(trace) for trace in traces],
        ratios=ratios,
    )


def _policy(style: str) -> str:
    """Return the page's content security policy, which allows only its own style sheet."""
    digest = base64.b64encode(hashlib.sha256(f"\n{style}\n  ".encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'"


def _shown(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template's values for one trace."""
    by_the_hour, by_hour = trace["setting"]["billing"] == "hour", trace["by_hour"]
    first = trace["policies"][0]["name"]
    against = trace["against"] if trace["against"] in by_hour else None
    return {
        "trace": trace,
        "by_the_hour": by_the_hour,
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
