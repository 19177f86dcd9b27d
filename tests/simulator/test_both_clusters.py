"""The two implementations of the port `Cluster` change one and the same world in the same way.

Every case runs twice: the product's adapter over HTTP, and the in-memory one, which extends that of the replays. Where
they differ, what a replay promises would not hold in a cluster.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.kubernetes.cluster import connect
from receiver.core.model.pods import Toleration
from receiver.core.model.policy import Taint
from receiver.core.scaling.packing import SOFT_TAINTS
from receiver.ports import (
    CORDON_ANNOTATION,
    GANG_ANNOTATION,
    GANG_SIZE_ANNOTATION,
    PROTECT_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    STOP_ANNOTATION,
    Cluster,
    Did,
    TryLater,
)
from receiver.replay.world.objects import PodSpec
from simulator.clocks import ManualClock
from simulator.cluster_port import SimulatedCluster
from simulator.server import Simulator
from simulator.world import Pdb
from tests.simulator.builders import GPU_POOL, START, config

Starter = Callable[..., Simulator]
GPU = "nvidia.com/gpu"
LABELS = {"gpu": "on-demand"}
OURS = Taint(key="gpu", value="true", effect="NoSchedule")
CONSENTS = {SAFE_TO_EVICT_ANNOTATION: "true"}
BUSY_POOL = {"id": GPU_POOL, "size": "an.g1.l40s.kube.x4", "resources": {GPU: 4}, "count": 1}


@pytest.fixture
def sim() -> Simulator:
    """A simulator with one node of four GPUs that came without labels and taints; it serves over HTTP where asked."""
    return Simulator(config(pools=[BUSY_POOL]), clock=ManualClock(START))


@pytest.fixture(params=["over HTTP", "in memory"])
def cluster(sim: Simulator, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """Both implementations, one after the other."""
    if request.param == "in memory":
        yield SimulatedCluster(sim.world)
        return
    with sim, closing(connect(str(sim.kubeconfig(tmp_path / "kubeconfig")), timeouts=(60, 60))) as adapter:
        yield adapter


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
        ({"labels": {"app.kubernetes.io/name": "prometheus"}}, True),
        ({}, False),
        ({"owner_kind": "Node"}, False),
        ({"gpus": 0, "annotations": {PROTECT_ANNOTATION: "true"}}, True),
        ({"gpus": 0, "labels": {"app.kubernetes.io/name": "prometheus"}}, False),
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
        {"labels": {"app.kubernetes.io/name": "prometheus"}},
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
