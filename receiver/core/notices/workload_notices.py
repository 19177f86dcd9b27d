"""Messages and Events for the owners of work: evictions by windows, idle workloads, pods that wait."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from receiver.core.explain.explain import Fate, State
from receiver.core.explain.rules import RULES
from receiver.core.idle.idle_shutdown import TOPIC as IDLE_TOPIC
from receiver.core.idle.idle_shutdown import Consenting, IdleCase, IdleStanding, key_of, may_be_kept, shutdown_at
from receiver.core.model.model import Node, PoolState
from receiver.core.model.pods import KEEP_UNTIL, Pod, Workload, honoured
from receiver.core.model.policy import KeepUntil, Policy, Pool
from receiver.core.model.signals import SignalAction
from receiver.core.model.text import lasting, some
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Notice, Severity
from receiver.core.scaling.bounds import TOPIC as EVICTION_TOPIC
from receiver.core.scaling.bounds import Grace, evicting, evicts, topic_of
from receiver.core.scaling.guardrails import Case
from receiver.core.scaling.removal import busy_beyond

# --- eviction

PROTECT = "gpu-autoscaler.io/protect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A notice, and the pods that may be evicted from its grace's end on (none for an all-clear)."""

    notice: Notice
    pods: tuple[Pod, ...] = ()
    event: str = ""


def told_to_go(told: Mapping[str, tuple[str, datetime]], mode: str) -> Mapping[str, datetime]:
    """When each grace was announced in this *mode*, by topic, unless it was taken back."""
    return {topic: at for topic, (key, at) in told.items() if key.startswith(_warned(mode))}


def evictions_due(case: Case, told: Mapping[str, datetime], mode: str) -> Iterator[Announced]:
    """Yield what is to be announced about one pool now: a grace begins, or an announced one (*told*) is over or taken
    back."""
    stopped = _why_stopped(case)
    graces = {grace.topic: grace for grace in case.wanted.graces}
    for window in case.pool.windows:
        topic = topic_of(window, case.pool)
        grace = graces.get(topic)
        nodes = busy_beyond(grace, case) if grace is not None and not stopped else ()
        if grace is not None and nodes and grace.told is None:
            yield _announced(grace, nodes, case, mode)
        elif topic in told and not nodes and (stopped or grace is None or not evicting(case.state)):
            yield Announced(notice=_taken_back(topic, grace, stopped, case))


def evictions_doubted(case: Case, told: Mapping[str, datetime]) -> Iterator[Notice]:
    """Take back every announcement about the pool: the clock jumped, or no step ran for a while.

    If a window has begun to empty a node, its grace was over before: the announcement stands until that is done."""
    if evicting(case.state):
        return
    why = "the clock jumped or no step ran for a while, so it is unknown how much of the grace has passed"
    for window in case.pool.windows:
        topic = topic_of(window, case.pool)
        if topic in told:
            yield _taken_back(topic, None, why, case)


def evictions_overruled(case: Case, told: Mapping[str, datetime]) -> Iterator[Notice]:
    """Take back what an override, an alert or a budget overrules: that is known without a look at the nodes."""
    stopped = _why_stopped(case)
    graces = {grace.topic: grace for grace in case.wanted.graces}
    for window in case.pool.windows:
        topic = topic_of(window, case.pool)
        grace = graces.get(topic)
        lifted = "" if grace is None or grace.max_nodes == window.max_nodes else "the window's maximum is lifted"
        if topic in told and (grace is None or stopped or lifted):
            yield _taken_back(topic, grace, stopped or lifted, case)


def evictions_of_latecomers(case: Case, since: datetime) -> Iterator[Announced]:
    """Yield Events for pods that were bound after *since* to nodes that may be evicted: they had no announcement."""
    for grace in case.wanted.graces:
        if grace.ends_at is None or _why_stopped(case):
            continue
        found = [p for n in busy_beyond(grace, case) for p in n.pods if p.bound_at and p.bound_at >= since]
        if found:
            notice = _eviction_notice(grace.topic, "late", case, "", "")
            yield Announced(notice=notice, pods=tuple(found), event=_event(grace, grace.ends_at, case.pool))


def windows_gone(told: Mapping[str, datetime], policy: Policy) -> Iterator[Notice]:
    """Yield the all-clear for graces of windows that were changed or left the configuration."""
    known = {topic_of(w, p) for p in policy.pools for w in p.windows if evicts(w, p)}
    for topic in sorted(told.keys() - known):
        pool = policy.pool(topic.removeprefix(EVICTION_TOPIC).split(":")[0])
        yield Notice(
            cause=Cause.EVICTS_NO_MORE,
            topic=topic,
            key="calm",
            title=f"GPU pool {pool.name if pool else 'that was removed'}: no work is evicted any more",
            body=wording.worded(why="its window was changed or left the configuration"),
            all_clear=True,
        )


def _announced(grace: Grace, nodes: Sequence[Node], case: Case, mode: str) -> Announced:
    ends_at = case.now + grace.evict_after
    pods = tuple(p for n in nodes for p in n.pods if not p.terminating)
    key = f"{_warned(mode)}{case.now.isoformat()}"
    living = len(case.state.living)
    allows = f"window {grace.window} allows {some(grace.max_nodes, 'node')}; {living} are there"
    whose = wording.whose(wording.asked_by(pods, case.policy))
    cost = f"{wording.an_hour(case.pool, grace.max_nodes, living)} from then on"
    if mode == "observe":
        title = f"GPU work would be evicted from {ends_at:%H:%M} UTC on (observing, nothing is changed)"
        body = wording.worded(_where(nodes), why=allows, whose=whose, cost=cost, after="nothing while mode is observe")
        return Announced(notice=_eviction_notice(grace.topic, key, case, title, body))
    body = wording.worded(
        _where(nodes),
        why=allows,
        whose=whose,
        cost=cost,
        after=f"work has {lasting(grace.evict_after)} to end by itself; then the nodes whose work loses the least are"
        " emptied, and their pods are evicted as PodDisruptionBudgets allow",
        do=f"To keep the pool running: gpu-autoscaler override floor {case.pool.name} {living} --for 8h --why REASON;"
        f" to keep one node: kubectl annotate pod -n NAMESPACE POD {PROTECT}=true",
    )
    notice = _eviction_notice(
        grace.topic, key, case, f"GPU work is evicted from {ends_at:%H:%M} UTC on", body, Severity.WARNING
    )
    return Announced(notice=notice, pods=pods, event=_event(grace, ends_at, case.pool))


def _event(grace: Grace, ends_at: datetime, pool: Pool) -> str:
    return (
        f"GPU pool {pool.name}: window {grace.window} allows {some(grace.max_nodes, 'node')}. This pod may be evicted "
        f"from {ends_at:%Y-%m-%d %H:%M} UTC on. Annotate it {PROTECT}=true to keep it and its node, or ask the "
        "operator for an override (gpu-autoscaler override floor)."
    )


def _where(nodes: Sequence[Node]) -> str:
    shown = [f"{n.name} ({wording.named([p.key for p in n.pods], 2)})" for n in nodes]
    return f"chosen among {wording.named(shown)}"


def _taken_back(topic: str, grace: Grace | None, stopped: str, case: Case) -> Notice:
    if stopped:
        body = wording.worded(
            why=stopped, after="when that ends, a new announcement follows and the grace starts again"
        )
    elif grace is None:
        body = wording.worded(why="the window has closed, or an override replaces it")
    else:
        body = wording.worded(
            why=f"window {grace.window} allows {some(grace.max_nodes, 'node')}, {len(case.state.living)} are there, and"
            " nothing is left that may be evicted"
        )
    return _eviction_notice(
        topic, f"calm:{case.now.isoformat()}", case, "no work is evicted any more", body, all_clear=True
    )


def _eviction_notice(
    topic: str,
    key: str,
    case: Case,
    title: str,
    body: str,
    severity: Severity = Severity.INFO,
    *,
    all_clear: bool = False,
) -> Notice:
    return Notice(
        cause=Cause.EVICTS_NO_MORE if all_clear else Cause.EVICTS,
        topic=topic,
        key=key,
        title=f"GPU pool {case.pool.name}: {title}",
        body=body,
        severity=severity,
        pool=case.pool.id,
        all_clear=all_clear,
    )


def _why_stopped(case: Case) -> str:
    """What keeps every busy node of the pool, so that no grace runs; empty when nothing does."""
    spoken, frozen = case.wanted.bounds.overrides, case.firing(SignalAction.FREEZE)
    if spoken.pause is not None or spoken.snooze is not None:
        return f"in force: {spoken.pause or spoken.snooze}"
    if frozen is not None:
        return f"{frozen.alertname} fires: freeze"
    if case.wanted.stopped:
        return "a budget is at its stop, and evicted work could not start again"
    return f"paused: {case.state.silence}" if case.state.silence is not None else ""


def _warned(mode: str) -> str:
    return f"warned:{mode}:"


# --- idle

IDLE_SHUTDOWN = "gpu-autoscaler.io/idle-shutdown"
A_DAY = timedelta(days=1)
OBSERVED = "nothing while mode is observe"
IDLE_CAUSES = {
    IdleStanding.CALM: Cause.IDLE_STAYS,
    IdleStanding.WARNED: Cause.IDLE_WARNED,
    IdleStanding.KEPT: Cause.IDLE_KEPT,
    IdleStanding.OBSERVED: Cause.IDLE_WARNED,
    IdleStanding.FAILED: Cause.IDLE_FAILED,
    IdleStanding.DONE: Cause.IDLE_SHUT_DOWN,
    IdleStanding.CANNOT: Cause.IDLE_CANNOT,
}


def name_of(key: str) -> str:
    """``Deployment ml/web`` for the key ``ml/Deployment/web``."""
    namespace, kind, name = key.split("/", 2)
    return f"{kind} {namespace}/{name}"


def idle_warning(workload: Consenting, case: IdleCase) -> Notice:
    """The notice before: when it is scaled to zero, and how to keep it."""
    when, idle = wording.moment(shutdown_at(workload, case), case.now), f"idle for {lasting(workload.window)}"
    if case.mode == "observe":
        title, why = f"would be scaled to zero at {when} (observing)", f"{idle}; {_asked(workload)}"
        return _idle_notice(workload, IdleStanding.WARNED, case, title, why=why, after=OBSERVED)
    return _idle_notice(
        workload,
        IdleStanding.WARNED,
        case,
        f"will be scaled to zero at {when}",
        why=f"{idle}: GPU engine, memory and power at rest; {_asked(workload)}",
        after=f"at {when} it is scaled to zero, unless its GPUs are used before",
        do=_how_to_keep(workload, case),
        severity=Severity.WARNING,
    )


def idle_kept(workload: Consenting, until: datetime, case: IdleCase) -> Notice:
    """The notice that the shutdown of a warned workload is put off."""
    return _idle_notice(
        workload,
        IdleStanding.KEPT,
        case,
        f"is kept until {until:%Y-%m-%d %H:%M} UTC",
        why=f"one of its pods has {KEEP_UNTIL}",
        after="if it is idle then, a new warning follows",
    )


def idle_cleared(workload: Consenting, case: IdleCase) -> Notice:
    """The notice that a warning no longer applies because the workload is used, or does not take part any more."""
    why = (
        "its GPUs are in use, or its pods are new"
        if workload.whole
        else f"not all of its GPU pods have {IDLE_SHUTDOWN} any more, or one is protected"
    )
    return _clear(workload.topic, why, case)


def idle_gone(topic: str, case: IdleCase) -> Notice:
    """The notice that a warned workload is gone, or that none of its pods takes part any more."""
    return _clear(topic, f"it has no GPU pod with {IDLE_SHUTDOWN} any more", case)


def idle_cannot(workload: Consenting, case: IdleCase) -> Notice:
    """The notice that a workload requests a shutdown that is impossible."""
    why = "this pod has no owner to scale" if workload.kind == "Pod" else f"a {workload.kind} has no scale"
    return _idle_notice(
        workload,
        IdleStanding.CANNOT,
        case,
        "cannot be scaled to zero",
        why=f"{why}; {IDLE_SHUTDOWN} works on pods of Deployments, StatefulSets, ReplicaSets and Jobs",
        after="it stays as it is; this message comes once",
        severity=Severity.WARNING,
    )


def idle_done(workload: Consenting, sentence: str, case: IdleCase) -> Notice:
    """The notice after: what was done (*sentence*) and how to undo it."""
    return _idle_notice(
        workload,
        IdleStanding.DONE,
        case,
        f"was scaled to zero: idle for {lasting(workload.window)}",
        sentence,
        why=_asked(workload),
        after="its nodes are removed when they are idle",
        do=f"To start it again: {_undo(workload)}",
        severity=Severity.SUCCESS,
    )


def idle_observed(workload: Consenting, sentence: str, case: IdleCase) -> Notice:
    """The notice of what observe mode did not do."""
    why = f"idle for {lasting(workload.window)}: {sentence}"
    title = "would be scaled to zero (observing, nothing was changed)"
    return _idle_notice(workload, IdleStanding.OBSERVED, case, title, why=why, after=OBSERVED)


def idle_failed(workload: Consenting, error: str, case: IdleCase) -> Notice:
    """The notice that it could not be scaled to zero; sent once, while retries go on for a day."""
    return _idle_notice(
        workload,
        IdleStanding.FAILED,
        case,
        "could not be scaled to zero",
        why=error,
        after=f"it is tried again for a day while its GPUs are idle; to stop that, remove {IDLE_SHUTDOWN}",
        severity=Severity.FAILURE,
    )


def _idle_notice(
    workload: Consenting,
    standing: IdleStanding,
    case: IdleCase,
    title: str,
    *happened: str,
    why: str,
    after: str,
    do: str = "",
    severity: Severity = Severity.INFO,
) -> Notice:
    return Notice(
        cause=IDLE_CAUSES[standing],
        topic=workload.topic,
        key=key_of(standing, case),
        title=f"GPU workload {name_of(workload.key)} {title}",
        body=wording.worded(
            *happened, why=why, whose=wording.whose(wording.asked_by(workload.pods, case.policy)), after=after, do=do
        ),
        severity=severity,
    )


def _clear(topic: str, why: str, case: IdleCase) -> Notice:
    return Notice(
        cause=IDLE_CAUSES[IdleStanding.CALM],
        topic=topic,
        key=key_of(IdleStanding.CALM, case),
        title=f"GPU workload {name_of(topic.removeprefix(IDLE_TOPIC))} will not be scaled to zero any more",
        body=wording.worded(why=why, after="it stays as it is"),
        all_clear=True,
    )


def _asked(workload: Consenting) -> str:
    return f"{some(len(workload.pods), 'GPU pod')} of it requested that with {IDLE_SHUTDOWN}"


def _how_to_keep(workload: Consenting, case: IdleCase) -> str:
    pod, allowed = workload.pods[0], case.policy.keep_until
    annotate = f"kubectl annotate pod -n {pod.namespace} {pod.name} --overwrite"
    if may_be_kept(workload, allowed):
        until = _rfc3339(case.now + min(A_DAY, allowed.longest))
        return f"To keep it for now: {annotate} {KEEP_UNTIL}={until} (at most {lasting(allowed.longest)} ahead)"
    return f"To keep it: {annotate} {IDLE_SHUTDOWN}-"


def _rfc3339(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _undo(workload: Consenting) -> str:
    resource = f"{workload.kind.lower()}/{workload.name}"
    if workload.kind == "Job":
        return f"""kubectl patch -n {workload.namespace} {resource} --type=merge -p '{{"spec":{{"suspend":false}}}}'"""
    return f"kubectl scale -n {workload.namespace} {resource} --replicas={len(workload.staying)}"


WISH_TOPIC = "keep-until:"


def ignored_wishes(states: Iterable[PoolState], allowed: KeepUntil, now: datetime) -> dict[Notice, tuple[Pod, ...]]:
    """Return the notices of keep-until requests that keep no node, one per owner and time, with their pods."""
    found: dict[Notice, tuple[Pod, ...]] = {}
    for pod in (p for state in states for node in state.nodes for p in node.pods):
        if pod.keep_until is None or pod.keep_until <= now or honoured(pod, allowed, now) is not None:
            continue
        notice = _not_honoured(pod, pod.keep_until, allowed)
        found[notice] = (*found.get(notice, ()), pod)
    return found


def _not_honoured(pod: Pod, wish: datetime, allowed: KeepUntil) -> Notice:
    whose = f"{pod.namespace}/{pod.owner or pod.name}"
    return Notice(
        cause=Cause.KEEP_UNTIL_IGNORED,
        topic=f"{WISH_TOPIC}{whose}:{wish.isoformat()}",  # pods of one owner may name several times
        key=wish.isoformat(),
        title=f"GPU workload {whose}: {KEEP_UNTIL} is ignored",
        body=wording.worded(
            why=f"it asks for {wish:%Y-%m-%d %H:%M} UTC, but {_why_ignored(pod.namespace, allowed)}",
            after="it keeps no node, and delays no shutdown",
            do="To keep its node anyway: kubectl annotate node NODE gpu-autoscaler.io/protect=true",
        ),
        severity=Severity.WARNING,
    )


def _why_ignored(namespace: str, allowed: KeepUntil) -> str:
    """Why a request of *namespace* for a time to come is ignored."""
    if namespace in allowed.namespaces:
        return f"that is more than {lasting(allowed.longest)} ahead (keep_until.longest)"
    return f"the namespace {namespace} is not listed under keep_until.namespaces"


# --- pod events

TOLD_STATES = (State.HELD, State.GANG_INCOMPLETE, State.FITS_NOWHERE)
AGAIN_AFTER = timedelta(minutes=5)  # the same message is not left on a pod again before
REST = timedelta(minutes=5)  # after Events could not be written: each try may take half a minute
REMEMBERED = 20_000  # pods and messages


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEvent:
    """Why *pods* get no node: *about* names the state, rule and pool, *message* is the sentence with its figures."""

    pods: tuple[Pod, ...]
    about: str
    message: str


def held_events(fates: Iterable[tuple[Workload, Fate]], misfits: Mapping[str, str]) -> Iterator[PodEvent]:
    """Yield the Events for workloads that wait and get nothing; *misfits* says why no pool holds them, by key."""
    for workload, fate in fates:
        passing = fate.rule is not None and fate.rule in RULES and RULES[fate.rule].passing
        if fate.state in TOLD_STATES and not passing:
            message = misfits.get(workload.key, fate.detail)
            yield PodEvent(pods=workload.pods, about=_about(fate.state, fate.rule, fate.pool), message=message)


def _about(state: object, rule: object, pool: object) -> str:
    return f"{state}:{rule}:{pool}"


class ToldPods:
    """The last Event of each pod, as this process remembers it; a new process takes it from the last picture."""

    def __init__(self) -> None:
        self._about: dict[str, str] = {}  # by uid
        self._at: dict[tuple[str, str], datetime] = {}  # by uid and message
        self._rests_until: datetime | None = None
        self.begun = False

    def begin(self, picture: Mapping[str, Any], waiting: Iterable[Pod]) -> None:
        """Assume that the *waiting* pods have the Events that the last *picture* shows."""
        self.begun = True
        shown = {(e.get("namespace"), e.get("name")): e for e in picture.get("waiting") or ()}
        for pod in waiting:
            entry = shown.get((pod.namespace, pod.name))
            if entry is not None:
                self._about[pod.uid] = _about(entry.get("state"), entry.get("rule"), entry.get("pool"))

    def wants(self, pod: Pod, about: str) -> bool:
        """True if the last Event of *pod* says something else, or there is none."""
        return bool(pod.uid) and self._about.get(pod.uid) != about

    def may_tell(self, pod: Pod, message: str, now: datetime) -> bool:
        """True unless *pod* got *message* a moment ago, or no Event could be written a moment ago."""
        at = self._at.get((pod.uid, message))
        rests = self._rests_until is not None and now < self._rests_until <= now + REST
        return bool(pod.uid) and not rests and not (at is not None and at <= now < at + AGAIN_AFTER)

    def told(self, pod: Pod, about: str, message: str, now: datetime) -> None:
        """Remember that *pod* got *message* at *now*."""
        self._about[pod.uid], self._at[pod.uid, message] = about, now
        if len(self._about) > REMEMBERED:
            del self._about[next(iter(self._about))]
        if len(self._at) > REMEMBERED:
            del self._at[next(iter(self._at))]

    def rest(self, now: datetime) -> None:
        """Write none for a while after *now*: the API server rejected one."""
        self._rests_until = now + REST
