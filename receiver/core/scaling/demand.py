"""From pods to workloads, and whether a pod fits a pool (if not, why not)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.core.model.devices import is_beyond, is_claim, put_claims, why_no_devices
from receiver.core.model.devices import tolerates as tolerates
from receiver.core.model.model import Facts, Offer, PoolState
from receiver.core.model.pods import (
    COMPUTE,
    Pod,
    PodPhase,
    Requirement,
    Workload,
    owner_of,
    too_much,
)
from receiver.core.model.policy import Policy, Pool, Taint
from receiver.core.model.shares import GPU, is_share, put, share_of, why_no_share
from receiver.core.model.signals import UNASSIGNED
from receiver.core.model.text import cut
from receiver.core.scaling.failures import blame
from receiver.core.scaling.template import NextLabels, new_node, next_taints, refuses
from receiver.core.scaling.template import offer_of as offer_of

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


def deferred(facts: Facts) -> tuple[Workload, ...]:
    """The workloads behind our scheduling gate, in the order of service; their pods keep their phase."""
    grouped = workloads(
        (replace(pod, phase=PodPhase.WAITING) for pod in facts.other_work.deferred), facts.other_work.bound_gangs
    )
    return tuple(replace(w, pods=tuple(replace(p, phase=PodPhase.DEFERRED) for p in w.pods)) for w in grouped)


def may_wait(pod: Pod, policy: Policy) -> timedelta:
    """How long after its creation *pod* may start; zero for urgent work."""
    patience = policy.patience
    if pod.wishes.may_wait is not None:
        return min(pod.wishes.may_wait, patience.longest)
    named = (
        (patience.priority_classes, pod.priority_class),
        (patience.teams, pod.labels.get(policy.attribution.team, "")),
        (patience.namespaces, pod.namespace),
    )
    return next((of[name] for of, name in named if name in of), timedelta(0))


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
    reason = misfit(pod, pool, state.offer) or too_much(pod.compute, state.next_node.compute)
    if reason is None and any(map(is_share, pod.requests)):
        reason = why_no_share(pod.requests, new_node(pool, state))
    if reason is None and (state.next_node.devices or any(map(is_claim, pod.requests))):
        reason = why_no_devices(pod.requests, new_node(pool, state))
    return reason


def misfit(pod: Pod, pool: Pool, offer: Offer | None = None) -> str | None:
    """Return why the next node of *pool*, even an empty one, will not hold *pod* by its GPUs, labels and taints; None
    when it will. *offer* is what is known of that node beside the configuration."""
    if pod.scheduling.pool_hint not in (None, UNASSIGNED, pool.id):
        return f"it asks for pool {pod.scheduling.pool_hint}"
    reason = _too_few(pod, pool.resources)
    if reason is not None or offer is None:
        return reason or _repelled(pod, pool, None)
    caveat = f"node {offer.node} shows otherwise than configured"
    if (reason := _too_few(pod, offer.allocatable)) is not None:
        return f"{caveat}: {reason}"
    reason = _repelled(pod, pool, offer)
    if reason is None or not refuses(offer):
        return reason
    if any(_repelled(pod, pool, other) is None for other in offer.others):
        return None  # one odd node may be an exception, two in a row are not
    return reason if _repelled(pod, pool, None) is not None else f"{caveat}: {reason}"


def _repelled(pod: Pod, pool: Pool, offer: Offer | None) -> str | None:
    """Return which label or taint of the next node of *pool* keeps *pod* away, or None."""
    where = pod.scheduling
    if (where.node_selector or where.affinity) and (reason := _unselected(pod, NextLabels(pool, offer))) is not None:
        return reason
    for taint in next_taints(pool, offer):
        if taint.effect != "PreferNoSchedule" and not any(tolerates(t, taint) for t in pod.scheduling.tolerations):
            return f"it does not tolerate the taint {taint.key}={taint.value}:{taint.effect}"
    return None


def selects(pod: Pod, pool: Pool, offer: Offer | None = None) -> bool:
    """True if the node selector and the required affinity of *pod* allow the next node of *pool*."""
    return _unselected(pod, NextLabels(pool, offer)) is None


def preference(pod: Pod, pool: Pool, offer: Offer | None) -> int:
    """The weight that *pod*'s preferred node affinity gives to nodes of *pool* (0 without any)."""
    if not pod.scheduling.preferred:
        return 0
    labels = NextLabels(pool, offer)
    return sum(p.weight for p in pod.scheduling.preferred if all(_may_meet(labels, r) for r in p.term))


def _too_few(pod: Pod, offers: Mapping[str, int]) -> str | None:
    for resource, count in sorted(pod.requests.items()):
        if is_claim(resource):
            continue
        offered = offers.get(GPU if is_share(resource) else resource, 0)
        if count > offered:
            return f"it asks for {count} {resource}, a node offers {offered}"
    return None


def _unselected(pod: Pod, labels: NextLabels) -> str | None:
    for key, value in sorted(pod.scheduling.node_selector.items()):
        values = labels.values(key)
        if value not in values:
            carried = f"{key}={' or '.join(values)}" if values else f"no {key}"
            return f"its node selector wants {key}={value}, nodes carry {carried}"
    terms = pod.scheduling.affinity
    if terms and not any(all(_may_meet(labels, r) for r in term) for term in terms):
        wanted = next(r for r in terms[0] if not _may_meet(labels, r))
        few = [cut(value, LONGEST_NAMED) for value in wanted.values[:MOST_NAMED]]  # a pod may list a megabyte of them
        omitted = f" and {len(wanted.values) - MOST_NAMED} more" if len(wanted.values) > MOST_NAMED else ""
        return f"its node affinity wants {wanted.key} {wanted.operator} {few}{omitted}"
    return None


def _may_meet(labels: NextLabels, want: Requirement) -> bool:
    values = labels.values(want.key)
    return any(meets({want.key: value}, want) for value in values) if values else meets({}, want)


def tolerates_cordon(pod: Pod) -> bool:
    """True for a pod that the scheduler also puts on cordoned nodes: evicted, it can come back to the same one."""
    return any(tolerates(t, CORDON) for t in pod.scheduling.tolerations)


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
    remaining = dict(free)
    if not take(remaining, {resource: count for resource, count in asks.items() if not is_of_devices(resource)}):
        return False
    for name, count in asks.items():
        if is_share(name) and ((share := share_of(name)) is None or not put(remaining, share, count)):
            return False
        if is_claim(name) and not put_claims(remaining, name):
            return False
    free.clear()
    free.update(remaining)
    return True
