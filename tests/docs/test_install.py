"""docs/install.md: its values are those of the chart, its Secrets those that the pod reads, its clean-up names all of
ours."""

import re
import subprocess
from pathlib import Path
from typing import Any

from receiver.config import load_file
from receiver.core.scaling.packing import SOFT_TAINTS
from receiver.ports import CORDON_ANNOTATION, QUOTA_LABEL, STOP_ANNOTATION, STOP_POLICY_ANNOTATION
from tests.docs.commands import commands, fenced
from tests.docs.pages import ROOT, every_page, section, table, text_of
from tests.lint import load_yaml, none_of
from tests.manifests.built import INSTALLED, KUBERNETES, installed, secrets_read
from tools.install_manifests import CHART, EXAMPLE, HELM, helm

PAGE = text_of("docs/install.md")
JSON = dict[str, Any]
VALUES: JSON = load_yaml((CHART / "values.yaml").read_text(encoding="utf-8"))


def test_the_secret_of_several_replicas_is_the_one_that_the_pods_read() -> None:
    [words] = [w for w in commands(PAGE, "kubectl") if "gpu-autoscaler-database" in w]
    key = next(w for w in words if w.startswith("--from-literal=")).removeprefix("--from-literal=").partition("=")[0]
    assert secrets_read(installed("ha")) - secrets_read(installed("observe")) == {("gpu-autoscaler-database", key)}


def test_every_value_of_the_table_is_one_of_the_chart() -> None:
    told = {name for row in table(section(PAGE, "Values")) for name in re.findall(r"`([\w.]+)`", row[0])}

    def there(name: str) -> bool:
        found: Any = VALUES
        for key in name.lstrip(".").split("."):
            found = found.get(key) if isinstance(found, dict) else None
        return found is not None

    none_of(name for name in told if not name.startswith(".") and not there(name))
    assert len(told) > 5


def test_the_configuration_is_checked_before_it_is_installed(tmp_path: Path) -> None:
    [line, check] = [said for said in fenced(PAGE) if "config.yaml" in said and not said.startswith("docker")]
    there = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    (tmp_path / "helm").symlink_to(HELM)
    (tmp_path / "k8s").symlink_to(ROOT / "k8s")
    (tmp_path / "gpu-autoscaler.yaml").write_bytes(EXAMPLE.read_bytes())
    subprocess.run(["sh", "-euc", line], cwd=tmp_path, env=there, capture_output=True, timeout=60, check=True)
    [pool] = load_file(tmp_path / check.rpartition(" ")[2]).policy.pools
    assert pool.id == load_yaml(EXAMPLE.read_text(encoding="utf-8"))["pools"][0]["civo_pool_id"]


def test_the_example_of_alerts_is_taken(tmp_path_factory: Any) -> None:
    [example] = re.findall(r"^```yaml\n(rules:.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    file = tmp_path_factory.mktemp("values") / "rules.yaml"
    file.write_text(example, encoding="utf-8")
    assert "gpu_autoscaler_notices_oldest_seconds) > 1800" in helm("--values", EXAMPLE, "--values", file)


def test_the_page_counts_the_objects_of_the_monitoring_side() -> None:
    kinds = [o["kind"] for o in installed("kube-prometheus-stack")]
    assert f"shows {kinds.count('PrometheusRule')} PrometheusRules, two ServiceMonitors" in PAGE
    assert (kinds.count("ServiceMonitor"), kinds.count("AlertmanagerConfig")) == (2, 1)


def test_the_clean_up_names_all_that_we_leave_on_others_objects() -> None:
    part = PAGE[PAGE.index("## Uninstall") :]
    marks = (CORDON_ANNOTATION, STOP_ANNOTATION, QUOTA_LABEL, STOP_POLICY_ANNOTATION, *(t.key for t in SOFT_TAINTS))
    none_of(mark for mark in marks if mark not in part)


def test_the_versions_that_the_quick_start_names_are_those_that_are_tried() -> None:
    page = " ".join(text_of("docs/getting-started.md").split())
    assert f"the schemas of Kubernetes {KUBERNETES[0]} to {KUBERNETES[-1]}" in page


def test_the_image_that_the_pages_build_has_the_tag_that_the_chart_asks_for() -> None:
    asked = load_yaml((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
    tags = {tag for text in every_page().values() for tag in re.findall(r"/civo-gpu-autoscaler:(\d[\w.]*)", text)}
    assert tags == {asked}


def test_every_file_to_install_is_told_of() -> None:
    none_of(name for name in INSTALLED if f"`{name}.yaml`" not in PAGE)
    none_of(
        f
        for words in commands(PAGE, "kubectl")
        for f in words
        if f.startswith("k8s/install/") and not (ROOT / f).exists()
    )
