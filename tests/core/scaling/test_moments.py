"""The moments at which an answer can change unaided that random worlds seldom come near."""

from datetime import timedelta
from decimal import Decimal

import pytest

from receiver.core.model.model import Spend, never_asked
from receiver.core.model.policy import Budget, Limits
from receiver.core.money.budget import month_of
from receiver.core.scaling.removal import AN_INSTANT
from tests.core.builders import NOW, a_node, a_pod, a_policy, a_pool, a_state, facts, run


def test_a_node_that_has_only_just_become_idle_is_looked_at_again_when_its_paid_hour_ends() -> None:
    created = NOW - timedelta(minutes=54, seconds=50)  # its removal margin begins in ten seconds
    node = a_node(created_at=created, idle_since=NOW - timedelta(seconds=5))
    decision = run(facts(a_state(node)), a_policy())[1]["l40s"]

    assert decision.reconsider_at == NOW + timedelta(seconds=10)


def test_a_node_that_civo_took_on_and_does_not_list_is_looked_at_when_its_time_to_come_is_over() -> None:
    since = NOW - timedelta(minutes=19)
    pool = a_pool(provision_timeout=timedelta(minutes=20))
    found = facts(a_state(required=1, required_since=since), waiting=[a_pod()])
    decision = run(found, a_policy(pool))[1]["l40s"]

    assert decision.reconsider_at == NOW + timedelta(minutes=1) + AN_INSTANT


def test_under_a_budget_the_months_end_is_such_a_moment_for_it_ends_what_the_budget_holds() -> None:
    found = facts(a_state(), waiting=[a_pod()], spend=Spend(month="2026-11", usd=Decimal(100)))
    decision = run(found, a_policy(budget=Budget(monthly_usd=Decimal(100))))[1]["l40s"]

    assert decision.deciding.rule == "within_budget"
    assert decision.reconsider_at == month_of(NOW, "UTC").end


def test_growth_that_waits_to_learn_of_its_rights_is_looked_at_when_it_need_not_wait_longer() -> None:
    unknown = never_asked(NOW - timedelta(minutes=4))
    held = run(facts(a_state(), waiting=[a_pod()], rights=unknown), a_policy())[1]["l40s"]

    assert (held.deciding.rule, held.reconsider_at) == ("nodes_may_be_removed", NOW + timedelta(minutes=1))


@pytest.mark.parametrize("limit", ["max_growth_per_hour", "max_removals_per_hour"])
def test_under_a_limit_per_hour_the_moment_is_when_the_first_change_is_an_hour_ago(limit: str) -> None:
    changed = NOW - timedelta(minutes=50)
    found = facts(a_state(), waiting=[a_pod()], grown_last_hour=2, removed_last_hour=2, first_changed_at=changed)
    held = run(found, a_policy(limits=Limits(**{limit: 2})))[1]["l40s"]

    assert held.reconsider_at == NOW + timedelta(minutes=10)
    assert run(found, a_policy())[1]["l40s"].reconsider_at is None
