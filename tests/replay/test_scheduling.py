"""Which pod goes where."""

from typing import Any

import pytest

from receiver.core.pods import Preference, Requirement, Toleration
from receiver.core.policy import Taint
from receiver.replay.world import GPU, Job, Pdb, PodSpec, Refused, Timings, World
from tests.replay.builders import job, pool, run, seconds, the_pod, vms, world


def placed(w: World, *jobs: Job, by: float = 1) -> list[str | None]:
    """Submit *jobs* and return where each first pod is, a second later."""
    for j in jobs:
        w.submit(j)
    run(w, by)
    return [the_pod(w, f"{j.id}-0").node for j in jobs]


def test_a_pod_is_tried_shortly_after_its_creation_and_says_why_it_waits() -> None:
    w = world()
    w.submit(job())
    assert the_pod(run(w, 0.1)).scheduled is None
    waiting = the_pod(run(w, 0.2))
    assert (waiting.phase, waiting.scheduled, waiting.reason) == ("Pending", False, "Unschedulable")
    assert waiting.message == "no nodes available to schedule pods"


def test_the_message_counts_nodes_by_their_first_reason() -> None:
    w = world(
        pool("a", count=2, taints=(Taint(key="gpu", value="true"),)),
        pool("b", count=1),
        pool("c", count=1, labels={"zone": "x"}),
    )
    w.patch_node(vms(w, "b")[0].hostname, unschedulable=True)
    w.submit(job(gpus_per_pod=4, node_selector={"zone": "x"}))
    message = the_pod(run(w, 1)).message
    assert message.startswith("0/4 nodes are available: ")
    assert "2 node(s) had untolerated taint {gpu: true}" in message
    assert "1 node(s) were unschedulable" in message
    assert "1 Insufficient nvidia.com/gpu" in message


def test_a_pod_that_waits_is_told_anew_when_what_keeps_it_waiting_changed() -> None:
    w = world(pool("a", count=1, taints=(Taint(key="gpu", value="true"),)), pool("b"))
    w.submit(job(gpus_per_pod=2))
    first = the_pod(run(w, 1))
    assert first.message == "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: true}."
    w.resize("b", 1)
    later = the_pod(run(w, 400))
    assert later.message == (
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint {gpu: true}."
    )
    assert later.scheduled_since == first.scheduled_since


def test_a_pod_that_waits_is_left_alone_while_its_reason_stays() -> None:
    w = world(pool(count=1))
    w.submit(job(gpus_per_pod=2))
    version = the_pod(run(w, 1)).version
    w.patch_node(vms(w)[0].hostname, annotations={"seen": "yes"})
    assert the_pod(run(w, 2)).version == version


def test_reasons_are_sorted_by_their_text_as_kube_scheduler_does() -> None:
    w = world(pool("a", count=2, taints=(Taint(key="gpu", value="true"),)), pool("b", count=10))
    w.submit(job(gpus_per_pod=2))
    assert the_pod(run(w, 1)).message == (
        "0/12 nodes are available: 10 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {gpu: true}."
    )


def test_a_pod_runs_after_the_image_pull_and_succeeds_after_its_duration() -> None:
    w = world(pool(count=1))
    w.submit(job(runs=60))
    assert the_pod(run(w, 5)).phase == "Pending"
    assert the_pod(run(w, 5.2)).phase == "Running"
    assert the_pod(run(w, 65.1)).phase == "Running"
    assert the_pod(run(w, 65.2)).phase == "Succeeded"
    (done,) = w.finished
    assert (done.id, done.wait, done.restarts) == ("j", seconds(5.2), 0)


def test_a_waiting_pod_is_placed_when_the_driver_of_a_new_node_runs() -> None:
    w = world()
    w.submit(job())
    run(w, 1)
    w.resize("a", 1)
    assert the_pod(run(w, 320)).node is None
    bound = the_pod(run(w, 321))
    assert bound.node == vms(w)[0].hostname
    assert bound.reason == ""


def test_gpus_are_never_given_twice() -> None:
    w = world(pool(count=2))
    assert sorted(n is not None for n in placed(w, job("x"), job("y"), job("z"))) == [False, True, True]


def test_a_freed_gpu_goes_to_the_next_in_line_by_priority_then_age() -> None:
    w = world(pool(count=1))
    w.submit(job("first", runs=60))
    run(w, 1)
    w.submit(job("old"))
    run(w, 2)
    w.submit(job("urgent", priority=10))
    run(w, 70)
    assert the_pod(w, "urgent-0").node is not None
    assert the_pod(w, "old-0").node is None


CASES: list[tuple[str, dict[str, Any], dict[str, Any], bool]] = [
    ("selector that is offered", {"labels": {"k": "v"}}, {"node_selector": {"k": "v"}}, True),
    ("selector that nobody offers", {}, {"node_selector": {"k": "v"}}, False),
    ("taint not tolerated", {"taints": (Taint(key="gpu", value="true"),)}, {}, False),
    (
        "taint tolerated by value",
        {"taints": (Taint(key="gpu", value="true"),)},
        {"tolerations": (Toleration(key="gpu", value="true"),)},
        True,
    ),
    (
        "taint of another value",
        {"taints": (Taint(key="gpu", value="true"),)},
        {"tolerations": (Toleration(key="gpu", value="no"),)},
        False,
    ),
    (
        "taint tolerated for another effect",
        {"taints": (Taint(key="gpu", value="true"),)},
        {"tolerations": (Toleration(key="gpu", operator="Exists", effect="NoExecute"),)},
        False,
    ),
    (
        "any taint tolerated",
        {"taints": (Taint(key="gpu", value="true"),)},
        {"tolerations": (Toleration(operator="Exists"),)},
        True,
    ),
    ("preference is no obstacle", {"taints": (Taint(key="gpu", effect="PreferNoSchedule"),)}, {}, True),
    (
        "one of two alternatives",
        {"labels": {"k": "v"}},
        {
            "affinity": (
                (Requirement(key="k", operator="In", values=("w",)),),
                (Requirement(key="k", operator="Exists"), Requirement(key="z", operator="DoesNotExist")),
            )
        },
        True,
    ),
    (
        "not in",
        {"labels": {"k": "v"}},
        {"affinity": ((Requirement(key="k", operator="NotIn", values=("v",)),),)},
        False,
    ),
    (
        "greater than",
        {"labels": {"n": "8"}},
        {"affinity": ((Requirement(key="n", operator="Gt", values=("4",)),),)},
        True,
    ),
    (
        "less than",
        {"labels": {"n": "8"}},
        {"affinity": ((Requirement(key="n", operator="Lt", values=("4",)),),)},
        False,
    ),
    ("more GPUs than a node has", {}, {"gpus_per_pod": 2}, False),
    ("another resource", {}, {"resource": "nvidia.com/mig-1g.10gb"}, False),
]


@pytest.mark.parametrize("of_pool, of_job, fits", [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_pod_goes_only_where_its_constraints_hold(
    of_pool: dict[str, Any], of_job: dict[str, Any], fits: bool
) -> None:
    w = world(pool(count=1, **of_pool))
    assert (placed(w, job(**of_job)) != [None]) is fits


def test_a_cordoned_node_takes_nothing_until_it_is_uncordoned() -> None:
    w = world(pool(count=1))
    name = vms(w)[0].hostname
    w.patch_node(name, unschedulable=True)
    assert placed(w, job()) == [None]
    w.patch_node(name, unschedulable=False)
    assert the_pod(run(w, 2)).node == name


def test_a_cordon_leaves_running_pods_alone() -> None:
    w = world(pool(count=1))
    w.submit(job(runs=60))
    run(w, 10)
    w.patch_node(vms(w)[0].hostname, unschedulable=True)
    assert the_pod(run(w, 100)).phase == "Succeeded"


def test_a_pod_that_tolerates_everything_lands_on_a_cordoned_node() -> None:
    w = world(pool(count=1))
    w.patch_node(vms(w)[0].hostname, unschedulable=True)
    assert placed(w, job(tolerations=(Toleration(operator="Exists"),))) == [vms(w)[0].hostname]


def test_most_allocated_packing_fills_the_fuller_node_first() -> None:
    w = world(pool(count=2, resources={GPU: 4}))
    nodes = placed(w, job("x", gpus_per_pod=2), job("y"), job("z"))
    assert len(set(nodes)) == 1


def prefer(weight: int, **labels: str) -> Preference:
    """A preference for nodes with these labels."""
    return Preference(
        weight=weight, term=tuple(Requirement(key=k, operator="In", values=(v,)) for k, v in labels.items())
    )


@pytest.mark.parametrize(
    "preferred, chosen",
    [
        ((), "big"),
        ((prefer(1, zone="small"),), "small"),
        ((prefer(1, zone="small"), prefer(2, zone="big")), "big"),
        ((prefer(2, zone="small"), prefer(1, zone="big")), "small"),
        ((prefer(1, zone="small"), prefer(1, zone="small"), prefer(1, zone="big")), "small"),
        ((prefer(100, zone="nowhere"),), "big"),
        ((prefer(100, zone="small", disk="ssd"),), "big"),
        ((Preference(weight=100, term=()),), "big"),
    ],
)
def test_preferred_nodes_come_before_fuller_ones(preferred: tuple[Preference, ...], chosen: str) -> None:
    w = world(
        pool("big", count=1, resources={GPU: 4}, labels={"zone": "big"}),
        pool("small", count=1, resources={GPU: 4}, labels={"zone": "small"}),
    )
    placed(w, job("first", gpus_per_pod=3, node_selector={"zone": "big"}))  # the fuller node is the better one
    assert placed(w, job(preferred=preferred), by=2) == [vms(w, chosen)[0].hostname]


def test_a_preferred_node_that_is_full_does_not_keep_a_pod_waiting() -> None:
    w = world(pool("a", count=1, labels={"zone": "a"}), pool("b", count=1))
    placed(w, job("first", node_selector={"zone": "a"}))
    assert placed(w, job(preferred=(prefer(100, zone="a"),)), by=2) == [vms(w, "b")[0].hostname]


def test_an_elastic_gang_is_placed_with_its_minimum_and_grows_pod_by_pod() -> None:
    w = world(pool(count=1))
    w.submit(job("g", pods=4, gang=True, gang_min=2))
    assert not any(p.node for p in run(w, 1).pods.values())
    w.resize("a", 3)
    assert sum(p.node is not None for p in run(w, 400).pods.values()) == 3
    w.resize("a", 4)
    assert all(p.node for p in run(w, 800).pods.values())


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
    w.add_pod(PodSpec(**{**{f: getattr(spec, f) for f in spec.__slots__}, "name": "g-1"}))
    run(w, 6)
    assert all(p.node for p in w.pods.values())


def test_pods_of_one_job_without_a_gang_are_placed_one_by_one() -> None:
    w = world(pool(count=1))
    w.submit(job("plain", pods=2))
    run(w, 1)
    assert sorted(p.node is not None for p in w.pods.values()) == [False, True]


def test_a_gated_pod_is_not_tried_until_its_gate_goes() -> None:
    w = world(pool(count=1))
    w.add_pod(PodSpec(namespace="default", name="p", requests={GPU: 1}, gated=True))
    gated = the_pod(run(w, 60), "p")
    assert (gated.node, gated.scheduled, gated.reason) == (None, False, "SchedulingGated")
    w.ungate("default", "p")
    assert the_pod(run(w, 61), "p").node is not None


def test_a_pod_name_is_taken_only_once() -> None:
    w = world()
    w.submit(job("x"))
    with pytest.raises(Exception, match="already exists"):
        w.add_pod(PodSpec(namespace="default", name="x-0"))


def test_a_cpu_pod_prefers_a_node_without_gpus() -> None:
    w = world(pool("a", count=1), pool("cpu", count=1, size="g4s.kube.medium", resources={}))
    w.add_pod(PodSpec(namespace="kube-system", name="dns"))
    assert the_pod(run(w, 1), "dns", "kube-system").node == vms(w, "cpu")[0].hostname


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


def test_a_pod_bound_by_hand_ignores_cordons() -> None:
    w = world(pool(count=1))
    name = vms(w)[0].hostname
    w.patch_node(name, unschedulable=True)
    w.submit(job())
    run(w, 10)
    w.bind("default", "j-0", name)
    assert (the_pod(w).node, the_pod(run(w, 15)).phase) == (name, "Running")


@pytest.mark.parametrize("pod, node, status", [("j-1", None, 404), ("j-0", "nowhere", 404), ("j-0", None, 409)])
def test_what_cannot_be_bound_is_refused(pod: str, node: str | None, status: int) -> None:
    w = world(pool(count=1))
    w.submit(job())
    run(w, 10)
    with pytest.raises(Refused) as refused:
        w.bind("default", pod, node or vms(w)[0].hostname)
    assert refused.value.status == status


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


def test_a_partly_used_node_takes_only_what_is_left_of_it() -> None:
    w = world(pool(count=1, resources={GPU: 4}))
    first, second, third = placed(w, job("x", gpus_per_pod=3), job("y", gpus_per_pod=2), job("z"))
    assert first == third == vms(w)[0].hostname
    assert second is None


def test_a_job_has_waited_until_the_last_of_its_pods_ran() -> None:
    w = world(pool(count=1))
    w.submit(job(runs=100, pods=2))
    run(w, 1000)
    assert w.finished[0].wait == seconds(5.2 + 100 + 5)
