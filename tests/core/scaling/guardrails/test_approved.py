"""approved: where the policy asks for it, people approve removals, and growth that costs much."""

from decimal import Decimal

from receiver.core.model.policy import Approval
from tests.core.builders import a_policy, a_pool, growing, outcome, remedies, shrinking

DEAR = a_policy(a_pool(approval=Approval(growth_above_usd_per_hour=Decimal(1))))
CHEAP = a_policy(a_pool(approval=Approval(growth_above_usd_per_hour=Decimal("1.29"))))
REMOVALS = a_policy(a_pool(approval=Approval(removals=True)))


def test_growth_above_the_amount_waits_for_an_approval() -> None:
    assert outcome(growing(DEAR)) == ("approved", 0)


def test_growth_up_to_the_amount_needs_none() -> None:
    assert outcome(growing(CHEAP)) == ("demand", 1)


def test_removals_wait_for_an_approval_where_the_policy_asks_for_one() -> None:
    assert outcome(shrinking(REMOVALS)) == ("approved", 0)
    assert outcome(shrinking(DEAR)) == ("idle_nodes", -1)


def test_the_remedy_is_an_approval() -> None:
    said = [text for text, _ in remedies(growing(DEAR), "approved")]
    assert any("an approval, once it is requested" in text for text in said)
