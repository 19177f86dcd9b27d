"""What a healthy Prometheus answers to the doctor, as values in which a test plants a fault."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from receiver.adapters.monitoring.http_apis import InstantSample
from receiver.doctor.prometheus import read_by_rules
from receiver.doctor.telemetry import KSM_ALWAYS, OTHERS, POOL
from tests.lint import load_yaml
from tests.rules.files import RULES

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
EVALUATED = "2026-11-22T11:59:58.123456789Z"
POOLS = {"pool-gpu": "l40s", "pool-big": "h100"}
Answers = dict[str, Sequence[InstantSample]]
JSON = dict[str, Any]


def one(value: float = 1, /, **labels: str) -> InstantSample:
    """One series."""
    return InstantSample(labels=labels, value=value)


def named(names: Sequence[str]) -> list[InstantSample]:
    """What counts series by their metric."""
    return [InstantSample(labels={"__name__": name}, value=1) for name in names]


def answers(**changes: Sequence[InstantSample]) -> Answers:
    """Two GPU nodes of pool-gpu, one of them used, and a node without; *changes* by query, ``_`` for spaces."""
    found: Answers = {
        "ksm up": [one(job="kube-state-metrics", instance="ksm-0")],
        "ksm jobs": [one(3, job="kube-state-metrics")],
        "ksm nodes": [one(node=node) for node in ("gpu-1", "gpu-2", "cpu-1")],
        "ksm renamed": [],
        "ksm pools": _pools(),
        "ksm pods": [one(20)],
        "ksm metrics": named(KSM_ALWAYS),
        "gpu nodes": [one(node="gpu-1"), one(node="gpu-2")],
        "node ages": [one(7200, node=node) for node in ("gpu-1", "gpu-2", "cpu-1")],
        "pods on gpus": [one(1)],
        "dcgm ages": [one(12, Hostname="gpu-1"), one(14, hostname="gpu-2")],
        "dcgm pods": [one(1)],
        "dcgm aliases": [],
        "dcgm implausible": [],
        "dcgm counters": named(read_by_rules("DCGM_")),
        "own up": [one(job="gpu-autoscaler")],
        "own builds": [one(job="gpu-autoscaler")],
        "others": named(OTHERS),
    }
    return {**found, **{name.replace("_", " "): samples for name, samples in changes.items()}}


def _pools() -> list[InstantSample]:
    by_node = {"gpu-1": "pool-gpu", "gpu-2": "pool-gpu", "cpu-1": "pool-system"}
    return [one(**{"node": node, POOL: pool}) for node, pool in by_node.items()]


def rules() -> JSON:
    """What ``/api/v1/rules`` answers where all that is shipped runs well, with runbooks that somebody publishes."""
    return {"groups": [_group(file, group) for file, said in _files() for group in said["groups"]]}


@cache
def _files() -> list[tuple[str, JSON]]:
    return [(path.name, load_yaml(path.read_text(encoding="utf-8"))) for path in sorted(RULES.glob("*.yaml"))]


def _group(file: str, group: JSON) -> JSON:
    return {
        "name": group["name"],
        "file": f"/etc/prometheus/{file}",
        "interval": _seconds(group["interval"]),
        "lastEvaluation": EVALUATED,
        "rules": [_rule(rule) for rule in group["rules"]],
    }


def _rule(rule: JSON) -> JSON:
    said = {"labels": dict(rule.get("labels", {})), "health": "ok", "lastEvaluation": EVALUATED}
    if "record" in rule:
        return {"name": rule["record"], "type": "recording", **said}
    return {
        "name": rule["alert"],
        "type": "alerting",
        "state": "firing" if rule["alert"] == "GpuAutoscalerHeartbeat" else "inactive",
        "annotations": {"runbook_url": f"https://git.acme.net/gpu/docs/runbooks/{rule['alert']}.md"},
        **said,
    }


def _seconds(duration: str) -> float:
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    return float(duration[:-1]) * units[duration[-1]]


def rule_named(data: JSON, name: str) -> JSON:
    """The rule called *name* in *data*, to be changed."""
    found: JSON = next(rule for group in data["groups"] for rule in group["rules"] if rule["name"] == name)
    return found


def group_of(data: JSON, name: str) -> JSON:
    """The group of the rule called *name* in *data*, to be changed."""
    found: JSON = next(group for group in data["groups"] if any(rule["name"] == name for rule in group["rules"]))
    return found
