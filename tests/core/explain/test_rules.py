"""What would change the answer: said for every rule, true, and stored with the decision."""

import ast
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from receiver.core.explain.evidence import with_grounds
from receiver.core.explain.rules import RULES
from receiver.core.model.actions import Decision, Verdict
from receiver.core.model.model import Source, Spend
from receiver.core.model.policy import Budget
from receiver.core.scaling.guardrails import GUARDRAILS
from receiver.core.scaling.guardrails.rule import Case, Said
from tests.core.builders import (
    EVERY_SECOND,
    NOW,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    all_up,
    an_override,
    facts,
    growing,
    run,
    shrinking,
)
from tests.core.worlds import World, decided, worlds

NAMES = {guardrail.name for guardrail in GUARDRAILS}
SIZES = {
    *("demand", "floor", "standby", "headroom"),
    *("dead_nodes", "override", "evict_after", "idle_nodes", "consolidation"),
}


def stored(decision: Decision) -> list[dict[str, Any]]:
    """What would change *decision*, as it is stored."""
    kept: list[dict[str, Any]] = json.loads(json.dumps(decision.evidence["what_would_change"]))
    return kept


def said(decision: Decision) -> dict[str, list[str]]:
    """What would change *decision*, by rule."""
    found: dict[str, list[str]] = {}
    for remedy in stored(decision):
        found.setdefault(remedy["rule"], []).append(remedy["text"])
    return found


def test_every_guardrail_and_every_source_of_size_has_one() -> None:
    assert {name for name, rule in RULES.items() if rule.say or rule.changes} >= NAMES | SIZES
    assert all(rule.say or rule.changes for rule in RULES.values() if rule.noted)


SPENT = facts(a_state(), spend=Spend(month="2026-11", usd=Decimal(95))).spend
BUDGET = Budget(monthly_usd=Decimal(100))


def test_every_guardrail_has_its_tests_with_its_remedy() -> None:
    folder = Path(__file__).parents[1] / "scaling" / "guardrails"
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("test_*.py"))]
    nodes = ast.walk(ast.parse("\n".join(texts)))
    calls = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) == "remedies"]
    assert {ast.literal_eval(call.args[1]) for call in calls} == NAMES


def test_of_a_change_that_happens_it_is_told_what_would_have_kept_it_from_happening() -> None:
    assert set(said(growing())) == {"demand"}
    assert set(said(shrinking())) == {"idle_nodes"}


def test_of_no_change_it_is_told_what_would_start_one_and_when_one_can_come_by_itself() -> None:
    resting = run(facts(a_state(a_node(created_at=NOW))), a_policy())[1]["l40s"]
    assert resting.reconsider_at is not None
    by_itself = (
        f"the answer can change by itself at {resting.reconsider_at:%Y-%m-%d %H:%M:%S} UTC, earlier if the facts change"
    )
    assert by_itself in said(resting)["nothing_wanted"]


def test_a_guardrail_that_nobody_asked_because_one_before_it_held_is_named_too() -> None:
    both = growing(a_policy(budget=BUDGET), spend=SPENT, overrides=(an_override("pause"),))
    assert both.deciding.rule == "within_budget"
    assert any("this guardrail is next, and blocks too: pause by alice" in text for text in said(both)["not_paused"])


def test_behind_a_silent_source_a_missing_price_is_named_and_nothing_that_counts_by_it() -> None:
    policy = a_policy(a_pool(price_usd_per_hour=None), budget=BUDGET)
    blind = growing(policy, spend=SPENT, sources=all_up(Source.PROMETHEUS))
    assert set(said(blind)) == {"sources_answer", "price_is_known"}


def test_a_guardrail_that_would_have_allowed_it_is_not_named() -> None:
    assert set(said(growing(a_policy(budget=BUDGET), spend=SPENT))) == {"within_budget"}


@settings(max_examples=60, deadline=None)
@given(
    spent=st.integers(0, 20_000).map(lambda cents: Decimal(cents) / 100),
    pods=st.integers(1, 4),
    hold=st.sampled_from([Decimal("0.8"), Decimal("0.5"), Decimal(1)]),
    billed=st.booleans(),
)
def test_a_budget_that_is_raised_by_what_is_said_covers_all_of_the_growth(
    spent: Decimal, pods: int, hold: Decimal, billed: bool
) -> None:
    def decision(monthly: Decimal) -> Decision:
        budget = Budget(monthly_usd=monthly, hold_at=hold, warn_at=Decimal("0.4"))
        policy = a_policy(budget=budget, **({} if billed else {"billing": EVERY_SECOND}))
        waiting = [a_pod(f"p{n}") for n in range(pods)]
        spend = Spend(month="2026-11", usd=spent)
        return run(facts(a_state(), waiting=waiting, spend=spend), policy)[1]["l40s"]

    for uncovered in decision(Decimal(100)).evidence["uncovered"]:
        short = Decimal(uncovered["raise_usd"])
        assert short > 0
        assert decision(Decimal(100) + short).target == pods
        assert decision(Decimal(100) + short - Decimal("0.02")).target < pods


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(worlds())
def test_in_any_world_every_decision_has_one_for_what_settled_it_and_knows_every_figure(world: World) -> None:
    for _, _, decision in decided(world, explained_by=with_grounds):
        found = stored(decision)
        told = {r["rule"] for r in found}
        assert found
        assert {r.rule for r in decision.reasons if r.verdict in (Verdict.HOLDS, Verdict.LIMITS)} <= told
        for remedy in found:
            text = remedy["text"]
            assert "None" not in text, remedy
            assert "an unknown time" not in text or "window" in text, remedy
            assert not text.rstrip().endswith(":"), remedy


def test_a_remedy_that_stands_whatever_the_figures_needs_no_second_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = RULES["nothing_wanted"]
    cases: list[Case] = []

    def say(_: object, case: Case) -> Said:
        cases.append(case)
        return "nothing is wanted", ()

    monkeypatch.setitem(cast("dict[str, Any]", RULES), "nothing_wanted", replace(rule, say=say))
    assert said(run(facts(a_state()), a_policy())[1]["l40s"])["nothing_wanted"] == list(rule.changes)
    assert len(cases) == 1
