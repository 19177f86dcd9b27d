"""Whose a month's money was: shares of nodes by GPU-seconds, and cents that add up to the ledger's."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Anchor, Billing, Rounding
from receiver.core.model.usage import Owner, Unwatched, Usage
from receiver.core.money.attribution import (
    Attributed,
    By,
    Line,
    MonthToDate,
    Part,
    Watch,
    attribute,
    by_team,
    key_of,
    lines,
)
from receiver.core.money.budget import month_of
from receiver.core.money.cost import in_cents, spend_by_pool, to_cents
from tests.core.builders import EVERY_SECOND, HOUR, MINUTE, NOW, a_life, a_policy
from tests.core.money.builders import NOVEMBER, a_usage

BILLING = Billing()
POLICY = a_policy(gpu_kinds={"an.g1.l40s.kube.x1": "L40S"})


def told(*lives: NodeLife, by: By = By.TEAM, usage: Any = (), unwatched: Any = (), **given: Any) -> list[Line]:
    to_date = MonthToDate(given.pop("month", NOVEMBER), given.pop("now", NOW), given.pop("billing", BILLING))
    found = attribute(lives, usage, unwatched, to_date, **given)
    return list(lines(found, lambda share: key_of(share, by, POLICY)))


def in_brief(found: list[Line]) -> dict[tuple[str, str], str]:
    return {(line.part.value, line.key): str(line.usd) for line in found}


def test_what_a_workload_held_and_what_nobody_held_share_the_price() -> None:
    gone = a_life(hours=2, gone_at=NOW)
    assert in_brief(told(gone, usage=[a_usage(hours=0.5)])) == {("held", "vision"): "0.65", ("unallocated", ""): "1.93"}


@pytest.mark.parametrize("sharers", [1, 3, 6, 7, 11])
def test_half_a_cent_is_rounded_as_the_ledger_rounds_it_however_many_share_it(sharers: int) -> None:
    gone = a_life(hours=1, gone_at=NOW, price_usd_per_hour=Decimal("1.295"))
    usage = [a_usage(f"job{n}", hours=1 / sharers) for n in range(sharers)]
    assert sum(line.usd for line in told(gone, usage=usage, by=By.WORKLOAD)) == Decimal("1.30")


def test_a_paid_hour_under_way_can_still_be_used() -> None:
    young = a_life(hours=0.25)
    found = in_brief(told(young, usage=[a_usage(hours=0.25)]))
    assert found == {("held", "vision"): "0.32", ("ahead", ""): "0.97"}


def test_on_the_clock_what_is_left_of_the_first_hour_is_counted_from_the_clock() -> None:
    """Created at a quarter to and seen ten minutes later: five minutes are left, and nobody could have the first 45."""
    hour = NOW.replace(minute=0, second=0, microsecond=0)
    young = a_life(created_at=hour + 0.75 * HOUR, price_usd_per_hour=Decimal(6))
    now = hour + timedelta(minutes=55)
    found = in_brief(told(young, usage=[a_usage(hours=1 / 6)], now=now, billing=Billing(anchor=Anchor.CLOCK)))
    assert found == {("held", "vision"): "1.00", ("ahead", ""): "0.50", ("unallocated", ""): "4.50"}


def test_the_rest_of_the_last_hour_of_a_node_that_is_gone_was_bought_for_nobody() -> None:
    gone = a_life(hours=1, gone_at=NOW - HOUR / 2)
    assert in_brief(told(gone, usage=[a_usage(hours=0.5)])) == {("held", "vision"): "0.65", ("unallocated", ""): "0.64"}


def test_time_that_nobody_watched_is_neither_used_nor_idle() -> None:
    blind = [Unwatched(month="2026-11", instance="i-n1", seconds=3600.0)]
    found = in_brief(told(a_life(hours=2, gone_at=NOW), unwatched=blind))
    assert found == {("unallocated", ""): "1.29", ("unwatched", ""): "1.29"}


def test_two_teams_on_one_node_pay_for_the_gpus_that_they_held() -> None:
    node = a_life(gpus=4, hours=1, gone_at=NOW, price_usd_per_hour=Decimal(4))
    usage = [a_usage("a", hours=3), a_usage("b", hours=1, owner=Owner(team="nlp"))]
    assert in_brief(told(node, usage=usage)) == {("held", "vision"): "3.00", ("held", "nlp"): "1.00"}


def test_who_gave_no_label_is_shown() -> None:
    usage = [a_usage(owner=Owner())]
    assert ("held", "unlabelled") in in_brief(told(a_life(), usage=usage))
    assert ("held", "none") in in_brief(told(a_life(), usage=usage, by=By.PRIORITY_CLASS))


def test_a_team_that_is_called_like_the_word_for_no_team_is_told_apart() -> None:
    usage = [a_usage(hours=1, owner=Owner(team="unlabelled", priority_class="none")), a_usage("b", owner=Owner())]
    node = a_life(hours=2, gone_at=NOW)
    teams = in_brief(told(node, usage=usage))
    assert teams == {("held", "unlabelled (label)"): "1.29", ("held", "unlabelled"): "1.29"}
    classes = in_brief(told(node, usage=usage, by=By.PRIORITY_CLASS))
    assert classes == {("held", "none (class)"): "1.29", ("held", "none"): "1.29"}


@pytest.mark.parametrize(
    "by, key",
    [
        (By.TEAM, "vision"),
        (By.NAMESPACE, "ml"),
        (By.PROJECT, "p"),
        (By.WORKLOAD_CLASS, "training"),
        (By.ENVIRONMENT, "prod"),
        (By.COST_CENTER, "42"),
        (By.WORKLOAD, "ml/Job/train"),
        (By.GPU_KIND, "L40S"),
        (By.PRIORITY_CLASS, "urgent"),
        (By.POOL, "l40s"),
    ],
)
def test_cost_is_told_by_everything_that_is_known_of_it(by: By, key: str) -> None:
    owner = Owner(
        team="vision",
        project="p",
        workload_class="training",
        environment="prod",
        cost_center="42",
        priority_class="urgent",
    )
    usage = [a_usage(hours=2, owner=owner)]
    assert in_brief(told(a_life(hours=2, gone_at=NOW), usage=usage, by=by)) == {("held", key): "2.58"}


def test_what_nobody_held_is_told_by_kind_of_gpu_too() -> None:
    other = a_life("i-n2", size="unheard.of", hours=1, gone_at=NOW)
    found = in_brief(told(a_life(hours=1, gone_at=NOW), other, by=By.GPU_KIND))
    assert found == {("unallocated", "L40S"): "1.29", ("unallocated", "unheard.of"): "1.29"}


def test_held_and_unused_is_told_beside_what_was_held() -> None:
    usage = [a_usage(hours=1, measured=3600.0, idle=1800.0), a_usage("b", hours=1, owner=Owner(team="nlp"))]
    found = {line.key: (line.usd, line.idle_usd) for line in told(a_life(hours=2, gone_at=NOW), usage=usage)}
    assert found == {"vision": (Decimal("1.29"), Decimal("0.65")), "nlp": (Decimal("1.29"), Decimal("0.00"))}


def test_a_unit_costs_in_the_month_in_which_it_began() -> None:
    """Created half an hour before December: its first hour is November's, the rest December's."""
    midnight = datetime(2026, 12, 1, tzinfo=UTC)
    life = a_life(created_at=midnight - HOUR / 2, gone_at=midnight + 1.5 * HOUR)
    usage = [a_usage(hours=1), a_usage(hours=1, month="2026-12")]
    for name, now in (("2026-11", NOW), ("2026-12", midnight)):
        found = told(life, usage=usage, month=month_of(now, "UTC"), now=midnight + 2 * HOUR)
        assert in_brief(found) == {("held", "vision"): "1.29"}, name


def test_a_size_without_a_price_is_named_and_costs_nothing_that_is_known() -> None:
    found = attribute([a_life(price_usd_per_hour=None)], [a_usage()], [], MonthToDate(NOVEMBER, NOW, BILLING))
    assert (found.usd, found.unpriced) == (Decimal("0.00"), ("an.g1.l40s.kube.x1",))
    assert lines(found, lambda s: key_of(s, By.TEAM, POLICY))[0].seconds == 3600.0


def test_a_node_that_gives_more_than_its_pool_said_is_shared_by_what_was_held() -> None:
    usage = [a_usage("a", hours=2), a_usage("b", hours=2, owner=Owner(team="nlp"))]
    found = in_brief(told(a_life(hours=2, gone_at=NOW), usage=usage))
    assert found == {("held", "vision"): "1.29", ("held", "nlp"): "1.29"}


def test_a_node_whose_gpus_nobody_knows_was_bought_for_nobody() -> None:
    assert in_brief(told(a_life(gpus=0, hours=1, gone_at=NOW))) == {("unallocated", ""): "1.29"}


def test_what_was_spent_before_the_ledger_began_is_a_part_of_its_own() -> None:
    found = in_brief(told(a_life(hours=1, gone_at=NOW), seeded=Decimal("12.50")))
    assert found == {("unallocated", ""): "1.29", ("seeded", ""): "12.50"}


def test_what_teams_held_is_told_for_budgets() -> None:
    usage = [a_usage(hours=1), a_usage("b", hours=0.5, owner=Owner())]
    found = attribute([a_life(hours=2, gone_at=NOW)], usage, [], MonthToDate(NOVEMBER, NOW, BILLING))
    assert {team: in_cents(usd) for team, usd in by_team(found).items()} == {
        "vision": Decimal("1.29"),
        "": Decimal("0.65"),
    }


def test_the_largest_remainders_get_the_missing_cents() -> None:
    third = Decimal(1) / 3
    assert to_cents({"a": third, "b": third, "c": third}) == {
        "a": Decimal("0.34"),
        "b": Decimal("0.33"),
        "c": Decimal("0.33"),
    }
    assert to_cents({}) == {}


@st.composite
def months(draw: st.DrawFn) -> tuple[list[NodeLife], list[Usage], list[Unwatched], datetime, Billing]:
    """Some nodes, priced and not, what was held of them, seen at some moment during or after the month."""
    lives, usage, blind = [], [], []
    billing = Billing(
        granularity=timedelta(seconds=draw(st.sampled_from([1, 60, 3600]))),
        rounding=draw(st.sampled_from(Rounding)),
        anchor=draw(st.sampled_from(Anchor)),
    )
    now = NOVEMBER.start + timedelta(hours=draw(st.integers(1, 1000)))
    for n in range(draw(st.integers(0, 4))):
        created = now - timedelta(seconds=draw(st.integers(0, 40 * 86_400)))
        lived = draw(st.none() | st.integers(0, 10**6))
        gone = None if lived is None else min(created + timedelta(seconds=lived), now)
        price = draw(st.none() | st.decimals("0.01", "30", places=4))
        life = a_life(f"i{n}", created_at=created, gone_at=gone, price_usd_per_hour=price, gpus=draw(st.integers(0, 8)))
        lives.append(life)
        for w in range(draw(st.integers(0, 3))):
            team = Owner(team=draw(st.sampled_from(["", "vision", "nlp"])))
            seconds = draw(st.floats(0, 10**6))
            idle = draw(st.floats(0, 1)) * seconds
            usage.append(
                a_usage(f"w{w}", instance=life.instance, held=seconds, owner=team, measured=seconds, idle=idle)
            )
        blind.append(Unwatched(month="2026-11", instance=life.instance, seconds=draw(st.floats(0, 10**5))))
    return lives, usage, blind, now, billing


@given(months(), st.sampled_from(By))
def test_lines_add_up_to_the_ledger_to_the_cent(world: Any, by: By) -> None:
    lives, usage, blind, now, billing = world
    until, after = (
        sum(spend_by_pool(lives, since, now, billing)[0].values(), Decimal(0))
        for since in (NOVEMBER.start, NOVEMBER.end)
    )
    found = told(*lives, by=by, usage=usage, unwatched=blind, now=now, billing=billing)
    assert sum((line.usd for line in found), Decimal(0)) == in_cents(until - after)


@given(months(), st.sampled_from(By))
def test_no_line_is_negative_and_none_idles_more_than_it_cost(world: Any, by: By) -> None:
    lives, usage, blind, now, billing = world
    for line in told(*lives, by=by, usage=usage, unwatched=blind, now=now, billing=billing):
        assert line.usd >= 0
        assert line.seconds >= 0
        assert 0 <= line.idle_usd <= line.usd


def test_by_the_second_nothing_lies_ahead_for_long() -> None:
    found = told(a_life(hours=1), usage=[a_usage(hours=1)], billing=EVERY_SECOND)
    assert {line.part: line.usd for line in found if line.usd} == {Part.HELD: Decimal("1.29")}


BEFORE = month_of(NOVEMBER.start - HOUR, "UTC")
ALWAYS = NOVEMBER.start - 100 * 24 * HOUR


def shared(*lives: Any, watch: Watch, now: datetime = NOW, month: Any = NOVEMBER, **given: Any) -> Attributed:
    usage, unwatched = given.get("usage", ()), given.get("unwatched", ())
    return attribute(lives, usage, unwatched, MonthToDate(month, now, Billing()), watch=watch)


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
