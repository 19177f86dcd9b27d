"""The smallest worlds: one pool, and what a test lets happen there."""

from typing import Any

from campaigns.faults.scenario import Event, PoolPlan, Scenario

POOL = PoolPlan(name="l40s", resources={"nvidia.com/gpu": 1}, max_nodes=3)


def a_job(at: float = 10, **changes: Any) -> Event:
    """A job of one pod."""
    what = {"id": "j0", "seconds": 600, "pods": 1, "each": 1, "resource": "nvidia.com/gpu", **changes}
    return Event(at=at, kind="job", what=what)


def small(*events: Event, pool: PoolPlan = POOL, troubled: int = 300, **changes: Any) -> Scenario:
    """One pool, a step every ten seconds."""
    start = "2026-11-20T12:00:00+00:00"
    return Scenario(
        **{"seed": 1, "ticks": [10], **changes}, start=start, pools=[pool], events=[*events], troubled=troubled
    )
