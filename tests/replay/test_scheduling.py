"""Which pod goes where."""

from collections import Counter
from typing import Any

import pytest

from receiver.core.model.pods import CPU, GIB, MEMORY, Preference, Requirement, Toleration
from receiver.core.model.policy import Taint
from receiver.replay.world.objects import GPU, IMAGE_ANNOTATION, Denied, Packing, PodSpec, Timings
from tests.replay.builders import job, placed, pool, run, seconds, the_pod, vms, world


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
    assert the_pod(run(w, 60)).version == version


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


def test_a_node_pulls_an_image_once_and_its_next_pods_wait_for_that_pull_alone() -> None:
    image = {IMAGE_ANNOTATION: "huge"}
    w = world(pool(count=1, resources={GPU: 2}), timings=Timings(pulls={"huge": seconds(300)}))
    w.submit(job("first", runs=60, annotations=image))
    run(w, 100)
    w.submit(job("second", runs=60, annotations=image))
    assert [the_pod(run(w, 300), f"{name}-0").phase for name in ("first", "second")] == ["Pending", "Pending"]
    assert [the_pod(run(w, 300.3), f"{name}-0").phase for name in ("first", "second")] == ["Running", "Running"]
    w.submit(job("third", annotations=image))
    run(w, 366)
    assert the_pod(run(w, 366), "third-0").phase == "Running"


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


def test_least_allocated_packing_goes_to_the_node_with_the_larger_part_free() -> None:
    w = world(
        pool("small", count=1, resources={GPU: 2}),
        pool("large", count=1, resources={GPU: 8}),
        packing="least_allocated",
    )
    nodes = placed(w, job("x"), job("y", gpus_per_pod=4), job("z"))
    small, large = (vms(w, name)[0].hostname for name in ("small", "large"))
    assert nodes == [large, large, small]


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


def test_a_gated_pod_is_not_tried_until_its_gate_goes() -> None:
    w = world(pool(count=1))
    w.add_pod(PodSpec(namespace="default", name="p", requests={GPU: 1}, gate="queue.example/gate"))
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


def test_a_pod_bound_by_hand_ignores_cordons() -> None:
    w = world(pool(count=1))
    name = vms(w)[0].hostname
    w.patch_node(name, unschedulable=True)
    w.submit(job())
    run(w, 10)
    w.bind("default", "j-0", name)
    assert (the_pod(w).node, the_pod(run(w, 15)).phase) == (name, "Running")
    w.resize("a", 2)
    assert the_pod(run(w, 400)).node == name


@pytest.mark.parametrize("pod, node, status", [("j-1", None, 404), ("j-0", "nowhere", 404), ("j-0", None, 409)])
def test_what_cannot_be_bound_is_refused(pod: str, node: str | None, status: int) -> None:
    w = world(pool(count=1))
    w.submit(job())
    run(w, 10)
    with pytest.raises(Denied) as refused:
        w.bind("default", pod, node or vms(w)[0].hostname)
    assert refused.value.status == status


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


@pytest.mark.parametrize("packing", ["first_fit", "most_allocated", "least_allocated"])
def test_a_pod_goes_to_the_node_with_the_fewest_soft_taints_whatever_the_packing(packing: Packing) -> None:
    w = world(pool(count=3, resources={GPU: 4}), packing=packing)

    two, one, none = (vm.hostname for vm in vms(w))
    soft = [Taint(key=key, effect="PreferNoSchedule") for key in ("a", "b")]
    w.patch_node(two, taints=soft)
    w.patch_node(one, taints=soft[:1])
    assert placed(w, job("x", gpus_per_pod=4), job("y", gpus_per_pod=4), job("z")) == [none, one, two]


def test_a_soft_taint_that_a_pod_tolerates_counts_nothing() -> None:
    w = world(pool(count=2), packing="first_fit")

    first = min(vm.hostname for vm in vms(w))
    w.patch_node(first, taints=[Taint(key="a", effect="PreferNoSchedule")])
    assert placed(w, job("x", tolerations=(Toleration(key="a", operator="Exists"),))) == [first]


def test_pods_share_a_node_by_what_they_ask_for_beside_gpus() -> None:
    w = world(pool(count=2, resources={GPU: 8}, cpu_cores=96))
    w.submit(job(pods=8, compute={CPU: 40_000}))
    run(w, 1)
    held = Counter(p.node for p in w.pods.values())
    assert [held[None], *(held[vm.hostname] for vm in vms(w))] == [4, 2, 2]
    waits = next(p for p in w.pods.values() if p.node is None)
    assert waits.message == "0/2 nodes are available: 2 Insufficient cpu."


def test_a_gang_waits_until_its_memory_is_free_too() -> None:
    w = world(pool(count=1, resources={GPU: 4}, ram_mb=64 * 1024))
    w.submit(job("first", runs=60, compute={MEMORY: 30 * GIB}))
    w.submit(job("gang", pods=2, gang=True, compute={MEMORY: 25 * GIB}))
    assert the_pod(run(w, 10), "gang-0").node is None
    assert all(the_pod(run(w, 80), f"gang-{n}").node for n in range(2))
