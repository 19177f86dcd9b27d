"""What the port `Cluster` promises: each implementation changes one and the same world in the same way.

Every case is played by the product's adapter over HTTP and by those in memory. Where they differ, what a replay or a
test of the step shows would not hold in a cluster.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.model.pods import Pod, PodPhase, Toleration
from receiver.core.model.policy import Taint
from receiver.core.scaling.packing import SOFT_TAINTS
from receiver.ports import (
    CORDON_ANNOTATION,
    GANG_ANNOTATION,
    GANG_SIZE_ANNOTATION,
    IDLE_SHUTDOWN_ANNOTATION,
    KEEP_UNTIL_ANNOTATION,
    MAY_WAIT,
    PROTECT_ANNOTATION,
    QUOTA_NAME,
    SAFE_TO_EVICT_ANNOTATION,
    STOP_ANNOTATION,
    Cluster,
    Did,
    HeldPlaces,
    TryLater,
    WontWork,
)
from receiver.replay.world.objects import PodSpec
from simulator.cluster_holding import ClusterQueue, HoldQuota
from simulator.server import Simulator
from simulator.world import Pdb
from tests.contracts.stage import GPU

LABELS = {"gpu": "on-demand"}
OURS = Taint(key="gpu", value="true", effect="NoSchedule")
CONSENTS = {SAFE_TO_EVICT_ANNOTATION: "true"}
IDLE = {IDLE_SHUTDOWN_ANNOTATION: "2h"}
HOST = {"app.kubernetes.io/name": "prometheus"}


@pytest.fixture
def node(sim: Simulator) -> str:
    """The name of the one node."""
    (name,) = sim.world.nodes
    return name


def patch(sim: Simulator, node: str, **changes: Any) -> None:
    """Change *node* as somebody else would."""
    with sim.moved() as world:
        world.patch_node(node, **changes)


def run_pod(sim: Simulator, node: str, name: str, *, gpus: int = 1, **changes: Any) -> None:
    """Let a pod of ReplicaSet *name* run on *node*; *changes* go to its PodSpec."""
    given: dict[str, Any] = {"owner_kind": "ReplicaSet", "owner_name": name, **changes}
    with sim.moved() as world:
        world.add_pod(PodSpec(namespace="ml", name=name, requests={GPU: gpus} if gpus else {}, node=node, **given))
    sim.live.turn(timedelta(seconds=20))


def drained(cluster: Cluster, node: str, *, consenting: bool = False, evicting: bool = False) -> Did | str:
    """Cordon and drain; return what the drain did, or the code with which it asked to try later."""
    cluster.cordon(node, "action-7")
    try:
        return cluster.drain(node, consenting=consenting, evicting=evicting).did
    except TryLater as later:
        return later.code


def test_a_pod_that_came_back_to_a_cordoned_node_goes_with_it(sim: Simulator, cluster: Cluster, node: str) -> None:
    everything = (Toleration(operator="Exists"),)
    run_pod(sim, node, "agent", gpus=0, tolerations=everything)
    cluster.cordon(node, "action-7")
    cordoned = sim.world.now
    sim.live.turn(timedelta(seconds=5))
    with pytest.raises(TryLater, match="leaving"):
        cluster.drain(node, cordoned_at=cordoned)
    sim.live.turn(timedelta(minutes=2))
    assert [p.name for p in sim.world.pods_on(node) if p.namespace == "ml" and p.created_at > cordoned]
    assert cluster.drain(node, cordoned_at=cordoned).did is Did.DONE


@pytest.mark.parametrize("way", ["consenting", "evicting"])
def test_a_gpu_pod_that_would_come_back_to_a_cordoned_node_keeps_it(
    sim: Simulator, cluster: Cluster, node: str, way: str
) -> None:
    """It is never taken for one that may go with the node: its work would be lost."""
    cluster.cordon(node, "action-7")
    cordoned = sim.world.now
    sim.live.turn(timedelta(seconds=5))
    run_pod(sim, node, "back", annotations=CONSENTS, tolerations=(Toleration(operator="Exists"),))
    assert (
        cluster.drain(node, cordoned_at=cordoned, consenting=way == "consenting", evicting=way == "evicting").did
        is Did.DIFFERS
    )
    assert leaving(sim) == set()


def test_a_pod_bound_by_hand_after_the_cordon_is_evicted(sim: Simulator, cluster: Cluster, node: str) -> None:
    cluster.cordon(node, "action-7")
    cordoned = sim.world.now
    run_pod(sim, node, "web", gpus=0)
    with pytest.raises(TryLater, match="leaving"):
        cluster.drain(node, cordoned_at=cordoned)


def test_a_pod_that_tolerates_the_cordon_and_cannot_come_back_is_evicted(
    sim: Simulator, cluster: Cluster, node: str
) -> None:
    cluster.cordon(node, "action-7")
    cordoned = sim.world.now
    alone: dict[str, Any] = {"owner_kind": "", "owner_name": "", "annotations": CONSENTS}
    run_pod(sim, node, "alone", gpus=0, tolerations=(Toleration(operator="Exists"),), **alone)
    with pytest.raises(TryLater, match="leaving"):
        cluster.drain(node, cordoned_at=cordoned)


def test_a_pod_that_was_created_at_the_moment_of_the_cordon_is_evicted(
    sim: Simulator, cluster: Cluster, node: str
) -> None:
    cluster.cordon(node, "action-7")
    cordoned = sim.world.now
    run_pod(sim, node, "agent", gpus=0, tolerations=(Toleration(operator="Exists"),))
    with pytest.raises(TryLater, match="leaving"):
        cluster.drain(node, cordoned_at=cordoned)


def leaving(sim: Simulator) -> set[str]:
    """The pods of namespace ml that are being deleted."""
    return {p.name for p in sim.world.active_pods.values() if p.namespace == "ml" and p.deletion_at is not None}


# --- cordons


def test_nobody_is_evicted_from_a_node_whose_cordon_somebody_lifted(
    sim: Simulator, cluster: Cluster, node: str
) -> None:
    run_pod(sim, node, "web", gpus=0)
    cluster.cordon(node, "action-7")
    patch(sim, node, unschedulable=False)
    assert cluster.drain(node).did is Did.DIFFERS
    assert leaving(sim) == set()


@pytest.mark.parametrize(
    "unschedulable, owner, cordoned, uncordoned",
    [
        (False, None, Did.DONE, Did.ALREADY),
        (True, "action-7", Did.ALREADY, Did.DONE),
        (True, "action-3", Did.DONE, Did.DONE),
        (True, None, Did.DIFFERS, Did.DIFFERS),
        (False, "action-7", Did.DIFFERS, Did.DONE),
        (False, "action-3", Did.DONE, Did.DONE),
    ],
    ids=["nobody's", "ours", "of an older action", "someone else's", "ours, lifted", "an older one, lifted"],
)
def test_a_cordon_is_made_and_undone_only_where_it_is_ours(
    sim: Simulator,
    cluster: Cluster,
    node: str,
    unschedulable: bool,
    owner: str | None,
    cordoned: Did,
    uncordoned: Did,
) -> None:
    def again() -> None:
        patch(sim, node, unschedulable=unschedulable, annotations={CORDON_ANNOTATION: owner})

    again()
    assert cluster.cordon(node, "action-7").did is cordoned
    again()
    assert cluster.uncordon(node).did is uncordoned


@pytest.mark.parametrize(
    "unschedulable, action, why, shut, reopened, left",
    [
        (False, None, None, Did.DONE, Did.DONE, False),
        (True, None, "a budget", Did.ALREADY, Did.DONE, False),
        (True, None, "another month", Did.DONE, Did.DONE, False),
        (False, None, "a budget", Did.DONE, Did.DONE, False),
        (True, "action-7", None, Did.DONE, Did.DONE, True),
        (True, None, None, Did.DIFFERS, Did.ALREADY, True),
    ],
    ids=["nobody's", "shut", "shut for another stop", "somebody lifted it", "on its way out", "someone else's"],
)
def test_a_node_is_shut_for_a_stop_and_reopened_only_where_we_shut_it(
    sim: Simulator,
    cluster: Cluster,
    node: str,
    unschedulable: bool,
    action: str | None,
    why: str | None,
    shut: Did,
    reopened: Did,
    left: bool,
) -> None:
    marks = {CORDON_ANNOTATION: action, STOP_ANNOTATION: why}
    patch(sim, node, unschedulable=unschedulable, annotations=marks)
    assert cluster.cordon_for_budget(node, "a budget").did is shut
    assert sim.world.nodes[node].unschedulable
    assert cluster.uncordon_for_budget(node).did is reopened
    found = sim.world.nodes[node]
    assert (found.unschedulable, STOP_ANNOTATION in found.annotations) == (left, False)
    assert found.annotations.get(CORDON_ANNOTATION) == action


def test_a_removal_on_a_shut_node_begins_and_ends_without_opening_it(
    cluster: Cluster, sim: Simulator, node: str
) -> None:
    cluster.cordon_for_budget(node, "a budget")
    assert cluster.cordon(node, "action-7").did is Did.DONE
    assert cluster.uncordon(node).did is Did.DONE
    found = sim.world.nodes[node]
    assert found.unschedulable
    assert found.annotations.keys() & {CORDON_ANNOTATION, STOP_ANNOTATION} == {STOP_ANNOTATION}


def test_a_node_that_is_gone_needs_nothing(cluster: Cluster) -> None:
    said = [
        cluster.cordon("gone", "action-7"),
        cluster.uncordon("gone"),
        cluster.apply_labels_and_taints("gone", LABELS, [OURS]),
    ]
    assert [receipt.did for receipt in said] == [Did.DIFFERS, Did.ALREADY, Did.DIFFERS]
    assert [cluster.cordon_for_budget("gone", "a budget").did, cluster.uncordon_for_budget("gone").did] == [
        Did.DIFFERS,
        Did.ALREADY,
    ]


# --- labels and taints


@pytest.mark.parametrize(
    "worn_labels, worn_taints, did, taints",
    [
        ({}, [], Did.DONE, {OURS}),
        (LABELS, [OURS], Did.ALREADY, {OURS}),
        ({"gpu": "spot"}, [OURS], Did.DONE, {OURS}),
        (LABELS, [Taint(key="gpu", value="no")], Did.DONE, {OURS}),
        (LABELS, [Taint(key="gpu", value="true", effect="NoExecute")], Did.DONE, None),
        (LABELS, [Taint(key="theirs"), OURS], Did.ALREADY, {Taint(key="theirs"), OURS}),
        ({}, [Taint(key="theirs")], Did.DONE, {Taint(key="theirs"), OURS}),
    ],
    ids=["bare", "dressed", "other label", "other value", "other effect", "dressed, and more", "bare, and more"],
)
def test_a_node_gets_what_it_lacks_and_keeps_what_others_put_on(
    sim: Simulator,
    cluster: Cluster,
    node: str,
    worn_labels: Mapping[str, str],
    worn_taints: Sequence[Taint],
    did: Did,
    taints: set[Taint] | None,
) -> None:
    patch(sim, node, labels={"theirs": "kept", **worn_labels}, taints=worn_taints)
    assert cluster.apply_labels_and_taints(node, LABELS, [OURS]).did is did
    found = sim.world.nodes[node]
    assert (found.labels["theirs"], found.labels["gpu"]) == ("kept", "on-demand")
    assert set(found.taints) == (taints or {*worn_taints, OURS})
    assert cluster.apply_labels_and_taints(node, LABELS, [OURS]).did is Did.ALREADY


def test_a_node_carries_the_soft_taints_that_it_should_and_keeps_others(
    sim: Simulator, cluster: Cluster, node: str
) -> None:
    theirs = Taint(key="theirs", effect="PreferNoSchedule")
    patch(sim, node, taints=[theirs])
    for wanted in (SOFT_TAINTS, SOFT_TAINTS[:1], ()):
        assert cluster.set_soft_taints(node, wanted).did is Did.DONE
        assert set(sim.world.nodes[node].taints) == {theirs, *wanted}
        assert cluster.set_soft_taints(node, wanted).did is Did.ALREADY
    assert cluster.set_soft_taints("gone", SOFT_TAINTS).did is Did.DIFFERS


# --- drains


def test_gpu_pods_that_consented_leave_with_the_others(sim: Simulator, cluster: Cluster, node: str) -> None:
    run_pod(sim, node, "moves", annotations=CONSENTS)
    run_pod(sim, node, "web", gpus=0)
    cluster.cordon(node, "action-7")
    for _ in range(2):
        assert drained(cluster, node, consenting=True) == "draining"
        assert leaving(sim) == {"moves", "web"}
    sim.live.turn(timedelta(seconds=40))
    assert drained(cluster, node, consenting=True) is Did.DONE


@pytest.mark.parametrize(
    "changes, consenting",
    [
        ({"annotations": {}}, True),
        ({"annotations": {SAFE_TO_EVICT_ANNOTATION: "false"}}, True),
        ({"annotations": {SAFE_TO_EVICT_ANNOTATION: "yes"}}, True),
        ({"annotations": {**CONSENTS, PROTECT_ANNOTATION: "true"}}, True),
        ({"annotations": {**CONSENTS, GANG_ANNOTATION: "g"}}, True),
        ({"owner_kind": "", "owner_name": ""}, True),
        ({"owner_kind": "DaemonSet"}, True),
        ({"owner_kind": "Node"}, True),
        ({"labels": HOST}, True),
        ({}, False),
        ({"owner_kind": "Node"}, False),
        ({"gpus": 0, "annotations": {PROTECT_ANNOTATION: "true"}}, True),
        ({"gpus": 0, "labels": HOST}, False),
        ({"gpus": 0, "annotations": {SAFE_TO_EVICT_ANNOTATION: "false"}}, False),
    ],
    ids=[
        "silent",
        "refuses",
        "another word",
        "protected",
        "gang",
        "no owner",
        "a DaemonSet's",
        "a mirror pod",
        "monitoring on a GPU",
        "not asked",
        "a mirror pod, not asked",
        "protected without a GPU",
        "monitoring",
        "refuses without a GPU",
    ],
)
def test_nobody_is_evicted_while_one_pod_speaks_for_the_node(
    sim: Simulator, cluster: Cluster, node: str, changes: dict[str, Any], consenting: bool
) -> None:
    if consenting:
        run_pod(sim, node, "moves", annotations=CONSENTS)
    run_pod(sim, node, "web", gpus=0)
    run_pod(sim, node, "stays", **{"annotations": CONSENTS, **changes})
    assert drained(cluster, node, consenting=consenting) is Did.DIFFERS
    assert leaving(sim) == set()


def test_every_pod_that_keeps_its_node_is_named_by_the_drain(sim: Simulator, cluster: Cluster, node: str) -> None:
    for name in ("first", "second"):
        run_pod(sim, node, name)
    cluster.cordon(node, "action-7")
    receipt = cluster.drain(node)
    assert receipt.did is Did.DIFFERS
    assert [name for name in ("ml/first", "ml/second") if name not in receipt.sentence] == []


def test_gpu_pods_that_nobody_protects_leave_where_a_window_evicts(sim: Simulator, cluster: Cluster, node: str) -> None:
    run_pod(sim, node, "silent")
    run_pod(sim, node, "moves", annotations=CONSENTS)
    run_pod(sim, node, "web", gpus=0)
    cluster.cordon(node, "action-7")
    assert drained(cluster, node, evicting=True) == "draining"
    assert leaving(sim) == {"silent", "moves", "web"}
    sim.live.turn(timedelta(seconds=40))
    assert drained(cluster, node, evicting=True) is Did.DONE


@pytest.mark.parametrize(
    "changes",
    [
        {"annotations": {SAFE_TO_EVICT_ANNOTATION: "false"}},
        {"annotations": {PROTECT_ANNOTATION: "true"}},
        {"annotations": {GANG_ANNOTATION: "g"}},
        {"owner_kind": "", "owner_name": ""},
        {"owner_kind": "DaemonSet"},
        {"owner_kind": "Node"},
        {"labels": HOST},
        {"gpus": 0, "annotations": {PROTECT_ANNOTATION: "true"}},
    ],
    ids=["refuses", "protected", "gang", "no owner", "a DaemonSet's", "a mirror pod", "monitoring", "without a GPU"],
)
def test_no_window_evicts_anybody_while_one_pod_does_not_yield(
    sim: Simulator, cluster: Cluster, node: str, changes: dict[str, Any]
) -> None:
    run_pod(sim, node, "silent")
    run_pod(sim, node, "stays", **changes)
    assert drained(cluster, node, evicting=True) is Did.DIFFERS
    assert leaving(sim) == set()


@pytest.mark.parametrize(
    "changes, consenting",
    [
        ({"gpus": 0, "owner_kind": "DaemonSet"}, True),
        ({"gpus": 0, "owner_kind": "Node"}, True),
        ({"owner_kind": "DaemonSet"}, False),
    ],
    ids=["a DaemonSet's", "a mirror pod", "a DaemonSet's on a GPU, not asked"],
)
def test_what_leaves_with_its_node_is_not_evicted(
    sim: Simulator, cluster: Cluster, node: str, changes: dict[str, Any], consenting: bool
) -> None:
    run_pod(sim, node, "stays", **changes)
    assert drained(cluster, node, consenting=consenting) is Did.DONE
    assert leaving(sim) == set()


def test_a_gpu_pod_that_is_leaving_without_consent_keeps_its_node(sim: Simulator, cluster: Cluster, node: str) -> None:
    run_pod(sim, node, "saves")
    run_pod(sim, node, "web", gpus=0)
    with sim.moved() as world:
        world.delete_pod("ml", "saves")
    assert drained(cluster, node, consenting=True) is Did.DIFFERS
    assert leaving(sim) == {"saves"}


@pytest.mark.parametrize("gpus, consenting", [(1, True), (0, False)], ids=["consented", "without a GPU"])
def test_nobody_is_evicted_while_a_disruption_budget_holds_one(
    sim: Simulator, cluster: Cluster, node: str, gpus: int, consenting: bool
) -> None:
    run_pod(sim, node, "held", gpus=gpus, annotations=CONSENTS, labels={"app": "held"})
    run_pod(sim, node, "goes", gpus=gpus, annotations=CONSENTS)
    sim.world.pdbs.append(Pdb(namespace="ml", selector={"app": "held"}, min_available=1))
    assert drained(cluster, node, consenting=consenting) == "pdb"
    assert leaving(sim) == set()


def test_no_window_evicts_anybody_while_a_disruption_budget_holds_one(
    sim: Simulator, cluster: Cluster, node: str
) -> None:
    run_pod(sim, node, "held", labels={"app": "held"})
    run_pod(sim, node, "goes")
    sim.world.pdbs.append(Pdb(namespace="ml", selector={"app": "held"}, min_available=1))
    assert drained(cluster, node, evicting=True) == "pdb"
    assert leaving(sim) == set()


def test_a_budget_that_allows_one_of_two_lets_the_first_leave_and_holds_the_second(
    sim: Simulator, cluster: Cluster, node: str
) -> None:
    for name in ("first", "second"):
        run_pod(sim, node, name, labels={"app": "two"})
    sim.world.pdbs.append(Pdb(namespace="ml", selector={"app": "two"}, min_available=1))
    assert drained(cluster, node, evicting=True) == "pdb"
    assert len(leaving(sim)) == 1


# --- gangs


@pytest.mark.parametrize(
    "other, left",
    [({"duration": timedelta(seconds=5)}, 2), ({"gpus": 0}, 2), ({}, 3)],
    ids=["has done its work", "needs no GPU", "runs on"],
)
def test_a_gang_that_lost_a_pod_asks_for_those_that_still_need_a_node(
    sim: Simulator, cluster: Cluster, node: str, other: Mapping[str, Any], left: int
) -> None:
    gang = {"annotations": {GANG_ANNOTATION: "g", GANG_SIZE_ANNOTATION: "3"}, "gang_size": 3, "owner_name": "g"}
    for name, changes in (("one", {}), ("two", {}), ("three", other)):
        run_pod(sim, node, name, **{**gang, **changes})
    patch(sim, node, unschedulable=True)
    with sim.moved() as world:
        world.evict("ml", "one")
    sim.live.turn(timedelta(minutes=2))
    assert {p.gang_min for p in cluster.look().pods} == {left}


# --- what is there


def test_a_node_is_shown_with_its_instance_and_what_it_offers(sim: Simulator, cluster: Cluster, node: str) -> None:
    (vm,) = sim.world.lives
    patch(sim, node, labels=LABELS, taints=[OURS])
    (shown,) = cluster.look().nodes
    assert (shown.name, shown.instance, shown.ready, shown.unschedulable) == (node, vm.id, True, False)
    assert (shown.allocatable, shown.labels["gpu"]) == ({GPU: 4}, "on-demand")
    assert OURS in shown.taints
    assert cluster.has_node(node)
    assert not cluster.has_node("gone")


def test_a_cordon_and_its_reason_are_shown(cluster: Cluster, node: str) -> None:
    cluster.cordon(node, "action-7")
    (shown,) = cluster.look().nodes
    assert (shown.unschedulable, shown.annotations[CORDON_ANNOTATION]) == (True, "action-7")


def test_gpu_pods_are_shown_by_how_far_they_are_and_those_that_ended_are_left_out(
    sim: Simulator, cluster: Cluster, node: str
) -> None:
    run_pod(sim, node, "runs")
    run_pod(sim, node, "done", duration=timedelta(seconds=1))
    run_pod(sim, node, "web", gpus=0)
    with sim.moved() as world:
        for name, gate in (("waits", ""), ("deferred", MAY_WAIT), ("gated", "queue.example/gate")):
            world.add_pod(PodSpec(namespace="ml", name=name, requests={GPU: 8}, gate=gate))
    sim.live.turn(timedelta(seconds=40))
    with sim.moved() as world:
        world.add_pod(PodSpec(namespace="ml", name="starts", requests={GPU: 1}, node=node))
    assert {p.name: (p.phase, p.node) for p in cluster.look().pods} == {
        "starts": (PodPhase.STARTING, node),
        "runs": (PodPhase.RUNNING, node),
        "waits": (PodPhase.WAITING, None),
        "deferred": (PodPhase.DEFERRED, None),
        "gated": (PodPhase.OTHER, None),
    }
    assert sorted(p.name for p in cluster.gpu_pods_on(node)) == ["runs", "starts"]
    assert not cluster.gpu_pods_on("gone")


def test_a_pod_is_shown_with_what_decides_where_it_may_run_and_whether_it_may_go(
    sim: Simulator, cluster: Cluster, node: str
) -> None:
    tolerations = (Toleration(key="gpu", operator="Exists"),)
    run_pod(sim, node, "moves", gpus=2, annotations=CONSENTS, tolerations=tolerations, labels={"team": "vision"})
    run_pod(sim, node, "stays", annotations={PROTECT_ANNOTATION: "true"})
    run_pod(sim, node, "daemon", owner_kind="DaemonSet")
    with sim.moved() as world:
        world.delete_pod("ml", "stays")
    pods = {p.name: p for p in cluster.look().pods if p.node}
    moves = pods["moves"]
    assert (moves.requests, moves.owner, moves.labels["team"]) == ({GPU: 2}, "ReplicaSet/moves", "vision")
    assert tolerations[0] in moves.scheduling.tolerations
    assert {name: p.wishes.evictable for name, p in pods.items()} == {"moves": True, "stays": False, "daemon": False}
    assert {name: p.wishes.protected for name, p in pods.items()} == {"moves": False, "stays": True, "daemon": False}
    assert {name: p.daemon for name, p in pods.items()} == {"moves": False, "stays": False, "daemon": True}
    assert {name: p.terminating for name, p in pods.items()} == {"moves": False, "stays": True, "daemon": False}


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
def test_a_pod_says_whether_it_may_be_moved(
    sim: Simulator,
    cluster: Cluster,
    node: str,
    annotations: Mapping[str, str],
    evictable: bool,
    protected: bool,
) -> None:
    run_pod(sim, node, "pod", annotations=annotations)
    (pod,) = cluster.look().pods
    assert (pod.wishes.evictable, pod.wishes.protected) == (evictable, protected)


def test_every_pod_that_keeps_its_node_and_every_pod_of_the_monitoring_is_named(
    sim: Simulator, cluster: Cluster, node: str
) -> None:
    for name in ("prometheus-0", "prometheus-1"):
        run_pod(sim, node, name, gpus=0, labels=HOST)
    for name in ("alone-0", "alone-1"):
        run_pod(sim, node, name, gpus=0, owner_kind="", owner_name="")
    (shown,) = cluster.look().nodes
    assert sorted(shown.hosts) == ["ml/prometheus-0", "ml/prometheus-1"]
    assert [name for name in ("ml/alone-0", "ml/alone-1") if name in " ".join(shown.kept_by)] == [
        "ml/alone-0",
        "ml/alone-1",
    ]


def test_what_every_pod_without_a_gpu_requests_is_summed(sim: Simulator, cluster: Cluster, node: str) -> None:
    for name, cpu in (("one", 500), ("two", 250)):
        run_pod(sim, node, name, gpus=0, compute={"cpu": cpu, "memory": 2**30})
    (shown,) = cluster.look().nodes
    assert {r: shown.others[r] for r in ("cpu", "memory")} == {"cpu": 750, "memory": 2**31}


def test_gpu_pods_that_ended_are_shown_for_the_namespaces_asked_for(
    sim: Simulator, cluster: Cluster, node: str
) -> None:
    run_pod(sim, node, "done", duration=timedelta(seconds=1))
    run_pod(sim, node, "web", gpus=0, duration=timedelta(seconds=1))
    run_pod(sim, node, "runs")
    sim.live.turn(timedelta(minutes=1))
    (ended,) = cluster.ended(["other", "ml"])
    assert (ended.succeeded, ended.uid) == (True, sim.world.pods["ml", "done"].uid)
    assert ended.at is not None
    assert not cluster.ended(["other"])


# --- pods


def test_a_deferred_pod_is_admitted_once(sim: Simulator, cluster: Cluster) -> None:
    with sim.moved() as world:
        world.add_pod(PodSpec(namespace="ml", name="deferred", requests={GPU: 1}, gate=MAY_WAIT))
    (pod,) = cluster.look().pods
    assert [cluster.admit(pod).did for _ in range(2)] == [Did.DONE, Did.ALREADY]
    assert not sim.world.pods["ml", "deferred"].gate


def test_a_pod_behind_a_gate_that_is_not_ours_is_not_admitted(sim: Simulator, cluster: Cluster) -> None:
    with sim.moved() as world:
        world.add_pod(PodSpec(namespace="ml", name="gated", requests={GPU: 1}, gate="queue.example/gate"))
    (pod,) = cluster.look().pods
    assert cluster.admit(pod).did is Did.ALREADY
    assert sim.world.pods["ml", "gated"].gate == "queue.example/gate"


def test_a_pod_that_is_gone_is_not_admitted_and_neither_is_its_namesake(sim: Simulator, cluster: Cluster) -> None:
    def put() -> None:
        with sim.moved() as world:
            world.add_pod(PodSpec(namespace="ml", name="deferred", requests={GPU: 1}, gate=MAY_WAIT))

    put()
    (pod,) = cluster.look().pods
    with sim.moved() as world:
        world.delete_pod("ml", "deferred")
    sim.live.turn(timedelta(minutes=1))
    assert cluster.admit(pod).did is Did.DIFFERS
    put()
    assert cluster.admit(pod).did is Did.DIFFERS
    assert sim.world.pods["ml", "deferred"].gate == MAY_WAIT


def idle_pod(sim: Simulator, cluster: Cluster, node: str, **changes: Any) -> Pod:
    """The one GPU pod, which may be shut down when it is idle."""
    run_pod(sim, node, "web", **{"annotations": IDLE, **changes})
    (pod,) = cluster.look().pods
    return pod


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "Job"])
def test_the_owner_of_an_idle_pod_goes_to_zero(sim: Simulator, cluster: Cluster, node: str, kind: str) -> None:
    pod = idle_pod(sim, cluster, node, owner_kind=kind)
    assert cluster.scale_to_zero(pod).did is Did.DONE
    sim.live.turn(timedelta(minutes=2))
    assert not cluster.look().pods
    assert cluster.scale_to_zero(pod).did is Did.DIFFERS


@pytest.mark.parametrize(
    "changes",
    [
        {IDLE_SHUTDOWN_ANNOTATION: None},
        {IDLE_SHUTDOWN_ANNOTATION: "3h"},
        {KEEP_UNTIL_ANNOTATION: "2026-03-03T00:00:00Z"},
        {PROTECT_ANNOTATION: "true"},
    ],
    ids=["takes its consent back", "waits longer", "is kept until tomorrow", "is protected"],
)
def test_the_owner_of_a_pod_whose_wishes_changed_stays(
    sim: Simulator, cluster: Cluster, node: str, changes: Mapping[str, str | None]
) -> None:
    pod = idle_pod(sim, cluster, node)
    with sim.moved() as world:
        world.patch_pod("ml", "web", annotations=changes)
    assert cluster.scale_to_zero(pod).did is Did.DIFFERS
    assert leaving(sim) == set()


def test_the_owner_of_a_pod_that_never_consented_or_is_going_stays(sim: Simulator, cluster: Cluster, node: str) -> None:
    silent = idle_pod(sim, cluster, node, annotations={})
    assert cluster.scale_to_zero(silent).did is Did.DIFFERS
    with sim.moved() as world:
        world.patch_pod("ml", "web", annotations=IDLE)
    (pod,) = cluster.look().pods
    with sim.moved() as world:
        world.delete_pod("ml", "web")
    assert cluster.scale_to_zero(pod).did is Did.DIFFERS


@pytest.mark.parametrize("owner", ["", "DaemonSet", "Node"])
def test_a_pod_without_an_owner_that_can_be_scaled_is_refused(
    sim: Simulator, cluster: Cluster, node: str, owner: str
) -> None:
    pod = idle_pod(sim, cluster, node, owner_kind=owner, owner_name=owner and "of")
    with pytest.raises(WontWork) as refused:
        cluster.scale_to_zero(pod)
    assert (refused.value.code, leaving(sim)) == ("not_scalable", set())


def test_an_event_is_written_for_its_pod(sim: Simulator, cluster: Cluster, node: str) -> None:
    run_pod(sim, node, "runs")
    (pod,) = cluster.look().pods
    assert cluster.record_event(pod, reason="NoPoolFits", message="no pool offers it").did is Did.DONE
    (event,) = [e for e in sim.world.events if e.component == "gpu-autoscaler"]
    assert (event.name, event.uid, event.reason, event.message) == ("runs", pod.uid, "NoPoolFits", "no pool offers it")


# --- the budget hold


def test_a_namespace_is_held_once_held_otherwise_and_released_once(cluster: Cluster) -> None:
    for passing in ([], ["production"]):
        assert [cluster.hold_namespace("ml", [GPU], passing).did for _ in range(2)] == [Did.DONE, Did.ALREADY]
    cluster.hold_namespace("batch", [GPU], [])
    assert cluster.held_places(queues=True) == HeldPlaces(namespaces=("batch", "ml"))
    assert [cluster.release_namespace("ml").did for _ in range(2)] == [Did.DONE, Did.ALREADY]
    assert cluster.held_places(queues=True) == HeldPlaces(namespaces=("batch",))


def test_a_quota_of_others_by_our_name_is_neither_changed_nor_deleted(sim: Simulator, cluster: Cluster) -> None:
    theirs = {"metadata": {"name": QUOTA_NAME}, "spec": {"hard": {f"requests.{GPU}": "1"}}}
    sim.live.quotas.create("ml", theirs, sim.world.now)
    sim.world.quotas["ml"] = HoldQuota(spec={}, ours=False)
    assert cluster.hold_namespace("ml", [GPU], []).did is Did.DIFFERS
    assert cluster.release_namespace("ml").did is Did.DIFFERS
    assert cluster.held_places(queues=False) == HeldPlaces()


def put_queue(sim: Simulator, stop_policy: str | None) -> None:
    """Create ClusterQueue gpus with that stop policy where each implementation finds it."""
    spec = {} if stop_policy is None else {"stopPolicy": stop_policy}
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "gpus"}, "spec": spec}
    with sim.moved() as world:
        sim.live.custom.put([queue], world.now)
        world.cluster_queues["gpus"] = ClusterQueue(stop_policy=stop_policy)


@pytest.mark.parametrize("before", [None, "None"], ids=["none set", "None"])
def test_a_cluster_queue_is_held_once_and_released_once(sim: Simulator, cluster: Cluster, before: str | None) -> None:
    put_queue(sim, before)
    assert [cluster.hold_queue("gpus").did for _ in range(2)] == [Did.DONE, Did.ALREADY]
    assert cluster.held_places(queues=True) == HeldPlaces(cluster_queues=("gpus",))
    assert cluster.held_places(queues=False) == HeldPlaces()
    assert [cluster.release_queue("gpus").did for _ in range(2)] == [Did.DONE, Did.ALREADY]
    assert cluster.held_places(queues=True) == HeldPlaces()


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_a_cluster_queue_that_others_stopped_is_left_alone(sim: Simulator, cluster: Cluster, policy: str) -> None:
    put_queue(sim, policy)
    assert cluster.hold_queue("gpus").did is Did.DIFFERS
    assert cluster.release_queue("gpus").did is Did.ALREADY
    assert cluster.hold_queue("unknown").did is Did.DIFFERS
    assert cluster.release_queue("unknown").did is Did.ALREADY
