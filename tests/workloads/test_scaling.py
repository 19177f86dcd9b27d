"""Replicas by our recorded series: what adapter, HPA, KEDA and VPA ask for exists and is what they take it for."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from receiver.config import load_text
from tests.lint import load_yaml
from tests.rules.files import RECORDINGS, run
from tests.workloads.files import CONFIGURATION, of_kind
from tools.metric_names import metrics_in

JSON = dict[str, Any]
[ADAPTER] = [o.body for o in of_kind("ConfigMap") if o.body["metadata"]["name"] == "gpu-autoscaler-adapter"]
RULES = load_yaml(ADAPTER["data"]["config.yaml"])["rules"]
[HPA] = [o.body for o in of_kind("HorizontalPodAutoscaler")]
[KEDA] = [o.body for o in of_kind("ScaledObject")]
[VPA] = [o.body for o in of_kind("VerticalPodAutoscaler")]
DEPLOYMENTS = {o.body["metadata"]["name"]: o.body for o in of_kind("Deployment")}
RECORDED = {rule.name for rule in RECORDINGS}
[RULE] = RULES
[PROMETHEUS] = [t["metadata"] for t in KEDA["spec"]["triggers"] if t["type"] == "prometheus"]


def asked(series: str, matchers: str, group: str) -> str:
    """Return the query that the adapter sends, by the placeholders that its documentation names."""
    filled = RULE["metricsQuery"].replace("<<.Series>>", series).replace("<<.LabelMatchers>>", matchers)
    assert "<<" not in filled.replace("<<.GroupBy>>", "")
    return str(filled.replace("<<.GroupBy>>", group))


def test_what_is_asked_for_are_series_that_our_rules_record() -> None:
    assert metrics_in(RULE["seriesQuery"]) == {"namespace_pod:gpu_utilization:avg"}
    assert metrics_in(RULE["seriesQuery"]) | metrics_in(PROMETHEUS["query"]) <= RECORDED


def test_the_hpa_asks_for_a_metric_that_the_adapter_gives() -> None:
    [metric] = HPA["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == RULE["name"]["as"]
    assert set(RULE["resources"]["overrides"]) == {"namespace", "pod"}


@pytest.fixture
def answered(tmp_path: Path) -> Path:
    """A promtool test of both queries over the pods of a busy and an idle replica, and one of another workload."""
    series = "namespace_pod:gpu_utilization:avg"
    hpa = asked(series, 'namespace="team-vision",pod=~"inference-a|inference-b"', "pod")
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": []}))
    names = ("inference-a", "inference-b", "inference-office-hours-c", "inference-office-hours-d")
    values = dict(zip(names, (0.9, 0.3, 0.8, 0.6), strict=True))
    inputs = [
        {"series": f'{series}{{namespace="team-vision", pod="{name}"}}', "values": f"{value}x10"}
        for name, value in values.items()
    ]
    expected: list[JSON] = [
        {"expr": hpa, "samples": {'{pod="inference-a"}': 0.9, '{pod="inference-b"}': 0.3}},
        {"expr": f"round({PROMETHEUS['query']}, 0.01)", "samples": {"{}": 1.4}},
    ]
    tests = [
        {
            "expr": case["expr"],
            "eval_time": "5m",
            "exp_samples": [{"labels": labels, "value": value} for labels, value in case["samples"].items()],
        }
        for case in expected
    ]
    file = tmp_path / "test.yaml"
    content = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": inputs, "promql_expr_test": tests}],
    }
    file.write_text(yaml.safe_dump(content))
    return file


def test_prometheus_answers_the_adapter_pod_by_pod_and_keda_with_the_sum_of_its_own_pods(answered: Path) -> None:
    tested = run("promtool", "test", "rules", answered)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize(
    "behavior",
    [HPA["spec"]["behavior"], KEDA["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]],
    ids=["HPA", "KEDA"],
)
def test_replicas_grow_after_a_minute_and_shrink_after_five(behavior: JSON) -> None:
    windows = {way: behavior[way]["stabilizationWindowSeconds"] for way in ("scaleUp", "scaleDown")}
    assert windows == {"scaleUp": 60, "scaleDown": 300}


def test_the_target_is_where_the_rules_call_a_pool_busy() -> None:
    [metric] = HPA["spec"]["metrics"]
    target = metric["pods"]["target"]
    busy = {p.utilization_high for p in load_text(CONFIGURATION.read_text(encoding="utf-8")).policy.pools}
    assert target == {"type": "AverageValue", "averageValue": "700m"}
    assert busy == {float(PROMETHEUS["threshold"])} == {0.7}


def test_no_two_scalers_size_the_same_deployment_and_none_of_them_states_its_own_count() -> None:
    scaled = [HPA["spec"]["scaleTargetRef"]["name"], KEDA["spec"]["scaleTargetRef"]["name"]]
    assert sorted(scaled) == sorted(DEPLOYMENTS)
    assert not [name for name, body in DEPLOYMENTS.items() if "replicas" in body["spec"]]


def test_replicas_stay_within_what_the_team_may_hold() -> None:
    hard = {
        o.body["metadata"]["name"]: int(o.body["spec"]["hard"]["requests.nvidia.com/gpu"])
        for o in of_kind("ResourceQuota")
    }
    assert HPA["spec"]["maxReplicas"] <= hard["production-gpus"]
    assert HPA["spec"]["maxReplicas"] + KEDA["spec"]["maxReplicaCount"] <= hard["gpus"]


def test_keda_goes_to_zero_and_the_clock_brings_it_back() -> None:
    [cron] = [t["metadata"] for t in KEDA["spec"]["triggers"] if t["type"] == "cron"]
    assert KEDA["spec"]["minReplicaCount"] == 0
    assert {"timezone", "start", "end", "desiredReplicas"} == set(cron)
    assert all(re.fullmatch(r"[\d*]+ [\d*]+ \* \* 1-5", cron[key]) for key in ("start", "end"))
    assert all(isinstance(v, str) for t in KEDA["spec"]["triggers"] for v in t["metadata"].values())  # KEDA takes words


def test_the_vpa_sizes_cpu_and_memory_alone_within_a_node_and_evicts_nothing() -> None:
    [policy] = VPA["spec"]["resourcePolicy"]["containerPolicies"]
    [container] = DEPLOYMENTS[VPA["spec"]["targetRef"]["name"]]["spec"]["template"]["spec"]["containers"]
    assert policy["controlledResources"] == ["cpu", "memory"]
    assert policy["containerName"] == container["name"]
    assert set(policy["minAllowed"]) == set(policy["maxAllowed"]) == {"cpu", "memory"}
    assert (int(policy["maxAllowed"]["cpu"]), int(policy["maxAllowed"]["memory"].removesuffix("Gi"))) < (12, 96)
    assert VPA["spec"]["updatePolicy"]["updateMode"] == "Initial"
