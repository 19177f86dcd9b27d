"""A whole life under several budgets: what is set at run time counts, teams pay for what they hold."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from receiver.core.model.policy import Budget, BudgetChange, Scope, Stated
from receiver.core.notices.money_notices import budget_changed
from receiver.ports import Store, TryLater
from tests.core.builders import HOUR, MINUTE, a_pool
from tests.expect import published
from tests.given import lives
from tests.given.life import PRICE, START, Life, a_job

MUCH = Decimal(1000)


def set_to(life: Life, usd: str | None, **given: object) -> None:
    """An operator sets the cluster's allowance of this month, or takes that back."""
    said = {"scope": Scope.CLUSTER, "name": "", "month": "2026-11", "who": "ada", "why": "a deadline", "at": life.now}
    change = BudgetChange(**{**said, "monthly_usd": None if usd is None else Decimal(usd), **given})  # type: ignore[arg-type]
    life.store.change_budget(change, budget_changed(change, "cluster budget"))


def test_an_allowance_raised_at_run_time_is_bought_from_and_survives_a_restart(store: Store) -> None:
    life = lives.at_zero(store, budget=Budget(monthly_usd=Decimal(1)))  # less than one node-hour
    life.submit(a_job())
    life.run(MINUTE)
    assert life.required() == 0
    set_to(life, "50")
    again = lives.restarted(life, store)
    again.run(MINUTE)
    assert again.required() == 1
    assert "The cluster budget of 2026-11 was set to $50.00" in again.notices()


def test_an_allowance_of_the_month_before_is_not_in_force(store: Store) -> None:
    life = lives.at_zero(store, budget=Budget(monthly_usd=Decimal(1)))
    set_to(life, "50", month="2026-10")
    life.submit(a_job())
    life.run(MINUTE)
    assert life.required() == 0


def test_an_allowance_taken_back_is_the_configured_one_again(store: Store) -> None:
    life = lives.at_zero(store, budget=Budget(monthly_usd=Decimal(1)))
    set_to(life, "50")
    set_to(life, None)
    life.submit(a_job())
    life.run(MINUTE)
    assert life.required() == 0


def test_a_team_that_has_spent_its_own_waits_while_another_is_served(store: Store) -> None:
    """The first hour of 1.29 passes the hold line of 1.50 once attribution has given it to the team."""
    life = lives.waiting(
        store,
        a_job("first", team="research", duration=timedelta(minutes=50)),
        budget=Budget(monthly_usd=MUCH, teams={"research": Decimal("1.50")}),
    )
    life.run(10 * MINUTE)
    assert life.required() == 1
    life.submit(a_job("second", team="research"))
    life.run(3 * MINUTE)
    assert life.required() == 1
    life.submit(a_job("other", team="vision"))
    life.step()
    assert life.required() == 2


def test_a_line_is_told_once_over_restarts(store: Store) -> None:
    life = lives.waiting(store, budget=Budget(monthly_usd=Decimal("1.50")))
    life.run(5 * MINUTE)
    again = lives.restarted(life, store)
    again.run(3 * MINUTE)
    lines = [title for title in again.notices() if "has reached its" in title]
    assert lines == ["GPU cluster budget 2026-11 has reached its hold line (80%)"]


def test_a_hold_is_wrong_once_work_waits_behind_it(store: Store) -> None:
    life = lives.at_zero(store, budget=Budget(monthly_usd=Decimal("1.50")))

    def levels() -> list[str]:
        return [c["level"] for c in published(store)["concerns"] if "hold line" in c["what"]]

    life.submit(a_job())
    life.run(5 * MINUTE)
    assert levels() == ["warn"]
    life.submit(a_job("second"))
    life.run(MINUTE)
    assert levels() == ["bad"]


def test_a_pools_stop_lets_its_empty_node_go_below_the_floor(store: Store) -> None:
    life = lives.at_zero(store, budget=Budget(monthly_usd=MUCH))
    pool = replace(life.policy.pools[0], min_nodes=1, budget_usd=Decimal("1.40"))
    life.policy = replace(life.policy, pools=(pool,))
    life.run(30 * MINUTE, tick=MINUTE)
    assert life.required() == 1
    life.policy = replace(life.policy, pools=(replace(pool, budget_usd=Decimal("1.29")),))
    life.run(40 * MINUTE, tick=MINUTE)
    assert life.required() == 0


def test_an_account_budget_set_at_run_time_has_failed_charges_asked_again_after_a_minute(store: Store) -> None:
    life = lives.at_zero(store, budget=Budget(monthly_usd=MUCH))
    life.step()
    life.world.advance(datetime(2026, 12, 1, 0, 0, 5, tzinfo=UTC))
    set_to(life, "5000", scope=Scope.ACCOUNT, month="2026-12")
    life.accounts.fail_next(TryLater("timeout"))
    before, life.rest = life.accounts.asked, MINUTE
    life.run(3 * MINUTE)
    assert life.accounts.asked - before == 2
    assert life.steps[-1].facts.spend.account is not None


def test_while_civo_does_not_answer_for_charges_its_last_answer_counts(store: Store) -> None:
    """The account's spend would be unknown at the first timeout, and nothing would be bought."""
    life = lives.idle_nodes(store, 1, budget=Budget(monthly_usd=MUCH, account_usd=MUCH))
    life.run(2 * MINUTE)
    answered = life.steps[-1].facts.spend.charges
    assert answered is not None
    life.accounts.fail_always(TryLater("timeout"))
    life.run(2 * HOUR, tick=5 * MINUTE)
    facts = life.steps[-1].facts
    assert facts.spend.charges is not None
    assert (facts.spend.charges.charged.failure, facts.spend.charges.charged.records) == (
        "timeout",
        answered.charged.records,
    )
    assert facts.spend.account is not None


def test_an_answer_for_charges_of_more_than_a_day_ago_says_nothing_of_the_account(store: Store) -> None:
    """What others spent since is unknown: without it nothing is bought."""
    life = lives.idle_nodes(store, 1, budget=Budget(monthly_usd=MUCH, account_usd=MUCH))
    life.step()
    life.accounts.fail_always(TryLater("timeout"))
    spend = []
    for hours in (24, 25):
        life.world.advance(START + hours * HOUR)
        spend.append(life.step().facts.spend)
    assert [each.account is None for each in spend] == [False, True]
    assert spend[1].account_at_least >= spend[1].usd > 0


def test_the_account_costs_no_less_than_what_the_operator_stated_of_the_cluster(store: Store) -> None:
    stated = Stated(month="2026-11", usd=Decimal(1200))
    life = lives.idle_nodes(store, 1, budget=Budget(monthly_usd=MUCH, account_usd=MUCH, stated=stated))
    for _ in range(2):
        spend = life.step().facts.spend
        life.pass_time(MINUTE)
    assert spend.usd >= Decimal(1200)
    assert spend.account == spend.usd


def test_living_nodes_of_a_pool_that_left_the_configuration_are_looked_up_at_their_price(store: Store) -> None:
    stays, left = a_pool("stays"), a_pool("left")
    life = lives.idle_nodes(store, 1, stays, left, budget=Budget(monthly_usd=MUCH))
    assert life.step().facts.spend.elsewhere_per_hour == 0
    life.policy = replace(life.policy, pools=(stays,))
    assert life.step().facts.spend.elsewhere_per_hour == PRICE


def test_a_pod_that_only_its_teams_budget_refuses_is_told_once_while_the_pool_grows_for_others(store: Store) -> None:
    life = lives.waiting(
        store,
        a_job("mine", team="research"),
        a_job("theirs", team="vision", priority=9),
        budget=Budget(monthly_usd=MUCH, teams={"research": Decimal(1)}),
    )
    life.run(MINUTE)
    again = lives.restarted(life, store)
    again.run(MINUTE)
    told = [(args[0], args[1]) for _, args in life.writes("record_event") + again.writes("record_event")]
    assert sorted(told) == [("ml/mine-0", "NotTriggerScaleUp"), ("ml/theirs-0", "TriggeredScaleUp")]
    [said] = [e.message for e in life.world.events if e.name == "mine-0" and e.reason == "NotTriggerScaleUp"]
    assert said == "GPU pool l40s does not grow for it: the budget of team research is $0.29 short; held until 1 Dec"


def reserved(life: Life) -> Decimal:
    """The next paid hour of the nodes that live, USD."""
    view = life.steps[-1].assignment.budget
    assert view is not None
    return view.reserved


def test_nodes_that_came_at_a_higher_price_are_reserved_for_at_that_price(store: Store) -> None:
    dear = a_pool(price_usd_per_hour=Decimal(4))
    life = lives.at_zero(store, budget=Budget(monthly_usd=Decimal(24), hold_at=Decimal("0.99")))
    life.policy = replace(life.policy, pools=(dear,))
    life.submit(*(a_job(f"j{n}", duration=timedelta(hours=6)) for n in range(3)))
    life.run(10 * MINUTE, tick=MINUTE)
    assert (life.required(), reserved(life)) == (3, Decimal(12))  # and 12 are spent
    life.policy = replace(life.policy, pools=(replace(dear, price_usd_per_hour=Decimal(1)),))
    life.submit(*(a_job(f"more{n}", duration=timedelta(hours=6)) for n in range(5)))
    life.run(10 * MINUTE, tick=MINUTE)
    assert (life.required(), reserved(life)) == (3, Decimal(12))
