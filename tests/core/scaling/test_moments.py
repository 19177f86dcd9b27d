"""The moments at which an answer can change unaided that random worlds seldom come near."""

from datetime import timedelta

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
