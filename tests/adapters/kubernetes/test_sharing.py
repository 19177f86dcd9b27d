"""Shares of GPUs as KAI Scheduler and HAMi write them into pods and nodes."""

from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.kubernetes.nodes import node_from
from receiver.adapters.kubernetes.pods import DrainFate, SeenPod
from receiver.core.model.shares import GPU, GPU_MEMORY, SPLIT, share_of
from receiver.ports import ClusterFacts
from tests.adapters.kubernetes.kubernetes_objects import NODES, PODS, a_cluster_at, a_list, a_node, a_pod

RESERVED = "kai-resource-reservation"
GROUP = "runai-gpu-group"
HALF = {"gpu-fraction": "0.5"}


MODE = "kai.scheduler/gpu-compute-sharing-mode"


def of(container: str, kind: str = "request") -> str:
    """The annotation for the memory that a *container* asks of a GPU, since KAI 0.18."""
    return f"nvidia.com/container.{container}.gpu-memory.{kind}"


def kai(name: str = "notebook", annotations: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    """A pod of KAI, which has no GPU in its spec."""
    return a_pod(name, gpus=0, annotations=annotations or HALF, **{"schedulerName": "kai-scheduler", **changes})


def reservation(group: str = "group-a") -> dict[str, Any]:
    return a_pod(f"gpu-reservation-{group}", node="gpu-1", namespace=RESERVED, labels={GROUP: group})


def hami(**resources: str) -> dict[str, Any]:
    """A pod of HAMi with *resources* of nvidia.com."""
    limits = {f"nvidia.com/{name.replace('_', '-')}": amount for name, amount in resources.items()}
    return a_pod(gpus=0, containers=[{"name": "main", "resources": {"limits": limits}}])


def looked(httpserver: HTTPServer, *pods: dict[str, Any]) -> ClusterFacts:
    httpserver.expect_request(NODES).respond_with_json(a_list(a_node()))
    httpserver.expect_request(PODS).respond_with_json(a_list(*pods))
    cluster = a_cluster_at(httpserver.url_for(""))
    try:
        return cluster.look()
    finally:
        cluster.close()


@pytest.mark.parametrize(
    "annotations",
    [
        HALF, {"gpu-memory": "8000"}, {"gpu-fraction": "half"}, {"gpu-memory": "16Gi"},
        {**HALF, "gpu-fraction-num-devices": "x"},
    ],
    ids=["a fraction", "memory", "not a fraction", "not in MiB", "not a number of devices"],
)  # fmt: skip
def test_the_node_of_a_pod_that_shares_a_gpu_never_looks_empty(
    httpserver: HTTPServer, annotations: dict[str, str]
) -> None:
    raw = kai(annotations=annotations, node="gpu-1")
    [pod] = looked(httpserver, raw).pods
    assert pod.node == "gpu-1"
    assert pod.gpus
    assert SeenPod(raw).fate() is DrainFate.HOLDS_GPU


def test_a_pod_on_a_device_of_kai_holds_it_whatever_its_scheduler_is_called() -> None:
    assert SeenPod(kai(node="gpu-1", labels={GROUP: "group-a"}, schedulerName="default-scheduler")).gpus


@pytest.mark.parametrize(
    ("annotations", "requests"),
    [
        (HALF, {"kai.scheduler/gpu-fraction=0.5": 1}),
        ({"gpu-fraction": " .50"}, {"kai.scheduler/gpu-fraction=0.5": 1}),
        ({"gpu-fraction": "5e-1"}, {"kai.scheduler/gpu-fraction=0.5": 1}),
        ({**HALF, "gpu-fraction-num-devices": "2"}, {"kai.scheduler/gpu-fraction=0.5": 2}),
        ({"gpu-memory": "8000"}, {"kai.scheduler/gpu-memory=8000": 1}),
        ({"gpu-fraction.limit": "0.5"}, {"kai.scheduler/gpu-fraction=0.5": 1}),
        ({**HALF, "gpu-fraction.limit": "0.9"}, {"kai.scheduler/gpu-fraction=0.5": 1}),
        ({"gpu-memory.limit": "8000"}, {"kai.scheduler/gpu-memory=8000": 1}),
        ({of("main"): "8Gi"}, {"kai.scheduler/gpu-memory=8192": 1}),
        ({of("main"): "8Gi", "gpu-fraction": "0.1", "gpu-memory": "1"}, {"kai.scheduler/gpu-memory=8192": 1}),
        ({of("main", "limit"): "1G"}, {"kai.scheduler/gpu-memory=954": 1}),
        ({of("main", "limit"): "16Gi", of("main"): "8Gi"}, {"kai.scheduler/gpu-memory=8192": 1}),
        ({of("main"): "8Gi", of("side.car", "limit"): "1Gi"}, {"kai.scheduler/gpu-memory=9216": 1}),
        ({of("main"): "8Gi", "gpu-fraction-num-devices": "2"}, {"kai.scheduler/gpu-memory=8192": 2}),
        ({of("main"): "8Gi", MODE: "time-slicing"}, {"kai.scheduler/gpu-memory=8192": 1}),
        ({of("main"): "8Gi", MODE: "sm-sharing"}, {"kai.scheduler/gpu-memory=8192,mode=sm-sharing": 1}),
        ({**HALF, MODE: "sm-sharing"}, {"kai.scheduler/gpu-fraction=0.5,mode=sm-sharing": 1}),
    ],
)
def test_the_annotations_of_kai_are_shares(annotations: dict[str, str], requests: dict[str, int]) -> None:
    assert SeenPod(kai(annotations=annotations)).gpus == requests
    assert SeenPod(kai(annotations=annotations)).needs_node


@pytest.mark.parametrize(
    "annotations",
    [
        {"gpu-fraction": "1"}, {"gpu-fraction": "0"}, {"gpu-fraction": "-0.5"}, {"gpu-fraction": "nan"},
        {"gpu-fraction": "1/2"}, {"gpu-fraction": "1e-12"}, {"gpu-fraction": "9e9999999"},
        {"gpu-fraction": "half\n" * 100}, {"gpu-memory": "0"},
        {"gpu-memory": "16Gi"}, {"gpu-memory": "٣"},
        {**HALF, "gpu-fraction-num-devices": "0"}, {**HALF, "gpu-fraction-num-devices": "²"},
        {of("main"): "much"}, {of("main"): "0"}, {of("main"): "-1Gi"}, {of("main"): "9e99"}, {of("main"): "nan"},
        {of("main"): "8Gi", of("other"): ""}, {**HALF, MODE: "both"},
    ],
)  # fmt: skip
def test_what_kai_would_not_understand_is_asked_for_as_written_and_fits_nowhere(annotations: dict[str, str]) -> None:
    [(name, count)] = SeenPod(kai(annotations=annotations)).gpus.items()
    assert (share_of(name), count) == (None, 1)
    assert name.isprintable()
    assert len(name) < 120


def test_annotations_that_look_like_those_of_kai_are_no_gpus_for_other_schedulers() -> None:
    assert SeenPod(kai(schedulerName="default-scheduler")).gpus == {}
    assert SeenPod(a_pod(annotations=HALF, schedulerName="kai-scheduler")).gpus == {GPU: 1}


def test_a_gpu_that_is_reserved_for_shares_counts_once(httpserver: HTTPServer) -> None:
    sharing = kai(node="gpu-1", labels={GROUP: "group-a"})
    facts = looked(httpserver, sharing, reservation())
    assert [(p.name, p.devices) for p in facts.pods] == [("notebook", ("group-a",))]
    assert facts.nodes[0].others["cpu"] == 4000  # of the reservation pod


def test_a_reservation_that_no_pod_shares_yet_holds_its_gpu(httpserver: HTTPServer) -> None:
    facts = looked(httpserver, kai(node="gpu-1", labels={GROUP: "group-b"}), reservation("group-a"))
    assert {p.namespace for p in facts.pods} == {"ml", RESERVED}
    assert SeenPod(reservation()).fate() is DrainFate.HOLDS_GPU


def test_a_reservation_does_not_keep_the_node_of_shares_that_may_go() -> None:
    assert SeenPod(reservation()).fate(lambda pod: True) is DrainFate.STAYS


def test_a_pod_on_several_devices_names_each() -> None:
    labels = {f"{GROUP}/group-a": "group-a", f"{GROUP}/group-b": "group-b"}
    pod = SeenPod(kai(annotations={**HALF, "gpu-fraction-num-devices": "2"}, node="gpu-1", labels=labels)).pod
    assert pod is not None
    assert pod.devices == ("group-a", "group-b")


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        ({"gpu": "2", "gpumem": "3000"}, {"hami.io/gpumem=3000,gpucores=0": 2}),
        ({"gpu": "1", "gpumem_percentage": "50", "gpucores": "30"}, {"hami.io/gpumem-percentage=50,gpucores=30": 1}),
        ({"gpu": "1", "gpucores": "30"}, {"hami.io/gpumem-percentage=100,gpucores=30": 1}),
        ({"gpumem": "3000"}, {"hami.io/gpumem=3000,gpucores=0": 1}),
        ({"gpu": "1"}, {GPU: 1}),
    ],
)
def test_the_resources_of_hami_are_shares(resources: dict[str, str], requests: dict[str, int]) -> None:
    assert SeenPod(hami(**resources)).gpus == requests


def test_the_devices_that_hami_gave_a_pod_are_known() -> None:
    raw = a_pod(
        node="gpu-1", annotations={"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,3000,30:;GPU-b,NVIDIA,3000,0:;"}
    )
    assert SeenPod(raw).devices == ("GPU-a", "GPU-b")


def registered(*healthy: str) -> dict[str, str]:
    devices = [f"GPU-{n},10,46068,100,NVIDIA-L40S,0,{said},{n},hami-core:" for n, said in enumerate(healthy)]
    return {"hami.io/node-nvidia-register": "".join(devices)}


def test_a_node_of_hami_offers_its_healthy_gpus_and_not_each_of_them_ten_times() -> None:
    node = node_from(a_node(allocatable={GPU: "20"}, annotations=registered("true", "true", "false")))
    assert (node.allocatable, node.compute) == ({GPU: 2}, {GPU_MEMORY: 46068, SPLIT: 10})


@pytest.mark.parametrize("said", ["", "nonsense", "GPU-0,10,much,100,NVIDIA-L40S,0,true:", "GPU-0,10,0,100,L,0,true:"])
def test_a_register_that_is_not_understood_changes_nothing(said: str) -> None:
    node = node_from(a_node(allocatable={GPU: "20"}, annotations={"hami.io/node-nvidia-register": said}))
    assert (node.allocatable, node.compute) == ({GPU: 20}, {})


def test_the_memory_of_a_gpu_is_known_from_the_label_of_its_node() -> None:
    raw = a_node()
    raw["metadata"]["labels"][GPU_MEMORY] = "46068"
    assert node_from(raw).compute[GPU_MEMORY] == 46068
