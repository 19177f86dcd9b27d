"""A replay as a document: what `--json` prints, and what the table and the page are made from."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from receiver.core.model.policy import Pool
from receiver.core.money.cost import amount
from receiver.replay.contest import Result
from receiver.replay.figures import Ratio, by_hour, over_all, ratio
from receiver.replay.setting import Setting
from receiver.replay.traces import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One trace, played. *pools* are those of the first policy, *against* names the one that the others are compared
    with."""

    trace: Trace
    pools: Sequence[Pool]
    setting: Setting
    results: Sequence[Result]
    against: str | None = None


def document(replayed: Replayed) -> dict[str, Any]:
    """Return *replayed* JSON-able, its keys in a fixed order."""
    base = next((r.figures for r in replayed.results if r.name == replayed.against), None)
    by_the_hour = replayed.setting.by_the_hour

    def policy(result: Result) -> dict[str, Any]:
        found = None if base is None else ratio(result.figures, base, by_the_hour=by_the_hour)
        return {
            **result.figures.document(),
            "kind": result.kind,
            "against": None if found is None else asdict(found),
            "violations": list(result.violations),
            "budget": None if result.delays is None else result.delays.document(),
        }

    return {
        "trace": replayed.trace.source,
        "policies": [policy(result) for result in replayed.results],
        "against": replayed.against,
        "jobs": len(replayed.trace.jobs),
        "begins": _moment(replayed.setting.start),
        "last_submission": _moment(max(job.submit_at for job in replayed.trace.jobs)),
        "pools": [
            {
                "name": pool.name,
                "size": pool.size,
                "gpus_per_node": pool.gpus_per_node,
                "max_nodes": pool.max_nodes,
                "usd_per_node_hour": None if pool.price_usd_per_hour is None else amount(pool.price_usd_per_hour),
            }
            for pool in replayed.pools
        ],
        "setting": _setting(replayed.setting),
        "left_out": [str(trouble) for trouble in replayed.trace.left_out],
        "not_counted": dict(replayed.trace.uncounted),
        "notes": list(replayed.trace.notes),
    }


def page_document(replayed: Replayed) -> dict[str, Any]:
    """Return the document with what the page shows beside it: the waits by hour of day of each policy played."""
    played = {result.name: result.played for result in replayed.results if result.played is not None}
    return {
        **document(replayed),
        "by_hour": {name: [asdict(hour) for hour in by_hour(it)] for name, it in played.items()},
    }


def several(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the documents of several traces as one, with the geometric mean of the ratios of each policy."""
    ratios: dict[str, list[Ratio]] = {}
    for found in documents:
        for policy in found["policies"]:
            if policy["against"] is not None:
                ratios.setdefault(policy["name"], []).append(Ratio(**policy["against"]))
    whole = {name: asdict(over_all(of)) for name, of in ratios.items() if len(of) == len(documents)}
    return {"traces": list(documents), "ratios": whole}


def _moment(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _setting(setting: Setting) -> dict[str, Any]:
    """The setting with lengths of time in seconds; `start` is said beside it."""
    found: dict[str, Any] = {}
    for each in fields(setting):
        value = getattr(setting, each.name)
        if each.name in LENGTHS:
            found[f"{each.name}_s"] = value.total_seconds() if isinstance(value, timedelta) else None
        elif each.name != "start":
            found[each.name] = value
    return found


LENGTHS = frozenset(
    {"build", "boot", "driver", "delete", "image_pull", "tick", "watch", "scrape", "evaluation", "group_wait"}
)
