"""docs/getting-started.md: its six commands, each run as far as it can be here, and its pieces fit each other."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

from flask import Flask

from receiver.config import load_text
from receiver.core.model.policy import Pool
from simulator.civo import civo_face
from simulator.clocks import ManualClock
from simulator.config import parse
from simulator.server import Simulator
from tests.docs.commands import commands, fenced, taken
from tests.docs.pages import ROOT, section, text_of
from tests.docs.test_install import secrets_read
from tests.lint import load_yaml
from tests.manifests.built import NEW, mistakes, read, the
from tests.rules.files import run
from tests.step.harness import START
from tools.install_manifests import EXAMPLE, helm

PAGE = text_of("docs/getting-started.md")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
POD = BLOCKS[1]
VALUES = BLOCKS[0].replace("YOUR_REGISTRY", "registry.example.org")
QUICK = PAGE[PAGE.index("**2.") : PAGE.index("Open the pages")]  # from a cluster to observe mode
[NAMESPACE, COPY, TOKENS, STACK, INSTALL, DOCTOR] = list(fenced(QUICK))
OF_CIVO = """\
apiVersion: v1
data: {api-key: aw==, api-url: dQ==, cluster-id: Yw==, region: cg==}
kind: Secret
metadata:
  creationTimestamp: "2026-01-01T00:00:00Z"
  name: civo-api-access
  namespace: kube-system
  resourceVersion: "42"
  uid: 0e7b0a5f-7a49-4d0f-8d0e-000000000001
type: Opaque
"""


def _pool() -> Pool:
    [pool] = load_text(the(_installed(), "ConfigMap")["data"]["config.yaml"]).policy.pools
    return pool


def _installed() -> tuple[dict[str, Any], ...]:
    """What the page's `helm install` sends, with the page's values."""
    return tuple(read(helm("--values", "-", text=VALUES)))


def made_by_kubectl(line: str) -> dict[str, Any]:
    """Return the object that ``kubectl create`` of the page would send."""
    there = {"PATH": f"{ROOT}/.build/bin:/usr/bin:/bin", "KUBECONFIG": "/dev/null"}
    line = line.replace("kubectl", f"kubectl-{NEW}", 1) + " --dry-run=client -o json"
    ran = subprocess.run(["sh", "-euc", line], env=there, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    made: dict[str, Any] = json.loads(ran.stdout)
    return made


def test_six_commands_lead_from_a_cluster_to_observe_mode() -> None:
    made = made_by_kubectl(NAMESPACE)
    assert (made["kind"], made["metadata"]["name"]) == ("Namespace", "gpu-autoscaler")


def test_the_copy_of_civos_secret_can_be_created_in_our_namespace() -> None:
    _, edit, apply = COPY.split(" | ")
    ran = subprocess.run(["sh", "-euc", edit], input=OF_CIVO, capture_output=True, text=True, timeout=60, check=True)
    made = load_yaml(ran.stdout)
    assert made["metadata"] == {"name": "civo-api-access", "namespace": "gpu-autoscaler"}
    assert mistakes(made, "1.36") == ""
    assert made["data"] == load_yaml(OF_CIVO)["data"]
    assert apply == "kubectl apply -f -"


def test_the_two_secrets_are_all_that_the_pod_reads() -> None:
    tokens = made_by_kubectl(TOKENS)
    assert all(len(value) > 40 for value in tokens["data"].values())
    there = {("civo-api-access", key) for key in load_yaml(OF_CIVO)["data"]}
    there |= {(tokens["metadata"]["name"], key) for key in tokens["data"]}
    assert secrets_read(_installed()) == there | {("gpu-autoscaler", "notify-urls"), ("gpu-autoscaler", "reader-token")}


def test_the_chart_of_the_monitoring_keeps_its_version_and_gets_the_file() -> None:
    words = shlex.split(STACK)
    assert words[words.index("--version") + 1] == "VERSION"
    assert "kube-state-metrics" in load_yaml((ROOT / words[words.index("--values") + 1]).read_text(encoding="utf-8"))


def test_the_release_of_the_page_installs_in_observe_mode(tmp_path: Path) -> None:
    file = tmp_path / "gpu-autoscaler.yaml"
    file.write_text(VALUES, encoding="utf-8")
    words = shlex.split(INSTALL)
    assert words[3] == "k8s/chart"
    words[words.index("--values") + 1] = str(file)
    ran = run("helm-4", *words[1:], "--dry-run=client")
    assert ran.returncode == 0, ran.stderr
    assert "is in observe mode with 1 pool." in ran.stdout
    assert the(_installed(), "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"].startswith("registry")


def test_the_last_command_is_the_doctor_of_the_pod() -> None:
    assert DOCTOR.endswith("exec deployment/gpu-autoscaler -- gpu-autoscaler doctor")
    assert taken(["doctor"]) is None


def test_the_example_of_the_chart_is_the_pool_of_the_page() -> None:
    assert load_yaml(EXAMPLE.read_text(encoding="utf-8"))["pools"] == load_yaml(VALUES)["pools"]


def _created() -> dict[str, Any]:
    """The body of the request that creates the pool."""
    [words] = [words for words in commands(PAGE, "curl") if "POST" in words]
    body: dict[str, Any] = json.loads(words[words.index("-d") + 1].replace("$CIVO_REGION", "LON1"))
    return body


def test_the_pool_that_the_page_creates_is_the_one_that_it_configures() -> None:
    there = {"id": "other", "size": "an.g1.l40s.kube.x1", "resources": {"nvidia.com/gpu": 1}}
    pool, config = _pool(), parse({"pools": [there]})
    app = Flask("civo")
    app.register_blueprint(civo_face(Simulator(config, clock=ManualClock(START)).live))
    at = f"/v2/kubernetes/clusters/{config.cluster.id}?region=LON1"
    headers = {"Authorization": f"Bearer {config.civo.api_key}"}
    client = app.test_client()
    made = client.post(at.replace("?", "/pools?"), json=_created(), headers=headers)
    assert made.json == {"result": "success"}
    required = (client.get(at, headers=headers).json or {})["required_pools"]
    [made] = [found for found in required if found["id"] == pool.id]
    assert (made["count"], made["size"], made["labels"]) == (0, pool.size, dict(pool.labels))
    assert made["taints"] == [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]


def test_the_pod_of_the_page_fits_the_pool_of_the_page() -> None:
    spec, pool = load_yaml(POD)["spec"], _pool()
    assert spec["nodeSelector"].items() <= pool.labels.items()
    assert {(t["key"], t["effect"]) for t in spec["tolerations"]} == {(t.key, t.effect) for t in pool.taints}
    assert spec["containers"][0]["resources"]["limits"] == dict(pool.resources)


def test_price_and_removal_are_those_of_the_list_and_of_the_defaults() -> None:
    assert f"${_pool().price_usd_per_hour} for one L40S" in PAGE
    margin = load_text(the(_installed(), "ConfigMap")["data"]["config.yaml"]).policy.billing.removal_margin
    assert f"{margin.total_seconds():.0f} seconds before the hour ends" in PAGE


def test_every_helm_command_has_the_shape_of_one() -> None:
    for words in commands(section_with_code("A new cluster"), "helm"):
        if words[1:3] == ["repo", "add"]:
            assert words[4].startswith("https://")
        else:
            assert words[1] == "install"
            assert words[3].count("/") == 1
            assert "--namespace" in words


def section_with_code(title: str) -> str:
    """Return the section *title* of the page with its blocks."""
    assert section(PAGE, title)
    return PAGE[PAGE.index(f"## {title}") :]
