"""Named situations: how a life stands when its test begins."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from receiver.adapters.observe import ObservedCloud, ObservedCluster
from receiver.core.model.policy import Budget, Policy, Pool
from receiver.ports import Store
from receiver.replay.world.objects import Behaviour, Job, Timings, WorldPool
from tests.core.builders import HOUR, MINUTE, a_pool
from tests.given.life import BIG_SIZE, FAST, GPU, POOL, PRICE, REST, Life, a_job, a_policy, a_world, until_cordoned
from tests.given.pods import bound

USABLE = 5 * MINUTE  # a node that is bought now is usable by then


def at_zero(
    store: Store,
    *pools: Pool,
    nodes: int | Mapping[str, int] = 0,
    mode: str = "act",
    heartbeats: bool = True,
    rest: timedelta = REST,
    behaviour: Behaviour | None = None,
    timings: Timings = FAST,
    stock: Mapping[str, int | None] | None = None,
    kind: Mapping[str, Any] | None = None,
    world: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
    **changes: Any,
) -> Life:
    """No work, and *pools* (one of one-GPU nodes when none is given) that have no nodes, or *nodes* usable ones each.

    *nodes* may also be given by the names of the pools.
    *kind* is what else each pool is at Civo and *world* what else the world is; *changes* are fields of the policy,
    which may also be given whole.
    """
    policy = policy or a_policy(*pools, **changes)
    counts = nodes if isinstance(nodes, Mapping) else {pool.name: nodes for pool in policy.pools}
    kinds = [
        WorldPool(id=p.id, size=p.size, resources=p.resources, count=counts.get(p.name, 0), **(kind or {}))
        for p in policy.pools
    ]
    made = a_world(*kinds, timings=timings, behaviour=behaviour, stock=stock or {}, **(world or {}))
    return _observed(Life(made, policy, store, mode, heartbeats=heartbeats, rest=rest))


def idle_nodes(store: Store, count: int = 1, *pools: Pool, **changes: Any) -> Life:
    """*count* usable, empty nodes created at START."""
    return at_zero(store, *pools, nodes=count, **changes)


def busy_nodes(store: Store, count: int = 1, *pools: Pool, duration: timedelta | None = None, **changes: Any) -> Life:
    """*count* nodes created at START, each with a pod that runs for *duration*, or until it is deleted."""
    life = idle_nodes(store, count, *pools, **changes)
    for vm in life.world.lives:
        life.world.add_pod(bound(f"on-{vm.hostname}", vm.hostname, duration=duration))
    return life


def two_pools(
    store: Store, first: str = "a", second: str = "b", *, other: Mapping[str, Any] | None = None, **changes: Any
) -> Life:
    """Two empty pools for the same work; the second is dearer, or differs as *other* says."""
    return at_zero(
        store, a_pool(first), a_pool(second, **(other or {"price_usd_per_hour": Decimal("2.00")})), **changes
    )


def small_and_big(store: Store, **changes: Any) -> Life:
    """An empty pool `small` of one GPU a node and a dearer empty one, `big`, of eight."""
    eight = a_pool("big", size=BIG_SIZE, resources={GPU: 8}, price_usd_per_hour=9 * PRICE)
    return at_zero(store, a_pool("small"), eight, **changes)


def waiting(store: Store, *jobs: Job, pool: Pool | None = None, **changes: Any) -> Life:
    """*jobs* (one of one GPU when none is given) wait, and no node is there."""
    life = at_zero(store, *((pool,) if pool else ()), **changes)
    life.submit(*(jobs or (a_job(),)))
    return life


def working(store: Store, *jobs: Job, lasts: timedelta = USABLE, **changes: Any) -> Life:
    """Nodes that were bought for *jobs* (one of 20 hours when none is given) run them since; *lasts* is how long that
    took."""
    life = waiting(store, *(jobs or (a_job("runs", duration=20 * HOUR),)), **changes)
    life.run(lasts)
    return life


def experienced(store: Store) -> Life:
    """A pool that has bought six nodes, which are all busy for hours."""
    first = a_job("first", pods=6, duration=5 * HOUR)
    return working(store, first, lasts=6 * MINUTE, timings=replace(FAST, jitter=0.2))


def in_removal(store: Store, *pools: Pool, **changes: Any) -> Life:
    """A node whose job ended is cordoned for its removal."""
    life = at_zero(store, *pools, **changes)
    until_cordoned(life)
    return life


def at_the_stop(store: Store, usd: str = "1.00", **changes: Any) -> Life:
    """Two nodes, whose first hours (2.58) are beyond a budget of *usd*; one of them runs a job for 20 hours."""
    life = at_zero(store, budget=Budget(monthly_usd=Decimal(1000)), **changes)
    life.world.resize(POOL, 2)
    life.submit(a_job("runs", duration=20 * HOUR))
    life.run(USABLE)
    return with_budget(life, usd)


def with_budget(life: Life, usd: str | None) -> Life:
    """The same life with another monthly amount of its budget, or without a budget."""
    budget = life.policy.budget or Budget(monthly_usd=Decimal(0))
    changed = None if usd is None else replace(budget, monthly_usd=Decimal(usd))
    life.policy = replace(life.policy, budget=changed)
    return life


def restarted(life: Life, store: Store, **changes: Any) -> Life:
    """A new process of the same policy on the same world, over *store*."""
    return _observed(Life(**{"world": life.world, "policy": life.policy, "store": store, "mode": life.mode, **changes}))


def observing(life: Life) -> Life:
    """The same life, which may only look."""
    life.mode = "observe"
    return _observed(life)


def _observed(life: Life) -> Life:
    if life.mode == "observe":
        life.wrap_cloud, life.wrap_cluster = ObservedCloud, ObservedCluster
    return life
