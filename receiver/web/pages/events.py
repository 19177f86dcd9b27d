"""What happened in a pool: a row for each change and each time in which it was blocked, with what was done about it and
the messages; or each step of it alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from receiver.core.explain.rules import why
from receiver.core.model.actions import OutcomeKind
from receiver.core.model.policy import Pool
from receiver.core.model.text import some, span
from receiver.core.notices.grouping import OVER
from receiver.ports import Arrival, StoredAction, StoredDecision, StoredNotice, StoredOverride
from receiver.reports.state import ScalingState
from receiver.web.api.episodes import Episode, episodes, state_of
from receiver.web.pages.show import node_name
from receiver.web.parts import WebParts

READ = 150  # decisions, actions and messages of one pool that are read at most
LATE = timedelta(minutes=15)  # an alert that has fired for longer when it first came was only repeated
EVERYWHERE = ("", "unassigned")
HEARTBEAT = "heartbeat"
LOOKS_OF_OUTCOMES = {"confirmed": "ok", "observed": "wants", "failed": "bad"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """At *at* something happened: *kind* says what sort of thing, *what* tells it, *decision* is its number if any."""

    at: datetime
    kind: str
    what: str
    detail: str = ""
    look: str = ""
    decision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Everything that is kept of a pool since a moment, as it was read; *cut* where there is more."""

    decisions: Sequence[StoredDecision]
    actions: Sequence[StoredAction]
    messages: Sequence[StoredNotice]
    others: Sequence[Event]  # alerts and overrides
    cut: bool = field(default=False)


def happened(
    parts: WebParts, pool: Pool, since: datetime, now: datetime, decisions: Sequence[StoredDecision]
) -> Happened:
    """Return what is kept of *pool*, of which *decisions* were read."""
    actions = parts.store.actions(pool=pool.id, limit=READ)
    messages = parts.store.messages(since, now, pool=pool.id, limit=READ)
    overrides = [s for s in parts.store.overrides_between(since, now) if s.override.concerns(pool.id)]
    oldest = [d.decision.at for d in decisions[READ - 1 :]] + [a.action.opened_at for a in actions[READ - 1 :]]
    return Happened(
        decisions=decisions,
        actions=actions,
        messages=messages,
        others=[
            *(event for arrival in parts.store.arrivals(since, now) for event in _alert(arrival, pool)),
            *(event for stored in overrides for event in _override(stored)),
        ],
        cut=any(at > since for at in oldest) or len(messages) == READ,
    )


def steps(found: Happened, since: datetime) -> list[Event]:
    """Return each step since *since* as an event of its own, the newest first."""
    events = [
        *found.others,
        *(_decision(stored, state_of(stored)) for stored in found.decisions),
        *(event for stored in found.actions for event in _action(stored)),
        *map(_message, found.messages),
    ]
    return _newest_first(events, since)


def by_episode(found: Happened, since: datetime) -> list[Event]:
    """Return an event for each change and each time in which the pool was blocked, with what was done about it, and for
    what belongs to none; the newest first."""
    told: dict[int, list[StoredAction | StoredNotice]] = {}
    rows = episodes(found.decisions)
    episode_of = {stored.id: n for n, episode in enumerate(rows) for stored in episode.decisions}
    others = list(found.others)
    for action in found.actions:
        number = episode_of.get(action.action.decision or -1)
        if number is None:
            others += _action(action)
        else:
            told.setdefault(number, []).append(action)
    for message in found.messages:
        number = episode_of.get(message.notice.decision or -1)
        if number is None or _trouble(message)[0]:
            others.append(_message(message))
        else:
            told.setdefault(number, []).append(message)
    return _newest_first([*others, *(_episode(row, told.get(n, ())) for n, row in enumerate(rows))], since)


def _newest_first(events: Sequence[Event], since: datetime) -> list[Event]:
    return sorted((event for event in events if event.at >= since), key=lambda event: event.at, reverse=True)


def _episode(episode: Episode, told: Sequence[StoredAction | StoredNotice]) -> Event:
    """The row of *episode*, with the actions and messages of its decisions."""
    event = _decision(episode.latest, episode.state)
    done = [one for one in told if isinstance(one, StoredAction)]
    results = [_result(action) for action in done[:1]]  # the newest tells how it stands
    if episode.tries:
        results = [f"tried {some(episode.tries, 'time')} in vain"]
    messages = len(told) - len(done)
    notes = [event.detail, *results, *([some(messages, "message")] if messages else [])]
    return replace(event, at=episode.since, detail="; ".join(notes))


def _result(stored: StoredAction) -> str:
    """What became of an action, in a few words."""
    outcome = stored.outcome
    if outcome is None:
        return "in progress"
    lasted = span((outcome.at - stored.action.opened_at).total_seconds())
    return f"done in {lasted}" if outcome.kind is OutcomeKind.CONFIRMED else outcome.kind.value


def _alert(arrival: Arrival, pool: Pool) -> Iterator[Event]:
    alert = arrival.alert
    repeated = alert.firing and arrival.at - alert.starts_at > LATE
    if alert.labels.get("pool", "") not in (pool.id, pool.name, *EVERYWHERE) or repeated:
        return
    name, action = alert.labels.get("alertname", "an alert"), alert.labels.get("action")
    if action == HEARTBEAT:
        return
    if not alert.firing:
        yield Event(at=arrival.at, kind="alert", what=f"{name} resolved", look="notes")
        return
    words = alert.annotations.get("summary") or alert.annotations.get("description") or ""
    asks = f" (action: {action})" if action else ""
    yield Event(at=arrival.at, kind="alert", what=f"{name} is firing{asks}", detail=words, look="limits")


def _decision(stored: StoredDecision, state: ScalingState) -> Event:
    decision = stored.decision
    size = some(decision.target, "node")
    if decision.present != decision.target and not state.would:
        size = f"{decision.present} → {size}"
    return Event(
        at=decision.at,
        kind="decision",
        what=f"{state}: {size}".replace("->", "→"),
        detail=why(decision),
        look=state.word,
        decision=stored.id,
    )


def _action(stored: StoredAction) -> Iterator[Event]:
    action, outcome = stored.action, stored.outcome
    nodes = ", ".join(node_name(victim.node, victim.instance) for victim in action.victims[:5])
    overflow = f" and {len(action.victims) - 5} more" if len(action.victims) > 5 else ""
    title, number = f"{action.kind} {action.from_count} → {action.to_count} nodes", action.decision
    yield Event(
        at=action.opened_at, kind="action", what=f"{title}: started", detail=f"{nodes}{overflow}", decision=number
    )
    if outcome is not None:
        title = f"{title}: {outcome.kind}"
        look = LOOKS_OF_OUTCOMES.get(outcome.kind.value, "notes")
        yield Event(at=outcome.at, kind="action", what=title, detail=outcome.detail, look=look, decision=number)


def _trouble(stored: StoredNotice) -> tuple[str, str]:
    """Why a message did not arrive, and how that looks; empty where it did, or is on its way."""
    if stored.sent_at is None and stored.given_up_at is not None and stored.last_error != OVER:
        return f"not delivered: {stored.last_error}", "bad"
    if stored.sent_at is None and stored.attempts:
        return f"retrying after {some(stored.attempts, 'attempt')}", "notes"
    return "", "notes"


def _message(stored: StoredNotice) -> Event:
    state, look = _trouble(stored)
    if stored.sent_at is None and not state:
        state = f"not sent: {OVER}" if stored.last_error == OVER else "on its way"
    return Event(
        at=stored.at, kind="message", what=stored.notice.title, detail=state, look=look, decision=stored.notice.decision
    )


def _override(stored: StoredOverride) -> Iterator[Event]:
    override = stored.override
    yield Event(at=override.at, kind="override", what=str(override), look="wants")
    if stored.ended_at is not None:
        by = f"ended by {stored.ended_by}" if stored.ended_by else "expired"
        title = f"{override.kind} by {override.who} {by}"
        yield Event(at=stored.ended_at, kind="override", what=title, look="notes")
