"""docs/getting-started.md: its seven commands, run in a shell without GNU tools up to the edge of the cluster, and
whether its pieces fit each other."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from receiver.adapters.civo.cloud import CivoCloud
from receiver.config import load_text
from receiver.core.model.policy import Pool
from simulator.server import Simulator
from tests.docs.commands import commands, fenced, taken
from tests.docs.pages import ROOT, text_of
from tests.lint import load_yaml
from tests.manifests.built import NEW, mistakes, read, secrets_read, the
from tests.rules.files import run
from tests.simulator.builders import CLUSTER, CPU_POOL, KEY, starting
from tools.install_manifests import helm

PAGE = text_of("docs/getting-started.md")
[POD] = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
QUICK = PAGE[PAGE.index("**1.") : PAGE.index("Open the pages")]  # from a cluster to observe mode
SEVEN = list(fenced(QUICK))
BINARIES = ROOT / ".build" / "bin"
APPLETS = ("sh", "sed", "cat", "mv", "env")
STACK = "kube-prometheus-stack"
# What stands for the programs that need a cluster or an engine. They note their arguments and input; what they can do
# without either they do.
FAKES = {
    "docker": """
case "$1" in
run) exec "$PYTHON" -m receiver.cli.main init ;;
esac
""",
    "kubectl": """
case "$*" in
*"get secret civo-api-access"*) # the real program fills the template of the page
    while [ "$#" -gt 1 ]; do shift; done
    exec "$REAL_KUBECTL" create secret generic civo-api-access --dry-run=client -o "$1" --from-literal=api-url="$URL" \
        --from-literal=api-key="$KEY" --from-literal=cluster-id="$CLUSTER" --from-literal=region=LON1 ;;
"create -f -") cat > created.yaml ;;
esac
""",
    "helm": """
case "$*" in
*"get metadata"*) printf 'name: kube-prometheus-stack\\nappVersion: v0.80.1\\nversion: 70.4.2\\n' ;;
"install "*) exec "$REAL_HELM" "$@" --dry-run=client ;;
esac
""",
}


@dataclass(frozen=True, slots=True)
class Walked:
    """What came of the commands: their output, their calls (program and arguments), and the files they wrote."""

    stdout: str
    calls: list[list[str]]
    files: dict[str, str]

    def call(self, *start: str) -> list[str]:
        [found] = [call for call in self.calls if call[: len(start)] == list(start)]
        return found


def _busybox() -> Path:
    busybox = BINARIES / "busybox"
    if not busybox.exists():
        pytest.skip("no busybox: `make kubectl` says why")
    return busybox


def _program(place: Path, body: str) -> None:
    note = 'printf "%s\\037" "${0##*/}" "$@" >> calls; printf "\\036" >> calls'
    place.write_text(f"#!{BINARIES / 'busybox'} sh\n{note}\n{body.strip()}\n")
    place.chmod(0o755)


@pytest.fixture(scope="module")
def civo() -> Iterator[Simulator]:
    with starting() as start:
        pool = {**_created(), "resources": {"nvidia.com/gpu": 1}}
        cpu = {
            "id": CPU_POOL,
            "size": "g4s.kube.medium",
            "resources": {},
            "cpu_cores": 2,
            "ram_mb": 4096,
            "disk_gb": 50,
        }
        yield start(pools=[{name: pool[name] for name in pool if name != "region"}, cpu])


@pytest.fixture(scope="module")
def walked(civo: Simulator, tmp_path_factory: pytest.TempPathFactory) -> Walked:
    """Run the page's commands one after the other, as one who reads it does; the edit of the file is a registry."""
    folder, busybox = tmp_path_factory.mktemp("reader"), _busybox()
    programs = folder / "bin"
    programs.mkdir()
    for applet in APPLETS:
        (programs / applet).symlink_to(busybox)
    for name, body in FAKES.items():
        _program(programs / name, body)
    openssl = shutil.which("openssl")
    assert openssl is not None
    (programs / "openssl").symlink_to(openssl)
    (folder / "k8s").symlink_to(ROOT / "k8s")
    edit = "sed 's/YOUR_REGISTRY/registry.example.org/' gpu-autoscaler.yaml > edited && mv edited gpu-autoscaler.yaml"
    image, secret, init, *rest = SEVEN
    script = "\n".join([image, secret, init, edit, *rest])
    environ = {
        "PATH": str(programs),
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "REAL_KUBECTL": str(BINARIES / f"kubectl-{NEW}"),
        "REAL_HELM": str(BINARIES / "helm-4"),
        "KUBECONFIG": "/dev/null",
        "URL": civo.url,
        "KEY": KEY,
        "CLUSTER": CLUSTER,
        **({"HOME": os.environ["HOME"]} if "HOME" in os.environ else {}),
    }
    ran = subprocess.run(
        [busybox, "sh", "-eu"], input=script, env=environ, cwd=folder, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    calls = [call.split("\037")[:-1] for call in (folder / "calls").read_text().split("\036")[:-1]]
    return Walked(ran.stdout, calls, {p.name: p.read_text() for p in folder.glob("*.yaml")})


def _installed(values: str) -> tuple[dict[str, Any], ...]:
    """What the page's `helm install` sends, with *values*."""
    return tuple(read(helm("--values", "-", text=values)))


def test_seven_commands_lead_from_a_cluster_to_observe_mode(walked: Walked) -> None:
    assert "Seven commands" in PAGE
    assert len(SEVEN) == 7
    programs = [call[0] for call in walked.calls if call[1:3] != ["-n", "monitoring"] or "metadata" not in call]
    assert programs == ["docker", "kubectl", "docker", "kubectl", "helm", "helm", "kubectl"]


def test_the_image_is_built_and_pushed_under_the_name_that_the_chart_starts(walked: Walked) -> None:
    words = walked.call("docker", "build")
    assert {"--push", "linux/amd64"} <= set(words)
    container = the(_installed(walked.files["gpu-autoscaler.yaml"]), "Deployment")["spec"]["template"]["spec"]
    built = words[words.index("--tag") + 1].replace("YOUR_REGISTRY", "registry.example.org")
    assert container["containers"][0]["image"] == built


def test_the_values_are_those_of_the_clusters_gpu_pools(walked: Walked) -> None:
    said = load_yaml(walked.files["gpu-autoscaler.yaml"])
    assert said["pools"] == [{"civo_pool_id": "gpu-l40s", "max_nodes": 1}]
    assert said["config"] == {"budget": {"monthly_usd": 100}}


def test_the_container_gets_the_variables_that_init_needs(walked: Walked) -> None:
    words = walked.call("docker", "run")
    passed = {words[at + 1] for at, word in enumerate(words) if word == "-e"}
    assert passed == {"CIVO_API_URL", "CIVO_API_KEY", "CIVO_CLUSTER_ID", "CIVO_REGION"}
    assert words[-1] == "init"


def test_namespace_and_secrets_are_all_that_the_pod_reads(walked: Walked, civo: Simulator) -> None:
    namespace, *secrets = yaml.safe_load_all(walked.files["created.yaml"])
    assert [mistakes(made, "1.36") for made in (namespace, *secrets)] == ["", "", ""]
    assert (namespace["kind"], namespace["metadata"]["name"]) == ("Namespace", "gpu-autoscaler")
    at_civo, tokens = (made["stringData"] for made in secrets)
    assert at_civo == {"api-url": civo.url, "api-key": KEY, "cluster-id": CLUSTER, "region": "LON1"}
    assert len(tokens["webhook-token"]) == len(tokens["operator-token"]) == 48
    assert tokens["webhook-token"] != tokens["operator-token"]
    there = {(made["metadata"]["name"], key) for made in secrets for key in made["stringData"]}
    assert secrets_read(_installed(walked.files["gpu-autoscaler.yaml"])) == there | {("gpu-autoscaler", "reader-token")}


def test_the_chart_of_the_monitoring_keeps_its_version_and_gets_the_file(walked: Walked) -> None:
    words = walked.call("helm", "-n", "monitoring", "upgrade")
    assert words[4:6] == [STACK, STACK]
    assert words[words.index("--version") + 1] == "70.4.2"
    assert "--reuse-values" in words
    values = load_yaml((ROOT / words[words.index("--values") + 1]).read_text(encoding="utf-8"))
    assert values.keys() == {"kube-state-metrics"}


def test_the_release_of_the_page_installs_in_observe_mode(walked: Walked) -> None:
    assert "is in observe mode with 1 pool." in walked.stdout


def test_the_last_command_is_the_doctor_of_the_pod() -> None:
    assert SEVEN[-1].endswith("exec deployment/gpu-autoscaler -- gpu-autoscaler doctor")
    assert taken(["doctor"]) is None


def test_every_command_of_the_page_is_one_of_posix() -> None:
    """What busybox takes as well as GNU, and a Mac does not."""
    gnu = (r"sed -i", r"\\\|", r"base64 -(d|w)", r"readlink -f", r"grep -P", r"date -d", r"xargs -r", r"<\(", r"\[\[")
    found = [line for line in fenced(PAGE) for word in gnu if re.search(word, line)]
    assert found == []


def _created() -> dict[str, Any]:
    """The body of the request that creates the pool."""
    [words] = [words for words in commands(PAGE, "curl") if "POST" in words]
    body: dict[str, Any] = json.loads(words[words.index("-d") + 1].replace("$CIVO_REGION", "LON1"))
    return body


def _pool(civo: Simulator) -> Pool:
    """The pool that the page creates, as a server reads it from Civo."""
    with_key = CivoCloud(api_url=civo.url, api_key=KEY, region="LON1", cluster_id=CLUSTER)
    [pool] = load_text("pools: [{civo_pool_id: gpu-l40s, max_nodes: 2}]", facts=with_key.pool_facts()).policy.pools
    with_key.close()
    return pool


def test_the_pool_that_the_page_creates_can_be_created(civo: Simulator) -> None:
    at = f"{civo.url}/v2/kubernetes/clusters/{CLUSTER}"
    headers = {"Authorization": f"Bearer {KEY}"}
    body = {**_created(), "id": "gpu-l40s-2"}
    made = requests.post(f"{at}/pools?region=LON1", json=body, headers=headers, timeout=30)
    assert made.json() == {"result": "success"}
    required = requests.get(f"{at}?region=LON1", headers=headers, timeout=30).json()["required_pools"]
    [found] = [pool for pool in required if pool["id"] == "gpu-l40s-2"]
    assert [found[key] for key in ("count", "size", "labels", "taints")] == [
        body[key] for key in ("count", "size", "labels", "taints")
    ]


def test_the_pod_of_the_page_fits_the_pool_of_the_page(civo: Simulator) -> None:
    spec, pool = load_yaml(POD)["spec"], _pool(civo)
    assert {(t["key"], t["effect"]) for t in spec["tolerations"]} == {(t.key, t.effect) for t in pool.taints}
    assert spec["containers"][0]["resources"]["limits"] == dict(pool.resources)


def test_price_and_removal_are_those_of_the_list_and_of_the_defaults(civo: Simulator) -> None:
    assert f"${_pool(civo).price_usd_per_hour} for one L40S" in PAGE
    margin = load_text("pools: [{civo_pool_id: a, max_nodes: 1}]").policy.billing.removal_margin
    assert f"{margin.total_seconds():.0f} seconds before the hour ends" in PAGE


def test_the_real_helm_takes_every_option_of_the_page() -> None:
    for line in SEVEN:
        if line.startswith("helm"):
            words = line.split()
            command = next(word for word in words if word in ("upgrade", "install"))
            known = run("helm-4", command, "--help").stdout
            assert [word for word in re.findall(r"--[a-z-]+", line) if word not in known] == []
    assert "get metadata" in run("helm-4", "get", "metadata", "--help").stdout
