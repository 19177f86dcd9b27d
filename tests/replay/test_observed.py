"""What act mode would have cost: the replay of a time that was observed, beside what the same jobs cost in act mode."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import structlog

from benchmarks import observe
from receiver.capabilities.registry import step_additions
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Budget, Policy, Pool
from receiver.core.report.would_have import WouldHave
from receiver.ports import Past, PastPod
from receiver.replay.observed import Watched, would_have
from receiver.replay.play import Setting
from receiver.replay.world.objects import GPU
from tests.core import builders

T0 = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SIZE = "an.g1.l40s.kube.x1"
PRICE = Decimal("1.29")
L40S = Pool(id="l40s-id", name="l40s", size=SIZE, resources={GPU: 1}, max_nodes=4, price_usd_per_hour=PRICE)


def a_pod(
    name: str = "train",
    begins: timedelta = HOUR,
    *,
    waited: timedelta | None = timedelta(0),
    runs: timedelta | None = 20 * MINUTE,
    gpus: int = 1,
) -> PastPod:
    """A pod that was created at *begins*, *waited* (None: it never ran) and ran (None: and still does)."""
    created = T0 + begins
    held_from = None if waited is None else created + waited
    return PastPod(
        pod=builders.a_pod(name, gpus, created_at=created, owner=f"Job/{name}"),
        held_from=held_from,
        held_until=None if held_from is None or runs is None else held_from + runs,
    )


def a_life(name: str = "n1", age: timedelta = 10 * MINUTE, gone: timedelta | None = None) -> NodeLife:
    """A node of the pool that existed *age* before the time that is observed."""
    gone_at = None if gone is None else T0 + gone
    return NodeLife(
        instance=name,
        name=name,
        pool="l40s-id",
        size=SIZE,
        price_usd_per_hour=PRICE,
        created_at=T0 - age,
        gone_at=gone_at,
    )


def found(
    *pods: PastPod,
    lives: tuple[NodeLife, ...] = (),
    policy: Policy | None = None,
    begins: datetime | None = None,
) -> WouldHave:
    """What is shown for four hours, of which Prometheus has the samples from *begins* on."""
    until = T0 + 4 * HOUR
    past = Past(pods=pods, since=T0, until=until, begins=begins, tolerations_known=False)
    seen = Watched(since=T0, until=until, lives=lives, past=past)
    return would_have(seen, policy or Policy(pools=(L40S,)), Setting(), step_additions())


def test_the_shown_sum_of_twelve_hours_is_what_act_mode_costs_within_the_shown_margin() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    jobs = observe.jobs_of(1, seed=2)
    shown = observe.observed(jobs, 0.5)
    compared = observe.Compared(shown=shown, cost=observe.acted(jobs, 0.5, observe.TRUTHS["usual"]))
    assert compared.off != 0
    assert compared.within
    assert shown.would_usd is not None
    assert shown.margin_usd is not None
    assert shown.margin_usd < shown.would_usd / 5
    assert shown.as_run_usd is not None
    assert compared.cost < shown.as_run_usd


def test_a_node_is_bought_for_a_pod_and_removed_before_its_next_paid_hour() -> None:
    shown = found(a_pod())
    assert [(c.pool, c.before, c.after, c.work) for c in shown.changes] == [
        ("l40s", 1, 0, ""),
        ("l40s", 0, 1, "ml/train"),
    ]
    assert (shown.would_usd, shown.bought, shown.removed) == (PRICE, 1, 1)
    assert timedelta(0) < T0 + 2 * HOUR - shown.changes[0].at < 5 * MINUTE


def test_nodes_that_were_there_are_kept_to_the_end_of_their_paid_hour() -> None:
    shown = found(lives=(a_life(age=10 * MINUTE),))
    assert [(c.before, c.after) for c in shown.changes] == [(1, 0)]
    assert timedelta(0) < T0 + 50 * MINUTE - shown.changes[0].at < 5 * MINUTE
    assert shown.would_usd == 0  # the hour had begun before
    assert shown.as_run_usd == 4 * PRICE


def test_nodes_that_had_gone_before_are_not_there() -> None:
    assert found(lives=(a_life(age=5 * HOUR, gone=-HOUR),)).changes == ()


def test_a_time_without_samples_saves_nothing() -> None:
    shown = found(a_pod(begins=3 * HOUR), lives=(a_life(),), begins=T0 + 3 * HOUR)
    assert shown.since == T0 + 3 * HOUR
    assert (shown.would_usd, shown.as_run_usd, shown.always_on_usd) == (Decimal(0), PRICE, PRICE)


def test_always_on_has_the_nodes_for_every_pod_at_once_all_the_time() -> None:
    shown = found(a_pod("a"), a_pod("b"), a_pod("c", 2 * HOUR))
    assert (shown.always_on, shown.always_on_usd) == ({"l40s": 2}, 2 * 4 * PRICE)


def test_changes_of_one_pool_within_minutes_are_one() -> None:
    shown = found(a_pod("a"), a_pod("b", HOUR + MINUTE), a_pod("c", HOUR + 30 * MINUTE))
    grown = [(c.before, c.after) for c in reversed(shown.changes) if c.after > c.before]
    assert grown == [(0, 2)]  # the third pod finds a node that is free again


def test_the_margin_is_a_hundredth_of_the_sum_where_nothing_else_differs() -> None:
    shown = found(a_pod())
    assert shown.margin_usd == Decimal("0.01")  # of $1.29: no variation costs another hour


def test_the_margin_is_the_largest_difference_that_slow_nodes_or_another_scheduler_would_make() -> None:
    shown = found(a_pod(runs=48 * MINUTE))
    assert shown.margin_usd == PRICE + Decimal("0.01")  # a node that takes 17 minutes begins a second hour


def test_waits_are_those_of_pods() -> None:
    shown = found(a_pod("a"), a_pod("b", waited=15 * MINUTE))
    assert (shown.pods, shown.as_run_wait_p95_seconds) == (2, 900.0)
    assert shown.wait_p95_seconds == pytest.approx(300, abs=1)


def test_pods_that_had_ended_before_and_those_of_the_gpu_operator_are_no_work() -> None:
    ended = [a_pod(f"old-{n}", -HOUR) for n in range(20)]
    check = replace(a_pod(runs=MINUTE), pod=builders.a_pod("check", 1, namespace="gpu-operator", created_at=T0))
    work = a_pod("a", waited=15 * MINUTE, runs=70 * MINUTE), a_pod("b", waited=None)
    shown = found(*ended, *20 * [check], *work)
    assert (shown.pods, shown.as_run_wait_p95_seconds) == (2, 900.0)
    assert shown.would_usd == 4 * PRICE  # the second would run as long as the first: into a second hour


def test_a_pod_that_still_runs_would_run_to_the_end_and_at_the_least_as_long_as_it_did() -> None:
    shown = found(a_pod("a", waited=2 * HOUR, runs=None))
    assert shown.would_usd == 3 * PRICE
    assert shown.margin_usd == PRICE + Decimal("0.04")  # an hour and five minutes, and a hundredth of $3.87


def test_a_pod_that_never_ran_counts_as_long_as_others_run_on_average_and_that_is_said() -> None:
    shown = found(a_pod("a", HOUR), a_pod("b", HOUR, waited=None))
    assert shown.would_usd == 2 * PRICE
    assert shown.margin_usd == 2 * PRICE + Decimal("0.03")  # to the end it would be three hours
    assert shown.notes == ("1 pod never ran: counted as long as others run on average.",)


def test_pods_that_fit_no_pool_are_left_out_and_that_is_said() -> None:
    shown = found(a_pod("a"), a_pod("large", gpus=8))
    assert (shown.pods, shown.would_usd) == (1, PRICE)
    assert shown.notes == ("Left out, because they fit no pool or are not fully known: 1 pod.",)


def test_a_time_without_pods_has_a_sum() -> None:
    shown = found()
    assert shown.would_usd == 0
    assert shown.always_on == {}
    assert shown.wait_p95_seconds is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"price_usd_per_hour": None}, "pool l40s has no price: set price_usd_per_hour"),
        (
            {"provision_timeout": 2 * MINUTE},
            "provision_timeout of pool l40s is shorter than the 5 minutes that a node needs",
        ),
    ],
)
def test_what_cannot_be_replayed_says_why(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        found(a_pod(), policy=Policy(pools=(replace(L40S, **changes),)))


def test_budgets_of_teams_are_left_out_and_that_is_said() -> None:
    policy = Policy(pools=(L40S,), budget=Budget(monthly_usd=Decimal(100), teams={"vision": Decimal(1)}))
    assert found(a_pod(), policy=policy).notes == ("Budgets of teams are left out.",)
