"""Prometheus and Alertmanager beside the product: real ones with the rules that ship, or a Prometheus that only beats.

A cluster made for tests has no kube-state-metrics, so a small exporter plays it: it reads the scenarios' pods and the
pool's nodes through the cluster's API and shows them under kube-state-metrics' names.
"""

import json
import threading
from contextlib import suppress
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml
from urllib3.exceptions import HTTPError

from conformance.cluster import Cluster
from conformance.kubernetes_api import JSON, ApiRefused, part
from conformance.product import WEBHOOK_TOKEN
from demo.configs import ROOT, alertmanager_config, plain_environment, prometheus_config, rule_files
from demo.plan import Places, StackPlan
from demo.processes import Process, answers, free_port
from demo.stack import binary
from receiver.adapters.clock import SystemClock
from receiver.core.model.policy import Taint
from receiver.replay.world.objects import Denied, WorldNode, WorldPod
from simulator.config import MetricsFace
from simulator.exposition import CONTENT_TYPE, exposed
from simulator.kube_state_metrics import kube_state_metrics
from simulator.manifests import pod_spec

SHOWN = MetricsFace(pod_labels=("*",))


class Answers:
    """A small HTTP server on a free loopback port; `answer` says what it answers to a GET or POST."""

    def __init__(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.respond(self, self.path)

            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                server.respond(self, f"{self.path}?{form}")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    def answer(self, path: str) -> tuple[str, str]:
        """Return content type and content. Raises ApiRefused or HTTPError where it cannot tell."""
        raise NotImplementedError

    def respond(self, to: BaseHTTPRequestHandler, path: str) -> None:
        """Send the answer; 503 where there is none."""
        try:
            kind, content = self.answer(path)
        except (ApiRefused, HTTPError) as error:
            to.send_error(503, str(error)[:200].replace("\n", " "))
            return
        with suppress(OSError):
            to.send_response(200)
            to.send_header("Content-Type", kind)
            to.send_header("Content-Length", str(len(content.encode())))
            to.end_headers()
            to.wfile.write(content.encode())

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class Beating(Answers):
    """A Prometheus whose rules are alive, and which has recorded nothing."""

    def answer(self, path: str) -> tuple[str, str]:
        """Answer an instant query."""
        query = "".join(parse_qs(urlsplit(path).query).get("query", ()))
        beat = {"metric": {"alertname": "GpuAutoscalerHeartbeat", "alertstate": "firing"}}
        now = SystemClock().now().timestamp()
        found = [{**beat, "value": [now, "1"]}] if "GpuAutoscalerHeartbeat" in query else []
        said = {"status": "success", "data": {"resultType": "vector", "result": found}}
        return "application/json", json.dumps(said)


class StateMetrics(Answers):
    """kube-state-metrics of the pool's nodes and the scenarios' pods, and a DCGM that has no exporters."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._since = cluster, SystemClock().now()
        super().__init__()

    def answer(self, path: str) -> tuple[str, str]:
        """Answer a scrape."""
        if path.startswith("/sd/"):
            return "application/json", "[]"
        nodes = {n: _node(node) for n, node in self._cluster.nodes().items()}
        pods: dict[tuple[str, str], WorldPod] = {}
        for name, pod in self._cluster.pods().items():
            with suppress(Denied):  # it cannot be read as a pod: it is not one of the scenarios'
                pods[pod["metadata"]["namespace"], name] = _pod(pod)
        seen: Any = SimpleNamespace(nodes=nodes, pods=pods)
        return CONTENT_TYPE, exposed(kube_state_metrics(seen, SHOWN, "v1.36.0", self._since))


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _condition(obj: JSON, kind: str) -> JSON:
    return next((c for c in part(obj, "status").get("conditions") or () if c.get("type") == kind), {})


def _node(node: JSON) -> WorldNode:
    metadata, spec = node["metadata"], part(node, "spec")
    taints = [Taint(key=t["key"], value=t.get("value", ""), effect=t["effect"]) for t in spec.get("taints") or ()]
    amounts = part(part(node, "status"), "allocatable")
    return WorldNode(
        name=metadata["name"],
        instance=spec.get("providerID", "").removeprefix("civo://"),
        provider_id=spec.get("providerID", ""),
        pool="",
        created_at=datetime.fromisoformat(metadata["creationTimestamp"]),
        uid=metadata["uid"],
        ready=_condition(node, "Ready").get("status") == "True",
        unschedulable=bool(spec.get("unschedulable")),
        allocatable={r: int(n) for r, n in amounts.items() if r.startswith("nvidia.com/")},
        labels=metadata.get("labels") or {},
        taints=tuple(taints),
    )


def _pod(pod: JSON) -> WorldPod:
    """Raises Denied where *pod* cannot be read."""
    metadata, status, scheduled = pod["metadata"], part(pod, "status"), _condition(pod, "PodScheduled")
    spec = pod_spec(pod)
    fields = {name: getattr(spec, name) for name in spec.__dataclass_fields__}
    return WorldPod(
        **fields,
        uid=metadata["uid"],
        created_at=datetime.fromisoformat(metadata["creationTimestamp"]),
        phase=status.get("phase") or "Pending",
        scheduled=scheduled.get("status") == "True" if scheduled else None,
        scheduled_since=_moment(scheduled.get("lastTransitionTime")),
        reason=scheduled.get("reason") or "",
        started_at=_moment(status.get("startTime")),
        deletion_at=_moment(metadata.get("deletionTimestamp")),
    )


class Monitoring:
    """A real Prometheus with the shipped rules, evaluated every second, and a real Alertmanager with the shipped
    routes, which delivers to the product at *product_port*. Raises NotStarted, FileNotFoundError without them."""

    def __init__(self, folder: Path, cluster: Cluster, product_port: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._states = StateMetrics(cluster)
        ports = {"simulator": self._states.port, "receiver": product_port}
        for server in ("prometheus", "alertmanager-1"):
            ports[server] = free_port(tuple(ports.values()))
        places, plan = Places(folder=folder, ports=ports), StackPlan(pools=(), heartbeat_group_interval="5s")
        _write(places, plan)
        self.prometheus_url, self.alertmanager_url = places.url("prometheus"), places.url("alertmanager-1")
        self._alertmanager = _process(
            "alertmanager",
            f"{self.alertmanager_url}/-/ready",
            places.log("alertmanager"),
            f"--config.file={places.config('alertmanager')}",
            f"--storage.path={folder / 'alertmanager-data'}",
            f"--web.listen-address={places.address('alertmanager-1')}",
            "--cluster.listen-address=",
        )
        self._prometheus = _process(
            "prometheus",
            f"{self.prometheus_url}/-/ready",
            places.log("prometheus"),
            f"--config.file={places.config('prometheus')}",
            f"--storage.tsdb.path={folder / 'prometheus-data'}",
            f"--web.listen-address={places.address('prometheus')}",
            f"--rules.alert.resend-delay={plan.resend_delay}",
        )

    def start(self) -> None:
        """Start both."""
        self._alertmanager.start()
        self._prometheus.start()

    def stop(self) -> None:
        """Stop both, and the exporter."""
        self._prometheus.stop()
        self._alertmanager.stop()
        self._states.close()


def _process(name: str, ready: str, log: Path, *options: str) -> Process:
    return Process(name, (binary(name), *options), answers(ready), log, plain_environment(), ROOT)


def _write(places: Places, plan: StackPlan) -> None:
    rules = places.folder / "rules"
    rules.mkdir()
    files = {rules / name: content for name, content in rule_files(plan).items()}
    files[places.config("prometheus")] = prometheus_config(plan, places)
    files[places.config("alertmanager")] = alertmanager_config(plan, places)
    places.token_file.write_text(WEBHOOK_TOKEN, encoding="utf-8")
    for path, content in files.items():
        path.write_text(yaml.safe_dump(content, sort_keys=False, width=1000), encoding="utf-8")
