"""What a decision notes without being moved by it, and nodes that could go and do not delay the others."""

from dataclasses import replace

import pytest

from receiver.core.model.model import Backoff, Source, Stage
from receiver.core.model.overrides import Answer
from receiver.core.model.pods import PodPhase
from receiver.core.model.signals import SignalAction
from receiver.core.model.windows import Window
from receiver.core.scaling.bounds import topic_of
from receiver.core.scaling.guardrails import GUARDRAILS
from tests.core.builders import (
    GPU,
    MINUTE,
    NOW,
    a_busy_node,
    a_due_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_question,
    a_signal,
    a_state,
    all_up,
    facts,
    growing,
    rules,
    run,
)

LOST = a_node(
    "lost",
    stage=Stage.BROKEN,
    allocatable={},
    idle_since=None,
    was_usable=True,
    created_at=NOW - 21 * MINUTE,
    lost_at=NOW - 21 * MINUTE,
)
REFUSED = Backoff(failures=1, until=NOW + MINUTE, reason="http_403")


def test_dead_nodes_that_cannot_go_now_do_not_delay_new_ones_and_are_no_candidates() -> None:
    pool = a_pool(resources={GPU: 2})
    state = a_state(LOST, a_due_node("small"), removal_backoff=REFUSED)
    decision = run(facts(state, waiting=[a_pod("p", 2)]), a_policy(pool))[1]["l40s"]
    assert (decision.deciding.rule, decision.target - decision.present) == ("demand", 1)
    assert decision.candidates == ("i-small",)


def test_dead_nodes_that_cannot_go_now_are_kept_by_that_rule_where_nothing_waits() -> None:
    decision = run(facts(a_state(LOST, removal_backoff=REFUSED)), a_policy())[1]["l40s"]
    assert (decision.deciding.rule, decision.target - decision.present) == ("not_backing_off", 0)
    assert decision.candidates == ("i-lost",)


def test_an_alert_that_stops_a_change_is_no_note() -> None:
    held = growing(signals=(a_signal(SignalAction.PAUSE_SCALE_UP), a_signal(SignalAction.SCALE_UP)))
    assert rules(held, "notes") == ["scale_up"]


def test_a_busy_node_that_a_workload_keeps_is_not_noted() -> None:
    until = NOW + MINUTE
    kept, busy = a_node(kept_until=until), a_busy_node("n2", kept_until=until)
    decision = run(facts(a_state(kept, busy)), a_policy())[1]["l40s"]
    assert [[n.name for n in r.because] for r in decision.reasons if r.rule == "keep_until"] == [["n1"]]
    assert "keep_until" not in rules(run(facts(a_state(busy)), a_policy())[1]["l40s"], "notes")


@pytest.mark.parametrize(("busy", "noted"), [(1, False), (2, True)])
def test_a_window_that_evicts_is_noted_where_more_nodes_work_than_it_allows(busy: int, noted: bool) -> None:
    night = Window(name="night", times=((11 * 60, 13 * 60),), max_nodes=1, evict_after=30 * MINUTE)
    pool = a_pool(windows=(night,))
    state = a_state(
        *(
            a_node(f"n{n}", idle_since=None, pods=(a_pod(f"p{n}", phase=PodPhase.RUNNING, owner="ReplicaSet/web"),))
            for n in range(busy)
        )
    )
    found = facts(state, told_to_go={topic_of(night, pool): NOW - MINUTE})
    assert ("evict_after" in rules(run(found, a_policy(pool))[1]["l40s"], "notes")) is noted


ASKED = a_question("i-n1")


@pytest.mark.parametrize(
    ("question", "noted"),
    [
        pytest.param(ASKED, True, id="open"),
        pytest.param(replace(ASKED, answer=Answer.APPROVE, answered_at=NOW), True, id="answered"),
        pytest.param(replace(ASKED, done_at=NOW), False, id="nothing is left of it"),
        pytest.param(replace(ASKED, asked_at=NOW + MINUTE), False, id="asked under a clock that was ahead"),
    ],
)
def test_a_question_is_noted_while_it_stands(question: object, noted: bool) -> None:
    decision = run(facts(a_state(a_node()), questions=(question,)), a_policy())[1]["l40s"]
    assert ("question" in rules(decision, "notes")) is noted


def test_no_rule_holds_a_size_that_stays_as_it_is() -> None:
    decision = run(facts(a_state(a_busy_node()), sources=all_up(Source.CIVO)), a_policy())[1]["l40s"]
    assert rules(decision, "holds", "limits") == []
    assert rules(decision, "notes") == ["nothing_wanted"]
    assert rules(decision, "allows") == [guardrail.__name__ for guardrail in GUARDRAILS]


def test_where_work_waits_that_gets_no_node_nothing_wanted_is_not_said() -> None:
    gang = [a_pod("g1", gang="ml/g", gang_min=2)]
    decision = run(facts(a_state(), waiting=gang), a_policy())[1]["l40s"]
    assert rules(decision, "notes") == ["gang_is_complete"]
