"""What the live stack of the browser tests plays: half a day of work, then a moment when everything happens at once.

Seven pools, so that every state is on one page: `l40s` has waited for a node since a moment, `h100` finds no stock,
`a100` is paused by a silence, `batch` is pinned by a person, `notebooks` are closed by a window, Civo does not answer
what is asked for `h200`, and people are asked about `review`. The cluster's budget warns, a team's is at hold, and
the heartbeat has been silent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from demo.plan import OPERATOR_TOKEN, PoolPlan, StackPlan
from receiver.adapters.clock import SystemClock
from receiver.replay.world.objects import Job
from tests.browser.live import LiveStack

NAMESPACE = "ml"
POOL_LABEL = "kubernetes.civo.com/civo-node-pool"
HOURS = 7  # of history before the stack goes live
TICK = timedelta(minutes=3)  # of that history; pages take longer gaps for time in which nobody looked
WARNED, HELD = Decimal("0.62"), Decimal("0.9")  # of the cluster's budget, of one team's
PATIENCE = 120.0  # seconds until the live part shows all of it
NIGHT = [{"name": "closed", "times": [{"start_time": "00:00", "end_time": "24:00"}], "max_nodes": 0}]
NO_STOCK = "are free at Civo"
ASKED = {"growth_above_usd_per_hour": 5, "wait": "20m", "unanswered": "hold"}


def pool_id(number: int) -> str:
    """The id of the pool of that number."""
    return f"5f3c0000-0000-4000-8000-0000000000b{number}"


def a_pool(number: int, name: str, size: str, price: str, gpus: int = 1, **given: Any) -> PoolPlan:
    """A pool whose nodes nobody but pods of that pool may use."""
    settings: dict[str, Any] = {"max_nodes": 6, "cooldown_grow": "0s", "idle_for": "10m", "provision_timeout": "20m"}
    return PoolPlan(name=name, id=pool_id(number), size=size, gpus=gpus, price=price, **{**settings, **given})


POOLS = (
    a_pool(1, "l40s", "an.g1.l40s.kube.x1", "1.29"),
    a_pool(2, "h100", "an.g1.h100.kube.x8", "23.92", gpus=8, max_nodes=2),
    a_pool(3, "a100", "g4g.kube.small", "1.79"),
    a_pool(4, "batch", "g4g.40.kube.small", "1.09"),
    a_pool(5, "notebooks", "an.g1.l40s.kube.x2", "2.58", gpus=2, receiver={"windows": NIGHT}),
    a_pool(6, "h200", "an.g1.h200sxm.kube.x1", "3.49"),
    a_pool(7, "review", "g4g.kube.medium", "3.58", gpus=2, receiver={"approval": ASKED}),
)
IDS = {pool.name: pool.id for pool in POOLS}


def month_zone(now: datetime) -> str:
    """A zone in which all of the history at *now* is in one month: in another one a team has spent nothing yet."""
    return "Etc/GMT+12" if now.day == 1 and now.hour < HOURS + 1 else "UTC"


PLAN = StackPlan(
    pools=POOLS,
    tick="2s",
    granularity="1h",
    removal_margin="5m",
    budget={
        "monthly_usd": 4500,
        "timezone": month_zone(SystemClock().now()),
        "teams": {"vision": 1250, "language": 1250},
    },
    simulator={
        "stock": {"an.g1.h100.kube.x8": 0},
        "timings": {"build": "4m", "boot": "20s", "driver": "12m", "delete": "20s", "finished_lingers": "30m"},
    },
    receiver={"heartbeat_interval": "30s", "cluster_name": "prod-lon1"},
)


@contextmanager
def playing(folder: Path) -> Iterator[LiveStack]:
    """Yield the stack when its pages show all of it; every process is stopped at the end."""
    stack = LiveStack(PLAN, folder, HOURS)
    now = SystemClock().now()
    stack.live_through([*_shift(stack.began, now), *_long(now)], TICK, timedelta(minutes=2), then=_waiting(now))
    stack.silence("ben", "Replacing the switch of rack 4", timedelta(hours=6), component="gpu-autoscaler", pool="a100")
    stack.silence("ben", "No sign of life", timedelta(hours=6), alertname="GpuAutoscalerHeartbeat")
    stack.simulator.fault(kind="error", face="civo", method="PUT", path=IDS["h200"], times=None)
    try:
        stack.start()
        _act(stack)
        stack.calm("30s")
        yield stack
    finally:
        stack.stop()


def _act(stack: LiveStack) -> None:
    """Do what people do to it once it runs, and wait until every page shows that."""
    stack.wait_until(lambda: _pool(stack, "l40s")["required"] > _pool(stack, "l40s")["ready"], PATIENCE, "a growth")
    # Held by a budget it would not even be asked for.
    stack.wait_until(lambda: NO_STOCK in stack.get("receiver", "/", text=True), PATIENCE, "a pool without stock")
    stack.override(
        {"kind": "pin", "pool": "batch", "nodes": 1, "for": "5h", "who": "ada", "why": "A demo for a customer"}
    )

    _budget(stack, "cluster", "", WARNED)
    _budget(stack, "team", "language", HELD)
    stack.wait_until(lambda: _shown(stack), PATIENCE, "a page with a silent source, utilization and a budget at hold")


def _budget(stack: LiveStack, scope: str, name: str, ratio: Decimal) -> None:
    """Cut a budget down so that *ratio* of it is spent."""
    scopes = stack.get("receiver", "/api/v1/budget")["scopes"]
    found = next(s for s in scopes if (s["scope"], s["name"]) == (scope, name))
    usd = Decimal(found["spent_usd"]) / ratio
    body = {"scope": scope, "name": name, "monthly_usd": f"{usd:.2f}", "who": "ada", "why": "Less money this month"}
    sent = {"confirm": True, **{k: v for k, v in body.items() if v}}
    stack.post("receiver", "/api/v1/budget", sent, OPERATOR_TOKEN)


def _shown(stack: LiveStack) -> bool:
    asked = stack.get("receiver", "/api/v1/questions")
    stages = {s["stage"] for s in stack.get("receiver", "/api/v1/budget")["scopes"]}
    return bool(asked) and {"warn", "hold"} <= stages and _pool(stack, "l40s")["utilization"] is not None


def _pool(stack: LiveStack, name: str) -> dict[str, Any]:
    found: dict[str, Any] = stack.get("receiver", f"/api/v1/pools/{IDS[name]}")
    return found


def _shift(start: datetime, now: datetime) -> list[Job]:
    """A job every half hour, each to one of three pools, for 25 to 70 minutes; the last is over before now."""
    plan = (("l40s", "vision", "resnet", 0.85), ("a100", "language", "tokenize", 0.30), ("batch", "", "sweep", 0.6))
    found = []
    at, number = start + timedelta(minutes=5), 0
    while at < now - timedelta(hours=2):
        pool, team, name, util = plan[number % len(plan)]
        runs = timedelta(minutes=25 + 15 * (number % 4))
        found.append(_job(f"{name}-{number}", at, pool, runs, team=team, gpu_util=util, pods=1 + number % 2))
        at, number = at + timedelta(minutes=30), number + 1
    return found


def _long(now: datetime) -> list[Job]:
    """Jobs that were begun some hours ago and do not end."""
    days = timedelta(days=9)
    return [
        _job("finetune", now - timedelta(hours=5), "l40s", days, team="vision", pods=2, gpu_util=0.92),
        _job("embeddings", now - timedelta(hours=4), "a100", days, team="language", gpu_util=0.04),
        _job("chat-service", now - timedelta(hours=3), "batch", days, team="language", gpu_util=0.45),
    ]


def _waiting(now: datetime) -> list[Job]:
    """Jobs that came a moment ago: for nodes to be bought, for nodes out of stock, and for a node nobody offers."""
    soon, days = now + timedelta(seconds=1), timedelta(days=9)
    return [
        _job("pretrain", soon, "h100", days, team="language", gpus_per_pod=8),
        _job("segment", soon, "l40s", days, team="vision", pods=2),
        _job("distill", soon, "h200", days, team="vision"),
        _job("rerank", soon, "a100", days, team="language"),
        _job("quantum", soon, None, days, team="vision", gpus_per_pod=16),
        _job("ablation", soon, "review", days, team="vision", pods=2, gpus_per_pod=2),
        _job("notebook-ada", soon, "notebooks", days, team="vision", gpus_per_pod=2),
    ]


def _job(name: str, at: datetime, pool: str | None, runs: timedelta, **given: Any) -> Job:
    selector = {POOL_LABEL: IDS[pool]} if pool else {}
    return Job(id=name, submit_at=at, duration=runs, namespace=NAMESPACE, node_selector=selector, **given)
