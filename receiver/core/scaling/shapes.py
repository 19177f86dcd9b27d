"""Pools whose nodes differ in nothing but their number of GPUs, and what follows for the small and the wide ones."""

from collections.abc import Sequence
from decimal import Decimal

from receiver.core.model.policy import Objective, Policy, Pool

WIDE = 4  # times the GPUs of the smallest: a pod for such a node's smallest sibling leaves three quarters of it idle
SAME_PRICE = Decimal("0.1")  # per GPU: more than a tenth apart they are other GPUs, and another bargain


def siblings(pool: Pool, policy: Policy) -> Sequence[Pool]:
    """The pools, itself included, that a pod of *pool* may land in: the same resources, taints and price per GPU."""
    return [other for other in policy.pools if _alike(pool, other)]


def is_small(pool: Pool, policy: Policy) -> bool:
    """True when no sibling of *pool* has smaller nodes, and one has `WIDE` times their GPUs or more."""
    size = pool.gpus_per_node  # sizes first: it is asked for every pool, about every other one
    wide = any(other.gpus_per_node >= WIDE * size and _alike(pool, other) for other in policy.pools)
    return wide and not any(other.gpus_per_node < size and _alike(pool, other) for other in policy.pools)


def goes_early(pool: Pool, policy: Policy) -> bool:
    """True when idle nodes of *pool* need not stay until their paid hour ends.

    A small pod that lands on a wide node keeps all of it for as long as it runs; a small node costs a fraction of that.
    """
    if policy.objective is Objective.WAIT or not policy.billing.by_the_hour:
        return False
    most = pool.gpus_per_node / WIDE  # sizes first: it is asked for every idle node, and most pools are of one size
    return any(other.gpus_per_node <= most and _alike(pool, other) for other in policy.pools)


def stays_warm(pool: Pool, policy: Policy) -> bool:
    """True when GPUs of *pool* are kept free for what comes next (`receiver.core.scaling.headroom`)."""
    if policy.objective is Objective.BALANCED:
        return policy.billing.by_the_hour and is_small(pool, policy)
    return policy.objective is Objective.WAIT


def _alike(one: Pool, other: Pool) -> bool:
    if one is other:
        return True
    price, its = one.price_usd_per_hour, other.price_usd_per_hour
    if price is None or its is None or not other.max_nodes:
        return False
    per_gpu, its_per_gpu = price / one.gpus_per_node, its / other.gpus_per_node
    return (
        one.resources.keys() == other.resources.keys()
        and frozenset(one.taints) == frozenset(other.taints)
        and abs(per_gpu - its_per_gpu) <= SAME_PRICE * max(per_gpu, its_per_gpu)
    )
