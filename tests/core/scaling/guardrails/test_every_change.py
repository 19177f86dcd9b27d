"""The guardrails that hold growth and removal, and each of all of them at its limit.

A rule's tests say what it lets through, what it holds and until when, and its remedies. A rule that leaves all that is
wanted does not say that it limited it, and one that does not apply stays silent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Change, Decision
from receiver.core.model.model import Backoff, Drift, PoolState, Source, SourceState, Spend
from receiver.core.model.overrides import OverrideKind
from receiver.core.model.policy import Budget, Fallback, Limits, Policy
from receiver.core.model.signals import Signal, SignalAction
from receiver.core.money.budget import Refusal
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import case_of
from receiver.core.scaling.guardrails.limits import spend_is_known
from receiver.core.scaling.wanted import Allowed
from tests.core.builders import (
    AN_INSTANT,
    EVERY_SECOND,
    HOUR,
    HOUR_ENDS_SOON,
    MINUTE,
    NOW,
    SECOND,
    a_busy_node,
    a_due_node,
    a_growth,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_removal,
    a_signal,
    a_silence,
    a_state,
    all_up,
    an_override,
    decision_on,
    facts,
    growing,
    remedies,
    rules,
    run,
    shrinking,
)
from tests.core.scaling.guardrails.cases import IDLE, cut, held
from tests.core.scaling.tables import SILENT_SOURCES
from tests.core.worlds import LAWS

BY_THE_SECOND = a_policy(billing=EVERY_SECOND)
GROWN = a_state(last_grow_at=NOW - 10 * SECOND)
SHRUNK = a_state(IDLE, last_shrink_at=NOW - 4 * MINUTE)


def test_growth_waits_for_its_cooldown_and_is_decided_again_at_its_very_second() -> None:
    decision, end = growing(state=GROWN), NOW + 20 * SECOND
    said = held(decision, "cooled_down")
    assert said.detail == "cooldown.grow until 12:00:20 UTC"
    assert said.until == decision.reconsider_at == end
    assert remedies(decision, "cooled_down") == {"wait until the cooldown ends at 2026-11-20 12:00:20 UTC": end}
    assert growing(state=GROWN, at=end - AN_INSTANT).target == 0
    assert growing(state=GROWN, at=end).target == 1


def test_where_seconds_are_billed_removal_waits_for_its_cooldown() -> None:
    said = held(shrinking(BY_THE_SECOND, SHRUNK), "cooled_down")
    assert (said.detail, said.until) == ("cooldown.shrink until 12:01:00 UTC", NOW + MINUTE)
    assert shrinking(BY_THE_SECOND, SHRUNK, at=NOW + MINUTE).target == 0


def test_where_hours_are_billed_removal_has_none() -> None:
    assert shrinking(state=SHRUNK).target == 0


def test_each_direction_has_its_own_cooldown() -> None:
    assert growing(BY_THE_SECOND, a_state(last_shrink_at=NOW)).target == 1
    assert shrinking(BY_THE_SECOND, a_state(IDLE, last_grow_at=NOW)).target == 0


@pytest.mark.parametrize("kind", ["pin", "floor"])
def test_growth_to_what_a_person_asked_for_does_not_wait_for_the_cooldown(kind: str) -> None:
    assert decision_on(GROWN, overrides=(an_override(kind, 2),)).target == 2


def test_growth_beyond_what_a_person_asked_for_waits_for_the_cooldown() -> None:
    decision = growing(state=GROWN, pods=3, overrides=(an_override("floor", 1),))
    assert (decision.target, cut(decision, "cooled_down").until) == (1, NOW + 20 * SECOND)


def test_a_removal_down_to_a_ceiling_does_not_wait_for_the_cooldown_and_one_below_it_does() -> None:
    state = a_state(*(a_node(f"n{n}") for n in range(3)), last_shrink_at=NOW - 5 * SECOND)
    for most in (1, 2):
        assert decision_on(state, BY_THE_SECOND, overrides=(an_override("ceiling", most),)).target == most
    held(decision_on(state, BY_THE_SECOND), "cooled_down")


FAILED = Backoff(failures=2, until=NOW + MINUTE, reason="Civo is out of stock")


def test_what_failed_waits_and_the_reason_has_the_error_and_the_next_try() -> None:
    for decision in (
        growing(state=a_state(backoff=FAILED)),
        shrinking(state=a_state(IDLE, removal_backoff=FAILED)),
    ):
        said = held(decision, "not_backing_off")
        assert said.detail == "backing off until 2026-11-20 12:01:00 UTC after 2 failures: Civo is out of stock"
        assert said.until == NOW + MINUTE
        tried = "wait for the next attempt at 2026-11-20 12:01:00 UTC; the last error: Civo is out of stock"
        assert remedies(decision, "not_backing_off") == {tried: NOW + MINUTE}


def test_what_failed_is_tried_again_when_the_back_off_ends() -> None:
    for at, tried in ((NOW + MINUTE - AN_INSTANT, False), (NOW + MINUTE, True)):
        assert (growing(state=a_state(backoff=FAILED), at=at).target == 1) is tried
        assert (shrinking(state=a_state(IDLE, removal_backoff=FAILED), at=at).target == 0) is tried


def test_growth_and_removal_back_off_apart() -> None:
    assert growing(state=a_state(removal_backoff=FAILED)).target == 1
    assert shrinking(state=a_state(IDLE, backoff=FAILED)).target == 0


def test_a_node_that_refused_its_removal_stays_for_a_while_and_the_others_go() -> None:
    refused = replace(FAILED, reason="ml/web is protected", instances=("i-n1",))
    nodes = (a_node("n1", created_at=HOUR_ENDS_SOON), a_node("n2", created_at=HOUR_ENDS_SOON))
    assert shrinking(state=a_state(*nodes, removal_backoff=refused)).candidates == ("i-n2",)


def test_after_a_refusal_for_lack_of_stock_fewer_are_requested_at_once() -> None:
    decision = growing(state=a_state(refused=4, backoff=FAILED), pods=4)
    assert decision.target == 2
    said = cut(decision, "not_backing_off")
    assert said.detail == "Civo has just refused 4 nodes, so fewer are requested: Civo is out of stock"
    assert said.until == NOW + MINUTE
    held(growing(state=a_state(refused=1, backoff=FAILED), pods=4), "not_backing_off")


@pytest.mark.parametrize("pool", ["l40s-id", None], ids=["of the pool", "of every pool"])
def test_a_freeze_stops_growth_and_removal_until_its_alert_ends(pool: str | None) -> None:
    freeze = (a_signal(SignalAction.FREEZE, pool),)
    for decision in (growing(signals=freeze), shrinking(signals=freeze)):
        said = held(decision, "not_frozen")
        assert (said.detail, said.until) == ("alert Gpu-freeze is firing (action: freeze)", None)
        assert remedies(decision, "not_frozen") == {
            (
                "fix what alert Gpu-freeze reports (firing since 12:00 UTC),"
                " or silence it: amtool silence add alertname=Gpu-freeze"
            ): None
        }


@pytest.mark.parametrize(
    "signal",
    [a_signal(SignalAction.FREEZE, "other-id"), a_signal(SignalAction.HOLD)],
    ids=["a freeze of another pool", "an alert with another action"],
)
def test_no_signal_but_a_freeze_stops_growth_and_removal(signal: Signal) -> None:
    assert (growing(signals=(signal,)).target, shrinking(signals=(signal,)).target) == (1, 0)


PAUSE = an_override("pause")


def test_a_pause_stops_growth_and_removal_until_it_ends_and_the_reason_says_who_and_why() -> None:
    for decision in (growing(overrides=(PAUSE,)), shrinking(overrides=(PAUSE,))):
        said = held(decision, "not_paused")
        assert (said.detail, said.until) == ("pause by alice until 2026-11-20 13:00 UTC: load test", NOW + HOUR)
        end = (
            "wait until the pause of alice ends at 2026-11-20 13:00:00 UTC,"
            " or end it: gpu-autoscaler override end pause-1"
        )
        assert remedies(decision, "not_paused") == {end: NOW + HOUR}


def test_at_the_end_of_a_pause_the_pool_grows() -> None:
    assert growing(overrides=(PAUSE,)).reconsider_at == NOW + HOUR
    assert growing(overrides=(PAUSE,), at=NOW + HOUR - AN_INSTANT).target == 0
    assert growing(overrides=(PAUSE,), at=NOW + HOUR).target == 1


def test_a_pause_of_another_pool_stops_nothing() -> None:
    other = an_override("pause", pool="other-id")
    assert (growing(overrides=(other,)).target, shrinking(overrides=(other,)).target) == (1, 0)


def test_work_goes_to_another_pool_while_one_is_paused() -> None:
    policy = a_policy(a_pool(), a_pool("h100", price_usd_per_hour=Decimal(4)))
    found = facts(a_state(), a_state(pool="h100-id"), waiting=[a_pod()], overrides=(PAUSE,))
    _, decisions = run(found, policy)
    assert (decisions["l40s"].target, decisions["h100"].target) == (0, 1)


@LAWS
@given(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans())
def test_a_paused_pool_changes_nothing(waiting: int, there: int, pinned: bool, every_pool: bool) -> None:
    pause = an_override("pause", pool=None if every_pool else "l40s-id")
    more = (an_override("pin", 2),) if pinned else ()
    state = a_state(*(a_node(f"n{n}", created_at=HOUR_ENDS_SOON) for n in range(there)))
    work = [a_pod(f"p{n}") for n in range(waiting)]
    decision = decision_on(state, overrides=(pause, *more), waiting=work)
    assert decision.change is Change.HOLD
    if decision_on(state, overrides=more, waiting=work).change is not Change.HOLD:
        assert rules(decision, "holds") == ["not_paused"]


def test_a_silence_pauses_growth_until_it_ends_and_the_reason_says_whose_it_is() -> None:
    decision, end = growing(state=a_state(silence=a_silence())), NOW + 2 * HOUR
    said = held(decision, "not_silenced")
    assert said.detail == "silenced in Alertmanager by ops until 2026-11-20 14:00 UTC: new driver"
    assert said.until == decision.reconsider_at == end
    assert remedies(decision, "not_silenced") == {
        "wait until the silence of ops ends at 2026-11-20 14:00:00 UTC": end,
        "expire the silence: amtool silence expire s-1": None,
    }
    assert growing().target == 1


def test_a_silence_pauses_removal_too() -> None:
    assert held(shrinking(state=a_state(IDLE, silence=a_silence())), "not_silenced").until == NOW + 2 * HOUR
    assert shrinking().target == 0


def test_a_silence_keeps_no_empty_node_at_the_stop_of_a_budget() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100)))
    silenced = a_state(IDLE, silence=a_silence())
    assert shrinking(policy, silenced, spend=Spend(month="2026-11", usd=Decimal(100))).target == 0


def lowered(hours: Sequence[float] = (1, 2, 3)) -> tuple[Drift, ...]:
    """Another system lowered the count so many *hours* ago, after growth of ours."""
    return tuple(Drift(at=NOW - h * HOUR, from_count=2, to_count=1, undoes=True) for h in hours)


def raised(hours: Sequence[float] = (1, 2, 3)) -> tuple[Drift, ...]:
    """The same the other way, after removals of ours."""
    return tuple(Drift(at=NOW - h * HOUR, from_count=1, to_count=2, undoes=True) for h in hours)


def test_a_pool_does_not_change_the_way_that_another_system_keeps_reverting() -> None:
    growth, removal = growing(state=a_state(drifts=lowered())), shrinking(state=a_state(IDLE, drifts=raised()))
    for decision, what in ((growth, "lowered the count repeatedly after our growth"),
                           (removal, "raised the count repeatedly after our removals")):  # fmt: skip
        said = held(decision, "not_undone_by_others")
        assert said.detail == f"another system {what}: none before 2026-11-21 11:00 UTC"
        assert said.until == NOW + 23 * HOUR
        alone = "wait until 2026-11-21 11:00:00 UTC, and let only the autoscaler change the count at Civo"
        assert remedies(decision, "not_undone_by_others") == {alone: NOW + 23 * HOUR}


def test_a_reverted_change_is_tried_again_a_day_after_the_last_time() -> None:
    state, until = a_state(drifts=lowered()), NOW + 23 * HOUR
    assert growing(state=state).reconsider_at is not None
    assert growing(state=state, at=until - AN_INSTANT).target == 0
    assert growing(state=state, at=until).target == 1
    soon = a_state(IDLE, drifts=raised((23 + 59 / 60, 24, 25)))
    assert shrinking(state=soon).target == 1
    assert shrinking(state=soon, at=NOW + MINUTE).target == 0


def test_the_way_that_is_not_reverted_stays_open() -> None:
    assert shrinking(state=a_state(IDLE, drifts=lowered())).target == 0
    assert growing(state=a_state(drifts=raised())).target == 1


def test_a_change_that_was_reverted_twice_goes_on() -> None:
    assert growing(state=a_state(drifts=lowered((1, 2)))).target == 1


def test_work_goes_to_another_pool_while_one_is_reverted() -> None:
    policy = a_policy(a_pool(), a_pool("dear", price_usd_per_hour=Decimal(9)))
    found = facts(a_state(drifts=lowered()), a_state(pool="dear-id"), waiting=[a_pod()])
    _, decisions = run(found, policy)
    assert (decisions["l40s"].target, decisions["dear"].target) == (0, 1)


RETIRES, GROWS = a_removal("n1"), a_growth()
SINCE = "open since 2026-11-20 12:00:00 UTC"


def test_an_open_removal_holds_growth_and_an_open_growth_removal() -> None:
    growth, removal = growing(state=a_state(open_action=RETIRES)), shrinking(state=a_state(IDLE, open_action=GROWS))
    for decision, name in ((growth, "retire-1"), (removal, "grow-1")):
        said = held(decision, "one_change_at_a_time")
        assert (said.detail, said.until) == (f"action {name} is open", None)
        assert remedies(decision, "one_change_at_a_time") == {f"wait until action {name} ends, {SINCE}": None}


def test_an_action_that_fails_is_named_with_its_last_error() -> None:
    failing = replace(RETIRES, last_error="http_500")
    said = remedies(growing(state=a_state(open_action=failing)), "one_change_at_a_time")
    assert said == {f"wait until action retire-1 ends, {SINCE}; its last error: http_500": None}


def test_beside_an_open_action_more_of_the_same_goes_on() -> None:
    assert growing(state=a_state(open_action=GROWS), pods=2).target == 2
    assert shrinking(state=a_state(IDLE, open_action=RETIRES)).target == 0


@pytest.mark.parametrize("pods", [1, 2, 3])
def test_no_count_is_asked_for_while_one_is_still_to_fall(pods: int) -> None:
    """Two removed nodes are still counted. A lower count lets Civo choose a node at once, and an equal or higher one
    once its own count falls."""
    decision = growing(state=a_state(uncounted=2), pods=pods)
    assert decision.target == 0
    nodes = "1 node" if pods == 1 else f"{pods} nodes"
    detail = f"Civo still counts 2 removed nodes: the pool grows to {nodes} once its count has fallen"
    assert held(decision, "one_change_at_a_time").detail == detail
    assert any("no longer counts the removed nodes" in remedy for remedy in remedies(decision, "one_change_at_a_time"))


def test_a_removal_goes_on_while_civo_counts_removed_nodes() -> None:
    assert shrinking(state=a_state(IDLE, uncounted=2)).target == 0


BY_KUBERNETES = a_policy(fallback=Fallback.KUBERNETES)


def without(source: Source) -> Mapping[Source, SourceState]:
    """Every source answers but *source*, which was never asked."""
    return {s: state for s, state in all_up().items() if s is not source}


@pytest.mark.parametrize(("source", "grows", "shrinks"), SILENT_SOURCES, ids=[s[0].value for s in SILENT_SOURCES])
def test_a_silent_source_stops_what_the_table_says(source: Source, grows: bool, shrinks: bool) -> None:
    for sources in (all_up(source), without(source)):
        growth, removal = growing(sources=sources), shrinking(sources=sources)
        assert (growth.target == 1, removal.target == 0) == (grows, shrinks)
        for decision, happens in ((growth, grows), (removal, shrinks)):
            if not happens:
                assert held(decision, "sources_answer").until is None  # when a source answers again is not known


def test_with_fallback_kubernetes_pools_grow_while_prometheus_is_silent() -> None:
    assert growing(BY_KUBERNETES, sources=all_up(Source.PROMETHEUS)).target == 1
    blind = growing(BY_KUBERNETES, sources=all_up(Source.PROMETHEUS, Source.KUBERNETES))
    assert (
        held(blind, "sources_answer").detail == "no growth while neither Kubernetes nor Prometheus reports the demand"
    )


def test_an_alertmanager_that_was_not_configured_does_not_stop_removal() -> None:
    absent = SourceState(source=Source.ALERTMANAGER, up=False, configured=False)
    assert shrinking(sources={**all_up(), Source.ALERTMANAGER: absent}).target == 0


@pytest.mark.parametrize("source", [Source.KUBERNETES, Source.PROMETHEUS, Source.HEARTBEAT])
def test_no_other_source_may_be_left_out_of_the_configuration(source: Source) -> None:
    absent = SourceState(source=source, up=False, configured=False)
    held(shrinking(sources={**all_up(), source: absent}), "sources_answer")


def test_the_reason_names_the_source_and_what_it_answered() -> None:
    assert held(growing(sources=all_up(Source.CIVO)), "sources_answer").detail == "no change while civo: down"
    assert (
        held(shrinking(sources=all_up(Source.KUBERNETES)), "sources_answer").detail
        == "no removal while kubernetes: down"
    )
    unasked = "no removal while heartbeat: never asked"
    assert held(shrinking(sources=without(Source.HEARTBEAT)), "sources_answer").detail == unasked


def test_a_source_that_answers_nothing_is_named_without_an_answer() -> None:
    speechless = SourceState(source=Source.KUBERNETES, up=False)
    decision = shrinking(sources={**all_up(), Source.KUBERNETES: speechless})
    assert held(decision, "sources_answer").detail == "no removal while kubernetes: no answer"
    assert remedies(decision, "sources_answer") == {"wait until it answers again: kubernetes (no answer)": None}


def test_a_source_that_was_never_asked_is_named_by_the_reason_alone() -> None:
    decision = shrinking(sources=without(Source.HEARTBEAT))
    assert remedies(decision, "sources_answer") == {
        "wait until it answers again: no removal while heartbeat: never asked": None
    }


def test_no_change_waits_for_dcgm_or_for_a_source_that_is_not_configured() -> None:
    absent = SourceState(source=Source.ALERTMANAGER, up=False, configured=False)
    decision = shrinking(sources={**all_up(Source.KUBERNETES, Source.DCGM), Source.ALERTMANAGER: absent})
    assert remedies(decision, "sources_answer") == {"wait until it answers again: kubernetes (down)": None}


def test_growth_goes_on_when_the_source_answers_or_with_the_fallback() -> None:
    decision = growing(sources=all_up(Source.PROMETHEUS))
    assert (
        held(decision, "sources_answer").detail
        == "no growth while prometheus: down (fallback: kubernetes would allow it)"
    )
    assert remedies(decision, "sources_answer") == {
        "wait until it answers again: prometheus (down)": None,
        "set fallback: kubernetes in the configuration to let it grow without Prometheus": None,
    }


FOUR_IDLE = a_state(*(a_node(f"n{n}", created_at=HOUR_ENDS_SOON) for n in range(4)))


def limited(**limits: int) -> Policy:
    return a_policy(limits=Limits(**limits))


def test_growth_ends_at_max_gpus_and_only_a_removal_or_a_higher_one_helps() -> None:
    decision = growing(limited(max_gpus=2), pods=3)
    said = cut(decision, "within_limits")
    assert (decision.target, said.detail, said.until) == (2, "limits.max_gpus (2 GPUs) is used up", None)
    removal = "raise limits.max_gpus (now 2), or remove nodes of any pool"
    assert remedies(decision, "within_limits") == {removal: None}
    held(growing(limited(max_gpus=2), a_state(a_busy_node("n1"), a_busy_node("n2"))), "within_limits")
    assert growing(limited(max_gpus=3), pods=3).target == 3


def test_max_gpus_counts_all_pools_together() -> None:
    one, two = a_pool("one", labels={"kind": "1"}), a_pool("two", labels={"kind": "2"})
    pods = [a_pod("a", node_selector={"kind": "1"}), a_pod("b", node_selector={"kind": "2"})]
    found = facts(a_state(a_busy_node(), pool="one-id"), a_state(pool="two-id"), waiting=pods)
    _, decisions = run(found, a_policy(one, two, limits=Limits(max_gpus=2)))
    assert decisions["one"].target + decisions["two"].target == 2


def test_growth_per_hour_counts_what_was_bought_before() -> None:
    decision = growing(limited(max_growth_per_hour=5), pods=5, grown_last_hour=3)
    assert (decision.target, cut(decision, "within_limits").detail) == (
        2,
        "limits.max_growth_per_hour (5 nodes per hour) is used up",
    )
    hour = "wait at most an hour, or raise limits.max_growth_per_hour (now 5)"
    assert remedies(decision, "within_limits") == {hour: None}
    held(growing(limited(max_growth_per_hour=5), grown_last_hour=5), "within_limits")


def test_removals_per_hour_count_what_was_removed_before() -> None:
    decision = shrinking(limited(max_removals_per_hour=3), FOUR_IDLE, removed_last_hour=1)
    assert (decision.target, cut(decision, "within_limits").detail) == (
        2,
        "limits.max_removals_per_hour (3 nodes per hour) is used up",
    )
    assert remedies(decision, "within_limits") == {
        "wait at most an hour, or raise limits.max_removals_per_hour (now 3)": None
    }
    held(shrinking(limited(max_removals_per_hour=3), FOUR_IDLE, removed_last_hour=3), "within_limits")
    assert shrinking(limited(max_removals_per_hour=4), FOUR_IDLE).target == 0


def test_the_limits_of_one_direction_do_not_hold_the_other() -> None:
    assert growing(limited(max_removals_per_hour=0)).target == 1
    assert shrinking(limited(max_gpus=0, max_growth_per_hour=0)).target == 0


@pytest.mark.parametrize("limit", ["max_growth_per_hour", "max_removals_per_hour"])
def test_a_limit_per_hour_lets_go_an_hour_after_the_first_change(limit: str) -> None:
    known: dict[str, Any] = {"grown_last_hour": 2, "removed_last_hour": 2, "first_changed_at": NOW - 50 * MINUTE}
    grows = limit == "max_growth_per_hour"
    decision = growing(limited(**{limit: 2}), **known) if grows else shrinking(limited(**{limit: 2}), **known)
    assert held(decision, "within_limits").until == NOW - 50 * MINUTE + HOUR


@pytest.mark.parametrize("limit", ["max_growth_per_hour", "max_removals_per_hour"])
def test_that_moment_is_looked_at_where_the_other_direction_is_limited_too(limit: str) -> None:
    known: dict[str, Any] = {"grown_last_hour": 2, "removed_last_hour": 2, "first_changed_at": NOW - 50 * MINUTE}
    assert growing(limited(**{limit: 2}), **known).reconsider_at == NOW + 10 * MINUTE
    assert growing(**known).reconsider_at is None


BACKOFF = Backoff(failures=1, until=NOW + MINUTE, reason="out of stock")
TRIAL = replace(BACKOFF, until=NOW)
STOPPED = Spend(month="2026-11", usd=Decimal(100))


def idle(nodes: int = 1, **changes: Any) -> PoolState:
    """A pool whose nodes are all due."""
    return a_state(*(a_due_node(f"n{n}") for n in range(nodes)), **changes)


def outcome(decision: Decision) -> tuple[str, int]:
    """The rule that settled it, and by how many nodes the pool changes."""
    return decision.deciding.rule, decision.target - decision.present


LIMITED_TO_3 = a_policy(limits=Limits(max_removals_per_hour=3))

JUST_ENOUGH = {
    "removals per hour": lambda: shrinking(LIMITED_TO_3, idle(3)),
    "more removals per hour": lambda: shrinking(LIMITED_TO_3, idle(2)),
    "growth per hour": lambda: growing(a_policy(limits=Limits(max_growth_per_hour=2)), pods=2),
    "the budget": lambda: growing(a_policy(budget=Budget(monthly_usd=Decimal("1.29"), hold_at=Decimal(1)))),
    "the maximum": lambda: growing(a_policy(a_pool(max_nodes=2)), pods=2),
    "the one node on trial": lambda: growing(state=a_state(a_busy_node(), provisioning=TRIAL)),
    "fewer nodes than Civo refused": lambda: growing(state=a_state(backoff=BACKOFF, refused=3), pods=2),
    "a floor during the cooldown": lambda: growing(
        state=a_state(last_grow_at=NOW), overrides=(an_override(OverrideKind.FLOOR, 1),), pods=0
    ),
    "a ceiling during the cooldown": lambda: shrinking(
        BY_THE_SECOND, idle(2, last_shrink_at=NOW), overrides=(an_override(OverrideKind.CEILING, 0),)
    ),
    "a pause at the stop of the budget": lambda: shrinking(
        a_policy(budget=Budget(monthly_usd=Decimal(100))),
        idle(2),
        spend=STOPPED,
        overrides=(an_override(OverrideKind.PAUSE),),
    ),
}


@pytest.mark.parametrize("name", JUST_ENOUGH)
def test_what_just_suffices_is_not_limited_by(name: str) -> None:
    decision: Decision = JUST_ENOUGH[name]()
    assert decision.target != decision.present
    assert rules(decision, "limits", "holds") == []


def test_only_a_floor_that_a_person_set_ends_the_cooldown() -> None:
    decision = growing(a_policy(a_pool(min_nodes=2)), a_state(last_grow_at=NOW), pods=0)
    assert outcome(decision) == ("cooled_down", 0)


def test_only_a_ceiling_that_a_person_set_ends_the_cooldown() -> None:
    policy = a_policy(a_pool(max_nodes=1), billing=EVERY_SECOND)
    assert outcome(shrinking(policy, idle(2, last_shrink_at=NOW))) == ("cooled_down", 0)


def test_a_removal_backs_off_although_fewer_nodes_might_be_bought() -> None:
    state = idle(removal_backoff=BACKOFF, backoff=BACKOFF, refused=3)
    assert outcome(shrinking(state=state)) == ("not_backing_off", 0)


def test_only_alertmanager_may_be_left_out_of_the_configuration() -> None:
    absent = SourceState(source=Source.KUBERNETES, up=False, at=NOW, configured=False)
    assert outcome(shrinking(sources={**all_up(), Source.KUBERNETES: absent})) == ("sources_answer", 0)


def test_an_alertmanager_that_was_never_asked_is_not_left_out() -> None:
    known = {source: state for source, state in all_up().items() if source is not Source.ALERTMANAGER}
    assert outcome(shrinking(sources=known)) == ("sources_answer", 0)


POLICY = a_policy(budget=Budget(monthly_usd=Decimal(1)))
REFUSING = facts(a_state(), waiting=[a_pod()])


@pytest.mark.parametrize(
    ("unknown", "left", "holds"),
    [
        pytest.param([True], 0, True, id="the only one is unknown"),
        pytest.param([True, True], 0, True, id="all are unknown"),
        pytest.param([True, False], 0, False, id="another one is known and does not cover the node either"),
        pytest.param([True], 1, False, id="a node is covered"),
        pytest.param([False], 0, False, id="it is known"),
    ],
)
def test_unknown_spend_of_one_budget_holds_what_only_that_refuses(unknown: list[bool], left: int, holds: bool) -> None:
    wanted = assign(REFUSING, POLICY).pools["l40s-id"]
    [refusal] = wanted.money.uncovered
    views = [replace(refusal.view, unknown="no answer" if x else "") for x in unknown]
    funding = replace(wanted.money, uncovered=tuple(Refusal(view=view) for view in views))
    wanted = replace(wanted, money=funding, allowed=Allowed(budget=left))
    held = spend_is_known(1, case_of(REFUSING.pools[0], wanted, REFUSING, POLICY))
    assert (held is not None) is holds
    if held is not None:
        assert held.because == funding.uncovered


def test_unknown_spend_of_the_month_holds_growth_that_no_budget_refuses() -> None:
    found = facts(a_state(), waiting=[a_pod()], spend=Spend(month="2026-11", usd=Decimal(0), unknown="no answer"))
    _, decisions = run(found, a_policy())
    assert outcome(decisions["l40s"]) == ("spend_is_known", 0)
