"""From a pod that cannot be placed to the call to Civo, with real Prometheus and Alertmanager.

Each sample is a pod for a pool of its own, at a random moment, counted from the pod's creation (0.2 s before the
scheduler rejects it) to the arrival of the PUT at Civo. In three courses there is no watch of pods and the tick is 60s,
so that only the alert can make a pool grow within seconds; in three others all is as shipped except the intervals of
Prometheus. Several stacks are used, because the phase of Prometheus' scrapes and evaluations depends on names and ports
and is the same for a whole run.
"""

import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.figures import spread, version_of
from demo.plan import PoolPlan, StackPlan
from demo.scenario import POOL_LABEL
from demo.stack import Stack, running
from demo.timeline import group_of, growth_calls, moment
from demo.watch import LogTail, quiet
from receiver.adapters.clock import SystemClock

PATIENCE_SECONDS = 75.0  # a tick and more: a growth that only the tick brought counts, and shows
SETTLE_SECONDS = 10.0  # after the first heartbeat: by then the rules know the pools' names, which are in the labels
LEAST_SAMPLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """A measurement: *stacks* runs of *pools* samples each, *gap* seconds (from, to) apart, scrape and evaluation
    every *interval* seconds. *bound* is what p95 may be, in seconds.

    *alone* is the alert alone: pods are not watched, the tick is 60 s, and each pod waits until neither the tick nor a
    heartbeat is near.
    """

    name: str
    interval: int
    alone: bool
    stacks: int
    pools: int
    gap: tuple[float, float]
    bound: float | None

    @property
    def quiet_for(self) -> timedelta:
        """No tick and no heartbeat may come that soon after a pod: a scrape, an evaluation and a step."""
        return timedelta(seconds=2 * self.interval + 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One growth: *seconds* from the pod's creation to the PUT. *alert*, *delivery* and *call* are its parts, in
    seconds: until the alert fired, until the webhook had it, until the PUT; None where the growth came otherwise.
    *named* is whether its decision names deliveries, *own* whether one of them is of its own alert."""

    pool: str
    seconds: float
    named: bool
    own: bool
    alert: float | None = None
    delivery: float | None = None
    call: float | None = None


def plan_for(course: Course) -> StackPlan:
    """Return the stack: as many pools as samples, so that each alert is a group of its own.

    Its nodes take for ever to build, which keeps every alert firing: no message about a resolved one wakes the loop.
    """
    every = f"{course.interval}s"
    tick = "60s" if course.alone else "10s"
    return plan_of(course.pools, tick=tick, watch=not course.alone, scrape=every, evaluation=every)


def plan_of(pools: int, **timings: Any) -> StackPlan:
    """Return a stack of so many *pools* with these *timings*, the shipped ones for what is not named."""
    names = range(1, pools + 1)
    return StackPlan(
        pools=tuple(
            PoolPlan(name=f"pool-{n:02}", id=f"5f3c0000-0000-4000-8000-{n:012}", max_nodes=4, idle_for="1h")
            for n in names
        ),
        granularity="1h",
        removal_margin="5m",
        resend_delay=None,
        group_interval=None,
        simulator={"timings": {"build": "30m"}},
        **timings,
    )


def measure(course: Course, seed: int, say: Callable[[str], None]) -> list[Sample]:
    """Return the samples of all stacks. Raises TimeoutError when a growth does not come at all."""
    rng = random.Random(seed)
    samples: list[Sample] = []
    for number in range(course.stacks):
        plan = plan_for(course)
        with tempfile.TemporaryDirectory(prefix="gpu-autoscaler-bench-") as folder, running(plan, Path(folder)) as up:
            up.wait_for_heartbeat()
            time.sleep(SETTLE_SECONDS)
            say(f"{course.name}: stack {number + 1} of {course.stacks} is up")
            samples += _samples(up, course, rng)
    return samples


def _samples(stack: Stack, course: Course, rng: random.Random) -> list[Sample]:
    clock, log = SystemClock(), LogTail(stack.places.log("receiver"))
    lines: list[dict[str, Any]] = []
    found = []
    for pool in stack.plan.pools:
        time.sleep(rng.uniform(*course.gap))
        while course.alone and not quiet(stack, clock.now(), course.quiet_for):
            time.sleep(rng.uniform(1.0, 6.0))
        asked = clock.now()
        stack.submit(job_for(pool))

        def called(pool: PoolPlan = pool, asked: datetime = asked) -> bool:
            return _call(stack, pool.id, asked) is not None

        stack.wait_until(called, PATIENCE_SECONDS, f"growth of {pool.name}")
        time.sleep(0.3)  # the decision's row and the log line are written around the call
        lines += log.new()
        at = _call(stack, pool.id, asked)
        assert at is not None
        found.append(_sample(stack, pool, asked, at, lines))
    return found


def job_for(pool: PoolPlan) -> dict[str, Any]:
    """Return a job of one pod that fits only *pool*."""
    return {
        "id": pool.name,
        "duration": "1h",
        "namespace": "bench",
        "node_selector": {POOL_LABEL: pool.id},
    }


def _call(stack: Stack, pool: str, since: datetime) -> datetime | None:
    calls = growth_calls(stack.requests(face="civo", method="PUT", path=pool))
    return next((at for at, of, _ in calls if of == pool and at >= since), None)


def _sample(
    stack: Stack,
    pool: PoolPlan,
    asked: datetime,
    called: datetime,
    lines: Sequence[Mapping[str, Any]],
) -> Sample:
    actions = stack.get("receiver", "/api/v1/actions", pool=pool.id)
    decision = stack.get("receiver", f"/api/v1/decisions/{actions[0]['decision']}")
    woken_by = decision["evidence"]["woken_by"]
    deliveries = {int(x["delivery"]): x for x in lines if x.get("event") == "delivery"}
    own = [deliveries[d] for d in woken_by if d in deliveries and group_of(deliveries[d]).get("pool") == pool.id]
    parts: dict[str, float] = {}
    if own:
        fired = _fired(stack, pool.id, asked)
        delivered = moment(own[-1]["timestamp"])
        if fired is not None:
            parts["alert"] = (fired - asked).total_seconds()
            parts["delivery"] = (delivered - fired).total_seconds()
        parts["call"] = (called - delivered).total_seconds()
    return Sample(
        pool=pool.name,
        seconds=(called - asked).total_seconds(),
        named=bool(woken_by),
        own=bool(own),
        **parts,
    )


def _fired(stack: Stack, pool: str, since: datetime) -> datetime | None:
    """Return when the pool's alert began to fire, as Prometheus dates it."""
    alerts = stack.get("alertmanager-1", "/api/v2/alerts", filter=f'pool="{pool}"')
    starts = [moment(a["startsAt"]) for a in alerts if a["labels"].get("alertname") == "GpuPodsPending"]
    return min((s for s in starts if s >= since), default=None)


COURSES = (
    Course(name="reaction-alert-1s", interval=1, alone=True, stacks=3, pools=8, gap=(1.0, 2.0), bound=2.5),
    Course(name="reaction-alert-5s", interval=5, alone=True, stacks=6, pools=6, gap=(1.0, 6.0), bound=8.0),
    Course(name="reaction-alert-15s", interval=15, alone=True, stacks=5, pools=5, gap=(1.0, 16.0), bound=None),
    Course(name="reaction-1s", interval=1, alone=False, stacks=3, pools=8, gap=(2.0, 7.0), bound=2.5),
    Course(name="reaction-5s", interval=5, alone=False, stacks=3, pools=8, gap=(2.0, 7.0), bound=2.5),
    Course(name="reaction-15s", interval=15, alone=False, stacks=3, pools=8, gap=(2.0, 7.0), bound=2.5),
)


def run(course: Course, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Measure one course and return the result to keep; say the figures. In a course of the alert alone a sample counts
    only when its decision names a delivery of its own alert."""
    samples = measure(course, seed, say)
    counted = [s.seconds for s in samples if s.own or not course.alone]
    others = [s.seconds for s in samples if not s.own and course.alone]
    parts = {part: spread([v for s in samples if (v := getattr(s, part)) is not None]) for part in _PARTS}
    figures = spread(counted)
    say(f"{course.name}: scrape and evaluation {course.interval} s, {'alert alone' if course.alone else 'as shipped'}")
    say(f"  from the pod's creation to the PUT: {_shown(figures)}")
    if course.alone:
        for part, what in _PARTS.items():
            say(f"    {what:<28}{_shown(parts[part])}")
    if others:
        say(f"  not counted, found by a step that something else woke: {_shown(spread(others))}")
    passed = figures["n"] >= LEAST_SAMPLES and (course.bound is None or figures["p95"] <= course.bound)
    if course.bound is not None:
        say(f"  {'PASS' if passed else 'FAIL'}: p95 within {course.bound:g} s, at least {LEAST_SAMPLES} samples")
    plan = plan_for(course)
    return {
        "what": "seconds from a pod's creation to the PUT that buys its node",
        "settings": {
            "scrape_interval": plan.scrape,
            "evaluation_interval": plan.evaluation,
            "group_wait": "0s",
            "group_interval": "30s",
            "tick": plan.tick,
            "warm_up": "0s",
            "watch": plan.watch,
            "seed": seed,
        },
        "programs": {name: version_of(name) for name in ("prometheus", "alertmanager")},
        "figures": figures,
        **({"parts": parts, "not_counted": spread(others)} if course.alone else {}),
        "bound_seconds": course.bound,
        "passed": passed,
        "samples": [_kept(s) for s in samples],
    }


_PARTS = {"alert": "until the alert fires", "delivery": "until the webhook has it", "call": "until the PUT arrives"}


def _shown(figures: Mapping[str, float | int]) -> str:
    if not figures.get("n"):
        return "no sample"
    return f"n {figures['n']}, p50 {figures['p50']:.2f} s, p95 {figures['p95']:.2f} s, max {figures['max']:.2f} s"


def _kept(sample: Sample) -> dict[str, Any]:
    values: dict[str, Any] = {"pool": sample.pool, "seconds": round(sample.seconds, 3)}
    values |= {p: round(v, 3) for p in _PARTS if (v := getattr(sample, p)) is not None}
    return {**values, "named": sample.named, "own_alert": sample.own}
