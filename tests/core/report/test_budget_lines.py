"""What each budget of a month allowed and came to, and when pools stood still."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.policy import Budget, BudgetChange, Policy, Scope
from receiver.core.money.attribution import attribute
from receiver.core.money.budget import BudgetStage, Forecast
from receiver.core.report.report import BudgetLine, Found, Report, Spoke, Standstill, Stood, report
from tests.core.report.builders import AFTER, MONTH, a_life, a_policy, a_usage, at

BUDGET = Budget(monthly_usd=Decimal(20), account_usd=Decimal(40), teams={"vision": Decimal(10)})


def a_report(team: str | None = None, now: Any = AFTER, policy: Policy | None = None, **more: Any) -> Report:
    """A node of eight hours, six of them held by team vision."""
    policy = policy or a_policy(budget=BUDGET)
    lives, usage = [a_life(lasts=None if now < AFTER else 8)], [a_usage(hours=6)]
    shared = attribute(lives, usage, (), MONTH, now, policy.billing)
    return report(Found(lives=lives, usage=usage, workloads=(), attributed=shared, **more), policy, MONTH, now, team)


def of(found: Report) -> dict[str, BudgetLine]:
    return {line.title: line for line in found.budgets}


def test_every_budget_says_what_was_spent_and_what_is_left() -> None:
    lines = of(a_report(account_usd=Decimal("32.10")))
    assert {title: (line.spent_usd, line.left_usd) for title, line in lines.items()} == {
        "account budget": (Decimal("32.10"), Decimal("7.90")),
        "cluster budget": (Decimal("10.32"), Decimal("9.68")),
        "budget of team vision": (Decimal("7.74"), Decimal("2.26")),
    }
    assert lines["account budget"].stage is BudgetStage.HOLD
    assert lines["cluster budget"].ratio == Decimal("0.516")


def test_a_pool_has_its_line_by_name_and_its_own_allowance() -> None:
    pools = tuple(a_policy().pools)
    own = BudgetChange(
        scope=Scope.POOL, name=pools[0].id, month="2026-10", monthly_usd=Decimal(5), who="alice", why="test", at=at(1)
    )
    line = of(a_report(allowances=[own]))["budget of pool l40s"]
    assert (line.spent_usd, line.stage, line.change) == (Decimal("10.32"), BudgetStage.STOP, own)


def test_an_account_that_was_not_told_has_no_stage() -> None:
    line = of(a_report())["account budget"]
    assert (line.spent_usd, line.left_usd, line.ratio, line.stage) == (None, None, None, None)


def test_a_team_reads_of_its_own_budget_alone() -> None:
    assert [line.title for line in a_report("vision").budgets] == ["budget of team vision"]
    assert a_report("search").budgets == ()


def test_a_budget_has_the_forecast_of_the_last_step_and_none_without_one() -> None:
    foreseen = Forecast(usd=Decimal(900), burn=Decimal(2), since=at(3))
    found = of(a_report(now=at(9.5), forecasts={(Scope.CLUSTER, ""): foreseen}))
    assert found["cluster budget"].forecast == foreseen
    assert found["budget of team vision"].forecast == Forecast()


def test_what_was_spent_before_the_ledger_counts_in_full_in_each_budget_as_it_does_in_a_step() -> None:
    policy, lives = a_policy(budget=BUDGET), [a_life(lasts=8)]
    shared = attribute(lives, [a_usage(hours=6)], (), MONTH, AFTER, policy.billing, Decimal(5))
    found = report(Found(lives=lives, usage=[], workloads=(), attributed=shared), policy, MONTH, AFTER)
    lines = of(found)
    cluster, team = lines["cluster budget"], lines["budget of team vision"]
    assert (cluster.spent_usd, cluster.seeded_usd) == (Decimal("15.32"), Decimal(5))
    assert (team.spent_usd, team.seeded_usd) == (Decimal("12.74"), Decimal(5))


def test_growth_that_a_budget_held_is_told_from_when_to_when() -> None:
    why = "within_budget: cluster budget hold at 80%"
    spoken = [
        Spoke(pool="pool-l40s", at=at(-5), detail=why),
        Spoke(pool="pool-l40s", at=at(3)),
        Spoke(pool="pool-l40s", at=at(5), detail=why),
        Spoke(pool="pool-l40s", at=at(6), detail=why),
        Spoke(
            pool="pool-h100",
            at=at(7),
            detail="within_budget: budget of team vision stop at 100%",
            budgets=frozenset({"budget of team vision"}),
        ),
    ]
    found = a_report(spoken=spoken).standstills
    assert [(s.pool, s.since, s.until) for s in found] == [
        ("l40s", at(-5), at(3)),
        ("l40s", at(5), None),
        ("h100", at(7), None),
    ]
    assert [s.pool for s in a_report("vision", spoken=spoken).standstills] == ["h100"]


def test_a_team_is_not_told_the_standstills_of_a_team_whose_name_begins_with_its_own() -> None:
    why = "within_budget: budget of team vision-lab hold at 80%"
    spoken = [Spoke(pool="pool-l40s", at=at(3), detail=why, budgets=frozenset({"budget of team vision-lab"}))]
    assert a_report("vision", spoken=spoken).standstills == ()
    assert len(a_report("vision-lab", spoken=spoken).standstills) == 1


def test_a_team_is_told_when_its_own_budget_begins_and_ceases_to_hold_a_pool_that_others_hold_too() -> None:
    cluster = Spoke(pool="pool-l40s", at=at(3), detail="cluster", budgets=frozenset({"cluster budget"}))
    both = replace(cluster, at=at(4), budgets=frozenset({"cluster budget", "budget of team vision"}))
    found = a_report("vision", spoken=[cluster, both, replace(cluster, at=at(5))]).standstills
    assert [(s.since, s.until) for s in found] == [(at(4), at(5))]


def test_what_somebody_paused_is_told_with_who_and_why() -> None:
    said = Override(id="1", kind=OverrideKind.PAUSE, who="alice", why="upgrade", at=at(2), until=at(9))
    pin = Override(id="2", kind=OverrideKind.PIN, who="bob", why="demo", at=at(2), until=at(9), nodes=2)
    found = a_report(overrides=[(said, at(4)), (pin, None)]).standstills
    assert found == (Standstill(kind=Stood.PAUSE, pool="all", since=at(2), until=at(4), why="upgrade", who="alice"),)
    assert a_report("vision", overrides=[(said, None)]).standstills == ()
