"""A decision made again: what is the same, what differs, and how that is told."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.capabilities.bundles.comparison import APPEARED, CHANGED, SAME, VANISHED, compared, ruled, said
from receiver.capabilities.bundles.repetition import as_then, made_again
from receiver.capabilities.registry import step_additions
from receiver.core.model.actions import Decision
from receiver.core.model.policy import Approval
from receiver.ports import Grounds
from tests.core.builders import a_pod, a_policy, a_pool, a_state, facts


def a_reason(rule: str, target: int = 1, verdict: str = "allows", detail: str = "why") -> dict[str, Any]:
    return {"rule": rule, "verdict": verdict, "target": target, "detail": detail}


def a_decision(*reasons: dict[str, Any], **changes: Any) -> dict[str, Any]:
    plain = {"from": 1, "to": 1, "verdict": "hold", "candidates": [], "evicted": [], "reconsider_at": None}
    return {**plain, "reasons": list(reasons), **changes}


def test_another_policy_is_told_by_what_it_changes() -> None:
    made_from = a_world_with_waiting_pods()
    then = made(made_from)
    closer = replace(made_from.policy.pools[0], max_nodes=2)
    now = made(replace(made_from, policy=replace(made_from.policy, pools=(closer,))))
    found = compared(then, now)
    assert found["to"] == [3, 2]
    assert any(pair["now"]["verdict"] == "limits" and pair["now"]["target"] == 2 for pair in found[CHANGED])


def a_world_with_waiting_pods() -> Grounds:
    """Three pods wait for a pool of one-GPU nodes that has none."""
    waiting = tuple(a_pod(f"p{number}") for number in range(3))
    return Grounds(facts=facts(a_state(required=0), waiting=waiting), policy=a_policy(a_pool(max_nodes=6)))


def made(made_from: Grounds) -> dict[str, Any]:
    decision: Decision = made_again(made_from, made_from.policy.pools[0].id, step_additions())
    return said(decision)


@pytest.mark.parametrize(("mode", "target"), [("observe", 3), ("act", 0)])
def test_only_where_it_acts_is_a_decision_made_again_with_approvals(mode: str, target: int) -> None:
    made_from = a_world_with_waiting_pods()
    pool = replace(made_from.policy.pools[0], approval=Approval(growth_above_usd_per_hour=Decimal("0.01")))
    held = replace(made_from, policy=replace(made_from.policy, pools=(pool,)))
    assert made_again(held, pool.id, as_then({"mode": mode}, step_additions())).target == target


def test_fields_that_differ_are_shown_as_they_were_and_are() -> None:
    then, now = a_decision(), a_decision(to=2, verdict="grow", candidates=["i-1"])
    assert compared(then, now) == {"to": [1, 2], "verdict": ["hold", "grow"], "candidates": [[], ["i-1"]]}


def test_rules_appear_vanish_and_change() -> None:
    then = a_decision(a_reason("demand", 3), a_reason("cooldown", 1, "holds"))
    now = a_decision(a_reason("demand", 4), a_reason("budget", 1, "limits"))
    assert [(r.what, (r.now or r.then or {})["rule"]) for r in ruled(then["reasons"], now["reasons"])] == [
        (CHANGED, "demand"),
        (APPEARED, "budget"),
        (VANISHED, "cooldown"),
    ]
    assert compared(then, now) == {
        APPEARED: [a_reason("budget", 1, "limits")],
        VANISHED: [a_reason("cooldown", 1, "holds")],
        CHANGED: [{"then": a_reason("demand", 3), "now": a_reason("demand", 4)}],
    }


def test_a_rule_that_speaks_twice_is_compared_with_itself() -> None:
    twice = [a_reason("idle", detail="one"), a_reason("idle", detail="two")]
    assert [rule.what for rule in ruled(twice, [*twice, a_reason("idle", detail="three")])] == [SAME, SAME, APPEARED]


def test_the_same_rules_in_another_order_are_a_difference() -> None:
    one, two = a_reason("a"), a_reason("b")
    assert compared(a_decision(one, two), a_decision(two, one)) == {"order": [["a", "b"], ["b", "a"]]}


def test_when_it_decides_anew_is_written_as_the_api_writes_it() -> None:
    made_from = a_world_with_waiting_pods()
    decision = replace(
        made_again(made_from, made_from.policy.pools[0].id, step_additions()),
        reconsider_at=made_from.facts.at + timedelta(seconds=1),
    )
    assert said(decision)["reconsider_at"].endswith("Z")
