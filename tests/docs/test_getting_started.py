"""docs/getting-started.md: what can be run of it is run, and its pieces fit each other."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from receiver.config import load_text
from receiver.core.model.policy import Pool
from receiver.doctor.prometheus import SHIPPED_DOCS
from simulator.civo import civo_face
from simulator.clocks import ManualClock
from simulator.config import parse
from simulator.server import Simulator
from tests.docs.commands import commands
from tests.docs.pages import ROOT, text_of
from tests.lint import load_yaml, load_yamls
from tests.rules.files import RULE_FILES
from tests.step.harness import START

PAGE = text_of("docs/getting-started.md")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
MONITORING, CONFIGURATION, POD = BLOCKS


def _pool() -> Pool:
    [pool] = load_text(CONFIGURATION).policy.pools
    return pool


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


def test_the_page_observes_first_and_its_price_is_that_of_the_list() -> None:
    settings = load_text(CONFIGURATION)
    assert settings.configuration.mode == "observe"
    assert f"USD {_pool().price_usd_per_hour} each" in PAGE


def test_the_settings_of_kube_state_metrics_are_those_that_operations_asks_for() -> None:
    said = load_yaml(MONITORING)["kube-state-metrics"]
    asked = text_of("docs/operations.md")
    assert all(f"--metric-labels-allowlist={labels}" in asked for labels in said["metricLabelsAllowlist"])
    assert all(flag in asked for flag in said["extraArgs"])


def test_the_loop_over_the_rules_makes_an_object_of_every_file(tmp_path: Path) -> None:
    [loop] = re.findall(r"^```sh\n(for file in rules.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(f'#!/bin/sh\ncat "$3" >> {tmp_path}/all\necho --- >> {tmp_path}/all\n')
    kubectl.chmod(0o755)
    ours = "https://git.example.com/gpu/docs"
    there = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "DOCS_URL": ours}
    script = loop.replace("rules/*.yaml", f"{ROOT}/rules/*.yaml")
    subprocess.run(["sh", "-eu", "-c", script], check=True, cwd=tmp_path, env=there, timeout=60)
    made = [found for found in load_yamls((tmp_path / "all").read_text("utf-8")) if found]
    said = [load_yaml(file.read_text("utf-8").replace(SHIPPED_DOCS, ours)) for file in RULE_FILES]
    assert [found["spec"] for found in made] == said
    assert f"{ours}/runbooks/GpuPodsPending.md" in (tmp_path / "all").read_text("utf-8")
    names = [found["metadata"]["name"] for found in made]
    assert len(set(names)) == len(RULE_FILES)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)


def test_the_route_of_the_page_leads_to_the_machine() -> None:
    [expression] = re.findall(r"^sed '(s#.+#)' k8s", PAGE, re.MULTILINE)
    route = ROOT / "k8s" / "alertmanager" / "alertmanagerconfig.yaml"
    said = subprocess.run(["sed", expression, route], check=True, capture_output=True, text=True, timeout=60).stdout
    urls = [c["url"] for receiver in load_yaml(said)["spec"]["receivers"] for c in receiver["webhookConfigs"]]
    assert urls == ["http://MACHINE:8080/webhook"]


@pytest.mark.parametrize("words", commands(PAGE, "helm"), ids=lambda words: " ".join(words[1:3]))
def test_every_helm_command_has_the_shape_of_one(words: list[str]) -> None:
    if words[1:3] == ["repo", "add"]:
        assert words[4].startswith("https://")
    else:
        assert words[1] == "install"
        assert words[3].count("/") == 1
        assert "--namespace" in words
