"""Of the rules that ought to run: what is missing, erring, altered or late is named, and nothing else is."""

from collections.abc import Callable
from typing import Any

import pytest

from receiver.doctor.checks import Finding
from receiver.doctor.prometheus import SHIPPED_DOCS, asleep_without, judge, running_rules, shipped_rules
from tests.doctor.monitored import JSON, NOW, group_of, rule_named, rules
from tools.shipped_rules import needed

BUSY = "GpuPoolBusy"
RECORDING = "pool:gpu_utilization:avg5m"


def found(data: JSON) -> list[Finding]:
    return list(judge(shipped_rules(), running_rules(data), NOW))


def trouble(data: JSON) -> list[Finding]:
    return [finding for finding in found(data) if finding.verdict != "pass"]


def test_rules_that_run_as_shipped_raise_no_alarm() -> None:
    assert trouble(rules()) == []
    assert len(found(rules())) == 6


def _without_a_file(data: JSON) -> None:
    data["groups"] = [g for g in data["groups"] if not g["file"].endswith("money.rules.yaml")]


def _changed(name: str, **changes: Any) -> Callable[[JSON], None]:
    return lambda data: rule_named(data, name).update(changes)


def _twice(data: JSON) -> None:
    data["groups"].append({**group_of(data, BUSY), "file": "/etc/prometheus/copy.yaml"})


def _late(data: JSON) -> None:
    group = group_of(data, BUSY)
    for one in (group, *group["rules"]):
        one["lastEvaluation"] = "2026-11-22T11:50:00Z"


PLANTED: list[tuple[str, Callable[[JSON], None], str, str, str]] = [
    ("a file is missing", _without_a_file, "rules.loaded", "fail", "rules/money.rules.yaml not loaded"),
    ("a group is there twice", _twice, "rules.loaded", "warn", "copy.yaml"),
    ("a rule errs", _changed(BUSY, health="err", lastError="many-to-many"), "rules.healthy", "fail", "many-to-many"),
    ("a rule was never run", _changed(RECORDING, health="unknown"), "rules.healthy", "warn", RECORDING),
    (
        "an alert lost its component",
        _changed(BUSY, labels={"action": "hold", "namespace": "gpu-autoscaler", "severity": "warning"}),
        "rules.same",
        "fail",
        "GpuPoolBusy (component)",
    ),
    (
        "an alert does something else",
        _changed(BUSY, labels={**rule_named(rules(), BUSY)["labels"], "action": "notify"}),
        "rules.same",
        "fail",
        "GpuPoolBusy (action)",
    ),
    ("a group stands still", _late, "rules.timely", "fail", "gpu-autoscaler.utilization.alerts (10m ago)"),
    (
        "the heartbeat is silent",
        _changed("GpuAutoscalerHeartbeat", state="inactive"),
        "rules.heartbeat",
        "fail",
        "does not fire",
    ),
    (
        "runbooks lead nowhere",
        _changed(BUSY, annotations={"runbook_url": f"{SHIPPED_DOCS}/runbooks/GpuPodsPending.md"}),
        "rules.runbooks",
        "warn",
        "1 alert lead to 127.0.0.1",
    ),
    ("a runbook is missing", _changed(BUSY, annotations={}), "rules.runbooks", "warn", BUSY),
]


@pytest.mark.parametrize("plant, check, verdict, words", [p[1:] for p in PLANTED], ids=[p[0] for p in PLANTED])
def test_a_fault_is_found_named_and_has_a_remedy(
    plant: Callable[[JSON], None], check: str, verdict: str, words: str
) -> None:
    data = rules()
    plant(data)
    (finding,) = trouble(data)
    assert (finding.check, finding.verdict) == (check, verdict)
    assert words in finding.said
    assert finding.remedy


def test_of_no_rules_at_all_every_file_is_named_and_nothing_else_is_asked() -> None:
    told = trouble({"groups": []})
    assert {finding.check for finding in told} == {"rules.loaded"}
    assert len(told) == len({rule.file for rule in shipped_rules()})


def test_rules_under_another_file_and_group_name_are_found_all_the_same() -> None:
    data = rules()
    for group in data["groups"]:
        group.update(file="/etc/prometheus/rules/prometheus-0/x.yaml", name=f"gpu/{group['name']}")
    assert trouble(data) == []


@pytest.mark.parametrize(
    "expression, metrics",
    [
        ("a + on (pool) group_left (name) b", {"a", "b"}),
        ("a or b", set()),
        ("a or a * b", {"a"}),
        ("a unless on (pool) b and c", {"a", "c"}),
        ("absent(a{x='1'}) and b", {"b"}),
        ("sum by (pool) (rate(a[5m])) > 0", {"a"}),
        ('{__name__=~"a|b"}', set()),
        ("recorded * c", {"a", "c"}),
        ("topk by (node) (1, a)", {"a"}),
    ],
)
def test_what_an_expression_cannot_do_without(expression: str, metrics: set[str]) -> None:
    assert needed(expression, {"recorded": "a or a + b"}) == metrics


def test_alerts_that_sleep_without_a_metric_are_named() -> None:
    assert asleep_without(["DCGM_FI_DEV_XID_ERRORS", "unknown"]) == ("GpuXidError",)
    assert asleep_without(["unknown"]) == ()
