"""The demo's scenario: four pools, a small budget, and jobs that each show one feature.

Money: one paid unit lasts 60 s instead of an hour and costs a sixtieth of the hour's price. The single jobs
cost cents; the gang's two nodes with eight GPUs each bring the spend over the hold line (80 %), so that the
last job has to wait. The bounds of `BUDGET_USD`: it must cover all that is spent and reserved when the gang
comes, also if every node of the singles has begun a second unit (USD 1.02), and the gang must reach 80 % of
it even if none has (USD 1.08).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from demo.plan import PoolPlan, StackPlan
from demo.timeline import Seen, Timeline

NAMESPACE = "demo"
POOL_LABEL = "kubernetes.civo.com/civo-node-pool"
UNIT_SECONDS = 60
BUDGET_USD = Decimal("1.05")


class Expects(StrEnum):
    """A job and the feature that it shows."""

    GROWTH = "growth"  # its pool grows for it, which is timed
    WARM = "warm"  # an idle, paid node runs it
    MISFIT = "misfit"  # it fits no pool
    HOLD = "hold"  # it comes beyond the hold line, and waits


PLACEABLE = (Expects.GROWTH, Expects.WARM)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoJob:
    """A job of *pods* pods of *gpus* GPUs each for the pool called *pool* (None: for a node of no pool).

    It is submitted no earlier than *at* seconds after the beginning.
    """

    id: str
    at: float
    runs: float
    expects: Expects
    pool: str | None
    pods: int = 1
    gpus: int = 1
    team: str = "vision"

    def fields(self, pools: tuple[PoolPlan, ...]) -> dict[str, Any]:
        """Return the job in the simulator's form."""
        ids = {p.name: p.id for p in pools}
        selector = {POOL_LABEL: ids[self.pool]} if self.pool else {"gpu": "quantum"}
        return {
            "id": self.id,
            "duration": f"{self.runs:g}s",
            "pods": self.pods,
            "gpus_per_pod": self.gpus,
            "gang": self.pods > 1,
            "namespace": NAMESPACE,
            "team": self.team,
            "node_selector": selector,
        }


POOLS = (
    PoolPlan(name="l40s", id="5f3c0000-0000-4000-8000-0000000000a1", size="an.g1.l40s.kube.x1", max_nodes=3),
    PoolPlan(name="a100", id="5f3c0000-0000-4000-8000-0000000000a2", size="g4g.kube.small", price="1.79", max_nodes=2),
    PoolPlan(
        name="h100",
        id="5f3c0000-0000-4000-8000-0000000000a3",
        size="an.g1.h100.kube.x8",
        gpus=8,
        price="23.92",
        max_nodes=2,
    ),
    PoolPlan(
        name="h200", id="5f3c0000-0000-4000-8000-0000000000a4", size="an.g1.h200sxm.kube.x1", price="3.49", max_nodes=1
    ),
)

# The cluster's own node, as a real cluster has one: kube-state-metrics runs on it, also when every GPU node is gone. It
# costs nothing here, and the autoscaler does not know of its pool.
SYSTEM = PoolPlan(
    name="system",
    id="5f3c0000-0000-4000-8000-0000000000c0",
    size="g4s.kube.medium",
    gpus=0,
    price="0",
    count=1,
    autoscaled=False,
    simulator={"cpu_cores": 2, "ram_mb": 4096, "disk_gb": 50},
)
KUBE_STATE_METRICS = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "kube-state-metrics-0",
        "namespace": "kube-system",
        "ownerReferences": [{"kind": "StatefulSet", "name": "kube-state-metrics", "controller": True}],
    },
    "spec": {
        "nodeSelector": {POOL_LABEL: SYSTEM.id},
        "containers": [{"name": "kube-state-metrics", "image": "kube-state-metrics:2"}],
    },
}

# train-3 comes while train-1 runs. Prometheus repeats a resolved alert for 15 min, which keeps the group of the
# pool's first alert in Alertmanager: the second waits for the group's next flush, at most group_interval.
TRAIN_1 = DemoJob(id="train-1", at=0, runs=24, expects=Expects.GROWTH, pool="l40s")
TRAIN_2 = DemoJob(id="train-2", at=7, runs=12, expects=Expects.GROWTH, pool="a100")
TRAIN_3 = DemoJob(id="train-3", at=14, runs=12, expects=Expects.GROWTH, pool="l40s")
GANG = DemoJob(id="gang", at=21, runs=16, expects=Expects.GROWTH, pool="h100", pods=2, gpus=8, team="language")
QUANTUM = DemoJob(id="quantum", at=25, runs=10, expects=Expects.MISFIT, pool=None, team="research")
TRAIN_4 = DemoJob(id="train-4", at=29, runs=6, expects=Expects.WARM, pool="a100")
LATE = DemoJob(id="late", at=36, runs=10, expects=Expects.HOLD, pool="h200", team="research")
JOBS = (TRAIN_1, TRAIN_2, TRAIN_3, GANG, QUANTUM, TRAIN_4, LATE)

WHAT_IT_IS = (
    "A simulated Civo region and cluster; real Prometheus, Alertmanager and autoscaler. The rules are those of "
    "rules/, unchanged except for the evaluation interval."
)
SHORTENED = (
    ("a paid hour", f"{UNIT_SECONDS} s; an idle node may be removed in its last 20 s, after 10 s without a pod"),
    ("a node", "usable 8 s after its request: 4 s build, 1 s boot, 3 s driver"),
    ("cooldown after growth", "3 s"),
    ("scrape, evaluation", "every 1 s"),
    ("Alertmanager", "group_wait 0 s as shipped, group_interval 5 s instead of 30 s"),
    ("tick, watch of pods", "60 s instead of 10 s, and off: within seconds only an alert can make a pool grow"),
    ("budget", f"${BUDGET_USD} a month, growth is held from 80 % on"),
)


def demo_plan() -> StackPlan:
    """Return the demo's stack."""
    return StackPlan(
        pools=(*POOLS, SYSTEM),
        simulator={"manifests": [KUBE_STATE_METRICS]},
        tick="60s",
        granularity=f"{UNIT_SECONDS}s",
        removal_margin="20s",
        budget={"monthly_usd": str(BUDGET_USD)},
        scrape="1s",
        evaluation="1s",
        group_interval="5s",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A job and when it was handed in."""

    job: DemoJob
    at: datetime


@dataclass(slots=True)
class Director:
    """Hands the jobs in when their time has come. *submit* and *cancel* do it, *is_quiet* says whether nothing but
    a new alert is about to wake the autoscaler."""

    submit: Callable[[DemoJob], None]
    cancel: Callable[[DemoJob], None]
    is_quiet: Callable[[datetime], bool]
    began: datetime
    submitted: list[Submitted] = field(default_factory=list)
    held_since: datetime | None = None
    withdrawn: bool = False
    _waited_since: datetime | None = None

    def advance(self, seen: Seen, timeline: Timeline, now: datetime) -> Iterator[str]:
        """Do what is due at *now*; yield a sentence for each thing done."""
        job = next((j for j in JOBS if j not in [s.job for s in self.submitted]), None)
        if job is not None:
            if self._is_due(job, seen, timeline, now):
                self.submitted.append(Submitted(job=job, at=now))
                self.submit(job)
                yield said(job)
            return
        if not self.withdrawn and self._may_withdraw(seen, timeline, now):
            self.withdrawn = True
            for given_up in (LATE, QUANTUM):
                self.cancel(given_up)
            yield "The owners withdraw late and quantum; idle nodes go before their next paid unit."

    def _is_due(self, job: DemoJob, seen: Seen, timeline: Timeline, now: datetime) -> bool:
        if now < self.began + timedelta(seconds=job.at):
            return False
        finished = {f["id"] for f in seen.state["finished"]}
        if job is TRAIN_4 and TRAIN_2.id not in finished:
            return False
        if job is LATE and not _told(timeline, "hold line"):
            return False
        if job.expects is not Expects.GROWTH:
            return True
        self._waited_since = self._waited_since or now
        if not self.is_quiet(now) and now - self._waited_since < timedelta(seconds=15):
            return False
        self._waited_since = None
        return True

    def _may_withdraw(self, seen: Seen, timeline: Timeline, now: datetime) -> bool:
        finished = {f["id"] for f in seen.state["finished"]}
        if not _told(timeline, "does not grow: the cluster budget"):
            return False
        self.held_since = self.held_since or now
        long_enough = now - self.held_since >= timedelta(seconds=5)
        return long_enough and all(j.id in finished for j in JOBS if j.expects in PLACEABLE)


def said(job: DemoJob) -> str:
    """Return in a sentence what is handed in, and what for."""
    size = f"{job.pods} pods of {job.gpus} GPUs" if job.pods > 1 else "1 pod"
    return {
        Expects.GROWTH: f"{job.id}: {size} for pool {job.pool}, {job.runs:g} s of work; the pool has no room",
        Expects.WARM: f"{job.id}: {size} for pool {job.pool}, {job.runs:g} s of work; an idle node is paid for",
        Expects.MISFIT: f"{job.id}: {size} with a node selector that no pool offers",
        Expects.HOLD: f"{job.id}: {size} for pool {job.pool}, after the budget's hold line",
    }[job.expects]


def _told(timeline: Timeline, words: str) -> bool:
    return any(words in notice["title"] for notice in timeline.notices)
