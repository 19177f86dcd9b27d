"""Usage accounting: what a step sees as increments of the ledger. A pod holds its GPUs from its binding until it is
gone, used or not, also while this process does not run; of a vanished pod only the observed time counts. Time that a
pod may have held unobserved is *unwatched*: neither used nor idle."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from receiver.core.model.memory import NodeLife
from receiver.core.model.model import Node
from receiver.core.model.pods import Pod, gpus_of
from receiver.core.model.policy import Attribution, Policy
from receiver.core.model.usage import (
    Accounted,
    Accounting,
    EndedPod,
    GpuHolding,
    Measure,
    Owner,
    Sample,
    Unwatched,
    Usage,
    WorkloadLife,
    measure,
    workload_name,
)
from receiver.core.money.budget import month_of
from receiver.core.money.cost import first_unit_from, unit_begin

# An instance that is missing in Civo's list may come back: for this long the pods that Kubernetes shows hold it.
LEFT_OUT = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSight:
    """What a step observed at *at*: all node lives, the nodes of the configured pools, all GPU pods of the cluster.
    *samples* are by ``namespace/name`` of the pod; *ended* are pods that Kubernetes still shows after their end."""

    at: datetime
    lives: Sequence[NodeLife]
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    ended: Sequence[EndedPod] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A *pod* that holds *gpus* GPUs (slices and shares as fractions) of the node of *life*."""

    pod: Pod
    life: NodeLife
    gpus: float


def _holders(sight: StepSight) -> dict[str, Holder]:
    """The pods that hold GPUs of a known node, by uid; also those that Kubernetes still shows on nodes that Civo has
    just stopped listing."""
    lives = {life.instance: life for life in sight.lives}
    holders = {
        pod.uid: Holder(pod=pod, life=lives[node.instance], gpus=gpus_of(pod.requests, node.labels))
        for node in sight.nodes if node.instance in lives
        for pod in node.pods if pod.uid and not pod.reserved
    }  # fmt: skip
    listed = {node.name for node in sight.nodes}
    departed = {
        life.name: life
        for life in sight.lives
        if life.gone_at is not None and sight.at - life.gone_at <= LEFT_OUT and life.name not in listed
    }
    for pod in sight.pods if departed else ():
        life = departed.get(pod.node or "")
        if life is not None and pod.uid and not pod.reserved and pod.uid not in holders:
            holders[pod.uid] = Holder(pod=pod, life=life, gpus=gpus_of(pod.requests, {}))
    return holders


# In a longer pause pods may come and go unobserved. Two accountings, a slow step and a restart fit into it.
CONTINUOUS = timedelta(minutes=3)

LABELS = tuple(name for name in Owner.__slots__ if name != "priority_class")  # the labels of `Attribution`
Named = tuple[str, str]  # a workload's name and its life


def workload_of(pod: Pod) -> str:
    """The name of the workload of *pod*."""
    return workload_name(pod.namespace, pod.owner, pod.name)


def _owner_of(pod: Pod, attribution: Attribution) -> Owner:
    labels = {name: pod.labels.get(getattr(attribution, name), "") for name in LABELS}
    return Owner(**labels, priority_class=pod.priority_class)


def life_of(pod: Pod) -> str:
    """The life of *pod*'s workload, which distinguishes reuses of its name: the uid of its controller or itself."""
    return pod.owner_uid if pod.owner else pod.uid


def _present(sight: StepSight, ours: Container[str]) -> dict[Named, list[Pod]]:
    """The workloads that wait or whose pods are in *ours* (uids), with their pods; announced pods do not count."""
    workloads: dict[Named, list[Pod]] = {}
    for pod in sight.pods:
        waits = (pod.node is None or pod.reserved) and not pod.daemon
        if pod.uid and (waits or pod.uid in ours):
            workloads.setdefault((workload_of(pod), life_of(pod)), []).append(pod)
    return workloads


def _ended(before: Accounted, alive: Container[Named]) -> list[WorkloadLife]:
    return [life for life in before.running if (life.workload, life.life) not in alive]


def continues(before: Accounted, sight: StepSight) -> bool:
    """True when no pod can have come and gone unobserved since *before*."""
    return before.at is not None and timedelta(0) <= sight.at - before.at <= CONTINUOUS


def _last_observed(before: Accounted, sight: StepSight) -> datetime:
    """Now, or when an unobserved pause began."""
    return sight.at if continues(before, sight) else before.at or sight.at


def _changed_lives(before: Accounted, sight: StepSight, ours: Container[str], policy: Policy) -> list[WorkloadLife]:
    """The workloads that are new, grew, were bound, changed owner, or ended; *ours* as in `_present`."""
    alive = _present(sight, ours)
    running = {(life.workload, life.life): life for life in before.running}
    changed: list[WorkloadLife] = []
    for named, pods in alive.items():
        by_age = sorted(pods, key=lambda p: (p.created_at, p.name))
        oldest, newest, past = by_age[0], by_age[-1], running.get(named)
        life = past or WorkloadLife(
            workload=named[0], life=named[1], namespace=oldest.namespace, created_at=oldest.created_at
        )
        bound = [
            p.times.bound_at or p.times.running_since or sight.at for p in pods if p.node is not None and not p.reserved
        ]
        now = replace(
            life,
            owner=_owner_of(newest, policy.attribution),
            gpus=max(life.gpus, sum(p.gpus for p in pods)),
            bound_at=life.bound_at or min(bound, default=None),
        )
        if now != past:
            changed.append(now)
    last = _last_observed(before, sight)
    return [*changed, *(_end(life, sight, last) for life in _ended(before, alive))]


def _end(life: WorkloadLife, sight: StepSight, last: datetime) -> WorkloadLife:
    """*life* with its end: that of its last pod, if Kubernetes still shows it."""
    ends = [
        e
        for e in sight.ended
        if e.workload == life.workload and e.life in ("", life.life) and (e.at or last) >= life.created_at
    ]
    final = max(ends, key=lambda e: (e.at or last, e.uid), default=None)
    at = min((final.at if final else None) or last, sight.at)
    return replace(life, ended_at=max(at, life.created_at), completed=final.succeeded if final else None)


EVERY = timedelta(minutes=1)
# A sample is the mean of two minutes and counts for no more than these.
SAMPLED = timedelta(minutes=2)
# An account further ahead than this was moved there by a wrong clock, and is set back to now.
WRONG_CLOCK = timedelta(minutes=3)


Sums = dict[tuple[str, str, str, str, Owner], Usage]  # by month, instance, workload, life and owner
Span = tuple[GpuHolding, NodeLife, datetime, datetime, Measure]  # what held GPUs of a node from when to when


def is_due(before: Accounted, sight: StepSight) -> bool:
    """True when usage should be accounted for now: a minute has passed, or other pods hold GPUs."""
    if before.at is None:
        return True
    passed = sight.at - before.at
    if passed <= timedelta(0):
        return -passed > WRONG_CLOCK
    return passed >= EVERY or _holders(sight).keys() != {h.uid for h in before.holdings}


def ended_in(before: Accounted, sight: StepSight) -> frozenset[str]:
    """The namespaces of pods or workloads that have gone since, to ask Kubernetes how they ended."""
    bound = _holders(sight)
    ended_workloads = [h.workload for h in before.holdings if h.uid not in bound]
    ended_workloads += [life.workload for life in _ended(before, _present(sight, bound))]
    return frozenset(name.partition("/")[0] for name in ended_workloads)


def account(before: Accounted, sight: StepSight, policy: Policy) -> Accounting:
    """Return what to add to the ledger for the time from *before* to *sight*. If a wrong clock moved the account ahead,
    the increments are negative: they undo the time that is yet to come."""
    bound = _holders(sight)
    ahead = before.at is not None and before.at > sight.at
    sums: Sums = {}
    for span in _taken_back(before, sight) if ahead else _held(before, sight, bound, policy):
        _add(sums, span, policy)
    return Accounting(
        usage=tuple(sums.values()),
        unwatched=tuple(_unwatched(before, sight, sums, policy)),
        lives=tuple(_changed_lives(before, sight, bound, policy)),
        holdings=tuple(_holding(holder, policy) for holder in bound.values()),
    )


def _held(before: Accounted, sight: StepSight, bound: Mapping[str, Holder], policy: Policy) -> Iterator[Span]:
    """What present and vanished pods held since *before*."""
    old = {h.uid: h for h in before.holdings}
    successors: dict[str, datetime] = {}  # when the first new pod was bound, by instance
    for uid, holder in bound.items():
        pod, life, past = holder.pod, holder.life, old.get(uid)
        start = _floor(life, before, sight, policy)
        if past is None:
            start = max(start, pod.times.bound_at or pod.times.running_since or sight.at)
            if (bound_at := pod.times.bound_at) is not None:
                successors[life.instance] = min(bound_at, successors.get(life.instance, bound_at))
        elif past.until is not None:
            start = past.until
        yield _holding(holder, policy), life, start, sight.at, measure(sight.samples.get(pod.key, ()), pod.gpus)
    lives = {life.instance: life for life in sight.lives}
    reported = {e.uid: e.at for e in sight.ended}
    last = _last_observed(before, sight)
    for uid, holding in old.items():
        if uid not in bound and before.at is not None and holding.instance in lives:
            # Its end as Kubernetes reports it; else when another pod took its place.
            at = reported.get(uid)
            end = min(last, successors.get(holding.instance, last)) if at is None else min(at, sight.at)
            yield holding, lives[holding.instance], holding.until or before.at, end, Measure()


def _taken_back(before: Accounted, sight: StepSight) -> Iterator[Span]:
    """What the pods that held GPUs at *before* were given after now, as negative numbers of GPUs."""
    lives = {life.instance: life for life in sight.lives}
    for holding in before.holdings:
        if before.at is not None and holding.instance in lives:
            until = min(holding.until or before.at, before.at)
            given_back = replace(holding, gpus=-holding.gpus)
            yield given_back, replace(lives[holding.instance], gone_at=None), sight.at, until, Measure()


def _holding(holder: Holder, policy: Policy) -> GpuHolding:
    pod, life = holder.pod, holder.life
    return GpuHolding(
        uid=pod.uid,
        instance=life.instance,
        workload=workload_of(pod),
        gpus=holder.gpus,
        life=life_of(pod),
        owner=_owner_of(pod, policy.attribution),
        until=None if life.gone_at is None else max(life.gone_at, pod.times.bound_at or life.gone_at),
    )


def _is_unknown(life: NodeLife, before: Accounted) -> bool:
    return before.at is None or (life.seen_at is not None and life.seen_at > before.at)


def _floor(life: NodeLife, before: Accounted, sight: StepSight, policy: Policy) -> datetime:
    """The time from which *life* is not accounted for; for an unknown node within the month of its first sight."""
    if before.at is None or _is_unknown(life, before):
        return max(life.created_at, month_of(min(life.seen_at or sight.at, sight.at), policy.timezone).start)
    return max(life.created_at, before.at)


def _months(life: NodeLife, start: datetime, end: datetime, policy: Policy) -> Iterator[tuple[str, datetime, datetime]]:
    """Split *start* to *end* where the month changes in which the paid unit of *life* began."""
    at = max(start, life.created_at)
    while at < end:
        month = month_of(unit_begin(life.created_at, at, policy.billing), policy.timezone)
        border = end
        if end > month.end:
            border = min(end, first_unit_from(life.created_at, month.end, policy.billing))
        yield month.name, at, border
        at = border


def _add(sums: Sums, span: Span, policy: Policy) -> None:
    """Add what was held of a node to the months in which it was paid for."""
    holding, life, start, end, did = span
    end = end if life.gone_at is None else min(end, life.gone_at)
    whole = (end - start).total_seconds()
    offered = life.gpus or 1.0
    for month, since, until in _months(life, start, end, policy):
        key = month, life.instance, holding.workload, holding.life, holding.owner
        usage = sums.get(key) or Usage(
            month=month,
            instance=life.instance,
            workload=holding.workload,
            namespace=holding.workload.partition("/")[0],
            life=holding.life,
            owner=holding.owner,
        )
        held = holding.gpus * (until - since).total_seconds()
        sampled = held * did.share * min(1.0, SAMPLED.total_seconds() / whole)
        sums[key] = replace(
            usage,
            held=usage.held + held,
            node_seconds=(usage.node_seconds or 0.0) + held / offered,
            measured=usage.measured + sampled,
            idle=usage.idle + sampled * did.idle,
            busy=usage.busy + sampled * did.engine,
            memory=usage.memory + sampled * did.memory,
            peak_engine=_higher(usage.peak_engine, did.peak_engine),
            peak_memory=_higher(usage.peak_memory, did.peak_memory),
        )


def _unwatched(before: Accounted, sight: StepSight, sums: Sums, policy: Policy) -> Iterator[Unwatched]:
    """The unobserved time since *before*; negative for time that is yet to come (see `account`)."""
    held: dict[tuple[str, str], float] = {}
    for row in sums.values():
        held[row.month, row.instance] = held.get((row.month, row.instance), 0.0) + (row.node_seconds or 0.0)
    pause = not continues(before, sight)
    ahead = before.at is not None and before.at > sight.at
    for life in sight.lives:
        # On a node first seen since the last accounting and usable then, what was held before is unknown.
        new = _is_unknown(life, before) and life.usable_at == life.seen_at
        blind = pause or new or policy.pool(life.pool) is None
        if not blind or life.usable_at is None:  # nothing runs on a node without usable GPUs
            continue
        start, end = _floor(life, before, sight, policy), sight.at
        if ahead and before.at is not None:
            start, end = sight.at, before.at
        end = end if life.gone_at is None else min(life.gone_at, end)
        sign = -1 if ahead else 1
        for month, since, until in _months(life, start, end, policy):
            gap = sign * (until - since).total_seconds() - held.pop((month, life.instance), 0.0)
            if gap * sign > 0:
                yield Unwatched(month=month, instance=life.instance, seconds=gap * life.gpus, node_seconds=gap)


def _higher(one: float | None, other: float | None) -> float | None:
    return max((peak for peak in (one, other) if peak is not None), default=None)
