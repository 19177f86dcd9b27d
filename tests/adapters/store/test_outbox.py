"""Notices: said once per topic and key, kept until they are delivered."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event

from receiver.adapters.store import SqlStore, open_store
from receiver.core.notices.grouping import OVER, group_of
from receiver.core.notices.notice import Cause, Severity
from receiver.ports import StoredNotice, Telling, TryLater
from tests.adapters.store.builders import NOW, POOL, after, migrated, notice
from tests.stores import ill


def due(store: SqlStore, **later: float) -> list[int]:
    return [n.id for n in store.notices_due(after(**later))]


def test_a_notice_comes_back_exactly(store: SqlStore) -> None:
    said = notice(
        severity=Severity.WARNING,
        pool=POOL,
        decision=7,
        guide="runbooks/GpuBudgetStop.md",
        question="q-1",
        body="a\nb <c> & d",
    )
    assert store.say(said, NOW)
    (found,) = store.notices_due(NOW)
    assert found == StoredNotice(id=found.id, notice=said, attempts=0, at=NOW)


def test_the_same_key_is_told_once(store: SqlStore) -> None:
    assert store.say(notice(), NOW)
    assert not store.say(notice(title="said otherwise"), after(minutes=1))
    assert len(store.notices_due(after(days=1))) == 1


def test_an_all_clear_of_what_was_never_told_is_dropped(store: SqlStore) -> None:
    assert not store.say(notice("source:civo", "clear", all_clear=True), NOW)
    assert store.notices_due(NOW) == ()


def test_an_all_clear_of_what_was_told_is_told_once(store: SqlStore) -> None:
    store.say(notice("source:civo", "silent"), NOW)
    clear = notice("source:civo", "clear", all_clear=True)
    assert [store.say(clear, NOW), store.say(clear, NOW)] == [True, False]
    assert store.notices_due(NOW)[-1].notice == clear


def test_a_key_that_could_not_be_stored_as_it_is_is_still_told_once(store: SqlStore) -> None:
    assert store.say(notice("t\x00", "k\ud800"), NOW)
    assert not store.say(notice("t\x00", "k\ud800"), NOW)


def test_a_new_key_of_the_topic_is_told(store: SqlStore) -> None:
    assert [store.say(notice(key=k), NOW) for k in ("a", "b", "a")] == [True, True, True]


def test_what_was_told_last_is_known_by_topic(store: SqlStore) -> None:
    store.say(notice("idle:a", "warned"), NOW)
    store.say(notice("idle:a", "kept"), after(minutes=1))
    store.say(notice("idle:b%", "warned"), after(minutes=2))
    store.say(notice("budget", "50"), NOW)
    assert store.told("idle:") == {"idle:a": ("kept", after(minutes=1)), "idle:b%": ("warned", after(minutes=2))}
    assert store.told("%") == {}


def test_only_topics_that_begin_as_was_asked_are_known(store: SqlStore) -> None:
    for topic in ("idle:a_b", "idle:axb", "idle:a/b"):
        store.say(notice(topic, "warned"), NOW)
    assert list(store.told("idle:a_")) == ["idle:a_b"]
    assert list(store.told("idle:a/")) == ["idle:a/b"]


def test_topics_do_not_hide_each_other(store: SqlStore) -> None:
    assert store.say(notice("budget", "50"), NOW)
    assert store.say(notice("source:civo", "50"), NOW)


def test_notices_are_due_oldest_first_and_up_to_the_limit(store: SqlStore) -> None:
    for key in "abc":
        store.say(notice(key=key), NOW)
    assert [n.notice.key for n in store.notices_due(NOW, 2)] == ["a", "b"]


def test_a_sent_notice_is_no_longer_due(store: SqlStore) -> None:
    store.say(notice(), NOW)
    store.notice_sent(due(store)[0], NOW)
    assert due(store, days=9) == []


def test_a_failed_notice_is_due_again_at_its_time(store: SqlStore) -> None:
    store.say(notice(), NOW)
    (number,) = due(store)
    store.notice_failed(number, NOW, after(seconds=30), "destination 1: 500")
    assert due(store, seconds=29) == []
    assert [(n.id, n.attempts) for n in store.notices_due(after(seconds=30))] == [(number, 1)]


def test_a_notice_that_was_given_up_is_no_longer_due(store: SqlStore) -> None:
    store.say(notice(), NOW)
    store.notice_failed(due(store)[0], NOW, None, "destination 1: 500")
    assert due(store, days=9) == []
    assert store.counts()["notices"] == {"pending": 0, "sent": 0, "failed": 1}


def test_how_far_a_notice_is_with_a_destination_is_remembered(store: SqlStore) -> None:
    store.say(notice(), NOW)
    (number,) = due(store)
    refused = Telling(attempts=2, retry_at=after(minutes=2))
    store.tell({number: refused}, "d1", ("destination 1", "failed"))
    store.tell({number: Telling(reached_at=NOW)}, "d2", ("destination 2", "delivered"))
    (found,) = store.notices_like(group_of(notice()))
    assert found.tellings == {"d1": refused, "d2": Telling(reached_at=NOW)}
    store.tell({number: Telling(attempts=2, reached_at=after(minutes=2))}, "d1", ("destination 1", "delivered"))
    (found,) = store.notices_like(group_of(notice()))
    assert found.tellings["d1"] == Telling(attempts=2, reached_at=after(minutes=2))


def test_messages_are_counted_by_destination_and_outcome(store: SqlStore) -> None:
    store.say(notice(), NOW)
    (number,) = due(store)
    for outcome in ("failed", "failed", "delivered"):
        store.tell({number: Telling()}, "d1", ("destination 1 (slack)", outcome))
    name = "destination 1 (slack)"
    assert store.counts()["messages"] == {(name, "failed"): 2, (name, "delivered"): 1}


def test_undelivered_notices_of_a_group_are_listed_oldest_first(store: SqlStore) -> None:
    for key, cause in (("a", Cause.GREW), ("b", Cause.SHRANK), ("c", Cause.GREW), ("d", Cause.GREW)):
        store.say(notice(key=key, pool=POOL, cause=cause), NOW)
    store.notice_sent(due(store)[-1], NOW)
    found = store.notices_like(group_of(notice(pool=POOL, cause=Cause.GREW)))
    assert [n.notice.key for n in found] == ["a", "c"]


def test_when_a_group_reached_a_destination_last_is_known_and_nothing_later_than_now_counts(store: SqlStore) -> None:
    for key in "abc":
        store.say(notice(key=key), NOW)
    group, numbers = group_of(notice()), due(store)
    for number, minutes in zip(numbers, (1, 3, 60), strict=True):
        store.tell({number: Telling(reached_at=after(minutes=minutes))}, "d1", ("destination 1", "delivered"))
        store.notice_sent(number, NOW)
    assert store.reached_last(group, "d1", after(minutes=10)) == after(minutes=3)
    assert store.reached_last(group, "d1", after(minutes=3)) == after(minutes=3)
    assert store.reached_last(group, "d1", NOW) is None
    assert store.reached_last(group, "d2", after(minutes=10)) is None
    assert store.reached_last("another", "d1", after(minutes=10)) is None


def test_a_notice_that_waits_is_due_at_its_time(store: SqlStore) -> None:
    store.say(notice(), NOW)
    (number,) = due(store)
    store.notices_wait([number], after(minutes=5))
    assert due(store, seconds=299) == []
    assert due(store, minutes=5) == [number]


def test_a_notice_that_waits_for_a_time_of_a_clock_that_was_ahead_is_due_at_once(store: SqlStore) -> None:
    store.say(notice(), NOW)
    (number,) = due(store)
    store.notices_wait([number], after(minutes=30))
    assert due(store) == []
    store.notices_wait([number], after(minutes=31))
    assert due(store) == [number]


@pytest.mark.database("the store in memory prunes nothing")
def test_how_far_a_notice_is_is_forgotten_with_it(store: SqlStore) -> None:
    store.say(notice(), NOW)
    (number,) = due(store)
    store.tell({number: Telling(reached_at=NOW)}, "d1", ("destination 1", "delivered"))
    store.notice_sent(number, NOW)
    store.prune(after(days=8))
    assert store.reached_last(group_of(notice()), "d1", after(days=8)) is None


# --- what every step repeats while it is true

REPEATED = {"cause": Cause.HELD}


def waiting(store: SqlStore) -> dict[str, str]:
    """The body of each undelivered notice, by topic."""
    return {n.notice.topic: n.notice.body for n in store.notices_due(after(days=1))}


def test_what_stands_is_said_once(store: SqlStore) -> None:
    held = notice("held:a", **REPEATED)
    assert [list(store.stand([held], after(minutes=n), complete=True)) for n in range(2)] == [[held], []]
    assert len(store.notices_due(after(days=1))) == 1


def test_a_waiting_notice_gets_the_words_of_what_stands(store: SqlStore) -> None:
    store.stand([notice("held:a", body="$1 short", **REPEATED)], NOW, complete=True)
    store.stand([notice("held:a", body="$9 short", **REPEATED)], after(minutes=1), complete=True)
    assert waiting(store) == {"held:a": "$9 short"}


@pytest.mark.parametrize(("fails", "age"), [(False, 2), (True, 3)])
def test_a_notice_whose_words_change_grows_old_only_once_its_delivery_failed(
    store: SqlStore, fails: bool, age: int
) -> None:
    store.stand([notice("held:a", body="$1 short", **REPEATED)], NOW, complete=True)
    if fails:
        store.notice_failed(store.notices_due(NOW)[0].id, NOW, after(minutes=1), "no route")
    store.stand([notice("held:a", body="$9 short", **REPEATED)], after(minutes=1), complete=True)
    assert after(minutes=3) - store.notices_due(after(days=1))[0].at == after(minutes=age) - NOW


def test_what_no_longer_stands_is_never_sent_and_is_said_when_it_comes_again(store: SqlStore) -> None:
    held, event = notice("held:a", **REPEATED), notice("action:a", cause=Cause.GREW)
    store.stand([held], NOW, complete=True)
    store.say(event, NOW)
    store.stand([], after(minutes=1), complete=True)
    assert list(waiting(store)) == ["action:a"]
    assert list(store.stand([held], after(minutes=2), complete=True)) == [held]


def test_what_reached_a_destination_is_not_said_again_while_its_topic_has_the_same_key(store: SqlStore) -> None:
    held = notice("held:a", **REPEATED)
    store.stand([held], NOW, complete=True)
    number = store.notices_due(NOW)[0].id
    store.tell({number: Telling(reached_at=NOW)}, "d1", ("one", "delivered"))
    store.stand([], after(minutes=1), complete=True)
    assert list(store.stand([held], after(minutes=2), complete=True)) == []


def test_a_step_that_does_not_know_all_withdraws_and_changes_nothing(store: SqlStore) -> None:
    store.stand([notice("held:a", body="$1 short", **REPEATED)], NOW, complete=True)
    assert list(store.stand([], after(minutes=1), complete=False)) == []
    other = notice("held:b", body="$2 short", **REPEATED)
    store.stand([notice("held:a", body="$9 short", **REPEATED), other], after(minutes=1), complete=False)
    assert waiting(store) == {"held:a": "$1 short", "held:b": "$2 short"}


def test_what_is_told_again_word_for_word_keeps_its_age(store: SqlStore) -> None:
    held = notice("held:a", **REPEATED)
    store.stand([held], NOW, complete=True)
    store.stand([held, notice("held:b", **REPEATED)], after(minutes=1), complete=True)
    assert [n.at for n in store.notices_due(after(days=1))] == [NOW, after(minutes=1)]


def test_a_waiting_notice_keeps_its_words_where_its_topic_says_something_else_now(store: SqlStore) -> None:
    store.stand([notice("held:a", "short", body="$1 short", **REPEATED)], NOW, complete=True)
    store.stand([notice("held:a", "frozen", body="frozen", **REPEATED)], after(minutes=1), complete=True)
    assert [n.notice.body for n in store.notices_due(after(days=1))] == ["$1 short", "frozen"]


def test_of_two_notices_of_one_topic_that_stand_the_second_is_said_only_with_another_key(store: SqlStore) -> None:
    first, second = notice("held:a", "short", **REPEATED), notice("held:a", "frozen", **REPEATED)
    assert list(store.stand([first, first, second], NOW, complete=False)) == [first, second]


def test_many_notices_stand_by_as_many_statements_as_few(tmp_path: Path) -> None:
    statements: list[str] = []

    def sent_by(count: int) -> int:
        standing = [notice(f"held:{n}", **REPEATED) for n in range(count)]
        store.stand(standing, NOW, complete=True)
        statements.clear()
        store.stand(standing, after(minutes=1), complete=True)
        return len(statements)

    with closing(open_store(migrated(tmp_path / "ledger.db"))) as store:
        event.listen(store._database.engine, "before_cursor_execute", lambda *args: statements.append(args[2]))
        assert 0 < sent_by(2) == sent_by(50)


# --- what takes no write lock


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[SqlStore]:
    """A store that has told what stands, and takes no write while a test runs."""
    store = open_store(migrated(tmp_path / "ledger.db"))
    store.stand([notice("held:a", **REPEATED)], NOW, complete=True)
    store.say(notice(), NOW)
    with ill(store, "read_only"):
        yield store
    store.close()


def test_what_was_told_before_is_told_again_without_a_write(read_only: SqlStore) -> None:
    assert not read_only.say(notice(), after(minutes=1))
    with pytest.raises(TryLater):
        read_only.say(notice(key="new"), after(minutes=1))


def test_what_stands_without_news_is_no_write_for_a_step_that_does_not_know_all(read_only: SqlStore) -> None:
    assert read_only.stand([notice("held:a", **REPEATED)], after(minutes=1), complete=False) == ()


def test_where_nothing_waits_what_stands_without_news_is_no_write(tmp_path: Path) -> None:
    held = notice("held:a", **REPEATED)
    with closing(open_store(migrated(tmp_path / "ledger.db"))) as store:
        store.stand([held], NOW, complete=True)
        store.notice_sent(store.notices_due(NOW)[0].id, NOW)
        with ill(store, "read_only"):
            assert store.stand([held], after(minutes=1), complete=True) == ()


# --- groups


def test_a_notice_of_a_group_says_which_cause_its_topic_had_since(store: SqlStore) -> None:
    for topic, cause in (
        ("held:c", Cause.HELD),
        ("held:a", Cause.HELD),
        ("held:b", Cause.HELD),
        ("held:a", Cause.GREW),
    ):
        store.say(notice(topic, cause, pool=POOL, cause=cause), NOW)
    found = store.notices_like(group_of(notice("held:a", pool=POOL, cause=Cause.HELD)))
    followed = [("held:c", None), ("held:a", Cause.GREW), ("held:b", None)]
    assert [(n.notice.topic, n.followed_by) for n in found] == followed


def test_a_notice_that_is_over_is_given_up_and_no_longer_due(store: SqlStore) -> None:
    store.say(notice(), NOW)
    (number,) = due(store)
    store.notices_over([number], after(minutes=1))
    assert due(store, days=1) == []
    [kept] = store.messages(NOW, after(minutes=1))
    assert (kept.given_up_at, kept.last_error) == (after(minutes=1), OVER)
