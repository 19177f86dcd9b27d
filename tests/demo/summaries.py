"""A demo that went well, and its summary."""

from typing import Any

from demo.plan import PoolPlan
from demo.scenario import DemoJob, Expects, Submitted
from demo.summary import Summary, summarize
from demo.timeline import Timeline
from tests.demo.seen import BEGAN, POOL, at, decision, delivery, grown, notice, pool, put, seen, state

POOLS = (PoolPlan(name="l40s", id=POOL, price="1.20"), PoolPlan(name="h200", id="5f3c-a4", price="3.60"))
CODE = "kube-node-an.g1.l40s.kube.x1"
SYSTEM_NODE = {"num_hours": 3 / 60, "code": "kube-node-g4s.kube.medium"}  # the cluster's own: no part of the demo
TRAIN = DemoJob(id="train", at=0, runs=10, expects=Expects.GROWTH, pool="l40s")
LATE = DemoJob(id="late", at=30, runs=10, expects=Expects.HOLD, pool="h200")
TOLD = (
    notice("GPU pool l40s: 0 -> 1 nodes"),
    notice("GPU pool l40s: 1 -> 0 nodes"),
    notice("No GPU pool can hold demo/quantum-0", "warning"),
    notice("GPU budget 2026-09 has reached its hold line (80%)", "warning"),
    notice("GPU pool h200 does not grow: the cluster budget is past its hold line; 1 pod waits", "failure"),
)
FINISHED = {"id": "train", "wait_seconds": 9.5, "finished_at": at(20).isoformat()}


def a_summary(
    *,
    told: tuple[dict[str, Any], ...] = TOLD,
    woken_by: tuple[int, ...] = (2,),
    during: dict[str, Any] | None = None,
    **end: Any,
) -> Summary:
    """Return the summary of a demo that went well but for what is given."""
    timeline = Timeline(pools={p.id: p.name for p in POOLS})
    round_ = {
        "calls": [put(1.5)],
        "log": [delivery(2, 1.2), *told],
        "decisions": [decision(3, 0, 1, woken_by=woken_by)],
        "pools": [pool(required=1)],
        **(during or {}),
    }
    timeline.observe(seen(9, **round_))
    last = {
        "finished": [FINISHED],
        "charges": [{"num_hours": 1 / 60, "code": CODE}, {"num_hours": 2 / 60, "code": CODE}, SYSTEM_NODE],
        "paid": {"usd": "0.06"},
        **end,
    }
    submitted = [Submitted(job=TRAIN, at=BEGAN), Submitted(job=LATE, at=at(30))]
    return summarize(POOLS, submitted, timeline, [grown(1.4, 3)], state(70, **last), BEGAN)
