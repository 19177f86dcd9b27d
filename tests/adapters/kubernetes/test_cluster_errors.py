"""How failures of the Kubernetes API become TryLater or WontWork, and how a connection is found."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import KubernetesCluster, connect
from receiver.core.model.pods import Pod, PodPhase
from receiver.ports import HeldPlaces, TryLater, WontWork
from tests.adapters.kubernetes.kubernetes_objects import NODES, PODS, a_cluster_at, a_list, a_node
from tests.adapters.wire import came, hanging_server, log_everything, said_by, unused_url

HALF_RIGHT = """
current-context: x
contexts: [{name: x, context: {cluster: x, user: x}}]
clusters: [{name: x, cluster: {server: "http://127.0.0.1"}}]
users: [{name: x, user: a-word}]
"""
CLUSTER_QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
EVENTS = "/api/v1/namespaces/ml/events"
A_POD = Pod(
    namespace="ml",
    name="p",
    uid="u",
    requests={},
    phase=PodPhase.WAITING,
    created_at=datetime(2026, 11, 20, tzinfo=UTC),
)


@pytest.fixture
def cluster(httpserver: HTTPServer) -> Iterator[KubernetesCluster]:
    adapter = a_cluster_at(httpserver.url_for(""))
    yield adapter
    adapter.close()


@pytest.mark.parametrize("status", [409, 410, 429, 500, 502, 503, 504])
def test_what_may_pass_by_itself_is_tried_later(
    httpserver: HTTPServer, cluster: KubernetesCluster, status: int
) -> None:
    answer = {"kind": "Status", "message": "the server is busy"}
    httpserver.expect_request(NODES).respond_with_json(answer, status=status, headers={"Retry-After": "3"})
    with pytest.raises(TryLater, match="list nodes failed") as caught:
        cluster.look()
    assert caught.value.delay == timedelta(seconds=3)
    assert len(httpserver.log) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_list_is_repeated_twice_where_no_wait_is_named(
    httpserver: HTTPServer, cluster: KubernetesCluster, status: int
) -> None:
    httpserver.expect_request(NODES).respond_with_json({"kind": "Status"}, status=status)
    with pytest.raises(TryLater):
        cluster.look()
    assert len(httpserver.log) == 3


@pytest.mark.parametrize("wait", ["120", "Fri, 31 Dec 2100 23:59:59 GMT"])
@pytest.mark.parametrize("status", [429, 503])
def test_nothing_is_read_before_the_time_that_the_server_named_is_over(
    httpserver: HTTPServer, cluster: KubernetesCluster, status: int, wait: str
) -> None:
    answer = {"kind": "Status", "message": "the server is busy"}
    httpserver.expect_request(NODES).respond_with_json(answer, status=status, headers={"Retry-After": wait})
    held = partial(cluster.held_places, queues=False)
    for ask in (cluster.look, cluster.look, cluster.missing_rights, held):
        with pytest.raises(TryLater, match="the server is busy") as caught:
            ask()
        assert caught.value.delay is not None
        assert timedelta(minutes=1) < caught.value.delay <= timedelta(hours=1)
    assert len(httpserver.log) == 1


def test_a_server_of_another_group_that_asks_to_wait_holds_up_its_own_reads_alone(
    httpserver: HTTPServer, cluster: KubernetesCluster
) -> None:
    busy = {"Retry-After": "120"}
    httpserver.expect_request(CLUSTER_QUEUES).respond_with_json({}, status=429, headers=busy)
    httpserver.expect_request("/api/v1/resourcequotas").respond_with_json(a_list())
    for _ in range(2):
        with pytest.raises(TryLater, match="clusterqueues"):
            cluster.held_places(queues=True)
    assert cluster.held_places(queues=False) == HeldPlaces()
    assert len([r for r, _ in httpserver.log if r.path == CLUSTER_QUEUES]) == 1


def test_a_write_that_is_to_wait_holds_up_no_read(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    httpserver.expect_request(EVENTS, method="POST").respond_with_json({}, status=429, headers={"Retry-After": "120"})
    httpserver.expect_request("/api/v1/resourcequotas").respond_with_json(a_list())
    with pytest.raises(TryLater):
        cluster.record_event(A_POD, reason="r", message="m")
    assert cluster.held_places(queues=False) == HeldPlaces()


def test_a_missing_right_is_named_by_verb_and_resource(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    answer = {"kind": "Status", "message": 'pods is forbidden: User "system:serviceaccount:a:b" cannot list'}
    httpserver.expect_request(NODES).respond_with_json(a_list())
    httpserver.expect_request(PODS).respond_with_json(answer, status=403)
    with pytest.raises(WontWork, match=r'serviceaccount:a:b.*grant the verb "list" on "pods".*RBAC') as caught:
        cluster.look()
    assert caught.value.code == "http_403"


@pytest.mark.parametrize(
    "answer",
    [
        'resourcequotas "gpu" is forbidden: unable to create new content in namespace a because it is being terminated',
        'admission webhook "validate.kyverno.svc" denied the request: cordon needs a ticket',
        'admission webhook "guard" denied the request: User "a" cannot patch resource "nodes" without a ticket',
        "nodes \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: you cannot do that",
        'pods "a" is forbidden: exceeded quota: gpu, requested: pods=1, used: pods=3, limited: pods=3',
        'pods "a" is forbidden: violates PodSecurity "restricted:latest": it cannot run as root',
    ],
)
def test_what_refuses_beside_rbac_is_told_as_it_stands(
    httpserver: HTTPServer, cluster: KubernetesCluster, answer: str
) -> None:
    httpserver.expect_request(NODES).respond_with_json({"kind": "Status", "message": answer}, status=403)
    with pytest.raises(WontWork) as caught:
        cluster.look()
    assert str(caught.value).endswith(answer)
    assert caught.value.code == "denied"


def test_refused_credentials_are_named_with_their_remedy(httpserver: HTTPServer, cluster: KubernetesCluster) -> None:
    httpserver.expect_request(NODES).respond_with_data("Unauthorized", status=401)
    with pytest.raises(WontWork, match="token") as caught:
        cluster.look()
    assert caught.value.code == "http_401"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nothing_is_read_from_or_written_to_where_an_answer_points(
    httpserver: HTTPServer, cluster: KubernetesCluster, status: int
) -> None:
    away = {"Location": httpserver.url_for("/elsewhere")}
    httpserver.expect_request(NODES).respond_with_data("", status=status, headers=away)
    httpserver.expect_request(EVENTS).respond_with_data("", status=status, headers=away)
    for ask in (cluster.look, lambda: cluster.record_event(A_POD, reason="TriggeredScaleUp", message="a node comes")):
        with pytest.raises(WontWork, match=str(status)):
            ask()
    assert [request.path for request, _ in httpserver.log] == [NODES, EVENTS]


def test_a_read_that_times_out_costs_its_timeout_only_once() -> None:
    with hanging_server(NODES, "GET") as (server, arrivals):
        cluster = a_cluster_at(server.url_for(""), read_timeout=0.2)
        with pytest.raises(TryLater) as caught:
            cluster.look()
        cluster.close()
        assert came(arrivals) == ["GET"]
    assert caught.value.code == "timeout"


def test_an_unreachable_api_server_is_named_by_its_url() -> None:
    url = unused_url()
    cluster = a_cluster_at(url)
    with pytest.raises(TryLater, match=url) as caught:
        cluster.look()
    cluster.close()
    assert caught.value.code == "unreachable"


def kubeconfig(path: Path, url: str) -> str:
    file = path / "kubeconfig"
    file.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: here
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{token: token-that-must-stay-secret}}}}]
contexts: [{{name: here, context: {{cluster: c, user: u}}}}]
"""
    )
    return str(file)


def test_a_kubeconfig_gives_the_server_and_the_token(
    httpserver: HTTPServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    httpserver.expect_request(NODES).respond_with_json({"kind": "Status", "message": "no"}, status=403)
    cluster = connect(kubeconfig(tmp_path, httpserver.url_for("").rstrip("/")))
    log_everything(caplog)
    with pytest.raises(WontWork) as caught:
        cluster.look()
    cluster.close()
    request = httpserver.log[0][0]
    assert request.headers["Authorization"] == "Bearer token-that-must-stay-secret"
    assert request.headers["User-Agent"].startswith("civo-gpu-autoscaler")
    assert "must-stay-secret" not in said_by(caught.value, caplog) + repr(cluster)


def test_a_write_that_times_out_is_sent_once(tmp_path: Path) -> None:
    with hanging_server(f"{NODES}/gpu-1", "PATCH") as (server, arrivals):
        server.expect_request(f"{NODES}/gpu-1", method="GET").respond_with_json(a_node())
        cluster = connect(kubeconfig(tmp_path, server.url_for("").rstrip("/")), calls=Calls(timeouts=(1, 0.2)))
        with pytest.raises(TryLater) as caught:
            cluster.cordon("gpu-1", "action-7")
        cluster.close()
        assert came(arrivals) == ["PATCH"]
    assert caught.value.code == "timeout"


@pytest.mark.parametrize(
    "content",
    [None, "", "apiVersion: v1\n", "{{{", "- a list", HALF_RIGHT],
    ids=["absent", "empty", "no context", "no YAML", "a list", "a word where a section belongs"],
)
def test_a_kubeconfig_that_does_not_work_is_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content)
    with pytest.raises(WontWork, match=str(file)):
        connect(str(file))


def test_outside_a_cluster_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(WontWork, match="set KUBECONFIG"):
        connect()
