"""The facts of a step as another policy has them."""

from dataclasses import replace
from decimal import Decimal

import pytest

from receiver.capabilities.what_if.facts_under import at_the_end, facts_under, not_rederived, per_hour
from receiver.core.model.devices import CLAIM, KIND
from receiver.core.model.model import Spend
from receiver.core.model.policy import POOL_LABEL, Pool
from receiver.core.model.signals import SignalAction
from receiver.core.scaling.assign import assign
from tests.core.builders import a_node, a_pod, a_policy, a_pool, a_signal, a_state, an_offer, facts

L40S, A100 = a_pool("l40s"), a_pool("a100", price_usd_per_hour=Decimal("2.50"))
MONEY = Spend(month="2026-11", usd=Decimal(100), elsewhere_per_hour=Decimal(1))


def test_the_same_policy_leaves_the_facts_as_they_are() -> None:
    found = facts(a_state(a_node()), a_state(pool="a100-id"), waiting=(a_pod(),), spend=MONEY)
    policy = a_policy(L40S, A100)
    assert facts_under(found, policy, policy) == found
    assert list(not_rederived(found, policy, policy)) == []


def test_the_pools_are_those_of_the_other_policy_in_its_order() -> None:
    found = facts(a_state(a_node()), a_state(a_node("n2"), pool="a100-id"))
    other = facts_under(found, a_policy(L40S, A100), a_policy(a_pool("new"), A100, L40S))
    assert [(state.pool, state.required) for state in other.pools] == [("new-id", 0), ("a100-id", 1), ("l40s-id", 1)]


def test_the_nodes_of_a_pool_that_leaves_cost_on_beside_the_others() -> None:
    found = facts(a_state(a_node()), a_state(a_node("n2"), a_node("n3"), pool="a100-id"), spend=MONEY)
    other = facts_under(found, a_policy(L40S, A100), a_policy(L40S))
    assert other.spend.elsewhere_per_hour == 1 + 2 * Decimal("2.50")


def test_an_alert_about_a_pool_that_leaves_counts_no_longer() -> None:
    signals = (a_signal(SignalAction.HOLD, "a100-id"), a_signal(SignalAction.SCALE_UP, None))
    found = facts(a_state(), a_state(pool="a100-id"), signals=signals)
    assert facts_under(found, a_policy(L40S, A100), a_policy(L40S)).signals == signals[1:]


def test_an_offer_of_another_configuration_no_longer_keeps_pods_away() -> None:
    """No node is there, and the last one was made without the label that the other policy names."""
    offer = an_offer(L40S, labels={**L40S.offered_labels, POOL_LABEL: "l40s-id"})
    labelled = replace(L40S, labels={"tier": "gold"})
    found = facts(a_state(offer=offer), waiting=(a_pod(node_selector={"tier": "gold"}),))
    other = a_policy(labelled)
    assert assign(found, other).misfits
    assert assign(facts_under(found, a_policy(L40S), other), other).pools["l40s-id"].for_demand == 1


def test_the_months_cost_counts_what_is_paid_until_its_end() -> None:
    found = facts(a_state(), spend=MONEY)
    assert at_the_end(found, Decimal(2), a_policy()).usd == 100 + 2 * 252  # 10.5 days are left
    unknown = replace(found, spend=replace(MONEY, unknown="no seed"))
    assert at_the_end(unknown, Decimal(2), a_policy()).usd is None


def test_a_pool_without_a_price_counts_nothing() -> None:
    assert per_hour(a_pool(price_usd_per_hour=None), a_state(a_node())) == 0
    assert per_hour(L40S, a_state(a_node()), 3) == Decimal("3.87")


@pytest.mark.parametrize(
    "changed", [[a_pool("new"), L40S], [replace(L40S, devices="[[],{}]")], [replace(L40S, size="other")]]
)
def test_what_pods_claim_is_not_judged_anew(changed: list[Pool]) -> None:
    claiming = a_pod(requests={f"{CLAIM}[]": 1})
    found = facts(a_state(devices={KIND: 1}), waiting=(claiming,))
    said = list(not_rederived(found, a_policy(L40S), a_policy(*changed)))
    assert "what pods claim is judged by the devices that nodes show and the configuration in force names" in said
    assert list(not_rederived(found, a_policy(L40S), a_policy(L40S))) == []


def test_a_node_of_another_size_has_other_devices() -> None:
    found = facts(a_state(devices={KIND: 1}))
    [state] = facts_under(found, a_policy(L40S), a_policy(replace(L40S, size="other"))).pools
    assert state.next_node.devices == {}
