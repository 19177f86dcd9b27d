"""The bounds of a pool by overrides, with who has authority over whom; and which nodes are closed to new work."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Decision
from receiver.core.model.model import CordonedBy, Node, PoolState, Spend, Stage
from receiver.core.model.overrides import Override, overrides_in_force
from receiver.core.model.policy import Budget, Limits, Policy, Pool, Scope
from receiver.core.model.signals import SignalAction
from receiver.core.model.windows import Window
from receiver.core.money.budget import Budgets, BudgetStage, BudgetView
from receiver.core.scaling.bounds import bounds_of, lacks_price, to_close, to_open, why_closed
from receiver.core.scaling.node_holds import closed_by_a_budget
from tests.core.builders import (
    EVERY_SECOND,
    HOUR,
    HOUR_ENDS_SOON,
    HOURLY,
    MID_HOUR,
    NOW,
    a_busy_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_removal,
    a_signal,
    a_silence,
    a_state,
    an_override,
    decision_on,
    facts,
    rules,
    run,
    with_fields,
)
from tests.core.worlds import LAWS

NIGHT = Window(name="nights", max_nodes=0)
DAY = Window(name="days", min_nodes=3)


def decided(state: PoolState, *overrides: Override, policy: Policy | None = None, **given: Any) -> Decision:
    return decision_on(state, policy, overrides=overrides, **given)


def idle(count: int, **changes: Any) -> tuple[Node, ...]:
    """Idle nodes in the middle of their paid hour: nothing but an override removes them."""
    return tuple(a_node(f"n{n}", **{"created_at": MID_HOUR, **changes}) for n in range(count))


def details(decision: Decision, rule: str) -> list[str]:
    return [r.detail for r in decision.reasons if r.rule == rule and r.detail]


# --- which one counts


@pytest.mark.parametrize(
    ("at", "holds"),
    [(-HOUR, True), (-HOUR - timedelta(seconds=1), False), (HOUR - timedelta(microseconds=1), True), (HOUR, False)],
)
def test_an_override_holds_from_its_first_moment_until_just_before_its_end(at: timedelta, holds: bool) -> None:
    assert an_override("pin", 3).holds(NOW + at) is holds


def test_of_several_of_one_kind_the_newest_counts() -> None:
    old = an_override("pin", 3, id="old")
    new = an_override("pin", 5, id="new", at=NOW - HOUR / 2, pool=None)
    assert overrides_in_force("l40s-id", [new, old], NOW).pin is new
    assert overrides_in_force("other-id", [new, old], NOW).pin is new


def test_when_the_newest_has_ended_an_older_one_counts_again() -> None:
    old = an_override("pin", 3, id="old")
    new = an_override("pin", 5, id="new", at=NOW - HOUR / 2, until=NOW)
    assert overrides_in_force("l40s-id", [old, new], NOW).pin is old


def test_an_override_of_another_pool_says_nothing() -> None:
    assert overrides_in_force("l40s-id", [an_override("pause", pool="h100-id")], NOW).all == ()


# --- bounds


@pytest.mark.parametrize(
    ("overrides", "windows", "expected"),
    [
        ([], [NIGHT], (0, 0, 0)),
        ([("pin", 3)], [], (3, 3, 0)),
        ([("pin", 3)], [NIGHT], (3, 3, 0)),
        ([("pin", 1)], [DAY], (1, 1, 0)),
        ([("pin", 99)], [], (8, 8, 0)),
        ([("pin", 3), ("ceiling", 1), ("floor", 5)], [], (3, 3, 0)),
        ([("ceiling", 2)], [], (1, 2, 2)),
        ([("ceiling", 0)], [], (0, 0, 0)),
        ([("ceiling", 4)], [NIGHT], (1, 4, 2)),
        ([("ceiling", 2)], [DAY], (2, 2, 2)),
        ([("ceiling", 99)], [NIGHT], (1, 8, 2)),
        ([("floor", 4)], [], (4, 8, 2)),
        ([("floor", 4)], [NIGHT], (4, 4, 0)),
        ([("floor", 2)], [DAY], (3, 8, 2)),
        ([("floor", 99)], [NIGHT], (8, 8, 0)),
        ([("ceiling", 2), ("floor", 4)], [], (2, 2, 2)),
        ([("pause", None), ("snooze", None)], [], (1, 8, 2)),
    ],
)
def test_the_bounds_that_overrides_and_windows_make(
    overrides: list[tuple[str, int | None]], windows: list[Window], expected: tuple[int, int, int]
) -> None:
    pool = a_pool(min_nodes=1, standby_nodes=2, windows=tuple(windows))
    found = bounds_of(pool, [an_override(kind, nodes) for kind, nodes in overrides], NOW)
    assert (found.min_nodes, found.max_nodes, found.standby_nodes) == expected


SAID = st.tuples(st.sampled_from(["pin", "floor", "ceiling"]), st.integers(0, 12))


@LAWS
@given(st.lists(SAID, max_size=4), st.integers(0, 8), st.integers(0, 8), st.none() | st.integers(0, 8))
def test_bounds_stay_in_order_and_below_the_pools_maximum_whatever_is_said(
    said: list[tuple[str, int]], most: int, least: int, night: int | None
) -> None:
    windows = () if night is None else (Window(name="night", max_nodes=night),)
    pool = a_pool(max_nodes=most, min_nodes=min(least, most), standby_nodes=1, windows=windows)
    overrides = [an_override(kind, n, id=str(i)) for i, (kind, n) in enumerate(said)]
    found = bounds_of(pool, overrides, NOW)
    assert 0 <= found.min_nodes <= found.max_nodes <= most
    assert found.standby_nodes <= found.max_nodes
    newest = dict(said)
    if "pin" in newest:
        assert found.min_nodes == found.max_nodes == min(newest["pin"], most)
    elif "ceiling" in newest:
        assert found.max_nodes == min(newest["ceiling"], most)
    elif "floor" in newest:
        assert found.min_nodes >= min(newest["floor"], most)


# --- growth


def test_a_floor_grows_an_idle_pool_and_says_who_wants_it_why_and_how_long() -> None:
    decision = decided(a_state(), an_override("floor", 2))
    assert decision.target == 2
    said = "floor of 2 nodes by alice until 2026-11-20 13:00 UTC: load test"
    assert details(decision, "override") == [said]
    assert details(decision, "floor") == [f"at least 2 nodes ({said})"]


def test_a_pin_opens_a_pool_that_a_window_closed() -> None:
    assert decided(a_state(), an_override("pin", 2), policy=a_policy(a_pool(windows=(NIGHT,)))).target == 2


def test_a_ceiling_opens_a_pool_that_a_window_closed_for_work_that_waits() -> None:
    policy = a_policy(a_pool(windows=(NIGHT,)))
    assert decided(a_state(), policy=policy, waiting=[a_pod()]).target == 0
    assert decided(a_state(), an_override("ceiling", 1), policy=policy, waiting=[a_pod()]).target == 1
    assert decided(a_state(), an_override("ceiling", 1), policy=policy).target == 0


# --- removal


@pytest.mark.parametrize("kind", ["pin", "ceiling"])
def test_idle_nodes_beyond_a_pin_or_ceiling_go_at_once(kind: str) -> None:
    decision = decided(a_state(*idle(3)), an_override(kind, 1))
    assert decision.target == 1
    said = f"{kind} of 1 node by alice until 2026-11-20 13:00 UTC: load test"
    assert details(decision, "override") == [said, f"n0, n1: {said}"]
    assert rules(decision, "wants") == ["override"]


def test_without_a_ceiling_the_same_nodes_stay() -> None:
    assert decided(a_state(*idle(3))).target == 3


def test_busy_protected_and_unready_nodes_beyond_a_pin_stay() -> None:
    stay = (a_busy_node("b"), a_node("p", protected=True), a_node("i", stage=Stage.INSTALLING, idle_since=None))
    assert decided(a_state(*stay), an_override("pin", 0)).target == 3


def test_a_node_that_waiting_work_would_use_stays_beyond_a_ceiling() -> None:
    assert decided(a_state(*idle(2)), an_override("ceiling", 0), waiting=[a_pod()]).target == 1


def test_a_spare_node_does_not_stay_beyond_a_ceiling() -> None:
    state = a_state(a_busy_node("b1"), a_busy_node("b2"), *idle(1))
    assert decided(state, an_override("ceiling", 2), policy=a_policy(a_pool(standby_nodes=1))).target == 2


def test_while_nodes_beyond_a_ceiling_go_work_that_does_not_fit_them_is_only_noted() -> None:
    pool = a_pool(resources={"nvidia.com/gpu": 2})
    two = a_pod("two", gpus=2)
    half_used = a_node("n", created_at=MID_HOUR, allocatable={"nvidia.com/gpu": 1})
    decision = decided(
        a_state(half_used, a_busy_node("b")), an_override("ceiling", 1), policy=a_policy(pool), waiting=[two]
    )
    assert decision.target == 1
    assert rules(decision, "wants") == ["override"]
    assert "demand" in rules(decision, "notes")


def test_the_nodes_that_are_on_their_way_out_stay_the_chosen_ones() -> None:
    early, late = a_node("n1", created_at=NOW - HOUR * 0.9), a_node("n2", created_at=MID_HOUR)
    going = a_removal("n2", from_count=2)
    decision = decided(a_state(early, late, open_action=going), an_override("ceiling", 1))
    assert decision.candidates == ("i-n2",)
    assert decided(a_state(early, late), an_override("ceiling", 1)).candidates == ("i-n1",)


@LAWS
@given(
    st.sampled_from(["pin", "ceiling"]),
    st.integers(0, 6),
    st.integers(0, 5),
    st.integers(0, 4),
    st.integers(0, 3),
    st.sampled_from([None, EVERY_SECOND]),
)
def test_a_pin_or_ceiling_leaves_exactly_as_many_as_it_says_or_as_may_not_go(
    kind: str, nodes: int, free: int, busy: int, kept: int, billing: Any
) -> None:
    """A focused law: nothing but the override and the nodes' own state decides, in the middle of a paid hour."""
    there = (
        *idle(free, idle_since=NOW),
        *(a_busy_node(f"b{n}", created_at=MID_HOUR) for n in range(busy)),
        *(a_node(f"k{n}", created_at=MID_HOUR, protected=True) for n in range(kept)),
    )
    policy = a_policy(**({"billing": billing} if billing else {}))
    decision = decided(a_state(*there), an_override(kind, nodes), policy=policy)
    left = max(nodes, busy + kept) if nodes < len(there) else nodes if kind == "pin" else len(there)
    assert decision.target == left


# --- pause and snooze


# --- when the answer changes


def test_a_decision_is_looked_at_again_when_an_override_ends_or_begins() -> None:
    assert decided(a_state(), an_override("pause")).reconsider_at == NOW + HOUR
    later = an_override("pause", at=NOW + HOUR / 2)
    assert decided(a_state(), later).reconsider_at == NOW + HOUR / 2


def test_an_override_that_is_over_is_neither_named_nor_waited_for() -> None:
    decision = decided(a_state(), an_override("pin", 3, until=NOW))
    assert (decision.target, decision.reconsider_at, details(decision, "override")) == (0, None, [])


# --- a workload's wish


def kept_node(until: datetime = NOW + HOUR, **changes: Any) -> Node:
    return a_node(created_at=HOUR_ENDS_SOON, **{"kept_until": until, "kept_for": "ml/train-0", **changes})


def test_a_node_that_a_workload_keeps_does_not_go_and_the_reason_says_until_when_and_for_whom() -> None:
    decision = decided(a_state(kept_node()))
    assert decision.target == 1
    assert details(decision, "keep_until") == ["n1 is kept until 2026-11-20 13:00 UTC for ml/train-0"]
    assert details(decision, "nothing_wanted") == ["1 idle node, kept because workloads asked for it"]
    assert decision.reconsider_at is not None
    assert decision.reconsider_at <= NOW + HOUR


def test_a_kept_node_goes_when_its_time_has_come() -> None:
    assert decided(a_state(kept_node(NOW))).target == 0


def test_a_kept_node_stays_beyond_a_ceiling() -> None:
    assert decided(a_state(kept_node()), an_override("ceiling", 0)).target == 1


def test_a_dead_node_is_not_kept() -> None:
    broken: dict[str, Any] = {"stage": Stage.BROKEN, "idle_since": None, "was_usable": True, "lost_at": HOUR_ENDS_SOON}
    assert decided(a_state(kept_node(**broken))).target == 0


def test_a_kept_node_goes_at_the_budgets_stop_line() -> None:
    assert decided(a_state(kept_node()), policy=a_policy(budget=BUDGET), spend=SPENT).target == 0


def test_a_kept_node_is_not_emptied() -> None:
    pool = a_pool(resources={"nvidia.com/gpu": 2})
    pods = [a_pod(n, node=n, evictable=True, owner="ReplicaSet/web") for n in ("n1", "n2")]
    nodes = [a_busy_node(p.name, pods=(p,), allocatable={"nvidia.com/gpu": 2}, created_at=HOUR_ENDS_SOON) for p in pods]
    kept = [with_fields(n, kept_until=NOW + HOUR) for n in nodes]
    assert decided(a_state(*nodes), policy=a_policy(pool)).target == 1
    assert decided(a_state(kept[0], nodes[1]), policy=a_policy(pool)).candidates == ("i-n2",)
    assert decided(a_state(*kept), policy=a_policy(pool)).target == 2


# --- who has more authority


BUDGET = Budget(monthly_usd=Decimal(100))
SPENT = Spend(month="2026-11", usd=Decimal(100))
# Two idle nodes at the end of their paid hour beside two busy ones: 4 nodes, of which 2 would go.
FOUR = (a_busy_node("b1"), a_busy_node("b2"), *idle(2, created_at=HOUR_ENDS_SOON))
# What each authority says, once so that the pool is to grow or to stay, once so that it is to shrink.
STOP: dict[str, Any] = {"budget": BUDGET, "spend": SPENT}
FREEZE: dict[str, Any] = {"signals": (a_signal(SignalAction.FREEZE),)}
SILENCE: dict[str, Any] = {"state": {"silence": a_silence(by="bob")}}
PAUSE: dict[str, Any] = {"overrides": (an_override("pause"),)}
WORK: dict[str, Any] = {"waiting": tuple(a_pod(f"w{n}") for n in range(9))}


def said(kind: str, nodes: int) -> dict[str, Any]:
    return {"overrides": (an_override(kind, nodes),)}


def pool_of(**changes: Any) -> dict[str, Any]:
    return {"pool": changes}


def window(**changes: Any) -> dict[str, Any]:
    return pool_of(windows=(Window(name="now", **changes),))


def of_all(*worlds: Mapping[str, Any]) -> int:
    """The target of a pool of FOUR when all of *worlds* is so at once."""
    merged: dict[str, Any] = {"overrides": (), "pool": {}, "state": {}}
    for world in worlds:
        for key, value in world.items():
            if key == "overrides":
                merged[key] += value
            elif key in ("pool", "state"):
                merged[key] = {**merged[key], **value}
            else:
                merged[key] = value
    pool: Pool = a_pool(**merged.pop("pool"))
    policy = Policy(
        pools=(pool,), billing=HOURLY, budget=merged.pop("budget", None), limits=merged.pop("limits", Limits())
    )
    return decided(a_state(*FOUR, **merged.pop("state")), *merged.pop("overrides"), policy=policy, **merged).target


MAXIMUM = pool_of(max_nodes=5)
LIMITS: dict[str, Any] = {"limits": Limits(max_gpus=5, max_removals_per_hour=1)}
# One row per pair that can disagree: the higher one, the lower one, and the nodes that are left.
AUTHORITY: list[tuple[str, str, list[Mapping[str, Any]], int]] = [
    ("budget stop", "freeze", [STOP, FREEZE], 2),
    ("budget stop", "silence", [STOP, SILENCE], 2),
    ("budget stop", "pause", [STOP, PAUSE], 2),
    ("budget stop", "pin", [STOP, said("pin", 6)], 2),
    ("budget stop", "ceiling", [STOP, said("ceiling", 6), WORK], 2),  # what waits cannot begin on the idle ones
    ("budget stop", "floor", [STOP, said("floor", 6)], 2),
    ("budget stop", "window", [STOP, window(min_nodes=6)], 2),
    ("max_nodes", "pin", [MAXIMUM, said("pin", 6)], 5),
    ("max_nodes", "ceiling", [MAXIMUM, said("ceiling", 6), WORK], 5),
    ("max_nodes", "floor", [MAXIMUM, said("floor", 6)], 5),
    ("max_nodes", "window", [MAXIMUM, window(min_nodes=6, max_nodes=6)], 5),
    ("limits", "pin", [LIMITS, said("pin", 6)], 5),
    ("limits", "ceiling", [LIMITS, said("ceiling", 2)], 3),
    ("limits", "floor", [LIMITS, said("floor", 6)], 5),
    ("limits", "window", [LIMITS, window(min_nodes=6)], 5),
    ("freeze", "pin", [FREEZE, said("pin", 6)], 4),
    ("freeze", "ceiling", [FREEZE, said("ceiling", 2)], 4),
    ("freeze", "floor", [FREEZE, said("floor", 6)], 4),
    ("freeze", "window", [FREEZE, window(min_nodes=6)], 4),
    ("silence", "pin", [SILENCE, said("pin", 6)], 4),
    ("silence", "ceiling", [SILENCE, said("ceiling", 2)], 4),
    ("silence", "floor", [SILENCE, said("floor", 6)], 4),
    ("silence", "window", [SILENCE, window(min_nodes=6)], 4),
    ("pause", "pin", [PAUSE, said("pin", 6)], 4),
    ("pause", "ceiling", [PAUSE, said("ceiling", 2)], 4),
    ("pause", "floor", [PAUSE, said("floor", 6)], 4),
    ("pause", "window", [PAUSE, window(min_nodes=6)], 4),
    ("pin", "ceiling", [said("pin", 6), said("ceiling", 5)], 6),
    ("pin", "floor", [said("pin", 3), said("floor", 6)], 3),
    ("pin", "window", [said("pin", 6), window(max_nodes=0)], 6),
    ("ceiling", "floor", [said("ceiling", 3), said("floor", 6)], 3),
    ("ceiling", "window", [said("ceiling", 3), window(min_nodes=6)], 3),
    ("floor", "window", [said("floor", 6), window(max_nodes=0)], 6),
]


@pytest.mark.parametrize(
    ("higher", "lower", "worlds", "left"), AUTHORITY, ids=lambda x: x if isinstance(x, str) else ""
)
def test_the_higher_authority_has_its_way(higher: str, lower: str, worlds: list[Mapping[str, Any]], left: int) -> None:
    assert of_all(*worlds) == left
    assert of_all(*worlds[1:]) != left


def test_every_pair_of_authorities_that_can_disagree_has_its_row() -> None:
    ranks = [
        ("budget stop",), ("max_nodes", "limits"), ("freeze", "silence", "pause"), ("pin",), ("ceiling",), ("floor",),
        ("window",),
    ]  # fmt: skip
    pairs = {(a, b) for high, low in combinations(ranks, 2) for a in high for b in low}
    # These two ranks only ever forbid, so they never disagree with each other; nor does the stop line, which is
    # bound by the hourly limit of removals.
    restrict = {(a, b) for a in ("max_nodes", "limits") for b in ("freeze", "silence", "pause")}
    restrict |= {("budget stop", "max_nodes"), ("budget stop", "limits")}
    assert {(higher, lower) for higher, lower, _, _ in AUTHORITY} == pairs - restrict


WHY = "cluster budget 2026-11"


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
        (WHY, a_node(), False),
        (None, a_node(), True),
        (None, a_node(closed_for=WHY), False),
        (WHY, a_node(hosts=("monitoring/prometheus-0",)), True),  # it stays open
    ],
)
def test_what_is_closed_takes_no_work_and_stays_so_while_nobody_can_tell(
    why: str | None, node: Node, takes: bool
) -> None:
    assert (closed_by_a_budget(node, why) is None) is takes


OPEN = a_node("open")
CLOSED = a_node("closed", closed_for=WHY, cordoned_by=CordonedBy.US)
LIFTED = a_node("lifted", closed_for=WHY)
OLDER = a_node("older", closed_for="cluster budget 2026-10", cordoned_by=CordonedBy.US)
GOING = a_node("going", cordoned_by=CordonedBy.US, cordoned_for="an-action")
THEIRS = a_node("theirs", cordoned_by=CordonedBy.SOMEONE)
UNREGISTERED = a_node("unregistered", registered=False)
DELETING = a_node("deleting", stage=Stage.DELETING)
HOSTS = a_node("hosts", hosts=("monitoring/prometheus-0",))
HOSTS_NOW = with_fields(CLOSED, name="hosts-now", hosts=("monitoring/prometheus-0",))
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
    calm, _ = run(facts(state, waiting=pods), a_policy(budget=BUDGET))
    held, _ = run(facts(state, waiting=pods, spend=SPENT), a_policy(budget=BUDGET))
    assert calm.pools["l40s-id"].nodes.needed == {"i-n1", "i-n2"}
    assert (held.pools["l40s-id"].nodes.needed, held.pools["l40s-id"].work.settled) == (frozenset(), ())
    assert set(held.pools["l40s-id"].work.refused) == {"ml/p0", "ml/p1", "ml/p2"}


def test_work_that_fits_another_pool_goes_there_when_its_own_pool_is_closed() -> None:
    one, two = a_pool("one", budget_usd=Decimal(1)), a_pool("two", price_usd_per_hour=Decimal(9))
    spend = Spend(month="2026-11", usd=Decimal(2), pools={"one-id": Decimal(2)})
    states = (a_state(a_node(), pool="one-id"), a_state(pool="two-id"))
    _, decisions = run(facts(*states, waiting=[a_pod()], spend=spend), a_policy(one, two, budget=BUDGET))
    assert (decisions["one"].target, decisions["two"].target) == (1, 1)


def test_an_idle_node_at_the_stop_goes_at_its_hours_end_although_work_waits() -> None:
    idle = a_node(created_at=NOW - timedelta(minutes=57), closed_for=WHY, cordoned_by=CordonedBy.US)
    state = a_state(idle, a_busy_node("n2"))
    _, decisions = run(facts(state, waiting=[a_pod()], spend=SPENT), a_policy(budget=BUDGET))
    assert (decisions["l40s"].target, decisions["l40s"].candidates) == (1, ("i-n1",))


def test_an_idle_node_at_the_stop_keeps_what_is_paid_of_its_hour() -> None:
    state = a_state(a_node(created_at=NOW - timedelta(minutes=30), closed_for=WHY, cordoned_by=CordonedBy.US))
    _, decisions = run(facts(state, waiting=[a_pod()], spend=SPENT), a_policy(budget=BUDGET))
    assert decisions["l40s"].target == 1


@pytest.mark.parametrize("seconds, left", [(9, 1), (10, 0)])
def test_where_seconds_are_billed_an_idle_node_at_the_stop_goes_after_the_safety_minimum(
    seconds: int, left: int
) -> None:
    state = a_state(a_node(idle_since=NOW - timedelta(seconds=seconds), closed_for=WHY, cordoned_by=CordonedBy.US))
    policy = a_policy(billing=EVERY_SECOND, budget=BUDGET)
    _, decisions = run(facts(state, spend=SPENT), policy)
    assert decisions["l40s"].target == left
    assert run(facts(state), policy)[1]["l40s"].target == 1
