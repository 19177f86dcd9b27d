"""What the next node of a pool will be like: by what a node showed when it was new, by configuration and Civo's size.

What people do to a node later (`kubectl taint`, `label`, `cordon`) does not apply to the next one. So labels and
taints are taken from a node that was seen to become usable, and stay as they were then. Those of a node that was old
when it was first seen may be a person's: its labels may let a pod fit, and refuse none.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.core.model.civo_sizes import labels_of_size
from receiver.core.model.model import Node, Offer, PoolState, Stage
from receiver.core.model.pods import COMPUTE, allocatable, less
from receiver.core.model.policy import POOL_LABEL, Pool, Taint
from receiver.core.model.shares import GPU, GPU_MEMORY, gpu_memory

# Prefixes of taints that depend on a node's state, and say nothing about the next node.
PASSING_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ToBeDeleted",
    "DeletionCandidate",
)
OFFER_IS_BELIEVED_FOR = timedelta(hours=24)
SETTLED_AFTER = timedelta(minutes=2)  # of a new node: the labels and taints that belong to it are there by then
LONG_NAME = 8  # characters: a shorter name of a node may be in a label by chance
OWN = "(one of its own)"  # the value of a label that is another one on each node; no label can have it
FORMER_LABELS = {  # kubelet and cloud controller still set the former names as well
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
REGION_LABELS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_OF_ONE_NODE = re.compile(
    r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}"  # a UUID
    r"|\d{1,3}([.-])\d{1,3}(\2\d{1,3}){2}",  # an IPv4 address
    re.IGNORECASE | re.ASCII,
)


def offer_of(
    pool: Pool, nodes: Iterable[Node], before: Offer | None, now: datetime, startup_taints: tuple[str, ...] = ()
) -> Offer | None:
    """What the next node of *pool* will offer, by its usable *nodes* and what was known *before*.

    Of each GPU resource the highest number seen counts: the next node has the GPUs that another one lost.
    Compute resources are the newest node's, less what DaemonSets use there: with the largest instead, a pod that fits
    only an older node would buy new nodes without end. Labels and taints are the template (see the module). Nodes that
    a startup taint holds up again, and those that are sick or were a moment ago, do not count. Without a usable node it
    is the offer before, while that is valid and from a node that Civo's agent had labelled.
    """
    valid = before is not None and is_believed(before, pool, now)
    every = [n for n in nodes if n.stage is Stage.USABLE and n.labels]
    usable = [n for n in every if not _is_held_up(n)]
    passing = (*PASSING_TAINTS, *startup_taints)
    if before is not None:
        before = replace(before, taints=_lasting(before.taints, pool, passing))
    if not usable:
        return before if valid and before is not None and POOL_LABEL in before.labels else None
    newest = max(usable, key=_age)
    offers = [*(n.allocatable for n in usable), *([before.allocatable] if valid and before is not None else [])]
    most = {r: max(amounts.get(r, 0) for amounts in offers) for r in pool.resources}
    offer = Offer(
        node=newest.name,
        at=now,
        configured=fingerprint(pool),
        allocatable={**most, **less(newest.beside.compute, newest.beside.daemons)},
        labels={},
    )
    if before is not None and _is_of_size(before, pool):
        merged = replace(offer, node=before.node, labels=_of_any(before.labels, pool, before.node))
        # A corrected configuration is believed at once: then the template refuses no pod any more.
        offer = replace(merged, taints=before.taints, since=before.since, others=before.others) if valid else merged
    else:
        offer = replace(offer, labels=_shared(usable, pool))
    return _with_template(offer, usable, every, pool, passing, now if before is None else before.at)


def _with_template(
    offer: Offer,
    usable: Sequence[Node],
    beside: Sequence[Node],
    pool: Pool,
    passing: tuple[str, ...],
    looked_at: datetime,
) -> Offer:
    """Return *offer* with the labels and taints of the newest node that is becoming usable now; as it is without one.
    *beside* it are all nodes of the pool, the sick ones too.

    A node is followed until it has settled. Where the look before, at *looked_at*, was too early, and this one is late,
    it counts if it shows what is configured. A node whose pool label is late is followed until Civo's agent has set it.
    """
    labelled = POOL_LABEL in offer.labels
    new = []
    for node in usable:
        since = _new_since(node)
        if since is None:
            continue
        if offer.at - since <= SETTLED_AFTER or (since == offer.since and node.name == offer.node and not labelled):
            new.append(node)
        elif looked_at - since < SETTLED_AFTER and _is_as_configured(node, pool, passing):
            new.append(replace(node, labels={**offer.labels, **pool.offered_labels}))  # others may be a person's
    if not new:
        return offer
    *others, newest = (_shown_by(node, offer, pool, passing, usable) for node in sorted(new, key=_age))
    odd_nodes = offer.others
    if offer.since is not None and (offer.node, offer.since) != (newest.node, newest.since):
        odd_nodes = (_bare(offer),)
    elif not odd_nodes:  # a node that was old when it was first seen refuses no pod, but may speak for one
        settled = (n for n in beside if n.name != newest.node and not n.startup_taint)
        old = [n for n in settled if _is_as_configured(n, pool, passing)]
        odd_nodes = tuple(_bare(_shown_by(n, offer, pool, passing, usable)) for n in old[:1])
    return replace(newest, others=tuple(map(_bare, others[-1:])) or odd_nodes)


def _is_as_configured(node: Node, pool: Pool, passing: tuple[str, ...]) -> bool:
    hard = (t for t in _lasting(node.taints, pool, passing) if t.effect != "PreferNoSchedule")
    return pool.offered_labels.items() <= node.labels.items() and all(t in pool.taints for t in hard)


def _shown_by(node: Node, offer: Offer, pool: Pool, passing: tuple[str, ...], usable: Sequence[Node]) -> Offer:
    """Return *offer* with the labels and taints of *node*, which is new. *usable* are all nodes of the pool."""
    beside = [other.labels for other in usable if other is not node]
    labels = _of_any(node.labels, pool, node.name, node.instance, beside=beside)
    return replace(
        offer, node=node.name, since=_new_since(node), labels=labels, taints=_lasting(node.taints, pool, passing)
    )


def _bare(offer: Offer) -> Offer:
    """The labels and taints of *offer* alone, which refuse pods for as long as they are kept."""
    return replace(offer, at=offer.since or offer.at, allocatable={}, devices="", others=())


def _new_since(node: Node) -> datetime | None:
    """When *node* was seen to become usable; None for one that was usable, and not new, when it was first seen: as its
    pods show, too, where Kubernetes did not answer meanwhile."""
    since = node.times.usable_since
    if since is None or any(
        p.times.bound_at is not None and since - p.times.bound_at > SETTLED_AFTER for p in node.pods
    ):
        return None
    return since if since > node.watched_since or since - node.created_at <= SETTLED_AFTER else None


def _age(node: Node) -> tuple[datetime, str]:
    return node.created_at, node.name


def _is_held_up(node: Node) -> bool:
    return bool(node.startup_taint or node.health.sick or node.health.since or node.health.maintained)


def _is_of_size(offer: Offer, pool: Pool) -> bool:
    return offer.labels.get("node.kubernetes.io/instance-type", pool.size) == pool.size


def _shared(nodes: Sequence[Node], pool: Pool) -> Mapping[str, str]:
    """The labels that all of *nodes* carry."""
    first, *others = nodes
    beside = [other.labels for other in others]
    labels = _of_any(first.labels, pool, first.name, first.instance, beside=beside)
    return {
        key: value
        for key, value in labels.items()
        if all(other.get(key) == value or (value == OWN and key in other) for other in beside)
    }


def _of_any(
    labels: Mapping[str, str], pool: Pool, *names: str, beside: Sequence[Mapping[str, str]] = ()
) -> Mapping[str, str]:
    """The *labels* of a node with *names*, without the values that another node cannot have. What *pool* is configured
    with, and what a node *beside* it carries too, is no node's own: Civo's ids of pools and clusters are UUIDs."""
    configured = pool.offered_labels

    def is_own(key: str, value: str) -> bool:
        if configured.get(key) == value or not _is_own(key, value, names):
            return False
        return all(other.get(key) != value for other in beside)

    return {key: OWN if is_own(key, value) else value for key, value in labels.items()}


def _is_own(key: str, value: str, names: Sequence[str]) -> bool:
    named = any(value == name or (len(name) >= LONG_NAME and name in value) for name in names)
    return named or key.endswith("/hostname") or _OF_ONE_NODE.fullmatch(value) is not None


def _lasting(taints: Iterable[Taint], pool: Pool, passing: tuple[str, ...]) -> tuple[Taint, ...]:
    return tuple(t for t in taints if t in pool.taints or not t.key.startswith(passing))


def room_beside_gpus(machine: Mapping[str, int], offer: Offer | None) -> Mapping[str, int]:
    """Return the compute resources of a new node: what *offer* showed, else an estimate for a *machine* of its size,
    without a share for DaemonSets, which is unknown then."""
    observed = offer.allocatable if offer is not None else {}
    return {**allocatable(machine), **{resource: n for resource, n in observed.items() if resource in COMPUTE}}


def new_node(pool: Pool, state: PoolState) -> dict[str, int]:
    """What is free on the next node of *pool*."""
    memory = memory_of_gpu(pool, state.offer)
    return {
        **pool.resources,
        **({GPU_MEMORY: memory} if memory else {}),
        **state.next_node.compute,
        **state.next_node.devices,
    }


def memory_of_gpu(pool: Pool, offer: Offer | None) -> int:
    """The MiB of each GPU of the next node of *pool*, the least that is possible; 0 where that is not known."""
    values = NextLabels(pool, offer).values(GPU_MEMORY)
    return min((gpu_memory({GPU_MEMORY: value}) for value in values), default=0)


def labels_of_gpu(pool: Pool, offer: Offer | None) -> Mapping[str, str]:
    """The labels of the next node of *pool* that say how much of a GPU a share is."""
    memory = memory_of_gpu(pool, offer)
    return {**pool.labels, **({GPU_MEMORY: str(memory)} if memory else {})}


def is_believed(offer: Offer, pool: Pool, now: datetime) -> bool:
    """True while an offer counts against the next node: for a day, and for the same configuration."""
    return offer.configured == fingerprint(pool) and timedelta(0) <= now - offer.at <= OFFER_IS_BELIEVED_FOR


def fingerprint(pool: Pool) -> str:
    """A short hash of what the configuration says a node of *pool* offers."""
    spec = (pool.size, sorted(pool.resources.items()), sorted(pool.labels.items()), pool.taints, pool.apply_to_nodes)
    return hashlib.sha256(repr(spec).encode()).hexdigest()[:16]


def refuses(offer: Offer | None) -> bool:
    """True while the labels and taints of *offer* say what the next node lacks: they are those of a node that was new
    within a day. Older ones are not believed against a pod: Civo's pool may have been corrected since."""
    return offer is not None and offer.since is not None and offer.at - offer.since <= OFFER_IS_BELIEVED_FOR


class NextLabels:
    """The labels of the next node of *pool*, of which *offer* is known. The values of some are not certain."""

    __slots__ = ("_configured", "_offer", "_refuses", "pool")

    def __init__(self, pool: Pool, offer: Offer | None) -> None:
        self.pool, self._offer, self._refuses = pool, offer, refuses(offer)
        self._configured: Mapping[str, str] | None = None  # read once, when it is asked for

    def values(self, key: str) -> tuple[str, ...]:
        """The possible values of label *key*, none for a label that the node will not carry."""
        if self._refuses and self._offer is not None:
            value = self._offer.labels.get(key)
            if self.pool.apply_to_nodes:  # we put the configured ones on
                value = self.pool.labels.get(key, value)
            return () if value is None else (value,)
        if self._configured is None:
            self._configured = self.pool.offered_labels
        if key in self._configured:
            return (self._configured[key],)
        return tuple(dict.fromkeys(self._possible(key)))

    def _possible(self, key: str) -> Iterator[str]:
        """What nodes showed, and what Civo's size and region say."""
        for each in (self._offer, *self._offer.others) if self._offer is not None else ():
            if key in each.labels:
                yield each.labels[key]
        yield from labels_of_size(self.pool.size, self.pool.resources.get(GPU)).get(key, ())
        if key in FORMER_LABELS:
            yield from self.values(FORMER_LABELS[key])
        if key in REGION_LABELS and self.pool.region:
            yield from (self.pool.region, self.pool.region.lower(), self.pool.region.upper())
        if key == "kubernetes.io/hostname":
            yield OWN

    def any_of(self, key: str) -> frozenset[str | None]:
        """The values of label *key* with which a pod may fit (None: no such label), those of the node before included:
        one odd node refuses no pod."""
        others = self._offer.others if self._refuses and self._offer is not None else ()
        return frozenset((*(self.values(key) or (None,)), *(other.labels.get(key) for other in others)))


def next_taints(pool: Pool, offer: Offer | None) -> tuple[Taint, ...]:
    """The taints of the next node of *pool*, of which *offer* is known."""
    if offer is None or not refuses(offer):
        return pool.taints
    if not pool.apply_to_nodes:
        return offer.taints
    ours = {(t.key, t.effect) for t in pool.taints}
    return (*pool.taints, *(t for t in offer.taints if (t.key, t.effect) not in ours))
