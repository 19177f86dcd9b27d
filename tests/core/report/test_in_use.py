"""How many of its GPUs a workload used at once."""

from dataclasses import replace
from datetime import timedelta

from receiver.core.model.usage import Accounted, Sample
from receiver.core.report.rightsizing import InUse, in_use
from tests.core.builders import MINUTE, NOW
from tests.core.money.test_accounting import POLICY, RESTS, WORKS, bound, seen

HALF_TOLD = Sample(engine=0.9)


def test_the_gpus_of_all_pods_of_a_workload_count_together() -> None:
    pods = [bound("a", gpus=4, owner="Job/train"), bound("b", gpus=4, owner="Job/train"), bound("c", gpus=1)]
    samples = {
        pods[0].key: (WORKS, RESTS, RESTS, RESTS),
        pods[1].key: (RESTS, WORKS, RESTS, RESTS),
        pods[2].key: (RESTS,),
    }
    found = in_use(Accounted(at=NOW - MINUTE), seen(*pods, samples=samples), POLICY)
    assert found == (
        InUse(month="2026-11", workload="ml/Job/c", gpus=1, used=0, seconds=60.0),
        InUse(month="2026-11", workload="ml/Job/train", gpus=8, used=2, seconds=60.0),
    )


def test_a_time_at_which_a_gpu_was_not_sampled_says_nothing() -> None:
    pod = bound(gpus=2)
    for told in ((WORKS,), (WORKS, HALF_TOLD), ()):
        assert in_use(Accounted(at=NOW - MINUTE), seen(pod, samples={pod.key: told}), POLICY) == ()


def test_a_sample_speaks_for_two_minutes_and_not_for_a_pause_before_it() -> None:
    pod = bound(gpus=1)
    looked = seen(pod, samples={pod.key: (WORKS,)})
    [found] = in_use(Accounted(at=NOW - timedelta(hours=3)), looked, POLICY)
    assert found.seconds == 120.0
    assert in_use(Accounted(), looked, POLICY) == ()
    assert in_use(Accounted(at=NOW + MINUTE), looked, POLICY) == ()


def test_the_month_is_that_of_the_budgets_zone() -> None:
    pod = bound(gpus=1)
    edge = NOW.replace(day=1, hour=0, minute=30)
    looked = replace(seen(pod, samples={pod.key: (WORKS,)}), at=edge)
    [found] = in_use(Accounted(at=edge - MINUTE), looked, POLICY)
    assert found.month == "2026-11"
