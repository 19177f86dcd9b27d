"""The scrape endpoints, and Prometheus' HTTP service discovery of the nodes' exporters."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from flask import Blueprint, Response, request

from simulator.dcgm import Ills, dcgm, samples_on
from simulator.exposition import CONTENT_TYPE, Family, exposed
from simulator.kube_state_metrics import kube_state_metrics
from simulator.kubernetes_custom import CustomResources
from simulator.kubernetes_objects import address_of
from simulator.kueue import kueue
from simulator.live import EXPORTER, OPERATOR_NAMESPACE, Live
from simulator.volcano import volcano_controller, volcano_scheduler

JSON = dict[str, Any]
QUEUES: Mapping[str, Callable[[CustomResources], Iterable[Family]]] = {
    "kueue": lambda custom: kueue(custom.objects("kueue.x-k8s.io", "workloads")),
    "volcano-scheduler": lambda custom: volcano_scheduler(custom.objects("scheduling.volcano.sh", "podgroups")),
    "volcano-controller": lambda custom: volcano_controller(
        custom.objects("scheduling.volcano.sh", "podgroups"), custom.objects("scheduling.volcano.sh", "queues")
    ),
}


def metrics_face(live: Live) -> Blueprint:
    """Return the endpoints as a blueprint."""
    face = Blueprint("metrics", __name__)
    read_before: dict[str, tuple[datetime, str]] = {}  # by node: when its exporter last read the GPUs, and what

    @face.get("/metrics/kube-state-metrics")
    def show_kube_state_metrics() -> Response:
        with live.moved() as world:
            version = live.config.kubernetes.version
            families = kube_state_metrics(world, live.config.metrics, version, live.started_at)
        return Response(exposed(families), content_type=CONTENT_TYPE)

    @face.get("/metrics/civo-node-agent")
    def show_node_agent() -> Response:
        phases = Family("civo_node_agent_recovery_phase", "Current recovery phase of a node.", "gauge")
        with live.moved() as world:
            for node in world.nodes:
                phases.put({"node": node, "phase": world.faults.recovering.get(node, "Healthy")}, 1)
        return Response(exposed([phases]), content_type=CONTENT_TYPE)

    @face.get("/metrics/<exporter>")
    def show_queues(exporter: str) -> Response:
        if exporter not in QUEUES:
            return Response("no such exporter\n", 404, content_type="text/plain")
        with live.moved():
            families = QUEUES[exporter](live.custom)
        return Response(exposed(families), content_type=CONTENT_TYPE)

    @face.get("/metrics/dcgm/<node>")
    def show_dcgm(node: str) -> Response:
        with live.moved() as world:
            if node not in world.nodes:
                return Response("no such node\n", 404, content_type="text/plain")
            samples = samples_on(world, node)
            if world.faults.telemetry_gone or not samples:
                return Response("the exporter is not up\n", 503, content_type="text/plain")
            read_at, text = read_before.get(node, (None, ""))
            if read_at is None or world.now - read_at >= live.config.metrics.dcgm_interval:
                pool = world.pools.get(samples[0].pool)
                spec = pool.spec if pool else next(v.spec for v in world.lives if v.pool == samples[0].pool)
                ills = Ills(now=world.now, xids=live.xids, readings=live.readings, stalls=live.stalls, leaks=live.leaks)
                text = exposed(dcgm(samples, spec, live.config.metrics, ills))
                read_before[node] = (world.now, text)
        return Response(text, content_type=CONTENT_TYPE)

    @face.get("/sd/dcgm")
    def discover_dcgm() -> list[JSON]:
        with live.moved() as world:
            nodes = sorted({s.node for s in world.gpu_samples()})
        return [_target(live, node, request.host) for node in nodes]

    return face


def _target(live: Live, node: str, host: str) -> JSON:
    """Return the exporter of *node* with the labels that a ServiceMonitor's target carries.

    They clash with the workload's ``namespace``, ``pod`` and ``container`` on the series, so that Prometheus
    renames those to ``exported_*`` unless it honors them.
    """
    return {
        "targets": [host],
        "labels": {
            "__metrics_path__": f"/metrics/dcgm/{node}",
            "instance": f"{address_of(node, '10.42')}:9400",
            "namespace": OPERATOR_NAMESPACE,
            "pod": live.exporter_on(node),
            "container": EXPORTER,
            "service": EXPORTER,
            "endpoint": "gpu-metrics",
        },
    }
