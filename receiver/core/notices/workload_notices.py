"""Messages and Events for the owners of work: evictions by windows, pods that wait."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from receiver.core.explain.explain import Fate, State
from receiver.core.explain.rules import RULES
from receiver.core.model.model import Node, PoolState
from receiver.core.model.pods import KEEP_UNTIL, Pod, honoured
from receiver.core.model.policy import KeepUntil, Policy, Pool
from receiver.core.model.signals import SignalAction
from receiver.core.model.text import lasting, listed, some
from receiver.core.model.windows import Window
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Notice, Severity
from receiver.core.promises.promise import Promise
from receiver.core.scaling.bounds import TOPIC as EVICTION_TOPIC
from receiver.core.scaling.bounds import Grace, evicting, evicts, topic_of
from receiver.core.scaling.guardrails.rule import Case
from receiver.core.scaling.removal import busy_beyond

PROTECT = "gpu-autoscaler.io/protect"
OBSERVED = "nothing while mode is observe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A notice (None: the Event alone), and the pods that may be evicted from its grace's end on (none for an
    all-clear)."""

    notice: Notice | None = None
    pods: tuple[Pod, ...] = ()
    event: str = ""


def told_to_go(last_notices: Mapping[str, tuple[str, datetime]], mode: str) -> Mapping[str, datetime]:
    """When each grace was announced in this *mode*, by topic, unless it was taken back."""
    return {topic: at for topic, (key, at) in last_notices.items() if key.startswith(f"warned:{mode}:")}


def _windows(case: Case) -> Iterator[tuple[str, Window, Grace | None]]:
    graces = {grace.topic: grace for grace in case.wanted.graces}
    for window in case.pool.windows:
        topic = topic_of(window, case.pool)
        yield topic, window, graces.get(topic)


def evictions_due(case: Case, announcements: Mapping[str, datetime], mode: str) -> Iterator[Announced]:
    """Yield what is to be announced about one pool now: a grace begins, or one of *announcements* is over or taken
    back."""
    stopped = _why_stopped(case)
    for topic, _, grace in _windows(case):
        nodes = busy_beyond(grace, case) if grace is not None and not stopped else ()
        if grace is not None and nodes and grace.told is None:
            yield _announced(grace, nodes, case, mode)
        elif topic in announcements and not nodes and (stopped or grace is None or not evicting(case.state)):
            yield Announced(notice=_taken_back(topic, grace, stopped, case))


def evictions_taken_back(case: Case, announcements: Mapping[str, datetime], doubt: str = "") -> Iterator[Notice]:
    """Take back what an override, an alert or a budget overrules: that is known without a look at the nodes. In *doubt*
    (a clause), take back every announcement about the pool; but once a window has begun to empty a node, its grace was
    over before, so the announcement stands until that is done."""
    stopped = _why_stopped(case)
    for topic, window, grace in _windows(case):
        lifted = "" if grace is None or grace.max_nodes == window.max_nodes else "the window's maximum is lifted"
        if topic in announcements and not doubt and (grace is None or stopped or lifted):
            yield _taken_back(topic, grace, stopped or lifted, case)
        elif topic in announcements and doubt and not evicting(case.state):
            yield _taken_back(topic, None, doubt, case)


def evictions_of_latecomers(case: Case, since: datetime) -> Iterator[Announced]:
    """Yield Events for pods that were bound after *since* to nodes that may be evicted: they had no announcement."""
    for grace in () if _why_stopped(case) else case.wanted.graces:
        if grace.ends_at is not None:
            late = tuple(
                p for n in busy_beyond(grace, case) for p in n.pods if p.times.bound_at and p.times.bound_at >= since
            )
            if late:
                yield Announced(pods=late, event=_event(grace, grace.ends_at, case.pool))


def windows_gone(announcements: Mapping[str, datetime], policy: Policy) -> Iterator[Notice]:
    """Yield the all-clear for graces of windows that were changed or left the configuration."""
    topics = {topic_of(w, p) for p in policy.pools for w in p.windows if evicts(w, p)}
    for topic in sorted(announcements.keys() - topics):
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
    living, observing = len(case.state.living), mode == "observe"
    candidates = [f"{n.name} ({listed([p.key for p in n.pods], 2)})" for n in nodes]
    when = f"from {ends_at:%H:%M} UTC on"
    title, after, do = f"would be evicted {when} (observing, nothing is changed)", OBSERVED, ""
    if not observing:
        title = f"is evicted {when}"
        after = (
            f"work has {lasting(grace.evict_after)} to end by itself; then the nodes whose work loses the least are"
            " drained, and their pods are evicted as PodDisruptionBudgets allow"
        )
        floor = f"gpu-autoscaler override set {case.pool.name} --min {living} --for 8h --why REASON --who YOU"
        do = (
            f"To keep the pool running: {floor}; to keep one node: kubectl annotate pod -n NAMESPACE POD {PROTECT}=true"
        )
    notice = Notice(
        cause=Cause.EVICTS,
        topic=grace.topic,
        key=f"warned:{mode}:{case.now.isoformat()}",
        title=f"GPU pool {case.pool.name}: GPU work {title}",
        body=wording.worded(
            f"in {lasting(grace.evict_after)} window {grace.window} evicts the GPU pods of up to"
            f" {living - grace.max_nodes} of {some(living, 'node')}",
            f"candidates: {listed(candidates)}",
            whose=wording.whose(wording.asked_by(pods, case.policy)),
            cost=f"{wording.an_hour(case.pool, grace.max_nodes, living)} from then on",
            after=after,
            do=do,
        ),
        severity=Severity.INFO if observing else Severity.WARNING,
        pool=case.pool.id,
    )
    if observing:
        return Announced(notice=notice)
    return Announced(notice=notice, pods=pods, event=_event(grace, ends_at, case.pool))


def _event(grace: Grace, ends_at: datetime, pool: Pool) -> str:
    return (
        f"GPU pool {pool.name}: window {grace.window} allows {some(grace.max_nodes, 'node')}. This pod may be evicted "
        f"from {ends_at:%Y-%m-%d %H:%M} UTC on. Annotate it {PROTECT}=true to keep it and its node, or ask the "
        f"operator for a floor of pool {pool.name}."
    )


def _taken_back(topic: str, grace: Grace | None, stopped: str, case: Case) -> Notice:
    reason, after = "the window has closed, or an override replaces it", ""
    if stopped:
        reason, after = stopped, "when that ends, a new announcement follows and the grace starts again"
    elif grace is not None:
        nodes = f"{len(case.state.living)} are there, and nothing is left that may be evicted"
        reason = f"window {grace.window} allows {some(grace.max_nodes, 'node')}, {nodes}"
    return Notice(
        cause=Cause.EVICTS_NO_MORE,
        topic=topic,
        key=f"calm:{case.now.isoformat()}",
        title=f"GPU pool {case.pool.name}: no work is evicted any more",
        body=wording.worded(why=reason, after=after),
        pool=case.pool.id,
        all_clear=True,
    )


def _why_stopped(case: Case) -> str:
    """What keeps every busy node of the pool, so that no grace runs; empty when nothing does."""
    overrides, frozen = case.wanted.bounds.overrides, case.firing(SignalAction.FREEZE)
    if overrides.pause is not None or overrides.snooze is not None:
        return f"in force: {overrides.pause or overrides.snooze}"
    if frozen is not None:
        return f"alert {frozen.alertname} is firing (action: freeze)"
    if case.wanted.money.stopped:
        return "a budget is at its stop, and evicted work could not start again"
    return f"paused: {case.state.silence}" if case.state.silence is not None else ""


def ignored_wishes(states: Iterable[PoolState], allowed: KeepUntil, now: datetime) -> dict[Notice, tuple[Pod, ...]]:
    """Return the notices of keep-until requests that keep no node, one per owner and time, with their pods."""
    notices: dict[Notice, tuple[Pod, ...]] = {}
    for pod in (p for state in states for node in state.nodes for p in node.pods):
        wish, owner = pod.wishes.keep_until, f"{pod.namespace}/{pod.owner or pod.name}"
        if wish is None or wish <= now or honoured(pod, allowed, now) is not None:
            continue
        ignored = f"the namespace {pod.namespace} is not listed under keep_until.namespaces"
        if pod.namespace in allowed.namespaces:
            ignored = f"that is more than {lasting(allowed.longest)} ahead (keep_until.longest)"
        notice = Notice(
            cause=Cause.KEEP_UNTIL_IGNORED,
            topic=f"keep-until:{owner}:{wish.isoformat()}",  # pods of one owner may name several times
            key=wish.isoformat(),
            title=f"GPU workload {owner}: {KEEP_UNTIL} is ignored",
            body=wording.worded(
                why=f"it asks for {wish:%Y-%m-%d %H:%M} UTC, but {ignored}",
                after="the annotation has no effect: the node may be removed, and an idle shutdown is not delayed",
                do="To keep its node anyway: kubectl annotate node NODE gpu-autoscaler.io/protect=true",
            ),
            severity=Severity.WARNING,
        )
        notices[notice] = (*notices.get(notice, ()), pod)
    return notices


TOLD_STATES = (State.MAY_WAIT, State.HELD, State.GANG_INCOMPLETE, State.FITS_NOWHERE, State.ON_ITS_WAY)
AGAIN_AFTER = timedelta(minutes=5)  # the same message is not left on a pod again before
REST = timedelta(minutes=5)  # after Events could not be written: each try may take half a minute
REMEMBERED = 20_000  # pods and messages


def is_told(fate: Fate) -> bool:
    """True for a workload that waits for more than what ends within seconds; growth has an Event of its own."""
    passing = fate.rule is not None and fate.rule in RULES and RULES[fate.rule].passing
    return fate.state in TOLD_STATES and not passing


def about_of(state: str, rule: str | None, pool: str | None, todo: str) -> str:
    """What an Event is about: one with the same of all of these says the same, whatever its figures."""
    return f"{state}:{rule}:{pool}" + (":rollout" if rule and todo else "")


class ToldPods:
    """The last Event of each pod, as this process remembers it; a new process takes it from the last picture."""

    def __init__(self) -> None:
        self._about: dict[str, tuple[str, datetime | None]] = {}  # by uid, with the promised p90
        self._at: dict[tuple[str, str], datetime] = {}  # by uid and message
        self._rests_until: datetime | None = None
        self.begun = False

    def begin(self, picture: Mapping[str, Any], waiting: Iterable[Pod]) -> None:
        """Assume that the *waiting* pods have the Events that the last *picture* shows."""
        self.begun = True
        entries = {(e.get("namespace"), e.get("name")): e for e in picture.get("waiting") or ()}
        for pod in waiting:
            entry = entries.get((pod.namespace, pod.name))
            if entry is not None:
                state = State.ON_ITS_WAY if entry.get("state") == State.BUYING else entry.get("state")
                about = about_of(str(state), entry.get("rule"), entry.get("pool"), entry.get("what_to_do") or "")
                by = entry.get("expected_by")
                self._about[pod.uid] = about, datetime.fromisoformat(by) if by else None

    def wants(self, pod: Pod, about: str, promise: Promise, now: datetime) -> bool:
        """True if the last Event of *pod* says something else, promises another time, or there is none."""
        last_about, by = self._about.get(pod.uid, (None, None))
        return bool(pod.uid) and (last_about != about or promise.moved(by, now))

    def may_tell(self, pod: Pod, message: str, now: datetime) -> bool:
        """True unless *pod* got *message* a moment ago, or no Event could be written a moment ago."""
        at = self._at.get((pod.uid, message))
        rests = self._rests_until is not None and now < self._rests_until <= now + REST
        return bool(pod.uid) and not rests and not (at is not None and at <= now < at + AGAIN_AFTER)

    def told(self, pod: Pod, about: str, message: str, now: datetime, by: datetime | None = None) -> None:
        """Remember that *pod* got *message* at *now*, which promises that it starts *by* a time."""
        self._about[pod.uid], self._at[pod.uid, message] = (about, by), now
        if len(self._about) > REMEMBERED:
            del self._about[next(iter(self._about))]
        if len(self._at) > REMEMBERED:
            del self._at[next(iter(self._at))]

    def rest(self, now: datetime) -> None:
        """Write none for a while after *now*: the API server rejected one."""
        self._rests_until = now + REST
