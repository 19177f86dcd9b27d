"""Usage accounting: turns what a step sees into increments of the ledger.

A pod holds its GPUs from its binding until it is gone, whether or not it uses them. Kubernetes reports when a pod was
bound, so a pod that still exists held its GPUs for all of that time, including time when this process did not run. Of
a pod that has vanished, only the observed time counts. Time that a pod may have held unobserved is *unwatched*: neither
used nor idle.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from receiver.core.model.activity import Measure, Sample, measure
from receiver.core.model.memory import NodeLife
from receiver.core.model.model import Node
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Attribution, Policy
from receiver.core.model.resources import gpus_of
from receiver.core.model.usage import (
    Accounted,
    Accounting,
    EndedPod,
    GpuHolding,
    Owner,
    Unwatched,
    Usage,
    WorkloadLife,
    workload_name,
)
from receiver.core.money.budget import Month, month_of
from receiver.core.money.cost import first_unit_from, unit_begin

# An instance that is missing in Civo's list may come back: for this long the pods that Kubernetes shows hold it.
LEFT_OUT = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSight:
    """What a step observed at *at*: all node lives, the nodes of the configured pools, all GPU pods of the cluster.

    *samples* are by ``namespace/name`` of the pod; *ended* are pods that Kubernetes still shows after their end.
    """

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


def holders_in(seen: StepSight) -> dict[str, Holder]:
    """The pods that hold GPUs of a known node, by uid."""
    known = {life.instance: life for life in seen.lives}
    found = {
        pod.uid: Holder(pod=pod, life=known[node.instance], gpus=gpus_of(pod.requests, node.labels))
        for node in seen.nodes if node.instance in known
        for pod in node.pods if pod.uid
    }  # fmt: skip
    found.update((holder.pod.uid, holder) for holder in _left_out(seen) if holder.pod.uid not in found)
    return found


def _left_out(seen: StepSight) -> Iterator[Holder]:
    """The pods that Kubernetes still shows on nodes that Civo has just stopped listing."""
    listed = {node.name for node in seen.nodes}
    gone = {
        life.name: life
        for life in seen.lives
        if life.gone_at is not None and seen.at - life.gone_at <= LEFT_OUT and life.name not in listed
    }
    for pod in seen.pods if gone else ():
        life = gone.get(pod.node or "")
        if life is not None and pod.uid:
            yield Holder(pod=pod, life=life, gpus=gpus_of(pod.requests, {}))


# In a longer pause pods may come and go unobserved. Two accountings, a slow step and a restart fit into it.
CONTINUOUS = timedelta(minutes=3)

Named = tuple[str, str]  # a workload's name and its life


def workload_of(pod: Pod) -> str:
    """The name of the workload of *pod*."""
    return workload_name(pod.namespace, pod.owner, pod.name)


def owner_of(pod: Pod, attribution: Attribution) -> Owner:
    """The owner of *pod*, by its labels and its PriorityClass."""
    labels = pod.labels
    return Owner(
        team=labels.get(attribution.team, ""),
        project=labels.get(attribution.project, ""),
        workload_class=labels.get(attribution.workload_class, ""),
        environment=labels.get(attribution.environment, ""),
        cost_center=labels.get(attribution.cost_center, ""),
        priority_class=pod.priority_class,
    )


def life_of(pod: Pod) -> str:
    """The life of *pod*'s workload, which distinguishes reuses of its name: the uid of its controller or itself."""
    return pod.owner_uid if pod.owner else pod.uid


def present(seen: StepSight, ours: Container[str]) -> dict[Named, list[Pod]]:
    """The workloads that wait or whose pods are in *ours* (uids), with their pods; announced pods do not count."""
    found: dict[Named, list[Pod]] = {}
    for pod in seen.pods:
        waits = pod.node is None and not pod.daemon
        if pod.uid and (waits or pod.uid in ours):
            found.setdefault((workload_of(pod), life_of(pod)), []).append(pod)
    return found


def ended_of(before: Accounted, alive: Container[Named]) -> list[WorkloadLife]:
    """The workloads that ran at *before* and have no pods left."""
    return [life for life in before.running if (life.workload, life.life) not in alive]


def continues(before: Accounted, seen: StepSight) -> bool:
    """True when no pod can have come and gone unobserved since *before*."""
    return before.at is not None and timedelta(0) <= seen.at - before.at <= CONTINUOUS


def changed_lives(before: Accounted, seen: StepSight, ours: Container[str], policy: Policy) -> list[WorkloadLife]:
    """The workloads that are new, grew, were bound, changed owner, or ended; *ours* as in `present`."""
    alive = present(seen, ours)
    running = {(life.workload, life.life): life for life in before.running}
    changed: list[WorkloadLife] = []
    for named, pods in alive.items():
        past = running.get(named)
        life = past or _new_life(named, pods)
        bound = [p.bound_at or p.running_since or seen.at for p in pods if p.node is not None]
        newest = max(pods, key=lambda p: (p.created_at, p.name))
        now = replace(
            life,
            owner=owner_of(newest, policy.attribution),
            gpus=max(life.gpus, sum(p.gpus for p in pods)),
            bound_at=life.bound_at or min(bound, default=None),
        )
        if now != past:
            changed.append(now)
    last = seen.at if continues(before, seen) else before.at or seen.at
    return [*changed, *(_end(life, seen, last) for life in ended_of(before, alive))]


def _end(life: WorkloadLife, seen: StepSight, last: datetime) -> WorkloadLife:
    """*life* with its end: that of its last pod, if Kubernetes still shows it."""
    shown = [
        e
        for e in seen.ended
        if e.workload == life.workload and e.life in ("", life.life) and (e.at or last) >= life.created_at
    ]
    final = max(shown, key=lambda e: (e.at or last, e.uid), default=None)
    at = min((final.at if final else None) or last, seen.at)
    return replace(life, ended_at=max(at, life.created_at), completed=final.succeeded if final else None)


def _new_life(named: Named, pods: Sequence[Pod]) -> WorkloadLife:
    oldest = min(pods, key=lambda p: (p.created_at, p.name))
    workload, life = named
    return WorkloadLife(workload=workload, life=life, namespace=oldest.namespace, created_at=oldest.created_at)


EVERY = timedelta(minutes=1)
# A sample is the mean of two minutes and counts for no more than these.
SAMPLED = timedelta(minutes=2)
# An account further ahead than this was moved there by a wrong clock, and is set back to now.
WRONG_CLOCK = timedelta(minutes=3)


@dataclass(frozen=True, slots=True)
class _Whose:
    """The key by which usage is added up."""

    month: str
    instance: str
    workload: str
    life: str
    owner: Owner


@dataclass(slots=True)
class _Sums:
    """Sums of GPU-seconds, and of seconds of the node."""

    held: float = 0.0
    node_seconds: float = 0.0
    measured: float = 0.0
    idle: float = 0.0
    busy: float = 0.0
    memory: float = 0.0
    peak_engine: float | None = None
    peak_memory: float | None = None


class _Calendar:
    """Assigns time to the month in which its paid unit began; caches the month last used."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._month: Month | None = None

    def months(self, life: NodeLife, start: datetime, end: datetime) -> Iterator[tuple[str, datetime, datetime]]:
        """Split *start* to *end* where the month of the paid unit of *life* changes."""
        at = max(start, life.created_at)
        while at < end:
            month = self._of(unit_begin(life.created_at, at, self._policy.billing))
            border = end
            if end > month.end:
                border = min(end, first_unit_from(life.created_at, month.end, self._policy.billing))
            yield month.name, at, border
            at = border

    def _of(self, at: datetime) -> Month:
        known = self._month
        if known is None or not known.start <= at < known.end:
            known = self._month = month_of(at, self._policy.timezone)
        return known


def is_due(before: Accounted, seen: StepSight) -> bool:
    """True when usage should be accounted for now: a minute has passed, or other pods hold GPUs."""
    if before.at is None:
        return True
    passed = seen.at - before.at
    if passed <= timedelta(0):
        return -passed > WRONG_CLOCK
    return passed >= EVERY or holders_in(seen).keys() != {h.uid for h in before.holdings}


def ended_in(before: Accounted, seen: StepSight) -> frozenset[str]:
    """The namespaces of pods or workloads that have gone since, to ask Kubernetes how they ended."""
    bound = holders_in(seen)
    gone = [h.workload for h in before.holdings if h.uid not in bound]
    gone += [life.workload for life in ended_of(before, present(seen, bound))]
    return frozenset(name.partition("/")[0] for name in gone)


def account(before: Accounted, seen: StepSight, policy: Policy) -> Accounting:
    """Return what to add to the ledger for the time from *before* to *seen*.

    If a wrong clock moved the account ahead, the increments are negative: they undo the time that is yet to come.
    """
    bound = holders_in(seen)
    known = {life.instance: life for life in seen.lives}
    sums: dict[_Whose, _Sums] = {}
    ahead = before.at is not None and before.at > seen.at
    if ahead:
        _take_back(sums, before, seen, policy)
    else:
        _add_up(sums, before, seen, bound, policy)
    return Accounting(
        usage=tuple(_usage(whose, s) for whose, s in sums.items()),
        unwatched=tuple(_unwatched(before, known.values(), seen, sums, policy)),
        lives=tuple(changed_lives(before, seen, bound, policy)),
        holdings=tuple(_holding(holder, policy) for holder in bound.values()),
    )


def _add_up(
    sums: dict[_Whose, _Sums], before: Accounted, seen: StepSight, bound: Mapping[str, Holder], policy: Policy
) -> None:
    """Add what present and vanished pods held since *before*."""
    calendar = _Calendar(policy)
    known = {life.instance: life for life in seen.lives}
    old = {h.uid: h for h in before.holdings}
    for uid, holder in bound.items():
        pod, past = holder.pod, old.get(uid)
        start = _floor(holder.life, before, seen, policy)
        if past is None:
            start = max(start, pod.bound_at or pod.running_since or seen.at)
        elif past.until is not None:
            start = past.until
        found = measure(seen.samples.get(pod.key, ()), pod.gpus)
        _add(sums, _holding(holder, policy), holder.life, (start, seen.at), found, calendar)
    ends = _Ends(before, seen, bound)
    for uid, holding in old.items():
        gone_from = known.get(holding.instance)
        if uid not in bound and before.at is not None and gone_from is not None:
            span = (holding.until or before.at, ends(uid, holding))
            _add(sums, holding, gone_from, span, Measure(), calendar)


def _take_back(sums: dict[_Whose, _Sums], before: Accounted, seen: StepSight, policy: Policy) -> None:
    """Subtract what the pods that held GPUs at *before* were given after now."""
    calendar, known = _Calendar(policy), {life.instance: life for life in seen.lives}
    for holding in before.holdings:
        life = known.get(holding.instance)
        if life is not None and before.at is not None:
            until = min(holding.until or before.at, before.at)
            given_back = replace(holding, gpus=-holding.gpus)
            _add(sums, given_back, replace(life, gone_at=None), (seen.at, until), Measure(), calendar)


def _holding(holder: Holder, policy: Policy) -> GpuHolding:
    pod, life = holder.pod, holder.life
    return GpuHolding(
        uid=pod.uid,
        instance=life.instance,
        workload=workload_of(pod),
        gpus=holder.gpus,
        life=life_of(pod),
        owner=owner_of(pod, policy.attribution),
        until=None if life.gone_at is None else max(life.gone_at, pod.bound_at or life.gone_at),
    )


def _is_new(life: NodeLife, before: Accounted) -> bool:
    """True for a node first seen since the last accounting and usable then: what was held on it is unknown."""
    return _is_unknown(life, before) and life.usable_at is not None and life.usable_at == life.seen_at


def _is_unknown(life: NodeLife, before: Accounted) -> bool:
    """True for a node first seen since the last accounting."""
    return before.at is None or (life.seen_at is not None and life.seen_at > before.at)


def _floor(life: NodeLife, before: Accounted, seen: StepSight, policy: Policy) -> datetime:
    """The time from which *life* is not accounted for; for an unknown node within the month of its first sight."""
    if before.at is None or _is_unknown(life, before):
        return max(life.created_at, month_of(min(life.seen_at or seen.at, seen.at), policy.timezone).start)
    return max(life.created_at, before.at)


class _Ends:
    """When vanished pods released their GPUs."""

    def __init__(self, before: Accounted, seen: StepSight, bound: Mapping[str, Holder]) -> None:
        self._told = {e.uid: e.at for e in seen.ended}
        self._last = seen.at if continues(before, seen) else before.at or seen.at
        self._latest = seen.at
        held = {h.uid for h in before.holdings}
        self._successors: dict[str, datetime] = {}
        for uid, holder in bound.items():
            at, instance = holder.pod.bound_at, holder.life.instance
            if uid not in held and at is not None:
                self._successors[instance] = min(at, self._successors.get(instance, at))

    def __call__(self, uid: str, holding: GpuHolding) -> datetime:
        """As Kubernetes reports; else when another pod took its place; else now, or when an unobserved pause began."""
        told = self._told.get(uid)
        if told is not None:
            return min(told, self._latest)
        return min(self._last, self._successors.get(holding.instance, self._last))


def _add(
    sums: dict[_Whose, _Sums],
    holding: GpuHolding,
    life: NodeLife,
    span: tuple[datetime, datetime],
    did: Measure,
    calendar: _Calendar,
) -> None:
    """Add what *holding* held of *life* within *span* to the months in which it was paid for."""
    start, end = span[0], span[1] if life.gone_at is None else min(span[1], life.gone_at)
    whole = (end - start).total_seconds()
    offered = life.gpus or 1.0
    for month, since, until in calendar.months(life, start, end):
        whose = _Whose(month, life.instance, holding.workload, holding.life, holding.owner)
        found = sums.setdefault(whose, _Sums())
        held = holding.gpus * (until - since).total_seconds()
        sampled = held * did.share * min(1.0, SAMPLED.total_seconds() / whole)
        found.held += held
        found.node_seconds += held / offered
        found.measured += sampled
        found.idle += sampled * did.idle
        found.busy += sampled * did.engine
        found.memory += sampled * did.memory
        found.peak_engine = _higher(found.peak_engine, did.peak_engine)
        found.peak_memory = _higher(found.peak_memory, did.peak_memory)


def _unwatched(
    before: Accounted, lives: Iterable[NodeLife], seen: StepSight, sums: Mapping[_Whose, _Sums], policy: Policy
) -> Iterator[Unwatched]:
    """The unobserved time since *before*; negative for time that is yet to come (see `account`)."""
    held: dict[tuple[str, str], float] = {}
    for whose, found in sums.items():
        held[whose.month, whose.instance] = held.get((whose.month, whose.instance), 0.0) + found.node_seconds
    pause = not continues(before, seen)
    ahead = before.at is not None and before.at > seen.at
    for life in lives:
        blind = pause or _is_new(life, before) or policy.pool(life.pool) is None
        if not blind or life.usable_at is None:  # nothing runs on a node without usable GPUs
            continue
        start, end = _floor(life, before, seen, policy), seen.at
        if ahead and before.at is not None:
            start, end = seen.at, before.at
        end = end if life.gone_at is None else min(life.gone_at, end)
        sign = -1 if ahead else 1
        for month, since, until in _Calendar(policy).months(life, start, end):
            rest = sign * (until - since).total_seconds() - held.pop((month, life.instance), 0.0)
            if rest * sign > 0:
                yield Unwatched(month=month, instance=life.instance, seconds=rest * life.gpus, node_seconds=rest)


def _usage(whose: _Whose, sums: _Sums) -> Usage:
    return Usage(
        month=whose.month,
        instance=whose.instance,
        workload=whose.workload,
        namespace=whose.workload.partition("/")[0],
        life=whose.life,
        owner=whose.owner,
        held=sums.held,
        node_seconds=sums.node_seconds,
        measured=sums.measured,
        idle=sums.idle,
        busy=sums.busy,
        memory=sums.memory,
        peak_engine=sums.peak_engine,
        peak_memory=sums.peak_memory,
    )


def _higher(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
