"""The guardrails that hold growth alone: what each lets through, what it holds and until when, and its remedies."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.model import Backoff, Node, Spend, Stage
from receiver.core.model.policy import Budget, Policy
from receiver.core.model.rights import Rights, never_asked
from receiver.core.model.signals import SignalAction
from receiver.core.model.windows import Window
from tests.core.builders import (
    AN_INSTANT,
    HOUR,
    MINUTE,
    NOW,
    a_busy_node,
    a_growth,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_signal,
    a_state,
    an_override,
    decision_on,
    growing,
    remedies,
    shrinking,
)
from tests.core.scaling.guardrails.cases import IDLE, cut, held
from tests.core.worlds import LAWS


@pytest.mark.parametrize("pool", ["l40s-id", None], ids=["of the pool", "of every pool"])
def test_growth_stops_until_the_alert_ends(pool: str | None) -> None:
    decision = growing(signals=(a_signal(SignalAction.PAUSE_SCALE_UP, pool),))
    said = held(decision, "growth_is_not_paused")
    assert (said.detail, said.until) == ("alert Gpu-pause_scale_up is firing (action: pause_scale_up)", None)
    end = (
        "fix what alert Gpu-pause_scale_up reports (firing since 12:00 UTC),"
        " or silence it: amtool silence add alertname=Gpu-pause_scale_up"
    )
    assert remedies(decision, "growth_is_not_paused") == {end: None}


def test_a_pause_of_growth_does_not_stop_removal() -> None:
    assert shrinking(signals=(a_signal(SignalAction.PAUSE_SCALE_UP),)).target == 0


def test_a_pause_of_growth_of_another_pool_stops_nothing() -> None:
    assert growing(signals=(a_signal(SignalAction.PAUSE_SCALE_UP, "other-id"),)).target == 1


UNKNOWN_RIGHTS = never_asked(NOW)
REFUSED_RIGHTS = UNKNOWN_RIGHTS.answered(("patch nodes",), NOW)
GRANTED_RIGHTS = UNKNOWN_RIGHTS.answered((), NOW)
BIND = "bind the ClusterRole gpu-autoscaler-act (chart: mode=act; else k8s/install/act-rights.yaml)"


@pytest.mark.parametrize(
    ("rights", "detail"),
    [
        (REFUSED_RIGHTS, f"missing RBAC permissions: patch nodes (needed to remove nodes): {BIND}"),
        (
            UNKNOWN_RIGHTS,
            (
                "cannot check the RBAC permissions to remove nodes: not answered"
                " yet; growth waits until 12:05:00 UTC at most"
            ),
        ),
    ],
)
def test_growth_waits_for_the_rights_of_a_removal(rights: Rights, detail: str) -> None:
    decision = growing(rights=rights)
    assert held(decision, "nodes_may_be_removed").detail == detail
    bound = (
        "bind the ClusterRole gpu-autoscaler-act to the autoscaler's service account "
        "(chart: mode=act; else k8s/install/act-rights.yaml); no restart is needed"
    )
    assert remedies(decision, "nodes_may_be_removed") == {bound: None}


@pytest.mark.parametrize("rights", [GRANTED_RIGHTS, None])
def test_with_these_rights_or_where_they_are_not_asked_for_the_pool_grows(rights: Rights | None) -> None:
    assert growing(rights=rights).target == 1


@pytest.mark.parametrize("rights", [REFUSED_RIGHTS, UNKNOWN_RIGHTS])
def test_a_removal_without_known_rights_is_tried_all_the_same(rights: Rights) -> None:
    assert shrinking(rights=rights).target == 0


def test_without_an_answer_about_rights_growth_waits_for_five_minutes() -> None:
    unknown = never_asked(NOW - 4 * MINUTE)
    decision = growing(rights=unknown)
    assert held(decision, "nodes_may_be_removed").until == decision.reconsider_at == NOW + MINUTE
    assert growing(rights=unknown, at=NOW + MINUTE - AN_INSTANT).target == 0
    assert growing(rights=unknown, at=NOW + MINUTE).target == 1


def test_a_refusal_of_rights_ends_by_an_answer_alone() -> None:
    assert held(growing(rights=REFUSED_RIGHTS, at=NOW + 60 * MINUTE), "nodes_may_be_removed").until is None


PRICELESS = a_policy(a_pool(price_usd_per_hour=None))


def test_a_pool_without_a_price_does_not_grow_and_the_reason_says_what_to_configure() -> None:
    decision = growing(PRICELESS)
    said = held(decision, "price_is_known")
    assert said.detail == "size an.g1.l40s.kube.x1 has no price: add price_usd_per_hour to the pool"
    assert (said.until, decision.reconsider_at) == (None, None)  # only the configuration changes it
    assert remedies(decision, "price_is_known") == {
        "set a price for size an.g1.l40s.kube.x1: price_usd_per_hour of the pool, or a prices_file that has it": None
    }
    assert growing().target == 1


def test_a_price_of_zero_is_a_price() -> None:
    assert growing(a_policy(a_pool(price_usd_per_hour=Decimal(0)))).target == 1


def test_a_pool_without_a_price_shrinks_all_the_same() -> None:
    assert shrinking(PRICELESS).target == 0


UNKNOWN_SPEND = Spend(month="2026-11", usd=Decimal(0), unknown="Civo's charges cannot be read")
BUDGET = a_policy(budget=Budget(monthly_usd=Decimal(1000)))
DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)
NEXT_MONTH = "wait for the next month (2026-12-01 00:00:00 UTC)"
KNOWN_AGAIN = "wait until the spend of the budget of team research is known again: what teams use is not attributed yet"


def test_nothing_is_bought_while_the_months_spend_is_unknown_and_the_reason_says_why() -> None:
    decision = growing(BUDGET, spend=UNKNOWN_SPEND)
    said = held(decision, "spend_is_known")
    assert said.detail == (
        "the cost of the month before this store existed is unknown: Civo's charges cannot be read; "
        "budget.spent_usd_stated can state it"
    )
    assert said.until is None  # when Civo's charges can be read again is not known
    assert remedies(decision, "spend_is_known") == {
        "wait until Civo's charges of the month can be read, or set budget.spent_usd_stated": None
    }


def test_growth_under_an_account_waits_for_the_accounts_charges() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(1000), account_usd=Decimal(1000)))
    decision = growing(policy, spend=replace(UNKNOWN_SPEND, unknown="", account=None))
    unread = "Civo's charges have not been read yet"
    assert held(decision, "spend_is_known").detail == f"account budget: the spend is not known: {unread}"
    assert remedies(decision, "spend_is_known") == {
        f"wait until the spend of the account budget is known again: {unread}": None
    }
    assert growing(policy, spend=replace(UNKNOWN_SPEND, unknown="", account=Decimal(0))).target == 1


def test_where_a_known_budget_refuses_other_work_within_budget_speaks_for_both() -> None:
    teams, production = {"research": Decimal(10)}, frozenset({"production"})
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), teams=teams, passing=production))
    waiting = [a_pod("a", labels={"team": "research"}, priority_class="production"), a_pod("b")]
    decision = decision_on(a_state(), policy, waiting=waiting, spend=Spend(month="2026-11", usd=Decimal(80)))
    said = held(decision, "within_budget").detail
    assert "cluster budget hold at 80%" in said
    assert "budget of team research: the spend is not known" in said


def test_other_work_is_bought_for_while_the_spend_of_a_team_is_unknown() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), teams={"research": Decimal(10)}))
    waiting = [a_pod("a", labels={"team": "research"}), a_pod("b")]
    decision = decision_on(a_state(), policy, waiting=waiting)
    assert decision.target == 1
    assert "budget of team research: the spend is not known" in cut(decision, "within_budget").detail
    assert remedies(decision, "within_budget") == {KNOWN_AGAIN: None, NEXT_MONTH: DECEMBER}


def test_of_a_budget_whose_spend_is_unknown_at_its_hold_neither_more_money_nor_a_priority_helps() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), teams={"research": Decimal(10)}))
    waiting = [a_pod("a", labels={"team": "research"}), a_pod("b")]
    seeded = Spend(month="2026-11", usd=Decimal(9), seeded=Decimal(9))
    decision = decision_on(a_state(), policy, waiting=waiting, spend=seeded)
    assert remedies(decision, "within_budget") == {KNOWN_AGAIN: None, NEXT_MONTH: DECEMBER}


def test_a_known_spend_lets_the_pool_grow_and_an_unknown_one_lets_it_shrink() -> None:
    assert growing(BUDGET).target == 1
    assert shrinking(BUDGET, spend=UNKNOWN_SPEND).target == 0


def budget(usd: str) -> Policy:
    return a_policy(budget=Budget(monthly_usd=Decimal(usd)))


def spent(usd: str) -> Spend:
    return Spend(month="2026-11", usd=Decimal(usd))


@pytest.mark.parametrize(
    ("monthly", "usd", "pods", "bought"),
    [
        pytest.param("100", "79.99", 3, 3, id="below the hold line"),
        pytest.param("100", "80", 3, 0, id="at the hold line of 80 percent"),
        pytest.param("1.29", "0", 1, 1, id="the first hour is just covered"),
        pytest.param("1.28", "0", 1, 0, id="the first hour is not covered"),
        pytest.param("4", "0", 5, 3, id="three first hours are covered"),
    ],
)
def test_a_pool_grows_as_far_as_the_budget_covers(monthly: str, usd: str, pods: int, bought: int) -> None:
    assert growing(budget(monthly), pods=pods, spend=spent(usd)).target == bought


def test_the_next_hour_of_every_running_node_is_reserved() -> None:
    two = a_state(a_busy_node("n1"), a_busy_node("n2"))
    assert growing(budget("10"), two, spend=spent("6.13")).target == 3  # 10 - 6.13 - 2 x 1.29 = 1.29
    held(growing(budget("10"), two, spend=spent("6.14")), "within_budget")


def test_at_the_hold_the_reason_says_what_was_spent_and_what_would_let_it_grow() -> None:
    decision = growing(budget("100"), spend=spent("80"))
    assert held(decision, "within_budget").detail == "cluster budget hold at 80%: $80.00 of $100.00 spent in 2026-11"
    command = "gpu-autoscaler budget set 100.01 --why REASON --who YOU"
    raised = f"raise the cluster budget by at least $0.01 to $100.01 ({command})"
    passing = (
        "give the work a priority class in budget.passing_priority_classes,"
        " for which nodes are bought up to the stop line"
    )
    assert remedies(decision, "within_budget") == {
        raised: None,
        f"cluster budget: {passing}": None,
        NEXT_MONTH: DECEMBER,
    }


def test_of_a_part_the_reason_says_what_is_left_and_how_much_more_all_of_it_takes() -> None:
    decision = growing(budget("4"), pods=5)
    left = "$0.00 of $4.00 spent in 2026-11 and $0.00 reserved; the $4.00 left is not enough"
    assert cut(decision, "within_budget").detail == f"cluster budget: {left}"
    raised = (
        "raise the cluster budget by at least $2.45 to $6.45 (gpu-autoscaler budget set 6.45 --why REASON --who YOU)"
    )
    assert remedies(decision, "within_budget") == {raised: None, NEXT_MONTH: DECEMBER}
    assert growing(budget("6.45"), pods=5).target == 5


def test_a_budget_lets_the_pool_grow_when_the_month_ends() -> None:
    decision = growing(budget("100"), spend=spent("100"))
    assert held(decision, "within_budget").until == decision.reconsider_at == DECEMBER


def test_an_open_growth_is_covered_once_and_not_twice() -> None:
    state = a_state(open_action=a_growth(reserved_usd=Decimal("1.29")))
    assert growing(budget("2.00"), state).target == 1


def test_a_size_without_a_price_makes_the_spend_unknown_and_stops_growth() -> None:
    decision = growing(budget("1000"), spend=replace(spent("0"), unpriced=("an.g1.b200.kube.x8",)))
    assert (
        held(decision, "within_budget").detail
        == "cluster budget: the spend is unknown: no price for an.g1.b200.kube.x8"
    )
    priced = "cluster budget: set a price for size an.g1.b200.kube.x8"
    assert remedies(decision, "within_budget") == {priced: None, NEXT_MONTH: DECEMBER}
    at_the_hold = growing(budget("100"), spend=replace(spent("80"), unpriced=("an.g1.b200.kube.x8",)))
    assert remedies(at_the_hold, "within_budget") == {priced: None, NEXT_MONTH: DECEMBER}


def test_without_a_budget_within_budget_holds_nothing() -> None:
    assert growing(spend=spent("1000000")).target == 1


def test_no_budget_stops_a_removal() -> None:
    assert shrinking(budget("100"), spend=spent("80")).target == 0


def test_a_teams_budget_is_to_be_raised_by_what_all_its_work_takes_and_not_by_what_others_get() -> None:
    team = {"vision": Decimal(2)}
    policy = a_policy(budget=Budget(monthly_usd=Decimal(1000), teams=team))
    work = [*(a_pod(f"v{n}", labels={"team": "vision"}) for n in range(3)), a_pod("other")]
    decision = decision_on(a_state(), policy, waiting=work, spend=replace(spent("0"), teams={}))
    assert decision.target == 2
    raised = "by at least $1.87 to $3.87 (gpu-autoscaler budget set 3.87 --team vision --why REASON --who YOU)"
    assert remedies(decision, "within_budget") == {
        f"raise the budget of team vision {raised}": None,
        NEXT_MONTH: DECEMBER,
    }


FREE = "wait for a free GPU in the pool"
HIGHER = "raise max_nodes of the pool (now {})"
NIGHT = Window(name="night", times=((11 * 60, 13 * 60),), max_nodes=1)
ENDS = "wait until the {} of alice ends at 2026-11-20 13:00:00 UTC, or end it: gpu-autoscaler override end {}-1"
BY_ALICE = "{} of 1 node by alice until 2026-11-20 13:00 UTC: load test"
CLOSES = "wait for the next window change: window night is open; the next window change is at 2026-11-20 13:00:00 UTC"


@pytest.mark.parametrize(
    ("pool", "overrides", "detail", "until", "told"),
    [
        pytest.param({"max_nodes": 1}, (), "at most 1 node", None, {HIGHER.format(1): None, FREE: None}, id="its own"),
        pytest.param(
            {"windows": (NIGHT,)},
            (),
            "at most 1 node (window night)",
            NOW + HOUR,
            {CLOSES: NOW + HOUR, HIGHER.format(8): None, FREE: None},
            id="an open window's",
        ),
        *(
            pytest.param(
                {},
                (an_override(kind, 1),),
                f"at most 1 node ({BY_ALICE.format(kind)})",
                NOW + HOUR,
                {ENDS.format(kind, kind): NOW + HOUR, FREE: None},
                id=f"a {kind}'s",
            )
            for kind in ("ceiling", "pin")
        ),
    ],
)
def test_growth_ends_at_a_maximum_and_the_reason_says_whose_and_until_when(
    pool: dict[str, Any],
    overrides: tuple[Any, ...],
    detail: str,
    until: datetime | None,
    told: dict[str, datetime | None],
) -> None:
    policy = a_policy(a_pool(**pool))
    part = growing(policy, pods=3, overrides=overrides)
    whole = growing(policy, a_state(a_busy_node()), pods=3, overrides=overrides)
    assert (part.target, whole.target) == (1, 1)
    for decision, said in ((part, cut(part, "within_maximum")), (whole, held(whole, "within_maximum"))):
        assert (said.detail, said.until) == (detail, until)
        assert remedies(decision, "within_maximum") == told


def test_a_ceiling_as_high_as_max_nodes_ends_and_max_nodes_is_raised_too() -> None:
    policy, ceiling = a_policy(a_pool(max_nodes=1)), an_override("ceiling", 1)
    told = {ENDS.format("ceiling", "ceiling"): NOW + HOUR, HIGHER.format(1): None, FREE: None}
    assert remedies(growing(policy, pods=2, overrides=(ceiling,)), "within_maximum") == told


def test_up_to_its_maximum_a_pool_grows() -> None:
    assert growing(a_policy(a_pool(max_nodes=3)), pods=3).target == 3


def test_a_pool_above_its_maximum_is_not_shrunk_by_a_wish_to_grow() -> None:
    four = a_state(*(a_busy_node(f"n{n}") for n in range(4)))
    held(growing(a_policy(a_pool(max_nodes=2)), four), "within_maximum")


def test_a_window_without_an_end_within_its_horizon_is_named_all_the_same() -> None:
    always = Window(name="night", max_nodes=0)
    said = remedies(growing(a_policy(a_pool(windows=(always,)))), "within_maximum")
    assert "wait for the next window change: window night is open; the next window change is at an unknown time" in said


def test_no_maximum_stops_a_removal() -> None:
    assert shrinking(a_policy(a_pool(max_nodes=0))).target == 0


FAILED = Backoff(failures=2, until=NOW + MINUTE, reason="n0 never became usable")
OVER = replace(FAILED, until=NOW)
ON_TRIAL = (
    "wait until 2026-11-20 12:01:00 UTC, when the next single node is"
    " tried, or for any node of the pool that becomes usable"
)


def coming(minutes: float, name: str = "n9") -> Node:
    """A protected node that has been on its way for so many *minutes*."""
    created = NOW - minutes * MINUTE
    return a_node(name, stage=Stage.INSTALLING, created_at=created, idle_since=None, allocatable={}, protected=True)


def test_nothing_is_bought_while_a_node_that_may_not_go_is_stuck() -> None:
    decision = growing(state=a_state(coming(21)), pods=2)
    said = held(decision, "provisioning_works")
    assert (said.detail, said.until) == ("not usable after 20m: n9", None)
    assert remedies(decision, "provisioning_works") == {"wait until this is usable or gone: n9": None}
    assert growing(state=a_state(coming(20)), pods=2).target == 2


def test_a_stuck_node_is_named_with_the_back_off_behind_it() -> None:
    decision = growing(state=a_state(coming(21), provisioning=FAILED), pods=2)
    assert remedies(decision, "provisioning_works") == {
        "wait until this is usable or gone: n9": None,
        ON_TRIAL: FAILED.until,
    }


def test_nothing_is_bought_while_civo_does_not_list_what_was_asked_for_long_ago() -> None:
    decision = growing(state=a_state(required=1, required_since=NOW - 20 * MINUTE - AN_INSTANT), pods=2)
    assert held(decision, "provisioning_works").detail == "not usable after 20m: 1 node that Civo does not list"
    assert growing(state=a_state(required=1, required_since=NOW - 20 * MINUTE), pods=2).target == 2


def test_nothing_is_bought_while_the_pool_backs_off_from_provisioning() -> None:
    decision = growing(state=a_state(provisioning=FAILED))
    said = held(decision, "provisioning_works")
    assert said.detail == "n0 never became usable (2 failures in a row): no other node before 2026-11-20 12:01:00 UTC"
    assert said.until == decision.reconsider_at == FAILED.until
    assert remedies(decision, "provisioning_works") == {ON_TRIAL: FAILED.until}


def test_after_the_back_off_one_node_is_bought_on_trial_and_no_other_while_it_is_on_its_way() -> None:
    trial = growing(state=a_state(provisioning=OVER), pods=3)
    waits = growing(state=a_state(coming(1), provisioning=OVER), pods=3)
    assert (trial.target, waits.target) == (1, 1)
    for decision, said in ((trial, cut(trial, "provisioning_works")), (waits, held(waits, "provisioning_works"))):
        assert (
            said.detail
            == "n0 never became usable (2 failures in a row): one node at a time is tried until one becomes usable"
        )
        assert said.until is None
        usable = "wait for the test node: once it is usable, all wanted nodes are bought"
        assert remedies(decision, "provisioning_works") == {usable: None}


@LAWS
@given(
    waiting=st.integers(0, 5),
    seconds=st.integers(-2, 2),
    on_the_way=st.integers(0, 2),
    unlisted=st.integers(0, 2),
    gang=st.sampled_from([None, "ml/train"]),
)
def test_a_pool_on_trial_has_at_most_one_node_on_its_way_that_was_bought_during_it(
    waiting: int, seconds: int, on_the_way: int, unlisted: int, gang: str | None
) -> None:
    """A focused law: nothing but the pool's failures holds it back."""
    state = a_state(
        *(coming(1, f"c{n}") for n in range(on_the_way)),
        required=on_the_way + unlisted,
        provisioning=replace(FAILED, until=NOW + timedelta(seconds=seconds)),
    )
    decision = decision_on(state, waiting=[a_pod(f"p{n}", gang=gang) for n in range(waiting)])
    wanted = max(0, waiting - on_the_way - unlisted)
    allowed = 1 if seconds <= 0 and not on_the_way + unlisted else 0
    assert decision.target - decision.present == min(wanted, allowed)


def test_a_back_off_that_a_wrong_clock_set_is_not_believed() -> None:
    assert growing(state=a_state(provisioning=replace(FAILED, until=NOW + 28 * HOUR))).target == 1


def test_a_back_off_from_provisioning_stops_no_removal() -> None:
    assert shrinking(state=a_state(IDLE, provisioning=FAILED)).target == 0
    assert shrinking(state=a_state(IDLE, coming(21))).target == 1
