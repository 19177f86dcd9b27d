"""Which nodes are closed to new work, and what that leaves of them for the assignment and for removal."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.model import CordonedBy, Node, Spend, Stage
from receiver.core.model.policy import Budget, Scope
from receiver.core.money.budget import Budgets, BudgetStage, BudgetView
from receiver.core.scaling.bounds import lacks_price, takes_work, to_close, to_open, why_closed
from tests.core.builders import EVERY_SECOND, NOW, a_busy_node, a_node, a_pod, a_policy, a_pool, a_state, facts, run

WHY = "cluster budget 2026-11"
SPENT = Spend(month="2026-11", usd=Decimal(100))
STOPPED: dict[str, Any] = {"budget": Budget(monthly_usd=Decimal(100))}


def a_view(stage: BudgetStage, scope: Scope = Scope.CLUSTER, name: str = "", **changes: Any) -> BudgetView:
    given: dict[str, Any] = {
        "month": "2026-11",
        "monthly": Decimal(100),
        "spent": Decimal(0),
        "reserved": Decimal(0),
        "warn_at": Decimal("0.5"),
        "hold_at": Decimal("0.8"),
        "stop_at": Decimal(1),
    }
    return BudgetView(stage=stage, scope=scope, name=name, **{**given, **changes})


@pytest.mark.parametrize(
    "views, why",
    [
        pytest.param((), "", id="no budget"),
        pytest.param((a_view(BudgetStage.HOLD),), "", id="at the hold"),
        pytest.param((a_view(BudgetStage.STOP),), WHY, id="the cluster's stop"),
        pytest.param((a_view(BudgetStage.STOP, Scope.ACCOUNT),), "account budget 2026-11", id="the account's"),
        pytest.param((a_view(BudgetStage.STOP, Scope.POOL, "p"),), "budget of pool p 2026-11", id="its own"),
        pytest.param((a_view(BudgetStage.STOP, Scope.POOL, "other"),), "", id="another pool's"),
        pytest.param((a_view(BudgetStage.STOP, Scope.TEAM, "vision"),), "", id="a team's"),
        pytest.param((a_view(BudgetStage.OK, unknown="lost"),), None, id="the spend is unknown"),
        pytest.param((a_view(BudgetStage.OK, unpriced=("x",)),), None, id="a price is missing"),
        pytest.param((a_view(BudgetStage.OK, Scope.ACCOUNT, unknown="lost"), a_view(BudgetStage.STOP)), WHY, id="both"),
    ],
)
def test_a_pool_is_closed_by_the_stop_of_a_budget_that_covers_all_of_it(
    views: tuple[BudgetView, ...], why: str | None
) -> None:
    assert why_closed(Budgets(views=views), "p") == why


@pytest.mark.parametrize(
    "why, node, takes",
    [
        ("", a_node(), True),
        ("", a_node(closed_for=WHY), True),  # it is opened in this step
        ("", None, True),
        (WHY, a_node(), False),
        (WHY, None, False),
        (None, a_node(), True),
        (None, a_node(closed_for=WHY), False),
        (None, None, True),
        (WHY, a_node(hosts=("monitoring/prometheus-0",)), True),  # it stays open
    ],
)
def test_what_is_closed_takes_no_work_and_stays_so_while_nobody_can_tell(
    why: str | None, node: Node | None, takes: bool
) -> None:
    assert takes_work(node, why) is takes


OPEN = a_node("open")
CLOSED = a_node("closed", closed_for=WHY, cordoned_by=CordonedBy.US)
LIFTED = a_node("lifted", closed_for=WHY)
OLDER = a_node("older", closed_for="cluster budget 2026-10", cordoned_by=CordonedBy.US)
GOING = a_node("going", cordoned_by=CordonedBy.US, cordoned_for="an-action")
THEIRS = a_node("theirs", cordoned_by=CordonedBy.SOMEONE)
UNREGISTERED = a_node("unregistered", registered=False)
DELETING = a_node("deleting", stage=Stage.DELETING)
HOSTS = a_node("hosts", hosts=("monitoring/prometheus-0",))
HOSTS_NOW = replace(CLOSED, name="hosts-now", hosts=("monitoring/prometheus-0",))
ALL = (OPEN, CLOSED, LIFTED, OLDER, GOING, THEIRS, UNREGISTERED, DELETING, HOSTS, HOSTS_NOW)


@pytest.mark.parametrize(
    "why, shut, opened",
    [(WHY, (OPEN, LIFTED, OLDER, GOING), (HOSTS_NOW,)), ("", (), (CLOSED, LIFTED, OLDER, HOSTS_NOW)), (None, (), ())],
    ids=["at the stop", "when it is over", "while nobody can tell"],
)
def test_exactly_our_own_marks_are_made_and_undone(
    why: str | None, shut: tuple[Node, ...], opened: tuple[Node, ...]
) -> None:
    assert (to_close(ALL, why), to_open(ALL, why)) == (shut, opened)


@pytest.mark.parametrize(
    "views, sizes",
    [
        ((a_view(BudgetStage.OK, unpriced=("x",)),), ("x",)),
        ((a_view(BudgetStage.OK, unpriced=("x",)), a_view(BudgetStage.STOP)), ()),
        ((a_view(BudgetStage.OK, unknown="lost"),), ()),
        ((), ()),
    ],
    ids=["a price is missing", "it is at its stop all the same", "the spend is unknown", "no budget"],
)
def test_sizes_are_named_for_want_of_whose_price_nobody_can_tell(
    views: tuple[BudgetView, ...], sizes: tuple[str, ...]
) -> None:
    assert lacks_price(Budgets(views=views), "p") == sizes


def test_at_the_stop_neither_free_gpus_nor_nodes_on_their_way_are_room() -> None:
    coming = a_node("n2", stage=Stage.BOOTING, idle_since=None, allocatable={}, created_at=NOW)
    state = a_state(a_node(), coming, required=3)
    pods = [a_pod(f"p{n}") for n in range(3)]
    calm, _ = run(facts(state, waiting=pods), a_policy(**STOPPED))
    held, _ = run(facts(state, waiting=pods, spend=SPENT), a_policy(**STOPPED))
    assert calm.pools["l40s-id"].needed == {"i-n1", "i-n2"}
    assert (held.pools["l40s-id"].needed, held.pools["l40s-id"].settled) == (frozenset(), ())
    assert set(held.pools["l40s-id"].refused) == {"ml/p0", "ml/p1", "ml/p2"}


def test_work_that_fits_another_pool_goes_there_when_its_own_pool_is_closed() -> None:
    one, two = a_pool("one", budget_usd=Decimal(1)), a_pool("two", price_usd_per_hour=Decimal(9))
    spend = Spend(month="2026-11", usd=Decimal(2), pools={"one-id": Decimal(2)})
    states = (a_state(a_node(), pool="one-id"), a_state(pool="two-id"))
    _, decisions = run(facts(*states, waiting=[a_pod()], spend=spend), a_policy(one, two, **STOPPED))
    assert (decisions["one"].target, decisions["two"].target) == (1, 1)


def test_an_idle_node_at_the_stop_goes_at_its_hours_end_although_work_waits() -> None:
    idle = a_node(created_at=NOW - timedelta(minutes=57), closed_for=WHY, cordoned_by=CordonedBy.US)
    state = a_state(idle, a_busy_node("n2"))
    _, decisions = run(facts(state, waiting=[a_pod()], spend=SPENT), a_policy(**STOPPED))
    assert (decisions["l40s"].target, decisions["l40s"].candidates) == (1, ("i-n1",))


def test_an_idle_node_at_the_stop_keeps_what_is_paid_of_its_hour() -> None:
    state = a_state(a_node(created_at=NOW - timedelta(minutes=30), closed_for=WHY, cordoned_by=CordonedBy.US))
    _, decisions = run(facts(state, waiting=[a_pod()], spend=SPENT), a_policy(**STOPPED))
    assert decisions["l40s"].target == 1


@pytest.mark.parametrize("seconds, left", [(9, 1), (10, 0)])
def test_where_seconds_are_billed_an_idle_node_at_the_stop_goes_after_the_safety_minimum(
    seconds: int, left: int
) -> None:
    state = a_state(a_node(idle_since=NOW - timedelta(seconds=seconds), closed_for=WHY, cordoned_by=CordonedBy.US))
    policy = a_policy(billing=EVERY_SECOND, **STOPPED)
    _, decisions = run(facts(state, spend=SPENT), policy)
    assert decisions["l40s"].target == left
    assert run(facts(state), policy)[1]["l40s"].target == 1
