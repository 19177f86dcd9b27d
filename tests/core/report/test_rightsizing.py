"""Workloads that would fit something smaller."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.usage import Accounted, Sample
from receiver.core.report.rightsizing import (
    COMPUTE_SLICES,
    KINDS,
    MEMORY_SLICES,
    PROFILES,
    InUse,
    Peaks,
    Way,
    in_use,
    right_sizes,
    slowdown,
    tight,
)
from tests.core.builders import MINUTE, NOW
from tests.core.money.builders import EIGHT_GPU_POLICY, RESTING, WORKING, a_bound_pod, a_step_sight
from tests.core.report.builders import PER_GPU


def peaks(kind: str = "H100", engine: float | None = 0.2, memory: float | None = 0.2, **changes: Any) -> Peaks:
    """A workload that cost USD 100 and was measured all the time."""
    given: dict[str, Any] = {
        "workload": "ml/Job/a",
        "team": "vision",
        "usd": Decimal(100),
        "coverage": 1.0,
        "hours": 40.0,
    }
    return Peaks(kind=kind, peak_engine=engine, peak_memory=memory, **{**given, **changes})


def test_a_small_model_on_a_large_gpu_fits_a_slice_of_it() -> None:
    [found] = right_sizes([peaks(engine=0.10, memory=0.10)], PER_GPU)
    assert (found.to, found.way) == ("1g.10gb", Way.MIG)
    assert round(found.saves_usd, 2) == Decimal("85.71")  # a seventh of the compute is kept


def test_where_no_slice_fits_a_cheaper_kind_is_named() -> None:
    [found] = right_sizes([peaks("A100-80", engine=0.65, memory=0.45)], PER_GPU)
    assert (found.to, found.way) == ("A100-40", Way.KIND)
    assert round(found.saves_usd, 2) == round(100 * (1 - Decimal("1.09") / Decimal("1.79")), 2)


def test_memory_needs_some_room_above_its_peak() -> None:
    assert [s.to for s in right_sizes([peaks("A100-80", 0.65, 0.454)], PER_GPU)] == ["A100-40"]  # 36.3 of 40 GB
    assert right_sizes([peaks("A100-80", 0.65, 0.46)], {"A100-80": Decimal(2), "A100-40": Decimal(1)}) == ()


def test_an_engine_that_a_slower_kind_could_not_carry_keeps_its_kind() -> None:
    assert slowdown(KINDS["H100"], KINDS["L40S"]) > 3
    assert right_sizes([peaks("H100", engine=0.62, memory=0.5)], PER_GPU) == ()


def test_a_dearer_kind_is_no_saving() -> None:
    assert right_sizes([peaks("A100-40", 0.85, 0.5)], {"A100-40": Decimal(1), "H100": Decimal(3)}) == ()


@pytest.mark.parametrize(
    "unseen", [peaks(coverage=0.79), peaks(hours=5.9), peaks(engine=None), peaks(memory=None), peaks("B200"), peaks("")]
)
def test_what_was_not_measured_or_is_not_known_is_not_judged(unseen: Peaks) -> None:
    assert right_sizes([unseen], PER_GPU) == ()


def test_what_never_used_all_of_its_gpus_at_once_is_told_how_many_it_used() -> None:
    wide = peaks("A100-80", 0.95, 0.9, gpus=8, gpus_used=2, gpus_hours=30.0)
    [found] = right_sizes([wide], PER_GPU)
    assert (found.to, found.way, found.saves_usd) == ("2 of 8 GPUs", Way.FEWER, Decimal(75))


@pytest.mark.parametrize(
    "unseen",
    [
        {"gpus": 8, "gpus_used": 8, "gpus_hours": 30.0},
        {"gpus": 8, "gpus_used": 0, "gpus_hours": 30.0},  # idle, and told as that
        {"gpus": 8, "gpus_used": 2, "gpus_hours": 5.9},
        {"gpus": None, "gpus_used": None},
    ],
)
def test_fewer_gpus_are_proposed_only_where_some_were_never_needed(unseen: dict[str, Any]) -> None:
    assert right_sizes([peaks("A100-80", 0.95, 0.9, **unseen)], PER_GPU) == ()


def test_of_a_kind_that_nobody_knows_fewer_can_be_proposed_all_the_same() -> None:
    [found] = right_sizes([peaks("B300", 0.95, 0.9, gpus=4, gpus_used=1, gpus_hours=30.0)], PER_GPU)
    assert found.to == "1 of 4 GPUs"


def test_what_the_workloads_own_nodes_cost_counts_and_not_the_list() -> None:
    cheap = peaks("A100-80", 0.65, 0.45, usd_per_gpu_hour=Decimal("1.00"))
    assert right_sizes([cheap], PER_GPU) == ()  # the other kind is listed at 1.09
    [found] = right_sizes([cheap], {**PER_GPU, "A100-40": Decimal("0.75")})
    assert (found.to, found.saves_usd) == ("A100-40", Decimal(25))


def test_the_largest_saving_comes_first() -> None:
    small, large = peaks(workload="ml/Job/small", usd=Decimal(1)), peaks(workload="ml/Job/large", usd=Decimal(9))
    assert [s.peaks.workload for s in right_sizes([small, large], PER_GPU)] == ["ml/Job/large", "ml/Job/small"]


def test_a_workload_that_cost_nothing_saves_nothing() -> None:
    assert right_sizes([peaks(usd=Decimal(0))], PER_GPU) == ()


def test_nearly_full_memory_is_named_the_fullest_first() -> None:
    found = tight(
        [peaks(memory=0.96, workload="b"), peaks(memory=0.95, workload="c"), peaks(memory=0.99, workload="a")]
    )
    assert [p.workload for p in found] == ["a", "b"]


def test_every_mig_profile_is_a_part_of_its_gpu_and_the_smallest_stands_first() -> None:
    assert list(PROFILES) == sorted(PROFILES)
    assert all(0 < compute < COMPUTE_SLICES and 0 < memory < MEMORY_SLICES for compute, memory in PROFILES)
    for kind in (kind for kind in KINDS.values() if kind.mig):
        for (_, memory), memory_gb in zip(PROFILES, kind.mig, strict=True):
            assert memory_gb <= kind.memory_gb * memory / MEMORY_SLICES + 1


HALF_TOLD = Sample(engine=0.9)


def test_the_gpus_of_all_pods_of_a_workload_count_together() -> None:
    pods = [
        a_bound_pod("a", gpus=4, owner="Job/train"),
        a_bound_pod("b", gpus=4, owner="Job/train"),
        a_bound_pod("c", gpus=1),
    ]
    samples = {
        pods[0].key: (WORKING, RESTING, RESTING, RESTING),
        pods[1].key: (RESTING, WORKING, RESTING, RESTING),
        pods[2].key: (RESTING,),
    }
    found = in_use(Accounted(at=NOW - MINUTE), a_step_sight(*pods, samples=samples), EIGHT_GPU_POLICY)
    assert found == (
        InUse(month="2026-11", workload="ml/Job/c", gpus=1, used=0, seconds=60.0),
        InUse(month="2026-11", workload="ml/Job/train", gpus=8, used=2, seconds=60.0),
    )


def test_a_time_at_which_a_gpu_was_not_sampled_says_nothing() -> None:
    pod = a_bound_pod(gpus=2)
    for told in ((WORKING,), (WORKING, HALF_TOLD), ()):
        assert in_use(Accounted(at=NOW - MINUTE), a_step_sight(pod, samples={pod.key: told}), EIGHT_GPU_POLICY) == ()


def test_a_sample_speaks_for_two_minutes_and_not_for_a_pause_before_it() -> None:
    pod = a_bound_pod(gpus=1)
    looked = a_step_sight(pod, samples={pod.key: (WORKING,)})
    [found] = in_use(Accounted(at=NOW - timedelta(hours=3)), looked, EIGHT_GPU_POLICY)
    assert found.seconds == 120.0
    assert in_use(Accounted(), looked, EIGHT_GPU_POLICY) == ()
    assert in_use(Accounted(at=NOW + MINUTE), looked, EIGHT_GPU_POLICY) == ()


def test_the_month_is_that_of_the_budgets_zone() -> None:
    pod = a_bound_pod(gpus=1)
    edge = NOW.replace(day=1, hour=0, minute=30)
    looked = replace(a_step_sight(pod, samples={pod.key: (WORKING,)}), at=edge)
    [found] = in_use(Accounted(at=edge - MINUTE), looked, EIGHT_GPU_POLICY)
    assert found.month == "2026-11"
