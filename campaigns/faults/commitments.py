"""Pools with committed nodes: drawn by dice of their own, so that no other draw moves; and what the ledger may say."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from campaigns.faults.scenario import PoolPlan, Scenario
from receiver.core.model.policy import CommittedNodes
from receiver.replay.world.objects import VM

FAR = 90 * 86_400


def committed(seed: int, troubled: int, pools: Sequence[PoolPlan]) -> list[PoolPlan]:
    """Some pools have committed nodes, in a quarter of the worlds; some of these commitments end in the troubles."""
    dice = random.Random(f"commitments of {seed}")
    if dice.random() >= 0.25:
        return list(pools)
    drawn = [[dice.choice([1, 1, 2, 3]), dice.choice([FAR, FAR, dice.randint(600, max(601, troubled))])] for _ in pools]
    return [
        plan if plan.price is None or dice.random() < 0.3 else replace(plan, committed=each)
        for plan, each in zip(pools, drawn, strict=True)
    ]


def commitments_of(scenario: Scenario) -> tuple[CommittedNodes, ...]:
    """The commitments of the pools of *scenario*, a third cheaper than other nodes."""
    start = datetime.fromisoformat(scenario.start)
    return tuple(
        CommittedNodes(
            pool=plan.id,
            size=plan.name,
            nodes=plan.committed[0],
            usd_per_hour=Decimal(plan.price) * 2 / 3,
            until=start + timedelta(seconds=plan.committed[1]),
        )
        for plan in scenario.pools
        if plan.committed is not None and plan.price is not None
    )


def nodes_kept(commitments: Sequence[CommittedNodes], pool: str, now: datetime) -> int:
    """How many nodes of *pool* a commitment pays for at *now*."""
    return sum(each.nodes for each in commitments if each.pool == pool and now < each.until)


def usd_between(commitments: Sequence[CommittedNodes], pool: str | None, start: datetime, end: datetime) -> Decimal:
    """What the commitments of *pool* (None: of all) cost in that time."""
    total = Decimal(0)
    for each in commitments:
        if pool in (None, each.pool):
            seconds = max(0.0, (min(end, each.until) - start).total_seconds())
            total += Decimal(seconds) / 3600 * each.nodes * each.usd_per_hour
    return total


def most_covered(each: CommittedNodes, instances: Sequence[VM], month: datetime, now: datetime, step: timedelta) -> int:
    """The most paid units of *instances*, all of one pool, since *month* that the commitment may pay for: at no time
    more at once than are committed."""
    begun = sum((now - max(vm.created_at, month)) // step + 1 for vm in instances if vm.created_at <= now)
    at_once = ((now - min([now, *(vm.created_at for vm in instances)])) // step + 1) * each.nodes
    return min(begun, at_once + len(instances)) if each.until > month else 0
