"""The results of a demo, from the simulator's books and the autoscaler's records. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median
from typing import Any

from demo.plan import PoolPlan
from demo.scenario import PLACEABLE, UNIT_SECONDS, Expects, Submitted
from demo.timeline import Timeline, growth_calls, moment

JSON = Mapping[str, Any]

NOTICES = (
    ("a pool grew", ("GPU pool", "->", "nodes"), "success", True),
    ("a pool shrank", ("GPU pool", "->", "nodes"), "success", False),
    ("a pod fits no pool", ("No GPU pool can hold",), "warning", None),
    ("the budget is held", ("hold line",), "warning", None),
    ("the last job is held", ("does not grow: the cluster budget",), "failure", None),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A timed growth: *seconds* from the pod's creation to the call to Civo (None: no call came), *deliveries* that
    woke the step which decided it, and what those were about."""

    job: str
    seconds: float | None
    decision: int | None
    deliveries: tuple[int, ...]
    about: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A condition of a successful demo."""

    what: str
    holds: bool
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The end of a demo. *waits* are seconds by job from hand-in to the last pod's start, money is USD."""

    waits: Mapping[str, float]
    growths: tuple[Growth, ...]
    nodes: int
    units: int
    paid_usd: Decimal
    always_on_usd: Decimal
    peak: Mapping[str, int]
    lasted_seconds: float
    checks: tuple[Check, ...]

    @property
    def worked(self) -> bool:
        """True when every check holds."""
        return all(check.holds for check in self.checks)


def summarize(
    pools: Sequence[PoolPlan],
    submitted: Sequence[Submitted],
    timeline: Timeline,
    actions: Sequence[JSON],
    state: JSON,
    began: datetime,
) -> Summary:
    """Return the summary; *state* is the simulator's last one, *actions* are the autoscaler's."""
    ended = moment(state["now"])
    lasted = (ended - began).total_seconds()
    waits = {f["id"]: float(f["wait_seconds"]) for f in state["finished"]}
    growths = tuple(_growths(pools, submitted, timeline, actions))
    sizes = {f"kube-node-{p.size}" for p in pools}
    charges = [c for c in state["charges"] if c["code"] in sizes]
    peak = {p.name: timeline.required_peak.get(p.id, 0) for p in pools if timeline.required_peak.get(p.id, 0)}
    return Summary(
        waits=waits,
        growths=growths,
        nodes=len(charges),
        units=round(sum(c["num_hours"] for c in charges) * 3600 / UNIT_SECONDS),
        paid_usd=Decimal(state["paid"]["usd"]),
        always_on_usd=always_on(pools, peak, lasted),
        peak=peak,
        lasted_seconds=lasted,
        checks=tuple(_checks(pools, submitted, timeline, growths, waits, state)),
    )


def always_on(pools: Sequence[PoolPlan], peak: Mapping[str, int], lasted_seconds: float) -> Decimal:
    """Return USD for nodes of the *peak* size of each pool, kept for *lasted_seconds* and billed by started units."""
    units = max(1, math.ceil(lasted_seconds / UNIT_SECONDS))
    prices = {p.name: Decimal(p.price) for p in pools}
    hourly = sum((prices[name] * count for name, count in peak.items()), Decimal(0))
    return hourly * units * UNIT_SECONDS / 3600


def _growths(
    pools: Sequence[PoolPlan], submitted: Sequence[Submitted], timeline: Timeline, actions: Sequence[JSON]
) -> Iterator[Growth]:
    ids = {p.name: p.id for p in pools}
    calls = sorted(growth_calls(timeline.calls), key=lambda c: c[0])
    for entry in submitted:
        if entry.job.expects is not Expects.GROWTH:
            continue
        pool = ids[entry.job.pool or ""]
        called = next((at for at, of, _ in calls if of == pool and at >= entry.at), None)
        decision = _decision_behind(pool, called, actions)
        by = tuple(timeline.decisions.get(decision or 0, {}).get("evidence", {}).get("woken_by", ()))
        yield Growth(
            job=entry.job.id,
            seconds=None if called is None else (called - entry.at).total_seconds(),
            decision=decision,
            deliveries=by,
            about=tuple(timeline.called(timeline.deliveries[d]) for d in by if d in timeline.deliveries),
        )


def _decision_behind(pool: str, called: datetime | None, actions: Sequence[JSON]) -> int | None:
    """Return the decision of the last growth of *pool* that was opened before the call."""
    if called is None:
        return None
    opened = [
        (moment(a["opened_at"]), a["decision"])
        for a in actions
        if a["pool"] == pool and a["kind"] == "grow" and moment(a["opened_at"]) <= called + timedelta(seconds=1)
    ]
    return max(opened, key=lambda o: o[0])[1] if opened else None


def _checks(
    pools: Sequence[PoolPlan],
    submitted: Sequence[Submitted],
    timeline: Timeline,
    growths: Sequence[Growth],
    waits: Mapping[str, float],
    state: JSON,
) -> Iterator[Check]:
    placeable = [s.job.id for s in submitted if s.job.expects in PLACEABLE]
    idle = [job for job in placeable if job not in waits]
    yield Check(
        what=f"every placeable job ran ({len(placeable)})",
        holds=bool(placeable) and not idle,
        detail=f"did not: {', '.join(idle)}" if idle else "",
    )
    kills = [f"{k['pod']} on {k['node']}" for k in state["kills"]]
    yield Check(what="no busy node was deleted", holds=not kills, detail=", ".join(kills))
    too_big = [p.name for p in pools if _size(state, p.id) != (p.min_nodes, p.min_nodes)]
    yield Check(what="every pool is back at its minimum", holds=not too_big, detail=", ".join(too_big))
    # A look that was due in that very second may find the pod before its alert comes: that is as good, and rare.
    unnamed = [g.job for g in growths if not g.deliveries]
    uncalled = [g.job for g in growths if g.seconds is None]
    yield Check(
        what=f"most timed growths name the delivery that woke them ({len(growths) - len(unnamed)} of {len(growths)})",
        holds=len(unnamed) * 2 < len(growths) and not uncalled,
        detail=", ".join({**dict.fromkeys(unnamed), **dict.fromkeys(uncalled)}),
    )
    held = [s.job for s in submitted if s.job.expects not in PLACEABLE]
    bought = [j.id for j in held if j.pool and timeline.required_peak.get(_id(pools, j.pool), 0)]
    ran = [j.id for j in held if j.id in waits]
    yield Check(
        what="nothing was bought for the job after the hold line, nor for the one that fits nowhere",
        holds=bool(held) and not bought and not ran,
        detail=", ".join(sorted({*bought, *ran})),
    )
    for what, words, severity, up in NOTICES:
        told = any(_matches(notice, words, severity, up) for notice in timeline.notices)
        yield Check(what=f"a message said that {what}", holds=told)


def _id(pools: Sequence[PoolPlan], name: str) -> str:
    return next(p.id for p in pools if p.name == name)


def _size(state: JSON, pool: str) -> tuple[int, int]:
    """Return the count asked for and the instances listed; a pool that Civo does not list has none."""
    found = next((p for p in state["pools"] if p["id"] == pool), None)
    return (found["required"], len(found["instances"])) if found else (0, 0)


def _matches(notice: JSON, words: Sequence[str], severity: str, up: bool | None) -> bool:
    title = str(notice["title"])
    if notice.get("severity") != severity or not all(word in title for word in words):
        return False
    if up is None:
        return True
    counts = title.rpartition(": ")[2].removesuffix(" nodes").split(" -> ")
    return len(counts) == 2 and (int(counts[1]) > int(counts[0])) is up


def lines(summary: Summary) -> Iterator[str]:
    """Return the summary as lines without colours."""
    waits = sorted(summary.waits.values())
    if waits:
        yield (
            f"jobs       {len(waits)} ran; from hand-in to start: p50 {median(waits):.1f} s, longest {waits[-1]:.1f} s"
        )
    timed = sorted(g.seconds for g in summary.growths if g.seconds is not None)
    if timed:
        yield (
            f"reaction   {len(timed)} growths; from the pod's creation to the call to Civo: "
            f"p50 {median(timed):.1f} s, longest {timed[-1]:.1f} s"
        )
    for growth in summary.growths:
        took = "no call " if growth.seconds is None else f"{growth.seconds:4.1f} s  "
        named = ", ".join(map(str, growth.deliveries))
        by = f"woken by delivery {named}" if named else "found by a look that was due by itself"
        about = f" ({', '.join(growth.about)})" if growth.about else ""
        yield f"             {took}{growth.job:<8} {by}{about}"
    yield (
        f"paid       {summary.units} paid units of {UNIT_SECONDS} s for {summary.nodes} nodes: "
        f"${summary.paid_usd:.2f} (the simulator's books)"
    )
    size = ", ".join(f"{count} {name}" for name, count in summary.peak.items())
    saved = 1 - summary.paid_usd / summary.always_on_usd if summary.always_on_usd else Decimal(0)
    yield (
        f"always on  pools of the peak size ({size}) for these {summary.lasted_seconds:.0f} s: "
        f"${summary.always_on_usd:.2f}; {saved:.0%} less was paid"
    )
