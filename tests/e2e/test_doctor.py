"""The doctor beside a whole running line: real Prometheus, two real Alertmanagers, the autoscaler, a simulated cluster.

One stack for all tests of this module. It is well at first; then faults are planted into the files of Prometheus and of
Alertmanager, which are told to read them again.
"""

import json
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from demo.configs import alertmanager_config, prometheus_config, receiver_environment, rule_files
from demo.plan import PoolPlan, StackPlan
from demo.stack import Stack
from receiver.cli.main import main
from receiver.doctor.prometheus import SHIPPED_DOCS
from tests.e2e.receivers import POOL
from tests.e2e.stacks import a_stack
from tests.e2e.waiting import until

JSON = dict[str, Any]
PLAN = StackPlan(
    pools=(PoolPlan(name="l40s", id=POOL, count=1),),
    tick="5s",
    alertmanagers=2,
    simulator={"timings": {"build": "1s", "boot": "500ms", "driver": "500ms"}},
)
AREAS = ("prometheus", "rules", "telemetry", "alertmanager")
CHAT = {"url": "http://127.0.0.1:9/chat", "send_resolved": True}  # nobody is there: people are not told in tests


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A line that is well: runbooks are published, people have a channel."""
    with a_stack(PLAN, tmp_path_factory.mktemp("doctor")) as stack:
        write_rules(stack, lambda _: None)
        write_routes(stack, lambda _: None)
        stack.submit({"id": "train", "duration": "1h", "namespace": "ml", "team": "vision"})
        until(lambda: trouble(stack) == {}, "a line that is well", 60)
        yield stack


def write_rules(stack: Stack, change: Callable[[dict[str, JSON]], None]) -> None:
    """Write the rule files with published runbooks and a *change*, and let Prometheus read them again."""
    files = rule_files(PLAN)
    change(files)
    for file in (stack.places.folder / "rules").iterdir():
        file.unlink()
    for name, content in files.items():
        text = yaml.safe_dump(content, width=10_000).replace(SHIPPED_DOCS, "https://git.acme.net/gpu/docs")
        (stack.places.folder / "rules" / name).write_text(text, encoding="utf-8")
    stack.parts["prometheus"].signal(signal.SIGHUP)


def write_prometheus(stack: Stack, change: Callable[[JSON], None]) -> None:
    """Write Prometheus' configuration with a *change*; `write_rules` lets it be read."""
    config = prometheus_config(PLAN, stack.places)
    change(config)
    stack.places.config("prometheus").write_text(yaml.safe_dump(config), encoding="utf-8")


def write_routes(stack: Stack, change: Callable[[JSON], None]) -> None:
    """Write Alertmanager's configuration with somebody to tell and a *change*, and let both peers read it again."""
    config = alertmanager_config(PLAN, stack.places)
    for receiver in config["receivers"]:
        if receiver["name"].startswith("people"):
            receiver["webhook_configs"] = [CHAT]
    change(config)
    stack.places.config("alertmanager").write_text(yaml.safe_dump(config), encoding="utf-8")
    for name in stack.places.alertmanagers:
        stack.parts[name].signal(signal.SIGHUP)


def findings(stack: Stack, *options: str, areas: tuple[str, ...] = AREAS) -> list[JSON]:
    """Run the command as somebody in the pod does, and return what it found."""
    only = [word for area in areas for word in ("--only", area)]
    env = receiver_environment(PLAN, stack.places)
    done = CliRunner(env=env).invoke(main, ["doctor", *only, *options, "--json"])
    assert done.exit_code in (0, 1), done.output
    found: list[JSON] = json.loads(done.stdout)["findings"]
    assert done.exit_code == int(any(finding["verdict"] == "fail" for finding in found))
    return found


def trouble(stack: Stack, areas: tuple[str, ...] = AREAS) -> dict[str, str]:
    """What is no good news, by check; of several findings of a check the last."""
    bad = (f for f in findings(stack, areas=areas) if f["verdict"] in ("warn", "fail"))
    return {finding["check"]: f"{finding['verdict']} {finding['said']}" for finding in bad}


def asked(stack: Stack, query: str) -> bool:
    """Whether Prometheus has anything for *query* now."""
    return bool(stack.get("prometheus", "/api/v1/query", query=query)["data"]["result"])


def test_a_line_that_is_well_raises_no_alarm(stack: Stack) -> None:
    found = findings(stack)
    assert [f for f in found if f["verdict"] in ("warn", "fail")] == []
    assert len([f for f in found if f["verdict"] == "pass"]) >= 20


def test_a_test_alert_goes_round(stack: Stack) -> None:
    (told,) = [f for f in findings(stack, "--send-test-alert", areas=("alertmanager",)) if "test_alert" in f["check"]]
    assert told["verdict"] == "pass", told
    assert told["said"].startswith("the test alert arrived after ")
    received = stack.get("receiver", "/api/v1/alerts", alertname="GpuAutoscalerDoctor")
    assert [alert["labels"]["action"] for alert in received] == ["notify"]


def test_nothing_fails_anywhere_and_the_smoke_test_goes_from_nothing_to_a_running_pod(stack: Stack) -> None:
    every = ("configuration", "civo", "kubernetes", "kueue", "store", "server")
    assert [f for f in findings(stack, areas=every) if f["verdict"] == "fail"] == []
    found = findings(stack, "smoke", "--yes", "--timeout", "60s", areas=())
    assert [(f["check"], f["verdict"]) for f in found] == [
        ("smoke.allowed", "pass"),
        ("smoke.pending", "pass"),
        ("smoke.asked", "pass"),
        ("smoke.node_ready", "pass"),
        ("smoke.gpus", "pass"),
        ("smoke.running", "pass"),
        ("smoke.cleaned", "pass"),
    ]


def test_faults_in_prometheus_are_found_together(stack: Stack) -> None:
    def config(said: JSON) -> None:
        kube_state_metrics = said["scrape_configs"][0]
        kube_state_metrics["honor_labels"] = False
        kube_state_metrics["static_configs"][0]["labels"] = {"namespace": "kube-system", "pod": "ksm-0"}
        next(s for s in said["scrape_configs"] if s["job_name"] == "gpu-autoscaler")["metrics_path"] = "/nowhere"

    def rules(files: dict[str, JSON]) -> None:
        del files["waste.alerts.yaml"]
        for group in files["pools.alerts.yaml"]["groups"]:
            group["rules"][0]["expr"] = "up * on () up"
        files["utilization.alerts.yaml"]["groups"][0]["rules"][0]["labels"].pop("component")
        files["heartbeat.alerts.yaml"]["groups"][0]["rules"][0]["expr"] = "vector(1) > 1"

    wanted = {
        "rules.loaded": "rules/waste.alerts.yaml not loaded",
        "rules.healthy": " fails: ",
        "rules.same": "(component)",
        "rules.heartbeat": "fail",
        "telemetry.kube_state_metrics_labels": "fail",
        "telemetry.own": "fail",
    }
    areas = ("rules", "telemetry")
    write_prometheus(stack, config)
    write_rules(stack, rules)
    try:
        until(lambda: asked(stack, 'kube_pod_info{exported_pod!=""}'), "another scrape")
        until(lambda: not asked(stack, "gpu_autoscaler_build_info or ALERTS{action='heartbeat'}"), "stale series")
        told = trouble(stack, areas)
    finally:
        write_prometheus(stack, lambda _: None)
        write_rules(stack, lambda _: None)
    assert {check: words for check, words in wanted.items() if words not in told.get(check, "")} == {}


def test_an_exporter_that_is_gone_is_found_with_the_pool(stack: Stack) -> None:
    stack.faults({"kind": "telemetry_gone"})
    until(lambda: not asked(stack, '{__name__=~"DCGM_.+"}'), "no series of DCGM")
    assert "no DCGM series at all" in trouble(stack, ("telemetry",))["telemetry.dcgm"]


def test_a_peer_that_is_down_is_found(stack: Stack) -> None:
    stack.parts["alertmanager-2"].stop()
    told = trouble(stack, ("alertmanager",))
    assert stack.places.url("alertmanager-2") in told["alertmanager.peers"]
    assert told["alertmanager.peers"].startswith("fail")
