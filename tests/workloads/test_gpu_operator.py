"""What the GPU operator reads goes with our rules and our configuration."""

from collections.abc import Iterator
from functools import reduce
from operator import getitem
from typing import Any

import pytest

from receiver.config import load_text
from receiver.core.model.policy import Pool
from receiver.core.scaling.demand import IGNORED_NAMESPACES
from tests.docs.commands import commands
from tests.docs.pages import text_of
from tests.lint import load_yaml
from tests.workloads.files import CONFIGURATION, WORKLOADS, of_kind
from tools.metric_readers import read

JSON = dict[str, Any]
FOLDER = WORKLOADS / "gpu-operator"
COUNTERS = FOLDER / "dcgm-metrics.csv"
VALUES: JSON = load_yaml((FOLDER / "values.yaml").read_text(encoding="utf-8"))
POOLS = load_text(CONFIGURATION.read_text(encoding="utf-8")).policy.pools
GPUS_OF_SIZE = {"an.g1.l40s.kube.x1": 1, "g4g.kube.small": 1}


def counters() -> list[list[str]]:
    """Return field, type and help of every line that dcgm-exporter reads."""
    lines = COUNTERS.read_text(encoding="utf-8").splitlines()
    return [[part.strip() for part in line.split(",")] for line in lines if line.strip() and not line.startswith("#")]


def config_map(name: str) -> JSON:
    """Return the data of the ConfigMap called *name*, each key's text as YAML."""
    [found] = [o.body for o in of_kind("ConfigMap") if o.body["metadata"]["name"] == name]
    return {key: load_yaml(text) for key, text in found["data"].items()}


def pool(name: str) -> Pool:
    """Return the pool of the example configuration."""
    return next(p for p in POOLS if p.name == name)


def test_the_counters_are_exactly_those_that_rules_and_dashboards_read() -> None:
    assert sorted(name for name, *_ in counters()) == sorted(name for name in read() if name.startswith("DCGM_"))


def test_every_line_of_the_counters_is_one_that_the_exporter_takes() -> None:
    for line in counters():
        assert len(line) == 3, line  # a comma in the help would be a fourth field
        assert line[1] in ("gauge", "counter"), line
        assert line[2], line


def test_the_chart_is_told_of_every_config_map_that_is_here() -> None:
    generated = load_yaml((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))["configMapGenerator"]
    here = {g["name"] for g in generated} | {
        o.body["metadata"]["name"] for o in of_kind("ConfigMap") if o.file.parent == FOLDER
    }
    told = (VALUES["dcgmExporter"], VALUES["devicePlugin"], VALUES["migManager"])
    assert {part["config"]["name"] for part in told} == here
    assert generated[0]["files"] == ["dcgm-metrics.csv"]  # the key that the operator mounts
    env = {e["name"]: e["value"] for e in VALUES["dcgmExporter"]["env"]}
    assert env["DCGM_EXPORTER_COLLECTORS"] == "/etc/dcgm-exporter/dcgm-metrics.csv"


def test_the_operators_namespace_is_one_whose_validation_pods_are_no_demand() -> None:
    [namespace] = [o.body["metadata"]["name"] for o in of_kind("Namespace") if o.file.parent == FOLDER]
    assert namespace in IGNORED_NAMESPACES


@pytest.mark.parametrize("matched", POOLS, ids=lambda p: p.name)
def test_a_pool_offers_what_its_labels_make_the_operator_offer(matched: Pool) -> None:
    assert dict(matched.resources) == offered(matched)


def offered(matched: Pool) -> dict[str, int]:
    """Return what a node of the pool advertises, by the operator's configuration for the pool's labels."""
    gpus = GPUS_OF_SIZE[matched.size]
    layout = matched.labels.get("nvidia.com/mig.config")
    if layout is not None:
        assert VALUES["mig"]["strategy"] == "mixed"  # with `single` slices are called nvidia.com/gpu
        [devices] = config_map("gpu-autoscaler-mig")["config.yaml"]["mig-configs"][layout]
        assert (devices["devices"], devices["mig-enabled"]) == ("all", True)
        return {f"nvidia.com/mig-{profile}": count * gpus for profile, count in devices["mig-devices"].items()}
    default = VALUES["devicePlugin"]["config"]["default"]
    chosen = config_map("gpu-autoscaler-sharing")[matched.labels.get("nvidia.com/device-plugin.config", default)]
    if "sharing" not in chosen:
        return {"nvidia.com/gpu": gpus}
    slicing = chosen["sharing"]["timeSlicing"]
    [shared] = slicing["resources"]
    assert slicing["renameByDefault"]  # under the old name a share would count as a whole GPU
    return {f"{shared['name']}.shared": shared["replicas"] * gpus}


def test_shares_are_written_down_as_often_as_a_gpu_is_handed_out() -> None:
    shared = pool("l40s-shared")
    replicas = int(shared.labels["nvidia.com/gpu.replicas"])
    assert shared.resources == {"nvidia.com/gpu.shared": replicas * GPUS_OF_SIZE[shared.size]}


def test_no_mig_layout_asks_for_more_slices_than_a_gpu_has() -> None:
    for name, layout in config_map("gpu-autoscaler-mig")["config.yaml"]["mig-configs"].items():
        for devices in layout:
            slices = sum(int(p.split("g.")[0]) * n for p, n in devices.get("mig-devices", {}).items())
            assert slices <= 7, name


def test_time_sliced_pods_are_named_in_dcgms_series() -> None:
    env = {e["name"]: e["value"] for e in VALUES["dcgmExporter"]["env"]}
    assert env["NVIDIA_RESOURCE_NAMES"].split(",") == ["nvidia.com/gpu.shared"]


def leaves(values: JSON, at: str = "") -> Iterator[str]:
    """Yield the path of every value that is no mapping."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{at}{key}.")
        else:
            yield f"{at}{key}"


def test_the_values_ask_for_no_object_of_the_prometheus_operator() -> None:
    assert {path for path in leaves(VALUES) if "serviceMonitor" in path} == set()


def test_getting_started_sets_what_the_files_say() -> None:
    [words] = [w for w in commands(text_of("docs/getting-started.md"), "helm") if "nvidia/gpu-operator" in w]
    given = [words[n + 1].partition("=") for n, word in enumerate(words) if word == "--set"]
    for path, _, value in given:
        assert str(reduce(getitem, path.split("."), VALUES)).lower() == value
    assert len(given) == 1
