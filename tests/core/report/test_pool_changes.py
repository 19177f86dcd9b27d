"""Pools to add or merge, by what the month's work would have cost on other nodes."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Billing, Policy, Pool, Taint
from receiver.core.model.usage import Usage, WorkloadLife
from receiver.core.report.pool_changes import PoolChange, PoolWay, RecordedRun, paid, pool_changes
from tests.core.report.builders import A100_X8, MONTH, START, a_life, a_policy, a_usage, a_workload, at

PRICES = {1: Decimal("1.80"), 2: Decimal("3.60"), 8: Decimal("14.40")}
WEEKS = 24 * 28


def a_pool(gpus: int, **changes: Any) -> Pool:
    """Nodes of *gpus* GPUs for USD 1.80 each."""
    given: dict[str, Any] = {"size": A100_X8, "max_nodes": 50, "price_usd_per_hour": PRICES[gpus]}
    return Pool(
        **{
            "id": f"pool-{gpus}",
            "name": f"gpu{gpus}",
            "resources": {"nvidia.com/gpu": gpus},
            **given,
            **changes,
        }
    )


def of(*gpus: int) -> Policy:
    return a_policy(pools=tuple(a_pool(each) for each in gpus))


Job = tuple[int, float, float, int]  # GPUs of its pod; when it begins and how long it runs, in hours; its node's GPUs


def a_ledger(*jobs: Job) -> tuple[list[NodeLife], list[Usage], list[WorkloadLife]]:
    """What the ledger holds of *jobs* that each ran on a node of its own."""
    lives, usage, workloads = [], [], []
    for number, (gpus, begins, lasts, on) in enumerate(jobs):
        lives.append(a_life(f"i-{number}", begins, lasts, size=A100_X8, pool=f"pool-{on}", gpus=on))
        usage.append(a_usage(f"i-{number}", f"ml/Job/{number}", gpus * lasts))
        workloads.append(a_workload(str(number), begins, gpus=gpus, ended_at=at(begins + lasts)))
    return lives, usage, workloads


def changes(policy: Policy, *jobs: Job, until: Any = MONTH.end) -> tuple[PoolChange, ...]:
    return pool_changes(*a_ledger(*jobs), policy, START, until, START)


def small(on: int = 8) -> list[Job]:
    """An hour of one GPU every two hours for four weeks."""
    return [(1, begins, 1, on) for begins in range(0, WEEKS, 2)]


def run(gpus: int, begins: float, lasts: float) -> RecordedRun:
    return RecordedRun(at(begins), at(begins + lasts), gpus)


# --- what is proposed


def test_pods_of_one_gpu_on_wide_nodes_propose_a_pool_of_small_nodes() -> None:
    found = changes(of(8), *small(), (8, 0, 300, 8))
    assert [(x.way, x.gpus, x.beside) for x in found] == [
        (PoolWay.ADD, 1, "gpu8"),
        (PoolWay.ADD, 2, "gpu8"),
        (PoolWay.ADD, 4, "gpu8"),
    ]
    assert found[0].usd == Decimal("14.40") * (336 + 300)
    assert found[0].saves_usd == Decimal("12.60") * 336
    assert found[0].sentence == (
        "With a pool of 1-GPU nodes beside gpu8, the work would have cost about $4,233.60 less (-46.2%): "
        "12% of the GPU-hours were of pods with 1 GPU."
    )
    assert "12% of the GPU-hours were of pods with 1 to 2 GPUs" in found[1].sentence


def test_full_nodes_propose_nothing() -> None:
    assert changes(of(8), (8, 0, 400, 8), (8, 100, 400, 8)) == ()


def test_a_saving_of_less_than_fifty_dollars_is_not_worth_a_pool() -> None:
    cheap, cheaper = (a_policy(pools=(a_pool(8, price_usd_per_hour=Decimal(usd)),)) for usd in ("0.18", "0.16"))
    assert changes(cheap, *small())[0].saves_usd == Decimal("52.92")
    assert changes(cheaper, *small()) == ()


def test_a_saving_of_less_than_a_tenth_of_the_month_is_not_worth_a_pool() -> None:
    wide = [(8, 0.0, 740.0, 8)] * 3
    assert changes(of(8), *wide, *small()[:280]) == ()
    assert changes(of(8), *wide, *small()[:300])[0].gpus == 1


def test_a_pool_that_saves_nothing_is_proposed_to_be_merged() -> None:
    [found] = [x for x in changes(of(2, 8), (8, 0, 500, 8), (2, 0, 5, 2)) if x.way is PoolWay.MERGE]
    assert found.sentence == (
        "With gpu2 merged into gpu8, the work would have cost about $54.00 more (+0.7%): "
        "0% of the GPU-hours were of pods with 1 to 2 GPUs."
    )


def test_a_pool_without_work_costs_the_same_when_merged() -> None:
    [found] = changes(of(2, 8), (8, 0, 500, 8))
    assert found.sentence == (
        "With gpu2 merged into gpu8, the work would have cost the same: "
        "0% of the GPU-hours were of pods with 1 to 2 GPUs."
    )


def test_a_pool_that_saves_is_kept() -> None:
    assert [x for x in changes(of(1, 8), *small(1), (8, 0, 300, 8)) if x.way is PoolWay.MERGE] == []


# --- what there must be to judge by


@pytest.mark.parametrize(("hours", "judged"), [(6.9 * 24, False), (7 * 24, True)])
def test_less_than_a_week_is_no_basis(hours: float, judged: bool) -> None:
    assert bool(changes(of(8), *[(1, 2 * n, 1, 8) for n in range(80)], (1, 0, 160, 8), until=at(hours))) is judged


@pytest.mark.parametrize(("jobs", "judged"), [(99, False), (100, True)])
def test_fewer_than_a_hundred_gpu_hours_are_no_basis(jobs: int, judged: bool) -> None:
    assert bool(changes(of(8), *small()[:jobs])) is judged


@pytest.mark.parametrize(("known", "judged"), [(0.79, False), (0.81, True)])
def test_work_whose_times_are_unknown_is_no_basis(known: float, judged: bool) -> None:
    lives, usage, workloads = a_ledger(*small())
    seen = workloads[: round(known * len(workloads))]
    assert bool(pool_changes(lives, usage, seen, of(8), START, MONTH.end, START)) is judged


def test_a_pod_larger_than_any_node_of_its_pools_is_no_basis() -> None:
    lives, usage, workloads = a_ledger(*[(16, begins, 1.0, 8) for begins in range(0, WEEKS, 2)])
    unknown = [replace(life, gpus=0) for life in lives]
    assert pool_changes(unknown, usage, workloads, of(2, 8), START, MONTH.end, START) == ()


@pytest.mark.parametrize(
    "other",
    [
        {"price_usd_per_hour": PRICES[1] * 2},
        {"taints": (Taint(key="team", value="vision", effect="NoSchedule"),)},
        {"resources": {"nvidia.com/mig-1g.10gb": 1}},
    ],
)
def test_pools_that_could_not_run_each_others_pods_are_judged_apart(other: dict[str, Any]) -> None:
    policy = a_policy(pools=(a_pool(1, **other), a_pool(8)))
    assert (PoolWay.ADD, 1) in [(x.way, x.gpus) for x in changes(policy, *small())]


def test_a_pool_whose_gpus_are_shared_is_left_out() -> None:
    lives, usage, workloads = a_ledger(*small())
    assert pool_changes([replace(x, gpus=2) for x in lives], usage, workloads, of(8), START, MONTH.end, START) == ()


# --- what the pods were


def test_a_gang_that_held_its_gpus_to_the_end_is_known_node_by_node() -> None:
    """Two pods of one GPU on two nodes need no node of two."""
    lives = [a_life(f"i-{n}", 0, 700, size=A100_X8, pool="pool-8") for n in (1, 2)]
    usage = [a_usage(f"i-{n}", "ml/Job/train", 700) for n in (1, 2)]
    found = pool_changes(lives, usage, [a_workload(gpus=2, ended_at=at(700))], of(8), START, MONTH.end, START)
    assert found[0].changed_usd == 2 * 700 * PRICES[1]


def test_a_workload_that_came_and_went_counts_as_one_pod_of_all_its_gpus() -> None:
    lives = [a_life(f"i-{n}", 0, 700, size=A100_X8, pool="pool-8") for n in (1, 2)]
    usage = [a_usage(f"i-{n}", "ml/Job/train", 300) for n in (1, 2)]
    found = pool_changes(lives, usage, [a_workload(gpus=2, ended_at=at(700))], of(8), START, MONTH.end, START)
    assert {x.gpus for x in found} == {2, 4}
    assert found[0].changed_usd == 2 * 150 * PRICES[2]


# --- the schedule

runs = st.lists(
    st.builds(run, st.sampled_from([1, 2, 3, 4, 8]), st.floats(0, 200), st.floats(0.01, 30)), min_size=1, max_size=40
)


@given(runs, st.sampled_from([(8,), (1, 8), (1, 2, 8)]), st.sampled_from([1, 60, 3600]))
def test_paid_hours_are_never_below_the_hours_used(
    found: list[RecordedRun], sizes: tuple[int, ...], seconds: int
) -> None:
    bill = paid(found, {gpus: PRICES[gpus] for gpus in sizes}, Billing(granularity=timedelta(seconds=seconds)))
    assert bill.gpu_hours >= sum(each.gpu_hours for each in found) - 1e-6
    assert abs(float(bill.usd) - bill.gpu_hours * 1.80) < 0.01


@given(st.lists(st.tuples(st.sampled_from([1, 2, 8]), st.floats(0, 500), st.floats(1, 90), st.just(8)), min_size=1))
def test_a_pool_of_the_same_size_changes_nothing(jobs: list[Job]) -> None:
    twin = a_policy(pools=(a_pool(2), a_pool(8), a_pool(8, id="pool-twin", name="twin")))

    def figures(policy: Policy) -> list[tuple[Any, ...]]:
        return [(x.way, x.gpus, x.usd, x.changed_usd, x.share) for x in changes(policy, *jobs)]

    assert figures(twin) == figures(of(2, 8))


@pytest.mark.parametrize(("gap", "hours"), [(0.4, 1), (0.6, 2)])
def test_an_idle_node_serves_until_its_paid_hour_ends(gap: float, hours: int) -> None:
    assert paid([run(8, 0, 0.5), run(8, 0.5 + gap, 0.05)], PRICES, Billing()).usd == hours * PRICES[8]


def test_a_pod_takes_a_new_small_node_rather_than_prolong_a_wide_one() -> None:
    assert paid([run(7, 0, 1), run(1, 0.5, 5)], PRICES, Billing()).usd == PRICES[8] + 5 * PRICES[1]


def test_a_pod_takes_room_that_is_paid_for_before_a_new_node() -> None:
    assert paid([run(7, 0, 1), run(1, 0, 1)], PRICES, Billing()).usd == PRICES[8]


def test_a_pod_without_room_takes_the_smallest_node_that_fits() -> None:
    assert paid([run(8, 0, 1), run(1, 0, 1)], PRICES, Billing()).usd == PRICES[8] + PRICES[1]


def test_a_run_that_no_node_fits_is_an_error() -> None:
    with pytest.raises(ValueError, match="16 GPUs"):
        paid([run(16, 0, 1)], PRICES, Billing())
