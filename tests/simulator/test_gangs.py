"""Gangs in each form, as the simulator shows them: over HTTP and in memory the product reads the same of them."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import connect
from receiver.core.model.pods import PodPhase
from receiver.ports import Cluster
from simulator.clocks import ManualClock
from simulator.cluster_port import SimulatedCluster
from simulator.manifests import pod_spec
from simulator.server import Simulator
from tests.adapters.kubernetes.group_objects import (
    BASIC,
    a_job_set,
    a_native_workload,
    a_pod_group,
    a_replicated_job,
    a_worker_set,
    gang_of,
    in_job_set,
    in_pod_group,
    in_worker_set,
    in_workload,
)
from tests.manifests.built import mistakes
from tests.simulator.builders import START, config
from tests.simulator.crd_schemas import mistakes as crd_mistakes

TOGETHER = "simulator/gang"
SIZE = "simulator/gang-size"
AFTER_HEAD = [{"name": "head", "status": "Ready"}]
ALONE: dict[str, Any] = {"annotations": {TOGETHER: "alone", SIZE: "1"}}
FORMS: dict[str, tuple[list[Any], str, str, Any]] = {
    **{
        f"PodGroup {version}": (
            [in_pod_group(f"w-{n}", annotations={SIZE: "3"}) for n in range(3)],
            f"scheduling.k8s.io/{version}",
            "PodGroup",
            a_pod_group(gang_of(3)),
        )
        for version in ("v1alpha2", "v1alpha3", "v1beta1")
    },
    "Workload v1alpha1": (
        [in_workload(f"w-{n}", annotations={SIZE: "3"}) for n in range(3)],
        "scheduling.k8s.io/v1alpha1",
        "Workload",
        a_native_workload(workers=gang_of(3)),
    ),
    "JobSet": (
        [in_job_set("h-0", "head", **ALONE)],
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        a_job_set(a_replicated_job("head"), a_replicated_job("workers", 1, 2, after=AFTER_HEAD)),
    ),
    "LeaderWorkerSet": (
        [in_worker_set(size=3, **ALONE)],
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        a_worker_set(3),
    ),
}


@pytest.fixture
def sim() -> Simulator:
    """A simulator without a GPU node; it serves over HTTP where asked."""
    return Simulator(config(pools=[{"id": "gpu", "size": "an.g1.l40s.kube.x1", "resources": {"nvidia.com/gpu": 1}}]),
                     clock=ManualClock(START))  # fmt: skip


@pytest.fixture(params=["over HTTP", "in memory"])
def cluster(sim: Simulator, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "in memory":
        yield SimulatedCluster(sim.world)
        return
    with sim, closing(connect(str(sim.kubeconfig(tmp_path / "kubeconfig")), calls=Calls(timeouts=(60, 60)))) as adapter:
        yield adapter


def install(sim: Simulator, api: str, kind: str, *objects: dict[str, Any]) -> None:
    with sim.moved() as world:
        sim.live.custom.put([{"apiVersion": api, "kind": kind, **one} for one in objects], world.now)
        world.group_objects[f"{kind.lower()}s.{api.partition('/')[0]}"] = list(objects)


def submit(sim: Simulator, *pods: dict[str, Any]) -> None:
    with sim.moved() as world:
        for pod in pods:
            world.add_pod(pod_spec(pod))
    sim.live.turn(timedelta(seconds=20))


@pytest.mark.parametrize("form", FORMS)
def test_three_pods_wait_together_in_every_form(sim: Simulator, cluster: Cluster, form: str) -> None:
    pods, api, kind, shown = FORMS[form]
    install(sim, api, kind, shown)
    submit(sim, *pods)
    found = cluster.look().pods
    assert [(p.gang_min, p.phase, p.gpus) for p in found] == [(3, PodPhase.WAITING, 1)] * 3
    assert len({p.gang for p in found}) == 1


def test_pods_of_a_basic_group_wait_one_by_one(sim: Simulator, cluster: Cluster) -> None:
    install(sim, "scheduling.k8s.io/v1beta1", "PodGroup", a_pod_group(BASIC))
    submit(sim, *(in_pod_group(f"w-{n}", annotations={SIZE: "1"}) for n in range(2)))
    assert [(p.gang, p.phase) for p in cluster.look().pods] == [(None, PodPhase.WAITING)] * 2


def test_the_scheduler_says_nothing_of_an_incomplete_group_until_its_last_pod_has_come(
    sim: Simulator, cluster: Cluster
) -> None:
    install(sim, "scheduling.k8s.io/v1beta1", "PodGroup", a_pod_group(gang_of(2)))
    submit(sim, in_pod_group("w-0", annotations={SIZE: "2"}))
    assert [p.phase for p in cluster.look().pods] == [PodPhase.OTHER]
    assert [p.scheduled for p in sim.world.pods.values()] == [None]
    submit(sim, in_pod_group("w-1", annotations={SIZE: "2"}))
    assert [p.phase for p in cluster.look().pods] == [PodPhase.WAITING] * 2


KUBERNETES = {"v1alpha1": "1.35", "v1alpha2": "1.36", "v1alpha3": "1.37", "v1beta1": "1.37"}  # that serves them


@pytest.mark.parametrize("form", FORMS)
def test_what_is_shown_has_the_published_shape(sim: Simulator, form: str) -> None:
    pods, api, kind, shown = FORMS[form]
    install(sim, api, kind, shown)
    submit(sim, *pods)
    with sim:
        (found,) = requests.get(f"{sim.url}/apis/{api}/{kind.lower()}s", timeout=60).json()["items"]
        listed = requests.get(f"{sim.url}/api/v1/pods", timeout=60).json()["items"]
    group, _, version = api.partition("/")
    if group != "scheduling.k8s.io":
        assert crd_mistakes({"apiVersion": api, "kind": kind, **found}) == []
        return
    assert mistakes({"apiVersion": api, "kind": kind, **found}, KUBERNETES[version]) == ""
    said = [mistakes({"apiVersion": "v1", "kind": "Pod", **pod}, KUBERNETES[version]) for pod in listed]
    assert said == [""] * len(pods)


def test_a_group_that_is_not_as_published_does_not_pass() -> None:
    shown = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", **a_pod_group({"gang": {"minCount": "3"}})}
    assert "minCount: '3'" in mistakes(shown, "1.37")


@pytest.mark.parametrize(
    ("version", "served"), [("v1alpha1", {"workloads"}), ("v1alpha2", {"workloads", "podgroups"}),
                            ("v1beta1", {"workloads", "podgroups"})]
)  # fmt: skip
def test_each_version_has_its_kinds_beside_priority_classes(version: str, served: set[str]) -> None:
    installed = {"installed": [f"scheduling.k8s.io/{version}"]}
    with Simulator(config(kubernetes=installed), clock=ManualClock(START)) as sim:
        of_groups = f"{sim.url}/apis/scheduling.k8s.io/{version}"
        found = {
            p for p in ("workloads", "podgroups") if requests.get(f"{of_groups}/{p}", timeout=60).status_code == 200
        }
        assert found == served
        assert requests.get(f"{of_groups}/priorityclasses", timeout=60).status_code == 404
        stable = f"{sim.url}/apis/scheduling.k8s.io/v1"
        assert requests.get(f"{stable}/priorityclasses", timeout=60).status_code == 200
        assert requests.get(f"{stable}/podgroups", timeout=60).status_code == 404
