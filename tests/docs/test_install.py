"""docs/install.md: its overlays build, its Secrets are those that the pod reads, its clean-up names all of ours."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from receiver.config import load_text
from receiver.core.scaling.packing import SOFT_TAINTS
from receiver.ports import CORDON_ANNOTATION, QUOTA_LABEL, STOP_ANNOTATION, STOP_POLICY_ANNOTATION
from tests.docs.commands import commands
from tests.docs.pages import ROOT, section, text_of
from tests.lint import load_yaml
from tests.manifests.built import KUBERNETES, NEW, OLD, build, mistakes, overlay, read, the

PAGE = text_of("docs/install.md")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CONFIGURATION, OVERLAY = (next(b for b in BLOCKS if b.startswith(head)) for head in ("mode:", "apiVersion:"))
BASES = [b for b in BLOCKS if b.startswith("bases:")]
JSON = dict[str, Any]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with k8s and dashboards in which the page's reader makes an overlay."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("k8s", "dashboards"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


def mine(checkout: Path, name: str, bases: str, kubectl: str) -> tuple[JSON, ...]:
    """Return what the page's own overlay, as *name* in *checkout*, makes on *bases*, as *kubectl* builds it."""
    folder = checkout / name
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(CONFIGURATION, encoding="utf-8")
    said = re.sub(r"^bases: .*\n", bases, OVERLAY, flags=re.MULTILINE)
    assert bases in said
    (folder / "kustomization.yaml").write_text(said, encoding="utf-8")
    return tuple(read(build(folder, kubectl)))


@pytest.mark.parametrize("kubectl", [OLD, NEW])
@pytest.mark.parametrize("step", range(3), ids=["observe", "act", "several replicas"])
def test_the_overlay_of_the_page_builds_at_every_step(step: int, kubectl: str, checkout: Path) -> None:
    first = re.search(r"^bases: .*\n", OVERLAY, re.MULTILINE)
    assert first is not None
    objects = mine(checkout, f"mine{step}", [first[0], *BASES][step], kubectl)
    assert the(objects, "ConfigMap", "gpu-autoscaler-HASH")["data"]["config.yaml"] == CONFIGURATION
    [container] = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("YOUR_REGISTRY/civo-gpu-autoscaler:")
    assert the(objects, "Deployment")["spec"]["replicas"] == (3 if step == 2 else 1)
    bound = [o["roleRef"]["name"] for o in objects if o["kind"] == "ClusterRoleBinding"]
    assert ("gpu-autoscaler-act" in bound) == (step > 0)
    assert [wrong for o in objects if (wrong := mistakes(o, "1.36"))] == []


def test_the_configuration_of_the_page_observes() -> None:
    assert load_text(CONFIGURATION).configuration.mode == "observe"


def test_the_secrets_of_the_page_are_those_that_the_pod_reads() -> None:
    made = {"civo-api-access": {"api-key", "api-url", "cluster-id", "region"}}
    for words in commands(PAGE, "kubectl"):
        if "generic" in words:
            keys = {w.removeprefix("--from-literal=").partition("=")[0] for w in words if w.startswith("--from-lit")}
            made[words[words.index("generic") + 1]] = keys
    assert _read("observe") | _read("ha-postgres") == {(name, key) for name, keys in made.items() for key in keys} | {
        ("gpu-autoscaler", "reader-token")  # may be missing
    }
    assert all(f"`{key}`" in PAGE for key in made["civo-api-access"])


def _read(name: str) -> set[tuple[str, str]]:
    spec = the(overlay(name), "Deployment")["spec"]["template"]["spec"]
    [container] = spec["containers"]
    found = set()
    for variable in container["env"]:
        if "valueFrom" in variable:
            asked = variable["valueFrom"]["secretKeyRef"]
            found.add((asked["name"], asked["key"]))
        elif variable["name"].endswith("_FILE"):
            folder, _, file = variable["value"].rpartition("/")
            [mount] = [m["name"] for m in container["volumeMounts"] if m["mountPath"] == folder]
            [volume] = [v["secret"]["secretName"] for v in spec["volumes"] if v["name"] == mount]
            found.add((volume, file))
    return found


def test_the_page_counts_the_objects_of_the_monitoring_side() -> None:
    kinds = [o["kind"] for o in overlay("kube-prometheus-stack")]
    assert f"You see {kinds.count('PrometheusRule')} PrometheusRules, one ServiceMonitor" in PAGE
    assert (kinds.count("ServiceMonitor"), kinds.count("AlertmanagerConfig")) == (1, 1)


def test_the_clean_up_names_all_that_we_leave_on_others_objects() -> None:
    part = section(PAGE, "Uninstall")
    for mark in (
        CORDON_ANNOTATION,
        STOP_ANNOTATION,
        QUOTA_LABEL,
        STOP_POLICY_ANNOTATION,
        *(t.key for t in SOFT_TAINTS),
    ):
        assert mark in part, mark


def test_the_versions_that_the_page_names_are_those_that_are_tried() -> None:
    tried = (
        f"kubectl {OLD} and {NEW} and validated against the schemas of Kubernetes {KUBERNETES[0]} to {KUBERNETES[-1]}"
    )
    assert tried in " ".join(PAGE.split())


def test_every_overlay_is_in_the_table_and_the_other_way_round() -> None:
    told = set(re.findall(r"`overlays/([\w/-]+)`", section(PAGE, "Contents")))
    there = {
        p.parent.relative_to(ROOT / "k8s" / "overlays") for p in (ROOT / "k8s" / "overlays").rglob("kustomization.yaml")
    }
    assert told == {str(p) for p in there} - {"kube-prometheus-stack/dashboards"}


def test_the_namespace_comes_before_the_secrets_and_is_the_overlays_own() -> None:
    [words] = [w for w in commands(PAGE, "kubectl") if w[-1].endswith("namespace.yaml")]
    alone = load_yaml((ROOT / words[-1]).read_text(encoding="utf-8"))
    assert alone == the(overlay("observe"), "Namespace")
