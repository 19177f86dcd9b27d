"""Workloads of Kueue that our AdmissionCheck holds: what the budgets cover, what they hold, and what never fits."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from receiver.capabilities.kueue_check import judging
from receiver.capabilities.kueue_check.judging import CheckState
from receiver.core.model.devices import CLAIM
from receiver.core.model.model import Node, Spend
from receiver.core.model.policy import Budget, Limits, Policy
from receiver.core.model.room_requests import RoomAnswer, RoomRequest
from receiver.core.scaling.failures import Failures
from receiver.core.scaling.wanted import Assignment
from tests.core.builders import a_busy_node, a_node, a_pod, a_policy, a_pool, a_state, assigned, facts, run, with_fields
from tests.core.worlds import LAWS, World, worlds
from tests.given.requests import candidate_of

READY, RETRY, PENDING, REJECTED = CheckState.READY, CheckState.RETRY, CheckState.PENDING, CheckState.REJECTED
VISION = {"team": "vision"}


def a_candidate(name: str = "w", pods: int = 2, gpus: int = 1, *, ready: bool = False, **said: Any) -> RoomRequest:
    """A Workload ml/*name* of that many pods; *said* are fields of the pods, or *rejects*."""
    rejects = said.pop("rejects", False)
    gang = {"gang": f"ml/{name}"} if pods > 1 else {}
    members = [a_pod(f"{name}/main-{n}", gpus, uid="", **gang, **said) for n in range(pods)]
    return candidate_of(f"ml/{name}", members, ready=ready, rejects=rejects)


def spending(usd: str, **more: Any) -> Spend:
    return Spend(month="2026-11", usd=Decimal(usd), **more)


def with_budget(monthly: str, **more: Any) -> Policy:
    return a_policy(budget=Budget(monthly_usd=Decimal(monthly), **more))


def judged_beside(
    *candidates: RoomRequest, nodes: Sequence[Node] = (), policy: Policy | None = None, **known: Any
) -> Assignment:
    found = facts(a_state(*nodes), requests=candidates, **known)
    return run(found, policy or a_policy())[0]


def judged(*candidates: RoomRequest, **given: Any) -> dict[str, tuple[CheckState, str]]:
    return {v.key: (CheckState(v.state), v.message) for v in judged_beside(*candidates, **given).answers}


def test_a_workload_that_cannot_be_judged_is_not_let_through() -> None:
    found = judged(replace(a_candidate(), pods=(), problem="there is no DeviceClass gold"))
    assert found == {"ml/w": (PENDING, "not judged: there is no DeviceClass gold")}


def test_a_workload_whose_claims_a_pool_may_serve_is_not_let_through_for_nothing() -> None:
    claims: dict[str, Any] = {"requests": {f"{CLAIM}[]": 1}, "claims": ("1 device of class gpu",)}
    found = judged(replace(a_candidate(), pods=(a_pod(**claims),)))
    assert found == {
        "ml/w": (PENDING, "not judged: l40s: it claims devices, and it is not known which devices a node has")
    }
    elsewhere = a_pod(**claims, node_selector={"gpu": "ours"})
    assert judged(replace(a_candidate(), pods=(elsewhere,)))["ml/w"][0] is READY


# --- what the budgets cover -------------------------------------------------------------------------------


def test_a_workload_is_ready_when_the_budgets_cover_its_new_nodes() -> None:
    found = judged(a_candidate(), policy=with_budget("100"))
    assert found == {"ml/w": (READY, "the budgets cover it: 2 new nodes in pool l40s at $2.58 per hour")}


def test_no_node_is_bought_for_it_before_it_is_admitted() -> None:
    found = judged_beside(a_candidate(), policy=with_budget("100"))
    assert found.pools["l40s-id"].new_nodes == 0


def test_room_on_nodes_that_exist_costs_nothing() -> None:
    nodes = [a_node("n1"), a_node("n2")]
    found = judged(a_candidate(), nodes=nodes, policy=with_budget("3"))
    assert found == {"ml/w": (READY, "it fits nodes that exist or are on their way")}


def test_without_a_budget_every_workload_is_ready() -> None:
    assert judged(a_candidate())["ml/w"][0] is READY


def test_a_workload_without_gpus_of_the_pools_is_ready() -> None:
    elsewhere = a_candidate(node_selector={"gpu": "h100"})
    assert judged(elsewhere, candidate_of("ml/x"), policy=with_budget("0")) == {
        "ml/w": (READY, "it asks no GPU pool for anything that a budget must cover"),
        "ml/x": (
            READY,
            "it requests no GPU, runs already or in another cluster (MultiKueue), or its ProvisioningRequest is judged",
        ),
    }


def test_only_the_pods_that_fit_a_pool_count() -> None:
    mixed = candidate_of("ml/w", (a_pod("a", uid=""), a_pod("b", uid="", node_selector={"gpu": "h100"})))
    assert judged(mixed, policy=with_budget("2"))["ml/w"][1].startswith("the budgets cover it: 1 new node")


def test_work_that_waits_already_is_paid_first() -> None:
    found = judged(a_candidate(), policy=with_budget("3"), waiting=[a_pod()])
    assert found["ml/w"][0] is RETRY


def test_one_that_was_let_through_keeps_its_money_until_its_pods_are_there() -> None:
    found = judged(a_candidate("new", 1), a_candidate("old", 2, ready=True), policy=with_budget("3"))
    assert found == {"ml/new": (RETRY, "held by the cluster budget: $0.87 short, resumes 1 Dec")}


def test_the_money_of_an_answer_is_not_spent_on_spare_nodes_in_the_same_step() -> None:
    pool = a_pool(standby_nodes=3)
    policy = a_policy(pool, budget=Budget(monthly_usd=Decimal(4)))
    assert judged_beside(policy=policy).pools["l40s-id"].allowed.budget == 3
    found = judged_beside(a_candidate(), policy=policy)
    assert ([v.state for v in found.answers], found.pools["l40s-id"].allowed.budget) == ([READY], 1)


def test_limits_that_the_trial_used_up_are_there_for_spare_nodes() -> None:
    policy = a_policy(a_pool(standby_nodes=2), limits=Limits(max_gpus=2))
    assert judged_beside(a_candidate(), policy=policy).pools["l40s-id"].allowed.limits == 2


def test_the_new_nodes_of_other_work_are_not_its_own() -> None:
    found = judged(a_candidate(), policy=with_budget("100"), waiting=[a_pod()])
    assert found["ml/w"][1].startswith("the budgets cover it: 2 new nodes")


def test_a_higher_priority_is_judged_first() -> None:
    found = judged(a_candidate("low", 2), a_candidate("high", 2, priority=5), policy=with_budget("3"))
    assert {key: state for key, (state, _) in found.items()} == {"ml/high": READY, "ml/low": RETRY}


def test_a_smaller_one_passes_one_that_is_held() -> None:
    found = judged(a_candidate("large", 4, priority=5), a_candidate("small", 1), policy=with_budget("6", hold_at=1))
    assert {key: state for key, (state, _) in found.items()} == {"ml/large": READY, "ml/small": RETRY}
    found = judged(a_candidate("large", 5, priority=5), a_candidate("small", 1), policy=with_budget("6", hold_at=1))
    assert {key: state for key, (state, _) in found.items()} == {"ml/large": RETRY, "ml/small": READY}


# --- what they hold ---------------------------------------------------------------------------------------


def test_a_workload_is_held_by_what_its_budget_lacks_until_the_month_ends() -> None:
    policy = with_budget("1000", teams={"vision": Decimal(5)})
    spend = spending("4", teams={"vision": Decimal("2.50")})
    found = judged(a_candidate(pods=3, labels=VISION), policy=policy, spend=spend)
    assert found == {"ml/w": (RETRY, "held by the budget of team vision: $1.37 short, resumes 1 Dec")}


def test_the_month_ends_in_the_budgets_time_zone() -> None:
    policy = with_budget("3", timezone="America/New_York")
    assert judged(a_candidate(pods=2), policy=policy, spend=spending("1"))["ml/w"][1].endswith(", resumes 1 Dec")


def test_a_raised_budget_lets_it_through() -> None:
    spend = spending("2")
    assert judged(a_candidate(), policy=with_budget("4", hold_at=1), spend=spend)["ml/w"][0] is RETRY
    assert judged(a_candidate(), policy=with_budget("5", hold_at=1), spend=spend)["ml/w"][0] is READY


@pytest.mark.parametrize(("spent", "line"), [("80", "hold"), ("100", "stop")])
def test_beyond_the_hold_line_free_nodes_let_nothing_through(spent: str, line: str) -> None:
    found = judged(a_candidate(pods=1), nodes=[a_node("n1")], policy=with_budget("100"), spend=spending(spent))
    assert found == {"ml/w": (RETRY, f"held by the cluster budget: at its {line} line, resumes 1 Dec")}


def test_a_passing_priority_class_is_let_through_at_the_hold_line() -> None:
    policy = with_budget("100", passing=frozenset({"urgent"}))
    found = judged(a_candidate(priority_class="urgent"), policy=policy, spend=spending("80"))
    assert found["ml/w"][0] is READY


def test_the_hold_of_a_team_keeps_out_its_own_work_alone() -> None:
    policy = with_budget("1000", teams={"vision": Decimal(10)})
    spend = spending("9", teams={"vision": Decimal(9)})
    mine, other = a_candidate("mine", labels=VISION), a_candidate("other", labels={"team": "nlp"})
    nodes = [a_node(f"n{n}") for n in range(4)]
    found = judged(mine, other, nodes=nodes, policy=policy, spend=spend)
    assert {key: state for key, (state, _) in found.items()} == {"ml/mine": RETRY, "ml/other": READY}


def test_the_hold_of_a_pool_stops_new_nodes_alone() -> None:
    policy = a_policy(a_pool(budget_usd=Decimal(10)), budget=Budget(monthly_usd=Decimal(1000)))
    spend = spending("9", pools={"l40s-id": Decimal(9)})
    assert judged(a_candidate(pods=1), nodes=[a_node("n1")], policy=policy, spend=spend)["ml/w"][0] is READY
    found = judged(a_candidate(pods=1), policy=policy, spend=spend)
    assert found == {"ml/w": (RETRY, "held by the budget of pool l40s: at its hold line, resumes 1 Dec")}


def test_a_cheaper_pool_that_the_budgets_cover_is_enough() -> None:
    pools = (a_pool(budget_usd=Decimal(1)), a_pool("l4", price_usd_per_hour=Decimal(2)))
    states = (a_state(), a_state(pool="l4-id"))
    found = run(facts(*states, requests=(a_candidate(),)), a_policy(*pools, budget=Budget(monthly_usd=Decimal(50))))
    assert [v.message for v in found[0].answers] == ["the budgets cover it: 2 new nodes in pool l4 at $4.00 per hour"]


def test_an_unknown_spend_leaves_it_pending() -> None:
    found = judged(a_candidate(), policy=with_budget("100"), spend=spending("0", unknown="Civo does not answer"))
    expected = "waiting: cluster budget: the spend is not known: Civo does not answer"
    assert found == {"ml/w": (PENDING, expected)}


def test_more_pods_than_are_judged_leave_it_pending() -> None:
    truncated = candidate_of("ml/w", tuple(a_pod(f"{n}", uid="", gang="ml/w", gang_min=9) for n in range(2)))
    assert judged(truncated)["ml/w"] == (PENDING, "it has more GPU pods than are judged at once (2)")


def test_the_maximum_of_a_pool_holds_up_no_answer() -> None:
    busy = [a_busy_node(f"n{n}") for n in range(7)]
    found = judged(a_candidate(pods=3), nodes=busy, policy=with_budget("1000"))
    assert found == {"ml/w": (READY, "the budgets cover it; it waits for room in its pool")}


def test_a_long_queue_is_judged_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "MOST_AT_ONCE", 2)
    ready = [a_candidate(f"ready-{n}", ready=True) for n in range(3)]  # they crowd out no other
    assert list(judged(*ready, *map(a_candidate, "abc"))) == ["ml/a", "ml/b"]


def test_parts_that_fit_different_pools_are_judged_together() -> None:
    pools = (a_pool(labels={"kind": "a"}), a_pool("l4", labels={"kind": "b"}))
    states = (a_state(), a_state(pool="l4-id"))
    pods = tuple(a_pod(kind, uid="", gang="ml/w", node_selector={"kind": kind}) for kind in "ab")
    found = facts(*states, requests=(candidate_of("ml/w", pods),))
    for monthly, expected in (("3", READY), ("2", RETRY)):
        policy = a_policy(*pools, budget=Budget(monthly_usd=Decimal(monthly), hold_at=Decimal(1)))
        assert [v.state for v in run(found, policy)[0].answers] == [expected], monthly
    [answer] = run(found, a_policy(*pools))[0].answers
    assert answer.message.startswith("the budgets cover it: 1 new node in pool l40s, 1 new node in pool l4 at")


def test_a_pool_in_which_it_waits_for_room_counts_as_covered() -> None:
    pools = (a_pool(budget_usd=Decimal(5)), a_pool("l4", price_usd_per_hour=Decimal(2), max_nodes=2))
    states = (a_state(), a_state(a_busy_node("b1"), a_busy_node("b2"), pool="l4-id"))
    policy = a_policy(*pools, budget=Budget(monthly_usd=Decimal(1000)))
    spend = spending("4", pools={"l40s-id": Decimal(4)})
    [found] = run(facts(*states, requests=(a_candidate(),), spend=spend), policy)[0].answers
    assert (found.state, found.message) == (READY, "the budgets cover it; it waits for room in its pool")


def test_one_that_waits_for_room_takes_no_money_from_the_others() -> None:
    busy, policy = [a_busy_node(f"n{n}") for n in range(7)], with_budget("12", hold_at=Decimal(1))
    found = judged(a_candidate("large", 2, priority=5), a_candidate("small", 1), nodes=busy, policy=policy)
    assert found["ml/large"][1].endswith("it waits for room in its pool")
    assert found["ml/small"][1].startswith("the budgets cover it: 1 new node")


def test_the_shortage_is_that_of_the_pool_where_it_costs_least() -> None:
    pools = (a_pool(), a_pool("l4", price_usd_per_hour=Decimal(2)))
    states = (a_state(), a_state(a_node("n1"), pool="l4-id"))
    policy = a_policy(*pools, budget=Budget(monthly_usd=Decimal(5), hold_at=Decimal(1)))
    found = facts(*states, requests=(a_candidate(),), spend=spending("1.50"))
    [answer] = run(found, policy)[0].answers
    assert answer.message == "held by the cluster budget: $0.50 short, resumes 1 Dec"


def test_a_price_that_is_missing_leaves_it_pending_where_there_is_a_budget() -> None:
    pool = a_pool(price_usd_per_hour=None)
    [found] = judged_beside(a_candidate(), policy=a_policy(pool, budget=Budget(monthly_usd=Decimal(9)))).answers
    assert (found.state, found.message) == (PENDING, "waiting: a pool that it fits has no price")
    [found] = judged_beside(a_candidate(), policy=a_policy(pool)).answers
    assert found.message == "no budget: 2 new nodes in pool l40s, of which a price is missing"


def test_a_part_that_needs_no_node_of_a_pool_without_a_price_costs_nothing() -> None:
    pools = (a_pool(labels={"kind": "a"}, price_usd_per_hour=None), a_pool("l4", labels={"kind": "b"}))
    states = (a_state(a_node("n1")), a_state(pool="l4-id"))
    pods = tuple(a_pod(kind, uid="", gang="ml/w", node_selector={"kind": kind}) for kind in "ab")
    policy = a_policy(*pools, budget=Budget(monthly_usd=Decimal(2), hold_at=Decimal(1)))
    [found] = run(facts(*states, requests=(candidate_of("ml/w", pods),)), policy)[0].answers
    assert found.state == PENDING


def test_pods_that_share_a_pool_go_there_together() -> None:
    pools = (a_pool(labels={"kind": "a"}), a_pool("l4", labels={"kind": "b"}, price_usd_per_hour=Decimal(2)))
    pods = (a_pod("any", uid="", gang="ml/w"), a_pod("b", uid="", gang="ml/w", node_selector={"kind": "b"}))
    found = facts(a_state(), a_state(pool="l4-id"), requests=(candidate_of("ml/w", pods),))
    [answer] = run(found, a_policy(*pools))[0].answers
    assert answer.message == "the budgets cover it: 2 new nodes in pool l4 at $4.00 per hour"


def test_pods_without_a_pool_in_common_go_to_their_own() -> None:
    pools = tuple(a_pool(kind, labels={"kind": kind}) for kind in "abc")
    selecting = (a_pod(kind, uid="", gang="ml/w", node_selector={"kind": kind}) for kind in "bc")
    work = candidate_of("ml/w", (a_pod("any", uid="", gang="ml/w"), *selecting))
    states = (a_state(pool=f"{kind}-id") for kind in "abc")
    [answer] = run(facts(*states, requests=(work,)), a_policy(*pools))[0].answers
    one_each = "1 new node in pool a, 1 new node in pool b, 1 new node in pool c"
    assert answer.message == f"the budgets cover it: {one_each} at $3.87 per hour"


# --- what never fits --------------------------------------------------------------------------------------


def test_a_workload_beyond_the_maximum_of_its_pool_is_rejected_only_where_the_operator_says_so() -> None:
    message = "needs 9 nodes; pool l40s may have 8"
    assert judged(a_candidate(pods=9)) == {"ml/w": (RETRY, message)}
    assert judged(a_candidate(pods=9), nodes=[a_node("n1")]) == {"ml/w": (RETRY, message)}
    assert judged(a_candidate(pods=9, rejects=True)) == {"ml/w": (REJECTED, message)}


def test_a_workload_beyond_a_whole_month_is_rejected_only_where_the_operator_says_so() -> None:
    message = "needs $2.58 at once; the cluster budget has $2.00 for a whole month"
    assert judged(a_candidate(), policy=with_budget("2")) == {"ml/w": (RETRY, message)}
    assert judged(a_candidate(rejects=True), policy=with_budget("2")) == {"ml/w": (REJECTED, message)}


@pytest.mark.parametrize("monthly", ["3", "2.58"])
def test_what_a_new_month_covers_is_not_rejected(monthly: str) -> None:
    found = judged(a_candidate(rejects=True), policy=with_budget(monthly), spend=spending("2"))
    assert found["ml/w"][0] is RETRY


def test_what_a_whole_pool_can_hold_waits_for_room_in_it() -> None:
    found = judged(a_candidate(pods=8, rejects=True), nodes=[a_busy_node()])
    assert found["ml/w"] == (READY, "the budgets cover it; it waits for room in its pool")


def test_one_pool_that_could_hold_it_is_enough() -> None:
    pools = (a_pool(budget_usd=Decimal(1)), a_pool("l4", price_usd_per_hour=Decimal(2)))
    policy = a_policy(*pools, budget=Budget(monthly_usd=Decimal(5), hold_at=Decimal(1)))
    found = facts(a_state(), a_state(pool="l4-id"), requests=(a_candidate(),), spend=spending("2"))
    [answer] = run(found, policy)[0].answers
    assert answer.message == "held by the cluster budget: $1.00 short, resumes 1 Dec"


# --- bugs -------------------------------------------------------------------------------------------------


def test_a_bug_in_the_answers_delays_no_waiting_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> RoomAnswer:
        raise RuntimeError("bug")

    monkeypatch.setattr(judging, "_judged", fails)
    failures = Failures()
    found = facts(a_state(), requests=(a_candidate(),), waiting=[a_pod()])
    assignment = assigned(found, a_policy(), failures)
    assert (assignment.answers, assignment.pools["l40s-id"].for_demand, len(failures.all)) == ((), 1, 1)


def test_without_candidates_nothing_is_judged() -> None:
    assert judged() == {}


# --- laws -------------------------------------------------------------------------------------------------


def as_candidates(world: World) -> World:
    """*world* with every second pod that waits held by our check instead."""
    found, policy = world
    held = tuple(candidate_of(pod.key, (replace(pod, uid=""),)) for pod in found.waiting[1::2])
    return with_fields(found, waiting=found.waiting[::2], requests=held), policy


FIRST = ("demand", "floor")


@LAWS
@given(worlds())
def test_candidates_change_no_demand_and_at_most_leave_less_money_for_spare_nodes(world: World) -> None:
    found, policy = as_candidates(world)
    beside, alone = assigned(found, policy), assigned(with_fields(found, requests=()), policy)
    for pool, wanted in alone.pools.items():
        assert [beside.pools[pool].by_source[source] for source in FIRST] == [wanted.by_source[s] for s in FIRST]
        assert replace(beside.pools[pool].work, buffers=()) == replace(wanted.work, buffers=())
        assert beside.pools[pool].allowed.budget <= wanted.allowed.budget or policy.budget is None


@LAWS
@given(worlds())
def test_every_candidate_has_one_answer_and_money_is_promised_once(world: World) -> None:
    found, policy = as_candidates(world)
    answers = assigned(found, policy).answers
    assert sorted(v.key for v in answers) == sorted(c.key for c in found.other_work.requests)
    admitted = {v.key for v in answers if v.state == READY}
    terms = {True: {judging.READY: "true"}, False: dict[str, str]()}
    requests = tuple(replace(c, terms=terms[c.key in admitted]) for c in found.other_work.requests)
    later = with_fields(found, requests=requests)
    assert READY not in {v.state for v in assigned(later, policy).answers}
