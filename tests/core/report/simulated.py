"""A month as the ledger of a small company would hold it: two teams and some work without a label, three sizes, idle
time, nodes that came and went. The dice are seeded, so that it is the same month each time."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Budget, Commitment, Policy, ReportPolicy, UnitOfWork
from receiver.core.model.usage import Owner, Unwatched, Usage, WorkloadLife
from receiver.core.money.attribution import MonthToDate, attribute
from receiver.core.money.budget import Month
from receiver.core.report.lines import Counted
from receiver.core.report.report import Found, Report, report
from tests.core.report.builders import A100_X8, AFTER, H100, HOUR, L40S, MONTH, a_life, a_policy, at

VISION = Owner(team="vision", project="detector", workload_class="training", cost_center="cc-7")
SEARCH = Owner(
    team="search", project="ranking", workload_class="inference", environment="prod", priority_class="production"
)
REPORTS = ReportPolicy(
    units=(
        UnitOfWork(name="epoch", query="sum(epochs)", only={"team": "vision"}),
        UnitOfWork(name="requests", query="sum(requests)", per=Decimal(1000), only={"namespace": "search"}),
        UnitOfWork(name="experiment", query="sum(experiments)"),
    ),
    commitments=(
        Commitment(size=L40S, term_months=12, usd_per_hour=Decimal("1.09")),
        Commitment(size=A100_X8, term_months=12, usd_per_hour=Decimal("12.72")),
        Commitment(size=A100_X8, term_months=36, usd_per_hour=Decimal("11.12")),
        Commitment(size="an.g1.h200sxm.kube.x1", term_months=12, usd_per_hour=Decimal("3.19")),
    ),
)
COUNTS = {"epoch": 412.0, "requests": 8_450_000.0}


@dataclass
class SimulatedMonth:
    """What the ledger holds; *dice* make it."""

    dice: Random = field(default_factory=lambda: Random(7))
    lives: list[NodeLife] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    unwatched: list[Unwatched] = field(default_factory=list)
    workloads: list[WorkloadLife] = field(default_factory=list)
    policy: Policy = field(
        default_factory=lambda: a_policy(
            reports=REPORTS, budget=Budget(monthly_usd=Decimal(16000), teams={"vision": Decimal(2500)})
        )
    )

    def counted(self) -> list[Counted]:
        """What the queries of units of work said."""
        return [Counted(month=MONTH.name, name=name, count=count, at=AFTER) for name, count in COUNTS.items()]

    def found(self, now: datetime = AFTER, month: Month = MONTH, seeded: Decimal = Decimal(0)) -> Found:
        """What a report is made from."""
        shared = attribute(self.lives, self.usage, self.unwatched, MonthToDate(month, now, self.policy.billing), seeded)
        return Found(lives=self.lives, usage=self.usage, workloads=self.workloads, attributed=shared, counts=COUNTS)

    def report(self, team: str | None = None, now: datetime = AFTER, **more: Any) -> Report:
        """The report of it."""
        return report(self.found(now, **more), self.policy, MONTH, now, team)

    def train(self, number: int, size: str, begins: float, lasts: float, owner: Owner = VISION) -> None:
        """A Job on a node of its own, which waited for it and idled a little after it."""
        name = f"train-{number}"
        instance = f"i-{name}"
        boot, after = 0.12, self.dice.uniform(0.0, 0.8)
        self.lives.append(a_life(instance, begins, lasts + boot + after, size=size))
        failed = self.dice.random() < 0.1
        namespace = owner.team or "sandbox"
        self._use(instance, f"{namespace}/Job/{name}", lasts, owner, idle=self.dice.uniform(0, 0.3))
        self.workloads.append(
            WorkloadLife(
                workload=f"{namespace}/Job/{name}",
                namespace=namespace,
                owner=owner,
                gpus=1,
                created_at=at(begins - self.dice.expovariate(8)),
                bound_at=at(begins + boot),
                ended_at=at(begins + boot + lasts),
                completed=not failed,
            )
        )

    def serve(self, name: str, size: str, gpus: int, hours: float, instance: str, **peaks: float) -> None:
        """A Deployment of the search team that held *gpus* of *instance* for *hours*."""
        workload = f"search/Deployment/{name}"
        self._use(instance, workload, gpus * hours, SEARCH, idle=0.35, **peaks)
        self.workloads.append(
            WorkloadLife(
                workload=workload,
                namespace="search",
                owner=SEARCH,
                gpus=gpus,
                created_at=at(-300),
                bound_at=at(-300) + timedelta(minutes=4),
            )
        )

    def _use(self, instance: str, workload: str, hours: float, owner: Owner, idle: float, **peaks: float) -> None:
        held = hours * HOUR.total_seconds()
        measured = held * self.dice.uniform(0.93, 1.0)
        self.usage.append(
            Usage(
                month=MONTH.name,
                instance=instance,
                workload=workload,
                namespace=workload.partition("/")[0],
                owner=owner,
                held=held,
                measured=measured,
                idle=measured * idle,
                busy=measured * (1 - idle) * self.dice.uniform(0.5, 0.95),
                memory=measured * self.dice.uniform(0.2, 0.8),
                peak_engine=peaks.get("engine", 0.98),
                peak_memory=peaks.get("memory", self.dice.uniform(0.5, 0.97)),
            )
        )


def a_month() -> SimulatedMonth:
    """85 nodes' lives: training by day on one-GPU nodes, serving all month on an eight-GPU node."""
    month = SimulatedMonth()
    month.lives.append(a_life("i-serving", -300, None, size=A100_X8))
    hours = (MONTH.end - MONTH.start) / HOUR
    month.serve("ranker", A100_X8, 4, hours, "i-serving", engine=0.88, memory=0.62)
    month.serve("embedder", A100_X8, 2, hours, "i-serving", engine=0.10, memory=0.08)
    for number in range(60):
        day, hour = number // 2, 8 + month.dice.uniform(0, 9)
        weekend = day % 7 in (2, 3)  # the month begins on a Thursday
        owner = Owner() if number % 9 == 4 else VISION
        if not weekend:
            month.train(number, L40S, 24 * day + hour, month.dice.uniform(0.5, 20), owner)
    for number in range(100, 140):
        month.train(number, H100, month.dice.uniform(0, 700), month.dice.uniform(0.3, 14))
    month.lives.append(a_life("i-forgotten", 300, 31.5))  # somebody held it back, and nobody used it
    month.unwatched.append(Unwatched(month=MONTH.name, instance="i-serving", seconds=2 * 3600 * 2))
    month.workloads.append(
        WorkloadLife(workload="vision/Job/waits", namespace="vision", owner=VISION, gpus=8, created_at=at(735))
    )
    return month
