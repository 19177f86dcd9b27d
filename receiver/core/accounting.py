"""Who held the GPUs since usage was last accounted for: from what is seen now to increments for the ledger.

A pod holds its GPUs from its binding until it is gone, whatever they do. Kubernetes says when a pod was bound, so a
pod that is still there held them all the time, also while nobody looked. Of a pod that has vanished only as much is
counted as somebody saw, and what could have been held unseen is *unwatched*: neither used nor idle.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.activity import Sample, at_rest
from receiver.core.budget import Month, month_of
from receiver.core.cost import first_unit_from, unit_begin
from receiver.core.memory import NodeLife
from receiver.core.pods import Pod
from receiver.core.policy import Policy
from receiver.core.usage import Accounted, Accounting, Holding, Unwatched, Usage, WorkloadLife
from receiver.core.workload_lives import Seen, changed_lives, continues, present, workload_of

EVERY = timedelta(minutes=1)
# A sample speaks for the two minutes that it is the mean of, and for no more.
SAMPLED = timedelta(minutes=2)
# An account that stands further ahead than this was moved there by a wrong clock, and starts again from now.
WRONG_CLOCK = timedelta(hours=1)
Whose = tuple[str, str, str]  # month, instance, workload


@dataclass(slots=True)
class _Sums:
    """GPU-seconds of one month, instance and workload while they are added up."""

    holder: WorkloadLife
    held: float = 0.0
    measured: float = 0.0
    idle: float = 0.0
    busy: float = 0.0
    memory: float = 0.0
    peak_engine: float | None = None
    peak_memory: float | None = None


@dataclass(frozen=True, slots=True)
class _Measure:
    """What samples say of a pod, as means over its GPUs: the share of them that was sampled, and of that the rest."""

    share: float = 0.0
    idle: float = 0.0
    engine: float = 0.0
    memory: float = 0.0
    peak_engine: float | None = None
    peak_memory: float | None = None


class _Calendar:
    """In which month is paid for what is held when; it knows the month that it was asked for last."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._month: Month | None = None

    def months(self, life: NodeLife, start: datetime, end: datetime) -> Iterator[tuple[str, datetime, datetime]]:
        """Split *start* to *end* where the month changes in which the paid unit of *life* began."""
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


def is_due(before: Accounted, seen: Seen) -> bool:
    """True when usage should be accounted for now: a minute has passed, or the pods that hold GPUs are others."""
    if before.at is None:
        return True
    passed = seen.at - before.at
    if passed <= timedelta(0):
        return -passed > WRONG_CLOCK
    return passed >= EVERY or _bound(seen).keys() != {h.uid for h in before.holdings}


def ended_in(before: Accounted, seen: Seen) -> frozenset[str]:
    """The namespaces in which pods or workloads have gone since, so that Kubernetes may be asked how they ended."""
    bound, alive = _bound(seen), present(seen)
    gone = [h.workload for h in before.holdings if h.uid not in bound]
    gone += [life.workload for life in before.running if life.workload not in alive]
    return frozenset(name.partition("/")[0] for name in gone)


def account(before: Accounted, seen: Seen, policy: Policy) -> Accounting:
    """Return what to add to the ledger for the time from *before* to what is *seen*."""
    bound = _bound(seen)
    known = {life.instance: life for life in seen.lives}
    running = {life.workload: life for life in before.running}
    lives = changed_lives(before, seen, policy)
    holders = {**running, **{life.workload: life for life in lives}}
    sums: dict[Whose, _Sums] = {}
    calendar = _Calendar(policy)
    old = {h.uid: h for h in before.holdings}
    for uid, (pod, instance) in bound.items():
        life = known[instance]
        start = _floor(life, before, seen, policy)
        if uid not in old:
            start = max(start, pod.bound_at or pod.running_since or seen.at)
        measure = _measure(pod, seen.samples.get(pod.key, ()))
        _add(sums, holders[workload_of(pod)], life, pod.gpus, (start, seen.at), measure, calendar)
    ends = _Ends(before, seen)
    for uid, holding in old.items():
        gone_from, holder = known.get(holding.instance), holders.get(holding.workload)
        if uid not in bound and before.at is not None and gone_from is not None and holder is not None:
            _add(sums, holder, gone_from, holding.gpus, (before.at, ends(uid, holding)), _Measure(), calendar)
    return Accounting(
        usage=tuple(_usage(whose, s) for whose, s in sums.items()),
        unwatched=tuple(_unwatched(before, seen, sums, policy)),
        lives=tuple(lives),
        holdings=tuple(
            Holding(uid=uid, instance=instance, workload=workload_of(pod), gpus=pod.gpus)
            for uid, (pod, instance) in bound.items()
        ),
    )


def _bound(seen: Seen) -> dict[str, tuple[Pod, str]]:
    """The pods that hold GPUs of a node that has a life, by uid, and that node's instance."""
    known = {life.instance for life in seen.lives}
    ours = (node for node in seen.nodes if node.instance in known)
    return {pod.uid: (pod, node.instance) for node in ours for pod in node.pods if pod.uid}


def _is_new(life: NodeLife, before: Accounted) -> bool:
    """True for a node that was usable when it was first seen, since the last accounting: what it held is not known."""
    first = life.seen_at
    return before.at is None or (first is not None and first > before.at and life.usable_at == first)


def _floor(life: NodeLife, before: Accounted, seen: Seen, policy: Policy) -> datetime:
    """From when on *life* has not been accounted for: not before this month for one that was never seen."""
    if before.at is None or _is_new(life, before):
        return max(life.created_at, month_of(seen.at, policy.timezone).start)
    return max(life.created_at, before.at)


class _Ends:
    """When pods that have vanished let their GPUs go."""

    def __init__(self, before: Accounted, seen: Seen) -> None:
        self._told = {e.uid: e.at for e in seen.ended}
        self._last = seen.at if continues(before, seen) else before.at or seen.at
        self._latest = seen.at
        held = {h.uid for h in before.holdings}
        self._successors: dict[str, datetime] = {}
        for uid, (pod, instance) in _bound(seen).items():
            if uid not in held and pod.bound_at is not None:
                self._successors[instance] = min(pod.bound_at, self._successors.get(instance, pod.bound_at))

    def __call__(self, uid: str, holding: Holding) -> datetime:
        """As Kubernetes says; else when another pod took its place; else now, or not at all after a pause."""
        told = self._told.get(uid)
        if told is not None:
            return min(told, self._latest)
        return min(self._last, self._successors.get(holding.instance, self._last))


def _measure(pod: Pod, samples: Sequence[Sample]) -> _Measure:
    told = [(s, rest) for s in samples if (rest := at_rest(s)) is not None]
    if not told or not pod.gpus:
        return _Measure()
    count = len(told)
    return _Measure(
        share=min(1.0, count / pod.gpus),
        idle=sum(rest for _, rest in told) / count,
        engine=sum(s.engine or 0.0 for s, _ in told) / count,
        memory=sum(s.memory or 0.0 for s, _ in told) / count,
        peak_engine=max(s.engine or 0.0 for s, _ in told),
        peak_memory=max(s.peak_memory or 0.0 for s, _ in told),
    )


def _add(
    sums: dict[Whose, _Sums],
    holder: WorkloadLife,
    life: NodeLife,
    gpus: int,
    span: tuple[datetime, datetime],
    measure: _Measure,
    calendar: _Calendar,
) -> None:
    """Add what *holder* held during *span* to the months in which it was paid for."""
    whole = (span[1] - span[0]).total_seconds()
    for month, start, end in calendar.months(life, *span):
        found = sums.setdefault((month, life.instance, holder.workload), _Sums(holder))
        held = gpus * (end - start).total_seconds()
        sampled = held * measure.share * min(1.0, SAMPLED.total_seconds() / whole)
        found.held += held
        found.measured += sampled
        found.idle += sampled * measure.idle
        found.busy += sampled * measure.engine
        found.memory += sampled * measure.memory
        found.peak_engine = _higher(found.peak_engine, measure.peak_engine)
        found.peak_memory = _higher(found.peak_memory, measure.peak_memory)


def _unwatched(before: Accounted, seen: Seen, sums: Mapping[Whose, _Sums], policy: Policy) -> Iterator[Unwatched]:
    held: dict[tuple[str, str], float] = {}
    for (month, instance, _), found in sums.items():
        held[month, instance] = held.get((month, instance), 0.0) + found.held
    pause = not continues(before, seen)
    for life in seen.lives:
        blind = pause or _is_new(life, before) or policy.pool(life.pool) is None
        if not blind or life.usable_at is None:  # nothing runs on a node that never had GPUs to give
            continue
        end = seen.at if life.gone_at is None else min(life.gone_at, seen.at)
        for month, start, until in _Calendar(policy).months(life, _floor(life, before, seen, policy), end):
            rest = life.gpus * (until - start).total_seconds() - held.pop((month, life.instance), 0.0)
            if rest > 0:
                yield Unwatched(month=month, instance=life.instance, seconds=rest)


def _usage(whose: Whose, sums: _Sums) -> Usage:
    month, instance, workload = whose
    return Usage(
        month=month,
        instance=instance,
        workload=workload,
        namespace=sums.holder.namespace,
        owner=sums.holder.owner,
        priority_class=sums.holder.priority_class,
        held=sums.held,
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
