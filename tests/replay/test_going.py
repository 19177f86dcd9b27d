"""How pods go: evicted, deleted, cancelled, scaled to zero, collected."""

import pytest

from receiver.replay.world.objects import GPU, PodSpec, Timings
from simulator.world import Pdb
from tests.replay.builders import job, pool, run, seconds, the_pod, world


def test_a_disruption_budget_forbids_an_eviction_until_enough_pods_are_healthy() -> None:
    w = world(pool(count=2))
    w.pdbs.append(Pdb(namespace="default", selector={"app": "serve"}, min_available=1))
    for number in (1, 2):
        w.add_pod(PodSpec(namespace="default", name=f"s-{number}", labels={"app": "serve"}, owner_kind="ReplicaSet"))
    run(w, 10)
    w.evict("default", "s-1")
    with pytest.raises(Exception, match="TooManyRequests \\(429\\)"):
        w.evict("default", "s-2")
    run(w, 30)
    assert {name for _, name in w.pods} == {"s-1-r1", "s-2"}
    w.evict("default", "s-2")
    assert the_pod(w, "s-2").deletion_at is not None


def test_an_evicted_pod_leaves_after_its_grace_and_a_pod_without_owner_stays_away() -> None:
    w = world(pool(count=1), timings=Timings(terminate=seconds(30)))
    w.add_pod(PodSpec(namespace="default", name="p", requests={GPU: 1}))
    run(w, 10)
    w.evict("default", "p")
    assert the_pod(run(w, 39), "p").deletion_at is not None
    assert not run(w, 40).pods


def test_a_deleted_pod_of_a_job_comes_back_and_runs_from_the_start() -> None:
    w = world(pool(count=1))
    w.submit(job(runs=100))
    run(w, 50)
    w.delete_pod("default", "j-0")
    run(w, 200)
    assert {name: p.phase for (_, name), p in w.pods.items()} == {"j-0-r1": "Succeeded"}
    assert w.finished[0].restarts == 1


def test_a_controller_at_zero_loses_its_pods_for_good() -> None:
    w = world(pool(count=2))
    for number in (1, 2):
        w.add_pod(
            PodSpec(namespace="ml", name=f"s-{number}", requests={GPU: 1}, owner_kind="ReplicaSet", owner_name="s")
        )
    w.add_pod(PodSpec(namespace="ml", name="other", requests={GPU: 1}, owner_kind="ReplicaSet", owner_name="other"))
    run(w, 10)
    w.delete_pod("ml", "s-1")  # it would come back
    w.scale_to_zero("ReplicaSet", "ml", "s")
    assert the_pod(w, "s-2", "ml").deletion_at is not None
    assert {name for _, name in run(w, 60).pods} == {"other"}
    assert w.at_zero("ReplicaSet", "ml", "s")


def test_a_suspended_job_waits_for_ever() -> None:
    w = world(pool(count=1))
    w.submit(job(runs=100, pods=2))
    run(w, 50)
    w.scale_to_zero("Job", "default", "j")
    assert not run(w, 500).pods
    assert not w.finished


def test_a_controller_that_is_scaled_up_again_is_no_longer_at_zero() -> None:
    w = world(pool(count=1))
    w.scale_to_zero("ReplicaSet", "ml", "s")
    w.add_pod(PodSpec(namespace="ml", name="s-1", owner_kind="ReplicaSet", owner_name="s"))
    assert not w.at_zero("ReplicaSet", "ml", "s")


def test_a_cancelled_job_does_not_come_back() -> None:
    w = world(pool(count=1))
    w.submit(job(pods=2))
    run(w, 50)
    w.cancel_job("j")
    run(w, 100)
    assert not w.pods
    assert not w.finished


def test_finished_pods_are_collected_when_asked() -> None:
    w = world(pool(count=1), timings=Timings(finished_lingers=seconds(60)))
    w.submit(job(runs=10))
    assert the_pod(run(w, 75)).phase == "Succeeded"
    assert not run(w, 76).pods
