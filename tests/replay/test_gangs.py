"""Pods that are placed together."""

from dataclasses import replace
from datetime import timedelta

from receiver.replay.world.objects import GPU, PodSpec
from tests.replay.builders import job, placed, pool, run, the_pod, vms, world


def test_an_elastic_gang_is_placed_with_its_minimum_and_grows_pod_by_pod() -> None:
    w = world(pool(count=1))
    w.submit(job("g", runs=9000, pods=5, gang=True, gang_min=2))
    assert not any(p.node for p in run(w, 1).pods.values())
    w.resize("a", 3)
    assert sum(p.node is not None for p in run(w, 400).pods.values()) == 3
    w.resize("a", 4)
    assert sum(p.node is not None for p in run(w, 800).pods.values()) == 4


def test_a_pod_that_joins_a_running_elastic_gang_needs_no_other() -> None:
    w = world(pool(count=3))
    w.submit(job("g", runs=9000, pods=2, gang=True, gang_min=2))
    run(w, 10)
    annotations = {"gpu-autoscaler.io/gang": "g"}
    more = PodSpec(namespace="default", name="more", requests={GPU: 1}, annotations=annotations, gang_size=2)
    w.add_pod(more)
    assert the_pod(run(w, 11), "more").node is not None


def test_a_gang_member_that_was_evicted_comes_back_beside_the_others() -> None:
    w = world(pool(count=2))
    w.submit(job("g", runs=9000, pods=2, gang=True))
    run(w, 10)
    w.evict("default", "g-0")
    assert the_pod(run(w, 20), "g-0-r1").node is not None


def test_the_last_pod_of_a_gang_comes_back_after_the_others_have_finished() -> None:
    w = world(pool(count=2))
    annotations = {"gpu-autoscaler.io/gang": "g"}
    for name, minutes in (("short", 1), ("long", 60)):
        spec = PodSpec(
            namespace="ml",
            name=name,
            requests={GPU: 1},
            duration=timedelta(minutes=minutes),
            annotations=annotations,
            owner_kind="ReplicaSet",
            gang_size=2,
        )
        w.add_pod(spec)
    assert the_pod(run(w, 120), "short", "ml").phase == "Succeeded"
    w.evict("ml", "long")
    assert the_pod(run(w, 130), "long-r1", "ml").node is not None


def test_a_gang_of_unlike_pods_is_placed_with_those_that_fit() -> None:
    w = world(pool(count=2, resources={GPU: 2}))
    for name, gpus in (("big", 4), ("one", 1), ("two", 2)):
        annotations = {"gpu-autoscaler.io/gang": "g"}
        spec = PodSpec(namespace="ml", name=name, requests={GPU: gpus}, annotations=annotations, gang_size=2)
        w.add_pod(spec)
    run(w, 1)
    assert [the_pod(w, n, "ml").node is not None for n in ("big", "one", "two")] == [False, True, True]


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    w = world(pool(count=1))
    w.submit(job("g", pods=2, gang=True))
    run(w, 1)
    assert [p.node for p in w.pods.values()] == [None, None]
    w.resize("a", 2)
    run(w, 400)
    assert len({p.node for p in w.pods.values()}) == 2


def test_a_gang_that_does_not_fit_holds_no_gpu_back_from_others() -> None:
    w = world(pool(count=1))
    w.submit(job("g", pods=2, gang=True, priority=5))
    assert placed(w, job("solo"), by=2) == [vms(w)[0].hostname]


def test_a_gang_waits_for_all_its_pods_to_exist() -> None:
    w = world(pool(count=2))
    spec = PodSpec(
        namespace="ml", name="g-0", requests={GPU: 1}, annotations={"gpu-autoscaler.io/gang": "g"}, gang_size=2
    )
    w.add_pod(spec)
    assert the_pod(run(w, 5), "g-0", "ml").node is None
    w.add_pod(replace(spec, name="g-1"))
    run(w, 6)
    assert all(p.node for p in w.pods.values())


def test_pods_of_one_job_without_a_gang_are_placed_one_by_one() -> None:
    w = world(pool(count=1))
    w.submit(job("plain", pods=2))
    run(w, 1)
    assert sorted(p.node is not None for p in w.pods.values()) == [False, True]
