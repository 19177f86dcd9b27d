"""Questions in the store: kept exactly, asked once, answered once with what the answer sets, forgotten after a year."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.adapters.store import SqlStore, open_store
from receiver.core.model.overrides import Answer, Asks, Override, OverrideKind, Question
from receiver.core.model.policy import Unanswered
from tests.adapters.store.builders import NOW, POOL, after, notice

ASKED, TOLD = notice("question:q", "asked"), notice("question:q", "answered")
SNOOZE = Override(
    id="snooze-q", kind=OverrideKind.SNOOZE, pool=POOL, who="alice", why="demo", at=NOW, until=after(hours=1)
)


def question(name: str = "q", **changes: Any) -> Question:
    values: dict[str, Any] = {
        "pool": POOL,
        "asks": Asks.REMOVAL,
        "from_count": 3,
        "to_count": 1,
        "asked_at": NOW,
        "due_at": after(minutes=10),
        "wait_ends": after(minutes=15),
        "expires_at": after(minutes=20),
        "unanswered": Unanswered.HOLD,
        "instances": ("i-1", "i-2"),
        "nodes": ("n1", "n\N{GREEK SMALL LETTER ALPHA}"),
        "usd_per_hour": Decimal("2.58"),
    }
    return Question(id=name, **{**values, **changes})


def answered(answer: Answer, who: str, why: str, at: datetime, name: str = "q") -> Question:
    """The question with its answer."""
    return question(name, answer=answer, who=who, why=why, answered_at=at)


@pytest.mark.parametrize(
    "kept", [question(), question(asks=Asks.GROWTH, instances=(), nodes=(), usd_per_hour=None, done_at=NOW)]
)
def test_a_question_comes_back_exactly(store: SqlStore, kept: Question) -> None:
    assert store.ask(kept, ASKED)
    assert store.question("q") == kept
    assert store.questions_standing(NOW) == (kept,)


def test_one_is_asked_and_told_once(store: SqlStore) -> None:
    assert store.ask(question(), ASKED)
    assert not store.ask(question(), notice("question:q", "again"))
    assert [n.notice for n in store.notices_due(NOW)] == [ASKED]


def test_a_step_that_began_before_an_answer_asks_nothing_about_the_pool(store: SqlStore) -> None:
    store.ask(question(), ASKED)
    store.answer_question(answered(Answer.SNOOZE_1H, "alice", "demo", after(seconds=2)), TOLD, SNOOZE)
    assert not store.ask(question("again", asked_at=after(seconds=1)), notice("question:again", "again"))
    assert store.ask(question("elsewhere", pool="other", asked_at=after(seconds=1)), notice("question:e", "e"))
    assert store.ask(question("later", asked_at=after(seconds=3)), notice("question:later", "later"))
    assert [n.notice.key for n in store.notices_due(after(minutes=1))] == ["asked", "answered", "e", "later"]


def test_an_answer_that_a_step_knew_when_it_began_keeps_back_none_of_its_questions(store: SqlStore) -> None:
    store.ask(question(), ASKED)
    store.answer_question(answered(Answer.REJECT, "alice", "", after(seconds=2)), TOLD)
    assert store.ask(question("again", asked_at=after(seconds=2)), notice("question:again", "again"))


def test_an_answer_is_kept_with_what_it_sets_and_told_in_one_go(store: SqlStore) -> None:
    store.ask(question(), ASKED)
    assert store.answer_question(answered(Answer.SNOOZE_1H, "alice", "demo", after(minutes=1)), TOLD, SNOOZE)
    found = store.question("q")
    assert found is not None
    assert (found.answer, found.who, found.why) == (Answer.SNOOZE_1H, "alice", "demo")
    assert found.answered_at == after(minutes=1)
    assert store.memory(NOW, NOW).overrides == (SNOOZE,)
    assert [n.notice for n in store.notices_due(after(minutes=1))] == [ASKED, TOLD]


def test_the_first_answer_counts(store: SqlStore) -> None:
    store.ask(question(), ASKED)
    assert store.answer_question(answered(Answer.APPROVE, "alice", "", NOW), TOLD)
    assert not store.answer_question(answered(Answer.SNOOZE_1H, "bob", "", NOW), notice("question:q", "2"), SNOOZE)
    found = store.question("q")
    assert found is not None
    assert (found.answer, store.overrides(), len(store.notices_due(NOW))) == (Answer.APPROVE, (), 2)


@pytest.mark.parametrize("changes", [{"expires_at": NOW}, {"done_at": NOW}])
def test_what_is_over_takes_no_answer(store: SqlStore, changes: dict[str, Any]) -> None:
    store.ask(question(**changes), ASKED)
    assert not store.answer_question(answered(Answer.APPROVE, "alice", "", NOW), TOLD)
    assert not store.answer_question(answered(Answer.APPROVE, "alice", "", NOW, "none"), TOLD)


def test_what_is_over_is_no_longer_needed_by_a_step_and_still_shown(store: SqlStore) -> None:
    store.ask(question(), ASKED)
    store.ask(
        question("later", asked_at=after(minutes=1), expires_at=after(hours=1)), notice("question:later", "asked")
    )
    assert [q.id for q in store.questions_standing(after(minutes=20))] == ["later"]
    assert [q.id for q in store.questions()] == ["later", "q"]
    assert [q.id for q in store.questions(pool="other")] == []
    assert [q.id for q in store.questions(limit=1)] == ["later"]


def test_that_nothing_is_left_of_one_is_noted_once(store: SqlStore) -> None:
    store.ask(question(), ASKED)
    store.question_done("q", after(minutes=1))
    store.question_done("q", after(minutes=2))
    found = store.question("q")
    assert found is not None
    assert found.done_at == after(minutes=1)


@pytest.mark.database("the store in memory prunes nothing")
def test_one_is_kept_for_400_days_after_its_end(store: SqlStore) -> None:
    store.ask(question(), ASKED)
    store.prune(after(minutes=20) + timedelta(days=400))
    assert store.question("q") is not None
    store.prune(after(minutes=21) + timedelta(days=400))
    assert store.question("q") is None


def test_another_process_sees_an_answer(url: str, store: SqlStore) -> None:
    store.ask(question(), ASKED)
    second = open_store(url)
    assert second.answer_question(answered(Answer.APPROVE, "alice", "", NOW), TOLD)
    second.close()
    found = store.question("q")
    assert found is not None
    assert found.answer is Answer.APPROVE
