"""The chart as other programs take it: without links, below another chart, beside templates of the same names."""

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.lint import none_of
from tests.manifests.built import ROOT, read, the
from tools import install_manifests
from tools.install_manifests import CHART, EXAMPLE

OTHERS = """
{{- define "image" }}evil:1{{ end }}
{{- define "labels" }}app.kubernetes.io/name: other{{ end }}
{{- define "url" }}http://evil{{ end }}
{{- define "configuration" }}mode: act{{ end }}
{{- define "groups" }}groups: []{{ end }}
{{- define "monitoring" }}none{{ end }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: other
data:
  image: {{ include "image" . }}
"""
CONDITION = """
dependencies:
- {name: gpu-autoscaler, version: ">=0", condition: gpu-autoscaler.enabled}
- {name: other, version: ">=0"}
"""


def render(chart: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [install_manifests.HELM, "template", "x", chart, "--namespace", "g", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def without_links(chart: Path, folder: Path) -> Path:
    """Return *chart* as Flux archives and unpacks it: with regular files alone."""
    with tarfile.open(folder / "chart.tar", "w") as archive:
        archive.add(chart, "chart", filter=lambda member: None if member.issym() else member)
    with tarfile.open(folder / "chart.tar") as archive:
        archive.extractall(folder, filter="data")
    return folder / "chart"


def test_an_archive_without_links_has_every_rule_and_dashboard(tmp_path: Path) -> None:
    ran = render(without_links(CHART, tmp_path), "--values", EXAMPLE)
    assert ran.returncode == 0, ran.stderr
    objects = list(read(ran.stdout))
    assert len([o for o in objects if o["kind"] == "PrometheusRule"]) == len(list((ROOT / "rules").glob("*.yaml"))) > 15
    boards = [o for o in objects if o["metadata"]["name"].endswith("-dashboard")]
    assert len(boards) == len(list((ROOT / "dashboards").glob("*.json"))) >= 5


@pytest.mark.parametrize("monitoring", ["kube-prometheus-stack", "plain"])
@pytest.mark.parametrize("missing", ["files/rules", "files/dashboards", "files/thresholds.yaml", "files/route.yaml"])
def test_a_chart_that_lost_a_file_is_refused(tmp_path: Path, missing: str, monitoring: str) -> None:
    chart = without_links(CHART, tmp_path)
    lost = chart / missing
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    ran = render(chart, "--values", EXAMPLE, "--set", f"monitoring={monitoring}")
    if monitoring == "plain" and missing in ("files/dashboards", "files/route.yaml"):
        assert ran.returncode == 0  # what this kind of monitoring does not install
        return
    assert ran.returncode != 0
    assert f"this copy of the chart has no {missing}" in ran.stderr


def test_every_template_of_the_chart_carries_its_name() -> None:
    templates = [*CHART.rglob("*.tpl"), *CHART.rglob("templates/**/*.yaml"), *CHART.rglob("NOTES.txt")]
    names = [n for p in templates for n in re.findall(r'(?:define|include|template) "([^"]+)"', p.read_text("utf-8"))]
    assert len(names) > 20
    none_of(name for name in names if not name.startswith("gpu-autoscaler."))


@pytest.fixture
def umbrella(tmp_path: Path) -> Path:
    """Return a chart that has this one, under the condition of its name, and one with templates of common names."""
    folder = tmp_path / "umbrella"
    (folder / "charts" / "other" / "templates").mkdir(parents=True)
    for chart, name in ((folder, "umbrella"), (folder / "charts" / "other", "other")):
        (chart / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n", "utf-8")
    (folder / "charts" / "other" / "templates" / "all.yaml").write_text(OTHERS, "utf-8")
    shutil.copytree(CHART, folder / "charts" / "gpu-autoscaler")
    with (folder / "Chart.yaml").open("a", encoding="utf-8") as file:
        file.write(CONDITION)
    example = EXAMPLE.read_text(encoding="utf-8")
    values = "global: {imageRegistry: elsewhere}\ngpu-autoscaler:\n" + re.sub(r"^", "  ", example, flags=re.MULTILINE)
    (folder / "values.yaml").write_text(values, "utf-8")
    return folder


def test_below_another_chart_neither_changes_the_other(umbrella: Path) -> None:
    ran = render(umbrella, "--set", "gpu-autoscaler.enabled=true")
    assert ran.returncode == 0, ran.stderr
    objects = tuple(read(ran.stdout))
    [container] = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example.com/civo-gpu-autoscaler:")
    assert "mode: observe" in the(objects, "ConfigMap")["data"]["config.yaml"]
    assert len([o for o in objects if o["kind"] == "PrometheusRule"]) > 15
    assert the(objects, "ConfigMap", "other")["data"] == {"image": "evil:1"}


def test_below_another_chart_it_can_be_switched_off(umbrella: Path) -> None:
    ran = render(umbrella, "--set", "gpu-autoscaler.enabled=false")
    assert ran.returncode == 0, ran.stderr
    assert [o["metadata"]["name"] for o in read(ran.stdout)] == ["other"]


def test_below_another_chart_a_wrong_value_is_refused_by_its_name(umbrella: Path) -> None:
    ran = render(umbrella, "--set", "gpu-autoscaler.config.budgett.monthly_usd=5")
    assert "gpu-autoscaler:\n- at '/config': additional properties 'budgett' not allowed" in ran.stderr


# As Argo CD's repo server calls Helm, and kustomize's helmCharts much the same.
ARGO = (
    *("--include-crds", "--kube-version", "1.36", "--values", EXAMPLE, "--set", "mode=act"),
    *("--api-versions", "monitoring.coreos.com/v1", "--api-versions", "monitoring.coreos.com/v1/PrometheusRule"),
)
ANNOTATION = 256 * 1024  # bytes that all annotations of an object may have, and client-side apply puts it into one


def test_argo_cd_renders_the_same_each_time_and_can_apply_each_object() -> None:
    first, second = render(CHART, *ARGO), render(CHART, *ARGO)
    assert (first.returncode, first.stdout) == (0, second.stdout), first.stderr
    objects = list(read(first.stdout))
    keys = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects]
    assert len(keys) == len(set(keys)) > 40
    assert max(len(json.dumps(o)) for o in objects) < ANNOTATION
    hooks = [o["metadata"]["name"] for o in objects if "helm.sh/hook" in o["metadata"].get("annotations", {})]
    assert hooks == ["gpu-autoscaler-test"]  # which it leaves out: it knows no hook `test`


def test_the_package_of_an_archive_without_links_makes_what_the_folder_makes(tmp_path: Path) -> None:
    chart = without_links(CHART, tmp_path)
    command = [str(install_manifests.HELM), "package", str(chart), "--destination", str(tmp_path)]
    subprocess.run(command, capture_output=True, timeout=60, check=True)
    [package] = tmp_path.glob("gpu-autoscaler-*.tgz")
    assert render(package, *ARGO).stdout == render(CHART, *ARGO).stdout != ""


def test_an_uninstall_leaves_the_volume_and_the_pod_of_the_test_alone() -> None:
    objects = list(read(render(CHART, *ARGO).stdout))
    kept = [
        (o["kind"], o["metadata"]["name"])
        for o in objects
        if {"helm.sh/resource-policy", "helm.sh/hook"} & o["metadata"].get("annotations", {}).keys()
    ]
    assert sorted(kept) == [("PersistentVolumeClaim", "gpu-autoscaler"), ("Pod", "gpu-autoscaler-test")]


@pytest.mark.parametrize("values", ["mode=observe", "monitoring=plain", "runsOn=vm", "createNamespace=true,mode=act"])
def test_every_object_says_which_release_of_which_chart_made_it(values: str) -> None:
    ran = render(CHART, "--values", EXAMPLE, "--set", values)
    objects = list(read(ran.stdout))
    assert len(objects) > 5
    wanted = {"app.kubernetes.io/instance": "x", "app.kubernetes.io/managed-by": "Helm"}
    for found in objects:
        labels = found["metadata"].get("labels", {})
        name = f"{found['kind']} {found['metadata']['name']}"
        assert wanted.items() <= labels.items(), name
        assert labels["app.kubernetes.io/name"], name
        assert labels["helm.sh/chart"] == f"gpu-autoscaler-{labels['app.kubernetes.io/version']}", name


def test_no_selector_has_a_label_that_an_upgrade_changes() -> None:
    objects = tuple(read(render(CHART, "--values", EXAMPLE).stdout))
    name = {"app.kubernetes.io/name": "gpu-autoscaler"}
    deployment = the(objects, "Deployment")["spec"]
    assert deployment["selector"]["matchLabels"] == name
    assert deployment["template"]["metadata"]["labels"] == {**name, "app.kubernetes.io/instance": "x"}
    assert the(objects, "Service")["spec"]["selector"] == name
    assert the(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == name
    assert the(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == name
