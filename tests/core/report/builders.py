"""A month, and lives in it, so that a test says only what matters to it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Billing, Budget, Policy, Pool
from receiver.core.model.usage import IdleSpan, Owner, Usage, WorkloadLife
from receiver.core.money.budget import Month, month_of
from receiver.core.report.pool_changes import PoolChange, PoolWay
from tests.core import builders as core

START = datetime(2026, 10, 1, tzinfo=UTC)
MONTH: Month = month_of(START, "UTC")
AFTER = MONTH.end + timedelta(days=2)
HOUR = timedelta(hours=1)
L40S = "an.g1.l40s.kube.x1"
H100 = "an.g1.h100.kube.x1"
A100_X8 = "g4g.kube.xlarge"
PRICES = {L40S: Decimal("1.29"), H100: Decimal("2.99"), A100_X8: Decimal("14.32")}
KINDS = {L40S: "L40S", H100: "H100", A100_X8: "A100-80"}
GPUS = {L40S: 1, H100: 1, A100_X8: 8}
PER_GPU = {"L40S": Decimal("1.29"), "A100-40": Decimal("1.09"), "A100-80": Decimal("1.79"), "H100": Decimal("2.99")}


def at(hours: float) -> datetime:
    """That many hours after the month began."""
    return START + hours * HOUR


def a_life(instance: str = "i-1", begins: float = 0, lasts: float | None = 1, **changes: Any) -> NodeLife:
    """A node that began *begins* hours into the month and lasted *lasts* hours; None: it lives."""
    size = changes.get("size", L40S)
    given: dict[str, Any] = {
        "pool": f"pool-{KINDS[size].lower()}",
        "name": f"node-{instance}",
        "size": size,
        "created_at": at(begins),
        "price_usd_per_hour": PRICES[size],
        "gone_at": None if lasts is None else at(begins + lasts),
        "gpus": GPUS[size],
    }
    return core.a_life(instance, **{**given, **changes})


def a_workload(name: str = "train", created: float = 0, waited: float | None = 0, **changes: Any) -> WorkloadLife:
    """A Job of namespace ml, created *created* hours into the month, whose pod was bound *waited* minutes later."""
    bound = None if waited is None else at(created) + timedelta(minutes=waited)
    given: dict[str, Any] = {"namespace": "ml", "created_at": at(created), "bound_at": bound, "gpus": 1}
    return WorkloadLife(workload=f"ml/Job/{name}", **{**given, **changes})


def a_usage(instance: str = "i-1", workload: str = "ml/Job/train", hours: float = 1, **changes: Any) -> Usage:
    """*hours* of one GPU that *workload* held of *instance*, all of it measured and busy."""
    given: dict[str, Any] = {
        "month": MONTH.name,
        "namespace": workload.partition("/")[0],
        "owner": Owner(team="vision"),
        "held": 3600 * hours,
        "measured": 3600 * hours,
        "busy": 3600 * hours * 0.8,
        "memory": 3600 * hours * 0.5,
        "peak_engine": 0.99,
        "peak_memory": 0.6,
    }
    return Usage(instance=instance, workload=workload, **{**given, **changes})


def an_idle_span(workload: str = "ml/StatefulSet/lab", since: float = 0, **changes: Any) -> IdleSpan:
    """One GPU that *workload* held idle for too long, from *since* hours into the month, for an hour."""
    given: dict[str, Any] = {
        "team": "vision",
        "gpus": 1.0,
        "usd_per_hour": PRICES[L40S],
        "until": at(since + 1),
    }
    return IdleSpan(workload=workload, since=at(since), **{**given, **changes})


def a_pool_change(**changes: Any) -> PoolChange:
    """A pool of one-GPU nodes that would have saved USD 1240."""
    given: dict[str, Any] = {
        "way": PoolWay.ADD,
        "gpus": 1,
        "smallest": 1,
        "beside": "a100-80",
        "usd": Decimal("6890.20"),
        "changed_usd": Decimal("5650.20"),
        "share": 0.74,
    }
    return PoolChange(**{**given, **changes})


def a_policy(**changes: Any) -> Policy:
    """A pool for each of three sizes, and a budget of USD 5000."""
    pools = tuple(
        Pool(
            id=f"pool-{KINDS[size].lower()}",
            name=KINDS[size].lower(),
            size=size,
            resources={"nvidia.com/gpu": GPUS[size]},
            max_nodes=50,
            price_usd_per_hour=PRICES[size],
        )
        for size in KINDS
    )
    given: dict[str, Any] = {
        "pools": pools,
        "budget": Budget(monthly_usd=Decimal(5000)),
        "billing": Billing(),
        "gpu_kinds": KINDS,
        "gpu_prices": PER_GPU,
    }
    return Policy(**{**given, **changes})
