"""The scrape endpoints: names, labels and conventions that the rules depend on."""

import subprocess
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import requests
from prometheus_client.parser import text_string_to_metric_families

from demo.stack import binary
from receiver.replay.world.objects import PodSpec
from simulator.server import Simulator
from tests.simulator.builders import GPU_POOL, Civo, a_pod_manifest

Starter = Callable[..., Simulator]
Samples = Mapping[str, list[tuple[Mapping[str, str], float]]]


def scrape(sim: Simulator, path: str) -> Samples:
    response = requests.get(sim.url + path, timeout=60)
    assert response.status_code == 200, response.text
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            name = sample.name if sample.name in response.text else family.name  # NVIDIA's counters lack the suffix
            found.setdefault(name, []).append((sample.labels, sample.value))
    return found


def ksm(sim: Simulator) -> Samples:
    return scrape(sim, "/metrics/kube-state-metrics")


def of(samples: Samples, name: str, **labels: str) -> list[tuple[Mapping[str, str], float]]:
    return [(have, v) for have, v in samples.get(name, []) if labels.items() <= have.items()]


def submit(sim: Simulator, name: str, **fields: Any) -> None:
    sim.live.submit([{"id": name, "duration": "10m", "tolerations": [{"operator": "Exists"}], **fields}])


def node(sim: Simulator) -> str:
    return next(iter(sim.world.nodes))


# --- kube-state-metrics -----------------------------------------------------------------------------------


def test_a_phase_is_five_series_of_which_one_is_true(sim: Simulator) -> None:
    submit(sim, "train")
    sim.live.turn(timedelta(seconds=20))
    phases = {have["phase"]: v for have, v in of(ksm(sim), "kube_pod_status_phase", pod="train-0")}
    assert phases == {"Pending": 0, "Running": 1, "Succeeded": 0, "Failed": 0, "Unknown": 0}


def test_a_pod_carries_its_priority_class(sim: Simulator) -> None:
    submit(sim, "train", priority_class="production")
    assert of(ksm(sim), "kube_pod_info", pod="train-0", priority_class="production")


def test_gpu_requests_have_sanitized_names_and_an_empty_node_while_unbound(sim: Simulator) -> None:
    submit(sim, "big", gpus_per_pod=4)
    sim.live.turn(timedelta(seconds=5))
    ((labels, value),) = of(ksm(sim), "kube_pod_container_resource_requests", resource="nvidia_com_gpu")
    assert (labels["unit"], labels["node"], labels["pod"], value) == ("integer", "", "big-0", 4)


def test_unschedulable_is_there_only_while_it_holds(sim: Simulator) -> None:
    submit(sim, "train")
    assert of(ksm(sim), "kube_pod_status_scheduled", pod="train-0") == []  # not tried yet: no condition
    submit(sim, "big", gpus_per_pod=4)
    sim.live.turn(timedelta(seconds=5))
    samples = ksm(sim)
    assert [(have["pod"], v) for have, v in of(samples, "kube_pod_status_unschedulable")] == [("big-0", 1)]
    triple = {have["condition"]: v for have, v in of(samples, "kube_pod_status_scheduled", pod="big-0")}
    assert triple == {"true": 0, "false": 1, "unknown": 0}
    assert of(samples, "kube_pod_status_reason") == []


def test_a_gated_pod_counts_as_unschedulable_and_gives_its_reason(sim: Simulator) -> None:
    pod = a_pod_manifest("g", schedulingGates=[{"name": "q"}])
    requests.post(f"{sim.url}/api/v1/namespaces/default/pods", json=pod, timeout=60)
    samples = ksm(sim)
    assert [v for _, v in of(samples, "kube_pod_status_unschedulable", pod="g")] == [1]
    assert [v for _, v in of(samples, "kube_pod_status_reason", pod="g", reason="SchedulingGated")] == [1]


def test_node_labels_name_the_pool_and_follow_the_allowlist(sim: Simulator, start: Starter) -> None:
    ((labels, value),) = of(ksm(sim), "kube_node_labels")
    assert (labels["label_kubernetes_civo_com_civo_node_pool"], value) == (GPU_POOL, 1)
    assert "label_gpu" not in labels
    assert of(ksm(start(metrics={"node_labels": []})), "kube_node_labels") == []


def test_pod_labels_selectors_and_owners_are_shown(sim: Simulator) -> None:
    selector = {"kubernetes.civo.com/civo-node-pool": GPU_POOL}
    submit(sim, "train", team="red", node_selector=selector, labels={"gpu-autoscaler/pool": GPU_POOL})
    samples = ksm(sim)
    ((labels, _),) = of(samples, "kube_pod_labels", pod="train-0")
    assert (labels["label_team"], labels["label_gpu_autoscaler_pool"]) == ("red", GPU_POOL)
    ((selectors, _),) = of(samples, "kube_pod_nodeselectors", pod="train-0")
    assert selectors["nodeselector_kubernetes_civo_com_civo_node_pool"] == GPU_POOL
    ((owner, _),) = of(samples, "kube_pod_owner", pod="train-0")
    assert (owner["owner_kind"], owner["owner_name"], owner["owner_is_controller"]) == ("Job", "train", "true")


def test_a_pod_names_its_priority_class_and_a_replicaset_its_deployment(sim: Simulator) -> None:
    with sim.moved() as world:
        labels = {"pod-template-hash": "7d"}
        world.add_pod(
            PodSpec(
                namespace="ml",
                name="serve-7d-x",
                labels=labels,
                priority_class="production",
                owner_kind="ReplicaSet",
                owner_name="serve-7d",
            )
        )
        world.add_pod(PodSpec(namespace="ml", name="bare-x", owner_kind="ReplicaSet", owner_name="bare"))
        world.add_pod(PodSpec(namespace="ml", name="note"))
    samples = ksm(sim)
    classes = {have["pod"]: have["priority_class"] for have, _ in of(samples, "kube_pod_info", namespace="ml")}
    assert classes == {"serve-7d-x": "production", "bare-x": "", "note": ""}
    owners = {have["replicaset"]: have for have, _ in of(samples, "kube_replicaset_owner", namespace="ml")}
    assert owners.keys() == {"serve-7d", "bare"}
    assert (owners["serve-7d"]["owner_kind"], owners["serve-7d"]["owner_name"]) == ("Deployment", "serve")
    assert [owners[name]["owner_is_controller"] for name in ("serve-7d", "bare")] == ["true", ""]


def test_a_nodes_gpus_are_allocatable_only_once_the_driver_runs(sim: Simulator) -> None:
    with sim.moved() as world:
        world.resize(GPU_POOL, 2)
    seen = []
    for seconds in (71, 30):
        sim.live.turn(timedelta(seconds=seconds))
        samples = ksm(sim)
        ready = sum(v for _, v in of(samples, "kube_node_status_condition", condition="Ready", status="true"))
        gpus = [v for _, v in of(samples, "kube_node_status_allocatable", resource="nvidia_com_gpu", unit="integer")]
        seen.append((ready, gpus))
    assert seen == [(2, [1]), (2, [1, 1])]


def test_cordons_taints_and_conditions_of_a_node_are_shown(sim: Simulator) -> None:
    with sim.moved() as world:
        world.patch_node(node(sim), unschedulable=True)
    samples = ksm(sim)
    assert [v for _, v in of(samples, "kube_node_spec_unschedulable")] == [1]
    assert {have["key"] for have, _ in of(samples, "kube_node_spec_taint")} == {
        "gpu",
        "node.kubernetes.io/unschedulable",
    }
    ready = {have["status"]: v for have, v in of(samples, "kube_node_status_condition", condition="Ready")}
    assert ready == {"true": 1, "false": 0, "unknown": 0}
    ((info, _),) = of(samples, "kube_node_info")
    assert info["provider_id"].startswith("civo://")


def test_a_finished_pod_keeps_its_requests_until_it_is_removed(sim: Simulator) -> None:
    submit(sim, "train", duration="10s")
    sim.live.turn(timedelta(seconds=60))
    samples = ksm(sim)
    assert [v for _, v in of(samples, "kube_pod_status_phase", pod="train-0", phase="Succeeded")] == [1]
    assert of(samples, "kube_pod_container_resource_requests", pod="train-0", resource="nvidia_com_gpu")


# --- dcgm-exporter ----------------------------------------------------------------------------------------


def dcgm(sim: Simulator, name: str | None = None) -> Samples:
    return scrape(sim, f"/metrics/dcgm/{name or node(sim)}")


def test_an_idle_gpu_reports_zero_and_carries_no_workload(sim: Simulator) -> None:
    samples = dcgm(sim)
    ((labels, value),) = of(samples, "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    assert value == 0
    assert labels.keys() == {
        "gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION"
    }  # fmt: skip
    assert (labels["gpu"], labels["Hostname"], labels["modelName"]) == ("0", node(sim), "NVIDIA L40S")


def test_a_busy_gpu_names_its_pod_in_percent_and_in_ratio(sim: Simulator) -> None:
    submit(sim, "train", gpu_util=0.8)
    sim.live.turn(timedelta(seconds=30))
    samples = dcgm(sim)
    ((labels, ratio),) = of(samples, "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    assert (labels["namespace"], labels["pod"], labels["container"], ratio) == ("default", "train-0", "main", 0.8)
    assert [v for _, v in of(samples, "DCGM_FI_DEV_GPU_UTIL")] == [80]
    memory = sum(of(samples, f"DCGM_FI_DEV_FB_{part}")[0][1] for part in ("USED", "FREE", "RESERVED"))
    assert memory == 46068
    assert of(samples, "DCGM_FI_DEV_POWER_USAGE")[0][1] > 200


def test_only_gpus_with_a_neighbour_report_nvlink(sim: Simulator, start: Starter) -> None:
    assert of(dcgm(sim), "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL") == []
    pool = {"id": "h100", "size": "an.g1.h100.kube.x8", "resources": {"nvidia.com/gpu": 8}, "count": 1}
    eight = start(pools=[pool])
    submit(eight, "train", gpus_per_pod=8, gpu_util=0.8)
    eight.live.turn(timedelta(seconds=30))
    assert {value for _, value in of(dcgm(eight), "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL")} == {200_000}


def test_the_series_of_a_pod_go_when_it_ends(sim: Simulator) -> None:
    submit(sim, "train", duration="30s")
    sim.live.turn(timedelta(seconds=20))
    assert of(dcgm(sim), "DCGM_FI_DEV_GPU_UTIL", pod="train-0")
    sim.live.turn(timedelta(seconds=60))
    ((labels, _),) = of(dcgm(sim), "DCGM_FI_DEV_GPU_UTIL")
    assert "pod" not in labels


def test_the_node_label_may_be_the_newer_lower_case_one(start: Starter) -> None:
    ((labels, _),) = of(dcgm(start(metrics={"node_label": "hostname"})), "DCGM_FI_DEV_GPU_UTIL")
    assert "hostname" in labels
    assert "Hostname" not in labels


def test_mig_instances_have_series_of_their_own_and_no_gpu_util(start: Starter) -> None:
    pool = {
        "id": "mig",
        "size": "g4g.40.kube.small",
        "resources": {"nvidia.com/mig-1g.5gb": 7},
        "gpus": 1,
        "mig": True,
        "count": 1,
    }
    samples = dcgm(start(pools=[pool]))
    assert "DCGM_FI_DEV_GPU_UTIL" not in samples
    active = of(samples, "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    assert len({have["GPU_I_ID"] for have, _ in active}) == 7
    assert {(have["gpu"], have["GPU_I_PROFILE"]) for have, _ in active} == {("0", "1g.5gb")}
    assert len({have["UUID"] for have, _ in active}) == 1


def test_time_sliced_replicas_share_one_series(start: Starter) -> None:
    pool = {"id": "sliced", "size": "an.g1.l40s.kube.x1", "resources": {"nvidia.com/gpu": 4}, "gpus": 1, "count": 1}
    sim = start(pools=[pool])
    submit(sim, "a", gpu_util=0.3)
    sim.live.turn(timedelta(seconds=30))
    ((labels, value),) = of(dcgm(sim), "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    assert (labels["pod"], value) == ("a-0", 0.3)


def test_the_exporter_may_read_less_often_than_it_is_scraped(start: Starter) -> None:
    sim = start(metrics={"dcgm_interval": "30s"})
    dcgm(sim)
    submit(sim, "train", gpu_util=0.8)
    sim.live.turn(timedelta(seconds=29))
    assert of(dcgm(sim), "DCGM_FI_DEV_GPU_UTIL")[0][1] == 0
    sim.live.turn(timedelta(seconds=2))
    assert of(dcgm(sim), "DCGM_FI_DEV_GPU_UTIL")[0][1] == 80


def test_an_xid_stays_as_the_last_one(sim: Simulator) -> None:
    assert of(dcgm(sim), "DCGM_FI_DEV_XID_ERRORS")[0][1] == 0
    sim.fault(kind="xid", node=node(sim), code="79")
    ((labels, value),) = of(dcgm(sim), "DCGM_FI_DEV_XID_ERRORS")
    assert (value, labels["err_code"]) == (79, "79")


def test_an_xid_of_a_pool_comes_from_its_next_node_if_it_has_none(start: Starter) -> None:
    sim = start(pools=[{"id": "empty", "size": "an.g1.l40s.kube.x1", "resources": {"nvidia.com/gpu": 1}}])
    sim.fault(kind="xid", pool="empty", code=79)
    assert requests.get(f"{sim.url}/_faults", timeout=60).json()["world"]["coming_xids"] == {"empty/0": 79}
    Civo(sim.url).resize(2, "empty")
    sim.live.turn(timedelta(minutes=10))
    with sim.moved() as world:
        first, second = world.nodes
    assert (sim.live.xids, sim.live.coming_xids) == ({(first, 0): 79}, {})
    sim.fault(kind="xid", pool="empty", code=48)
    sim.live.tick()
    assert sim.live.xids == {(first, 0): 48}
    assert (second, 0) not in sim.live.xids


def test_a_reading_stands_until_it_is_lifted_and_may_be_none(sim: Simulator) -> None:
    sim.fault(kind="reading", node=node(sim), field="DCGM_FI_DEV_GPU_TEMP", value=91)
    sim.fault(kind="reading", node=node(sim), field="DCGM_FI_PROF_GR_ENGINE_ACTIVE", value=None)
    samples = dcgm(sim)
    assert [v for _, v in of(samples, "DCGM_FI_DEV_GPU_TEMP")] == [91]
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE" not in samples
    assert requests.get(f"{sim.url}/_faults", timeout=60).json()["world"]["readings"] == {
        f"{node(sim)}/0": {"DCGM_FI_DEV_GPU_TEMP": 91, "DCGM_FI_PROF_GR_ENGINE_ACTIVE": None}
    }
    requests.delete(f"{sim.url}/_faults", timeout=60)
    samples = dcgm(sim)
    assert of(samples, "DCGM_FI_DEV_GPU_TEMP")[0][1] < 60
    assert of(samples, "DCGM_FI_PROF_GR_ENGINE_ACTIVE")


def test_a_gpu_that_stalls_is_busy_and_gets_nothing_done(sim: Simulator) -> None:
    submit(sim, "train", gpu_util=0.8, gpu_memory=0.5)
    sim.live.turn(timedelta(minutes=1))
    before = of(dcgm(sim), "DCGM_FI_DEV_FB_USED")
    sim.fault(kind="stall", node=node(sim), engine=1.0)
    samples = dcgm(sim)
    names = ("GR_ENGINE_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE")
    assert [of(samples, f"DCGM_FI_PROF_{name}")[0][1] for name in names] == [1, 0, 0]
    assert of(samples, "DCGM_FI_DEV_FB_USED") == before  # its memory stays, and the pod's name on it
    assert requests.get(f"{sim.url}/_faults", timeout=60).json()["world"]["stalls"] == {f"{node(sim)}/0": 1}
    requests.delete(f"{sim.url}/_faults", timeout=60)
    assert of(dcgm(sim), "DCGM_FI_PROF_GR_ENGINE_ACTIVE")[0][1] == 0.8


def test_a_leak_takes_memory_evenly_until_there_is_none_left(sim: Simulator) -> None:
    def memory() -> list[float]:
        return [of(dcgm(sim), f"DCGM_FI_DEV_FB_{part}")[0][1] for part in ("USED", "FREE")]

    used, free = memory()
    sim.fault(kind="leak", node=node(sim), value=6000)
    assert memory() == [used, free]
    sim.live.turn(timedelta(minutes=30))
    assert memory() == [used + 3000, free - 3000]
    assert requests.get(f"{sim.url}/_faults", timeout=60).json()["world"]["leaks"] == {f"{node(sim)}/0": 6000}
    sim.live.turn(timedelta(days=1))
    assert memory() == [used + free, 0]
    requests.delete(f"{sim.url}/_faults", timeout=60)
    assert memory() == [used, free]


def test_a_leak_of_unknown_pace_is_refused(sim: Simulator) -> None:
    answer = requests.post(f"{sim.url}/_faults", json={"kind": "leak", "node": node(sim)}, timeout=60)
    assert answer.json()["errors"] == ["value: Field required"]


def test_a_reading_of_a_field_that_nobody_knows_is_refused(sim: Simulator) -> None:
    for field in ("DCGM_FI_DEV_GPU_TEMPERATURE", "DCGM_FI_DEV_XID_ERRORS"):
        given = {"kind": "reading", "node": node(sim), "field": field, "value": 1}
        answer = requests.post(f"{sim.url}/_faults", json=given, timeout=60)
        assert (answer.status_code, field in answer.text) == (400, True)


def test_what_a_gpu_has_no_answer_to_has_no_series(start: Starter) -> None:
    plain, other = dcgm(start()), dcgm(start(metrics={"profiling": False, "ecc": True}))
    assert "DCGM_FI_PROF_DRAM_ACTIVE" in plain
    assert [name for name in other if "_PROF_" in name] == []
    assert "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL" not in plain
    assert of(other, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL")[0][1] == 0
    assert of(plain, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS")[0][1] == 0
    assert "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" not in plain
    pool = {"id": "h", "size": "x", "resources": {"nvidia.com/gpu": 8}, "count": 1, "model_name": "NVIDIA H100 SXM5"}
    sized = {"cpu_cores": 8, "ram_mb": 1024, "disk_gb": 10}
    linked = dcgm(start(pools=[{**pool, **sized}]))
    assert len(of(linked, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL")) == 8


# --- discovery --------------------------------------------------------------------------------------------


def test_discovery_lists_a_target_for_each_exporter_that_is_up(sim: Simulator) -> None:
    with sim.moved() as world:
        world.resize(GPU_POOL, 2)
    sim.live.turn(timedelta(seconds=75))
    targets = requests.get(f"{sim.url}/sd/dcgm", timeout=60).json()
    assert len(targets) == 1  # the second node's driver is still being installed
    sim.live.turn(timedelta(seconds=30))
    targets = requests.get(f"{sim.url}/sd/dcgm", timeout=60).json()
    assert len({t["labels"]["instance"] for t in targets}) == 2
    for target in targets:
        assert target["labels"]["namespace"] == "gpu-operator"
        assert requests.get(f"http://{target['targets'][0]}{target['labels']['__metrics_path__']}", timeout=60).ok
        with sim.moved() as world:
            assert ("gpu-operator", target["labels"]["pod"]) in world.pods


def test_an_exporter_that_is_not_up_yet_answers_503(sim: Simulator) -> None:
    with sim.moved() as world:
        world.resize(GPU_POOL, 2)
    sim.live.turn(timedelta(seconds=75))
    new = next(n for n in sim.world.nodes if n != node(sim))
    assert requests.get(f"{sim.url}/metrics/dcgm/{new}", timeout=60).status_code == 503
    assert requests.get(f"{sim.url}/metrics/dcgm/nobody", timeout=60).status_code == 404


def test_promtool_finds_nothing_wrong_with_the_format(sim: Simulator) -> None:
    submit(sim, "train")
    submit(sim, "big", gpus_per_pod=4)
    sim.live.turn(timedelta(seconds=30))
    for path in ("/metrics/kube-state-metrics", f"/metrics/dcgm/{node(sim)}"):
        text = requests.get(sim.url + path, timeout=60).text
        command = [binary("promtool"), "check", "metrics"]
        checked = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        # 3 is "lint": the exporters' own names are not all in good style, and are kept.
        assert checked.returncode in (0, 3), checked.stderr
        assert "error while linting" not in checked.stderr
