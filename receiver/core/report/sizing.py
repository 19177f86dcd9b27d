"""What right-sizing compares: whole GPUs, what they cost, and how wide a workload was."""

from collections.abc import Iterable, Mapping
from decimal import Decimal

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Policy
from receiver.core.model.usage import WorkloadLife
from receiver.core.money.attribution import By, Share, key_of
from receiver.core.money.cost import to_cents

WHOLE_GPU = "nvidia.com/gpu"


def whole_gpus(lives: Iterable[NodeLife], policy: Policy) -> Mapping[str, str]:
    """The kind of GPU by instance, where its pool hands out whole ones: peaks of slices say nothing about the GPU."""
    pools = {life.pool: policy.pool(life.pool) for life in lives}
    sliced = {i for i, pool in pools.items() if pool is not None and set(pool.resources) != {WHOLE_GPU}}
    return {x.instance: policy.gpu_kinds.get(x.size, "") for x in lives if x.pool not in sliced}


def widest(workloads: Iterable[WorkloadLife]) -> Mapping[tuple[str, str], int]:
    """The most GPUs that each of *workloads* asked for at once, by name and life."""
    found: dict[tuple[str, str], int] = {}
    for each in workloads:
        named = (each.workload, each.life)
        found[named] = max(each.gpus, found.get(named, 0))
    return found


def per_gpu_hour(lives: Iterable[NodeLife]) -> Mapping[str, Decimal]:
    """USD per GPU-hour by instance, at the price in force when the node was first seen."""
    return {
        x.instance: x.price_usd_per_hour / Decimal(x.gpus) for x in lives if x.price_usd_per_hour is not None and x.gpus
    }


def prices_of_kinds(policy: Policy) -> Mapping[str, Decimal]:
    """What a GPU-hour of each kind would cost: in the cheapest pool that has it, by the list where none has."""
    pools: dict[str, Decimal] = {}
    for pool in policy.pools:
        kind = policy.gpu_kinds.get(pool.size)
        if kind and pool.price_usd_per_hour is not None and set(pool.resources) == {WHOLE_GPU}:
            each = pool.price_usd_per_hour / pool.gpus_per_node
            pools[kind] = min(each, pools.get(kind, each))
    return {**policy.gpu_prices, **pools}


def cost_by_life(shares: Iterable[Share], policy: Policy, team: str | None) -> Mapping[tuple[str, str, str], Decimal]:
    """USD in cents of what was held, by workload, its life and kind of GPU: everybody's, or one *team*'s."""
    found: dict[tuple[str, str, str], Decimal] = {}
    for share in shares:
        row = share.usage
        if row is not None and (team is None or row.owner.team == team):
            key = (row.workload, row.life, key_of(share, By.GPU_KIND, policy))
            found[key] = found.get(key, Decimal(0)) + share.usd
    return to_cents(found)
