"""What the Kubernetes port over a world says of pods' wishes, and what it does to workloads and nodes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from receiver.core.model.pods import Pod, Preference, Requirement
from receiver.core.model.policy import Taint
from receiver.ports import (
    IDLE_SHUTDOWN_ANNOTATION,
    KEEP_UNTIL_ANNOTATION,
    PROTECT_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    Cluster,
    Did,
    TryLater,
    WontWork,
)
from receiver.replay.world.objects import GPU, PodSpec
from simulator.cluster_port import SimulatedCluster
from simulator.world import Pdb, World
from tests.replay.builders import job, pool, run, the_pod, vms, world

MAY_MOVE = {SAFE_TO_EVICT_ANNOTATION: "true"}
GPU_TAINT = Taint(key="gpu", value="true")


def seen(w: World) -> Pod:
    """The only GPU pod as the port shows it."""
    (found,) = SimulatedCluster(w).look().pods
    return found


def annotated(**annotations: str) -> Pod:
    """A running pod with these annotations, as the port shows it."""
    w = world(pool(count=1))
    w.submit(job(annotations=annotations))
    return seen(run(w, 10))


# --- what pods say ---


@pytest.mark.parametrize(
    "annotations, evictable, protected",
    [
        ({}, False, False),
        ({SAFE_TO_EVICT_ANNOTATION: "true"}, True, False),
        ({SAFE_TO_EVICT_ANNOTATION: "false"}, False, True),
        ({PROTECT_ANNOTATION: "true"}, False, True),
        ({PROTECT_ANNOTATION: ""}, False, True),
        ({PROTECT_ANNOTATION: "false"}, False, False),
        ({PROTECT_ANNOTATION: "yes", SAFE_TO_EVICT_ANNOTATION: "true"}, False, True),
    ],
)
def test_a_pod_says_whether_it_may_be_moved(annotations: dict[str, str], evictable: bool, protected: bool) -> None:
    pod = annotated(**annotations)
    assert (pod.evictable, pod.protected) == (evictable, protected)


@pytest.mark.parametrize(
    "text, read",
    [("90m", timedelta(minutes=90)), ("1h30m", timedelta(minutes=90)), ("1d", timedelta(days=1)), ("soon", None)],
)
def test_a_pod_says_after_how_long_an_idle_time_it_may_be_shut_down(text: str, read: timedelta | None) -> None:
    assert annotated(**{IDLE_SHUTDOWN_ANNOTATION: text}).idle_shutdown == read


@pytest.mark.parametrize(
    "text, read",
    [
        ("2026-03-02T12:00:00Z", datetime(2026, 3, 2, 12, tzinfo=UTC)),
        ("2026-03-02T12:00:00+02:00", datetime(2026, 3, 2, 10, tzinfo=UTC)),
        ("2026-03-02T12:00:00", None),
        ("tomorrow", None),
    ],
)
def test_a_pod_says_until_when_it_is_kept(text: str, read: datetime | None) -> None:
    assert annotated(**{KEEP_UNTIL_ANNOTATION: text}).keep_until == read


def test_a_pod_shows_what_it_prefers_and_the_minimum_of_its_gang() -> None:
    w = world()
    preferred = (Preference(weight=5, term=(Requirement(key="zone", operator="Exists"),)),)
    w.submit(job("g", pods=3, gang=True, gang_min=2, preferred=preferred))
    w.submit(job("alone"))
    shown = {p.name: (p.gang_min, p.preferred) for p in SimulatedCluster(w).look().pods}
    assert shown["g-0"] == (2, preferred)
    assert shown["alone-0"] == (None, ())


def test_a_gang_declared_without_a_size_has_no_minimum() -> None:
    w = world()
    spec = PodSpec(namespace="ml", name="p", requests={GPU: 1}, annotations={"gpu-autoscaler.io/gang": "g"})
    w.add_pod(spec)
    assert (seen(w).gang, seen(w).gang_min) == ("ml/g", None)


def test_only_a_pod_that_waits_has_the_schedulers_sentence() -> None:
    w = world(pool(count=1))
    w.submit(job(gpus_per_pod=2))
    assert seen(run(w, 1)).scheduler_says == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    assert annotated().scheduler_says == ""
    gated = world()
    gated.add_pod(PodSpec(namespace="ml", name="gated", requests={GPU: 1}, gate="queue.example/gate"))
    assert seen(run(gated, 1)).scheduler_says == ""


# --- workloads are moved ---


def two_pods(first: dict[str, str], second: dict[str, str]) -> tuple[World, SimulatedCluster, str]:
    """A node of two GPUs, cordoned by us, with two pods of ReplicaSets that carry these annotations, and the port."""
    w = world(pool(count=1, resources={GPU: 2}))
    for name, annotations in (("x", first), ("y", second)):
        spec: dict[str, Any] = {"namespace": "ml", "requests": {GPU: 1}, "owner_kind": "ReplicaSet"}
        w.add_pod(PodSpec(**spec, name=name, owner_name=name, annotations=annotations))
    run(w, 10)
    cluster, node = SimulatedCluster(w), vms(w)[0].hostname
    cluster.cordon(node, "act-1")
    cluster.writes.clear()
    return w, cluster, node


def test_gpu_pods_that_consented_are_evicted_and_wait_under_new_names() -> None:
    w, cluster, node = two_pods(MAY_MOVE, MAY_MOVE)
    with pytest.raises(TryLater) as leaving:
        cluster.drain(node, consenting=True)
    assert leaving.value.code == "draining"
    assert cluster.writes == [("evict", ("ml", "x")), ("evict", ("ml", "y"))]
    run(w, 30)
    assert {p.name: p.node for p in cluster.look().pods} == {"x-r1": None, "y-r1": None}
    assert cluster.drain(node, consenting=True).did is Did.DONE
    assert w.kills == []


@pytest.mark.parametrize("other", [{}, {**MAY_MOVE, PROTECT_ANNOTATION: "true"}, {SAFE_TO_EVICT_ANNOTATION: "false"}])
def test_nothing_is_evicted_while_one_gpu_pod_did_not_consent(other: dict[str, str]) -> None:
    _, cluster, node = two_pods(MAY_MOVE, other)
    receipt = cluster.drain(node, consenting=True)
    assert receipt.did is Did.DIFFERS
    assert "ml/y" in receipt.sentence
    assert cluster.writes == []


def test_consent_counts_only_where_it_is_asked_for() -> None:
    _, cluster, node = two_pods(MAY_MOVE, MAY_MOVE)
    receipt = cluster.drain(node)
    assert (receipt.did, "ml/x, ml/y" in receipt.sentence) == (Did.DIFFERS, True)
    assert cluster.writes == []


def test_nobody_is_evicted_from_a_node_whose_cordon_somebody_lifted() -> None:
    w, cluster, node = two_pods(MAY_MOVE, MAY_MOVE)
    w.patch_node(node, unschedulable=False)
    assert cluster.drain(node, consenting=True).did is Did.DIFFERS
    assert cluster.writes == []


def test_nobody_leaves_while_a_disruption_budget_holds_one_pod() -> None:
    w, cluster, node = two_pods(MAY_MOVE, MAY_MOVE)
    w.patch_pod("ml", "x", labels={"app": "x"})
    w.pdbs.append(Pdb(namespace="ml", selector={"app": "x"}, min_available=1))
    with pytest.raises(TryLater) as held:
        cluster.drain(node, consenting=True)
    assert held.value.code == "pdb"
    assert (the_pod(w, "x", "ml").deletion_at, the_pod(w, "y", "ml").deletion_at) == (None, None)
    assert cluster.writes == []


@pytest.mark.parametrize(
    "more",
    [
        {"annotations": {PROTECT_ANNOTATION: "true"}},
        {"annotations": {SAFE_TO_EVICT_ANNOTATION: "false"}},
        {"labels": {"app.kubernetes.io/name": "prometheus"}},
    ],
)
def test_a_node_stays_for_a_pod_without_gpu_that_speaks_for_it(more: dict[str, Any]) -> None:
    w = world(pool(count=1))
    w.add_pod(PodSpec(namespace="ml", name="cpu", **more))
    run(w, 10)
    cluster, node = SimulatedCluster(w), vms(w)[0].hostname
    cluster.cordon(node, "act-1")
    receipt = cluster.drain(node)
    assert (receipt.did, "ml/cpu" in receipt.sentence) == (Did.DIFFERS, True)
    assert [verb for verb, _ in cluster.writes] == ["cordon"]


# --- workloads go to zero ---


def test_a_job_is_suspended_once() -> None:
    w = world(pool(count=1))
    w.submit(job())
    cluster: Cluster = SimulatedCluster(w)
    pod = seen(run(w, 10))
    assert [cluster.scale_to_zero(pod).did for _ in range(2)] == [Did.DONE, Did.ALREADY]
    assert cluster.writes == [("scale_to_zero", ("default", "Job/j"))]  # type: ignore[attr-defined] # of WorldPort
    assert not run(w, 60).pods


@pytest.mark.parametrize("owner", ["", "DaemonSet", "Node"])
def test_a_pod_without_a_scalable_owner_is_not_scaled(owner: str) -> None:
    w = world(pool(count=1))
    w.add_pod(PodSpec(namespace="ml", name="p", requests={GPU: 1}, owner_kind=owner, owner_name=owner and "o"))
    cluster = SimulatedCluster(w)
    with pytest.raises(WontWork):
        cluster.scale_to_zero(cluster.look().pods[0])
    assert cluster.writes == []


# --- nodes are dressed ---


def test_a_node_is_dressed_once_and_keeps_what_it_wears() -> None:
    w = world(pool(count=1, taints=(Taint(key="mine", value="1"),), labels={"a": "1"}))
    name = vms(w)[0].hostname
    cluster = SimulatedCluster(w)
    receipts = [cluster.apply_labels_and_taints(name, {"gpu": "on-demand"}, [GPU_TAINT]) for _ in range(2)]
    assert [r.did for r in receipts] == [Did.DONE, Did.ALREADY]
    assert cluster.writes == [("apply_labels_and_taints", (name, {"gpu": "on-demand"}, (GPU_TAINT,)))]
    assert (w.nodes[name].labels["a"], w.nodes[name].labels["gpu"]) == ("1", "on-demand")
    assert w.nodes[name].taints == (Taint(key="mine", value="1"), GPU_TAINT)


def test_a_taint_of_another_value_is_replaced() -> None:
    w = world(pool(count=1, taints=(Taint(key="gpu", value="no"),)))
    name = vms(w)[0].hostname
    assert SimulatedCluster(w).apply_labels_and_taints(name, {}, [GPU_TAINT]).did is Did.DONE
    assert w.nodes[name].taints == (GPU_TAINT,)


def test_a_node_that_is_gone_is_not_dressed() -> None:
    cluster = SimulatedCluster(world())
    assert cluster.apply_labels_and_taints("gone", {"gpu": "on-demand"}, []).did is Did.DIFFERS
    assert cluster.writes == []
