"""The chart as other programs take it: without links, below another chart, beside templates of the same names."""

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


def test_the_copies_in_the_chart_are_the_rules_and_dashboards() -> None:
    copies = install_manifests.copies()
    assert install_manifests.copied() == copies.keys(), "run `make manifests`"
    none_of(f"{p}: run `make manifests`" for p, text in copies.items() if p.read_text(encoding="utf-8") != text)


def test_every_template_of_the_chart_carries_its_name() -> None:
    templates = [*CHART.rglob("*.tpl"), *CHART.rglob("templates/**/*.yaml"), *CHART.rglob("NOTES.txt")]
    names = [n for p in templates for n in re.findall(r'(?:define|include|template) "([^"]+)"', p.read_text("utf-8"))]
    assert len(names) > 20
    none_of(name for name in names if not name.startswith("gpu-autoscaler."))


def test_below_another_chart_neither_changes_the_other(tmp_path: Path) -> None:
    umbrella = tmp_path / "umbrella"
    (umbrella / "charts" / "other" / "templates").mkdir(parents=True)
    for folder, name in ((umbrella, "umbrella"), (umbrella / "charts" / "other", "other")):
        (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n", "utf-8")
    (umbrella / "charts" / "other" / "templates" / "all.yaml").write_text(OTHERS, "utf-8")
    shutil.copytree(CHART, umbrella / "charts" / "gpu-autoscaler")
    example = EXAMPLE.read_text(encoding="utf-8")
    values = tmp_path / "values.yaml"
    values.write_text("gpu-autoscaler:\n" + re.sub(r"^", "  ", example, flags=re.MULTILINE), "utf-8")
    ran = render(umbrella, "--values", values)
    assert ran.returncode == 0, ran.stderr
    objects = tuple(read(ran.stdout))
    [container] = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example.com/civo-gpu-autoscaler:")
    assert "mode: observe" in the(objects, "ConfigMap")["data"]["config.yaml"]
    assert len([o for o in objects if o["kind"] == "PrometheusRule"]) > 15
    assert the(objects, "ConfigMap", "other")["data"] == {"image": "evil:1"}


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
