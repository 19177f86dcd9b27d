"""Installations in one cluster over the API: the Lease that one writes, and what it reads of the others."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.adapters.kubernetes.installations import LABEL, POOLS, Own, lasting, names_pools, own_key
from receiver.core.model.policy import Taint
from receiver.ports import QUOTA_LABEL, QUOTA_NAME, STOP_POLICY_ANNOTATION, Did, HeldPlaces, WontWork
from tests.adapters.kubernetes.kubernetes_objects import NODES, PODS, a_cluster_at, a_list
from tests.clocks import FixedClock
from tests.core.builders import a_pool

LEASES = "/apis/coordination.k8s.io/v1/leases"
OWN = "/apis/coordination.k8s.io/v1/namespaces/gpu/leases/own"
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
POOL = a_pool("l40s", labels={"gpu": "on-demand"}, taints=(Taint(key="gpu", value="true"),))
MINE = Own(key="gpu/own", release="0.2.0", cluster_name="prod")


class Leases:
    """The Leases that an API server has: what is written is there afterwards."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self.status, self.lists, self.writes = 200, 0, 0

    def listed(self, request: Request) -> Response:
        self.lists += 1
        assert request.args["labelSelector"] == f"{LABEL}=true"
        body = a_list(*self.found) if self.status == 200 else {"message": "no"}
        return Response(json.dumps(body), status=self.status, content_type="application/json")

    def written(self, request: Request) -> Response:
        self.writes += 1
        self.found = [json.loads(request.get_data())]
        return Response(json.dumps(self.found[0]), status=self.status, content_type="application/json")


@pytest.fixture
def leases(httpserver: HTTPServer) -> Leases:
    found = Leases()
    httpserver.expect_request(NODES).respond_with_json(a_list())
    httpserver.expect_request(PODS).respond_with_json(a_list())
    httpserver.expect_request(LEASES).respond_with_handler(found.listed)
    httpserver.expect_request(OWN, method="PATCH").respond_with_handler(found.written)
    return found


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(NOW)


def opened(httpserver: HTTPServer, clock: FixedClock, own: Own | None) -> Iterator[KubernetesCluster]:
    cluster = a_cluster_at(httpserver.url_for(""), clock=clock, installation=own)
    yield cluster
    cluster.close()


@pytest.fixture
def cluster(httpserver: HTTPServer, clock: FixedClock) -> Iterator[KubernetesCluster]:
    yield from opened(httpserver, clock, MINE)


@pytest.fixture
def other(httpserver: HTTPServer, clock: FixedClock) -> Iterator[KubernetesCluster]:
    yield from opened(httpserver, clock, Own(key="research/theirs"))


def a_lease(key: str = "research/theirs", at: str = "2026-11-20T11:59:30.000000Z", **annotations: str) -> Any:
    namespace, _, name = key.partition("/")
    metadata = {"namespace": namespace, "name": name, "annotations": annotations}
    return {"metadata": metadata, "spec": {"renewTime": at, "leaseDurationSeconds": 180}}


def test_one_reads_what_the_other_wrote(leases: Leases, cluster: KubernetesCluster, other: KubernetesCluster) -> None:
    assert cluster.make_known([POOL]).did is Did.DONE
    (found,) = other.look().others.installations
    assert (found.key, found.release, found.cluster_name) == ("gpu/own", "0.2.0", "prod")
    (pool,) = found.pools
    described = (pool.id, pool.name, pool.size, pool.resources, pool.labels, pool.taints, pool.max_nodes)
    assert described == (POOL.id, POOL.name, POOL.size, POOL.resources, POOL.labels, POOL.taints, POOL.max_nodes)
    assert (found.renewed_at, found.lasts, found.readable) == (NOW, timedelta(minutes=3), True)
    assert cluster.look().others.installations == ()  # its own


def test_a_lease_is_renewed_every_half_minute_and_when_the_pools_change(
    leases: Leases, cluster: KubernetesCluster, clock: FixedClock
) -> None:
    cluster.make_known([POOL])
    clock.at = NOW + timedelta(seconds=29)
    assert cluster.make_known([POOL]).did is Did.ALREADY
    assert cluster.make_known([]).did is Did.DONE
    clock.at = NOW + timedelta(seconds=60)
    assert cluster.make_known([]).did is Did.DONE
    assert leases.writes == 3


def test_leases_are_listed_every_ten_seconds_at_most(
    leases: Leases, cluster: KubernetesCluster, clock: FixedClock
) -> None:
    for seconds in (0, 5, 9, 10, 15):
        clock.at = NOW + timedelta(seconds=seconds)
        cluster.look()
    assert leases.lists == 2


def test_an_installation_whose_lease_is_gone_is_remembered_for_a_minute(
    leases: Leases, cluster: KubernetesCluster, clock: FixedClock
) -> None:
    leases.found = [a_lease()]
    cluster.look()
    leases.found = []
    seen = []
    for seconds in (30, 59, 90):
        clock.at = NOW + timedelta(seconds=seconds)
        seen.append(len(cluster.look().others.installations))
    assert seen == [1, 1, 0]


@pytest.mark.parametrize("said", ["", "{", "[]", '{"partial": true}', '{"pools": [{"resources": {"gpu": "many"}}]}'])
def test_a_description_that_cannot_be_read_may_be_of_any_pool(
    said: str, leases: Leases, cluster: KubernetesCluster
) -> None:
    leases.found = [a_lease(**{POOLS: said})]
    (found,) = cluster.look().others.installations
    assert (found.readable, found.pools) == (False, ())


def test_a_lease_that_was_never_renewed_is_of_no_installation(leases: Leases, cluster: KubernetesCluster) -> None:
    leases.found = [a_lease(at="")]
    assert cluster.look().others.installations == ()


def test_a_refused_list_leaves_everything_else_and_says_so(leases: Leases, cluster: KubernetesCluster) -> None:
    leases.status = 403
    others = cluster.look().others
    assert (others.installations, "leases" in others.unread) == ((), True)


def test_while_the_list_fails_those_read_last_count(
    leases: Leases, cluster: KubernetesCluster, clock: FixedClock
) -> None:
    leases.found = [a_lease()]
    cluster.look()
    leases.status, clock.at = 503, NOW + timedelta(minutes=5)
    assert len(cluster.look().others.installations) == 1


def test_before_the_first_answer_some_installation_may_hold_anything(
    leases: Leases, cluster: KubernetesCluster, clock: FixedClock
) -> None:
    leases.status = 503
    (unknown,) = cluster.look().others.installations
    assert (unknown.readable, unknown.is_live(NOW), unknown.is_respected(NOW)) == (False, False, True)
    leases.status, clock.at = 200, NOW + timedelta(seconds=10)
    assert cluster.look().others.installations == ()


def test_a_lease_that_ended_long_ago_is_of_no_installation(leases: Leases, cluster: KubernetesCluster) -> None:
    leases.found = [a_lease(at="2026-11-20T10:59:00Z")]
    assert cluster.look().others.installations == ()


def test_a_refused_lease_raises(leases: Leases, cluster: KubernetesCluster) -> None:
    leases.status = 403
    with pytest.raises(WontWork, match="leases"):
        cluster.make_known([])


def test_a_description_beyond_what_an_object_may_hold_is_cut_to_ids(
    leases: Leases, cluster: KubernetesCluster, other: KubernetesCluster
) -> None:
    cluster.make_known([a_pool(f"p{n}", labels={"filler": "x" * 1000}) for n in range(300)])
    (found,) = other.look().others.installations
    assert (found.readable, len(found.pools)) == (False, 300)


def test_a_reader_without_an_installation_lists_no_leases(httpserver: HTTPServer, leases: Leases) -> None:
    cluster = a_cluster_at(httpserver.url_for(""))
    assert cluster.look().others.installations == ()
    assert leases.lists == 0
    cluster.close()


def test_what_another_installation_holds_is_not_released(
    httpserver: HTTPServer, leases: Leases, cluster: KubernetesCluster
) -> None:
    def held(by: str, namespace: str) -> Any:
        labels, noted = {QUOTA_LABEL: "true"}, {"gpu-autoscaler.io/held-by": by}
        metadata = {"name": QUOTA_NAME, "namespace": namespace, "uid": "q", "labels": labels, "annotations": noted}
        return {"metadata": metadata, "spec": {}}

    def queue(by: str, name: str) -> Any:
        noted = {"gpu-autoscaler.io/held-by": by, STOP_POLICY_ANNOTATION: ""}
        return {"metadata": {"name": name, "annotations": noted}, "spec": {"stopPolicy": "Hold"}}

    leases.found = [a_lease()]
    theirs = held("research/theirs", "vision")
    quotas = a_list(theirs, held("gpu/own", "ml"), held("gone/before", "nlp"))
    httpserver.expect_request("/api/v1/resourcequotas").respond_with_json(quotas)
    queues = a_list(queue("research/theirs", "q1"), queue("gpu/own", "q2"))
    httpserver.expect_request("/apis/kueue.x-k8s.io/v1beta2/clusterqueues").respond_with_json(queues)
    assert cluster.held_places(queues=True) == HeldPlaces(namespaces=("ml", "nlp"), cluster_queues=("q2",))
    httpserver.expect_request(f"/api/v1/namespaces/vision/resourcequotas/{QUOTA_NAME}").respond_with_json(theirs)
    assert cluster.release_namespace("vision").did is Did.DIFFERS
    assert cluster.release_queue("q1").did is Did.ALREADY


@pytest.mark.parametrize(
    ("annotation", "parameter", "named"),
    [
        ("l40s", "", True),
        ("x, l40s-id", "", True),
        ("x", "", False),
        ("", "l40s", True),
        ("", "", None),
        (" , ", "", None),
    ],
)
def test_an_object_names_pools_by_name_or_id(annotation: str, parameter: str, named: bool | None) -> None:
    raw = {"metadata": {"annotations": {POOLS: annotation}}}
    assert names_pools(raw, ("l40s", "l40s-id"), {POOLS: parameter}) is named


def test_the_key_of_an_installation_depends_on_its_store_and_namespace(tmp_path: Path) -> None:
    def kubeconfig(**context: str) -> str:
        path = tmp_path / "kubeconfig"
        said = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", **context}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://k"}}],
            "users": [{"name": "u", "user": {}}],
        }
        path.write_text(yaml.safe_dump(said))
        return str(path)

    first = own_key(kubeconfig(), "postgresql://me:one@db/ledger")
    assert first == own_key(kubeconfig(), "postgresql://you:two@db/ledger?sslmode=require")
    assert first != own_key(kubeconfig(), "postgresql://me:one@db/other")
    assert first.startswith("gpu-autoscaler/gpu-autoscaler-")
    assert own_key(kubeconfig(namespace="team"), "sqlite:///a.db").startswith("team/")
    assert own_key(str(tmp_path / "none"), "sqlite:///a.db").startswith("gpu-autoscaler/")


def test_the_key_of_a_pod_outlives_it(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for host in ("gpu-autoscaler-7d9f8b6c5-x2x9z", "gpu-autoscaler-56b7fdc9d4-k8bzt", "gpu-autoscaler-0"):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        keys.add(own_key(None, "sqlite:////data/ledger.db"))
    assert len(keys) == 1


def test_a_lease_outlasts_three_slow_steps() -> None:
    assert lasting(timedelta(seconds=10)) == timedelta(minutes=3)
    assert lasting(timedelta(minutes=5)) == timedelta(minutes=15)
