"""The guardrail `approved`: what it lets through, what it holds and until when, and what would change that."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from receiver.capabilities.approvals.guardrail import APPROVED as GUARDRAIL
from receiver.capabilities.approvals.guardrail import AsksFirst, questions_of
from receiver.capabilities.approvals.notices import unanswered
from receiver.capabilities.approvals.sentences import sentence
from receiver.core.model.actions import Decision
from receiver.core.model.overrides import Answer, Asks
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Approval, Unanswered
from receiver.core.scaling.decide import case_of
from receiver.core.scaling.wanted import Assignment
from tests.capabilities.approvals.asking import APPROVED, HOLD
from tests.core.builders import (
    GPU,
    HOUR_ENDS_SOON,
    MINUTE,
    NOW,
    a_due_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_question,
    a_state,
    assigned,
    facts,
    growing,
    remedies,
    rules,
    run,
    shrinking,
    with_fields,
)
from tests.core.scaling.guardrails.cases import IDLE, cut, held

REMOVALS = a_policy(a_pool(approval=Approval(removals=True)))
GROWTH = a_policy(a_pool(approval=Approval(growth_above_usd_per_hour=Decimal(5))))


def test_an_idle_node_at_its_moment_waits_for_an_answer_and_the_reason_says_until_when_and_what_then() -> None:
    decision = shrinking(REMOVALS, questions=(a_question("i-n1"),))
    assert held(decision, "approved").detail == (
        "approval requested until 12:10 UTC: remove n1; without an answer it is removed"
    )
    assert remedies(decision, "approved") == {
        "approve it, from the message or with gpu-autoscaler approvals approve q1 --who YOU": None,
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
        "approve it, from the message or with gpu-autoscaler approvals approve q1 --who YOU": None
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


def test_an_unanswered_removal_is_decided_again_when_its_wait_ends() -> None:
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


def test_the_direction_without_approval_happens_unasked() -> None:
    assert shrinking(GROWTH).target == 0
    assert growing(REMOVALS, pods=6).target == 6


def test_people_are_asked_to_empty_nodes_that_work_and_to_remove_others() -> None:
    moves = a_pod("moves", phase=PodPhase.RUNNING, evictable=True, owner="ReplicaSet/web")
    stays = with_fields(moves, name="stays", evictable=False)
    pair = {"allocatable": {GPU: 2}, "idle_since": None}
    nodes = a_due_node("n1", pods=(moves,), **pair), a_due_node("n2", pods=(stays,), **pair)
    policy = a_policy(a_pool(resources={GPU: 2}, approval=Approval(removals=True)))
    for state, asks in ((a_state(*nodes), Asks.EMPTYING), (a_state(IDLE), Asks.REMOVAL)):
        asked = shrinking(policy, state).deciding.because
        assert isinstance(asked, AsksFirst)
        assert asked.asks == {asks}


def helps(request: AsksFirst) -> list[str]:
    """What would change the answer that rests on *request*."""
    say = GUARDRAIL.guardrail.say
    assert say is not None
    found, policy = facts(a_state()), a_policy()
    case = case_of(found.pools[0], assigned(found, policy).pools["l40s-id"], found, policy)
    return [text for text, _ in say(request, case)[1]]


def test_only_a_request_without_an_answer_can_be_approved_and_a_rejected_one_comes_again() -> None:
    open_one, rejected = a_question(), a_question(id="q2", answer=Answer.REJECT, answered_at=NOW)
    request = AsksFirst(nodes=(), asks={Asks.GROWTH}, questions=(open_one, rejected), at=NOW)
    remedies_of_both = helps(request)
    assert [text for text in remedies_of_both if "approve it" in text] == [
        f"approve it, from the message or with gpu-autoscaler approvals approve {open_one.id} --who YOU"
    ]
    assert [text for text in remedies_of_both if "new request" in text] != []
    assert not any("new request" in text for text in helps(replace(request, questions=(open_one,))))


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


def test_only_requests_about_its_pool_that_have_not_expired_concern_a_case() -> None:
    mine, of_others = a_question(), a_question(pool="a100-id")
    found = facts(a_state(), questions=(of_others, replace(mine, expires_at=NOW), mine))
    policy = a_policy()
    assert questions_of(case_of(found.pools[0], assigned(found, policy).pools["l40s-id"], found, policy)) == (mine,)


ASKS = a_pool("small", max_nodes=6, approval=Approval(growth_above_usd_per_hour=Decimal(4)))
ONE_WIDE = a_pool("wide", resources={GPU: 4}, price_usd_per_hour=4 * Decimal("1.29"), max_nodes=1)


def decided_for_small_work(pods: int) -> tuple[Assignment, dict[str, Decision]]:
    """What is assigned and decided where *pods* of one GPU each wait, and small nodes cost USD 4 an hour unasked."""
    waiting = [a_pod(f"p{n}") for n in range(pods)]
    return run(facts(a_state(pool="small-id"), a_state(pool="wide-id"), waiting=waiting), a_policy(ASKS, ONE_WIDE))


def test_nothing_is_kept_warm_for_work_that_waits_for_an_approval() -> None:
    assignment, decisions = decided_for_small_work(4)  # 4 nodes cost 5.16
    wanted = assignment.pools["small-id"]
    assert (decisions["small"].target, wanted.for_demand, wanted.by_source["headroom"]) == (0, 4, 0)
    assert wanted.headroom is None or wanted.headroom.asked == 0


def test_work_that_needs_no_approval_does_not_wait_for_that_of_its_headroom() -> None:
    assert decided_for_small_work(3)[1]["small"].target == 3  # 3.87; with headroom 6.45
