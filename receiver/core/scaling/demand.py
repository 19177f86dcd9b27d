"""From pods to workloads, and whether a pod fits a pool (if not, why not)."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.core.model.devices import is_beyond, is_claim, put_claims, why_no_devices
from receiver.core.model.devices import tolerates as tolerates
from receiver.core.model.model import Node, Offer, PoolState, Stage
from receiver.core.model.pods import (
    COMPUTE,
    Pod,
    PodPhase,
    Requirement,
    Workload,
    allocatable,
    less,
    owner_of,
    too_much,
)
from receiver.core.model.policy import POOL_LABEL, Pool, Taint
from receiver.core.model.shares import GPU, GPU_MEMORY, gpu_memory, is_share, put, share_of, why_no_share
from receiver.core.model.signals import UNASSIGNED
from receiver.core.model.text import cut
from receiver.core.scaling.failures import blame

# Prefixes of taints that depend on a node's state, and say nothing about the next node.
PASSING_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
    "ToBeDeleted",
)
OFFER_IS_BELIEVED_FOR = timedelta(hours=24)
MOST_NAMED, LONGEST_NAMED = 5, 63  # values of an affinity, and characters of each (a label value has at most 63)
CORDON = Taint(key="node.kubernetes.io/unschedulable", value="", effect="NoSchedule")
# Validation pods request a GPU, and KAI's scaling pods stand for others that are demand themselves.
IGNORED_NAMESPACES = frozenset({"gpu-operator", "nvidia-gpu-operator", "kai-scale-adjust"})


def workloads(pods: Iterable[Pod], bound: Mapping[str, int] | None = None) -> tuple[Workload, ...]:
    """Group the waiting GPU *pods*, higher priority first, then longest waiting: declared gangs together, others alone.

    *bound* counts the pods of each gang that already have a node. Of a gang with a minimum only as many pods as it
    still lacks belong together. DaemonSet pods, terminating pods and pods of `IGNORED_NAMESPACES` are no demand.
    """
    gangs: dict[str, list[Pod]] = {}
    ranked: list[tuple[tuple[int, datetime, str], Workload]] = []
    with blame() as blamed:
        for pod in pods:
            blamed.owner = owner_of(pod)
            if pod.phase is not PodPhase.WAITING or pod.daemon or pod.terminating or not pod.gpus:
                continue
            if pod.namespace in IGNORED_NAMESPACES:
                continue
            if pod.gang is None:
                workload = Workload(key=pod.key, pods=(pod,))
                ranked.append((_rank(workload), workload))
            else:
                gangs.setdefault(pod.gang, []).append(pod)
    for key, members in gangs.items():
        with blame(owner=owner_of(members[0])):
            parts = list(_parts(key, members, (bound or {}).get(key, 0)))
            first = _rank(parts[0]) if parts[0].gang else None  # pods beyond a minimum must not take its room
            ranked += [(max(first or _rank(w), _rank(w)), w) for w in parts]
    return tuple(w for _, w in sorted(ranked, key=lambda ranking: ranking[0]))


def _rank(workload: Workload) -> tuple[int, datetime, str]:
    return -workload.priority, workload.since, workload.key


def _parts(key: str, members: Sequence[Pod], bound: int) -> Iterable[Workload]:
    """The pods of a gang that must come together, then those beyond its minimum, each alone."""
    ordered = sorted(members, key=lambda p: (-p.priority, -p.gpus, p.key))
    least = max((p.gang_min for p in members if p.gang_min is not None), default=None)
    lacking = len(ordered) if least is None else max(0, least - bound)
    if lacking:
        yield Workload(key=key, pods=tuple(ordered[:lacking]), gang=True, bound=bound, least=least or 0)
    for pod in ordered[lacking:]:
        yield Workload(key=pod.key, pods=(pod,))


def missing_pods(workload: Workload) -> int:
    """How many pods a gang lacks that do not exist yet: until they do, no node helps it."""
    return max(0, workload.least - workload.bound - len(workload.pods)) if workload.gang else 0


def refusal(pod: Pod, pool: Pool, state: PoolState) -> str | None:
    """Return why no node is bought in *pool* for *pod*, by its configuration, its size and what its nodes offered."""
    reason = misfit(pod, pool) or too_much(pod.compute, state.compute)
    if reason is None and any(map(is_share, pod.requests)):
        reason = why_no_share(pod.requests, new_node(pool, state))
    reason = reason or disproof(pod, pool, state.offer)
    if reason is None and (state.devices or any(map(is_claim, pod.requests))):
        reason = why_no_devices(pod.requests, new_node(pool, state))
    return reason


def misfit(pod: Pod, pool: Pool) -> str | None:
    """Return why no node of *pool* as configured, even an empty one, can hold *pod*; None when one can."""
    if pod.pool_hint not in (None, UNASSIGNED, pool.id):
        return f"it asks for pool {pod.pool_hint}"
    return _mismatch(pod, pool.resources, pool.offered_labels, pool.taints)


def offer_of(
    pool: Pool, nodes: Iterable[Node], before: Offer | None, now: datetime, startup_taints: tuple[str, ...] = ()
) -> Offer | None:
    """What the newest usable one of *nodes* offers, without taints that depend on its state, and what other nodes offer
    that differs. Only among these others are nodes that a startup taint holds up again, and those that are sick or were
    a moment ago: a quarantine taint may remain.

    Of each GPU resource the highest number seen counts, the offer *before* included: a node that lost a GPU says
    nothing about the next one. Compute resources are the newest node's, less what DaemonSets use there: with the
    largest instead, a pod that fits only an older node would buy new nodes without end. Without a usable node it is the
    offer before, while that is valid and from a node that Civo's agent had labelled.
    """
    passing = (*PASSING_TAINTS, *startup_taints)
    before = before if before is not None and is_believed(before, pool, now) else None
    labelled = [n for n in nodes if n.stage is Stage.USABLE and n.labels]
    usable = [n for n in labelled if not _is_held_up(n)]
    if not usable:
        known = before is not None and POOL_LABEL in before.labels
        return replace(before, taints=_lasting(before.taints, passing)) if before is not None and known else None
    kinds: dict[object, Node] = {}  # one node of each kind
    for node in sorted(labelled, key=lambda n: (not _is_held_up(n), n.created_at, n.name), reverse=True):
        configured = tuple(node.labels.get(key) for key in pool.offered_labels)
        kinds.setdefault((_lasting(node.taints, passing), configured, frozenset(node.labels)), node)
    shown = [*(n.allocatable for n in usable), *([before.allocatable] if before else [])]
    most = {r: max(seen.get(r, 0) for seen in shown) for r in pool.resources}
    newest, *others = (
        Offer(
            node=node.name,
            at=now,
            configured=fingerprint(pool),
            allocatable={**most, **less(node.compute, node.daemons)},
            labels=node.labels,
            taints=_lasting(node.taints, passing),
        )
        for node in kinds.values()
    )
    return replace(newest, others=tuple(others)) if others else newest


def _is_held_up(node: Node) -> bool:
    return bool(node.startup_taint or node.sick or node.sick_since or node.maintained)


def _lasting(taints: Iterable[Taint], passing: tuple[str, ...]) -> tuple[Taint, ...]:
    return tuple(t for t in taints if not t.key.startswith(passing))


def room_beside_gpus(machine: Mapping[str, int], offer: Offer | None) -> Mapping[str, int]:
    """Return the compute resources of a new node: what *offer* showed, else an estimate for a *machine* of its size,
    without a share for DaemonSets, which is unknown then."""
    shown = offer.allocatable if offer is not None else {}
    return {**allocatable(machine), **{resource: n for resource, n in shown.items() if resource in COMPUTE}}


def new_node(pool: Pool, state: PoolState) -> dict[str, int]:
    memory = gpu_memory(pool.offered_labels)
    return {**pool.resources, **({GPU_MEMORY: memory} if memory else {}), **state.compute, **state.devices}


def is_believed(offer: Offer, pool: Pool, now: datetime) -> bool:
    """True while an offer counts against the next node: for a day, and for the same configuration."""
    return offer.configured == fingerprint(pool) and timedelta(0) <= now - offer.at <= OFFER_IS_BELIEVED_FOR


def fingerprint(pool: Pool) -> str:
    """A short hash of what the configuration says a node of *pool* offers."""
    said = (pool.size, sorted(pool.resources.items()), sorted(pool.labels.items()), pool.taints, pool.apply_to_nodes)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]


def disproof(pod: Pod, pool: Pool, offer: Offer | None) -> str | None:
    """Return how *offer* shows that another node like it would not hold *pod*, or None.

    Labels and taints that we set ourselves do not count. While one living node would hold the pod, no other one
    disproves the pool.
    """
    if offer is None:
        return None
    reason = _shown_otherwise(pod, pool, offer)
    return None if reason is None or any(_shown_otherwise(pod, pool, o) is None for o in offer.others) else reason


def _shown_otherwise(pod: Pod, pool: Pool, offer: Offer) -> str | None:
    labels, taints = offer.labels, offer.taints
    if pool.apply_to_nodes:
        ours = {(t.key, t.effect) for t in pool.taints}
        labels, taints = {**labels, **pool.labels}, tuple(t for t in taints if (t.key, t.effect) not in ours)
    reason = _mismatch(pod, offer.allocatable, labels, taints)
    return None if reason is None else f"node {offer.node} shows otherwise than configured: {reason}"


def preference(pod: Pod, pool: Pool) -> int:
    """The weight that *pod*'s preferred node affinity gives to nodes of *pool* (0 without any)."""
    return sum(p.weight for p in pod.preferred if all(meets(pool.offered_labels, r) for r in p.term))


def _mismatch(pod: Pod, offers: Mapping[str, int], labels: Mapping[str, str], taints: Iterable[Taint]) -> str | None:
    for resource, count in sorted(pod.requests.items()):
        if is_claim(resource):
            continue
        offered = offers.get(GPU if is_share(resource) else resource, 0)
        if count > offered:
            return f"it asks for {count} {resource}, a node offers {offered}"
    for key, value in sorted(pod.node_selector.items()):
        if labels.get(key) != value:
            carried = f"{key}={labels[key]}" if key in labels else f"no {key}"
            return f"its node selector wants {key}={value}, nodes carry {carried}"
    if pod.affinity and not any(all(meets(labels, r) for r in term) for term in pod.affinity):
        wanted = next(r for r in pod.affinity[0] if not meets(labels, r))
        few = [cut(value, LONGEST_NAMED) for value in wanted.values[:MOST_NAMED]]  # a pod may list a megabyte of them
        more = f" and {len(wanted.values) - MOST_NAMED} more" if len(wanted.values) > MOST_NAMED else ""
        return f"its node affinity wants {wanted.key} {wanted.operator} {few}{more}"
    for taint in taints:
        if taint.effect != "PreferNoSchedule" and not any(tolerates(t, taint) for t in pod.tolerations):
            return f"it does not tolerate the taint {taint.key}={taint.value}:{taint.effect}"
    return None


def tolerates_cordon(pod: Pod) -> bool:
    """True for a pod that the scheduler also puts on cordoned nodes: evicted, it can come back to the same one."""
    return any(tolerates(t, CORDON) for t in pod.tolerations)


def meets(labels: Mapping[str, str], want: Requirement) -> bool:
    """True when *labels* satisfy one expression of node affinity (NodeSelectorRequirement v1 core)."""
    have = labels.get(want.key)
    match want.operator:
        case "In":
            return have is not None and have in want.values
        case "NotIn":
            return bool(want.values) and (have is None or have not in want.values)
        case "Exists":
            return have is not None and not want.values
        case "DoesNotExist":
            return have is None and not want.values
        case "Gt" | "Lt":
            return have is not None and len(want.values) == 1 and is_beyond(have, want.operator, want.values[0])
        case _:
            return False  # an undocumented operator: never assume that it fits


def take(free: dict[str, int], asks: Mapping[str, int]) -> bool:
    """Subtract *asks* from *free* if they fit; change nothing otherwise. A compute resource that *free* does not name
    is unknown, and never too little. Shares of GPUs and claims are taken from single devices."""
    for resource, count in asks.items():  # a plain loop: this runs for every pod and node
        if free.get(resource, 0) < count and (resource in free or resource not in COMPUTE):
            return resource not in free and is_of_devices(resource) and _take_devices(free, asks)
    for resource, count in asks.items():
        if resource in free:
            free[resource] -= count
    return True


def is_of_devices(resource: str) -> bool:
    """True for what is taken from single devices: a share of a GPU, or claims."""
    return is_share(resource) or is_claim(resource)


def _take_devices(free: dict[str, int], asks: Mapping[str, int]) -> bool:
    left = dict(free)
    if not take(left, {resource: count for resource, count in asks.items() if not is_of_devices(resource)}):
        return False
    for name, count in asks.items():
        if is_share(name) and ((share := share_of(name)) is None or not put(left, share, count)):
            return False
        if is_claim(name) and not put_claims(left, name):
            return False
    free.clear()
    free.update(left)
    return True
