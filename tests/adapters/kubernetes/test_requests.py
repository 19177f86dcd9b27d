"""What a pod requests, by the cases of Kubernetes' own tests (`TestPodResourceRequests` of component-helpers)."""

from typing import Any

import pytest

from receiver.adapters.kubernetes.nodes import compute
from receiver.adapters.kubernetes.pods import SeenPod
from receiver.adapters.kubernetes.requests import effective

Raw = dict[str, Any]
INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]


def a_container(name: str = "c", *, sidecar: bool = False, more: Raw | None = None, **requests: str) -> Raw:
    always = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "resources": {"requests": {**requests, **(more or {})}}, **always}


def a_state(name: str = "c", allocated: Raw | None = None, in_use: Raw | None = None) -> Raw:
    told = {"allocatedResources": allocated} if allocated is not None else {}
    return {"name": name, **told, **({"resources": {"requests": in_use}} if in_use is not None else {})}


def a_status(*states: Raw, init: tuple[Raw, ...] = (), conditions: tuple[Raw, ...] | list[Raw] = ()) -> Raw:
    return {"containerStatuses": [*states], "initContainerStatuses": [*init], "conditions": [*conditions]}


def of(spec: Raw, status: Raw | None = None) -> dict[str, int]:
    return effective(spec, compute, status or {})


SIDECARS = [a_container(f"sidecar-{n}", sidecar=True, cpu=str(n)) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("spec", "cores"),
    [
        pytest.param({"initContainers": [a_container(cpu="4")], "containers": [a_container(cpu="1")]}, 4, id="init"),
        pytest.param(
            {"initContainers": [a_container(cpu="2")], "containers": [a_container(cpu="2"), a_container(cpu="3")]},
            5,
            id="larger containers",
        ),
        pytest.param(
            {
                "overhead": {"cpu": "1"},
                "initContainers": [a_container(cpu="2")],
                "containers": [a_container(cpu="2"), a_container(cpu="3")],
            },
            6,
            id="overhead",
        ),
        pytest.param(
            {"initContainers": [a_container(sidecar=True, cpu="1")], "containers": [a_container(cpu="1")]},
            2,
            id="a sidecar",
        ),
        pytest.param(
            {"initContainers": [a_container(cpu="5"), *SIDECARS], "containers": [a_container(cpu="1")]},
            7,
            id="three sidecars",
        ),
        pytest.param(
            {
                "initContainers": [a_container(cpu="5"), *SIDECARS[:2], a_container(cpu="5"), SIDECARS[2]],
                "containers": [a_container(cpu="1")],
            },
            8,
            id="an init container between sidecars",
        ),
        pytest.param(
            {
                "initContainers": [a_container("s", sidecar=True, cpu="10"), a_container("i", cpu="200")],
                "containers": [a_container(cpu="100")],
            },
            210,
            id="a large init container after a sidecar",
        ),
    ],
)
def test_containers_count_as_they_run(spec: Raw, cores: int) -> None:
    assert of(spec)["cpu"] == cores * 1000


@pytest.mark.parametrize(
    ("requested", "allocated", "in_use", "conditions", "cores"),
    [
        ("4", None, "2", INFEASIBLE, 2),
        ("6", "4", "2", INFEASIBLE, 4),
        ("4", None, "2", [], 4),
        ("1", "90", "90", [], 90),
        ("1", "90", None, [], 90),
        ("1", "1", "90", [], 90),
        ("500", "1", "1", DEFERRED, 500),
        ("500", "1", "1", INFEASIBLE, 1),
    ],
    ids=[
        "infeasible",
        "infeasible while another is in progress",
        "in progress",
        "smaller, not done",
        "smaller, and no word of what is in use",
        "smaller, allocated and still in use",
        "deferred: it will be tried again",
        "infeasible growth",
    ],
)
def test_until_a_resize_is_done_its_larger_end_counts(
    requested: str, allocated: str | None, in_use: str | None, conditions: list[Raw], cores: int
) -> None:
    def quantities(cpu: str | None) -> Raw | None:
        return {"cpu": cpu} if cpu else None

    status = a_status(a_state("c", quantities(allocated), quantities(in_use)), conditions=conditions)
    assert of({"containers": [a_container(cpu=requested)]}, status)["cpu"] == cores * 1000


def test_the_largest_counts_by_resource() -> None:
    spec = {"containers": [a_container(cpu="30m", memory="20M", more={"ephemeral-storage": "10G"})]}
    state = a_state(
        "c",
        {"cpu": "20m", "memory": "10M", "ephemeral-storage": "30G"},
        {"cpu": "10m", "memory": "30M", "ephemeral-storage": "20G"},
    )
    assert of(spec, a_status(state)) == {"cpu": 30, "memory": 30 * 10**6, "ephemeral-storage": 30 * 10**9}


def test_sums_are_compared_not_containers() -> None:
    spec = {"containers": [a_container("c1", cpu="1"), a_container("c2", cpu="2")]}
    status = a_status(a_state("c1", {"cpu": "2"}), a_state("c2", {"cpu": "1"}))
    assert of(spec, status)["cpu"] == 3000


@pytest.mark.parametrize(("conditions", "cores"), [(INFEASIBLE, 2), ([], 4)], ids=["infeasible", "in progress"])
def test_a_sidecar_is_resized_too(conditions: list[Raw], cores: int) -> None:
    status = a_status(init=(a_state("s", in_use={"cpu": "2"}),), conditions=conditions)
    assert of({"initContainers": [a_container("s", sidecar=True, cpu="4")]}, status)["cpu"] == cores * 1000


def test_the_word_for_infeasible_before_kubernetes_1_33_is_understood() -> None:
    status = {**a_status(a_state("c", {"cpu": "1"})), "resize": "Infeasible"}
    assert of({"containers": [a_container(cpu="500")]}, status)["cpu"] == 1000


def test_a_pod_that_no_node_has_yet_counts_as_its_spec_says() -> None:
    assert of({"containers": [a_container(cpu="4")]}, {"phase": "Pending"})["cpu"] == 4000


@pytest.mark.parametrize(
    ("whole", "containers", "expected"),
    [
        ({"requests": {"cpu": "8"}}, [a_container(cpu="1", memory="1k")], {"cpu": 8000, "memory": 1000}),
        ({"requests": {"cpu": "8"}, "limits": {"cpu": "9"}}, [a_container(cpu="1")], {"cpu": 8000}),
        ({"limits": {"cpu": "9"}}, [a_container(cpu="1")], {"cpu": 1000}),
        ({"limits": {"cpu": "9"}}, [a_container()], {"cpu": 9000}),
        ({"requests": {"ephemeral-storage": "9"}}, [a_container(cpu="1")], {"cpu": 1000}),
        ({}, [a_container(cpu="1")], {"cpu": 1000}),
    ],
    ids=[
        "a request of the pod replaces those of its containers",
        "a request outranks a limit",
        "a limit alone leaves the containers' requests",
        "a limit counts where nothing is requested",
        "only CPU and memory can be requested as a whole",
        "none",
    ],
)
def test_a_pod_can_request_as_a_whole(whole: Raw, containers: list[Raw], expected: dict[str, int]) -> None:
    assert of({"resources": whole, "containers": containers}) == expected


@pytest.mark.parametrize(
    ("conditions", "cores"), [([], 10), (INFEASIBLE, 6)], ids=["not done yet", "infeasible: not requested"]
)
def test_a_pod_is_resized_as_a_whole(conditions: list[Raw], cores: int) -> None:
    """What its status tells holds the overhead, which is counted once."""
    spec = {"resources": {"requests": {"cpu": "9"}}, "overhead": {"cpu": "1"}, "containers": [a_container(cpu="1")]}
    told = {"allocatedResources": {"cpu": "6"}, "resources": {"requests": {"cpu": "4"}}, "conditions": conditions}
    assert of(spec, told)["cpu"] == cores * 1000


def test_a_bound_pod_keeps_its_gpus_whatever_its_status_tells() -> None:
    """Kubernetes resizes CPU and memory only. A node must never look free of GPU pods."""
    spec = {"nodeName": "n1", "containers": [a_container(cpu="500", more={"nvidia.com/gpu": "1"})]}
    pod = SeenPod({"spec": spec, "status": a_status(a_state("c", {"cpu": "1"}), conditions=INFEASIBLE)})
    assert pod.gpus == {"nvidia.com/gpu": 1}
    assert pod.compute == {"cpu": 1000, "pods": 1}
