"""above_the_floor: a pool does not shrink below its minimum, unless the budget stop says so."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.model import Node, Spend, Stage
from receiver.core.model.policy import Budget
from receiver.core.model.windows import Window
from tests.core.builders import (
    HOUR,
    HOUR_ENDS_SOON,
    MINUTE,
    NOW,
    a_busy_node,
    a_node,
    a_policy,
    a_pool,
    a_state,
    an_override,
    decision_on,
    growing,
    remedies,
    shrinking,
)
from tests.core.scaling.guardrails.cases import IDLE, cut, held
from tests.core.worlds import LAWS

DAY = Window(name="day", times=((11 * 60, 13 * 60),), min_nodes=1)
LOWER = "lower min_nodes of the pool (now {})"
CLOSES = "wait for the next window change: window day is open; the next window change is at 2026-11-20 13:00:00 UTC"
BY_ALICE = "floor of 1 node by alice until 2026-11-20 13:00 UTC: load test"
ENDS = "wait until the floor of alice ends at 2026-11-20 13:00:00 UTC, or end it: gpu-autoscaler override end floor-1"


def idle(name: str) -> Node:
    return a_node(name, created_at=HOUR_ENDS_SOON)


def dead(name: str) -> Node:
    """A node that has been on its way for a minute too long."""
    return a_node(name, stage=Stage.INSTALLING, allocatable={}, idle_since=None, created_at=NOW - 21 * MINUTE)


@pytest.mark.parametrize(
    ("pool", "overrides", "detail", "until", "told"),
    [
        pytest.param({"min_nodes": 1}, (), "at least 1 node", None, {LOWER.format(1): None}, id="its own"),
        pytest.param(
            {"windows": (DAY,)},
            (),
            "at least 1 node (window day)",
            NOW + HOUR,
            {CLOSES: NOW + HOUR, LOWER.format(0): None},
            id="an open window's",
        ),
        pytest.param(
            {},
            (an_override("floor", 1),),
            f"at least 1 node ({BY_ALICE})",
            NOW + HOUR,
            {ENDS: NOW + HOUR, LOWER.format(0): None},
            id="a floor's",
        ),
    ],
)
def test_a_removal_ends_at_a_minimum_and_the_reason_says_whose_and_until_when(
    pool: dict[str, Any],
    overrides: tuple[Any, ...],
    detail: str,
    until: datetime | None,
    told: dict[str, datetime | None],
) -> None:
    policy = a_policy(a_pool(**pool))
    whole = shrinking(policy, overrides=overrides)
    part = shrinking(policy, a_state(idle("n1"), idle("n2")), overrides=overrides)
    assert (whole.target, part.target) == (1, 1)
    for decision, said in ((whole, held(whole, "above_the_floor")), (part, cut(part, "above_the_floor"))):
        assert (said.detail, said.until) == (detail, until)
        assert remedies(decision, "above_the_floor") == told


def test_the_floor_stays_unless_the_budget_stop_is_reached() -> None:
    policy = a_policy(a_pool(min_nodes=1), budget=Budget(monthly_usd=Decimal(100)))
    held(shrinking(policy), "above_the_floor")
    assert shrinking(policy, spend=Spend(month="2026-11", usd=Decimal(100))).target == 0


def test_what_civo_counts_and_does_not_list_is_no_node_of_the_floor() -> None:
    held(shrinking(a_policy(a_pool(min_nodes=1)), a_state(IDLE, required=2)), "above_the_floor")


def test_it_stops_no_growth_of_a_pool_below_it() -> None:
    assert growing(a_policy(a_pool(min_nodes=3))).target == 3


@pytest.mark.parametrize(
    ("nodes", "floor", "left"),
    [
        pytest.param([dead("a")], 1, 0, id="the dead hold no floor"),
        pytest.param([dead("a"), dead("b")], 1, 0, id="nor do two of them"),
        pytest.param([dead("a"), idle("idle")], 1, 1, id="the idle one is the floor"),
        pytest.param([dead("a"), *(idle(f"n{n}") for n in range(3))], 2, 2, id="a dead and an idle one go, two stay"),
    ],
)
def test_dead_nodes_go_below_the_floor_and_no_others(nodes: list[Node], floor: int, left: int) -> None:
    decision = decision_on(a_state(*nodes), a_policy(a_pool(min_nodes=floor)))
    assert decision.target == left
    going = decision.candidates[: decision.present - decision.target]
    assert {n.instance for n in nodes if n.stage is not Stage.USABLE} <= set(going)


@LAWS
@given(broken=st.integers(0, 3), free=st.integers(0, 3), busy=st.integers(0, 3), floor=st.integers(0, 4))
def test_all_dead_nodes_go_and_of_the_idle_ones_what_is_above_the_floor(
    broken: int, free: int, busy: int, floor: int
) -> None:
    nodes = [
        *(dead(f"d{n}") for n in range(broken)),
        *(idle(f"i{n}") for n in range(free)),
        *(a_busy_node(f"b{n}") for n in range(busy)),
    ]
    decision = decision_on(a_state(*nodes), a_policy(a_pool(min_nodes=min(floor, len(nodes)))))
    works = free + busy
    assert decision.target == max(busy, min(works, floor))
    assert set(decision.candidates[:broken]) == {f"i-d{n}" for n in range(broken)}
