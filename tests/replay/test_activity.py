"""What the GPUs report."""

from datetime import timedelta

import pytest

from receiver.replay.world.objects import GPU
from tests.replay.builders import job, pool, run, the_pod, vms, world


def test_a_gpu_is_idle_while_the_image_is_pulled_and_while_the_pod_warms_up() -> None:
    w = world(pool(count=1))
    w.submit(job(gpu_util=0.8))
    for at, util in ((5, 0.0), (15, 0.0), (15.2, 0.8)):
        (sample,) = run(w, at).gpu_samples()
        assert sample.util == util
    assert sample.pod == ("default", "j-0")


def test_only_the_gpus_of_running_pods_are_busy() -> None:
    w = world(pool(count=1, resources={GPU: 4}))
    w.submit(job("x", gpus_per_pod=2))
    w.submit(job("y"))
    samples = run(w, 30).gpu_samples()
    assert [s.pod and s.pod[1] for s in samples] == ["x-0", "x-0", "y-0", None]
    assert [s.util for s in samples] == [0.9, 0.9, 0.9, 0.0]
    assert samples[0].power > samples[3].power
    assert samples[0].temperature > samples[3].temperature
    assert {s.memory_used + s.memory_free for s in samples} == {46068}
    assert len({s.uuid for s in samples}) == 4


def test_gpus_report_only_once_their_driver_runs() -> None:
    w = world()
    w.resize("a", 1)
    assert run(w, 319).gpu_samples() == []
    assert w.utilization("a") is None
    assert len(run(w, 320).gpu_samples()) == 1
    assert w.gpus("a") == 1


def test_gpus_of_a_deleted_node_report_no_more() -> None:
    w = world(pool(count=2))
    w.delete_instance("a", vms(w)[0].id)
    assert len(w.gpu_samples()) == 1
    assert w.gpus("a") == 1


def test_utilization_is_the_average_over_gpus_and_the_window() -> None:
    w = world(pool(count=2))
    w.submit(job(runs=160, gpu_util=0.9))
    run(w, 600)
    assert w.utilization("a", timedelta(seconds=600)) == pytest.approx(0.9 * 150 / (2 * 600))
    assert w.utilization("a", timedelta(seconds=300)) == 0.0
    run(w, 601)
    assert w.utilization("a", timedelta(seconds=500)) == pytest.approx(0.9 * (165.2 - 101) / 1000)


def test_an_average_over_a_window_ignores_the_time_before_the_pool_had_gpus() -> None:
    w = world()
    w.submit(job(gpu_util=0.6))
    w.resize("a", 1)
    run(w, 320 + 15 + 45)
    assert w.utilization("a") == pytest.approx(0.6 * 45 / 60)


def test_gpu_seconds_count_running_pods_only() -> None:
    w = world(pool(count=1, resources={GPU: 4}))
    w.submit(job(runs=100, gpus_per_pod=3))
    assert run(w, 5.2).gpu_seconds == 0
    assert run(w, 55.2).gpu_seconds == 150
    assert run(w, 1000).gpu_seconds == 300
    assert the_pod(w).phase == "Succeeded"


def test_a_gpu_that_was_let_go_is_held_by_the_next_pod() -> None:
    w = world(pool(count=1))
    w.submit(job("x", runs=10))
    run(w, 60)
    assert [s.pod for s in w.gpu_samples()] == [None]
    w.submit(job("y"))
    assert [s.pod for s in run(w, 120).gpu_samples()] == [("default", "y-0")]
