"""The scheduler as second witness: which waiting work it refuses although a usable node has room, and for how long no
node is bought or kept for that work.

What keeps a pod from a node is read only in part (docs/limits.md). The scheduler knows all of it, and tries every pod
again at the latest five minutes after a node came. So a request that stands beside room for longer needs no such node.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.model import Facts, Node, Source, Stage
from receiver.core.model.pods import Pod, PodPhase, Workload, gpus_in
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.refusals import SchedulerRefusal, is_judgement, is_of_no_node, obstacles, refused_only
from receiver.core.model.text import cut
from receiver.core.money.cost import first_unit_from, unit_price
from receiver.core.scaling.capacity import Placement, Tally
from receiver.core.scaling.node_holds import Blocks, node_hold
from receiver.core.scaling.rooms import USABLE, shape
from receiver.core.scaling.template import fingerprint

REFUSED_AFTER = timedelta(minutes=10)  # beside room: kube-scheduler has tried the pod twice by then
FIRST_WAIT = timedelta(hours=24)  # then one pod gets one more node; each further refusal doubles it
LONGEST_WAIT = timedelta(hours=96)  # also where the scheduler looks at no node at all: its words will change
REWORDED_AT_ONCE = 2  # so often in a row changed words of the scheduler count at once
REWORDED_AFTER = timedelta(hours=6)  # then so long after the refusal: words that take turns must not buy every hour
FORGOTTEN_AFTER = timedelta(hours=24)  # without a waiting pod of the request
MOST_REQUESTS, MOST_PODS, MOST_OBSTACLES = 200, 20, 5  # that are stored
LONGEST_WORDS = 300  # characters of the scheduler's message
# They tell revisions of one owner apart: a StatefulSet keeps its uid when its template changes.
REVISIONS = ("controller-revision-hash", "pod-template-hash")


def request_of(workload: Workload) -> str:
    """The request that *workload* is one of: its owner, or its gang, and what decides where its pods fit. Pods that
    are created again make the same one; another template, or a new owner, makes another."""
    kinds = sorted({repr((shape(p), p.scheduling.host_rules, *map(p.labels.get, REVISIONS))) for p in workload.pods})
    return f"{_asker(workload)}#{hashlib.sha256(repr(kinds).encode()).hexdigest()[:16]}"


def _asker(workload: Workload) -> str:
    first = workload.pods[0]
    return f"gang {workload.key}" if workload.gang else _owner(first)


def _owner(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.owner or pod.name}/{pod.owner_uid}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Barred:
    """The *workloads* that get no node, by key, each with the refusal; and the pods that are tried again, one of each
    request, on an empty node: *on_trial*."""

    workloads: Mapping[str, SchedulerRefusal] = field(default_factory=dict)
    on_trial: frozenset[str] = frozenset()


def barred(facts: Facts, waiting: Iterable[Workload]) -> Barred:
    """Return which of *waiting*, which is in the order of service, the scheduler refuses."""
    refusals = {each.request: each for each in refused_only(facts.other_work.refusals)}
    if not refusals:
        return Barred()
    askers = {request.rpartition("#")[0] for request in refusals}
    refused: dict[str, SchedulerRefusal] = {}
    trials: dict[str, str] = {}  # the workload that is tried, by request
    for workload in waiting:
        if _asker(workload) not in askers:
            continue
        refusal = refusals.get(request_of(workload))
        if refusal is None or _is_let_through(workload, refusal, facts.at):
            continue
        if refusal.holds(facts.at) or refusal.request in trials:
            refused[workload.key] = refusal
        else:
            trials[refusal.request] = workload.key
    return Barred(workloads=refused, on_trial=frozenset(trials.values()))


def _is_let_through(workload: Workload, refusal: SchedulerRefusal, now: datetime) -> bool:
    """True for a workload that the refusal does not speak of: others of the request start, or the scheduler does not
    name the obstacle (any more)."""
    if refusal.others_start and workload.key not in refusal.pods:
        return True
    if not refusal.obstacles or refusal.refused_at is None:
        return False
    if refusal.reworded >= REWORDED_AT_ONCE and now < refusal.refused_at + REWORDED_AFTER:
        return False
    words = [obstacles(pod.scheduler_says) for pod in workload.pods if is_judgement(pod.scheduler_says)]
    return bool(words) and all(pod_words.isdisjoint(refusal.obstacles) for pod_words in words)


def settle_alone(workload: Workload, tally: Tally) -> bool:
    """Give the pod of *workload*, which is on trial, a usable node without any GPU pod; False where there is none."""
    pod, busy = workload.pods[0], {node.instance for node in tally.state.nodes if node.busy}
    for room in tally.shelves.at[USABLE]:
        if not room.used and room.instance not in busy and room.put(pod, pod.asks):
            room.used = True
            tally.shelves.lose(gpus_in(pod.asks))
            tally.give(workload, (room,))
            return True
    return False


def changes(refusals: Iterable[SchedulerRefusal]) -> frozenset[tuple[object, ...]]:
    """What of *refusals* decides who gets a node: where it differs, the next step decides differently."""
    return frozenset((each.request, each.refused_at, each.others_start) for each in refused_only(refusals))


def moments(refusals: Iterable[SchedulerRefusal]) -> Sequence[datetime]:
    """When time alone changes what is refused; some may be over."""
    times: list[datetime] = []
    for each in refusals:
        times += [] if each.beside_since is None else [each.beside_since + REFUSED_AFTER]
        times += [] if each.until is None else [each.until]
        if each.refused_at is not None and each.reworded >= REWORDED_AT_ONCE:
            times.append(each.refused_at + REWORDED_AFTER)
    return times


@dataclass(slots=True)
class _Beside:
    """What of one request stands beside room on usable nodes."""

    workloads: list[Workload] = field(default_factory=list)
    nodes: dict[str, tuple[Pool, Node]] = field(default_factory=dict)  # by instance


def judged(facts: Facts, rooms: Mapping[str, Sequence[Placement]], policy: Policy) -> tuple[SchedulerRefusal, ...]:
    """Return the refusals and the evidence after the step that knew *facts* and gave the waiting work *rooms* (by pool
    id). While Civo or Kubernetes does not answer, nothing is learnt and no time counts."""
    now = facts.at
    if not (facts.up(Source.CIVO) and facts.up(Source.KUBERNETES)):
        return tuple(each.paused(now) for each in facts.other_work.refusals)
    beside = _beside(facts, rooms, policy)
    if not beside and not facts.other_work.refusals:
        return ()
    configured = _configured(policy)
    waiting = {_owner(pod) for pod in facts.waiting}
    waiting |= {f"gang {pod.gang}" for pod in facts.waiting if pod.gang is not None}
    before = {e.request: e for e in facts.other_work.refusals if e.configured == configured and _is_of_the_past(e, now)}
    bound = _bound(facts, before)
    refusals: list[SchedulerRefusal] = []
    for request in {**before, **beside}:
        past = before.get(request) or SchedulerRefusal(request=request, configured=configured, seen_at=now)
        evidence = beside.get(request)
        if evidence is not None or request.rpartition("#")[0] in waiting:
            past = replace(past, seen_at=now)
        after = _after(past, evidence, bound.get(request, ()), policy, now)
        if after is not None:
            refusals.append(after)
    refusals.sort(key=lambda each: (each.refused_at is None, now - each.seen_at, each.request))
    return tuple(refusals[:MOST_REQUESTS])


def _is_of_the_past(refusal: SchedulerRefusal, now: datetime) -> bool:
    """False for one that was made under a clock that was ahead."""
    return max(refusal.seen_at, refusal.refused_at or refusal.seen_at) <= now


def _after(
    past: SchedulerRefusal, evidence: _Beside | None, bound: Collection[Pod], policy: Policy, now: datetime
) -> SchedulerRefusal | None:
    """*past* with what this step saw: what stands beside room (*evidence*) and which of its pods are *bound*. None: it
    is over."""
    newest = max((pod.times.bound_at for pod in bound if pod.times.bound_at is not None), default=None)
    if past.refused_at is not None and newest is not None and newest >= past.refused_at:
        if any(pod.key in past.pods or pod.gang in past.pods for pod in bound if _since(pod, past.refused_at)):
            return None  # what was refused has started: the obstacle is gone
        past = replace(past, others_start=True)
    if evidence is None:
        past = replace(past, beside_since=None)
        forgotten = past.refused_at is None or now - past.seen_at > FORGOTTEN_AFTER
        return None if forgotten else past
    since = max(past.beside_since or now, min(newest or past.beside_since or now, now))
    past = replace(past, beside_since=since)
    return _refused(past, evidence, policy, now) if now - since >= REFUSED_AFTER else past


def _since(pod: Pod, moment: datetime) -> bool:
    return pod.times.bound_at is not None and pod.times.bound_at >= moment


def _refused(past: SchedulerRefusal, evidence: _Beside, policy: Policy, now: datetime) -> SchedulerRefusal:
    """The refusal after the scheduler has left pods beside room for long enough.

    Where all the nodes run other GPU pods, these may be the obstacle (a port, a volume): an empty node is tried at
    once. Otherwise each refusal in a row doubles the time.
    """
    pods = [pod for workload in evidence.workloads for pod in workload.pods]
    named = [obstacles(pod.scheduler_says) for pod in pods]
    empty = any(not node.busy for _, node in evidence.nodes.values()) or any(w.gang for w in evidence.workloads)
    tries = past.tries + empty
    wait = wait_after(tries, pods) if empty else timedelta(0)
    paid, usd = spent(evidence.nodes.values(), policy, now)
    return replace(
        past,
        beside_since=None,
        refused_at=now,
        until=now + wait,
        tries=tries,
        reworded=past.reworded + 1 if past.holds(now) else 0,
        empty=empty,
        pods=tuple(sorted(workload.key for workload in evidence.workloads)[:MOST_PODS]),
        others_start=False,
        obstacles=tuple(sorted(frozenset().union(*named))[:MOST_OBSTACLES]) if all(named) else (),
        says=cut(" ".join(next((p.scheduler_says for p in pods if p.scheduler_says), "").split()), LONGEST_WORDS),
        node=min(node.name for _, node in evidence.nodes.values()),
        paid=past.paid + paid,
        usd=None if past.usd is None or usd is None else past.usd + usd,
    )


def wait_after(tries: int, pods: Iterable[Pod]) -> timedelta:
    """How long *pods* get no further node after so many *tries* in a row, while the scheduler's words stay the same."""
    if all(is_of_no_node(pod.scheduler_says) for pod in pods):
        return LONGEST_WAIT
    doublings: int = 2 ** min(max(tries - 1, 0), 10)
    return min(FIRST_WAIT * doublings, LONGEST_WAIT)


def spent(nodes: Iterable[tuple[Pool, Node]], policy: Policy, now: datetime) -> tuple[timedelta, Decimal | None]:
    """The paid time of *nodes* that began while they stood idle, and its price in USD (None: one is not known)."""
    paid = timedelta(0)
    usd: Decimal | None = Decimal(0)
    for pool, node in nodes:
        units, price = _units_for_nothing(node, policy, now), pool.price_usd_per_hour
        paid += units * policy.billing.granularity
        usd = None if usd is None or price is None else usd + units * unit_price(price, policy.billing)
    return paid, usd


def _units_for_nothing(node: Node, policy: Policy, now: datetime) -> int:
    """The paid units of *node* that began since it is idle; all of them if no GPU pod ever ran there."""
    if node.busy or node.idle_since is None:
        return 0
    unused = node.times.usable_since is None or node.idle_since <= node.times.usable_since
    first = first_unit_from(node.created_at, node.created_at if unused else node.idle_since, policy.billing)
    return 0 if first > now else 1 + (now - first) // policy.billing.granularity


def _beside(facts: Facts, rooms: Mapping[str, Sequence[Placement]], policy: Policy) -> Mapping[str, _Beside]:
    """The requests of which the assignment puts a workload on room that is free on usable nodes, all of a gang."""
    placed: dict[str, _Beside] = {}  # by workload
    elsewhere: set[str] = set()  # workloads, parts of which wait for other nodes
    for pool in policy.pools:
        nodes: Mapping[str, Node] = {}
        for placement in rooms.get(pool.id, ()):
            key = placement.workload.key
            if not all(room.usable and room.instance is not None for room in placement.rooms):
                elsewhere.add(key)
                continue
            nodes = nodes or {n.instance: n for n in facts.pool(pool.id).nodes}
            found_on = [nodes[room.instance] for room in placement.rooms if room.instance is not None]
            if not all(map(_is_open, found_on)) or not all(map(_was_judged, placement.workload.pods)):
                elsewhere.add(key)
                continue
            stands = placed.setdefault(key, _Beside())
            stands.workloads.append(placement.workload)
            stands.nodes |= {node.instance: (pool, node) for node in found_on}
    requests: dict[str, _Beside] = {}
    for key in placed.keys() - elsewhere:
        workload = placed[key].workloads[0]
        if len(placed[key].workloads) > 1:  # a gang in parts
            workload = replace(workload, pods=tuple(p for part in placed[key].workloads for p in part.pods))
        stands = requests.setdefault(request_of(workload), _Beside())
        stands.workloads.append(workload)
        stands.nodes |= placed[key].nodes
    return requests


def _is_open(node: Node) -> bool:
    """True for a node that the scheduler may use now."""
    return node.stage is Stage.USABLE and node_hold(node, Blocks.PODS) is None


def _was_judged(pod: Pod) -> bool:
    """True for a pod that exists and that the scheduler left out, as Kubernetes says."""
    return bool(pod.uid) and pod.phase is PodPhase.WAITING and pod.scheduling.pool_hint is None


def _bound(facts: Facts, requests: Iterable[str]) -> Mapping[str, Sequence[Pod]]:
    """The pods with a node by their request, of *requests*."""
    askers = {request.rpartition("#")[0] for request in requests}
    pods_by_request: dict[str, list[Pod]] = {}
    if not askers:
        return pods_by_request
    for pod in (pod for state in facts.pools for node in state.nodes for pod in node.pods):
        if f"gang {pod.gang}" in askers:
            gangs = [request for request in requests if request.rpartition("#")[0] == f"gang {pod.gang}"]
            for request in gangs:
                pods_by_request.setdefault(request, []).append(pod)
        if _owner(pod) in askers:
            pods_by_request.setdefault(request_of(Workload(key=pod.key, pods=(pod,))), []).append(pod)
    return pods_by_request


def _configured(policy: Policy) -> str:
    return hashlib.sha256(repr([fingerprint(pool) for pool in policy.pools]).encode()).hexdigest()[:16]
