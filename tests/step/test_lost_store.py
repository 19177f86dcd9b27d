"""A lost or new store in mid-month: nothing is bought until the month's spend is known again."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

import pytest

from receiver.capabilities.costs.monthly import costs_of
from receiver.core.model.charges import Charge
from receiver.core.model.policy import Budget, ChargePrice, Scope, Stated
from receiver.core.money.budget import BudgetStage, month_of
from receiver.ports import Charges, Store, TryLater, WontWork
from receiver.replay.world.objects import Behaviour, WorldPool
from receiver.step.reconcile import step
from simulator.store import MemoryStore
from tests.core.builders import HOUR, MINUTE
from tests.expect import deciding_rule, published
from tests.given import lives
from tests.given.life import GPU, PRICE, SIZE, START, Life, Wrapped, a_job, a_policy, a_world

BUDGET = Budget(monthly_usd=Decimal(10_000))
DOWN = TryLater("Civo at https://api.civo.com was asked to list the charges: no answer within 30 s", code="timeout")


def spent(life: Life) -> Decimal:
    """The month's spend as the last step knew it."""
    return life.steps[-1].facts.spend.usd


def a_life_with_a_past(store: Store, budget: Budget | None = BUDGET, behaviour: Behaviour | None = None) -> Life:
    """Six nodes came and went, one lives still."""
    life = lives.at_zero(store, behaviour=behaviour, budget=budget)
    for number in range(3):
        jobs = [a_job(f"past-{number}-{n}", submit_at=life.now, duration=timedelta(minutes=35)) for n in range(2)]
        life.submit(*jobs)
        life.run(75 * MINUTE, tick=10 * MINUTE)
    life.submit(a_job("now", submit_at=life.now, duration=50 * HOUR))
    life.run(30 * MINUTE, tick=10 * MINUTE)
    return life


@pytest.fixture
def empty_store() -> Store:
    """A store that knows nothing, in place of one that was lost."""
    return MemoryStore()


@pytest.mark.parametrize("rounding", ["ceil", "floor_min_one"])
def test_a_lost_store_knows_the_months_spend_again_within_one_unit_per_node(
    store: Store, empty_store: Store, rounding: Literal["ceil", "floor_min_one"]
) -> None:
    life = a_life_with_a_past(store, behaviour=Behaviour(rounding=rounding))
    before = spent(life)
    again = lives.restarted(life, empty_store)
    again.step()
    again.step()
    assert again.steps[-1].facts.spend.unknown == ""
    nodes = len(life.world.charges(START, life.now))
    assert nodes == 7
    assert abs(spent(again) - before) <= nodes * PRICE
    assert again.steps[-1].facts.spend.seeded >= 6 * PRICE


def test_a_lost_store_buys_nothing_until_the_charges_have_answered(store: Store) -> None:
    again = lives.at_zero(store, budget=BUDGET)
    again.accounts.fail_always(DOWN)
    again.submit(a_job("waits", submit_at=again.now))
    again.run(20 * MINUTE, tick=MINUTE)
    assert again.writes("resize") == []
    assert deciding_rule(again) == "spend_is_known"
    reason = again.steps[-1].decisions["l40s-id"].deciding.detail
    assert "no answer within 30 s" in reason
    assert "budget.spent_usd_stated" in reason
    again.accounts.fail_always(None)
    again.run(3 * MINUTE)
    assert again.writes("resize")


def test_while_growth_waits_for_the_charges_they_are_asked_once_a_minute_and_no_more(store: Store) -> None:
    life = lives.at_zero(store, budget=BUDGET, rest=MINUTE)
    life.accounts.fail_always(DOWN)
    life.run(10 * MINUTE)
    assert 10 <= life.accounts.asked <= 11


@pytest.mark.parametrize(("account_usd", "asked"), [(Decimal(50_000), 5), (None, 1)])
def test_an_account_budget_asks_again_after_a_minute_while_a_new_month_has_no_answer(
    store: Store, account_usd: Decimal | None, asked: int
) -> None:
    budget = Budget(monthly_usd=Decimal(10_000), account_usd=account_usd)
    life = lives.at_zero(store, budget=budget, rest=MINUTE)
    life.step()
    life.world.advance(datetime(2026, 12, 1, 0, 0, 5, tzinfo=UTC))
    life.accounts.fail_always(DOWN)
    before = life.accounts.asked
    life.run(4 * MINUTE + timedelta(seconds=30))
    assert life.accounts.asked - before == asked


@pytest.mark.database("what outlives a process is in it")
def test_charges_are_asked_every_fifteen_minutes_over_restarts_too(store: Store) -> None:
    life = lives.at_zero(store, budget=BUDGET)
    life.run(46 * MINUTE)
    again = lives.restarted(life, store)
    again.run(5 * MINUTE)
    assert (life.accounts.asked, again.accounts.asked) == (4, 0)


def test_a_lost_store_is_seeded_only_once_the_living_nodes_are_seen(store: Store) -> None:
    again = lives.at_zero(store, budget=BUDGET)
    again.cloud.fail_always(TryLater("no answer", code="timeout"))
    again.step()
    assert again.store.memory(again.now, START).seed is None
    again.cloud.fail_always(None)
    again.step()
    assert again.store.memory(again.now, START).seed is not None


def test_a_lost_store_is_seeded_again_when_its_first_step_ran_under_a_clock_ahead(
    store: Store, empty_store: Store
) -> None:
    life = a_life_with_a_past(store)
    again = lives.restarted(life, empty_store)
    step(again.sources, again.hands, again.policy, "act", again.now + timedelta(days=40))
    again.run(2 * MINUTE)
    assert again.steps[-1].facts.spend.unknown == ""
    assert again.steps[-1].facts.spend.seeded >= 6 * PRICE


def test_without_a_budget_a_lost_store_holds_nothing_back(store: Store) -> None:
    life = lives.at_zero(store)
    life.accounts.fail_always(WontWork("Civo refused CIVO_API_KEY", code="authentication_failed"))
    life.submit(a_job())
    life.run(2 * MINUTE)
    assert life.writes("resize")


def test_an_account_without_charges_is_seeded_with_nothing_and_grows(store: Store) -> None:
    life = lives.waiting(store, budget=BUDGET)
    life.step()
    assert life.steps[-1].facts.spend.seeded == 0
    assert life.writes("resize")


def test_a_stated_amount_lets_pools_grow_while_the_charges_are_silent(store: Store) -> None:
    again = lives.at_zero(store, budget=BUDGET)
    stated = Stated(month="2026-11", usd=Decimal(1200))
    again.policy = a_policy(budget=Budget(monthly_usd=Decimal(10_000), stated=stated))
    again.accounts.fail_always(DOWN)
    again.submit(a_job("waits", submit_at=again.now))
    again.step()
    assert spent(again) == Decimal(1200)
    again.run(3 * MINUTE)
    assert again.writes("resize")


def test_an_amount_stated_for_another_month_says_nothing(store: Store) -> None:
    life = lives.at_zero(
        store, budget=Budget(monthly_usd=Decimal(10_000), stated=Stated(month="2026-10", usd=Decimal(1200)))
    )
    life.accounts.fail_always(DOWN)
    life.submit(a_job())
    life.step()
    assert deciding_rule(life) == "spend_is_known"


def test_an_amount_stated_anew_replaces_the_one_before(store: Store) -> None:
    life = lives.at_zero(store, budget=BUDGET)
    life.step()
    for usd in (500, 800):
        life.policy = a_policy(
            budget=Budget(monthly_usd=Decimal(10_000), stated=Stated(month="2026-11", usd=Decimal(usd)))
        )
        life.step()
        assert spent(life) == usd
        life.pass_time(MINUTE)


def test_charges_that_cannot_be_read_keep_a_lost_store_from_growing(store: Store) -> None:
    life = lives.at_zero(store, budget=BUDGET)
    garbled = Charges(unreadable=("record 3: it has no code (label demo)",))
    life.accounts = Wrapped(life.accounts, charges=lambda _frm, _to: garbled)  # type: ignore[assignment] # stands in for it
    life.submit(a_job())
    life.step()
    assert deciding_rule(life) == "spend_is_known"
    assert "it has no code" in life.steps[-1].decisions["l40s-id"].deciding.detail


def test_a_lost_store_grows_two_minutes_after_its_last_unreadable_charge_can_be_read(store: Store) -> None:
    life = lives.at_zero(store, budget=BUDGET)
    readable = life.accounts
    garbled = Charges(unreadable=("record 3: it has no code (label demo)",))
    life.accounts = Wrapped(readable, charges=lambda _frm, _to: garbled)  # type: ignore[assignment] # stands in for it
    life.submit(a_job("waits", submit_at=life.now))
    life.run(2 * MINUTE)
    assert life.writes("resize") == []
    life.accounts = readable
    life.run(2 * MINUTE)
    assert life.writes("resize")


def test_a_pod_that_waits_for_a_lost_store_is_told_about_the_spend_and_not_to_raise_the_budget(store: Store) -> None:
    life = lives.at_zero(store, budget=BUDGET)
    life.accounts.fail_always(DOWN)
    life.submit(a_job("waits", submit_at=life.now))
    life.step()
    [entry] = published(store)["waiting"]
    assert entry["rule"] == "spend_is_known"
    assert "Civo's charges cannot be read" in entry["detail"]


def test_nodes_of_other_clusters_with_our_size_are_in_the_seed(store: Store) -> None:
    life = lives.at_zero(store, budget=BUDGET)
    gone = Charge(
        code=f"kube-node-{SIZE}",
        label="other-node",
        frm=START - 10 * HOUR,
        to=START - 3 * HOUR,
        hours=Decimal(7),
    )
    life.accounts.others = (gone,)
    life.step()
    assert spent(life) == 7 * PRICE


@pytest.mark.database("what outlives a process is in it")
def test_the_seed_outlives_a_restart_and_ends_with_its_month(store: Store) -> None:
    life = lives.at_zero(store, budget=BUDGET)
    life.accounts.others = (
        Charge(code=f"kube-node-{SIZE}", label="x", frm=START - 9 * HOUR, to=START - HOUR, hours=Decimal(8)),
    )
    life.step()
    again = lives.restarted(life, store)
    again.step()
    assert spent(again) == 8 * PRICE
    again.world.advance(datetime(2026, 12, 1, 0, 0, 10, tzinfo=UTC))
    again.submit(a_job("december", submit_at=again.now))
    again.step()
    assert spent(again) == 0
    assert again.writes("resize")


def test_nodes_from_before_us_and_of_somebody_else_count_from_their_creation(store: Store) -> None:
    life = lives.at_zero(store, budget=BUDGET)
    life.world.resize("l40s-id", 1)
    life.pass_time(150 * MINUTE)
    life.step()
    assert spent(life) == 3 * PRICE
    life.world.resize("l40s-id", 2)
    life.pass_time(HOUR)
    life.step()
    assert spent(life) == (4 + 2) * PRICE


def test_living_nodes_of_a_pool_that_is_configured_later_count_once(store: Store) -> None:
    """They are in the seed of the lost store, as nodes of somebody else; then the ledger gets their whole lives."""
    pools = [WorldPool(id=name, size=SIZE, resources={GPU: 1}, count=1) for name in ("l40s-id", "later-id")]
    life = Life(world=a_world(*pools), policy=a_policy(budget=BUDGET), store=store)
    life.pass_time(150 * MINUTE)
    life.run(2 * MINUTE)
    assert spent(life) == (3 + 3) * PRICE
    own = life.policy.pools[0]
    life.policy = replace(life.policy, pools=(own, replace(own, id="later-id", name="later")))
    life.run(2 * MINUTE)
    assert spent(life) == (3 + 3) * PRICE
    assert life.steps[-1].facts.spend.seeded == 0
    assert costs_of(store, life.policy, month_of(life.now, "UTC"), life.now).usd == (3 + 3) * PRICE


def test_another_pool_of_the_cluster_costs_the_account_and_not_the_cluster(store: Store) -> None:
    world = a_world(
        WorldPool(id="l40s-id", size=SIZE, resources={GPU: 1}, count=1),
        WorldPool(id="web-id", size="g4s.kube.medium", resources={}, count=2),
    )
    prices = {"kube-node-g4s.kube.medium": ChargePrice(usd_per_hour=Decimal("0.03"))}
    life = Life(world=world, policy=a_policy(budget=BUDGET, charge_prices=prices), store=store)
    life.pass_time(90 * MINUTE)
    life.step()
    spend = life.steps[-1].facts.spend
    assert (spend.usd, spend.account) == (2 * PRICE, 2 * PRICE + 4 * Decimal("0.03"))
    assert spend.account_unpriced == ()


def test_charges_older_than_a_day_say_nothing_of_the_account(store: Store) -> None:
    life = lives.at_zero(store, budget=BUDGET)
    life.step()
    assert life.steps[-1].facts.spend.account == 0
    life.accounts.fail_always(DOWN)
    life.pass_time(24 * HOUR)
    life.step()
    assert life.steps[-1].facts.spend.account == 0
    life.pass_time(HOUR)
    life.step()
    assert life.steps[-1].facts.spend.account is None
    assert "Cannot read Civo's charges" in life.notices()
    life.accounts.fail_always(None)
    life.pass_time(HOUR)
    life.step()
    assert life.steps[-1].facts.spend.account == 0
    assert "Civo's charges can be read again" in life.notices()


def test_an_account_at_its_stop_stays_there_while_the_charges_are_silent(store: Store) -> None:
    prices = {"dbaas": ChargePrice(usd_per_hour=Decimal(10))}
    budget = Budget(monthly_usd=Decimal(10_000), account_usd=Decimal(100))
    life = lives.at_zero(store, budget=budget, charge_prices=prices)
    life.accounts.others = (Charge(code="dbaas", frm=START - 10 * HOUR, to=START, hours=Decimal(10)),)
    life.step()
    life.accounts.fail_always(DOWN)
    life.pass_time(26 * HOUR)
    life.step()
    view = life.steps[-1].assignment.budgets.of(Scope.ACCOUNT)
    assert view is not None
    assert (view.stage, view.spent, bool(view.unknown)) == (BudgetStage.STOP, Decimal(100), True)
    assert [t for t in life.notices() if "below its lines" in t] == []


def test_a_difference_is_told_once_a_month(store: Store) -> None:
    life = lives.at_zero(store, budget=BUDGET)
    life.step()
    unseen = Charge(code=f"kube-node-{SIZE}", label="unseen", frm=START, to=START + 9 * HOUR, hours=Decimal(9))
    life.accounts.others = (unseen,)
    for _ in range(3):
        life.pass_time(10 * HOUR)
        life.step()
    told = [t for t in life.notices() if "differ" in t]
    assert told == [f"Civo's charges and our ledger differ by $11.61 for {SIZE} in 2026-11"]
