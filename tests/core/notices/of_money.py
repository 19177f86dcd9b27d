"""What is told of budgets, charges and reports, case by case."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import cache

from receiver.core.explain.samples import HeldHours, PoolMinutes
from receiver.core.model.charges import Charge, Charged
from receiver.core.model.model import Facts
from receiver.core.model.policy import BudgetChange, Policy, Scope
from receiver.core.money.budget import BudgetStage, Intent, views
from receiver.core.money.reconciliation import compare
from receiver.core.notices import money_notices
from receiver.core.notices.digest import Outlook, WeekFound, digest, last_morning, last_week, observed_digest
from receiver.core.notices.money_notices import report_notice
from receiver.core.notices.notice import Notice
from receiver.core.report.would_have import WouldHave
from tests.core.builders import MINUTE, NOW
from tests.core.money.builders import MONTH_START, a_charge, a_ledger_life, an_answer_of_charges
from tests.core.notices.scene import BUDGET, L40S, NUMBER, POLICY, busy, known, pool_of
from tests.core.report import builders as report_builders
from tests.core.report.simulated import a_month

a_lived_month = cache(a_month)
STOPPED = "cluster budget stop at 100%: $5,012.40 of $5,000.00 spent in 2026-11"
RAISED = BudgetChange(
    scope=Scope.CLUSTER, name="", month="2026-11", monthly_usd=Decimal(6500), who="ada", why="release week", at=NOW
)


def _running(spent: str, **more: object) -> Facts:
    return known(pool_of(*(busy(f"l40s-{n}") for n in range(4))), spent=spent, **more)


def _line(spent: str, *, told: str = "", policy: Policy = POLICY, **more: object) -> Notice:
    """What is said of the cluster's budget at *spent* USD; *told* is the key of what was said before."""
    before = {"budget:cluster:": (told, NOW - timedelta(hours=1))} if told else {}
    found = money_notices.budget_lines(views(_running(spent, **more), policy), before, NOW)
    return next(n for n in found if n.topic == "budget:cluster:")


def _team_line() -> Notice:
    spend = replace(known(pool_of()).spend, teams={"vision": Decimal("644.10")})
    found = money_notices.budget_lines(views(_running("0", spend=spend), POLICY), {}, NOW)
    return next(n for n in found if n.topic == "budget:team:vision")


def _charges(answer: Charged) -> Notice:
    lives = [a_ledger_life(10, 14, name=f"n{n}") for n in range(5)]
    compared = compare(answer, lives, POLICY, MONTH_START, MONTH_START)
    return next(iter(money_notices.of_charges(known(pool_of(), charges=compared), POLICY)))


def _dear(name: str) -> Charge:
    return a_charge(10, 40, 30, label=name)


def _digest() -> Notice:
    month, policy = a_lived_month(), report_builders.a_policy()
    week = last_week(report_builders.at(11 * 24 + 12), "UTC")
    whole = (week.end - week.start) // MINUTE
    minutes = {
        pool.id: PoolMinutes(known=whole, busy=whole * nodes, idle=whole // 2)
        for pool, nodes in zip(policy.pools, (3, 2, 0), strict=True)
    }
    outlook = Outlook(month="2026-10", monthly=Decimal(16000), spent=Decimal("4410.25"), forecast=Decimal("12370.10"))
    found = WeekFound(
        week=week,
        now=week.end,
        lives=month.lives,
        workloads=month.workloads,
        minutes=minutes,
        held=HeldHours(gpu_hours=512.0, known=1.0),
        outlook=outlook,
    )
    return digest(found, policy)


def _kept_out(did: str, sentence: str, *, over: bool = False) -> Notice:
    why = "cluster budget hold at 80%: $4,012.00 of $5,000.00 spent in 2026-11"
    return money_notices.kept_out("ml", did, sentence, Intent(month="2026-11", why=why), over=over)


def _report(team: str | None) -> Notice:
    changes = (report_builders.a_pool_change(),) if team is None else ()
    return report_notice(replace(a_lived_month().report(team), pool_changes=changes))


def _beside(notice: Notice) -> Notice:
    return replace(notice, decision=NUMBER)


def _observed() -> Notice:
    found = WouldHave(
        at=NOW,
        since=NOW - timedelta(days=7),
        until=NOW,
        would_usd=Decimal("1035.00"),
        margin_usd=Decimal("31.05"),
        always_on_usd=Decimal("2100.00"),
        as_run_usd=Decimal("1260.10"),
        bought=12,
        removed=9,
        pods=312,
        wait_p95_seconds=300.0,
        as_run_wait_p95_seconds=7200.0,
        notes=("4 pods never ran: counted as long as others run on average.",),
    )
    return observed_digest(found, last_morning(NOW, "UTC"))


CASES: Mapping[str, Callable[[], Notice]] = {
    "budget_warn": lambda: _line("2520.00"),
    "budget_hold": lambda: _line("4012.00"),
    "budget_stop": lambda: _line("5012.40"),
    "budget_hold_of_a_team": _team_line,
    "budget_all_clear": lambda: _line("2120.45", told="2026-11|4000|hold", budget_changes=(RAISED,)),
    "budget_changed": lambda: money_notices.budget_changed(RAISED, "cluster budget"),
    "budget_changed_to_a_stop": lambda: money_notices.budget_changed(
        replace(RAISED, monthly_usd=Decimal(600)),
        "cluster budget",
        money_notices.stops(Scope.CLUSTER, Decimal(600), Decimal("2120.45"), BudgetStage.OK, BUDGET, closes=True),
    ),
    "budget_of_a_team_reset": lambda: money_notices.budget_changed(
        replace(RAISED, scope=Scope.TEAM, name="vision", monthly_usd=None, why="it was not needed"),
        "budget of team vision",
    ),
    "kept_out": lambda: _kept_out(
        "done", "created ResourceQuota gpu-autoscaler-hold: no new pod there may ask for a GPU"
    ),
    "would_be_kept_out": lambda: _kept_out("observed", "would create a ResourceQuota in ml"),
    "not_kept_out": lambda: _kept_out("failed", "forbidden: may not create resourcequotas in ml"),
    "let_in_again": lambda: _kept_out("done", "deleted ResourceQuota gpu-autoscaler-hold", over=True),
    "closed_again": lambda: _beside(money_notices.closed_again(L40S, STOPPED, views(_running("5012.40"), POLICY))),
    "stays_closed": lambda: _beside(money_notices.stay_closed(L40S, ["an.g1.l40s.kube.x3"])),
    "would_be_closed": lambda: _beside(money_notices.would_be_closed(L40S, 4, STOPPED)),
    "would_be_opened": lambda: _beside(money_notices.would_be_closed(L40S, 4, "")),
    "not_closed": lambda: _beside(
        money_notices.not_closed(
            L40S, {f"l40s-{n}": PermissionError("forbidden: may not patch nodes") for n in range(5)}, STOPPED
        )
    ),
    "reopened": lambda: _beside(money_notices.reopened(L40S, 4, NOW)),
    "charges_differ": lambda: _charges(
        an_answer_of_charges(*(_dear(f"n{n}") for n in range(5)), asked_at=NOW, answered_at=NOW - MINUTE)
    ),
    "charges_silent": lambda: _charges(
        an_answer_of_charges(
            failing_since=NOW - timedelta(hours=2), failure="no answer within 30 s", answered_at=NOW - 2 * MINUTE
        )
    ),
    "charges_back": lambda: _charges(
        an_answer_of_charges(*(a_charge(label=f"n{n}") for n in range(5)), answered_at=NOW)
    ),
    "digest": _digest,
    "digest.observed": _observed,
    "report": lambda: _report(None),
    "report_of_a_team": lambda: _report("vision"),
}
