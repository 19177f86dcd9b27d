"""What promtool does not check: that every rule is tested, and that alerts carry what routes and people need."""

import itertools
import re
from collections import Counter
from functools import cache
from typing import Any

import pytest
import yaml

from receiver.core.model.signals import COMPONENT, HEARTBEAT_ALERT, SignalAction
from tests.rules.files import ALERTS, EVERY_RULE, GROUPS, HEARTBEAT, RECORDINGS, RULE_FILES, TEST_FILES, Rule

RUNBOOKS = "https://civo-gpu-autoscaler.example/docs/runbooks/"

every_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: rule.name)
every_recording = pytest.mark.parametrize("recording", RECORDINGS, ids=lambda rule: rule.name)


@cache
def _tests() -> list[dict[str, Any]]:
    return [test for file in TEST_FILES for test in yaml.safe_load(file.read_text())["tests"]]


def _expectations(name: str) -> set[bool]:
    """Whether promtool tests expect *name* to yield something (True) and to yield nothing (False)."""
    found = set()
    for test in _tests():
        for check in test.get("alert_rule_test", []):
            if check["alertname"] == name:
                found.add(bool(check.get("exp_alerts")))
        for check in test.get("promql_expr_test", []):
            if re.search(rf"(?<![\w:]){re.escape(name)}(?![\w:])", check["expr"]):
                found.add(bool(check.get("exp_samples")))
    return found


def fired(name: str) -> list[dict[str, Any]]:
    """The alerts *name* that promtool tests expect to fire."""
    checks = [check for test in _tests() for check in test.get("alert_rule_test", []) if check["alertname"] == name]
    return [one for check in checks for one in check.get("exp_alerts") or []]


def _comment(rule: Rule) -> str:
    """What stands as comment right above *rule* in its file."""
    lines = next(text for file in RULE_FILES if f"- alert: {rule.name}\n" in (text := file.read_text())).splitlines()
    at = next(number for number, line in enumerate(lines) if line.endswith(f"- alert: {rule.name}"))
    above = itertools.takewhile(lambda line: line.lstrip().startswith("#"), reversed(lines[:at]))
    return "\n".join(above)


def _reads(rule: Rule) -> list[Rule]:
    """The recordings of ours that *rule*'s expression reads."""
    return [r for r in RECORDINGS if re.search(rf"(?<![\w:]){re.escape(r.name)}(?![\w:])", rule.body["expr"])]


@every_alert
def test_every_alert_is_seen_to_fire_and_to_stay_silent(alert: Rule) -> None:
    assert _expectations(alert.name) == ({True} if alert.name == HEARTBEAT else {True, False})


@every_recording
def test_every_recording_is_seen_to_tell_something(recording: Rule) -> None:
    assert True in _expectations(recording.name)


@every_recording
def test_every_recording_is_seen_to_vanish_with_its_source(recording: Rule) -> None:
    assert False in _expectations(recording.name)


def test_promtool_tests_are_named_as_sentences() -> None:
    assert [t["name"] for t in _tests() if len(t["name"].split()) < 5] == []


def test_no_two_rules_and_no_two_promtool_tests_share_a_name() -> None:
    names = Counter([rule.name for rule in EVERY_RULE] + [test["name"] for test in _tests()])

    assert [name for name, count in names.items() if count > 1] == []


@every_recording
def test_recordings_are_named_level_metric_operation(recording: Rule) -> None:
    operation = "sum|count|count1h|avg|avg5m|avg10m|min|max|p50|p95|ratio|relabel|latest"
    assert re.fullmatch(rf"[a-z_]+:[a-z_]+:({operation})", recording.name)


@every_alert
def test_an_alert_says_which_component_which_action_and_in_which_namespace(alert: Rule) -> None:
    labels = alert.body["labels"]

    assert labels["component"] == COMPONENT
    assert labels["namespace"] == "gpu-autoscaler"
    assert labels["action"] in set(SignalAction)
    assert set(labels) == {"component", "namespace", "action", "severity"}


@every_alert
def test_no_alert_has_a_severity_that_common_configurations_inhibit(alert: Rule) -> None:
    allowed = {"none"} if alert.name == HEARTBEAT else {"warning", "critical"}

    assert alert.body["labels"]["severity"] in allowed


@every_alert
def test_no_label_of_an_alert_is_a_template(alert: Rule) -> None:
    assert [value for value in alert.body["labels"].values() if "{{" in value] == []


@every_alert
def test_an_alert_explains_itself_and_names_its_runbook(alert: Rule) -> None:
    annotations = alert.body["annotations"]

    assert set(annotations) == {"summary", "description", "runbook_url"}
    assert annotations["runbook_url"] == f"{RUNBOOKS}{alert.name}.md"


@every_alert
def test_a_summary_is_one_sentence_without_figures(alert: Rule) -> None:
    summary = alert.body["annotations"]["summary"]

    assert summary.endswith(".")
    assert "$value" not in summary


@every_alert
def test_an_alert_compares_something(alert: Rule) -> None:
    expr = alert.body["expr"]
    if alert.name == HEARTBEAT:
        assert expr == "vector(1)"
    else:
        assert re.search(r"[<>]=? ", expr)


@every_alert
def test_an_alert_of_a_pool_says_its_name_and_any_other_has_no_pool(alert: Rule) -> None:
    """What an alert is seen to carry: labels of the alerts that the promtool tests expect of it."""
    carried = {label for one in fired(alert.name) for label in one["exp_labels"]}

    assert ("pool" in carried) == bool(re.search(r"group_left \((pool, )?pool_name\)", alert.body["expr"]))
    assert ("pool" in carried) == ("$labels.pool_name" in alert.body["annotations"]["summary"])


@every_alert
def test_no_value_is_in_a_label_that_a_rule_makes(alert: Rule) -> None:
    assert "count_values" not in alert.body["expr"]


@pytest.mark.parametrize(
    "alert", [a for a in ALERTS if "keep_firing_for" in a.body or "for" in a.body], ids=lambda rule: rule.name
)
def test_how_long_an_alert_waits_or_stays_is_explained_above_it(alert: Rule) -> None:
    assert "`for`" in _comment(alert) or "`keep_firing_for`" in _comment(alert)


@pytest.mark.parametrize("alert", [a for a in ALERTS if "absent(" in a.body["expr"]], ids=lambda rule: rule.name)
def test_what_is_absent_at_every_start_is_waited_for(alert: Rule) -> None:
    assert "for" in alert.body


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.name)
def test_a_rule_reads_of_its_own_group_only_what_stands_before_it(rule: Rule) -> None:
    later = [r.name for r in _reads(rule) if r.group == rule.group and r.place >= rule.place and r != rule]

    assert later == []  # it would be one interval old


@every_recording
def test_a_rule_reads_its_own_past_only_over_a_range(recording: Rule) -> None:
    """A recording that carries itself on would otherwise end with the first evaluation that is missed."""
    expr = recording.body["expr"]
    name = rf"(?<![\w:]){re.escape(recording.name)}(?![\w:])"

    assert len(re.findall(name, expr)) == len(re.findall(rf"last_over_time\({name}\[\d+[hm]\]\)", expr))


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.name)
def test_a_window_of_half_a_day_or_more_is_read_in_a_slow_group(rule: Rule) -> None:
    """Such windows over every GPU took half of the time of all rules."""
    hours = {"d": 24, "h": 1, "m": 1 / 60, "s": 1 / 3600}
    windows = re.findall(r"\[(\d+)([dhms])(?::\w*)?\]", rule.body["expr"])
    longest = max((int(number) * hours[unit] for number, unit in windows), default=0.0)

    assert longest < 12 or GROUPS[rule.group] in ("2m", "5m")


# Alerts about nodes or pods that name neither, and why.
NAMELESS = {
    "GpuPoolBusy": "about the average of a whole pool",
    "GpuPoolUnderutilized": "about the average of a whole pool",
    "GpuKubeStateMetricsDown": "nothing is known of nodes or pods",
    "GpuKubeStateMetricsRelabeled": "the names are what is wrong",
    "GpuNodesCreatedRapidly": "about numbers of nodes, those that are gone too",
    "GpuClustersMixed": "about clusters",
    "GpuIdleCostHigh": "about sums: it names pools and workloads",
}


@every_alert
def test_an_alert_about_nodes_or_pods_names_them(alert: Rule) -> None:
    told = " ".join(alert.body["annotations"].values())
    about = re.search(r"\b(node|pod|workload|namespace_\w+|node_\w+|kube_\w+)\b", alert.body["expr"])

    if about and alert.name not in NAMELESS:
        assert re.search(r"[Ll]abels\.(node|pod|instance)\b", told)


def test_demand_reaches_its_alert_without_a_hop_to_another_group() -> None:
    [pending] = [alert for alert in ALERTS if alert.name == "GpuPodsPending"]
    groups, ahead = set(), [pending]
    while ahead:
        rule = ahead.pop()
        groups.add(rule.group)
        ahead += _reads(rule)

    assert groups == {"gpu-autoscaler.demand"}
    assert "for" not in pending.body


def test_the_heartbeat_has_the_name_that_the_receiver_listens_for() -> None:
    assert HEARTBEAT_ALERT in {alert.name for alert in ALERTS}
