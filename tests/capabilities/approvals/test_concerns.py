"""What a pool's page and messages say of requests that stand, and whom they wake."""

from dataclasses import replace
from decimal import Decimal

import pytest

from receiver.core.model.overrides import Answer
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Approval, Unanswered
from receiver.core.notices.notice import Level, Severity
from receiver.core.notices.routing import Route
from tests.capabilities.approvals.messages import asks_to_grow
from tests.core.builders import a_node, a_pod, a_policy, a_pool, a_question, a_state, facts
from tests.core.notices.scene import concerns_of
from tests.core.notices.scene import training as jobs


def test_an_open_approval_request_says_until_when_and_how_to_answer() -> None:
    known = facts(a_state(a_node()), questions=(a_question("i-n1"),))
    [concern] = [c for c in concerns_of(known) if c.kind == "question"]
    assert (concern.what, concern.question) == ("waits for an approval", "q1")
    assert "gpu-autoscaler approvals approve q1" in concern.todo


def test_growth_that_a_person_rejected_is_shown_while_work_waits_for_it() -> None:
    rejected = a_question(to_count=3, answer=Answer.REJECT, who="alice")
    policy = a_policy(a_pool(approval=Approval(growth_above_usd_per_hour=Decimal(1))))
    known = facts(a_state(), waiting=[a_pod()], questions=(rejected,))
    [concern] = concerns_of(known, policy)
    assert (concern.level, concern.what) == (Level.BAD, "does not grow: a person rejected further growth")
    assert "alice rejected: grow the pool from 0 to 3 nodes" in concern.why
    assert "gpu-autoscaler override set l40s --min 3" in concern.todo
    assert concerns_of(replace(known, waiting=()), policy) == []
    unasked = a_policy(a_pool(approval=Approval(growth_above_usd_per_hour=Decimal(2))))
    assert concerns_of(known, unasked) == []  # so little growth needs no approval


def test_a_request_is_wrong_only_where_work_waits_for_its_answer() -> None:
    policy = a_policy(a_pool(approval=Approval(growth_above_usd_per_hour=Decimal(1))))
    known = facts(a_state(), questions=(a_question(),))
    assert [concern for concern in concerns_of(known, policy) if concern.kind == "question"] == []
    waits = concerns_of(replace(known, waiting=(a_pod(),)), policy)
    assert [concern.level for concern in waits if concern.kind == "question"] == [Level.BAD]


@pytest.mark.parametrize(
    ("unanswered", "waiting", "wakes"),
    [
        pytest.param(Unanswered.HOLD, jobs(), True, id="work waits for the answer"),
        pytest.param(Unanswered.PROCEED, jobs(), False, id="it grows without an answer"),
        pytest.param(Unanswered.HOLD, (), False, id="nothing waits"),
    ],
)
def test_a_pager_hears_of_a_request_without_whose_answer_work_waits(
    unanswered: Unanswered, waiting: tuple[Pod, ...], wakes: bool
) -> None:
    assert Route(level=Severity.FAILURE).wants(asks_to_grow(unanswered, waiting=waiting)) is wakes
