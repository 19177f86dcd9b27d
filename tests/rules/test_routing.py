"""Who hears of which alert, as Alertmanager itself reads rules/alertmanager.yml."""

import re

import pytest

from receiver.core.model.signals import SignalAction
from tests.lint import load_yaml, none_of
from tests.rules.files import ALERTS, RULES, TEST_FILES, run

pytestmark = pytest.mark.usefixtures("each_alertmanager")

CONFIG = RULES / "alertmanager.yml"
ROUTE = load_yaml(CONFIG.read_text())["route"]


def _receivers(**labels: str) -> list[str]:
    """Every receiver that an alert with these *labels* reaches."""
    told = run(
        "amtool", "config", "routes", "test", f"--config.file={CONFIG}", *(f"{k}={v}" for k, v in labels.items())
    )
    assert told.returncode == 0, told.stderr
    return told.stdout.strip().splitlines()[-1].split(",")  # newer ones write warnings before it


def _ours(action: str, *, alertname: str = "X", severity: str = "warning") -> dict[str, str]:
    return {"alertname": alertname, "component": "gpu-autoscaler", "action": action, "severity": severity}


def _seconds(duration: str) -> int:
    found = re.fullmatch(r"(\d+)([smh])", duration)
    assert found is not None
    return int(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


def test_alertmanager_accepts_the_configuration() -> None:
    checked = run("amtool", "check-config", CONFIG)

    assert checked.returncode == 0, checked.stdout + checked.stderr


NODE = {"pool": "pool-a", "node": "n1", "gpu": "0"}
WORKLOAD = {"workload_namespace": "ml", "workload_kind": "Job", "workload": "train"}
PRODUCTION = {"pool": "pool-a", "priority_class": "production"}
RESEARCH = {"pool": "pool-a", "priority_class": "research"}
BUDGET = {"scope": "cluster", "name": ""}

TIMES = {"active_time_intervals", "mute_time_intervals"}

# alertname, action, severity, further labels -> who hears of it, in the order of the tree
CASES: list[tuple[str, str, str, dict[str, str], list[str]]] = [
    ("GpuAutoscalerHeartbeat", "heartbeat", "none", {}, ["gpu-autoscaler"]),
    ("GpuPodsPending", "scale_up", "warning", {"pool": "pool-a"}, ["gpu-autoscaler", "nobody"]),
    ("GpuPodsPending", "scale_up", "warning", {"pool": "unassigned"}, ["gpu-autoscaler", "nobody"]),
    ("GpuPoolBusy", "hold", "warning", {"pool": "pool-a"}, ["gpu-autoscaler", "nobody"]),
    ("GpuPoolUnderutilized", "scale_down", "warning", {"pool": "pool-a"}, ["gpu-autoscaler", "nobody"]),
    ("GpuNodesIdle", "scale_down", "warning", {"pool": "pool-a"}, ["gpu-autoscaler", "nobody"]),
    ("GpuTelemetryMissing", "fallback", "warning", {"pool": "pool-a"}, ["gpu-autoscaler", "people-chat"]),
    ("GpuKubeStateMetricsDown", "freeze", "critical", {}, ["gpu-autoscaler", "people-page"]),
    ("GpuBudgetWarn", "notify", "warning", BUDGET, ["gpu-autoscaler", "people-chat"]),
    ("GpuBudgetStop", "notify", "critical", BUDGET, ["gpu-autoscaler", "people-page"]),
    ("GpuXidFatal", "notify", "critical", NODE, ["gpu-autoscaler", "people-page"]),
    ("GpuTemperatureHigh", "notify", "warning", NODE, ["gpu-autoscaler", "people-chat"]),
    ("GpuAllocatedIdle", "notify", "warning", WORKLOAD, ["gpu-autoscaler", "people-chat"]),
    ("GpuCollectiveStalled", "notify", "warning", WORKLOAD, ["gpu-autoscaler", "people-chat"]),
    ("GpuScaleUpStuck", "notify", "warning", {"pool": "pool-a"}, ["gpu-autoscaler", "people-page"]),
    ("GpuQueueWaitLong", "notify", "warning", PRODUCTION, ["gpu-autoscaler", "people-page"]),
    ("GpuQueueWaitLong", "notify", "warning", RESEARCH, ["gpu-autoscaler", "people-chat"]),
    ("GpuPoolOutOfStock", "notify", "warning", {"pool": "pool-a", "cause": "stock"}, ["gpu-autoscaler", "people-chat"]),
    ("GpuClustersMixed", "freeze", "critical", {}, ["gpu-autoscaler", "people-page"]),
    ("OfAVersionToCome", "something_new", "warning", {"pool": "pool-a"}, ["gpu-autoscaler", "people-chat"]),
    ("OfAVersionToCome", "pause_scale_up", "critical", {}, ["gpu-autoscaler", "people-page"]),
]


def test_who_hears_of_an_alert() -> None:
    none_of(
        f"{alertname}, {action}, {severity}, {more}: {found}, not {heard}"
        for alertname, action, severity, more, heard in CASES
        for found in [_receivers(**_ours(action, alertname=alertname, severity=severity), **more)]
        if found != heard
    )


def test_every_alert_that_is_shipped_reaches_the_autoscaler_and_never_the_channel_of_others() -> None:
    none_of(
        f"{alert.name}: {heard}"
        for alert in ALERTS
        for heard in [_receivers(alertname=alert.name, **alert.body["labels"])]
        if heard[0] != "gpu-autoscaler"
        or "people" in heard
        or (alert.body["labels"]["severity"] == "critical" and "people-page" not in heard)
    )


def test_the_first_five_alerts_of_the_page_reach_the_pager() -> None:
    labels = {alert.name: {"alertname": alert.name, **alert.body["labels"]} for alert in ALERTS}
    page = (RULES.parent / "docs" / "alerts.md").read_text(encoding="utf-8")
    first = re.findall(r"^- \[(\w+)\]", page.partition("## The first five")[2].partition("\n## ")[0], re.MULTILINE)
    assert len(first) == 5
    none_of(name for name in first if "people-page" not in _receivers(**labels[name], **PRODUCTION))


@pytest.mark.parametrize("labels", [{"alertname": "DiskFull"}, {"alertname": "X", "component": "db", "action": "hold"}])
def test_alerts_of_others_do_not_reach_the_autoscaler(labels: dict[str, str]) -> None:
    assert _receivers(**labels) == ["people"]


def test_every_action_that_the_receiver_knows_reaches_it() -> None:
    none_of(a for a in SignalAction if "gpu-autoscaler" not in _receivers(**_ours(a), pool="pool-a"))


def test_the_heartbeat_is_repeated_at_every_flush() -> None:
    heartbeat = ROUTE["routes"][0]

    assert _seconds(heartbeat["repeat_interval"]) < _seconds(heartbeat["group_interval"]) == 60
    assert heartbeat["group_wait"] == "0s"


def test_each_pool_is_a_group_of_its_own_that_waits_for_nobody() -> None:
    scaling = ROUTE["routes"][1]

    assert scaling["group_by"] == ["alertname", "cluster", "pool"]
    assert (scaling["group_wait"], scaling["group_interval"], scaling["repeat_interval"]) == ("0s", "30s", "2m")


def test_the_webhook_is_authorized_by_a_token_from_a_file_and_never_cut_short() -> None:
    [receiver] = [r for r in load_yaml(CONFIG.read_text())["receivers"] if r["name"] == "gpu-autoscaler"]
    [webhook] = receiver["webhook_configs"]

    assert webhook["url"] == "http://gpu-autoscaler.gpu-autoscaler.svc:8080/webhook"
    assert webhook["http_config"]["authorization"].keys() == {"type", "credentials_file"}
    assert (webhook["send_resolved"], webhook["max_alerts"]) == (True, 0)


def test_no_time_of_day_keeps_an_alert_from_the_autoscaler_or_a_critical_one_from_people() -> None:
    timed = [r for r in ROUTE["routes"] if r.keys() & TIMES]

    assert {route["receiver"] for route in timed} == {"people-chat"}


@pytest.mark.parametrize("labels", ['alertname="GpuQueueWaitLong"', 'alertname="GpuPoolOutOfStock"'])
def test_waits_of_production_work_and_stock_outs_are_never_muted(labels: str) -> None:
    """Their route is the first for people that can match, and has no hours."""
    routes = ROUTE["routes"]
    [own] = [place for place, route in enumerate(routes) if labels in route["matchers"]]
    muted = [place for place, route in enumerate(routes) if route.keys() & TIMES]

    assert own < min(muted)
    assert not routes[own].keys() & TIMES


def test_no_group_and_no_inhibition_mixes_two_clusters_of_one_alertmanager() -> None:
    config = load_yaml(CONFIG.read_text())
    routes = [config["route"], *config["route"]["routes"]]

    groups = [r["group_by"] for r in routes if "group_by" in r]
    none_of(str(labels) for labels in groups if "cluster" not in labels)
    none_of(str(rule) for rule in config["inhibit_rules"] if "cluster" not in rule.get("equal", ()))


def test_no_message_to_people_stands_for_two_pools_nodes_or_budgets() -> None:
    grouped = [(r["receiver"], set(r["group_by"])) for r in ROUTE["routes"] if r["receiver"].startswith("people")]

    assert grouped
    none_of(
        f"{receiver}: {sorted(by)}"
        for receiver, by in grouped
        if not {"pool", "node", "scope", "name"} <= by and "workload_namespace" not in by
    )


# Labels that tell apart nothing that a message must not mix: GPUs of one node, and what other labels say already.
TOGETHER = {"gpu", "UUID", "GPU_I_ID", "pool_name", "workload_kind", "rule_group", "counter"}
SAME = {"component", "namespace", "action", "severity"}


def _labels_seen() -> set[str]:
    """The labels of alerts for people that promtool tests expect."""
    tests = [test for file in TEST_FILES for test in load_yaml(file.read_text())["tests"]]
    fired = [
        alert["exp_labels"]
        for test in tests
        for check in test.get("alert_rule_test", [])
        for alert in check.get("exp_alerts") or []
    ]
    return {label for labels in fired if labels["action"] == "notify" for label in labels}


def test_the_chat_gets_a_message_for_each_of_everything_that_an_alert_can_be_about() -> None:
    [rest] = [r for r in ROUTE["routes"] if r["receiver"] == "people-chat" and "mute_time_intervals" in r]

    assert _labels_seen() - TOGETHER - SAME - set(rest["group_by"]) == set()
