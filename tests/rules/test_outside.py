"""A Prometheus outside the cluster: systemd/prometheus.yml works with the rights of k8s/outside and needs no others."""

import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
import yaml

from tests.e2e.waiting import until
from tests.manifests.built import ROOT
from tests.rules.files import RULES, binary
from tests.rules.servers import get, running

JSON = dict[str, Any]
TEXT = (ROOT / "systemd" / "prometheus.yml").read_text(encoding="utf-8")
JOBS = {job["job_name"]: job for job in yaml.safe_load(TEXT)["scrape_configs"]}
OBJECTS = list(yaml.safe_load_all((ROOT / "k8s" / "outside" / "prometheus.yaml").read_text(encoding="utf-8")))
ROLES = {o["metadata"]["namespace"]: o["rules"] for o in OBJECTS if o["kind"] == "Role"}
TLS = ROOT / "tests" / "e2e" / "tls"
TOKEN = "token-of-the-account"
PATH = re.compile(
    r"/api/v1/namespaces/(?P<namespace>[^/]+)/(?P<resource>pods|services)(?:/(?P<name>[^/]+)/proxy/metrics)?"
)
NODES = 'kube_node_info{node="cpu-1"} 1\nkube_pod_info{namespace="ml",pod="train-0",node="gpu-1"} 1\n'
GPUS = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="gpu-%s",namespace="ml",pod="train-%s"} 97\n'


def allowed(verb: str, namespace: str, resource: str, name: str) -> bool:
    """Whether a role of the file allows this."""
    return any(
        verb in rule["verbs"] and resource in rule["resources"] and name in rule.get("resourceNames", [name])
        for rule in ROLES.get(namespace, [])
    )


def a_pod(number: str, phase: str = "Running", **labels: str) -> JSON:
    """One exporter's pod: as the GPU operator makes it, with a port for metrics, and one more."""
    ports = [{"name": "metrics", "containerPort": 9400}, {"name": "debug", "containerPort": 9401}]
    return {
        "metadata": {
            "name": f"nvidia-dcgm-exporter-{number}",
            "namespace": "gpu-operator",
            "uid": number,
            "resourceVersion": "5",
            "labels": {"app": "nvidia-dcgm-exporter", **labels},
        },
        "spec": {"nodeName": f"gpu-{number}", "containers": [{"name": "exporter", "image": "x", "ports": ports}]},
        "status": {"phase": phase, "podIP": f"10.42.0.{number}"},
    }


PODS = [a_pod("1"), a_pod("2"), a_pod("3", phase="Pending")]


class ApiServer(BaseHTTPRequestHandler):
    """Answers lists, watches and the proxy of what the account may read; 401 and 403 for the rest."""

    protocol_version = "HTTP/1.1"
    stopping = threading.Event()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked, found = parse_qs(url.query), PATH.fullmatch(url.path)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._answer(401, "{}")
        if found is None:
            return self._answer(404, "{}")
        name, proxied = found["name"] or "", "/proxy" if found["name"] else ""
        verb = "get" if name else "watch" if "watch" in asked else "list"
        if not allowed(verb, found["namespace"], found["resource"] + proxied, name):
            return self._answer(403, "{}")
        if name:
            number = name.partition(":")[0].rpartition("-")[2]
            return self._answer(
                200, NODES if found["resource"] == "services" else GPUS % (number, number), "text/plain"
            )
        if asked.get("labelSelector") != ["app=nvidia-dcgm-exporter"]:
            return self._answer(400, "{}")
        if verb == "list":
            listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}, "items": PODS}
            return self._answer(200, json.dumps(listed))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        if "sendInitialEvents" in asked:  # newer clients take the list from the watch
            end = {"metadata": {"resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": "true"}}}
            events = [*(("ADDED", pod) for pod in PODS), ("BOOKMARK", end)]
            for kind, found_pod in events:
                event = {"type": kind, "object": {"kind": "Pod", "apiVersion": "v1", **found_pod}}
                self.wfile.write(f"{json.dumps(event)}\n".encode())
            self.wfile.flush()
        self.stopping.wait(60)
        return None

    def _answer(self, status: int, body: str, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of http.server)
        """Say nothing."""


@contextmanager
def api_server() -> Iterator[str]:
    """An API server with TLS; yields host and port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), ApiServer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    ApiServer.stopping.clear()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        ApiServer.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()


def test_it_has_the_jobs_of_the_example_inside_the_cluster() -> None:
    inside = yaml.safe_load((RULES / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert {j["job_name"]: j.get("honor_labels", False) for j in inside} == {
        name: job.get("honor_labels", False) for name, job in JOBS.items()
    }


def test_no_address_is_one_that_only_the_cluster_knows() -> None:
    assert re.findall(r"^[^#\n]*(?:\.svc\b|cluster\.local)", TEXT, re.MULTILINE) == []


def test_the_path_to_kube_state_metrics_is_the_one_that_the_account_may_read() -> None:
    found = PATH.fullmatch(JOBS["kube-state-metrics"]["metrics_path"])
    assert found is not None
    assert allowed("get", found["namespace"], f"{found['resource']}/proxy", found["name"])


def test_the_account_is_bound_to_both_roles_and_its_token_is_its_own() -> None:
    account = {"kind": "ServiceAccount", "name": "gpu-autoscaler-prometheus", "namespace": "gpu-autoscaler"}
    bound = {o["metadata"]["namespace"]: o for o in OBJECTS if o["kind"] == "RoleBinding"}
    assert bound.keys() == ROLES.keys() == {"gpu-operator", "kube-system"}
    assert all(binding["subjects"] == [account] for binding in bound.values())
    [token] = [o for o in OBJECTS if o["kind"] == "Secret"]
    assert token["metadata"]["annotations"] == {"kubernetes.io/service-account.name": account["name"]}
    assert token["metadata"]["namespace"] == account["namespace"]


def discovers_pods() -> bool:
    """Whether this build of Prometheus has kubernetes_sd_configs; Debian 12's has not."""
    return b"discovery/kubernetes" in Path(binary("prometheus")).read_bytes()


@pytest.mark.usefixtures("each_prometheus")
def test_a_prometheus_outside_finds_and_scrapes_every_exporter_and_kube_state_metrics(tmp_path: Path) -> None:
    if not discovers_pods():
        pytest.skip("this build of Prometheus has no kubernetes_sd_configs")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "ca.crt").write_text((TLS / "cert.pem").read_text())
    with api_server() as address:
        said = TEXT.replace("APISERVER", address).replace("/etc/prometheus/kubernetes", str(tmp_path))
        said = said.replace("interval: 15s", "interval: 1s").replace("/opt/civo-gpu-autoscaler/rules", str(RULES))
        (tmp_path / "prometheus.yml").write_text(said)
        arguments = (f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data")
        with running("prometheus", tmp_path / "log", *arguments) as url:

            def asked(query: str) -> list[JSON]:
                found: list[JSON] = get(f"{url}/api/v1/query?query={quote(query)}")["data"]["result"]
                return found

            scraped = 'up{job=~"kube-state-metrics|dcgm-exporter"} == 1'
            until(lambda: len(asked(scraped)) == 3, "three scrapes")
            assert {one["metric"]["instance"] for one in asked(scraped)} == {
                "kube-state-metrics",
                "10.42.0.1:9400",
                "10.42.0.2:9400",
            }
            assert len(asked('up{job=~"kube-state-metrics|dcgm-exporter"} == 0')) == 0
            gpus = {(s["metric"]["Hostname"], s["metric"]["pod"]) for s in asked("DCGM_FI_DEV_GPU_UTIL")}
            assert gpus == {("gpu-1", "train-1"), ("gpu-2", "train-2")}
            [pod] = asked("kube_pod_info")
            assert (pod["metric"]["namespace"], pod["metric"]["job"]) == ("ml", "kube-state-metrics")
