"""Stores with a past, written by the calls that the product writes with; what they hold; and stores that fail."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from receiver.core.explain.samples import NodeTurn
from receiver.core.model.memory import NodeLife
from receiver.core.model.overrides import Question
from receiver.core.model.usage import Accounting, Unwatched, Usage, WorkloadLife
from receiver.core.money.attribution import Watch
from receiver.core.notices.notice import Notice
from receiver.core.report.lines import Counted
from receiver.ports import Arrival, Delivery, Grounds, Store, StoredAction, StoredDecision, StoredNotice, StoredOverride
from simulator.store import MemoryStore

KEY = "the-random-key-that-the-store-keeps"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ALL_THE_TIME = Watch(since=LONG_AGO, until=datetime(2030, 1, 1, tzinfo=UTC))
EVERYTHING = 100_000


class LoggedStore:
    """A store as an app reaches it: the names of its answered calls go to *log*. While *failure* returns an error,
    every call raises it, except for the key once it was read: it never changes."""

    def __init__(self, store: Callable[[], object], log: list[str], failure: Callable[[], Exception | None]) -> None:
        self._store, self._log, self._failure = store, log, failure

    def __getattr__(self, name: str) -> Any:
        answer = getattr(self._store(), name)
        remembered = name == "sealing_key" and name in self._log

        def call(*positional: Any, **named: Any) -> Any:
            error = self._failure()
            if error is not None and not remembered:
                raise error
            self._log.append(name)
            return answer(*positional, **named)

        return call


def failing(error: Exception) -> Store:
    """Return a store of which every call raises *error*."""
    return cast("Store", LoggedStore(MemoryStore, [], lambda: error))


def logged(store: Store, log: list[str]) -> Store:
    """Return *store* with its calls in *log*."""
    return cast("Store", LoggedStore(lambda: store, log, lambda: None))


# --- what a store holds


def outbox(store: Store) -> list[Notice]:
    """Return the undelivered notices, oldest first."""
    return [stored.notice for stored in store.undelivered(limit=EVERYTHING)]


def stored_overrides(store: Store) -> dict[str, StoredOverride]:
    """Return the overrides by id."""
    return {stored.override.id: stored for stored in store.overrides(limit=EVERYTHING)}


def the_question(store: Store, number: str = "q1") -> Question:
    """Return the question *number*, which exists."""
    question = store.question(number)
    assert question is not None
    return question


# --- what happened before


def a_store_with(
    *,
    picture: tuple[Mapping[str, Any], datetime] | None = None,
    decisions: Iterable[StoredDecision] = (),
    grounds: Mapping[int, Grounds] | None = None,
    actions: Iterable[StoredAction] = (),
    lives: Iterable[NodeLife] = (),
    turns: Iterable[NodeTurn] = (),
    usage: Iterable[Usage] = (),
    unwatched: Iterable[Unwatched] = (),
    workloads: Iterable[WorkloadLife] = (),
    watch: Watch = ALL_THE_TIME,
    counts: Iterable[Counted] = (),
    overrides: Iterable[StoredOverride] = (),
    questions: Iterable[Question] = (),
    arrivals: Iterable[Arrival] = (),
    messages: Iterable[StoredNotice] = (),
    sealing_key: str = KEY,
) -> MemoryStore:
    """Return a store in which this happened. *grounds* are those of decisions, by number."""
    store = MemoryStore(sealing_key=sealing_key)
    if picture is not None:
        store.keep_snapshot(*picture)
    add_decisions(store, *decisions, grounds=grounds)
    add_actions(store, *actions)
    store.saw(tuple(lives), {}, LONG_AGO)
    for turn in turns:
        store.keep_samples((), [turn], turn.at)
    _account(store, watch, Accounting(usage=tuple(usage), unwatched=tuple(unwatched), lives=tuple(workloads)))
    for counted in counts:
        store.keep_unit_count(counted)
    add_overrides(store, *overrides)
    add_questions(store, *questions)
    for arrival in arrivals:
        store.remember(Delivery(receiver="test", group_key="g", alerts=(arrival.alert,)), arrival.at)
    add_messages(store, *messages)
    return store


def _account(store: MemoryStore, watch: Watch, accounting: Accounting) -> None:
    if watch.since is not None and watch.until is not None:
        store.account(Accounting(), None, watch.since)
        assert store.account(accounting, watch.since, watch.until)


def add_decisions(store: MemoryStore, *decisions: StoredDecision, grounds: Mapping[int, Grounds] | None = None) -> None:
    """Store *decisions* under their own numbers. Each must differ from the last one of its pool."""
    for stored in decisions:
        store.next_decision = stored.id
        assert store.decided(stored.decision, (grounds or {}).get(stored.id)) == stored.id, "as the last of its pool"


def add_actions(store: Store, *actions: StoredAction) -> None:
    """Open *actions*, and close those with an outcome."""
    for stored in actions:
        assert store.opened(stored.action), "its pool has an open action"
        if stored.outcome is not None:
            store.closed(stored.action, stored.outcome, None)


def add_overrides(store: Store, *overrides: StoredOverride) -> None:
    """Set *overrides*, and end those that have ended. Their messages have been delivered."""
    for stored in overrides:
        override = stored.override
        store.set_override(override, _notice(override.id, "set"))
        if stored.ended_at is not None:
            store.end_override(override.id, stored.ended_at, stored.ended_by, _notice(override.id, "ended"))
        _deliver(store, override.at)


def add_questions(store: Store, *questions: Question) -> None:
    """Ask *questions*, with the answers that some have. Their messages have been delivered."""
    for question in questions:
        asked = replace(question, answer=None, who="", why="", answered_at=None, done_at=None)
        assert store.ask(asked, _notice(question.id, "asked"))
        if question.answer is not None:
            given = replace(question, answered_at=question.answered_at or question.asked_at)
            assert store.answer_question(given, _notice(question.id, "answered"))
        if question.done_at is not None:
            store.question_done(question.id, question.done_at)
        _deliver(store, question.asked_at)


def add_messages(store: Store, *messages: StoredNotice) -> None:
    """Put *messages* into the outbox, as far as each was delivered or failed. No two have one topic and key."""
    for message in messages:
        assert store.say(message.notice, message.at), "the last one of its topic had that key"
        number = store.messages(message.at, message.at)[0].id
        for attempt in range(message.attempts - (message.given_up_at is not None)):
            retry_at = message.at + timedelta(minutes=attempt + 1)
            store.notice_failed(number, message.at, retry_at, message.last_error)
        if message.given_up_at is not None:
            store.notice_failed(number, message.given_up_at, None, message.last_error)
        if message.sent_at is not None:
            store.notice_sent(number, message.sent_at)


def _notice(number: str, key: str) -> Notice:
    return Notice(cause="test", topic=f"test:{number}", key=key, title=f"{number} was {key}", body="")


def _deliver(store: Store, at: datetime) -> None:
    for message in store.undelivered(limit=EVERYTHING):
        store.notice_sent(message.id, at)
