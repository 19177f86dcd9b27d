"""approved: where the policy asks for it, people approve removals, and growth that costs much."""

from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.overrides import Answer, Asks, sentence
from receiver.core.model.policy import Approval, Unanswered
from receiver.core.notices.people_notices import unanswered
from tests.core.builders import (
    HOUR_ENDS_SOON,
    MINUTE,
    NOW,
    a_node,
    a_policy,
    a_pool,
    a_question,
    a_state,
    growing,
    remedies,
    shrinking,
)
from tests.core.scaling.guardrails.cases import cut, held

APPROVED = {"answer": Answer.APPROVE, "who": "alice", "answered_at": NOW}
HOLD = Unanswered.HOLD
REMOVALS = a_policy(a_pool(approval=Approval(removals=True)))
GROWTH = a_policy(a_pool(approval=Approval(growth_above_usd_per_hour=Decimal(5))))


def test_an_idle_node_at_its_moment_waits_for_an_answer_and_the_reason_says_until_when_and_what_then() -> None:
    decision = shrinking(REMOVALS, questions=(a_question("i-n1"),))
    assert held(decision, "approved").detail == (
        "approval requested until 12:10 UTC: remove n1; without an answer it is removed"
    )
    assert remedies(decision, "approved") == {
        "approve it, from the message or with gpu-autoscaler answer q1 approve --who YOU": None,
        "wait until 2026-11-20 12:10:00 UTC: without an answer it proceeds then": NOW + 10 * MINUTE,
    }


@pytest.mark.parametrize("unanswered_is", [HOLD, Unanswered.PROCEED])
def test_the_message_and_the_reason_name_the_same_deadline(unanswered_is: Unanswered) -> None:
    question = a_question("i-n1", unanswered=unanswered_is)
    by = f"{question.deadline:%H:%M} UTC"
    assert f"Without an answer by {by}" in unanswered(question)
    assert f"requested until {by}" in sentence(question, NOW)


def test_where_an_answer_is_needed_its_absence_lets_nothing_go() -> None:
    decision = shrinking(REMOVALS, questions=(a_question("i-n1", unanswered=HOLD),))
    assert remedies(decision, "approved") == {
        "approve it, from the message or with gpu-autoscaler answer q1 approve --who YOU": None
    }


@pytest.mark.parametrize(
    ("changes", "goes"),
    [
        pytest.param(APPROVED, True, id="approved"),
        pytest.param({"answer": Answer.PIN, "who": "alice"}, False, id="answered otherwise"),
        pytest.param({"answer": Answer.PIN, "who": "alice", "wait_ends": NOW}, False, id="answered otherwise in time"),
        pytest.param({}, False, id="open"),
        pytest.param({"wait_ends": NOW}, True, id="not answered in time"),
        pytest.param({"wait_ends": NOW, "unanswered": HOLD}, False, id="not answered, and that is not enough"),
        pytest.param({**APPROVED, "expires_at": NOW}, False, id="approved, and over"),
        pytest.param({**APPROVED, "asked_at": NOW + MINUTE}, False, id="asked under a clock that was ahead"),
        pytest.param({**APPROVED, "asks": Asks.EMPTYING}, True, id="approved while it was busy"),
        pytest.param({**APPROVED, "instances": ("i-n2",)}, False, id="about another node"),
        pytest.param({**APPROVED, "pool": "a100-id"}, False, id="about another pool"),
    ],
)
def test_an_idle_node_goes_when_an_answer_or_the_want_of_one_lets_it(changes: dict[str, Any], goes: bool) -> None:
    assert shrinking(REMOVALS, questions=(a_question("i-n1", **changes),)).target == (0 if goes else 1)


def test_it_is_decided_again_when_the_wait_ends() -> None:
    question = a_question("i-n1", wait_ends=NOW + MINUTE)
    assert shrinking(REMOVALS, questions=(question,)).reconsider_at == NOW + MINUTE
    assert shrinking(REMOVALS, questions=(question,), at=NOW + MINUTE).target == 0


def test_a_node_that_waits_for_an_answer_keeps_no_other_node() -> None:
    first, second = a_node("n1", created_at=HOUR_ENDS_SOON), a_node("n2", created_at=HOUR_ENDS_SOON + MINUTE)
    decision = shrinking(REMOVALS, a_state(first, second), questions=(a_question("i-n2", **APPROVED),))
    assert (decision.target, decision.candidates) == (1, ("i-n2", "i-n1"))
    cut(decision, "approved")


def test_growth_waits_when_its_new_nodes_cost_more_an_hour_than_the_policy_says() -> None:
    assert growing(GROWTH, pods=3).target == 3  # USD 3.87
    decision = growing(GROWTH, pods=4)  # USD 5.16
    detail = "growth of this cost: an approval is needed and not requested yet"
    assert held(decision, "approved").detail == detail
    assert remedies(decision, "approved") == {f"approve it once the approval is requested: {detail}": None}


@pytest.mark.parametrize(
    ("questions", "target"),
    [
        ((a_question(to_count=6, **APPROVED),), 6),
        ((a_question(to_count=8, **APPROVED),), 6),
        ((a_question(to_count=4, **APPROVED),), 4),
        ((a_question(to_count=6, wait_ends=NOW),), 6),
        ((a_question(to_count=6, wait_ends=NOW, unanswered=HOLD),), 0),
        ((a_question(to_count=6, done_at=NOW, **APPROVED),), 0),
        ((a_question(to_count=4, **APPROVED), a_question(to_count=6, id="q2")), 4),
    ],
)
def test_growth_comes_as_far_as_an_answer_lets_it_and_once(questions: tuple[Any, ...], target: int) -> None:
    assert growing(GROWTH, pods=6, questions=questions).target == target


def test_the_other_direction_happens_unasked() -> None:
    assert shrinking(GROWTH).target == 0
    assert growing(REMOVALS, pods=6).target == 6
