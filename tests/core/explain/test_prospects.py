"""When the first node may go: the sentence names the earliest moment that every guardrail allows."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.explain.prospects import first_act, first_removal
from receiver.core.explain.rules import sentence
from receiver.core.model.actions import Change, Decision
from receiver.core.model.model import Backoff, CordonedBy, Drift, Facts, Node, Source
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.policy import Limits, Policy
from receiver.core.model.signals import SignalAction
from receiver.core.model.windows import Window
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import case_of
from tests.core.builders import (
    EVERY_SECOND,
    HOUR,
    MINUTE,
    NOW,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_signal,
    a_silence,
    a_state,
    all_up,
    an_override,
    facts,
    run,
)
from tests.core.worlds import LAWS

GONE_AT = NOW + 35 * MINUTE  # five minutes before the paid hours of the nodes end
TOMORROW = NOW + timedelta(hours=22, minutes=10)
STOPPED = Backoff(failures=1, until=TOMORROW, reason="Civo replaced a removed node: 2 nodes where 1 were left")


def said(*nodes: Node, policy: Policy | None = None, found: dict[str, Any] | None = None, **state: Any) -> str:
    """What the decision says of a pool that wants no other size; its nodes' paid hours end at 12:40."""
    nodes = nodes or (a_node("n1"), a_node("n2"))
    decision = run(facts(a_state(*nodes, **state), **(found or {})), policy or a_policy())[1]["l40s"]
    [reason] = [r for r in decision.reasons if r.rule == "nothing_wanted"]
    return reason.detail


def a_word(kind: OverrideKind, until: datetime, **changes: Any) -> Override:
    return an_override(kind, **{"at": NOW, "until": until, **changes})


def test_without_a_hold_it_is_the_margin_before_the_next_paid_hour() -> None:
    assert said() == "2 idle nodes, paid for; the first can be removed at 12:35:00 UTC"


def test_beside_a_removal_stop_it_is_the_first_paid_hours_end_after_the_stop() -> None:
    text = said(removal_backoff=STOPPED)
    assert text.startswith(
        "2 idle nodes, paid for; the first can be removed at 2026-11-21 10:35:00 UTC (backing off until"
    )


@pytest.mark.parametrize(
    ("until", "at"),
    [
        pytest.param(NOW + 20 * MINUTE, "12:35:00 UTC", id="it ends before the paid hour does"),
        pytest.param(NOW + 37 * MINUTE, "12:37:00 UTC", id="within the margin"),
        pytest.param(NOW + 50 * MINUTE, "13:35:00 UTC", id="in the next paid hour"),
    ],
)
@pytest.mark.parametrize("kind", [OverrideKind.SNOOZE, OverrideKind.PAUSE])
def test_a_persons_word_is_waited_for(kind: OverrideKind, until: datetime, at: str) -> None:
    assert f"the first can be removed at {at}" in said(found={"overrides": (a_word(kind, until),)})


def test_a_word_that_begins_before_the_moment_is_waited_for_as_well() -> None:
    later = a_word(OverrideKind.SNOOZE, NOW + 2 * HOUR, at=NOW + 30 * MINUTE)
    assert "the first can be removed at 14:35:00 UTC (snooze" in said(found={"overrides": (later,)})


def test_a_silence_is_waited_for() -> None:
    assert "the first can be removed at 14:35:00 UTC (" in said(silence=a_silence(until=NOW + 2 * HOUR))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        pytest.param(
            {"signals": (a_signal(SignalAction.FREEZE),)}, "alert Gpu-freeze is firing (action: freeze)", id="freeze"
        ),
        pytest.param({"sources": all_up(Source.ALERTMANAGER)}, "no removal while alertmanager: down", id="silent"),
    ],
)
def test_what_ends_at_no_known_time_is_named(found: dict[str, Any], why: str) -> None:
    assert said(found=found) == f"2 idle nodes, paid for; none can be removed: {why}"


def test_the_pools_own_floor_and_its_spare_nodes_are_named() -> None:
    assert said(policy=a_policy(a_pool(min_nodes=2))).endswith("none can be removed: at least 2 nodes")
    assert said(policy=a_policy(a_pool(standby_nodes=2))).endswith("none can be removed: 2 spare nodes kept ready")


def test_a_window_that_raises_the_floor_is_waited_for() -> None:
    day = Window(name="day", times=((11 * 60, 15 * 60),), min_nodes=2)
    assert "the first can be removed at 15:35:00 UTC (at least 2 nodes (window day))" in said(
        policy=a_policy(a_pool(windows=(day,)))
    )


def test_removals_per_hour_are_waited_for() -> None:
    found = {"removed_last_hour": 1, "first_changed_at": NOW - 10 * MINUTE}
    text = said(policy=a_policy(limits=Limits(max_removals_per_hour=1)), found=found)
    assert (
        "the first can be removed at 12:50:00 UTC (limits.max_removals_per_hour (1 node per hour) is used up)"
        not in text
    )
    assert (
        "the first can be removed at 13:35:00 UTC (limits.max_removals_per_hour (1 node per hour) is used up)" in text
    )


def test_by_the_second_it_is_when_the_node_has_been_idle_for_long_enough() -> None:
    node = a_node("n1", idle_since=NOW - 4 * MINUTE)
    policy = a_policy(billing=EVERY_SECOND)
    assert said(node, policy=policy) == "1 idle node; the first can be removed at 12:06:00 UTC"
    assert "the first can be removed at 12:30:00 UTC (snooze" in said(
        node, policy=policy, found={"overrides": (a_word(OverrideKind.SNOOZE, NOW + 30 * MINUTE),)}
    )


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"protected": True}, "it is protected"),
        ({"cordoned_by": CordonedBy.SOMEONE}, "someone else cordoned it"),
        ({"hosts": ("monitoring/prometheus-0",)}, "it hosts monitoring/prometheus-0"),
        (
            {"kept_by": ("default/debug has no controller that would start it again",)},
            "default/debug has no controller that would start it again",
        ),
        ({"unknown_since": NOW}, "its GPUs are in use without a pod"),
    ],
)
def test_what_keeps_the_only_idle_node_is_named_instead_of_a_moment(changes: dict[str, Any], why: str) -> None:
    assert said(a_node("n1", **changes)) == f"1 idle node: n1 stays: {why}"
    assert said(a_node("n1", **changes), a_node("n2")).endswith("the first can be removed at 12:35:00 UTC")


# --- what is promised comes true


def until(moments: st.SearchStrategy[int]) -> st.SearchStrategy[datetime]:
    return moments.map(lambda m: NOW + m * MINUTE)


AHEAD = until(st.integers(1, 1500))


@st.composite
def held_pools(draw: st.DrawFn) -> tuple[Facts, Policy]:
    """A pool whose nodes are all idle, and what may hold them for a while."""
    nodes = [
        a_node(
            f"n{n}",
            created_at=NOW - draw(st.integers(11, 200)) * MINUTE,
            idle_since=NOW - draw(st.integers(0, 10)) * MINUTE,
            kept_until=draw(st.none() | AHEAD),
        )
        for n in range(draw(st.integers(1, 3)))
    ]
    words = tuple(
        a_word(
            draw(st.sampled_from([OverrideKind.SNOOZE, OverrideKind.PAUSE, OverrideKind.FLOOR])),
            draw(AHEAD),
            id=f"o{n}",
            at=NOW - MINUTE + draw(st.sampled_from([0, 0, 20, 90])) * MINUTE,
            nodes=draw(st.integers(0, 3)),
            pool="l40s-id",
        )
        for n in range(draw(st.integers(0, 2)))
    )
    words = tuple(w if w.at < w.until else replace(w, at=NOW - MINUTE) for w in words)
    drifted = draw(st.booleans())
    drifts = tuple(Drift(at=NOW - n * HOUR, from_count=1, to_count=2, undoes=True) for n in (1, 2, 3))
    state = a_state(
        *nodes,
        silence=draw(st.none() | AHEAD.map(lambda at: a_silence(until=at))),
        removal_backoff=draw(st.none() | AHEAD.map(lambda at: replace(STOPPED, until=at))),
        drifts=drifts if drifted else (),
        last_shrink_at=draw(st.sampled_from([None, NOW - MINUTE])),
    )
    opens = draw(st.integers(0, 1380))
    window = Window(name="w", times=((opens, opens + draw(st.integers(5, 60))),), min_nodes=draw(st.integers(0, 3)))
    pool = a_pool(
        windows=draw(st.sampled_from([(), (window,)])),
        min_nodes=draw(st.sampled_from([0, 0, 1])),
        standby_nodes=draw(st.sampled_from([0, 0, 1])),
    )
    billing = draw(st.sampled_from([{}, {"billing": EVERY_SECOND}]))
    return facts(state, overrides=words), a_policy(pool, **billing)


def decided_at(at: datetime, found: Facts, policy: Policy) -> Decision:
    """The decision at *at* if nothing has happened since."""
    [state] = found.pools
    silence = state.silence if state.silence is not None and state.silence.until > at else None
    then = replace(found, at=at, pools=(replace(state, silence=silence),))
    return run(then, policy, explained_by=None)[1]["l40s"]


@LAWS
@given(held_pools())
def test_no_node_goes_before_the_moment_that_was_named_and_one_goes_then(world: tuple[Facts, Policy]) -> None:
    found, policy = world
    [state] = found.pools
    case = case_of(state, assign(found, policy).pools["l40s-id"], found, policy)
    named, _ = first_removal(state.nodes, case, sentence)
    at: datetime | None = found.at
    for _ in range(60):
        if at is None or (named is not None and at >= named):
            break
        decision = decided_at(at, found, policy)
        assert decision.change is not Change.SHRINK
        at = decision.reconsider_at
    if named is not None:
        assert decided_at(named, found, policy).change is Change.SHRINK


def would(*nodes: Node, at: datetime = NOW, **found: Any) -> str:
    """What act mode would do first at *at* for a pool with *nodes*."""
    policy, state = a_policy(), a_state(*nodes)
    given = facts(state, at=at, **found)
    assignment, decisions = run(given, policy)
    return first_act(decisions["l40s"], case_of(state, assignment.pools["l40s-id"], given, policy), sentence)


def test_act_mode_would_first_request_the_nodes_that_are_wanted() -> None:
    assert would(waiting=[a_pod("p"), a_pod("q")]) == "request 2 nodes in l40s (0 -> 2)"


def test_act_mode_would_remove_the_nodes_whose_moment_has_come_by_name() -> None:
    idle = (a_node("n1"), a_node("n2"))
    assert would(*idle, at=GONE_AT) == "cordon n1, n2 and remove them now"


def test_act_mode_would_remove_the_first_idle_node_when_its_paid_hour_ends() -> None:
    assert would(a_node("n1")) == "cordon n1 and remove it at 12:35:00 UTC"


def test_act_mode_would_do_nothing_while_every_node_works() -> None:
    assert would(a_node("n1", idle_since=None, pods=(a_pod("p", node="n1"),))) == ""
