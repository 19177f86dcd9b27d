"""Pack work onto fewer nodes: which soft taints steer new pods, and which busy nodes could be emptied.

A soft taint (PreferNoSchedule) marks the nodes that should fill last, by how likely their work is to go on.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import prod

from receiver.core.model.devices import CLAIMS
from receiver.core.model.model import Facts, Node, PoolState, Stage
from receiver.core.model.pods import Pod, Together, owner_of
from receiver.core.model.policy import Objective, Packing, Policy, Pool, Taint
from receiver.core.money.cost import next_unit_at
from receiver.core.scaling.capacity import Tally
from receiver.core.scaling.demand import refusal, tolerates_cordon
from receiver.core.scaling.failures import blame
from receiver.core.scaling.market import goes_early, is_small
from receiver.core.scaling.node_holds import Blocks, node_hold
from receiver.core.scaling.rooms import Bin

LAST_WORKLOADS = 300  # workloads change, and so many predict as well as two thousand
WEIGHT_OF_THE_RULE = 5  # the heavy-tailed prior counts as much as so many workloads
A_YOUNG_AGE = timedelta(minutes=5)  # added to every age: most new work does not end at once
LATER = tuple(timedelta(minutes=m) for m in (10, 20, 40, 80, 160))
LATER_SECONDS = tuple(moment.total_seconds() for moment in LATER)


@dataclass(frozen=True, slots=True)
class Survival:
    """Estimates how long work goes on; *lengths* are the run times of past workloads in seconds, shortest first."""

    lengths: Sequence[float] = ()

    @classmethod
    def of(cls, lasted: Iterable[timedelta]) -> "Survival":
        return cls(tuple(sorted(length.total_seconds() for length in lasted)))

    def chance(self, age: timedelta, span: timedelta) -> float:
        """The chance (0-1) that work that has run for *age* runs for another *span*, which is positive."""
        return self.chances(age.total_seconds(), (span.total_seconds(),))[0]

    def goes_on(self, pods: Iterable[Pod], now: datetime) -> float:
        """The chance (0-1) that at least one of *pods* still runs later, averaged over the moments `LATER`."""
        begun = [p.times.bound_at or p.times.running_since or p.created_at for p in pods]
        ages = [max(0.0, (now - at).total_seconds()) for at in begun]
        of_each = [self.chances(age, LATER_SECONDS) for age in ages]
        all_end = [prod(1 - chances[n] for chances in of_each) for n in range(len(LATER))]
        return sum(1 - chance for chance in all_end) / len(LATER)

    def chances(self, age: float, later: Sequence[float]) -> list[float]:
        """The chances (0-1) that work that has run for *age* seconds runs on for each of so many seconds *later*."""
        lengths, count, old = self.lengths, len(self.lengths), age + A_YOUNG_AGE.total_seconds()
        survivors = count - bisect_right(lengths, age) + WEIGHT_OF_THE_RULE  # those that got as old, and the prior
        return [
            (count - bisect_right(lengths, age + span) + WEIGHT_OF_THE_RULE * old / (old + span)) / survivors
            for span in later
        ]


FILL_OTHERS_FIRST = Taint(key="gpu-autoscaler.io/fill-others-first", effect="PreferNoSchedule")
IDLE = Taint(key="gpu-autoscaler.io/idle", effect="PreferNoSchedule")
SMALL_NODES_FIRST = Taint(key="gpu-autoscaler.io/small-nodes-first", effect="PreferNoSchedule")
SOFT_TAINTS = (FILL_OTHERS_FIRST, IDLE, SMALL_NODES_FIRST)
AS_LIKELY = 0.02  # a node this close to the best chance (0-1) stays the one to fill: a flapping choice fills none
ENDS_SOON = timedelta(minutes=20)  # work should not start in so short a rest of a paid hour


def soft_taints(facts: Facts, policy: Policy, survival: Survival) -> Iterator[tuple[Node, tuple[Taint, ...]]]:
    """Yield the nodes whose soft taints are wrong, each with those that it should carry. A node that no pod can choose
    is left as it is, except that one in use is not called idle."""
    packs = policy.packing is Packing.FILL
    fills = packs and _fills(policy)
    for pool in policy.pools:
        state = facts.pool(pool.id)
        wide = goes_early(pool, policy)
        small = policy.objective is not Objective.WAIT and is_small(pool, policy)
        filled = _filled(in_use(state, pool), survival, facts.at) if fills and not wide else None
        for node in state.of(Stage.USABLE):
            carried = tuple(taint for taint in SOFT_TAINTS if taint in node.taints)
            wanted: tuple[Taint, ...] = ()
            if node_hold(node, Blocks.PODS) or (packs and not free_gpus(node.free, pool)):
                works = node.busy and node.registered
                wanted = tuple(taint for taint in carried if taint != IDLE) if works else carried
            elif fills and node is not filled:
                wanted = _last(node, wide=wide, small=small)
            elif packs and not fills and not node.busy and policy.billing.by_the_hour:
                ends = next_unit_at(node.created_at, facts.at, policy.billing)
                wanted = (IDLE,) if ends - facts.at <= ENDS_SOON else ()
            if set(carried) != set(wanted):
                yield node, wanted


def _last(node: Node, *, wide: bool, small: bool) -> tuple[Taint, ...]:
    """The taints of a node that is not the one to fill. More taints come later: any small node before a *wide* one,
    because a small pod there would keep all of it."""
    if small and not node.busy:
        return (IDLE,)
    idle = () if node.busy else (IDLE,)
    return (FILL_OTHERS_FIRST, *idle, *((SMALL_NODES_FIRST,) if wide else ()))


def compares(facts: Facts, policy: Policy) -> bool:
    """True when `soft_taints` depends on how long workloads last."""
    choices = (in_use(facts.pool(pool.id), pool) for pool in policy.pools if not goes_early(pool, policy))
    return policy.packing is Packing.FILL and _fills(policy) and any(len(nodes) > 1 for nodes in choices)


def changes_at(facts: Facts, policy: Policy) -> datetime | None:
    """The first moment after now at which an idle node's taints change by time alone."""
    if policy.packing is not Packing.FILL or _fills(policy) or not policy.billing.by_the_hour:
        return None
    usable = [n for p in policy.pools for n in facts.pool(p.id).of(Stage.USABLE)]
    nodes = [n for n in usable if not (n.busy or node_hold(n, Blocks.PODS))]
    ends = [next_unit_at(n.created_at, facts.at, policy.billing) for n in nodes]
    return min((end - ENDS_SOON if end - facts.at > ENDS_SOON else end for end in ends), default=None)


def in_use(state: PoolState, pool: Pool) -> Sequence[Node]:
    return [n for n in state.of(Stage.USABLE) if n.busy and not node_hold(n, Blocks.PODS) and free_gpus(n.free, pool)]


def _fills(policy: Policy) -> bool:
    return any(pool.gpus_per_node > 1 for pool in policy.pools)


def _filled(nodes: Sequence[Node], survival: Survival, now: datetime) -> Node | None:
    """The one of *nodes* to fill: the one whose work will most likely go on, then the fullest, then the oldest. The
    node being filled stays the choice while its chance is about as good."""
    if len(nodes) < 2:
        return nodes[0] if nodes else None
    chances = {n.instance: survival.goes_on(n.pods, now) for n in nodes}
    best = max(chances.values())
    now_filled = [n for n in nodes if FILL_OTHERS_FIRST not in n.taints and chances[n.instance] >= best - AS_LIKELY]
    if len(now_filled) == 1:
        return now_filled[0]
    return min(nodes, key=lambda n: (-chances[n.instance], -sum(p.gpus for p in n.pods), n.created_at, n.name))


def free_gpus(free: Mapping[str, int], pool: Pool) -> int:
    """How many GPUs of a node of *pool* are *free*, by whatever name pods ask for them."""
    return sum(max(0, free.get(resource, 0)) for resource in (*pool.resources, CLAIMS))


KUEUE_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    tally: Tally
    node: Node
    room: Bin


def consents(pod: Pod) -> bool:
    """True when moving *pod* is agreed on and loses nothing: it is in no gang, its owner starts it again, and it cannot
    come back to the same node."""
    agreed = (
        pod.wishes.evictable
        and not pod.reserved
        and not pod.wishes.protected
        and not pod.daemon
        and pod.gang is None
        and bool(pod.owner)
    )
    return agreed and not tolerates_cordon(pod)


def may_not_return(pod: Pod, policy: Policy) -> bool:
    """True for a pod that the budget hold would keep out if it started again: it must stay while a hold lasts."""
    if policy.budget is None:
        return False
    keep_out = policy.budget.keep_out
    in_namespace = pod.namespace in keep_out.namespaces and pod.priority_class not in policy.budget.passing
    return in_namespace or (bool(keep_out.cluster_queues) and KUEUE_QUEUE_LABEL in pod.labels)


def movable(tallies: Iterable[Tally], now: datetime, pairs: Collection[tuple[str, str]] = ()) -> frozenset[str]:
    """Return the instances that could be emptied once waiting work has its room; call it last.

    The emptiest go first. Pods move to nodes that run work, and a node that takes pods is not emptied itself. *pairs*
    of an owner of pods and a pool's id are kept apart.
    """
    places: list[_Place] = []
    candidates: list[_Place] = []
    for tally in tallies:
        with blame(pool=tally.pool.id):
            nodes = {n.instance: n for n in tally.state.of(Stage.USABLE)}
            rooms = [(nodes.get(room.instance or ""), room) for room in tally.shelves.bins if room.usable]
            mine = [_Place(tally=tally, node=node, room=room) for node, room in rooms if node is not None]
            candidates += [p for p in mine if not p.room.used and _may_be_emptied(p.node, now)]
            places += mine
    emptied: set[str] = set()
    filled: set[str] = set()
    for place in sorted(candidates, key=lambda p: (sum(x.gpus for x in p.node.pods), p.node.name)):
        if place.node.instance in filled:
            continue
        others = [
            p
            for p in places
            if p is not place and p.node.instance not in emptied and p.node.cordon.by is None
            and (p.node.busy or p.room.used)
        ]  # fmt: skip
        with blame(pool=place.tally.pool.id):
            took = _pack([pod for pod in place.node.pods if not pod.terminating], others, pairs)
        if took is not None:
            emptied.add(place.node.instance)
            filled |= took
    return frozenset(emptied)


def _may_be_emptied(node: Node, now: datetime) -> bool:
    return bool(node.pods) and all(consents(pod) for pod in node.pods) and not node.keep.lasts(now)


def _pack(pods: Sequence[Pod], places: Sequence[_Place], pairs: Collection[tuple[str, str]]) -> set[str] | None:
    """Put all *pods* into *places* and return the instances that took one, or None and change nothing."""
    if not places or any(rule.together is not Together.NEVER for pod in pods for rule in pod.scheduling.host_rules):
        return None  # where others may run depends on where these do
    before, neighbours = [dict(p.room.free) for p in places], places[0].room.neighbours
    mark = neighbours.mark() if neighbours is not None else 0
    took: set[str] = set()
    for pod in sorted(pods, key=lambda p: (-p.gpus, p.key)):
        place = _taken(pod, places, pairs)
        if place is None:
            for p, free in zip(places, before, strict=True):
                p.room.free = free
            if neighbours is not None:
                neighbours.return_to(mark)
            return None
        took.add(place.node.instance)
    return took


def _taken(pod: Pod, places: Iterable[_Place], pairs: Collection[tuple[str, str]]) -> _Place | None:
    """Put *pod* into the first of *places* that holds it and return that one; None when none does."""
    with blame(owner=owner_of(pod)) as blamed:
        for place in places:
            pool = blamed.pool = place.tally.pool.id
            if pairs and (blamed.owner, pool) in pairs:
                continue
            if refusal(pod, place.tally.pool, place.tally.state) is None and place.room.put(pod, pod.asks):
                return place
    return None
