"""Which pods a single node takes: by what is free there, by its own taints and labels, and by the pods on it.

A pool's nodes are matched to a pod together (`demand.refusal`). People and controllers change single nodes: a node with
a hard taint that its pool is not configured with is room only for pods that tolerate it, no matter who set it or
how long it stays. A node that was relabelled is room only for pods that still select it.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime

from receiver.core.model.model import Node, Offer
from receiver.core.model.pods import COMPUTE, Pod, Requirement, gpus_in
from receiver.core.model.policy import Pool, Taint
from receiver.core.scaling.demand import CORDON, meets, take, tolerates
from receiver.core.scaling.neighbours import Host, Neighbours
from receiver.core.scaling.waits import SHORT_LOSS

Requests = tuple[tuple[str, int], ...]
Kind = tuple[object, ...]

NAME_FIELD = "field metadata.name"  # the only field that node affinity matches, under a key that no label has
HOST_LABEL = "kubernetes.io/hostname"
MOST_SPOILT = 2  # nodes that were closed to a pod before any pod ran there: a third would probably be, too


def requests_of(pod: Pod) -> Requests:
    asks = pod.asks
    return tuple(asks.items()) if len(asks) == 1 else tuple(sorted(asks.items()))


def shape(pod: Pod) -> Kind:
    """What decides where a pod fits; pods of one shape are matched once."""
    where = pod.scheduling
    selector = tuple(sorted(where.node_selector.items()))
    return (requests_of(pod), selector, where.affinity, where.preferred, where.tolerations, where.pool_hint)


def foreign_taints(node: Node, pool: Pool) -> tuple[Taint, ...]:
    """The hard taints of *node* that its pool is not configured with. A cordon has rules of its own, and so has a
    startup taint that has come back."""
    if not node.taints or node.startup_taint:
        return ()
    hard = (t for t in node.taints if t.effect != "PreferNoSchedule" and t.key != CORDON.key)
    return tuple(t for t in hard if t not in pool.taints)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the scheduler reads of a usable node: its *name*, its labels (empty: not known), its foreign *taints*.

    *differs*: taints or labels are other than the pool's. *fresh*: no pod has run there since it became usable.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    differs: bool = False
    fresh: bool = False

    def takes(self, pod: Pod) -> bool:
        where = pod.scheduling
        if not all(any(tolerates(t, taint) for t in where.tolerations) for taint in self.taints):
            return False
        if self.labels and any(self.labels.get(key) != value for key, value in where.node_selector.items()):
            return False
        return not where.affinity or any(all(self._meets(r) for r in term) for term in where.affinity)

    def _meets(self, requirement: Requirement) -> bool:
        if requirement.key == NAME_FIELD:
            return meets({NAME_FIELD: self.name}, requirement)
        return not self.labels or meets(self.labels, requirement)


def site_of(node: Node, pool: Pool, offer: Offer | None, now: datetime) -> Site:
    """Return *node* as pods see it. A label that a new node lacks is on its way: several controllers set them."""
    taints, labels, usable_since = foreign_taints(node, pool), node.labels, node.times.usable_since
    if labels and pool.apply_to_nodes:
        labels = {**labels, **pool.labels}
    if labels and usable_since is not None and now - usable_since < SHORT_LOSS:
        usual = {**(offer.labels if offer is not None else {}), **pool.offered_labels}
        labels = {**{key: value for key, value in usual.items() if key != HOST_LABEL}, **labels}
    relabelled = bool(labels) and any(labels.get(key) != value for key, value in pool.offered_labels.items())
    return Site(
        name=node.name,
        labels=labels,
        taints=taints,
        differs=bool(taints) or relabelled,
        fresh=usable_since is not None and node.idle_since is not None and node.idle_since <= usable_since,
    )


@dataclass(slots=True, eq=False)
class Bin:
    """Room for pods: a node that exists or is on its way (*instance*; None while Civo does not list it).

    *site* is what pods see of a usable node, *host* the same for copies of a bin. *vacant_at* is when pods that are
    Terminating will have left it: then it is usable, and what is free in it counts from then on (None: it is free now,
    or the node is on its way).
    """

    pool: str
    instance: str | None
    free: dict[str, int]
    usable: bool = False
    used: bool = False
    bought: bool = False
    allowed: bool = True  # False: a check or guardrail leaves it out, so it must not attract other work
    site: Site | None = None
    neighbours: Neighbours | None = None  # of all pools; None where no pod has a rule about others
    host: Host = None
    vacant_at: datetime | None = None

    def __post_init__(self) -> None:
        if self.host is None:
            self.host = self.instance or object()

    @property
    def gpus(self) -> int:
        return gpus_in(self.free)

    @property
    def differs(self) -> bool:
        return self.site is not None and self.site.differs

    @property
    def closed(self) -> bool:
        """True where ordinary work of the pool does not start: it is no spare node."""
        return self.site is not None and bool(self.site.taints)

    def copy(self) -> "Bin":
        """Another bin with the same room. (Not `replace`: a gang tries every node of every pool that fits it.)"""
        return Bin(
            self.pool, self.instance, dict(self.free), self.usable, self.used, self.bought, self.allowed,
            self.site, self.neighbours, self.host, self.vacant_at,
        )  # fmt: skip

    def suits(self, pod: Pod) -> bool:
        """True unless the node's own taints or labels keep *pod* away."""
        site = self.site
        where = pod.scheduling
        return site is None or not (site.differs or where.node_selector or where.affinity) or site.takes(pod)

    def admits(self, pod: Pod) -> bool:
        """True unless the node itself or a pod on it keeps *pod* away, whatever is free."""
        return self.suits(pod) and (self.neighbours is None or self.neighbours.admits(self.host, pod))

    def put(self, pod: Pod, asks: Mapping[str, int]) -> bool:
        """Put *pod*, which *asks* for so much, on this node; False changes nothing."""
        if not self.admits(pod) or not take(self.free, asks):
            return False
        if self.neighbours is not None:
            self.neighbours.add(self.host, self.pool, pod)
        return True


def spoilt(bins: Iterable[Bin]) -> Sequence[Bin]:
    """The usable nodes that were tainted or relabelled before any pod ran there."""
    return [b for b in bins if b.site is not None and b.site.fresh and b.site.differs]


def why_spoilt(pod: Pod, bins: Sequence[Bin]) -> str | None:
    """Why no further node is bought for *pod*, by the `spoilt` nodes of a pool; None where it is bought."""
    if len(bins) < MOST_SPOILT:
        return None
    closed = [b.site for b in bins if b.site is not None and not b.site.takes(pod)]
    if len(closed) < MOST_SPOILT:
        return None
    names = ", ".join(site.name for site in closed[:MOST_SPOILT])
    taints = dict.fromkeys(f"{t.key}={t.value}:{t.effect}" for site in closed for t in site.taints)
    change = f"got the taint {', '.join(taints)}" if taints else "were relabelled"
    return f"its newest nodes ({names}) {change} before a pod ran there, and the next one probably would, too"


# The shelves of bins. Usable nodes are filled first, then those that pods are about to leave and begun ones; only then
# another node that is on its way is begun, in the order of buying. So the same pods fill the nodes that were bought for
# them: if every coming node were open from the start, a pod that fits many pools would take the room of one that fits
# few.
USABLE, OPENED, COMING, NOT_ALLOWED = range(4)


@dataclass(slots=True, eq=False)
class Shelves:
    """The *bins* of one pool in the order in which they are filled. *neighbours* are shared by all pools."""

    bins: list[Bin]
    neighbours: Neighbours | None = None
    at: tuple[list[Bin], ...] = field(init=False)  # at USABLE, OPENED, COMING, NOT_ALLOWED
    free: int = field(init=False, default=0)  # GPUs in the bins that may be used
    differs: bool = field(init=False)  # some nodes take other pods than the pool does
    spoilt: Sequence[Bin] = field(init=False)  # see `why_spoilt`
    reached: dict[tuple[int, Kind], int] = field(init=False, default_factory=dict)
    too_small: dict[Kind, int] = field(init=False, default_factory=dict)  # for gangs, with so many bins open
    changes: int = field(init=False, default=0)  # of the bins that work may use, and of what is free in them
    needed: dict[Kind, tuple[int, int | None]] = field(init=False, default_factory=dict)  # new nodes, after *changes*

    def __post_init__(self) -> None:
        self.at = ([], [], [], [])
        self.spoilt, self.differs = spoilt(self.bins), any(b.differs for b in self.bins)
        for room in self.bins:
            room.neighbours = self.neighbours
            shelf = USABLE if room.usable else OPENED if room.vacant_at is not None else COMING
            self.at[shelf].append(room)
            self.free += room.gpus if shelf != COMING else 0

    def copy(self, copies: Mapping[int, Bin]) -> "Shelves":
        """Shelves like these with *copies* of the bins, by the `id` of each."""
        other = copy(self)
        other.bins = [copies[id(b)] for b in self.bins]
        other.at = tuple([copies[id(b)] for b in shelf] for shelf in self.at)
        other.reached, other.too_small, other.needed = self.reached.copy(), self.too_small.copy(), self.needed.copy()
        return other

    def add(self, room: Bin) -> None:
        self.bins.append(room)
        self.at[OPENED if room.allowed else NOT_ALLOWED].append(room)
        if room.allowed:
            self.free += room.gpus
            self.changes += 1

    def kind(self, pod: Pod) -> Kind:
        """What decides which of the bins take *pod*: one that refused a pod of a kind once always will."""
        kind: Kind = requests_of(pod)
        if self.differs or pod.scheduling.affinity or pod.scheduling.node_selector:
            kind = shape(pod)
        others = self.neighbours.kind(pod) if self.neighbours is not None else None
        return kind if others is None else (kind, others)

    def settle(self, pod: Pod, shelf: int) -> Bin | None:
        """Put *pod* into the first bin of *shelf* that takes it and return that; None when none does. Each kind of pod
        passes over a bin that does not take it only once."""
        rooms, kind = self.at[shelf], self.kind(pod)
        place = self.reached.get((shelf, kind), 0)
        if place == len(rooms):
            return None
        asks = pod.asks
        while place < len(rooms) and not rooms[place].put(pod, asks):
            place += 1
        self.reached[shelf, kind] = place
        if place == len(rooms):
            return None
        rooms[place].used = True
        if shelf != NOT_ALLOWED:
            self.lose(gpus_in(asks))
        return rooms[place]

    def lose(self, gpus: int) -> None:
        """Record that work took so many *gpus* of the bins that may be used."""
        self.free -= gpus
        self.changes += 1

    def begin(self, rooms: Sequence[Bin] | None = None) -> bool:
        """Begin to fill *rooms* that are on their way, or else the next one; False when there is none."""
        started_rooms = self.at[COMING][:1] if rooms is None else rooms
        for room in started_rooms:
            self.at[COMING].remove(room)
            self.at[OPENED].append(room)
            self.free += room.gpus
            self.changes += 1
        return bool(started_rooms)

    def sort_out(self) -> None:
        """Sort the bins into shelves again, and count what is free, after rooms were filled directly."""
        coming = self.at[COMING]
        self.at[OPENED].extend(room for room in coming if room.used)
        coming[:] = [room for room in coming if not room.used]
        self.free = sum(room.gpus for shelf in (USABLE, OPENED) for room in self.at[shelf])
        self.changes += 1

    @property
    def open_count(self) -> int:
        """How many bins may be used now; it only grows, and the room in them only shrinks."""
        return len(self.at[USABLE]) + len(self.at[OPENED])

    def roomy(self) -> list[Bin]:
        """The bins that are usable or begun and have a GPU left, the usable ones first."""
        bins = (*self.at[USABLE], *self.at[OPENED])
        return [b for b in bins if any(n > 0 for resource, n in b.free.items() if resource not in COMPUTE)]

    def why_spoilt(self, pods: Iterable[Pod]) -> str | None:
        """Why no further node of the pool is bought for *pods*, by those that were bought before."""
        if not self.spoilt:
            return None
        return next((reason for pod in pods if (reason := why_spoilt(pod, self.spoilt)) is not None), None)
