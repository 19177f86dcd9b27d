"""Idle workloads whose owners consented, or that the policy covers: which they are, when to warn, and when to act.

A workload here is everything that one owner created. It is warned, and then scaled to zero, only if every GPU pod of it
consented or is covered, runs, and is known to have been idle for its whole window. While that is unknown, no warning
starts or ends. Where the policy only tells, a message takes the place of warning and shutdown.
The state of a workload is the last notice of its topic, so a restart loses nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from receiver.core.model.installations import OtherInstallations
from receiver.core.model.model import Facts, Source
from receiver.core.model.overrides import overrides_in_force
from receiver.core.model.pods import Pod, PodPhase, honoured
from receiver.core.model.policy import IdleAction, Policy
from receiver.core.model.signals import SignalAction
from receiver.core.model.usage import Course, Use, was_idle

TOPIC = "idle-shutdown:"
TEMPLATE_HASH = "pod-template-hash"  # the name of a Deployment's ReplicaSet ends with this label's value
SCALABLE = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "Job"})
ENDED_BY_POLICY = SCALABLE - {"Job"}  # a Job has no scale, and one that is suspended loses its work
EVERYWHERE = "*"
# What a policy covers only if it names the class: an idle service may be waiting for its users.
PRODUCTION_CLASS, PRODUCTION_PRIORITY = "production", 100_000
MOST_WINDOWS = 10  # distinct ones; each costs Prometheus some queries
A_WARNING_HOLDS = timedelta(days=1)  # after this, a new warning is sent first
NEEDED = (Source.CIVO, Source.KUBERNETES, Source.PROMETHEUS, Source.DCGM, Source.HEARTBEAT)


class IdleStanding(StrEnum):
    """The state of a workload: the first word of the key of its last notice."""

    CALM = "clear"  # no notice, or cleared
    TOLD = "told"  # it is idle, and that is all
    WARNED = "warned"
    KEPT = "kept"  # postponed
    OBSERVED = "observed"  # observe mode: it would have been scaled to zero
    FAILED = "failed"
    DONE = "done"
    CANNOT = "cannot"


TO_BE_CLEARED = frozenset({IdleStanding.TOLD, IdleStanding.WARNED, IdleStanding.OBSERVED, IdleStanding.FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """All GPU pods of one owner, of which at least one must not be idle for long. *kind* is ``Pod`` without an owner.

    *windows* are how long its pods may be idle, by pod name; the others may be idle forever. *covered*: one of them has
    its window from the policy. *ends*: it is scaled to zero; otherwise a message is all.
    """

    namespace: str
    kind: str
    name: str
    pods: tuple[Pod, ...]
    windows: Mapping[str, timedelta] = field(default_factory=dict)
    covered: bool = False
    ends: bool = True

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.kind}/{self.name}"

    @property
    def topic(self) -> str:
        return f"{TOPIC}{self.key}"

    @property
    def staying(self) -> tuple[Pod, ...]:
        return tuple(p for p in self.pods if not p.terminating)

    @property
    def whole(self) -> bool:
        return all(p.name in self.windows and not p.wishes.protected for p in self.pods)

    @property
    def window(self) -> timedelta:
        """The longest idle time that one of its pods requires."""
        return max(self.windows.values(), default=timedelta(0))


Told = Mapping[str, tuple[str, datetime]]  # key and time of the last notice, by topic
Courses = Mapping[timedelta, Mapping[str, Course]]  # by window, then by ``namespace/name``


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleCase:
    """What is known when a workload is judged. *pools* are pool ids by node name, *held* pools in which nothing is shut
    down, *mode* is ``act`` or ``observe``: a warning in one does not count in the other."""

    policy: Policy
    mode: str
    now: datetime
    pools: Mapping[str, str]
    held: frozenset[str]
    told: Told = field(default_factory=dict)
    courses: Courses = field(default_factory=dict)


class IdleVerdict(StrEnum):
    NOTHING = "nothing"
    CANNOT = "cannot"  # report once that it cannot be scaled to zero
    TELL = "tell"  # report once that it is idle
    WARN = "warn"
    SCALE = "scale"
    KEEP = "keep"  # report that it is postponed
    CLEAR = "clear"  # report that the warning is withdrawn


def can_tell(facts: Facts) -> bool:
    """True when every source answers that idleness or a request to wait depends on."""
    alertmanager = facts.sources.get(Source.ALERTMANAGER)
    silences_seen = alertmanager is None or alertmanager.up or not alertmanager.configured
    return silences_seen and all(facts.up(source) for source in NEEDED)


def case_of(facts: Facts, policy: Policy, mode: str, last_notices: Told, courses: Courses) -> IdleCase:
    """Return what *facts* say about pools: a frozen, silenced or paused one shuts nothing down."""
    frozen = [s.pool for s in facts.signals if s.action is SignalAction.FREEZE]
    held = {p.pool for p in facts.pools if p.silence or p.pool in frozen or None in frozen}
    held |= {
        p.pool
        for p in facts.pools
        if overrides_in_force(p.pool, facts.instructions.overrides, facts.at).pause is not None
    }
    return IdleCase(
        policy=policy,
        mode=mode,
        now=facts.at,
        pools={n.name: p.pool for p in facts.pools for n in p.nodes},
        held=frozenset(held),
        told=last_notices,
        courses=courses,
    )


def candidates(pods: Iterable[Pod], policy: Policy) -> tuple[Candidate, ...]:
    """Group all GPU *pods* of the cluster by owner; return the groups of which a pod must not be idle for long, in a
    stable order."""
    groups: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in pods:
        groups.setdefault((pod.namespace, *_owner(pod)), []).append(pod)
    listed = (_candidate(key, group, policy) for key, group in sorted(groups.items()))
    return tuple(candidate for candidate in listed if candidate.windows)


def _candidate(key: tuple[str, str, str], pods: Sequence[Pod], policy: Policy) -> Candidate:
    """The *pods* of the owner with *key* (namespace, kind, name). The policy has its say only of pods without a word of
    their own."""
    namespace, kind, name = key
    wished = {p.name: p.wishes.idle_shutdown for p in pods if p.wishes.idle_shutdown}
    covered = {p.name: policy.idle.after for p in pods if _covers(policy, p)}
    return Candidate(
        namespace=namespace,
        kind=kind,
        name=name,
        pods=tuple(sorted(pods, key=lambda p: p.name)),
        windows={**wished, **covered},
        covered=bool(covered),
        ends=not covered or (policy.idle.action is IdleAction.SCALE_TO_ZERO and kind in ENDED_BY_POLICY),
    )


def _covers(policy: Policy, pod: Pod) -> bool:
    """True if *policy* says how long *pod* may be idle."""
    if pod.wishes.idle_shutdown or pod.wishes.stays_idle or pod.daemon:
        return False
    if pod.priority_class in policy.idle.priority_classes:
        return True
    passing = policy.budget.passing if policy.budget else frozenset[str]()
    is_production = pod.priority_class in {PRODUCTION_CLASS, *passing} or pod.priority >= PRODUCTION_PRIORITY
    return not is_production and not policy.idle.namespaces.isdisjoint({EVERYWHERE, pod.namespace})


def shuts_down(pods: Sequence[Pod], facts: Facts, others: OtherInstallations) -> bool:
    """True if an idle workload with *pods* is to be shut down here: alone, or where the first of its pods that has a
    node is on a node of our pools."""
    if not any(each.is_respected(facts.at) for each in others.installations):
        return True
    bound = sorted((pod for pod in pods if pod.node), key=lambda pod: pod.key)
    return bool(bound) and bound[0].node in {node.name for state in facts.pools for node in state.nodes}


def _owner(pod: Pod) -> tuple[str, str]:
    """Kind and name of what created *pod*: the pods of all ReplicaSets of a Deployment are one workload."""
    kind, _, name = pod.owner.partition("/")
    if not name:
        return "Pod", pod.name
    ending = f"-{pod.labels.get(TEMPLATE_HASH, '')}"
    if kind == "ReplicaSet" and len(ending) > 1 and name.endswith(ending):
        return "Deployment", name.removesuffix(ending)
    return kind, name


def windows(workloads: Iterable[Candidate], now: datetime) -> tuple[timedelta, ...]:
    """Return the distinct windows to query telemetry for: at most MOST_WINDOWS, the most common first."""
    count = Counter(
        w.windows[pod.name]
        for w in workloads
        if w.whole and (w.covered or w.kind in SCALABLE)
        for pod in w.staying
        if not _is_new(pod, w.windows[pod.name], now)
    )
    return tuple(window for window, _ in sorted(count.items(), key=lambda c: (-c[1], c[0]))[:MOST_WINDOWS])


def judge(workload: Candidate, case: IdleCase) -> IdleVerdict:
    standing, at = standing_of(workload.topic, case)
    clear = IdleVerdict.CLEAR if standing in TO_BE_CLEARED else IdleVerdict.NOTHING
    if not workload.whole:
        return clear
    if workload.kind not in SCALABLE and not workload.covered:
        return IdleVerdict.CANNOT if standing is IdleStanding.CALM else IdleVerdict.NOTHING
    is_done = standing is IdleStanding.DONE and at is not None and timedelta(0) <= case.now - at <= A_WARNING_HOLDS
    if is_done and at is not None and all(p.created_at <= at for p in workload.staying):
        return IdleVerdict.NOTHING  # the pods of the time when it was scaled to zero still exist
    if kept_until(workload, case) is not None:
        return IdleVerdict.KEEP if standing in TO_BE_CLEARED else IdleVerdict.NOTHING
    pools = {case.pools.get(p.node) for p in workload.staying if p.node}
    if any(pool is None or pool in case.held for pool in pools):
        return IdleVerdict.NOTHING  # on a node that is not ours, or in a pool that is frozen or silenced
    uses = _uses(workload, case)
    if Use.ACTIVE in uses:
        return clear
    if uses != {Use.QUIET}:
        return IdleVerdict.NOTHING
    if not workload.ends:
        return IdleVerdict.NOTHING if standing is IdleStanding.TOLD else IdleVerdict.TELL
    return _due(standing, at, case)


def is_idle(workload: Candidate, case: IdleCase) -> bool:
    """True if *workload* may not stay as it is: nothing postpones its end, and it is known to be idle."""
    return workload.whole and kept_until(workload, case) is None and _uses(workload, case) == {Use.QUIET}


def _uses(workload: Candidate, case: IdleCase) -> set[Use]:
    """How the pods of *workload* that stay use their GPUs: empty where all are being deleted."""
    return {_use_of(pod, workload.windows[pod.name], case) for pod in workload.staying}


def standing_of(topic: str, case: IdleCase) -> tuple[IdleStanding, datetime | None]:
    """Return the state of the workload of *topic*, and since when. Notices of another mode do not count."""
    key, at = case.told.get(topic, ("", None))
    word, _, mode = key.partition(":")
    if word not in set(IdleStanding) or mode.partition(":")[0] != case.mode:
        return IdleStanding.CALM, None
    return IdleStanding(word), at


def key_of(standing: IdleStanding, case: IdleCase) -> str:
    """Return the key of a notice that leaves a workload at *standing*: different at each moment."""
    return f"{standing}:{case.mode}:{case.now.isoformat()}"


def left(workloads: Iterable[Candidate], case: IdleCase) -> tuple[str, ...]:
    """Return the topics of warned workloads that are gone, or that are no candidates any more."""
    present = {w.topic for w in workloads}
    return tuple(t for t in sorted(case.told) if t not in present and standing_of(t, case)[0] in TO_BE_CLEARED)


def warned(case: IdleCase) -> tuple[str, ...]:
    """Return the topics of workloads that were warned and not scaled to zero yet."""
    return tuple(topic for topic in sorted(case.told) if standing_of(topic, case)[0] is IdleStanding.WARNED)


def shutdown_at(workload: Candidate, case: IdleCase) -> datetime:
    """When a warned workload is scaled to zero; that of a warning given now, if it has none."""
    standing, at = standing_of(workload.topic, case)
    return (at if at and standing is IdleStanding.WARNED else case.now) + case.policy.idle_shutdown_grace


def kept_until(workload: Candidate, case: IdleCase) -> datetime | None:
    """Until when an allowed annotation postpones the shutdown, or None. One pod is enough for its workload."""
    wishes = (honoured(p, case.policy.keep_until, case.now) for p in workload.staying)
    return max((w for w in wishes if w is not None), default=None)


def _due(standing: IdleStanding, at: datetime | None, case: IdleCase) -> IdleVerdict:
    """What to do about an idle workload; *at* is when its state was announced."""
    if standing is IdleStanding.OBSERVED:
        return IdleVerdict.NOTHING
    grace = case.policy.idle_shutdown_grace
    since = case.now - at if at is not None else timedelta(0)
    if at is None or since < timedelta(0):  # a notice from the future: the clock was wrong
        return IdleVerdict.WARN
    if standing is IdleStanding.WARNED and since <= grace + A_WARNING_HOLDS:
        return IdleVerdict.SCALE if since >= grace else IdleVerdict.NOTHING
    if standing is IdleStanding.FAILED and since <= A_WARNING_HOLDS:
        return IdleVerdict.SCALE
    return IdleVerdict.WARN


def _use_of(pod: Pod, window: timedelta, case: IdleCase) -> Use:
    if pod.phase is not PodPhase.RUNNING or _is_new(pod, window, case.now):
        return Use.ACTIVE
    course = case.courses.get(window, {}).get(pod.key)
    if course is None or course.window < window:
        return Use.UNKNOWN
    use = was_idle(course)
    silent = None in (course.engine, course.memory, course.power, course.power_floor)
    return Use.UNKNOWN if use is Use.QUIET and silent else use  # all four readings are required here


def _is_new(pod: Pod, window: timedelta, now: datetime) -> bool:
    return now - (pod.times.running_since or pod.created_at) < window
