"""Which pool is cheapest for waiting work: USD per GPU that the work would use, not per GPU of the node."""

from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any, Generic, TypeVar

from receiver.core.model.pods import COMPUTE, Pod, Workload, gpus_in, owner_of
from receiver.core.model.policy import Objective, Policy, Pool
from receiver.core.scaling.capacity import Tally
from receiver.core.scaling.demand import is_of_devices, preference, refusal, take
from receiver.core.scaling.failures import blame
from receiver.core.scaling.neighbours import most_on_a_host
from receiver.core.scaling.rooms import Kind, Requests, requests_of, shape
from receiver.core.scaling.template import NextLabels

WIDE = 4  # times the GPUs of the smallest sibling: a pod for that one leaves three quarters of the node idle
SAME_PRICE = Decimal("0.1")  # per GPU: prices more than a tenth apart mean different GPUs
T = TypeVar("T")


class LabelIndex(Generic[T]):
    """*things* that each have a pool, by the labels of its next node: most pods that select a pool select one."""

    def __init__(self, things: Sequence[T], labels_of: Callable[[T], NextLabels]) -> None:
        self._things, self._labels_of = things, labels_of
        self._by_label: dict[str, dict[str | None, list[T]]] = {}

    def selected(self, pod: Pod) -> Sequence[T]:
        """Those that one label of *pod*'s node selector leaves, the one that leaves fewest; all without a selector."""
        fewest = self._things
        for key, value in pod.scheduling.node_selector.items():
            if key not in self._by_label:
                index: dict[str | None, list[T]] = {}
                with blame() as blamed:
                    for thing in self._things:
                        labels = self._labels_of(thing)
                        blamed.pool = labels.pool.id
                        for possible in labels.any_of(key):
                            index.setdefault(possible, []).append(thing)
                self._by_label[key] = index
            matches = self._by_label[key].get(value, [])
            fewest = matches if len(matches) < len(fewest) else fewest
        return fewest


class Matching:
    """Where each shape of pod fits, and the markets of those that fit the same pools."""

    def __init__(self, tallies: Sequence[Tally], pairs: Collection[tuple[str, str]] = ()) -> None:
        """Match pods to the pools of *tallies*, except *pairs* of an owner of pods and a pool's id."""
        self._tallies = tallies
        self._pairs = pairs
        self._fitting: dict[Kind, tuple[Tally, ...]] = {}
        self._orders: dict[tuple[int, ...], tuple[Tally, ...]] = {}
        self._markets: dict[int, Market] = {}
        self._gang_orders: dict[object, list[Tally]] = {}
        self._by_label: LabelIndex[Tally] = LabelIndex(tallies, lambda x: NextLabels(x.pool, x.state.offer))

    def fitting(self, pod: Pod) -> tuple[Tally, ...]:
        """The pools that a node for *pod* could be bought in: what it prefers first, then the cheapest per GPU."""
        kind = self._kind(pod)
        if kind not in self._fitting:
            # The index reads every pool's labels: with pairs left out because of a bug, each pool is judged by itself.
            candidates = self._tallies if self._pairs else self._by_label.selected(pod)
            fits: list[Tally] = []
            with blame() as blamed:
                for tally in candidates:
                    blamed.pool = tally.pool.id
                    if not self._apart(pod, tally) and refusal(pod, tally.pool, tally.state) is None:
                        fits.append(tally)
            ordered = tuple(ranked(fits, lambda x: (-_preference(pod, x), by_price(x))))
            self._fitting[kind] = self._orders.setdefault(tuple(map(id, ordered)), ordered)  # equal ones are one
        return self._fitting[kind]

    def market(self, pod: Pod) -> "Market":
        """The competition for the pools that *pod* fits."""
        fitting = self.fitting(pod)
        if id(fitting) not in self._markets:
            self._markets[id(fitting)] = Market(fitting)
        return self._markets[id(fitting)]

    def gang_order(self, workload: Workload, fitting: Sequence[Tally]) -> list[Tally]:
        """*fitting* by what the gang prefers, then by what the new nodes for all of it would cost."""
        key = (tuple(self._kind(pod) for pod in workload.pods), tuple(map(id, fitting)), _paid_for(fitting))
        if key not in self._gang_orders:
            self._gang_orders[key] = _by_gang_price(workload, fitting)
        return self._gang_orders[key]

    def refusals(self, pod: Pod) -> Mapping[str, str]:
        apart = {x.pool.name: "an internal error, see the log" for x in self._tallies if self._apart(pod, x)}
        reasons: dict[str, str] = {}
        with blame() as blamed:
            for tally in self._tallies:
                blamed.pool = tally.pool.id
                reason = None if tally.pool.name in apart else refusal(pod, tally.pool, tally.state)
                if reason is not None:
                    reasons[tally.pool.name] = reason
        return apart | reasons

    def _apart(self, pod: Pod, tally: Tally) -> bool:
        return bool(self._pairs) and (owner_of(pod), tally.pool.id) in self._pairs

    def _kind(self, pod: Pod) -> Kind:
        return (owner_of(pod), *shape(pod)) if self._pairs else shape(pod)


class Market:
    """The waiting pods that fit the same pools, and the order in which those pools are tried."""

    def __init__(self, fitting: Sequence[Tally]) -> None:
        self._fitting = fitting
        self._offers: dict[Requests, Mapping[str, int]] = {}
        with blame() as blamed:
            for tally in fitting:
                blamed.pool = tally.pool.id
                self._offers[_offer(tally)] = tally.offer
        self._waiting: Counter[Requests] = Counter()
        self._largest_first: list[tuple[int, Requests]] = []  # negative GPUs, and the whole request
        self._orders: dict[object, Sequence[Tally]] = {}

    def enter(self, pod: Pod) -> None:
        if most_on_a_host(pod) is not None:
            return  # it fills no node together with others like it
        asks = requests_of(pod)
        if asks not in self._waiting:
            insort(self._largest_first, (-pod.gpus, asks))
        self._waiting[asks] += 1

    def leave(self, pod: Pod) -> None:
        if most_on_a_host(pod) is not None:
            return
        self._waiting[requests_of(pod)] -= 1

    def order(self, pod: Pod) -> Sequence[Tally]:
        """The pools for a new node for *pod*: what it prefers first, then the least USD per useful GPU."""
        most = most_on_a_host(pod)
        if most is None:
            useful = {offer: self._useful(resources, pod) for offer, resources in self._offers.items()}
        else:
            useful = {offer: _useful_apart(resources, pod, most) for offer, resources in self._offers.items()}
        key = (shape(pod), tuple(sorted(useful.items())), _paid_for(self._fitting))
        if key not in self._orders:
            self._orders[key] = ranked(
                self._fitting,
                lambda x: (-_preference(pod, x), x.price / max(1, useful[_offer(x)]), by_price(x)),
            )
        return self._orders[key]

    def _useful(self, resources: Mapping[str, int], pod: Pod) -> int:
        """GPUs of a new node that *pod* and those that wait beside it would use, the largest first."""
        free = dict(resources)
        take(free, pod.asks)
        gpus_left = gpus_in(free)
        for negative, asks in self._largest_first:
            if gpus_left <= 0:
                break
            if gpus_left + negative < 0 or not self._waiting[asks]:
                continue
            if any(is_of_devices(resource) for resource, _ in asks):
                pods = range(self._waiting[asks])
                all(take(free, dict(asks)) for _ in pods)  # stops at the first that does not fit
                gpus_left = gpus_in(free)
                continue
            needs = [(resource, n) for resource, n in asks if n and (resource in free or resource not in COMPUTE)]
            fits = min((free.get(resource, 0) // n for resource, n in needs), default=0)
            count = max(0, min(fits, self._waiting[asks]))
            for resource, n in needs if count else ():
                free[resource] -= n * count
            gpus_left += negative * count
        return gpus_in(resources) - gpus_left


def _useful_apart(resources: Mapping[str, int], pod: Pod, most: int) -> int:
    """GPUs of a new node that *pod* and others like it would use, of which it takes at *most* so many."""
    free, asks = dict(resources), pod.asks
    pods = range(most)
    all(take(free, asks) for _ in pods)  # stops at the first that does not fit
    return gpus_in(resources) - gpus_in(free)


def _paid_for(tallies: Iterable[Tally]) -> tuple[int, ...]:
    """What changes their order while nodes are opened: how far commitments pay for new nodes."""
    return tuple(tally.paid_for - tally.within[-1] for tally in tallies if tally.paid_for is not None)


def by_price(tally: Tally) -> tuple[Decimal, str]:
    """The order of pools when nothing else decides: USD per GPU of a full node, then the name."""
    return tally.saved_by(1) / max(1, tally.pool.gpus_per_node), tally.pool.name


def _preference(pod: Pod, tally: Tally) -> int:
    return preference(pod, tally.pool, tally.state.offer)


def ranked(tallies: Iterable[Tally], key: Callable[[Tally], tuple[Any, ...]]) -> list[Tally]:
    """*tallies* in the order of *key*; an exception that it raises belongs to the pool."""
    keys: list[tuple[tuple[Any, ...], Tally]] = []
    with blame() as blamed:
        for tally in tallies:
            blamed.pool = tally.pool.id
            keys.append((key(tally), tally))
    return [tally for _, tally in sorted(keys, key=itemgetter(0))]


def gang_kind(workload: Workload) -> tuple[Requests, ...]:
    return tuple(requests_of(pod) for pod in workload.pods)


def _offer(tally: Tally) -> Requests:
    return tuple(sorted(tally.offer.items()))


def _by_gang_price(workload: Workload, tallies: Sequence[Tally]) -> list[Tally]:
    needed: dict[Requests, int] = {}

    def cost(tally: Tally) -> tuple[int, Decimal, tuple[Decimal, str]]:
        offer = _offer(tally)
        if offer not in needed:
            needed[offer] = _nodes_filled(workload, tally.offer)
        liked = sum(_preference(pod, tally) for pod in workload.pods)
        return -liked, tally.cost_of(needed[offer]), by_price(tally)

    return ranked(tallies, cost)


def _nodes_filled(workload: Workload, offer: Mapping[str, int]) -> int:
    """How many empty nodes a gang fills, first fit."""
    nodes: list[dict[str, int]] = []
    pods_on: list[int] = []  # pods that must not be on one node with more like them
    for pod in workload.pods:
        asks, most = pod.asks, most_on_a_host(pod)
        able = (n for n in range(len(nodes)) if most is None or pods_on[n] < most)
        place = next((n for n in able if take(nodes[n], asks)), len(nodes))
        if place == len(nodes):
            nodes.append(dict(offer))
            pods_on.append(0)
            take(nodes[-1], asks)
        pods_on[place] += most is not None
    return len(nodes)


def goes_early(pool: Pool, policy: Policy) -> bool:
    """True when idle nodes of *pool* need not stay until their paid hour ends: a small pod that lands on a wide node
    keeps all of it."""
    if policy.objective is Objective.WAIT or not policy.billing.by_the_hour:
        return False
    return any(is_wide_beside(other, pool) for other in policy.kinds_of_pools)


def is_small(pool: Pool, policy: Policy) -> bool:
    """True for a pool beside one of wide nodes, unless its own nodes are wide beside those of a third pool."""
    if not policy.billing.by_the_hour:
        return False
    kinds = policy.kinds_of_pools
    return any(is_wide_beside(pool, x) for x in kinds) and not any(is_wide_beside(x, pool) for x in kinds)


def is_wide_beside(small: Pool, wide: Pool) -> bool:
    return wide.gpus_per_node >= WIDE * small.gpus_per_node and alike(wide, small)


def stays_warm(pool: Pool, policy: Policy) -> bool:
    """True when GPUs of *pool* are kept free for what comes next (`keep_warm`).

    Where cost and wait are balanced, those are the pools of small nodes beside wide ones.
    """
    if policy.objective is not Objective.BALANCED:
        return policy.objective is Objective.WAIT
    return is_small(pool, policy)


def alike(one: Pool, other: Pool) -> bool:
    """True when a pod of *one* may land in *other* too: the same resources, taints and price per GPU."""
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
