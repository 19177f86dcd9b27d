"""The suite beside other work in a cluster: which rights it takes, what it serves, and when it does not begin."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner
from pytest_httpserver import HTTPServer

from conformance.__main__ import main
from conformance.cluster import Cluster
from conformance.kubernetes_api import Api, kubeconfig_for
from conformance.levers import Lever
from conformance.plan import NAMESPACE, POOL
from conformance.rights import READ_EVERYWHERE, _shipped_rules, create_account, others_here, shared_out
from conformance.scenario import UnavailableError
from conformance.scenarios import chosen, split
from conformance.stage import Place, is_work_of_others
from conformance.suite import Ceiling, play
from receiver.adapters.clock import SystemClock
from simulator.server import Simulator
from tests.conformance.fakes import FREE_CEILING, FakeApi
from tests.simulator.builders import config

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def single(rules: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {(g, r, v) for rule in rules for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]}


def test_what_a_namespace_can_confine_is_not_taken_in_the_whole_cluster() -> None:
    everywhere, here = (single(rules) for rules in shared_out(_shipped_rules()))
    assert {right for right in everywhere if right[2] not in ("list", "watch")} == {
        ("", "nodes", "get"),
        ("", "nodes", "patch"),
        ("", "pods/eviction", "create"),
    }
    assert {(group, resource) for group, resource, verb in everywhere if verb == "list"} == READ_EVERYWHERE
    for resource in ("workloads/status", "provisioningrequests/status", "capacitybuffers/status", "events"):
        assert [r for r in here if r[1] == resource and r[2] in ("patch", "create")], resource


def test_no_right_on_the_clusters_queues_and_checks_is_taken() -> None:
    rights = {right for rules in shared_out(_shipped_rules()) for right in single(rules)}
    assert not [r for r in rights if r[1].partition("/")[0] in ("clusterqueues", "admissionchecks", "resourceflavors")]


def test_a_name_that_a_right_is_confined_to_stays() -> None:
    _, here = shared_out(_shipped_rules())
    assert [r["resourceNames"] for r in here if r["verbs"] == ["delete"]] == [["gpu-autoscaler-budget-hold"]]


def test_the_account_is_bound_in_the_namespace_and_once_in_the_cluster() -> None:
    api = FakeApi()
    create_account(api)
    kinds = sorted(one["kind"] for one in api.objects.values())
    assert kinds == ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount"]
    assert [path for path, one in api.objects.items() if one["kind"] == "Role"] == [
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/gpu-autoscaler-conformance"
    ]


def test_its_lease_is_in_its_own_namespace() -> None:
    assert kubeconfig_for("https://k", "t")["contexts"][0]["context"]["namespace"] == NAMESPACE


class Listing(Api):
    """An API server with some lists."""

    def __init__(self, **lists: Any) -> None:
        self._found = lists

    def call(self, method: str, path: str, body: Any = None, kind: str = "", **query: Any) -> Any:
        return {"items": self._found.get(path.rpartition("/")[2], [])}


def a_lease(namespace: str = "gpu", at: str = "2026-11-20T11:59:00Z", seconds: Any = 180) -> dict[str, Any]:
    spec = {"renewTime": at, "leaseDurationSeconds": seconds}
    return {"metadata": {"namespace": namespace, "name": "own"}, "spec": spec}


def a_binding(role: str = "gpu-autoscaler-act", **metadata: Any) -> dict[str, Any]:
    subjects = [{"kind": "ServiceAccount", "namespace": "gpu", "name": "gpu-autoscaler"}]
    return {"metadata": metadata, "roleRef": {"name": role}, "subjects": subjects}


def test_a_live_installation_and_an_account_that_may_act_are_found() -> None:
    api = Listing(leases=[a_lease()], clusterrolebindings=[a_binding(), a_binding("gpu-autoscaler-look")])
    assert others_here(api, NOW) == [
        "an installation with Lease gpu/own",
        "account gpu/gpu-autoscaler with ClusterRole gpu-autoscaler-act",
    ]


@pytest.mark.parametrize(
    "lease",
    [a_lease(NAMESPACE), a_lease(at="2026-11-20T11:00:00Z"), a_lease(at=""), {"metadata": {}}],
    ids=["of the scenarios", "ended", "without a time", "without a spec"],
)
def test_other_leases_are_of_no_live_installation(lease: dict[str, Any]) -> None:
    assert others_here(Listing(leases=[lease]), NOW) == []


def test_no_scenario_begins_beside_a_live_installation_unless_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conformance.suite.create_account", lambda _: "a token")  # the simulator knows no roles
    monkeypatch.setattr("conformance.suite.delete_account", lambda _: None)
    with Simulator(config()) as cluster:
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
        with cluster.moved() as world:
            made = a_lease(at=f"{SystemClock().now():%Y-%m-%dT%H:%M:%SZ}")
            made["metadata"]["labels"] = {"gpu-autoscaler.io/installation": "true"}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **made}
            cluster.live.custom.put([lease], world.now)
        place = Place(folder=tmp_path, kubeconfig=kubeconfig)
        with pytest.raises(UnavailableError, match=r"at work there: an installation with Lease gpu/own.*BESIDE=1"):
            play([], place, FREE_CEILING, lambda _: None)
        api = Api(kubeconfig)
        assert NAMESPACE not in {n["metadata"]["name"] for n in api.items("/api/v1/namespaces")}
        api.close()
        assert play([], place, Ceiling(None, FREE_CEILING._price), lambda _: None, beside=True) == []


def a_pod(namespace: str, node: str = "") -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": "p"}, "spec": {"nodeName": node} if node else {}}


OURS, THEIRS, BOUND = a_pod(NAMESPACE), a_pod("ml"), a_pod("ml", "n1")


@pytest.fixture
def lever(httpserver: HTTPServer) -> Iterator[Lever]:
    """A lever before an API server with a pod of ours, and two of others of which one has a node."""
    pods = [OURS, THEIRS, BOUND]
    events = "".join(json.dumps({"type": "ADDED", "object": pod}) + "\n" for pod in pods)
    bookmark = json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}})
    httpserver.expect_request("/api/v1/pods", query_string="watch=1").respond_with_data(f"{events}{bookmark}\n")
    httpserver.expect_request("/api/v1/pods").respond_with_json({"items": pods})
    httpserver.expect_request("/api/v1/nodes").respond_with_json({"items": [THEIRS]})
    found = Lever(httpserver.url_for("").rstrip("/"), hides=is_work_of_others)
    yield found
    found.close()


def test_the_product_sees_no_waiting_pod_of_another_namespace(lever: Lever) -> None:
    assert requests.get(f"{lever.url}/api/v1/pods?limit=500", timeout=30).json()["items"] == [OURS, BOUND]
    assert requests.get(f"{lever.url}/api/v1/nodes", timeout=30).json()["items"] == [THEIRS]
    watched = requests.get(f"{lever.url}/api/v1/pods?watch=1", timeout=30).text.splitlines()
    assert [json.loads(event)["type"] for event in watched] == ["ADDED", "ADDED", "BOOKMARK"]
    assert [json.loads(event)["object"] for event in watched[:2]] == [OURS, BOUND]


def test_a_held_list_hides_the_same(lever: Lever) -> None:
    lever.hold("GET", "/api/v1/pods", 0.0)
    assert requests.get(f"{lever.url}/api/v1/pods?limit=500", timeout=30).json()["items"] == [OURS, BOUND]


@pytest.mark.parametrize("status", [None, {}, {"allocatable": None}, {"conditions": []}])
def test_a_node_without_a_status_yet_is_not_usable(status: Any) -> None:
    node = {"metadata": {"name": "n1"}, "spec": None, "status": status}
    cluster = Cluster(Listing(nodes=[node], pods=[]), POOL)
    assert (cluster.usable(), cluster.cordoned(), cluster.gpu_pods_on("i-1")) == ([], [], [])


@pytest.mark.parametrize("status", [None, {}, {"conditions": None}, {"conditions": [{"type": "Ready"}]}])
def test_a_pod_without_a_status_yet_neither_runs_nor_waits(status: Any) -> None:
    pod = {"metadata": {"name": "p"}, "status": status}
    cluster = Cluster(Listing(pods=[pod]), POOL)
    assert (cluster.running(), cluster.unschedulable()) == ([], [])


def test_several_scenarios_are_named_at_once() -> None:
    assert split(["one pod, stock-out", "a silence"]) == ["one pod", "stock-out", "a silence"]
    assert [s.name for s in chosen(split(["stock-out,one pod"]))] == ["one pod", "stock-out"]


def test_help_names_a_page_that_is_there() -> None:
    said = CliRunner().invoke(main, ["--help"]).output
    assert "conformance/README.md" in said
    assert "--beside" in said
