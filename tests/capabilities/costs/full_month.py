"""The document of a month in which everything happened that a report can tell."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from receiver.capabilities.costs.documents import ReportDocument
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.policy import Budget
from receiver.core.report.pool_changes import PoolWay
from receiver.core.report.report import Spoke, report
from receiver.core.report.rightsizing import InUse
from tests.core.report.builders import A100_X8, AFTER, MONTH, a_life, a_pool_change, an_idle_span, at
from tests.core.report.simulated import a_month

HOURS_OF_MONTH = 31 * 24


def full_document(team: str | None, under_way: bool) -> dict[str, Any]:
    """A month in which everything that a report can tell has happened."""
    month = a_month()
    month.policy = replace(
        month.policy,
        budget=Budget(monthly_usd=Decimal(16000), account_usd=Decimal(20000), teams={"vision": Decimal(2500)}),
    )
    month.lives += [a_life("i-new", 500, None, size=A100_X8, price_usd_per_hour=None, pool="pool-new")]
    now = at(700) if under_way else AFTER
    pause = Override(id="1", kind=OverrideKind.PAUSE, who="alice", why="upgrade", at=at(20), until=at(30))
    found = replace(
        month.found(now, seeded=Decimal("12.30")),
        watched={"pool-l40s": at(30), "pool-h100": at(30), "pool-a100-80": at(40)},
        in_use=[
            InUse(
                month=MONTH.name, workload="search/Deployment/ranker", gpus=4, used=3, seconds=3600.0 * HOURS_OF_MONTH
            ),
            InUse(month=MONTH.name, workload="vision/Job/train-100", gpus=1, used=1, seconds=3600.0),
        ],
        spoken=[Spoke(pool="pool-h100", at=at(600), detail="within_budget: budget of team vision hold at 80%")],
        overrides=[(pause, at(25))],
        account_usd=Decimal("15000.50"),
        idle_spans=[
            an_idle_span("vision/StatefulSet/lab", 10, until=at(14)),
            an_idle_span("vision/StatefulSet/lab", 40, ended=True, until=at(50)),
            an_idle_span("search/Job/index", 100, team="search", until=at(109), gpus=4.0, usd_per_hour=None),
        ],
    )
    made = report(found, month.policy, MONTH, now, team)
    if team is None:
        merged = {"way": PoolWay.MERGE, "pool": "a100-80-2", "gpus": 2, "changed_usd": Decimal("6902.20")}
        made = replace(made, pool_changes=(a_pool_change(), a_pool_change(**merged)))
    return ReportDocument.of(made, finalised=AFTER).document()
