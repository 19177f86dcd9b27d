"""What the scenarios do in a cluster stays in their namespace, and nothing of it is left behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.civo import simulated
from conformance.cluster import OWN_LEASES, Cluster, NotOursError
from conformance.kubernetes_api import Api, ApiRefused
from conformance.plan import MARK, NAMESPACE, POOL
from conformance.rights import BASE, Right, missing, named
from simulator.server import Simulator


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    """A simulator with the scenarios' pool, and one usable node in it."""
    with simulated(pool={"count": 1}) as running:
        yield running


@pytest.fixture
def api(simulator: Simulator, tmp_path: Path) -> Iterator[Api]:
    """Its Kubernetes API."""
    found = Api(simulator.kubeconfig(tmp_path / "kubeconfig"))
    yield found
    found.close()


def namespaces(api: Api) -> set[str]:
    return {n["metadata"]["name"] for n in api.items("/api/v1/namespaces")}


def test_a_namespace_of_others_is_refused_and_stays(api: Api) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    cluster = Cluster(api, POOL)
    for act in (cluster.begin, cluster.clear, cluster.end):
        with pytest.raises(NotOursError, match=MARK):
            act()
    assert NAMESPACE in namespaces(api)


def test_a_node_of_another_pool_is_refused(api: Api, simulator: Simulator) -> None:
    cluster = Cluster(api, "another-pool")
    (node,) = simulator.world.nodes
    for act in (cluster.cordon, cluster.delete_node):
        with pytest.raises(NotOursError, match=node):
            act(node)
    assert not simulator.world.nodes[node].unschedulable


def test_the_next_run_finds_what_a_killed_one_left_and_the_end_leaves_nothing(api: Api) -> None:
    first, second = Cluster(api, POOL), Cluster(api, POOL)
    first.begin()
    first.pod("train")
    first.deployment("web", replicas=2, gpus=0)
    first.disruption_budget("web", "web")
    lease = {"metadata": {"name": "gpu-autoscaler-1"}, "spec": {"renewTime": "2026-11-20T12:00:00Z"}}
    api.post(OWN_LEASES, lease)
    second.begin()
    assert (second.pods(), api.items(OWN_LEASES)) == ({}, [])
    assert api.items("/apis/policy/v1/poddisruptionbudgets") == []
    second.job("again", pods=2)
    assert len(second.pods()) == 2
    second.end()
    assert NAMESPACE not in namespaces(api)
    second.end()


def test_a_right_that_is_missing_is_named(simulator: Simulator, api: Api) -> None:
    assert missing(api, BASE) == []
    simulator.fault(kind="deny", right="create namespaces")
    simulator.fault(kind="deny", right="create serviceaccounts/token")
    simulator.fault(kind="deny", right="delete namespaces")
    lacking = missing(api, (*BASE, Right("create", "", "serviceaccounts/token")))
    assert named(lacking) == "create delete namespaces cluster-wide, create serviceaccounts/token"


def test_a_refusal_says_what_was_asked(api: Api) -> None:
    with pytest.raises(ApiRefused, match=r"GET /api/v1/nodes/none: 404 .*not found"):
        api.get("/api/v1/nodes/none")
    assert api.delete("/api/v1/namespaces/none") is False
