"""How many of its GPUs a workload used at once."""

from dataclasses import replace
from datetime import timedelta

from receiver.core.model.usage import Accounted, Sample
from receiver.core.report.rightsizing import InUse, in_use
from tests.core.builders import MINUTE, NOW
from tests.core.money.builders import EIGHT_GPU_POLICY, RESTING, WORKING, a_bound_pod, a_step_sight

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
