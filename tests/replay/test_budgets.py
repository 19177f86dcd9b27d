"""Months whose demand exceeds their budget, replayed: what is spent beyond the line, and what is told of the waits."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import pytest

from receiver.capabilities.registry import step_additions
from receiver.core.model.policy import Budget, KeepOut, Policy, Pool
from receiver.core.money.budget import BudgetStage, month_of
from receiver.core.scaling.removal import SAFETY_MINIMUM
from receiver.replay.contest import Delays, Result, contest, the_product
from receiver.replay.figures import violations
from receiver.replay.play import Setting
from receiver.replay.world.objects import Job
from tests.given.life import GPU, PRICE, SIZE, a_job

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
ZONES = ("UTC", "Asia/Tokyo", "America/New_York")
JUST_NOW = SAFETY_MINIMUM + timedelta(seconds=20)  # an empty node rests before it goes, also at the line
MIDDLE = datetime(2026, 3, 15, tzinfo=UTC)


def a_budgeted_policy(usd: Decimal | int, zone: str = "UTC") -> Policy:
    """One pool of nodes with eight GPUs, each at $1.29 an hour."""
    pool = Pool(id="l40s-id", name="l40s", size=SIZE, resources={GPU: 8}, max_nodes=8, price_usd_per_hour=PRICE)
    return Policy(pools=(pool,), budget=Budget(monthly_usd=Decimal(usd), timezone=zone))


def turn_of(zone: str) -> datetime:
    """When March ends in *zone*."""
    return month_of(MIDDLE, zone).end


def replayed(jobs: list[Job], policy: Policy, start: datetime) -> Result:
    """*jobs* under *policy*; everything adds up."""
    setting = Setting(start=start, driver=timedelta(seconds=30), delete=timedelta(0), scrape=None)
    (result,) = contest(jobs, [the_product("ours", policy, setting, step_additions())], setting)
    assert result.played is not None
    assert violations(jobs, result.played) == []
    return result


def delays_of(result: Result) -> Delays:
    """What the budget held up."""
    assert result.delays is not None
    return result.delays


def some_jobs(dice: Random, start: datetime) -> list[Job]:
    """Twelve jobs of half a day, around the turn of the month."""
    return [
        a_job(
            f"job-{number}",
            submit_at=start + dice.uniform(0, 12) * HOUR,
            duration=dice.choice((20, 90, 200)) * dice.uniform(0.5, 1.5) * MINUTE,
            pods=pods,
            gpus_per_pod=dice.choice((1, 2, 4, 8)),
            gang=pods > 1,
        )
        for number in range(12)
        for pods in [dice.choice((1, 1, 1, 2))]
    ]


def hours_begun(result: Result) -> list[tuple[datetime, str]]:
    """Each paid hour of each node: when it began, and the node. Counted from the world's instances alone."""
    assert result.played is not None
    end = result.played.end
    return sorted(
        (vm.created_at + number * HOUR, vm.hostname)
        for vm in result.played.lives
        for number in range(max(1, -((vm.created_at - (vm.gone_at or end)) // HOUR)))
    )


def beyond(result: Result, line: Decimal, zone: str) -> Iterator[tuple[datetime, str, datetime]]:
    """The paid hours that began beyond the line of their month, with the node and when the line was reached."""
    spent: dict[str, Decimal] = {}
    reached: dict[str, datetime] = {}
    for at, node in hours_begun(result):
        month = month_of(at, zone).name
        if month in reached:
            yield at, node, reached[month]
        spent[month] = spent.get(month, Decimal(0)) + PRICE
        if spent[month] >= line:
            reached.setdefault(month, at)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5, 7, 8])
def test_only_nodes_whose_pod_ran_when_the_line_was_reached_cost_more_and_what_waited_runs_in_the_end(
    seed: int,
) -> None:
    dice = Random(seed)
    zone, usd = ZONES[seed % 3], dice.choice((8, 12, 16))
    start = turn_of(zone) - dice.choice((8, 14, 20)) * HOUR
    result = replayed(some_jobs(dice, start), a_budgeted_policy(usd, zone), start)
    assert result.played is not None
    placed = result.played.placements.all
    for at, node, line in beyond(result, Decimal(usd), zone):
        stayed = [p for p in placed if p.node == node and p.bound_at <= line and (p.ended_at or at) >= at - JUST_NOW]
        assert stayed, f"{node} costs another hour at {at}, and no pod is there that ran at {line}"
    assert not result.played.left
    assert delays_of(result).jobs, "nothing waited: this shows nothing"
    assert delays_of(result).never_ran == ()
    began = {job.id: job.started_at for job in result.played.finished}
    for delay in delays_of(result).jobs:
        assert delay.since < delay.until <= began[delay.job]
        assert delay.waited <= delay.until - delay.since


def test_in_some_of_these_worlds_money_is_spent_beyond_the_line() -> None:
    start = turn_of("UTC") - 8 * HOUR
    job = a_job(submit_at=start, duration=4 * HOUR, gpus_per_pod=8)
    result = replayed([job], a_budgeted_policy(2), start)
    assert [line for _, _, line in beyond(result, Decimal(2), "UTC")] == [hours_begun(result)[1][0]] * 3


@pytest.mark.parametrize("zone", ZONES)
def test_what_is_held_at_the_end_of_a_month_is_bought_for_at_its_turn_in_the_budgets_zone(zone: str) -> None:
    turn = turn_of(zone)
    start = turn - 10 * HOUR
    jobs = [
        a_job("first", submit_at=start, duration=90 * MINUTE, gpus_per_pod=8),
        a_job("second", submit_at=start + 3 * HOUR, duration=30 * MINUTE, gpus_per_pod=4),
    ]
    result = replayed(jobs, a_budgeted_policy(Decimal("3.2"), zone), start)  # two hours are 81 % of it
    found = delays_of(result)
    assert [(p.stage, p.month, p.until) for p in found.pauses] == [(BudgetStage.HOLD, "2026-03", turn)]
    assert hours_begun(result)[1][0] <= found.pauses[0].since <= hours_begun(result)[1][0] + MINUTE
    (delay,) = found.jobs
    assert (delay.job, delay.until, delay.ran) == ("second", turn, True)
    assert delay.waited == turn - delay.since
    assert timedelta(0) <= delay.since - jobs[1].submit_at <= 10 * timedelta(seconds=1)
    assert found.job_hours == pytest.approx(7, abs=0.01)
    assert found.gpu_hours == pytest.approx(28, abs=0.04)
    assert result.figures.wait_max_s == pytest.approx(7 * 3600 + 150, abs=15)


def test_a_gang_over_two_months_waits_once_for_all_its_pods() -> None:
    start = turn_of("UTC") - 4 * HOUR
    first = a_job("first", submit_at=start, duration=90 * MINUTE, gpus_per_pod=8)
    gang = a_job("gang", submit_at=start + 2 * HOUR, duration=HOUR, pods=2, gpus_per_pod=8, gang=True)
    found = delays_of(replayed([first, gang], a_budgeted_policy(4), start))
    assert [(d.job, round(d.waited / HOUR, 1), round(d.gpu_hours)) for d in found.jobs] == [("gang", 2.0, 32)]


def test_a_job_that_no_month_pays_for_never_ran_and_the_last_pause_goes_on() -> None:
    start = turn_of("UTC") - 2 * HOUR
    found = delays_of(replayed([a_job("dear", submit_at=start)], a_budgeted_policy(1), start))
    assert found.never_ran == ("dear",)
    assert found.jobs[0].waited > timedelta(days=60)
    assert [*found.sentences()][-1] == "never ran: dear"


def test_a_hold_on_namespaces_and_queues_changes_nothing_in_a_replay() -> None:
    start = turn_of("UTC") - 8 * HOUR
    jobs, policy = some_jobs(Random(1), start), a_budgeted_policy(8)
    assert policy.budget is not None
    keep_out = KeepOut(namespaces=("default", "ml"), cluster_queues=("gpus",))
    held = replayed(jobs, replace(policy, budget=replace(policy.budget, keep_out=keep_out)), start)
    free = replayed(jobs, policy, start)
    assert BudgetStage.HOLD in {pause.stage for pause in delays_of(held).pauses}
    assert (held.figures, delays_of(held)) == (free.figures, delays_of(free))


def test_a_policy_without_a_budget_has_no_delays() -> None:
    start = turn_of("UTC")
    policy = Policy(pools=a_budgeted_policy(1).pools)
    assert replayed([a_job(submit_at=start)], policy, start).delays is None


def test_what_a_budget_held_up_is_said_in_sentences_and_as_a_document() -> None:
    start = turn_of("UTC") - 6 * HOUR
    jobs = [
        a_job("first", submit_at=start, duration=90 * MINUTE, gpus_per_pod=8),
        a_job("second", submit_at=start + 2 * HOUR, gpus_per_pod=8, duration=20 * MINUTE),
    ]
    found = delays_of(replayed(jobs, a_budgeted_policy(2), start))
    assert [*found.sentences()] == [
        "cluster budget stop in 2026-03: 2026-03-31 19:00 UTC to 2026-04-01 00:00 UTC (5.0 h)",
        "delayed jobs: 1, for 4.0 job-hours (32.0 GPU-hours) altogether",
    ]
    document = found.document()
    assert document["delayed_jobs"] == 1
    assert document["pauses"][0]["until"] == "2026-04-01T00:00:00+00:00"
    assert document["jobs"][0]["job"] == "second"
    assert document["job_hours"] == pytest.approx(4, abs=0.01)
