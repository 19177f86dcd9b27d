"""What is said before a window evicts running work, and when it no longer does."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from receiver.core.model.model import Node
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.signals import SignalAction
from receiver.core.model.text import lasting, some
from receiver.core.notices import wording
from receiver.core.notices.sentences import Cause, Notice, Severity
from receiver.core.scaling.bounds import TOPIC, Grace, evicting, evicts, topic_of
from receiver.core.scaling.guardrails import Case
from receiver.core.scaling.removal import busy_beyond

PROTECT = "gpu-autoscaler.io/protect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A notice, and the pods that may be evicted from its grace's end on (none for an all-clear)."""

    notice: Notice
    pods: tuple[Pod, ...] = ()
    event: str = ""


def told_to_go(told: Mapping[str, tuple[str, datetime]], mode: str) -> Mapping[str, datetime]:
    """When each grace was announced, by topic, of those that nobody took back; what another *mode* said is no word."""
    return {topic: at for topic, (key, at) in told.items() if key.startswith(_warned(mode))}


def due(case: Case, told: Mapping[str, datetime], mode: str) -> Iterator[Announced]:
    """What has to be said of one pool now: a grace begins, or one that was announced (*told*) is over or taken back."""
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


def doubted(case: Case, told: Mapping[str, datetime]) -> Iterator[Notice]:
    """Take back every word about the pool: the clock jumped, or nobody looked for a while.

    Where a window has begun to empty a node, its grace was over before: the word stands until that is done."""
    if evicting(case.state):
        return
    why = "The clock jumped or nothing was looked at for a while, so nobody knows how much of the grace has passed"
    for window in case.pool.windows:
        topic = topic_of(window, case.pool)
        if topic in told:
            yield _taken_back(topic, None, why, case)


def overruled(case: Case, told: Mapping[str, datetime]) -> Iterator[Notice]:
    """Take back what somebody's word or a budget stands against: that is known without a look at the nodes."""
    stopped = _why_stopped(case)
    graces = {grace.topic: grace for grace in case.wanted.graces}
    for window in case.pool.windows:
        topic = topic_of(window, case.pool)
        grace = graces.get(topic)
        lifted = "" if grace is None or grace.max_nodes == window.max_nodes else "The window's maximum is lifted"
        if topic in told and (grace is None or stopped or lifted):
            yield _taken_back(topic, grace, stopped or lifted, case)


def latecomers(case: Case, since: datetime) -> Iterator[Announced]:
    """Events for pods that were bound after *since* to nodes that may be evicted: they know nothing of the grace."""
    for grace in case.wanted.graces:
        if grace.ends_at is None or _why_stopped(case):
            continue
        found = [p for n in busy_beyond(grace, case) for p in n.pods if p.bound_at and p.bound_at >= since]
        if found:
            notice = _notice(grace.topic, "late", case, "", "")
            yield Announced(notice=notice, pods=tuple(found), event=_event(grace, grace.ends_at, case.pool))


def gone(told: Mapping[str, datetime], policy: Policy) -> Iterator[Notice]:
    """The all-clear for graces of windows that left the configuration or were changed."""
    known = {topic_of(w, p) for p in policy.pools for w in p.windows if evicts(w, p)}
    for topic in sorted(told.keys() - known):
        pool = policy.pool(topic.removeprefix(TOPIC).split(":")[0])
        yield Notice(
            cause=Cause.EVICTS_NO_MORE,
            topic=topic,
            key="calm",
            title=f"GPU pool {pool.name if pool else 'that left'}: no work is evicted any more",
            body=wording.worded(why="the window that was to evict it was changed or left the configuration"),
            all_clear=True,
        )


def _announced(grace: Grace, nodes: Sequence[Node], case: Case, mode: str) -> Announced:
    ends_at = case.now + grace.evict_after
    pods = tuple(p for n in nodes for p in n.pods if not p.terminating)
    key = f"{_warned(mode)}{case.now.isoformat()}"
    living = len(case.state.living)
    allows = f"window {grace.window} allows {some(grace.max_nodes, 'node')}; {living} are there"
    whose = wording.whose(wording.asked_by(pods, case.policy))
    saves = f"{wording.an_hour(case.pool, grace.max_nodes, living)} from then on"
    if mode == "observe":
        title = f"GPU work would be evicted from {ends_at:%H:%M} UTC on (observing, nothing is changed)"
        body = wording.worded(_where(nodes), why=allows, whose=whose, cost=saves, after="nothing while mode is observe")
        return Announced(notice=_notice(grace.topic, key, case, title, body))
    body = wording.worded(
        _where(nodes),
        why=allows,
        whose=whose,
        cost=saves,
        after=f"work has {lasting(grace.evict_after)} to end by itself; then the nodes that lose the least go, and"
        " their pods are evicted as PodDisruptionBudgets allow",
        do=f"To let the pool run on: gpu-autoscaler override floor {case.pool.name} {living} --for 8h --why REASON;"
        f" to keep one node: kubectl annotate pod -n NAMESPACE POD {PROTECT}=true",
    )
    notice = _notice(grace.topic, key, case, f"GPU work is evicted from {ends_at:%H:%M} UTC on", body, Severity.WARNING)
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
        body = wording.worded(why=stopped, after="when that ends, people are told again and the grace begins anew")
    elif grace is None:
        body = wording.worded(why="the window has closed, or an override stands in its place")
    else:
        body = wording.worded(
            why=f"window {grace.window} allows {some(grace.max_nodes, 'node')}, {len(case.state.living)} are there, and"
            " nothing is left that may be evicted"
        )
    return _notice(topic, f"calm:{case.now.isoformat()}", case, "no work is evicted any more", body, all_clear=True)


def _notice(
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
    """Who or what keeps every node of the pool that runs something, empty when nothing does: no grace runs then."""
    spoken, frozen = case.wanted.bounds.overrides, case.firing(SignalAction.FREEZE)
    if spoken.pause is not None or spoken.snooze is not None:
        return f"In force: {spoken.pause or spoken.snooze}"
    if frozen is not None:
        return f"{frozen.alertname} fires: freeze"
    if case.wanted.stopped:
        return "A budget is at its stop, and what is evicted could not start again"
    return f"Paused: {case.state.silence}" if case.state.silence is not None else ""


def _warned(mode: str) -> str:
    return f"warned:{mode}:"
