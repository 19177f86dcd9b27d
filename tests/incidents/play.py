"""Incidents as an on-call meets them: played by the real step, read on the overview, by `status` and in messages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.given.life import Life
from tests.incidents import plays
from tests.incidents.views import Seen, seen

BOOK = Path(__file__).parent / "incidents.md"
HEAD = """# Incidents

Each incident as the person on call reads it: the overview on a phone, `gpu-autoscaler status`, and every message, the
oldest first. What can be tapped is in brackets. Generated from `play.py` by `make generate`; `make incident-pictures`
takes pictures of it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """What happened (*title*), the *play* that makes it happen, and the words of the *cause*, as a pattern: what is
    read in every place names it so."""

    title: str
    play: Callable[[], Life]
    cause: str


STOCK = r"too few an\.g1\.l40s\.kube\.x1 are free at Civo"
INCIDENTS: Mapping[str, Incident] = {
    name: Incident(title=title, play=play, cause=cause)
    for name, title, play, cause in (
        ("freeze", "A critical alert freezes everything; work waits", plays.frozen, "frozen by alert Maintenance"),
        ("stock-out", "Civo has no GPU of the kind; work waits", plays.out_of_stock, STOCK),
        ("stuck-node", "A bought node never gets its GPU", plays.stuck_node, "never became usable"),
        ("hold", "The budget is past its hold line; work waits", plays.held_with_waiting_work, "hold line"),
        ("calm-hold", "The budget is past its hold line; no work waits", plays.held_without_waiting_work, "hold line"),
        ("budget-stop", "The budget is past its stop line; work waits", plays.stopped, "past its stop line"),
        ("lost-telemetry", "GPU metrics are gone", plays.telemetry_lost, r"DCGM \(GPU telemetry\) does not answer"),
        ("silent-prometheus", "Prometheus does not answer; work waits", plays.prometheus_silent, "Prometheus does not"),
        ("sick-gpu", "A busy node loses its GPU", plays.sick_gpu, "has a broken node under ml/serve-0"),
        (
            "refused-configuration",
            "The changed configuration file has a mistake",
            plays.refused_configuration,
            "twelve",
        ),
        ("foreign-cordon", "Another person cordoned the only node; work waits", plays.foreign_cordon, "cordoned"),
        ("stock-out-below-maximum", "One of three nodes is there, Civo has no other", plays.stock_out_of_three, STOCK),
        ("full-for-seconds", "A pool is at its maximum for 7 s", plays.full_for_seconds, "at its maximum of 1 node"),
        ("full-for-hours", "A pool is at its maximum for three hours", plays.full_for_long, "at its maximum of 1 node"),
        ("freeze-of-a-full-pool", "An alert freezes a pool below its maximum", plays.frozen_below, "frozen by alert"),
        ("team-stop", "The budget of a team is spent", plays.stopped_for_a_team, "budget of team vision is past its"),
        (
            "gang",
            "A gang needs 2 nodes, 1 is allowed",
            plays.gang_beyond_maximum,
            "2 nodes, its maximum allows 1",
        ),
        ("xid", "A GPU under a pod reports XID 79", plays.xid_under_a_pod, "has a sick GPU under ml/serve-0: XID 79"),
        ("on-its-way", "A node is on its way", plays.node_on_its_way, "1 node on the way|0 -> 1 nodes"),
        ("observe", "Work waits in observe mode", plays.observed, "would (scale|go) 1 (->|→) 6"),
        ("approval", "Growth waits for an approval", plays.waiting_for_an_approval, "approv"),
    )
}


def generated() -> dict[Path, str]:
    """Return the book as it should be."""
    return {BOOK: "\n".join([HEAD, *(_part(incident.title, seen(incident.play())) for incident in INCIDENTS.values())])}


def _part(title: str, shown: Seen) -> str:
    blocks = {"Page": shown.page, "Status": shown.status, "Messages": "\n\n".join(shown.messages) or "none"}
    return f"## {title}\n\n" + "\n".join(f"{name}:\n\n```text\n{text}\n```\n" for name, text in blocks.items())
