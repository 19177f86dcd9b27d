"""What nobody saw is a part of its own, and a month says from when on it is known."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.policy import Billing
from receiver.core.model.usage import Unwatched
from receiver.core.money.attribution import Attributed, Part, Watch, attribute
from receiver.core.money.budget import month_of
from receiver.core.money.cost import in_cents
from tests.core.builders import HOUR, MINUTE, NOW, a_life
from tests.core.money.builders import NOVEMBER, a_usage

BEFORE = month_of(NOVEMBER.start - HOUR, "UTC")
ALWAYS = NOVEMBER.start - 100 * 24 * HOUR


def shared(*lives: Any, watch: Watch, now: datetime = NOW, month: Any = NOVEMBER, **given: Any) -> Attributed:
    usage, unwatched = given.get("usage", ()), given.get("unwatched", ())
    return attribute(lives, usage, unwatched, month, now, Billing(), watch=watch)


def parts(found: Attributed) -> dict[Part, Decimal]:
    sums: dict[Part, Decimal] = {}
    for share in found.shares:
        sums[share.part] = sums.get(share.part, Decimal(0)) + share.usd
    return {part: in_cents(usd) for part, usd in sums.items()}


# --- what nobody saw


@pytest.mark.parametrize(
    "watch",
    [
        Watch(),
        Watch(since=NOW, until=NOW),
        Watch(since=ALWAYS, until=NOW, kept_from=NOVEMBER.end + HOUR),
    ],
    ids=["no cluster", "gone before the ledger began", "forgotten"],
)
def test_what_nobody_saw_is_bought_for_nobody_that_is_known(watch: Watch) -> None:
    gone = a_life(hours=2, gone_at=NOW)
    assert parts(shared(gone, watch=watch)) == {Part.UNWATCHED: Decimal("2.58")}


def test_in_the_months_before_a_node_was_seen_nobody_knows_who_held_it() -> None:
    life = a_life(created_at=BEFORE.end - 10 * HOUR, seen_at=BEFORE.end + HOUR)
    found = shared(life, month=BEFORE, watch=Watch(since=ALWAYS, until=NOW))
    assert parts(found) == {Part.UNWATCHED: Decimal("12.90")}


def test_in_the_months_before_the_ledger_began_nobody_knows_who_held_a_node() -> None:
    life = a_life(created_at=BEFORE.end - 10 * HOUR, seen_at=BEFORE.end - 10 * HOUR)
    found = shared(life, month=BEFORE, watch=Watch(since=NOVEMBER.start + HOUR, until=NOW))
    assert (parts(found), found.observed_from) == ({Part.UNWATCHED: Decimal("12.90")}, None)


def test_what_is_known_of_unseen_time_all_the_same_is_not_unwatched() -> None:
    gone = a_life(hours=4, gone_at=NOW)
    told = [Unwatched(month="2026-11", instance="i1", seconds=3600.0)]
    found = parts(shared(gone, watch=Watch(since=NOW, until=NOW), usage=[a_usage(hours=1)], unwatched=told))
    assert found == {Part.HELD: Decimal("1.29"), Part.UNWATCHED: Decimal("3.87")}


def test_while_the_account_stands_still_nobody_sees_who_holds_a_node() -> None:
    found = parts(shared(a_life(hours=3), watch=Watch(since=ALWAYS, until=NOW - HOUR), usage=[a_usage(hours=2)]))
    assert found == {Part.HELD: Decimal("2.58"), Part.UNWATCHED: Decimal("1.29"), Part.AHEAD: Decimal("1.29")}


def test_what_the_next_accounting_will_tell_is_neither_idle_nor_unwatched() -> None:
    found = parts(
        shared(a_life(hours=1), watch=Watch(since=ALWAYS, until=NOW - MINUTE), usage=[a_usage(hours=59 / 60)])
    )
    assert found == {Part.HELD: Decimal("1.27"), Part.AHEAD: Decimal("1.31")}


def test_what_was_watched_and_held_by_nobody_stays_so() -> None:
    found = parts(shared(a_life(hours=2, gone_at=NOW), watch=Watch(since=ALWAYS, until=NOW)))
    assert found == {Part.UNALLOCATED: Decimal("2.58")}


# --- from when on


def test_a_month_in_which_the_ledger_began_is_known_from_then_on() -> None:
    began = NOVEMBER.start + 100 * HOUR
    watch = Watch(since=began, until=NOVEMBER.end + 9 * HOUR)
    found = shared(watch=watch, now=NOVEMBER.end + 9 * HOUR)
    assert (found.observed_from, found.complete) == (began, False)


@pytest.mark.parametrize(
    ("now", "until", "complete"),
    [
        (NOVEMBER.end, NOVEMBER.end, False),
        (NOVEMBER.end + HOUR, NOVEMBER.end + HOUR, False),
        (NOVEMBER.end + 2 * HOUR, NOVEMBER.end + 2 * HOUR, True),
        (NOVEMBER.end + 9 * HOUR, NOVEMBER.end + HOUR - MINUTE, False),
    ],
    ids=["at its end", "when its last hour is over", "an hour later", "not accounted for yet"],
)
def test_a_month_is_complete_when_nothing_of_it_is_to_come(now: datetime, until: datetime, complete: bool) -> None:
    found = shared(watch=Watch(since=ALWAYS, until=until), now=now)
    assert (found.observed_from, found.complete) == (NOVEMBER.start, complete)


def test_a_month_that_was_forgotten_is_not_complete() -> None:
    now = NOVEMBER.end + 9 * HOUR
    found = shared(watch=Watch(since=ALWAYS, until=now, kept_from=NOVEMBER.end + HOUR), now=now)
    assert (found.observed_from, found.complete) == (None, False)


def test_the_oldest_month_that_is_kept_is_complete() -> None:
    now = NOVEMBER.end + 9 * HOUR
    found = shared(watch=Watch(since=ALWAYS, until=now, kept_from=NOVEMBER.start + 300 * HOUR), now=now)
    assert (found.observed_from, found.complete) == (NOVEMBER.start, True)
