"""Budgets of account, cluster, pools and teams: which growth each covers, and what it says when it does not."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Action, ActionKind, Change, Decision, Outcome, OutcomeKind, Verdict
from receiver.core.model.flights import may_have_landed
from receiver.core.model.memory import PoolMemory
from receiver.core.model.model import Facts, Node, Spend, Stage
from receiver.core.model.pods import Pod, PodPhase, Workload
from receiver.core.model.policy import Budget, BudgetChange, KeepOut, Policy, Scope
from receiver.core.money.budget import (
    Budgets,
    BudgetStage,
    BudgetView,
    Forecast,
    Intent,
    Key,
    Month,
    Refusal,
    forecast,
    intent,
    month_of,
    teams_of,
    unseen,
    views,
)
from receiver.core.notices import money_notices
from receiver.core.scaling.waits import drift
from receiver.core.scaling.wanted import Assignment
from tests.core.builders import (
    GPU,
    HOUR_ENDS_SOON,
    NOW,
    SECOND,
    a_busy_node,
    a_flight,
    a_growth,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_removal,
    a_state,
    facts,
    run,
    with_fields,
)
from tests.core.pictures import picture_of
from tests.core.worlds import LAWS, RARE

PRICE = Decimal("1.29")
MUCH = Decimal(100_000)


def a_budget(**given: Any) -> Budget:
    """A cluster budget that holds nothing back, beside what is given."""
    return Budget(**{"monthly_usd": MUCH, **given})


def spent(usd: str | int | Decimal = 0, **given: Any) -> Spend:
    """The month's spend; attribution gives nobody anything unless said otherwise."""
    return Spend(**{"month": "2026-11", "usd": Decimal(usd), "teams": {}, **given})


def of_team(name: str, team: str, **given: Any) -> Pod:
    """A waiting pod with the label of a team."""
    return a_pod(name, labels={"team": team}, **given)


def within(decision: Decision) -> tuple[Verdict, str]:
    """What `within_budget` said."""
    [reason] = [r for r in decision.reasons if r.rule == "within_budget"]
    return reason.verdict, reason.detail


def the_budget(scope: Scope, name: str, policy: Policy, found: Facts) -> BudgetView:
    """The budget of one scope as a step sees it."""
    view = views(found, policy).of(scope, name)
    assert view is not None
    return view


def test_a_pools_own_budget_holds_that_pool_and_says_whose_it_is() -> None:
    poor, rich = a_pool("poor", budget_usd=Decimal(10)), a_pool("rich")
    waiting = [a_pod("p", node_selector=select("poor")), a_pod("r", node_selector=select("rich"))]
    found = facts(
        a_state(pool="poor-id"), a_state(pool="rich-id"), waiting=waiting, spend=spent(pools={"poor-id": Decimal(8)})
    )
    _, decisions = run(found, a_policy(poor, rich, budget=a_budget()))
    assert (decisions["poor"].target, decisions["rich"].target) == (0, 1)
    assert within(decisions["poor"]) == (
        Verdict.HOLDS,
        "budget of pool poor hold at 80%: $8.00 of $10.00 spent in 2026-11",
    )


def select(pool: str) -> dict[str, str]:
    """Only nodes of that pool."""
    return {"kubernetes.civo.com/civo-node-pool": f"{pool}-id"}


def test_work_that_fits_another_pool_goes_there_when_a_pools_own_budget_is_spent() -> None:
    poor, dear = a_pool("poor", budget_usd=Decimal(1)), a_pool("dear", price_usd_per_hour=Decimal(2))
    found = facts(a_state(pool="poor-id"), a_state(pool="dear-id"), waiting=[a_pod()], spend=spent())
    _, decisions = run(found, a_policy(poor, dear, budget=a_budget()))
    assert (decisions["poor"].target, decisions["dear"].target) == (0, 1)


def test_the_accounts_budget_covers_growth_of_every_pool() -> None:
    policy = a_policy(budget=a_budget(account_usd=Decimal(100)))
    found = facts(a_state(), waiting=[a_pod()], spend=spent(account=Decimal("99.99")))
    _, decisions = run(found, policy)
    assert within(decisions["l40s"])[1] == "account budget hold at 80%: $99.99 of $100.00 spent in 2026-11"


def test_while_the_accounts_charges_are_not_known_nothing_grows() -> None:
    policy = a_policy(budget=a_budget(account_usd=Decimal(100)))
    _, decisions = run(facts(a_state(), waiting=[a_pod()], spend=spent(account=None)), policy)
    assert decisions["l40s"].target == 0
    assert (decisions["l40s"].deciding.rule, decisions["l40s"].deciding.detail) == (
        "spend_is_known",
        "account budget: the spend is not known: Civo's charges have not been read yet",
    )


def test_a_silent_account_that_had_reached_its_stop_is_still_stopped_and_holding() -> None:
    """Nobody knows what it has come to since; it is no less than it was."""
    policy = a_policy(a_pool(min_nodes=1), budget=a_budget(account_usd=Decimal(100)))
    found = facts(a_state(a_node()), spend=spent(account=None, account_at_least=Decimal(100)))
    budgets = views(found, policy)
    assert (the_budget(Scope.ACCOUNT, "", policy, found).stage, budgets.stopped("l40s-id")) == (BudgetStage.STOP, True)
    assert [view.scope for view in budgets.holding] == [Scope.ACCOUNT]
    assert list(money_notices.budget_lines(budgets, {}, NOW)) == []


def test_a_silent_account_that_was_below_its_lines_holds_growth_alone() -> None:
    policy = a_policy(budget=a_budget(account_usd=Decimal(100)))
    found = facts(a_state(), waiting=[a_pod()], spend=spent(account=None, account_at_least=Decimal(50)))
    assert views(found, policy).holding == ()
    assert run(found, policy)[1]["l40s"].target == 0


def test_living_nodes_of_a_size_that_lost_its_price_keep_every_pool_from_growing() -> None:
    """The ledger goes on with the price that it knew; what their next hours cost nobody can keep aside."""
    pools = (a_pool("old", size="lost.size", price_usd_per_hour=None), a_pool("new"))
    found = facts(a_state(a_busy_node(), pool="old-id"), a_state(pool="new-id"), waiting=[a_pod()], spend=spent(10))
    decision = run(found, a_policy(*pools, budget=a_budget()))[1]["new"]
    assert decision.target == 0
    assert "no price for lost.size" in within(decision)[1]


def test_a_pool_without_nodes_and_without_a_price_keeps_no_other_from_growing() -> None:
    pools = (a_pool("old", size="lost.size", price_usd_per_hour=None), a_pool("new"))
    found = facts(a_state(pool="old-id"), a_state(pool="new-id"), waiting=[a_pod()], spend=spent(10))
    assert run(found, a_policy(*pools, budget=a_budget()))[1]["new"].target == 1


def test_charges_without_a_price_are_shown_and_hold_nothing_back() -> None:
    policy = a_policy(budget=a_budget(account_usd=Decimal(100)))
    found = facts(
        a_state(), waiting=[a_pod()], spend=spent(account=Decimal(1), account_unpriced=("12 hours of dbaas-small",))
    )
    assert run(found, policy)[1]["l40s"].target == 1
    assert the_budget(Scope.ACCOUNT, "", policy, found).uncounted == ("12 hours of dbaas-small",)


def test_a_team_beyond_its_hold_waits_and_is_told_so_while_another_gets_its_node() -> None:
    policy = a_policy(budget=a_budget(teams={"research": Decimal(10)}))
    found = facts(
        a_state(),
        waiting=[of_team("mine", "research"), of_team("theirs", "vision")],
        spend=spent(teams={"research": Decimal(8)}),
    )
    assignment, decisions = run(found, policy)
    why = "budget of team research hold at 80%: $8.00 of $10.00 spent in 2026-11"
    assert decisions["l40s"].target == 1
    assert within(decisions["l40s"]) == (Verdict.LIMITS, why)
    assert {key: said.why for key, said in assignment.pools["l40s-id"].work.refused.items()} == {"ml/mine": why}


def test_a_team_of_which_attribution_cannot_tell_the_spend_gets_nothing() -> None:
    policy = a_policy(budget=a_budget(teams={"research": Decimal(10)}))
    _, decisions = run(facts(a_state(), waiting=[of_team("p", "research")], spend=spent(teams=None)), policy)
    assert decisions["l40s"].deciding.rule == "spend_is_known"
    assert "the spend is not known" in decisions["l40s"].deciding.detail


def test_the_label_that_names_the_team_is_the_configured_one() -> None:
    policy = a_policy(budget=a_budget(teams={"research": Decimal(0)}))
    policy = replace(policy, attribution=replace(policy.attribution, team="example.com/team"))
    waiting = [a_pod("a", labels={"example.com/team": "research"}), of_team("b", "research")]
    _, decisions = run(facts(a_state(), waiting=waiting, spend=spent()), policy)
    assert decisions["l40s"].target == 1


def test_a_gang_of_two_teams_must_be_covered_by_both() -> None:
    policy = a_policy(budget=a_budget(teams={"a": Decimal(100), "b": Decimal(1)}))
    gang = [of_team("rank0", "a", gang="ml/g"), of_team("rank1", "b", gang="ml/g")]
    assignment, decisions = run(facts(a_state(), waiting=gang, spend=spent()), policy)
    assert decisions["l40s"].target == 0
    assert "budget of team b" in assignment.pools["l40s-id"].work.held[0].detail


def test_a_pod_of_which_only_prometheus_knows_counts_for_every_team_with_a_budget() -> None:
    policy = a_policy(budget=a_budget(teams={"research": Decimal(0)}))
    _, decisions = run(facts(a_state(), waiting=[a_pod(pool_hint="l40s-id")], spend=spent()), policy)
    assert decisions["l40s"].target == 0


def test_a_team_reserves_its_share_of_the_nodes_that_its_pods_hold() -> None:
    pool = a_pool(resources={GPU: 8}, price_usd_per_hour=Decimal(8))
    pods = (running("p1", 2, "research"), running("p2", 4, "vision"))
    state = a_state(a_busy_node(pods=pods, allocatable={GPU: 8}))
    policy = a_policy(pool, budget=a_budget(teams={"research": Decimal(100), "vision": Decimal(100)}))
    found = facts(state, spend=spent())
    assert the_budget(Scope.TEAM, "research", policy, found).reserved == 2
    assert the_budget(Scope.TEAM, "vision", policy, found).reserved == 4


LARGE, SMALL = "nvidia.com/mig-3g.40gb", "nvidia.com/mig-1g.10gb"
SLICES = a_pool(resources={LARGE: 1, SMALL: 4}, price_usd_per_hour=Decimal(7))


def test_a_team_reserves_slices_by_what_they_are_of_a_gpu_and_not_by_their_number() -> None:
    """As attribution charges them: three and four sevenths of the node, not one and four fifths."""
    pods = [
        a_pod("large", requests={LARGE: 1}, labels={"team": "research"}, phase=PodPhase.RUNNING, node="n1"),
        a_pod("small", requests={SMALL: 4}, labels={"team": "vision"}, phase=PodPhase.RUNNING, node="n1"),
    ]
    state = a_state(a_busy_node(pods=tuple(pods), allocatable=dict(SLICES.resources)))
    policy = a_policy(SLICES, budget=a_budget(teams={"research": Decimal(100), "vision": Decimal(100)}))
    found = facts(state, spend=spent())
    assert the_budget(Scope.TEAM, "research", policy, found).reserved.quantize(Decimal("0.01")) == 3
    assert the_budget(Scope.TEAM, "vision", policy, found).reserved.quantize(Decimal("0.01")) == 4


@pytest.mark.parametrize(("usd", "grows"), [("10.01", True), ("9.99", False)])
def test_a_slice_that_will_be_held_on_its_way_is_kept_aside_by_what_it_is_of_a_gpu(usd: str, grows: bool) -> None:
    """A node is on its way for the first pod, 3.00 of it; the second needs another node, 7.00."""
    policy = a_policy(SLICES, budget=a_budget(teams={"research": Decimal(usd)}))
    waiting = [
        a_pod(name, requests={LARGE: 1}, labels={"team": "research"}, priority=priority)
        for name, priority in (("first", 9), ("second", 0))
    ]
    coming = a_node("n1", stage=Stage.BUILDING, idle_since=None, allocatable={})
    found = facts(a_state(coming), waiting=waiting, spend=spent())
    assert run(found, policy)[1]["l40s"].target == (2 if grows else 1)


def running(name: str, gpus: int, team: str) -> Pod:
    """A running pod of a team."""
    return a_pod(name, gpus, labels={"team": team}, phase=PodPhase.RUNNING, node="n1")


def test_a_node_on_its_way_for_a_team_is_not_paid_for_by_the_same_dollar_again() -> None:
    """The first pod's node was bought a step ago and is held by nobody yet; a dearer pool fits the second pod."""
    pools = (a_pool("a"), a_pool("b", price_usd_per_hour=Decimal("1.50")))
    policy = a_policy(*pools, budget=a_budget(teams={"research": Decimal(2)}))
    waiting = [
        of_team("urgent", "research", priority=9, node_selector=select("b")),
        of_team("first", "research", node_selector=select("a")),
    ]
    coming = a_node("n1", stage=Stage.BUILDING, idle_since=None)
    found = facts(a_state(coming, pool="a-id"), a_state(pool="b-id"), waiting=waiting, spend=spent())
    assert run(found, policy)[1]["b"].target == 0


@pytest.mark.parametrize(("usd", "grows"), [("4.08", True), ("4.07", False)])
def test_a_gang_in_two_pools_reserves_of_each_what_its_part_there_holds(usd: str, grows: bool) -> None:
    """One node of each pool is on its way for the gang, 2.79 together; the node for the pod behind it costs 1.29."""
    policy = a_policy(
        a_pool("a"), a_pool("b", price_usd_per_hour=Decimal("1.50")), budget=a_budget(teams={"research": Decimal(usd)})
    )
    gang = [of_team(f"rank-{name}", "research", gang="ml/g", node_selector=select(name)) for name in "ab"]
    coming = {name: a_node(name, stage=Stage.BUILDING, idle_since=None) for name in "ab"}
    states = [a_state(node, pool=f"{name}-id") for name, node in coming.items()]
    behind = of_team("behind", "research", node_selector=select("a"), created_at=NOW)
    decisions = run(facts(*states, waiting=[*gang, behind], spend=spent()), policy)[1]
    assert (decisions["a"].target, decisions["b"].target) == (2 if grows else 1, 1)


def test_a_refused_team_does_not_use_up_the_node_on_trial_of_a_pool() -> None:
    """What a budget leaves out is not bought, so it takes nothing from those behind it."""
    policy = a_policy(a_pool(max_nodes=1), budget=a_budget(teams={"research": Decimal(0)}))
    waiting = [of_team("mine", "research", priority=9), of_team("theirs", "vision")]
    assignment, decisions = run(facts(a_state(), waiting=waiting, spend=spent()), policy)
    assert decisions["l40s"].target == 1
    assert set(assignment.pools["l40s-id"].work.refused) == {"ml/mine"}


PASSING = frozenset({"production"})


@pytest.mark.parametrize(
    ("usd", "grows"), [("79.99", True), ("80", True), ("98.71", True), ("98.72", False), ("100", False)]
)
def test_a_passing_class_is_bought_for_up_to_the_stop_line_and_not_beyond(usd: str, grows: bool) -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), passing=PASSING))
    found = facts(a_state(), waiting=[a_pod(priority_class="production")], spend=spent(usd))
    assert run(found, policy)[1]["l40s"].target == int(grows)


def test_a_passing_class_is_not_bought_for_beyond_a_stop_line_that_lies_below_the_limit() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), stop_at=Decimal("0.9"), passing=PASSING))
    found = facts(a_state(), waiting=[a_pod(priority_class="production")], spend=spent(90))
    assert run(found, policy)[1]["l40s"].target == 0


def test_a_passing_class_that_the_reservation_does_not_cover_is_told_of_the_reservation_and_not_of_the_hold() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), passing=PASSING))
    found = facts(a_state(a_busy_node()), waiting=[a_pod(priority_class="production")], spend=spent("98.50"))
    assignment, decisions = run(found, policy)
    why = "cluster budget: $98.50 of $100.00 spent in 2026-11 and $1.29 reserved; the $0.21 left is not enough"
    assert within(decisions["l40s"])[1] == why
    assert assignment.pools["l40s-id"].work.refused["ml/train"].why == why
    [uncovered] = decisions["l40s"].evidence["uncovered"]
    assert uncovered["raise_usd"] == "1.08"
    assert not any(
        "passing_priority_classes" in remedy["text"] for remedy in decisions["l40s"].evidence["what_would_change"]
    )


def test_what_ordinary_work_is_told_under_a_hold_is_the_hold_also_beside_passing_work() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), passing=PASSING))
    waiting = [a_pod("prod", priority_class="production", priority=9), a_pod("plain")]
    found = facts(a_state(a_busy_node()), waiting=waiting, spend=spent("98.50"))
    assignment, decisions = run(found, policy)
    assert "hold at 80%" in within(decisions["l40s"])[1]
    refused = assignment.pools["l40s-id"].work.refused
    assert ("hold at" in refused["ml/prod"].why, "hold at" in refused["ml/plain"].why) == (False, True)


def test_beyond_the_hold_line_another_class_waits_while_a_passing_one_is_served() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), passing=PASSING))
    waiting = [a_pod("batch", priority=9, priority_class="batch"), a_pod("web", priority_class="production")]
    assignment, decisions = run(facts(a_state(), waiting=waiting, spend=spent(80)), policy)
    assert decisions["l40s"].target == 1
    assert set(assignment.pools["l40s-id"].work.refused) == {"ml/batch"}


def test_a_gang_passes_only_as_a_whole() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), passing=PASSING))
    gang = [a_pod("r0", gang="ml/g", priority_class="production"), a_pod("r1", gang="ml/g")]
    assert run(facts(a_state(), waiting=gang, spend=spent(80)), policy)[1]["l40s"].target == 0


def test_floor_and_standby_do_not_pass_the_hold() -> None:
    pool = a_pool(min_nodes=1, standby_nodes=1)
    policy = a_policy(pool, budget=Budget(monthly_usd=Decimal(100), passing=PASSING))
    assert run(facts(a_state(), spend=spent(80)), policy)[1]["l40s"].target == 0


def idle() -> Node:
    """An empty node whose paid hour ends within minutes."""
    return a_node(created_at=HOUR_ENDS_SOON)


@pytest.mark.parametrize(
    ("budget", "pool_usd", "said", "goes"),
    [
        ({"account_usd": Decimal(10)}, None, {"account": Decimal(10)}, True),
        ({}, Decimal(10), {"pools": {"l40s-id": Decimal(10)}}, True),
        ({"teams": {"research": Decimal(10)}}, None, {"teams": {"research": Decimal(10)}}, False),
        ({"account_usd": Decimal(10)}, None, {"account": Decimal("9.99")}, False),
    ],
    ids=["account", "pool", "team", "below the line"],
)
def test_at_the_stop_the_floor_gives_way_where_the_whole_pool_is_stopped(
    budget: dict[str, Any], pool_usd: Decimal | None, said: dict[str, Any], goes: bool
) -> None:
    policy = a_policy(a_pool(min_nodes=1, budget_usd=pool_usd), budget=a_budget(**budget))
    _, decisions = run(facts(a_state(idle()), spend=spent(**said)), policy)
    assert decisions["l40s"].target == int(not goes)


def test_a_pools_stop_leaves_the_floor_of_another_pool_alone() -> None:
    pools = (a_pool("a", min_nodes=1, budget_usd=Decimal(1)), a_pool("b", min_nodes=1))
    states = (a_state(idle(), pool="a-id"), a_state(a_node("n2", created_at=HOUR_ENDS_SOON), pool="b-id"))
    found = facts(*states, spend=spent(pools={"a-id": Decimal(1)}))
    _, decisions = run(found, a_policy(*pools, budget=a_budget()))
    assert (decisions["a"].target, decisions["b"].target) == (0, 1)


def a_change(**given: Any) -> BudgetChange:
    """An allowance that somebody set for this month."""
    said = {"scope": Scope.CLUSTER, "name": "", "month": "2026-11", "monthly_usd": Decimal(200), "who": "ada"}
    return BudgetChange(**{**said, "why": "a deadline", "at": NOW, **given})


def test_an_allowance_set_for_the_month_takes_the_place_of_the_configured_one() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100)))
    found = facts(a_state(), waiting=[a_pod()], spend=spent(100), budget_changes=(a_change(),))
    assert run(found, policy)[1]["l40s"].target == 1
    view = the_budget(Scope.CLUSTER, "", policy, found)
    assert (view.monthly, view.stage) == (Decimal(200), BudgetStage.WARN)
    assert view.change == a_change()


def test_a_pod_of_which_only_prometheus_knows_counts_for_a_team_whose_budget_was_set_at_run_time_too() -> None:
    change = a_change(scope=Scope.TEAM, name="research", monthly_usd=Decimal(0))
    found = facts(a_state(), waiting=[a_pod(pool_hint="l40s-id")], spend=spent())
    assert run(found, a_policy(budget=a_budget()))[1]["l40s"].target == 1
    assert run(with_fields(found, budget_changes=(change,)), a_policy(budget=a_budget()))[1]["l40s"].target == 0


@pytest.mark.parametrize("change", [a_change(month="2026-10"), a_change(monthly_usd=None)], ids=["last month", "reset"])
def test_an_allowance_of_another_month_or_one_taken_back_is_not_in_force(change: BudgetChange) -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100)))
    found = facts(a_state(), spend=spent(100), budget_changes=(change,))
    assert the_budget(Scope.CLUSTER, "", policy, found).monthly == 100


def test_an_allowance_can_be_set_for_a_team_that_has_none_and_lowered_for_a_pool() -> None:
    policy = a_policy(a_pool(budget_usd=Decimal(50)), budget=a_budget())
    changes = (
        a_change(scope=Scope.TEAM, name="research", monthly_usd=Decimal(7)),
        a_change(scope=Scope.POOL, name="l40s-id", monthly_usd=Decimal(3)),
    )
    found = facts(a_state(), spend=spent(), budget_changes=changes)
    assert the_budget(Scope.TEAM, "research", policy, found).monthly == 7
    assert the_budget(Scope.POOL, "l40s-id", policy, found).monthly == 3


def test_a_pools_spend_is_its_own() -> None:
    policy = a_policy(a_pool(budget_usd=Decimal(50)), budget=a_budget())
    found = facts(a_state(), spend=spent(45, seeded=Decimal(40), pools={"l40s-id": Decimal(25)}))
    assert the_budget(Scope.POOL, "l40s-id", policy, found).spent == 25


def test_a_month_is_forecast_from_its_spend_and_the_mean_of_what_the_ledger_saw() -> None:
    since, end = NOW - timedelta(hours=39), NOW + timedelta(hours=10)
    month = Month(name="2026-11", start=since, end=end)
    found = forecast(Decimal(100), Decimal(20), since, Decimal(0), month, NOW)  # forty hours have started
    assert found == Forecast(usd=Decimal(105), burn=Decimal("0.5"), since=since)


@pytest.mark.parametrize(("hours", "known"), [(0, False), (23.9, False), (24, True)])
def test_the_first_day_of_a_ledger_or_month_has_no_forecast(hours: float, known: bool) -> None:
    since = NOW - timedelta(hours=hours)
    month = Month(name="2026-11", start=since, end=NOW + timedelta(hours=10))
    found = forecast(Decimal(100), Decimal(25), since, Decimal(0), month, NOW)
    assert (found.since, found.usd is not None, found.burn is not None) == (since, known, known)


def test_a_month_that_is_not_watched_has_no_forecast() -> None:
    month = Month(name="2026-11", start=NOW - timedelta(days=19), end=NOW + timedelta(days=11))
    assert forecast(Decimal(100), Decimal(0), None, Decimal(0), month, NOW) == Forecast()


def test_a_spend_that_is_not_known_has_no_forecast() -> None:
    given = spent(50, seen={"l40s-id": Decimal(50)}, seen_since=NOW - timedelta(days=5), unknown="Civo does not answer")
    found = the_budget(Scope.CLUSTER, "", a_policy(budget=a_budget()), facts(a_state(), spend=given))
    assert found.forecast == Forecast()


def test_the_forecast_of_a_pool_is_that_of_its_own_nodes() -> None:
    pools = (a_pool("a", budget_usd=MUCH), a_pool("b", budget_usd=MUCH))
    states = (a_state(a_busy_node(), pool="a-id"), a_state(pool="b-id"))
    seen, since = {"a-id": Decimal(80), "b-id": Decimal(40)}, NOW - timedelta(hours=39)  # forty hours have started
    found = facts(*states, spend=spent(130, pools={"a-id": Decimal(82)}, seen=seen, seen_since=since))
    policy = a_policy(*pools, budget=a_budget())
    hours = Decimal(252)  # from 20 November, noon, to the month's end
    assert the_budget(Scope.POOL, "a-id", policy, found).forecast.usd == 82 + hours * 2
    assert the_budget(Scope.POOL, "b-id", policy, found).forecast.usd == hours
    cluster = the_budget(Scope.CLUSTER, "", policy, found).forecast
    assert cluster == Forecast(usd=130 + hours * 3, burn=Decimal(3), since=since)


def test_a_team_has_a_burn_of_its_own() -> None:
    since = NOW - timedelta(hours=39)
    given = spent(32, teams={"research": Decimal(20)}, seeded=Decimal(12), seen_since=since)
    policy = a_policy(budget=a_budget(teams={"research": MUCH}))
    team = the_budget(Scope.TEAM, "research", policy, facts(a_state(a_busy_node()), spend=given)).forecast
    assert team == Forecast(usd=32 + 252 * Decimal("0.5"), burn=Decimal("0.5"), since=since)


def test_what_an_account_has_beside_nodes_goes_on_at_the_months_mean() -> None:
    policy = a_policy(budget=a_budget(account_usd=MUCH))
    given = spent(40, account=Decimal(40 + 469), seen={"l40s-id": Decimal(40)}, seen_since=NOW - timedelta(hours=39))
    found = views(facts(a_state(a_busy_node()), spend=given), policy)
    account, cluster = found.of(Scope.ACCOUNT), found.of(Scope.CLUSTER)
    assert account is not None and cluster is not None  # noqa: PT018 (for the type checker)
    beside = 469 + Decimal(252)  # 469 hours have started since the month did
    assert account.forecast.usd == (cluster.forecast.usd or 0) + beside
    assert account.reserved == cluster.reserved  # only nodes are reserved for


def test_amounts_in_the_picture_and_in_decisions_have_no_exponent() -> None:
    policy = a_policy(budget=a_budget(monthly_usd=Decimal("1E+3"), teams={"research": Decimal(10)}))
    found = facts(a_state(), waiting=[a_pod()], spend=spent(teams={"research": Decimal("0E-29")}))
    assignment, decisions = run(found, policy)
    shown = picture_of(found, assignment, {"l40s-id": decisions["l40s"]}, policy)
    assert [(b["monthly_usd"], b["spent_usd"]) for b in shown["budgets"]] == [("1000", "0"), ("10", "0.00")]
    assert decisions["l40s"].evidence["budget"]["monthly_usd"] == "1000"


# --- laws

TEAMS = ("a", "b", "")
Money = tuple[Facts, Policy]


@st.composite
def tight(draw: st.DrawFn) -> Money:
    """Pools of one-GPU nodes with work of two teams on them and waiting, near the lines of every budget."""
    some_usd = st.none() | st.integers(1, 20).map(Decimal)
    pools = tuple(
        a_pool(name, labels={"pool": name}, max_nodes=50, budget_usd=draw(some_usd), price_usd_per_hour=price)
        for name, price in (("one", PRICE), ("two", Decimal(2)))
    )
    teams = {team: usd for team in "ab" if (usd := draw(some_usd)) is not None}
    budget = Budget(
        monthly_usd=Decimal(draw(st.integers(1, 25))), account_usd=draw(some_usd), teams=teams, passing=PASSING
    )
    amount = st.integers(0, 900).map(lambda cents: Decimal(cents) / 100)
    states = []
    for pool in pools:
        here = []
        for n in range(draw(st.integers(0, 2))):
            name, team = f"{pool.name}{n}", draw(st.sampled_from(TEAMS))
            pod = a_pod(f"on-{name}", phase=PodPhase.RUNNING, node=name, labels={"team": team})
            here.append(a_busy_node(name, pods=(pod,)))
        states.append(a_state(*here, pool=pool.id))
    waiting = [
        a_pod(
            f"p{n}",
            labels={"team": draw(st.sampled_from(TEAMS))},
            priority_class=draw(st.sampled_from(["", "production"])),
            priority=draw(st.sampled_from([0, 9])),
            node_selector=draw(st.sampled_from([{}, {"pool": "one"}, {"pool": "two"}])),
        )
        for n in range(draw(st.integers(0, 6)))
    ]
    said = spent(
        draw(amount),
        account=draw(amount),
        pools={p.id: draw(amount) for p in pools},
        teams={team: draw(amount) for team in "ab"},
    )
    return facts(*states, waiting=waiting, spend=said), Policy(pools=pools, budget=budget)


def bought(assignment: Assignment, decisions: Mapping[str, Decision], found: Money) -> list[tuple[str, Pod]]:
    """The pods that nodes are bought for, each a node of its own, with the pool."""
    nodes = []
    for pool in found[1].pools:
        wanted = assignment.pools[pool.id]
        served = [w.pods[0] for w in wanted.work.asking if w.key not in wanted.work.refused]
        assert decisions[pool.name].target - decisions[pool.name].present == len(served)
        nodes += [(pool.id, pod) for pod in served]
    return nodes


@LAWS
@given(tight())
def test_what_is_spent_reserved_and_bought_never_exceeds_the_stop_line_of_any_budget(money: Money) -> None:
    found, policy = money
    assignment, decisions = run(found, policy)
    prices = {p.id: p.price_usd_per_hour or Decimal(0) for p in policy.pools}
    cost: dict[Key, Decimal] = {}
    ordinary: set[Key] = set()
    for pool, pod in bought(assignment, decisions, money):
        for key in ((Scope.ACCOUNT, ""), (Scope.CLUSTER, ""), (Scope.POOL, pool), (Scope.TEAM, pod.labels["team"])):
            cost[key] = cost.get(key, Decimal(0)) + prices[pool]
            if pod.priority_class != "production":
                ordinary.add(key)
    for view in assignment.budgets.views:
        new = cost.get(view.key, Decimal(0))
        if new:
            assert view.spent + view.reserved + new <= view.monthly * view.stop_at
            assert view.spent < view.monthly * view.stop_at
        if view.key in ordinary:
            assert view.spent < view.monthly * view.hold_at


@RARE
@given(tight(), st.lists(st.tuples(st.sampled_from(["one-id", "two-id", "gone-id"]), st.integers(1, 4)), max_size=3))
def test_what_unanswered_growth_may_bring_and_what_is_bought_never_exceed_the_stop_line_together(
    money: Money, sent: list[tuple[str, int]]
) -> None:
    """Each pool may come to the highest count that it was asked for without an answer, or to its target."""
    found, policy = money
    prices = {p.id: p.price_usd_per_hour or Decimal(0) for p in policy.pools}
    unanswered = tuple(
        a_growth(to, id=f"a{n}", pool=pool, reserved_usd=to * prices.get(pool, PRICE))
        for n, (pool, to) in enumerate(sent)
    )
    assignment, decisions = run(with_fields(found, unanswered=unanswered), policy)
    grows = {p.id: decisions[p.name].target for p in policy.pools if decisions[p.name].change is Change.GROW}
    most = {p.id: max(grows.get(p.id, 0), found.pool(p.id).required) for p in policy.pools}
    for action in unanswered:
        most[action.pool] = max(most.get(action.pool, 0), action.to_count)
    for view in assignment.budgets.views:
        if view.scope is Scope.TEAM or not grows.keys() & most_of(view, most).keys():
            continue
        cost = sum(n * prices.get(pool, PRICE) for pool, n in most_of(view, most).items())
        assert view.spent + cost <= view.monthly * view.stop_at


def most_of(view: BudgetView, counts: Mapping[str, int]) -> Mapping[str, int]:
    """The pools that *view* covers."""
    return {pool: n for pool, n in counts.items() if view.scope is not Scope.POOL or view.name == pool}


@LAWS
@given(tight())
def test_a_team_without_a_budget_gets_what_it_would_get_without_a_team_that_is_stopped(money: Money) -> None:
    found, policy = money
    assert policy.budget is not None
    policy = replace(policy, budget=replace(policy.budget, teams={"a": Decimal(0)}))
    others = tuple(p for p in found.waiting if p.labels["team"] != "a")
    alone = run(replace(found, waiting=others), policy)[1]
    together = run(found, policy)[1]
    assert {name: d.target for name, d in together.items()} == {name: d.target for name, d in alone.items()}


def test_work_that_a_budget_refuses_does_not_stand_in_the_way_of_the_floor() -> None:
    policy = a_policy(a_pool(min_nodes=2), budget=a_budget(teams={"research": Decimal(1)}))
    waiting = [of_team(f"p{n}", "research") for n in range(2)]
    found = facts(a_state(), waiting=waiting, spend=spent(5, teams={"research": Decimal(1)}))
    assert run(found, policy)[1]["l40s"].target == 2


def test_nodes_of_a_pool_that_left_the_configuration_keep_their_place_in_the_reservation() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal("2.00")))
    stays, left = (spent(elsewhere_per_hour=Decimal(usd)) for usd in ("0", "1.29"))
    targets = [run(facts(a_state(), waiting=[a_pod()], spend=s), policy)[1]["l40s"].target for s in (stays, left)]
    assert targets == [1, 0]


def test_two_unanswered_growths_of_a_pool_that_left_the_configuration_cost_the_higher_one() -> None:
    """Counts are absolute: they do not add up."""
    growths = [a_growth(to_count=n, pool="left-id", id=f"to-{n}", reserved_usd=Decimal(n)) for n in (3, 2)]
    found = facts(a_state(), spend=spent(), unanswered=tuple(growths))
    assert the_budget(Scope.CLUSTER, "", a_policy(budget=a_budget()), found).reserved == 3


def test_unanswered_growths_of_two_pools_that_left_the_configuration_add_up() -> None:
    growths = [a_growth(to_count=2, pool=f"{pool}-id", id=pool, reserved_usd=Decimal(2)) for pool in ("a", "b")]
    found = facts(a_state(), spend=spent(), unanswered=tuple(growths))
    assert the_budget(Scope.CLUSTER, "", a_policy(budget=a_budget()), found).reserved == 4


def test_money_from_before_the_ledger_counts_in_full_for_each_team() -> None:
    policy = a_policy(budget=a_budget(teams={"research": Decimal(100)}))
    targets = [
        run(facts(a_state(), waiting=[of_team("p", "research")], spend=spent(seeded=seeded)), policy)[1]["l40s"].target
        for seeded in (Decimal(10), Decimal(90))
    ]
    assert targets == [1, 0]


def test_no_spare_node_is_opened_that_work_which_a_budget_refuses_would_take() -> None:
    policy = a_policy(a_pool(standby_nodes=1), budget=a_budget(teams={"research": Decimal(1)}))
    found = spent(teams={"research": Decimal(1)})
    refused = facts(a_state(a_busy_node()), waiting=[of_team("p", "research")], spend=found)
    calm = facts(a_state(a_busy_node()), spend=found)
    assert [run(f, policy)[1]["l40s"].target for f in (refused, calm)] == [1, 2]


# --- what one budget says of itself


def a_view(spent_usd: str = "0", stage: BudgetStage = BudgetStage.OK, **given: Any) -> BudgetView:
    """The cluster's allowance of $100, with the usual lines, of which $10 are reserved."""
    lines = {"warn_at": Decimal("0.5"), "hold_at": Decimal("0.8"), "stop_at": Decimal(1)}
    said = {"month": "2026-11", "monthly": Decimal(100), "reserved": Decimal(10), **lines, **given}
    return BudgetView(**{"spent": Decimal(spent_usd), "stage": stage, **said})


@pytest.mark.parametrize(
    ("monthly", "spent_usd", "ratio"), [("100", "25", "0.25"), ("0", "0", "0"), ("0", "0.01", "1")]
)
def test_any_spend_of_an_allowance_of_zero_is_all_of_it(monthly: str, spent_usd: str, ratio: str) -> None:
    assert a_view(spent_usd, monthly=Decimal(monthly)).ratio == Decimal(ratio)


@pytest.mark.parametrize(
    ("spent_usd", "stage", "available"),
    [("60", BudgetStage.WARN, 30), ("95", BudgetStage.WARN, 0), ("85", BudgetStage.HOLD, 0)],
    ids=["open", "all reserved", "held"],
)
def test_ordinary_work_has_what_is_neither_spent_nor_reserved_up_to_the_hold(
    spent_usd: str, stage: BudgetStage, available: int
) -> None:
    assert a_view(spent_usd, stage).available == available


@pytest.mark.parametrize(("stage", "line"), [(BudgetStage.HOLD, "hold at 80%"), (BudgetStage.STOP, "stop at 100%")])
def test_a_closed_budget_names_the_line_that_closes_it(stage: BudgetStage, line: str) -> None:
    assert a_view("100", stage).why_not() == f"cluster budget {line}: $100.00 of $100.00 spent in 2026-11"


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"unknown": "no charges", "unpriced": ("lost.size",)}, "spend_is_known"),
        ({"unpriced": ("lost.size",)}, "price_is_known"),
        ({}, "within_budget"),
    ],
)
def test_a_refusal_is_by_the_guardrail_of_its_first_reason(given: dict[str, Any], rule: str) -> None:
    assert Refusal(view=a_view(**given)).rule == rule


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({}, ""),
        ({"scope": Scope.ACCOUNT}, " --account"),
        ({"scope": Scope.POOL, "name": "l40s-id", "shown": "l40s"}, " --pool l40s"),
        ({"scope": Scope.TEAM, "name": "research"}, " --team research"),
    ],
)
def test_the_command_that_sets_an_allowance_names_a_pool_by_its_name_and_a_team_by_its_own(
    given: dict[str, Any], option: str
) -> None:
    assert a_view(**given).setting("120") == f"gpu-autoscaler budget set 120{option} --why REASON --who YOU"


def test_a_team_with_the_name_of_another_pool_is_not_charged_for_that_pools_budget() -> None:
    pool, team = (a_view(scope=scope, name="x") for scope in (Scope.POOL, Scope.TEAM))
    assert Budgets(views=(pool, team)).touched("l40s-id", frozenset({"x"})) == (team,)


@pytest.mark.parametrize("month", range(1, 13))
def test_a_month_goes_from_its_first_midnight_to_that_of_the_next_in_its_zone(month: int) -> None:
    zone = ZoneInfo("America/New_York")
    around = month_of(datetime(2026, month, 15, tzinfo=zone), "America/New_York")
    following = (2026, month + 1) if month < 12 else (2027, 1)
    assert (around.name, around.start, around.end) == (
        f"2026-{month:02}",
        datetime(2026, month, 1, tzinfo=zone),
        datetime(*following, 1, tzinfo=zone),
    )


def test_work_that_only_prometheus_reports_in_part_counts_for_its_own_team_and_for_each_with_a_budget() -> None:
    budgets = Budgets(views=(a_view(), a_view(scope=Scope.POOL, name="l40s-id"), a_view(scope=Scope.TEAM, name="a")))
    pods = (of_team("rank-0", "b", gang="ml/g"), a_pod("rank-1", gang="ml/g", pool_hint="l40s-id"))
    assert teams_of(Workload(key="ml/g", pods=pods), a_policy(), budgets) == {"a", "b"}


def test_unanswered_growth_of_a_pool_that_left_the_configuration_costs_its_highest_request_once() -> None:
    sent = [a_growth(n, id=f"a{n}", pool=pool, reserved_usd=Decimal(n)) for n in (2, 3) for pool in ("gone", "l40s-id")]
    found = facts(a_state(required=3), spend=spent(), unanswered=tuple(sent))
    assert the_budget(Scope.CLUSTER, "", a_policy(budget=a_budget()), found).reserved == 3 + 3 * PRICE


@pytest.mark.parametrize(
    ("action", "nodes"),
    [(a_growth(4), {"l40s-id": 4}), (a_removal("n1", from_count=3), {})],
    ids=["growth", "removal"],
)
def test_growth_that_was_open_when_the_step_began_may_still_bring_nodes(action: Action, nodes: dict[str, int]) -> None:
    assert unseen(facts(a_state(open_action=action))) == nodes


def test_a_node_that_was_bought_at_a_higher_price_reserves_that_price() -> None:
    found = facts(a_state(a_busy_node()), spend=spent(dearer_per_hour={"l40s-id": Decimal("0.50")}))
    assert the_budget(Scope.CLUSTER, "", a_policy(budget=a_budget()), found).reserved == PRICE + Decimal("0.50")


def test_nodes_that_go_reserve_nothing_and_those_that_are_asked_for_do() -> None:
    going = a_node("n2", stage=Stage.DELETING)
    for required, nodes in ((1, 1), (3, 3), (0, 1)):
        found = facts(a_state(a_busy_node(), going, required=required), spend=spent())
        assert the_budget(Scope.CLUSTER, "", a_policy(budget=a_budget()), found).reserved == nodes * PRICE


def test_a_gpu_that_a_node_has_lost_makes_the_others_no_dearer_for_a_team() -> None:
    pool = a_pool(resources={GPU: 8}, price_usd_per_hour=Decimal(8))
    state = a_state(a_busy_node(pods=(running("p", 2, "research"),), allocatable={GPU: 4}))
    policy = a_policy(pool, budget=a_budget(teams={"research": Decimal(100)}))
    assert the_budget(Scope.TEAM, "research", policy, facts(state, spend=spent())).reserved == 2


def test_a_pod_that_is_only_nominated_for_a_node_reserves_nothing_for_its_team() -> None:
    coming = a_pod(labels={"team": "research"}, phase=PodPhase.RESERVED, node="n1")
    policy = a_policy(budget=a_budget(teams={"research": Decimal(100)}))
    found = facts(a_state(a_busy_node(pods=(coming,))), spend=spent())
    assert the_budget(Scope.TEAM, "research", policy, found).reserved == 0


# --- what the hold keeps out

MEANS = KeepOut(namespaces=("ml",), cluster_queues=("gpu",))
HELD = a_view("85", BudgetStage.HOLD)


def the_hold(*budgets: BudgetView, **given: Any) -> Intent | None:
    policy = a_policy(a_pool(), a_pool("b", resources={"amd.com/gpu": 1}), budget=a_budget(keep_out=MEANS, **given))
    return intent(Budgets(views=budgets), policy, "2026-11")


def test_at_the_hold_line_only_passing_classes_may_ask_for_what_the_pools_offer() -> None:
    assert the_hold(HELD, passing=frozenset({"web", "batch"})) == Intent(
        month="2026-11",
        why=HELD.why_not(),
        namespaces=("ml",),
        cluster_queues=("gpu",),
        resources=("amd.com/gpu", GPU),
        passing=("batch", "web"),
    )


@pytest.mark.parametrize("scope", [Scope.POOL, Scope.TEAM])
def test_a_pool_or_team_at_its_line_keeps_no_work_out_and_its_unknown_spend_ends_no_hold(scope: Scope) -> None:
    own: dict[str, Any] = {"scope": scope, "name": "x"}
    assert the_hold(a_view("85", BudgetStage.HOLD, **own)) == Intent(month="2026-11")
    assert the_hold(a_view(), a_view(unknown="not attributed", **own)) == Intent(month="2026-11")


def test_an_unknown_spend_neither_begins_nor_ends_a_hold() -> None:
    unknown = a_view(unknown="no charges")
    assert the_hold(unknown, a_view(scope=Scope.ACCOUNT)) is None
    assert the_hold(unknown, replace(HELD, scope=Scope.ACCOUNT)) is not None


def test_nothing_is_held_without_a_budget() -> None:
    assert intent(Budgets(), a_policy(), "2026-11") == Intent(month="2026-11")


@pytest.mark.parametrize(
    ("means", "holds"), [({}, False), ({"namespaces": ("ml",)}, True), ({"cluster_queues": ("gpu",)}, True)]
)
def test_a_hold_by_either_means_is_a_hold(means: dict[str, Any], holds: bool) -> None:
    assert Intent(month="2026-11", **means).holds is holds


@pytest.mark.parametrize(
    ("action", "kind", "at", "unsure"),
    [
        (a_growth(1), OutcomeKind.FAILED, NOW, False),
        (a_growth(1, attempts=3), OutcomeKind.FAILED, NOW, True),
        (a_growth(1), OutcomeKind.WITHDRAWN, NOW + SECOND, True),
        (a_growth(1, attempts=1), OutcomeKind.CONFIRMED, NOW + SECOND, False),
        (a_growth(1, attempts=1), OutcomeKind.OBSERVED, NOW + SECOND, False),
        (a_growth(1, attempts=1, kind=ActionKind.RETIRE), OutcomeKind.WITHDRAWN, NOW + SECOND, False),
    ],
    ids=["refused at once", "tried before", "crashed or withdrawn", "confirmed", "observed", "a removal"],
)
def test_only_growth_that_may_have_been_sent_is_unanswered(
    action: Action, kind: OutcomeKind, at: object, unsure: bool
) -> None:
    assert may_have_landed(action, Outcome(kind=kind, at=at, detail="")) is unsure  # type: ignore[arg-type]


def test_counts_are_absolute_so_the_highest_of_several_is_kept() -> None:
    found = facts(a_state(a_node()), unanswered=(a_growth(4), a_growth(2)))
    assert unseen(found) == {"l40s-id": 3}


def test_what_a_look_has_shown_is_not_kept_beside_it() -> None:
    found = facts(a_state(a_node("n1"), a_node("n2")), unanswered=(a_growth(2),))
    assert unseen(found) == {}


@pytest.mark.parametrize(("usd", "target"), [("2.58", 2), ("3.86", 2), ("3.87", 3)])
def test_the_same_request_again_costs_nothing_more_and_every_node_beyond_it_does(usd: str, target: int) -> None:
    """USD 2.58 are kept for the growth to two; of three wanted nodes the third needs USD 1.29 of its own."""
    waiting = [a_pod(f"p{n}") for n in range(3)]
    found = facts(a_state(), waiting=waiting, unanswered=(a_growth(2),))
    assert run(found, a_policy(budget=Budget(monthly_usd=Decimal(usd))))[1]["l40s"].target == target


def test_a_count_that_unanswered_growth_explains_is_no_drift() -> None:
    past = PoolMemory(required=1, required_since=NOW)
    assert drift(past, 3, NOW, [a_flight(3)]) is None
    assert drift(past, 4, NOW, [a_flight(3)]) is not None
