"""The report of a month: its parts add up to the ledger, and nothing in it is divided by nothing."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.memory import NodeLife
from receiver.core.model.overrides import Override, OverrideKind
from receiver.core.model.policy import (
    Billing,
    Budget,
    BudgetChange,
    Policy,
    ReportPolicy,
    Scope,
    UnitOfWork,
)
from receiver.core.model.usage import Owner, Unwatched, Usage, WorkloadLife
from receiver.core.money.attribution import UNLABELLED, By, MonthToDate, Part, Watch, attribute, key_of, lines
from receiver.core.money.budget import BudgetStage, Forecast, month_of
from receiver.core.money.cost import spend_by_pool
from receiver.core.report.lines import PaidFor, Subtotal, told_by
from receiver.core.report.lines import by as grouped
from receiver.core.report.report import (
    BudgetLine,
    Found,
    Jobs,
    Report,
    Spoke,
    Standstill,
    Stood,
    count_jobs,
    of_month,
    percentile,
    queue_waits,
    report,
)
from receiver.core.report.rightsizing import InUse
from tests.core.builders import MINUTE
from tests.core.report.builders import (
    A100_X8,
    AFTER,
    H100,
    HOUR,
    MONTH,
    START,
    a_life,
    a_policy,
    a_usage,
    a_workload,
    at,
)
from tests.core.report.months import months
from tests.core.report.simulated import a_month

CENT = Decimal("0.01")


def found_of(lives: list[NodeLife], usage: list[Usage], policy: Policy, now: Any = AFTER, **more: Any) -> Found:
    """What the ledger would have of *lives* and *usage*."""
    unwatched, seeded = more.pop("unwatched", ()), more.pop("seeded", Decimal(0))
    shared = attribute(lives, usage, unwatched, MonthToDate(MONTH, now, policy.billing), seeded)
    return Found(lives=lives, usage=usage, workloads=more.pop("workloads", ()), attributed=shared, **more)


def a_report(lives: list[NodeLife], usage: list[Usage], team: str | None = None, **more: Any) -> Report:
    """The report of *lives* and *usage*."""
    policy, now = more.pop("policy", None) or a_policy(), more.pop("now", AFTER)
    return report(found_of(lives, usage, policy, now, **more), policy, MONTH, now, team)


def total(parts: tuple[Subtotal, ...]) -> Decimal:
    return sum((part.total.usd for part in parts), Decimal(0))


def namespaces(found: Report) -> tuple[Subtotal, ...]:
    return grouped(lambda whose: whose.namespace, [line for line in found.lines if line.whose.workload])


# --- a simulated month


def test_the_parts_of_a_simulated_month_add_up_to_the_ledger_to_the_cent(figure: Callable[[str], None]) -> None:
    month = a_month()
    assert len(month.lives) >= 60
    pools, unpriced = spend_by_pool(month.lives, MONTH.start, MONTH.end - timedelta(microseconds=1), Billing())
    found, ledger = month.report(), sum(pools.values(), Decimal(0))
    assert unpriced == ()
    assert found.everything.total.usd == ledger.quantize(CENT)
    assert sum((line.usd for line in found.lines), Decimal(0)) == ledger.quantize(CENT)
    assert total(found.kinds) == ledger.quantize(CENT)
    assert sum((found.everything.of(each).usd for each in PaidFor), Decimal(0)) == ledger.quantize(CENT)
    for sorted_in in (found.teams, namespaces(found), found.workloads):
        assert total(sorted_in) + found.nobodys.total.usd == ledger.quantize(CENT)
    assert sum((day.usd for day in found.days), Decimal(0)) == ledger.quantize(CENT)
    assert sum((day.idle_usd for day in found.days), Decimal(0)) == found.everything.idle.usd
    assert all(day.usd == day.usd.quantize(CENT) for day in found.days)
    figure(f"a simulated month's report: {len(month.lives)} lives, USD {ledger:.2f}, every sum the same to the cent")


@pytest.mark.parametrize("by", By)
def test_the_costs_api_tells_what_the_report_tells_to_the_cent(by: By) -> None:
    month = a_month()
    month.usage = [replace(row, held=row.held / 1.37) for row in month.usage]  # so that nothing is whole cents
    found = month.report()
    told = {line.key: line for line in told_by(month.found().attributed, by, month.policy) if line.part is Part.HELD}
    sorted_in = {By.TEAM: found.teams, By.NAMESPACE: namespaces(found), By.WORKLOAD: found.workloads}.get(by, ())
    assert {
        key: (line.usd, line.idle_usd) for key, line in told.items() if by in (By.TEAM, By.NAMESPACE, By.WORKLOAD)
    } == {part.name or UNLABELLED: (part.total.usd, part.idle.usd) for part in sorted_in}
    assert sum((line.usd for line in told.values()), Decimal(0)) == total(found.teams)


def test_a_team_costs_to_the_cent_what_its_share_of_the_ledger_rounds_to() -> None:
    month = a_month()
    month.usage = [replace(row, held=row.held / 1.37) for row in month.usage]
    by_label = lines(month.found().attributed, lambda share: key_of(share, By.TEAM, month.policy))
    held = {line.key: line.usd for line in by_label if line.part is Part.HELD}
    assert {part.name or UNLABELLED: part.total.usd for part in month.report().teams} == held


def test_the_reports_of_the_teams_and_what_nobody_held_add_up_to_everybodys() -> None:
    month = a_month()
    everybody = month.report()
    each = [month.report(team) for team in ("vision", "search", "")]
    assert sum((r.everything.total.usd for r in each), Decimal(0)) + everybody.nobodys.total.usd == (
        everybody.everything.total.usd
    )
    assert sum(r.jobs.seen for r in each) == everybody.jobs.seen
    assert sum(len(r.lines) for r in each) + len([x for x in everybody.lines if not x.whose.workload]) == len(
        everybody.lines
    )


def test_hours_of_a_simulated_month_are_those_that_were_paid_for() -> None:
    month = a_month()
    found = month.report()
    paid = sum(line.gpu_hours for line in found.lines)
    assert abs(paid - found.everything.total.gpu_hours) < 1e-6
    l40s = next(k for k in found.kinds if k.name == "L40S")
    assert abs(float(l40s.total.usd) / 1.29 - l40s.total.gpu_hours) < 0.03  # lines are whole cents
    a100 = next(k for k in found.kinds if k.name == "A100-80")
    assert abs(float(a100.total.usd) / 14.32 * 8 - a100.total.gpu_hours) < 0.01


# --- examples


def one_gpu_jobs_on_wide_nodes() -> Found:
    lives, usage, workloads = [], [], []
    for number in range(150):
        lives.append(a_life(f"i-{number}", 4 * number, size=A100_X8))
        usage.append(a_usage(f"i-{number}", f"ml/Job/{number}"))
        workloads.append(a_workload(str(number), 4 * number, ended_at=at(4 * number + 1)))
    return found_of(lives, usage, a_policy(), workloads=workloads)


def test_the_cluster_report_says_which_pools_to_change_and_a_team_report_does_not() -> None:
    found, policy = one_gpu_jobs_on_wide_nodes(), a_policy()
    assert report(found, policy, MONTH, AFTER).pool_changes[0].saves_usd == 150 * Decimal("14.32") * 7 / 8
    assert report(found, policy, MONTH, AFTER, "vision").pool_changes == ()


@pytest.mark.parametrize(("hours", "judged"), [(0, True), (200, True), (31 * 24 - 100, False), (None, False)])
def test_pools_are_judged_by_a_week_of_observed_work(hours: float | None, judged: bool) -> None:
    found = one_gpu_jobs_on_wide_nodes()
    observed = replace(found.attributed, observed_from=None if hours is None else at(hours))
    assert bool(report(replace(found, attributed=observed), a_policy(), MONTH, AFTER).pool_changes) is judged


def test_efficiency_is_what_was_neither_held_at_rest_nor_by_nobody() -> None:
    usage = a_usage(hours=6, idle=2 * 3600)
    found = a_report([a_life(lasts=8)], [usage])
    assert found.everything.idle.gpu_hours == 4  # two held at rest, two by nobody
    assert found.everything.idle.usd == 4 * Decimal("1.29")
    assert found.everything.efficiency == 0.5


def test_what_was_not_measured_is_not_called_idle() -> None:
    found = a_report([a_life(lasts=8)], [a_usage(hours=8, measured=0.0, busy=0.0, memory=0.0)])
    assert found.everything.efficiency == 1
    assert (found.measured.coverage, found.measured.utilization, found.measured.memory_waste) == (0, None, None)


def test_hours_ahead_and_hours_nobody_watched_are_on_neither_side_of_efficiency() -> None:
    gap = Unwatched(month=MONTH.name, instance="i-1", seconds=3600)
    now = at(3) + timedelta(minutes=30)
    found = a_report([a_life(lasts=None)], [a_usage(hours=2.5, idle=1.25 * 3600)], now=now, unwatched=[gap])
    assert found.everything.of(PaidFor.AHEAD).gpu_hours == 0.5
    assert found.everything.of(PaidFor.UNWATCHED).gpu_hours == 1
    assert found.everything.efficiency == 0.5
    assert not found.complete


def test_utilization_and_memory_are_averages_over_what_was_measured() -> None:
    found = a_report([a_life(lasts=2)], [a_usage(hours=2, measured=3600.0, busy=900.0, memory=2700.0)])
    assert (found.measured.coverage, found.measured.utilization, found.measured.memory_waste) == (0.5, 0.25, 0.25)


def test_what_has_no_team_label_is_shown_with_where_it_was_spent() -> None:
    usage = [a_usage(hours=1), a_usage(hours=2, workload="sandbox/Pod/try", owner=Owner())]
    found = a_report([a_life(lasts=3)], usage)
    assert found.unlabelled.total.usd == 2 * Decimal("1.29")
    assert [part.name for part in found.unlabelled_in] == ["sandbox"]


def test_a_team_pays_for_its_idle_hours_and_not_for_what_nobody_held() -> None:
    usage = [a_usage(hours=2, idle=3600.0), a_usage(hours=3, workload="ml/Job/b", owner=Owner(team="search"))]
    found = a_report([a_life(lasts=8)], usage, team="vision")
    assert found.everything.total.usd == 2 * Decimal("1.29")
    assert found.everything.efficiency == 0.5
    assert found.nobodys.total.usd == 3 * Decimal("1.29")
    assert (found.always_on, found.baselines) == (None, ())


def test_a_failed_job_is_part_of_the_price_of_the_completed_ones() -> None:
    usage = [a_usage(hours=h, workload=f"ml/Job/{n}") for n, h in (("good", 1), ("bad", 2), ("runs", 4))]
    workloads = [
        a_workload("good", ended_at=at(2), completed=True),
        a_workload("bad", ended_at=at(2), completed=False),
        a_workload("runs"),
    ]
    found = a_report([a_life(lasts=7)], usage, workloads=workloads)
    assert found.per_completed_usd == 3 * Decimal("1.29")
    assert found.per_workload_usd == 7 * Decimal("1.29") / 3


def test_each_completed_run_of_a_name_that_is_used_again_counts() -> None:
    runs = [a_workload("nightly", created=n, ended_at=at(n + 1), completed=True) for n in range(30)]
    found = a_report([a_life(lasts=30)], [a_usage(hours=30, workload="ml/Job/nightly")], workloads=runs)
    assert found.jobs.completed == 30
    assert found.per_completed_usd == Decimal("1.29")


def test_two_teams_that_use_one_name_each_pay_for_what_they_held() -> None:
    usage = [a_usage(hours=2), a_usage(hours=3, owner=Owner(team="search"))]
    found = a_report([a_life(lasts=5)], usage)
    assert {t.name: t.total.usd for t in found.teams} == {"vision": 2 * Decimal("1.29"), "search": 3 * Decimal("1.29")}
    assert [(w.name, w.total.usd) for w in found.workloads] == [("ml/Job/train", 5 * Decimal("1.29"))]


def test_a_unit_of_work_is_priced_at_what_it_is_about() -> None:
    units = (
        UnitOfWork(name="epoch", query="q", only={"team": "vision"}),
        UnitOfWork(name="request", query="q", only={"namespace": "prod"}),
        UnitOfWork(name="all", query="q"),
    )
    usage = [a_usage(hours=2), a_usage(hours=1, workload="prod/Deployment/a", owner=Owner(team="search"))]
    counts = {"epoch": 2.0, "request": 3.0, "all": 4.0}
    policy = a_policy(reports=ReportPolicy(units=units))
    found = a_report([a_life(lasts=4)], usage, policy=policy, counts=counts)
    price = Decimal("1.29")
    assert [(u.unit.name, u.usd_per) for u in found.units] == [("epoch", price), ("request", price / 3), ("all", price)]
    of_team = a_report([a_life(lasts=4)], usage, "vision", policy=policy, counts=counts)
    assert [u.unit.name for u in of_team.units] == ["epoch"]
    of_nobody = a_report([a_life(lasts=4)], usage, "", policy=policy, counts=counts)
    assert of_nobody.units == ()


def test_the_budget_line_is_that_of_the_scope() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(10), teams={"vision": Decimal("2.58")}))
    lives, usage = [a_life(lasts=6)], [a_usage(hours=2)]
    everybody = a_report(lives, usage, policy=policy).budget
    assert everybody is not None
    assert (everybody.spent_usd, everybody.ratio, everybody.stage) == (
        Decimal("7.74"),
        Decimal("0.774"),
        BudgetStage.WARN,
    )
    vision = a_report(lives, usage, "vision", policy=policy).budget
    assert vision is not None
    assert (vision.spent_usd, vision.stage) == (Decimal("2.58"), BudgetStage.STOP)
    assert a_report(lives, usage, "search", policy=policy).budget is None
    assert a_report(lives, usage, policy=a_policy(budget=None)).budget is None


def test_an_allowance_that_somebody_set_for_the_month_goes_before_the_configured_one() -> None:
    set_now = BudgetChange(
        scope=Scope.TEAM, name="vision", month="2026-10", monthly_usd=Decimal(20), who="ann", why="demo", at=at(1)
    )
    policy = a_policy(budget=Budget(monthly_usd=Decimal(10), teams={"vision": Decimal("2.58")}))
    lives, usage = [a_life(lasts=6)], [a_usage(hours=2)]
    vision = a_report(lives, usage, "vision", policy=policy, allowances=[set_now]).budget
    assert vision is not None
    assert (vision.monthly_usd, vision.stage, vision.change) == (Decimal(20), BudgetStage.OK, set_now)
    everybody = a_report(lives, usage, policy=policy, allowances=[set_now]).budget
    assert everybody is not None
    assert (everybody.monthly_usd, everybody.change) == (Decimal(10), None)
    taken_back = replace(set_now, monthly_usd=None)
    configured = a_report(lives, usage, "vision", policy=policy, allowances=[taken_back]).budget
    assert configured is not None
    assert configured.monthly_usd == Decimal("2.58")


def test_a_budget_of_nothing_has_no_ratio() -> None:
    found = a_report([a_life()], [], policy=a_policy(budget=Budget(monthly_usd=Decimal(0)))).budget
    assert found is not None
    assert found.ratio is None


def test_a_node_without_a_price_is_named_and_costs_nothing_in_the_report() -> None:
    found = a_report([a_life(), a_life("i-2", size=H100, price_usd_per_hour=None)], [])
    assert found.unpriced == (H100,)
    assert found.everything.total.usd == Decimal("1.29")


def test_what_was_spent_before_the_ledger_began_is_a_line_of_its_own() -> None:
    found = a_report([a_life()], [], seeded=Decimal("12.345"))
    assert found.everything.of(PaidFor.SEEDED).usd in (Decimal("12.34"), Decimal("12.35"))
    assert found.everything.total.usd == Decimal("13.64")  # 13.635, half a cent up
    assert sum((d.usd for d in found.days), Decimal(0)) == Decimal("1.29")


def test_peaks_of_slices_say_nothing_about_the_whole_gpu() -> None:
    lives, usage = [a_life(lasts=8, size=A100_X8)], [a_usage(hours=8, peak_engine=0.05, peak_memory=0.05)]
    assert a_report(lives, usage).right_sizes
    pools = tuple(replace(p, resources={"nvidia.com/mig-1g.10gb": 56}) for p in a_policy().pools)
    assert a_report(lives, usage, policy=a_policy(pools=pools)).right_sizes == ()


def test_right_sizing_goes_by_what_a_pool_costs_and_not_by_the_list() -> None:
    lives = [a_life(lasts=8, size=A100_X8, price_usd_per_hour=Decimal("8.00"))]
    usage = [a_usage(hours=8, peak_engine=0.65, peak_memory=0.45)]
    policy = a_policy(gpu_prices={"A100-40": Decimal("1.09"), "A100-80": Decimal("1.79")})
    assert a_report(lives, usage, policy=policy).right_sizes == ()  # its GPU costs 1.00, the other one 1.09
    own = replace(policy.pools[0], id="own", size="forty", price_usd_per_hour=Decimal("0.50"))
    policy = replace(policy, pools=(*policy.pools, own), gpu_kinds={**policy.gpu_kinds, "forty": "A100-40"})
    [found] = a_report(lives, usage, policy=policy).right_sizes
    assert (found.to, found.saves_usd) == ("A100-40", Decimal("4.00"))


def test_who_uses_a_name_again_is_judged_by_what_itself_reached() -> None:
    lives = [a_life("i-1", lasts=8), a_life("i-2", begins=9, lasts=8)]
    lives = [
        replace(x, size=A100_X8, gpus=8.0, price_usd_per_hour=Decimal("14.32"), pool="pool-a100-80") for x in lives
    ]
    small = a_usage("i-1", hours=8, life="one", peak_engine=0.05, peak_memory=0.05)
    large = a_usage("i-2", hours=8, life="two", peak_engine=0.99, peak_memory=0.99)
    found = a_report(lives, [small, large])
    assert [(size.peaks.peak_engine, size.peaks.usd) for size in found.right_sizes] == [(0.05, Decimal("14.32"))]
    assert [peaks.peak_memory for peaks in found.tight] == [0.99]


def test_eight_gpus_for_an_hour_are_an_hour_of_observation() -> None:
    lives, usage = [a_life(lasts=8, size=A100_X8)], [a_usage(hours=40, peak_engine=0.05, peak_memory=0.05)]
    wide = [a_workload(gpus=8)]
    assert a_report(lives, usage, workloads=wide).right_sizes == ()
    seen = InUse(month="2026-10", workload="ml/Job/train", gpus=8, used=2, seconds=7 * 3600)
    [found] = a_report(lives, [a_usage(hours=56)], workloads=wide, in_use=[seen]).right_sizes
    assert (found.to, found.peaks.hours, found.saves_usd) == ("2 of 8 GPUs", 7.0, found.peaks.usd * 3 / 4)


def test_a_month_without_anything_has_a_report_too() -> None:
    found = a_report([], [])
    assert found.everything.total.usd == 0
    assert (found.everything.efficiency, found.per_workload_usd, found.per_completed_usd) == (None, None, None)
    assert len(found.days) == 31


def test_a_month_that_has_not_begun_has_no_days() -> None:
    assert a_report([a_life()], [], now=at(-1)).days == ()


def test_days_are_those_of_the_budgets_zone_through_a_change_of_its_clock() -> None:
    policy = a_policy(budget=Budget(monthly_usd=Decimal(100), timezone="Europe/London"))
    month = month_of(AFTER, "Europe/London")
    assert month.name == "2026-11"
    october = month_of(at(12), "Europe/London")
    life = a_life(begins=-1, lasts=None)  # 2026-09-30 23:00 UTC is the first of October in London
    shared = attribute([life], (), (), MonthToDate(october, october.end, policy.billing))
    found = report(Found(lives=[life], usage=(), workloads=(), attributed=shared), policy, october, october.end)
    by_day = [day.usd / Decimal("1.29") for day in found.days]
    assert [round(n) for n in by_day[:2]] == [24, 24]
    assert round(by_day[24]) == 25  # the clock goes back on the 25th
    assert sum(round(n) for n in by_day) == 745


# --- properties


@given(months(), st.floats(0, 800), st.sampled_from([None, "vision", "search", ""]))
def test_in_every_month_the_parts_add_up_and_ratios_are_ratios(
    month: tuple[list[NodeLife], list[Usage], Policy], hours: float, team: str | None
) -> None:
    lives, usage, policy = month
    now = at(hours)
    lives = [x for x in lives if x.created_at < now]
    everybody = a_report(lives, usage, policy=policy, now=now)
    if now < MONTH.end:
        ledger, _ = spend_by_pool(lives, MONTH.start, now, policy.billing)
        assert everybody.everything.total.usd == attributed_cents(sum(ledger.values(), Decimal(0)))
    found = a_report(lives, usage, team, policy=policy, now=now)
    whole = sum((line.usd for line in found.lines), Decimal(0))
    assert sum((day.usd for day in found.days), Decimal(0)) == whole
    assert sum((day.idle_usd for day in found.days), Decimal(0)) == found.everything.idle.usd
    assert found.everything.total.usd == whole
    assert total(found.kinds) == whole
    if team is None:
        assert total(found.teams) + found.nobodys.total.usd == whole
    for part in (found.everything, *found.kinds, *found.teams, *found.workloads):
        assert part.efficiency is None or 0 <= part.efficiency <= 1
        assert part.total.usd >= 0
    for ratio in (found.measured.coverage, found.measured.utilization, found.measured.memory_waste):
        assert ratio is None or 0 <= ratio <= 1


def attributed_cents(usd: Decimal) -> Decimal:
    """As the ledger's total is rounded."""
    return usd.quantize(CENT, "ROUND_HALF_UP")


def test_a_month_whose_use_was_seen_in_part_says_so_and_is_not_complete() -> None:
    watch = Watch(since=at(100), until=AFTER)
    found = attribute([a_life()], (), (), MonthToDate(MONTH, AFTER, Billing()), watch=watch)
    said = report(Found(lives=(), usage=(), workloads=(), attributed=found), a_policy(), MONTH, AFTER)
    assert (said.over, said.complete, said.observed_from) == (True, False, at(100))


def test_a_month_is_not_complete_while_its_last_hour_is_under_way() -> None:
    for now, complete in ((MONTH.end, False), (MONTH.end + 2 * HOUR, True)):
        found = attribute([a_life()], (), (), MonthToDate(MONTH, now, Billing()))
        said = report(Found(lives=(), usage=(), workloads=(), attributed=found), a_policy(), MONTH, now)
        assert (said.over, said.complete) == (True, complete)


BUDGET = Budget(monthly_usd=Decimal(20), account_usd=Decimal(40), teams={"vision": Decimal(10)})


def a_budget_report(team: str | None = None, now: Any = AFTER, policy: Policy | None = None, **more: Any) -> Report:
    """A node of eight hours, six of them held by team vision."""
    policy = policy or a_policy(budget=BUDGET)
    lives, usage = [a_life(lasts=None if now < AFTER else 8)], [a_usage(hours=6)]
    shared = attribute(lives, usage, (), MonthToDate(MONTH, now, policy.billing))
    return report(Found(lives=lives, usage=usage, workloads=(), attributed=shared, **more), policy, MONTH, now, team)


def of(found: Report) -> dict[str, BudgetLine]:
    return {line.title: line for line in found.budgets}


def test_every_budget_says_what_was_spent_and_what_is_left() -> None:
    lines = of(a_budget_report(account_usd=Decimal("32.10")))
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
    line = of(a_budget_report(allowances=[own]))["budget of pool l40s"]
    assert (line.spent_usd, line.stage, line.change) == (Decimal("10.32"), BudgetStage.STOP, own)


def test_an_account_that_was_not_told_has_no_stage() -> None:
    line = of(a_budget_report())["account budget"]
    assert (line.spent_usd, line.left_usd, line.ratio, line.stage) == (None, None, None, None)


def test_a_team_reads_of_its_own_budget_alone() -> None:
    assert [line.title for line in a_budget_report("vision").budgets] == ["budget of team vision"]
    assert a_budget_report("search").budgets == ()


def test_a_budget_has_the_forecast_of_the_last_step_and_none_without_one() -> None:
    foreseen = Forecast(usd=Decimal(900), burn=Decimal(2), since=at(3))
    found = of(a_budget_report(now=at(9.5), forecasts={(Scope.CLUSTER, ""): foreseen}))
    assert found["cluster budget"].forecast == foreseen
    assert found["budget of team vision"].forecast == Forecast()


def test_what_was_spent_before_the_ledger_counts_in_full_in_each_budget_as_it_does_in_a_step() -> None:
    policy, lives = a_policy(budget=BUDGET), [a_life(lasts=8)]
    shared = attribute(lives, [a_usage(hours=6)], (), MonthToDate(MONTH, AFTER, policy.billing), Decimal(5))
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
    found = a_budget_report(spoken=spoken).standstills
    assert [(s.pool, s.since, s.until) for s in found] == [
        ("l40s", at(-5), at(3)),
        ("l40s", at(5), None),
        ("h100", at(7), None),
    ]
    assert [s.pool for s in a_budget_report("vision", spoken=spoken).standstills] == ["h100"]


def test_a_team_is_not_told_the_standstills_of_a_team_whose_name_begins_with_its_own() -> None:
    why = "within_budget: budget of team vision-lab hold at 80%"
    spoken = [Spoke(pool="pool-l40s", at=at(3), detail=why, budgets=frozenset({"budget of team vision-lab"}))]
    assert a_budget_report("vision", spoken=spoken).standstills == ()
    assert len(a_budget_report("vision-lab", spoken=spoken).standstills) == 1


def test_a_team_is_told_when_its_own_budget_begins_and_ceases_to_hold_a_pool_that_others_hold_too() -> None:
    cluster = Spoke(pool="pool-l40s", at=at(3), detail="cluster", budgets=frozenset({"cluster budget"}))
    both = replace(cluster, at=at(4), budgets=frozenset({"cluster budget", "budget of team vision"}))
    found = a_budget_report("vision", spoken=[cluster, both, replace(cluster, at=at(5))]).standstills
    assert [(s.since, s.until) for s in found] == [(at(4), at(5))]


def test_what_somebody_paused_is_told_with_who_and_why() -> None:
    said = Override(id="1", kind=OverrideKind.PAUSE, who="alice", why="upgrade", at=at(2), until=at(9))
    pin = Override(id="2", kind=OverrideKind.PIN, who="bob", why="demo", at=at(2), until=at(9), nodes=2)
    found = a_budget_report(overrides=[(said, at(4)), (pin, None)]).standstills
    assert found == (Standstill(kind=Stood.PAUSE, pool="all", since=at(2), until=at(4), why="upgrade", who="alice"),)
    assert a_budget_report("vision", overrides=[(said, None)]).standstills == ()


END = at(24)


@pytest.mark.parametrize(
    ("workload", "standing"),
    [
        (a_workload(ended_at=at(2), completed=True), "completed"),
        (a_workload(ended_at=at(2), completed=False), "failed"),
        (a_workload(ended_at=at(2), completed=None), "gone"),
        (a_workload(waited=None, ended_at=at(2), completed=None), "gave_up"),
        (a_workload(), "running"),
        (a_workload(waited=None), "waiting"),
        (a_workload(ended_at=at(25), completed=True), "running"),
        (a_workload(created=23, waited=90), "waiting"),
    ],
)
def test_a_workload_counts_as_it_stands_at_the_end(workload: WorkloadLife, standing: str) -> None:
    found = count_jobs([workload], END)
    assert found == Jobs(seen=1, **{standing: 1})


def test_workloads_of_other_months_are_left_out() -> None:
    before = a_workload("old", -5, ended_at=at(-1), completed=True)
    over = a_workload("over", -5, ended_at=at(1), completed=True)
    after = a_workload("new", 24)
    assert [w.workload for w in of_month([before, over, after], START, END)] == ["ml/Job/over"]


def test_waits_are_told_as_nearest_ranks() -> None:
    found = queue_waits([a_workload(f"w{n}", 1, n) for n in range(1, 21)], START, END)
    assert (found.started, found.p50, found.p95, found.longest) == (20, 10 * MINUTE, 19 * MINUTE, 20 * MINUTE)


def test_who_still_waits_is_counted_beside_the_waits_that_ended() -> None:
    found = queue_waits([a_workload("a", 1, 5), a_workload("b", 22, None), a_workload("c", 23, None)], START, END)
    assert (found.started, found.p95, found.still, found.still_longest) == (1, 5 * MINUTE, 2, 120 * MINUTE)


def test_without_workloads_there_is_no_wait() -> None:
    found = queue_waits([], START, END)
    assert (found.started, found.p50, found.p95, found.longest, found.still_longest) == (0, None, None, None, None)


def test_who_started_last_month_does_not_count_again() -> None:
    assert queue_waits([a_workload("a", -2, 5)], START, END).started == 0


def test_a_binding_before_the_creation_is_no_negative_wait() -> None:
    assert queue_waits([a_workload("a", 1, -3)], START, END).longest == timedelta(0)


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=40), st.floats(0.01, 1))
def test_a_percentile_is_one_of_the_values_that_enough_do_not_exceed(values: list[int], ratio: float) -> None:
    ordered = sorted(timedelta(seconds=v) for v in values)
    found = percentile(ordered, ratio)
    assert found in ordered
    assert found is not None
    assert sum(v <= found for v in ordered) >= ratio * len(ordered)
