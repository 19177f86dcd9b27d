"""What growth without an answer may still bring: kept off what is left, once, and only until a look shows it."""

from decimal import Decimal

import pytest

from receiver.core.model.actions import Action, ActionKind, Outcome, OutcomeKind
from receiver.core.model.memory import PoolMemory
from receiver.core.model.policy import Budget
from receiver.core.money.budget import may_have_landed, unseen
from receiver.core.scaling.waits import drift
from tests.core.builders import NOW, SECOND, a_growth, a_node, a_pod, a_policy, a_state, facts, run


@pytest.mark.parametrize(
    ("action", "kind", "at", "unsure"),
    [
        (a_growth(1), OutcomeKind.FAILED, NOW, False),
        (a_growth(1, attempts=3), OutcomeKind.FAILED, NOW, True),
        (a_growth(1), OutcomeKind.WITHDRAWN, NOW + SECOND, True),
        (a_growth(1, attempts=1), OutcomeKind.CONFIRMED, NOW + SECOND, False),
        (a_growth(1, attempts=1), OutcomeKind.OBSERVED, NOW + SECOND, False),
        (a_growth(1, attempts=1, kind=ActionKind.RETIRE), OutcomeKind.WITHDRAWN, NOW + SECOND, False),
    ],
    ids=["refused at once", "tried before", "crashed or withdrawn", "confirmed", "observed", "a removal"],
)
def test_only_growth_that_may_have_been_sent_is_unanswered(
    action: Action, kind: OutcomeKind, at: object, unsure: bool
) -> None:
    assert may_have_landed(action, Outcome(kind=kind, at=at, detail="")) is unsure  # type: ignore[arg-type]


def test_counts_are_absolute_so_the_highest_of_several_is_kept() -> None:
    found = facts(a_state(a_node()), unanswered=(a_growth(4), a_growth(2)))
    assert unseen(found) == {"l40s-id": 3}


def test_what_a_look_has_shown_is_not_kept_beside_it() -> None:
    found = facts(a_state(a_node("n1"), a_node("n2")), unanswered=(a_growth(2),))
    assert unseen(found) == {}


@pytest.mark.parametrize(("usd", "target"), [("2.58", 2), ("3.86", 2), ("3.87", 3)])
def test_the_same_request_again_costs_nothing_more_and_every_node_beyond_it_does(usd: str, target: int) -> None:
    """USD 2.58 are kept for the growth to two; of three wanted nodes the third needs USD 1.29 of its own."""
    waiting = [a_pod(f"p{n}") for n in range(3)]
    found = facts(a_state(), waiting=waiting, unanswered=(a_growth(2),))
    assert run(found, a_policy(budget=Budget(monthly_usd=Decimal(usd))))[1]["l40s"].target == target


def test_a_count_that_unanswered_growth_explains_is_no_drift() -> None:
    past = PoolMemory(required=1, required_since=NOW)
    assert drift(past, 3, NOW, 3) is None
    assert drift(past, 4, NOW, 3) is not None
