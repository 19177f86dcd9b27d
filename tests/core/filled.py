"""Small worlds in which work waits and some room exists or is on its way, and what brute force makes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache

from receiver.core.model.model import Facts, Node, PoolState, Stage
from receiver.core.model.pods import Pod, PodPhase, Requirement
from receiver.core.model.policy import Objective, Policy, Pool
from tests.core.builders import GPU, a_node, a_pod, a_policy, a_pool, facts


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Work that waits: GPUs of each pod, how many pods (several: a gang), and the places of the pools that fit."""

    each: int
    pods: int
    pools: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Filled:
    """Pools by GPUs per node and USD per hour, GPUs *free* on each usable node, and how many nodes are on their way."""

    sizes: tuple[int, ...]
    prices: tuple[Decimal, ...]
    free: tuple[tuple[int, ...], ...]
    coming: tuple[int, ...]
    asked: tuple[Asked, ...]

    @property
    def policy(self) -> Policy:
        """Nothing but demand is bought for."""
        return a_policy(*pools_of(self.sizes, self.prices), objective=Objective.COST)

    def facts(self) -> Facts:
        """What a step finds."""
        rows = zip(self.policy.pools, self.free, self.coming, strict=True)
        states = (a_state_of(pool, free, coming) for pool, free, coming in rows)
        return facts(*states, waiting=waiting(self.asked, len(self.sizes)))


def pools_of(sizes: Sequence[int], prices: Sequence[Decimal]) -> tuple[Pool, ...]:
    """Pools of nodes with so many GPUs each, far from any bound."""
    return tuple(
        a_pool(f"p{n}", resources={GPU: size}, price_usd_per_hour=price, labels={"pool": f"p{n}"}, max_nodes=99)
        for n, (size, price) in enumerate(zip(sizes, prices, strict=True))
    )


def a_state_of(pool: Pool, free: Sequence[int], coming: int) -> PoolState:
    """*pool* with a usable node for each of *free* (GPUs), and nodes on their way, the last of which is not listed."""
    per_node, nodes = pool.gpus_per_node, []
    for number, gpus in enumerate(free):
        name = f"{pool.name}-n{number}"
        held = min(per_node - 1, per_node - gpus) if per_node > 1 else 0
        pods = (a_pod(f"on-{name}", held, node=name, phase=PodPhase.RUNNING),) if held > 0 else ()
        nodes.append(a_node(name, allocatable={GPU: per_node}, pods=pods, idle_since=None))
    nodes += [on_its_way(pool, number) for number in range(coming - 1)]
    return PoolState(pool=pool.id, required=len(free) + coming, nodes=tuple(nodes))


def on_its_way(pool: Pool, number: int) -> Node:
    """A node of *pool* that is being built."""
    return a_node(f"{pool.name}-c{number}", stage=Stage.BUILDING, allocatable={}, idle_since=None)


def waiting(asked: Sequence[Asked], count: int) -> tuple[Pod, ...]:
    """The pods of *asked* in a cluster of *count* pools, the first one the oldest."""
    found: list[Pod] = []
    for number, work in enumerate(asked):
        names = tuple(f"p{n}" for n in work.pools)
        term = (Requirement(key="pool", operator="In", values=names),)
        affinity = () if len(names) == count else (term,)
        for rank in range(work.pods):
            gang = f"ml/g{number}" if work.pods > 1 else None
            found.append(a_pod(f"w{number:02}-{rank}", work.each, affinity=affinity, gang=gang))
    return tuple(found)


def rooms_of(found: Facts, policy: Policy) -> list[tuple[int, int]]:
    """What is free, as (the pool's place, GPUs), on usable nodes and on those that are on their way."""
    rooms = []
    for place, pool in enumerate(policy.pools):
        state = found.pool(pool.id)
        for node in state.nodes:
            rooms.append((place, node.free[GPU] if node.stage is Stage.USABLE else pool.gpus_per_node))
        rooms += [(place, pool.gpus_per_node)] * state.unlisted
    return rooms


def fits(asked: Sequence[Asked], rooms: Sequence[tuple[int, int]]) -> bool:
    """True if *asked* can be packed into *rooms* at all, gangs whole in one pool. Tries everything."""
    ordered = sorted(asked, key=lambda a: (len(a.pools), -a.each * a.pods))

    @cache
    def packed(at: int, free: tuple[tuple[int, int], ...]) -> bool:
        if at == len(ordered):
            return True
        work = ordered[at]
        return any(
            packed(at + 1, tuple(sorted(left)))
            for pool in work.pools
            for left in _placements(free, pool, work.each, work.pods)
        )

    return packed(0, tuple(sorted(rooms)))


def _placements(
    free: tuple[tuple[int, int], ...], pool: int, each: int, pods: int, at: int = 0
) -> list[tuple[tuple[int, int], ...]]:
    """Every way to put so many pods into the rooms of *pool* from place *at* on."""
    if not pods:
        return [free]
    found = []
    for place in range(at, len(free)):
        of, gpus = free[place]
        if of == pool and gpus >= each:
            left = (*free[:place], (of, gpus - each), *free[place + 1 :])
            found += _placements(left, pool, each, pods - 1, place)
    return found


def least(asked: Sequence[Asked], rooms: Sequence[tuple[int, int]], sizes: Sequence[int], most: int) -> int:
    """The least number of new nodes, of whatever pools, with which *asked* fits *rooms*; *most* is known to do."""

    def tried(left: int, first: int, more: list[tuple[int, int]]) -> bool:
        if fits(asked, [*rooms, *more]):
            return True
        return left > 0 and any(
            tried(left - 1, pool, [*more, (pool, sizes[pool])]) for pool in range(first, len(sizes))
        )

    return next(count for count in range(most + 1) if count == most or tried(count, 0, []))


def grown(found: Facts, bought: Mapping[str, int]) -> Facts:
    """*found* a step later: what was *bought* (by pool id) is on its way."""
    return replace(found, pools=tuple(replace(s, required=s.required + bought[s.pool]) for s in found.pools))


# Pool p0 is dearer, with one free GPU and a node on its way. Pool p1 is cheaper and empty. All nodes have two GPUs.
# Four pods fit both pools, the fifth only p1. Once two nodes were bought for them, one after the other.
TWO_STEPS = Filled(
    sizes=(2, 2),
    prices=(Decimal(2), Decimal(1)),
    free=((1,), ()),
    coming=(1, 0),
    asked=(*[Asked(each=1, pods=1, pools=(0, 1))] * 4, Asked(each=1, pods=1, pools=(1,))),
)
