"""What promtool does not check: that every rule is tested, and that alerts carry what routes and people need."""

import itertools
import re
from collections import Counter
from collections.abc import Collection
from datetime import timedelta
from functools import cache

from receiver.adapters.monitoring.prometheus import course_queries
from receiver.core.model.signals import COMPONENT, HEARTBEAT_ALERT, SignalAction
from receiver.doctor.prometheus import SHIPPED_DOCS
from receiver.doctor.telemetry import QUERIES
from tests.lint import load_yaml, none_of
from tests.rules.files import (
    ALERTS,
    EVERY_RULE,
    GROUPS,
    HEARTBEAT,
    RECORDINGS,
    RULE_FILES,
    TEST_FILES,
    Rule,
    expected_alerts,
    promtool_tests,
)
from tools.grafana.files import queries

RUNBOOKS = f"{SHIPPED_DOCS}/runbooks/"

EXPRESSIONS = {rule.name: rule.body["expr"] for rule in EVERY_RULE}
HOUR = timedelta(hours=1)
HOURS = {"d": 24, "h": 1, "m": 1 / 60, "s": 1 / 3600}
WINDOW = re.compile(r"\[(\d+)([dhms])(?::\w*)?\]")
OPERATIONS = "sum|count|count1h|avg|avg5m|avg10m|min|max|p50|p95|ratio|relabel|latest"


@cache
def _expectations() -> set[tuple[str, bool]]:
    """Each rule with whether promtool tests expect it to yield something (True) and to yield nothing (False)."""
    found = set()
    for test in promtool_tests():
        for check in test.get("alert_rule_test", []):
            found.add((check["alertname"], bool(check.get("exp_alerts"))))
        for check in test.get("promql_expr_test", []):
            found |= {(name, bool(check.get("exp_samples"))) for name in _recordings_in(check["expr"])}
    return found


def _recordings_in(expr: str) -> set[str]:
    """The recordings of ours that *expr* names."""
    return set(re.findall(r"(?<![\w:])[a-z_]+:\w+:\w+(?![\w:])", expr)) & {r.name for r in RECORDINGS}


def _comment(rule: Rule) -> str:
    """What stands as comment right above *rule* in its file."""
    lines = next(text for file in RULE_FILES if f"- alert: {rule.name}\n" in (text := file.read_text())).splitlines()
    at = next(number for number, line in enumerate(lines) if line.endswith(f"- alert: {rule.name}"))
    above = itertools.takewhile(lambda line: line.lstrip().startswith("#"), reversed(lines[:at]))
    return "\n".join(above)


@cache
def _reads(name: str) -> list[Rule]:
    """The recordings of ours that the rule *name* reads."""
    return [rule for rule in RECORDINGS if rule.name in _recordings_in(EXPRESSIONS[name])]


def test_every_alert_is_seen_to_fire_and_to_stay_silent() -> None:
    silent = ((alert.name, False) for alert in ALERTS if alert.name != HEARTBEAT)
    fires = ((alert.name, True) for alert in ALERTS)
    missing = {*fires, *silent} - _expectations()

    none_of(f"{name} {'fires' if seen else 'stays silent'} in no promtool test" for name, seen in sorted(missing))
    assert (HEARTBEAT, False) not in _expectations()


def test_every_recording_is_seen_to_tell_something() -> None:
    none_of(recording.name for recording in RECORDINGS if (recording.name, True) not in _expectations())


def test_every_recording_is_seen_to_vanish_with_its_source() -> None:
    none_of(recording.name for recording in RECORDINGS if (recording.name, False) not in _expectations())


def test_promtool_tests_of_several_files_of_rules_say_their_order() -> None:
    """promtool evaluates groups without one in another order each time."""
    files = {file.name: load_yaml(file.read_text()) for file in TEST_FILES}

    none_of(n for n, has in files.items() if len(has["rule_files"]) > 1 and "group_eval_order" not in has)


def test_promtool_tests_are_named_as_sentences() -> None:
    none_of(t["name"] for t in promtool_tests() if len(t["name"].split()) < 5)


def test_no_two_rules_and_no_two_promtool_tests_share_a_name() -> None:
    names = Counter([rule.name for rule in EVERY_RULE] + [test["name"] for test in promtool_tests()])

    none_of(name for name, count in names.items() if count > 1)


def test_recordings_are_named_level_metric_operation() -> None:
    none_of(r.name for r in RECORDINGS if not re.fullmatch(rf"[a-z_]+:[a-z_]+:({OPERATIONS})", r.name))


def test_an_alert_says_which_component_which_action_and_in_which_namespace() -> None:
    allowed: dict[str, Collection[str]] = {
        "component": {COMPONENT},
        "namespace": {"gpu-autoscaler"},
        "action": set(SignalAction),
        "severity": {"none", "warning", "critical"},
    }

    none_of(
        f"{alert.name}: {labels}"
        for alert in ALERTS
        for labels in [alert.body["labels"]]
        if labels.keys() != allowed.keys() or any(value not in allowed[key] for key, value in labels.items())
    )


def test_no_alert_has_a_severity_that_common_configurations_inhibit() -> None:
    severity = {alert.name: alert.body["labels"]["severity"] for alert in ALERTS}

    assert severity.pop(HEARTBEAT) == "none"
    none_of(f"{name}: {found}" for name, found in severity.items() if found not in ("warning", "critical"))


def test_no_label_of_an_alert_is_a_template() -> None:
    none_of(f"{alert.name}: {text}" for alert in ALERTS for text in alert.body["labels"].values() if "{{" in text)


def test_an_alert_explains_itself_and_names_its_runbook() -> None:
    annotations = {alert.name: alert.body["annotations"] for alert in ALERTS}

    none_of(
        f"{name}: {sorted(has)}, {has.get('runbook_url')}"
        for name, has in annotations.items()
        if has.keys() != {"summary", "description", "runbook_url"} or has["runbook_url"] != f"{RUNBOOKS}{name}.md"
    )


def test_an_alert_names_its_cluster_where_that_is_configured() -> None:
    sentence = re.compile(
        r"\{\{- with query \"last_over_time\(gpu_autoscaler_build_info\{cluster_name!=''\}\[(?:1h|3d)\]\)\" \}\}"
        r" Cluster: \{\{ \. \| first \| label \"cluster_name\" \}\}\.\{\{ end \}\}$"
    )

    none_of(alert.name for alert in ALERTS if not sentence.search(alert.body["annotations"]["description"]))


def test_a_summary_is_one_sentence_without_figures() -> None:
    branches = re.compile(r"\{\{-? (?:if|else|end)\b[^}]*\}\}")  # they choose a sentence and show nothing
    summaries = {alert.name: branches.sub("", alert.body["annotations"]["summary"]) for alert in ALERTS}

    none_of(f"{name}: {text}" for name, text in summaries.items() if not text.endswith(".") or "$value" in text)


def test_an_alert_compares_something() -> None:
    assert EXPRESSIONS[HEARTBEAT] == "vector(1)"
    none_of(a.name for a in ALERTS if a.name != HEARTBEAT and not re.search(r"[<>]=? ", a.body["expr"]))


def test_an_alert_of_a_pool_says_its_name_and_any_other_has_no_pool() -> None:
    """What an alert is seen to carry: labels of the alerts that the promtool tests expect of it."""
    carrying = {
        alert.name for alert in ALERTS if any("pool" in one["exp_labels"] for one in expected_alerts(alert.name))
    }
    joined = {a.name for a in ALERTS if re.search(r"group_left \((pool, )?pool_name\)", a.body["expr"])}
    saying = {a.name for a in ALERTS if "$labels.pool_name" in a.body["annotations"]["summary"]}

    none_of(sorted((carrying | joined | saying) - (carrying & joined & saying)))


def test_no_value_is_in_a_label_that_a_rule_makes() -> None:
    none_of(alert.name for alert in ALERTS if "count_values" in alert.body["expr"])


def test_how_long_an_alert_waits_or_stays_is_explained_above_it() -> None:
    lasting = [alert for alert in ALERTS if alert.body.keys() & {"keep_firing_for", "for"}]

    assert lasting
    none_of(alert.name for alert in lasting if not re.search("`(for|keep_firing_for)`", _comment(alert)))


def test_no_expression_means_something_else_to_victoria_metrics() -> None:
    """MetricsQL counts the first sample of a series, and PromQL extrapolates: the growth of a counter is that since its
    minimum. For MetricsQL a stale series still has a timestamp, so the series itself stands beside it."""
    counted = re.compile(r"\b(changes|i?delta|increase|i?rate|resets)\s*\(")
    sent = {f"{q.dashboard}: {q.panel} {q.field}": q.expr for q in queries()}
    every = {**EXPRESSIONS, **sent, **QUERIES, **{f"course {n}": q for n, q in enumerate(course_queries(HOUR))}}

    none_of(f"{name}: {expr}" for name, expr in every.items() if counted.search(expr))
    none_of(
        f"{name}: timestamp({series})"
        for name, expr in every.items()
        for series in re.findall(r"(?<!max_over_time\()timestamp\(([^()]*)\)", expr)
        if expr.count(series) == expr.count(f"timestamp({series})")
    )


def test_what_is_absent_at_every_start_is_waited_for() -> None:
    absent = [alert for alert in ALERTS if "absent(" in alert.body["expr"]]

    assert absent
    none_of(alert.name for alert in absent if "for" not in alert.body)


def test_a_rule_reads_of_its_own_group_only_what_stands_before_it() -> None:
    """What stands after it would be one interval old."""
    none_of(
        f"{rule.name} reads {read.name}"
        for rule in EVERY_RULE
        for read in _reads(rule.name)
        if read.group == rule.group and read.place >= rule.place and read != rule
    )


def test_a_rule_reads_its_own_past_only_over_a_range() -> None:
    """A recording that carries itself on would otherwise end with the first evaluation that is missed."""

    def times(pattern: str, rule: Rule) -> int:
        name = rf"(?<![\w:]){re.escape(rule.name)}(?![\w:])"
        return len(re.findall(pattern % name, rule.body["expr"]))

    none_of(r.name for r in RECORDINGS if times("%s", r) != times(r"last_over_time\(%s\[\d+[hm]\]\)", r))


def test_a_window_of_half_a_day_or_more_is_read_in_a_slow_group() -> None:
    """Such windows over every GPU took half of the time of all rules."""
    none_of(
        f"{rule.name}: {number}{unit}"
        for rule in EVERY_RULE
        if GROUPS[rule.group] not in ("2m", "5m")
        for number, unit in WINDOW.findall(rule.body["expr"])
        if int(number) * HOURS[unit] >= 12
    )


# Alerts about nodes or pods that name neither, and why.
NAMELESS = {
    "GpuPoolBusy": "about the average of a whole pool",
    "GpuPoolUnderutilized": "about the average of a whole pool",
    "GpuKubeStateMetricsDown": "nothing is known of nodes or pods",
    "GpuKubeStateMetricsRelabeled": "the names are what is wrong",
    "GpuKubeStateMetricsIncomplete": "about a metric",
    "GpuNodesCreatedRapidly": "about numbers of nodes, those that are gone too",
    "GpuClustersMixed": "about clusters",
    "GpuIdleCostHigh": "about sums: it names pools and workloads",
}


def test_an_alert_about_nodes_or_pods_names_them() -> None:
    about = re.compile(r"\b(node|pod|workload|namespace_\w+|node_\w+|kube_\w+)\b")
    told = {alert.name: " ".join(alert.body["annotations"].values()) for alert in ALERTS}

    none_of(
        alert.name
        for alert in ALERTS
        if about.search(alert.body["expr"]) and alert.name not in NAMELESS
        if not re.search(r"[Ll]abels\.(node|pod|instance)\b", told[alert.name])
    )


def test_demand_reaches_its_alert_without_a_hop_to_another_group() -> None:
    [pending] = [alert for alert in ALERTS if alert.name == "GpuPodsPending"]
    groups, ahead = set(), [pending]
    while ahead:
        rule = ahead.pop()
        groups.add(rule.group)
        ahead += _reads(rule.name)

    assert groups == {"gpu-autoscaler.demand"}
    assert "for" not in pending.body


def test_the_heartbeat_has_the_name_that_the_receiver_listens_for() -> None:
    assert HEARTBEAT_ALERT in {alert.name for alert in ALERTS}


def test_people_read_the_names_of_pools_and_not_their_ids() -> None:
    texts = {rule.name: " ".join(rule.body["annotations"].values()) for rule in ALERTS}
    none_of(name for name, text in texts.items() if re.search(r"\{\{-? (\$l|\.L)abels\.pool -?\}\}", text))
