"""Which pool is cheapest for waiting work: USD per GPU that the work would use, not per GPU of the node; and which
pools differ only in the number of GPUs per node."""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Generic, TypeVar

from receiver.core.model.pods import COMPUTE, Pod, Workload, gpus_in, owner_of
from receiver.core.model.policy import Objective, Policy, Pool
from receiver.core.scaling.capacity import Requests, Tally
from receiver.core.scaling.demand import new_node, preference, refusal, take

Kind = tuple[object, ...]
T = TypeVar("T")
UNKNOWN_PRICE = Decimal("Infinity")


def shape(pod: Pod) -> Kind:
    """What decides where a pod fits; pods of one shape are matched once."""
    return (
        requests_of(pod),
        tuple(sorted(pod.node_selector.items())),
        pod.affinity,
        pod.preferred,
        pod.tolerations,
        pod.pool_hint,
    )


class LabelIndex(Generic[T]):
    """*things* that each have a pool, by the labels of the pool's nodes: most pods that select a pool select one."""

    def __init__(self, things: Sequence[T], pool_of: Callable[[T], Pool]) -> None:
        self._things, self._pool_of = things, pool_of
        self._by_label: dict[str, dict[str | None, list[T]]] = {}

    def selected(self, pod: Pod) -> Sequence[T]:
        """Those that one label of *pod*'s node selector leaves, the one that leaves fewest; all without a selector."""
        fewest = self._things
        for key, value in pod.node_selector.items():
            if key not in self._by_label:
                index = self._by_label[key] = {}
                for thing in self._things:
                    index.setdefault(self._pool_of(thing).offered_labels.get(key), []).append(thing)
            found = self._by_label[key].get(value, [])
            fewest = found if len(found) < len(fewest) else fewest
        return fewest


class Matching:
    """Where each shape of pod fits, and the markets of those that fit the same pools."""

    def __init__(self, tallies: Sequence[Tally], pairs: Collection[tuple[str, str]] = ()) -> None:
        """Match pods to the pools of *tallies*, except *pairs* of an owner of pods and a pool's id."""
        self._tallies = tallies
        self._pairs = pairs
        self._fitting: dict[Kind, tuple[Tally, ...]] = {}
        self._orders: dict[tuple[int, ...], tuple[Tally, ...]] = {}
        self._markets: dict[tuple[str, ...], Market] = {}
        self._by_shape: dict[Kind, Market] = {}
        self._gang_orders: dict[object, list[Tally]] = {}
        self._by_label: LabelIndex[Tally] = LabelIndex(tallies, lambda tally: tally.pool)

    def fitting(self, pod: Pod) -> tuple[Tally, ...]:
        """The pools that a node for *pod* could be bought in: what it prefers first, then the cheapest per GPU."""
        kind = self._kind(pod)
        if kind not in self._fitting:
            # The index reads every pool's labels: with pairs left out because of a bug, each pool is judged by itself.
            candidates = self._tallies if self._pairs else self._by_label.selected(pod)
            near = [x for x in candidates if not self._apart(pod, x)]
            fits = [x for x in near if refusal(pod, x.pool, x.state) is None]
            ordered = tuple(sorted(fits, key=lambda x: (-preference(pod, x.pool), by_price(x))))
            self._fitting[kind] = self._orders.setdefault(tuple(map(id, ordered)), ordered)  # equal ones are one
        return self._fitting[kind]

    def market(self, pod: Pod) -> "Market":
        """The competition for the pools that *pod* fits."""
        kind = self._kind(pod)
        if kind not in self._by_shape:
            fitting = self.fitting(pod)
            key = tuple(x.pool.id for x in fitting)
            self._by_shape[kind] = self._markets.setdefault(key, Market(fitting))
        return self._by_shape[kind]

    def gang_order(self, workload: Workload, fitting: Sequence[Tally]) -> list[Tally]:
        """*fitting* by what the gang prefers, then by what the new nodes for all of it would cost."""
        key = (tuple(self._kind(pod) for pod in workload.pods), tuple(map(id, fitting)))
        if key not in self._gang_orders:
            self._gang_orders[key] = _by_gang_price(workload, fitting)
        return self._gang_orders[key]

    def refusals(self, pod: Pod) -> Mapping[str, str]:
        """Why *pod* does not fit each pool, by the pool's name."""
        apart = {x.pool.name: "an internal error, see the log" for x in self._tallies if self._apart(pod, x)}
        others = [x for x in self._tallies if not self._apart(pod, x)]
        return apart | {x.pool.name: reason for x in others if (reason := refusal(pod, x.pool, x.state)) is not None}

    def _apart(self, pod: Pod, tally: Tally) -> bool:
        return bool(self._pairs) and (owner_of(pod), tally.pool.id) in self._pairs

    def _kind(self, pod: Pod) -> Kind:
        """What is the same for pods that are matched alike."""
        return (owner_of(pod), *shape(pod)) if self._pairs else shape(pod)


class Market:
    """The waiting pods that fit the same pools, and the order in which those pools are tried."""

    def __init__(self, fitting: Sequence[Tally]) -> None:
        """Start with no pod waiting for *fitting*."""
        self._fitting = fitting
        self._offers = {_kind(x): new_node(x.pool, x.state) for x in fitting}
        self._waiting: Counter[Requests] = Counter()
        self._largest_first: list[tuple[int, Requests]] = []  # negative GPUs, and the whole request
        self._orders: dict[object, Sequence[Tally]] = {}

    def enter(self, pod: Pod) -> None:
        """*pod* waits."""
        asks = requests_of(pod)
        if asks not in self._waiting:
            insort(self._largest_first, (-pod.gpus, asks))
        self._waiting[asks] += 1

    def leave(self, pod: Pod) -> None:
        """*pod* was given room, or refused it."""
        self._waiting[requests_of(pod)] -= 1

    def order(self, pod: Pod) -> Sequence[Tally]:
        """The pools for a new node for *pod*: what it prefers first, then the least USD per useful GPU."""
        useful = {kind: self._useful(resources, pod) for kind, resources in self._offers.items()}
        key = (shape(pod), tuple(sorted(useful.items())))
        if key not in self._orders:
            self._orders[key] = sorted(
                self._fitting,
                key=lambda x: (
                    -preference(pod, x.pool),
                    price(x) / max(1, useful[_kind(x)]),
                    by_price(x),
                ),
            )
        return self._orders[key]

    def _useful(self, resources: Mapping[str, int], pod: Pod) -> int:
        """GPUs of a new node that *pod* and those that wait beside it would use, the largest first."""
        free = dict(resources)
        take(free, pod.asks)
        left = gpus_in(free)
        for negative, asks in self._largest_first:
            if left <= 0:
                break
            if left + negative < 0 or not self._waiting[asks]:
                continue
            known = [(resource, n) for resource, n in asks if n and (resource in free or resource not in COMPUTE)]
            fits = min((free.get(resource, 0) // n for resource, n in known), default=0)
            count = max(0, min(fits, self._waiting[asks]))
            for resource, n in known if count else ():
                free[resource] -= n * count
            left += negative * count
        return gpus_in(resources) - left


def by_price(tally: Tally) -> tuple[Decimal, str]:
    """The order of pools when nothing else decides: USD per GPU of a full node, then the name."""
    return price(tally) / max(1, tally.pool.gpus_per_node), tally.pool.name


def price(tally: Tally) -> Decimal:
    """USD per node-hour; an unknown price is higher than any."""
    known = tally.pool.price_usd_per_hour
    return UNKNOWN_PRICE if known is None else known


def gang_kind(workload: Workload) -> tuple[Requests, ...]:
    """What the pods of a gang ask for."""
    return tuple(requests_of(pod) for pod in workload.pods)


def _by_gang_price(workload: Workload, tallies: Iterable[Tally]) -> list[Tally]:
    needed: dict[Requests, int] = {}

    def cost(tally: Tally) -> tuple[int, Decimal, tuple[Decimal, str]]:
        kind = _kind(tally)
        if kind not in needed:
            needed[kind] = _nodes_for(workload.pods, new_node(tally.pool, tally.state))
        liked = sum(preference(pod, tally.pool) for pod in workload.pods)
        return -liked, price(tally) * needed[kind], by_price(tally)

    return sorted(tallies, key=cost)


def _nodes_for(pods: Sequence[Pod], resources: Mapping[str, int]) -> int:
    """How many empty nodes *pods* fill, first fit."""
    nodes: list[dict[str, int]] = []
    for pod in pods:
        asks = pod.asks
        if not any(take(free, asks) for free in nodes):
            nodes.append(dict(resources))
            take(nodes[-1], asks)
    return len(nodes)


def _kind(tally: Tally) -> Requests:
    """What a new node of the pool offers."""
    return tuple(sorted(new_node(tally.pool, tally.state).items()))


def requests_of(pod: Pod) -> Requests:
    """Everything that *pod* requests, as a key."""
    return tuple(sorted(pod.asks.items()))


WIDE = 4  # times the GPUs of the smallest sibling: a pod for that one leaves three quarters of the node idle
SAME_PRICE = Decimal("0.1")  # per GPU: prices more than a tenth apart mean different GPUs


def siblings(pool: Pool, policy: Policy) -> Sequence[Pool]:
    """The pools, itself included, that a pod of *pool* may land in: the same resources, taints and price per GPU."""
    return [other for other in policy.pools if _alike(pool, other)]


def is_small(pool: Pool, policy: Policy) -> bool:
    """True when no sibling of *pool* has smaller nodes, and one has `WIDE` times their GPUs or more."""
    size, kinds = pool.gpus_per_node, policy.kinds_of_pools
    wide = any(other.gpus_per_node >= WIDE * size and _alike(pool, other) for other in kinds)
    return wide and not any(other.gpus_per_node < size and _alike(pool, other) for other in kinds)


def goes_early(pool: Pool, policy: Policy) -> bool:
    """True when idle nodes of *pool* need not stay until their paid hour ends.

    A small pod that lands on a wide node keeps all of it for as long as it runs; a small node costs a fraction of that.
    """
    if policy.objective is Objective.WAIT or not policy.billing.by_the_hour:
        return False
    most = pool.gpus_per_node / WIDE
    return any(other.gpus_per_node <= most and _alike(pool, other) for other in policy.kinds_of_pools)


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
