"""What Prometheus has stored of kube-state-metrics, DCGM and ourselves: each fault is named, a healthy world is not."""

from datetime import timedelta
from typing import Any

import pytest

from receiver.doctor.checks import Finding
from receiver.doctor.prometheus import active_targets, alertmanagers, clock, retention, scrapes
from receiver.doctor.telemetry import POOL, QUERIES, judge_dcgm, judge_kube_state_metrics, judge_own
from tests.doctor.monitored import POOLS, Answers, answers, named, one, target


def found(said: Answers) -> list[Finding]:
    return [
        *judge_kube_state_metrics(said, POOLS),
        *judge_dcgm(said, POOLS),
        *judge_own(said, "1.2.3"),
    ]


def trouble(said: Answers) -> list[Finding]:
    return [finding for finding in found(said) if finding.verdict in ("warn", "fail")]


def test_a_healthy_world_raises_no_alarm() -> None:
    assert set(answers()) == set(QUERIES)
    assert {finding.verdict for finding in found(answers())} == {"pass"}


def test_a_world_without_gpu_nodes_raises_no_alarm() -> None:
    asleep = answers(gpu_nodes=[], dcgm_ages=[], dcgm_pods=[], dcgm_counters=[], pods_on_gpus=[])
    assert trouble(asleep) == []
    assert "telemetry.dcgm" in {finding.check for finding in found(asleep) if finding.verdict == "skip"}


def without(name: str, missing: str) -> Answers:
    """The healthy world without the metric *missing* in what *name* asks for."""
    return answers(**{name: [s for s in answers()[name.replace("_", " ")] if s.labels["__name__"] != missing]})


TWO = [one(job="kube-state-metrics", instance="ksm-0"), one(job="kube-state-metrics", instance="ksm-1")]
TWICE = [one(node="gpu-1", instance="ksm-0"), one(node="gpu-1", instance="ksm-1")]
PARTS = [one(node="gpu-1", instance="ksm-0"), one(node="cpu-1", instance="ksm-1")]
NO_LABELS = [one(node="gpu-1"), one(node="cpu-1")]
HALF = [one(**{"node": "gpu-1", POOL: "pool-gpu"}), one(node="gpu-2"), one(**{"node": "cpu-1", POOL: "s"})]

PLANTED: list[tuple[str, Answers, str, str, str]] = [
    ("no kube-state-metrics", answers(ksm_up=[], ksm_jobs=[]), "kube_state_metrics", "fail", "no target"),
    ("under another job", answers(ksm_up=[], ksm_jobs=[one(job="ksm")]), "kube_state_metrics", "fail", 'job="ksm"'),
    (
        "kube-state-metrics is down",
        answers(ksm_up=[one(0, job="kube-state-metrics")]),
        "kube_state_metrics",
        "fail",
        "fail",
    ),
    ("two of it", answers(ksm_up=TWO, ksm_nodes=TWICE), "kube_state_metrics_once", "warn", "1 node shown by more"),
    ("shards", answers(ksm_up=TWO, ksm_nodes=PARTS), "kube_state_metrics_once", "warn", "sharded: 2 instances"),
    ("a shard is missing", answers(ksm_shards=[one(2)]), "kube_state_metrics_once", "warn", "1 of 2 shards"),
    ("honor_labels off", answers(ksm_renamed=[one()]), "kube_state_metrics_labels", "fail", "exported_pod"),
    ("no allowlist", answers(ksm_pools=[]), "node_pool_label", "fail", "not exported at all"),
    ("an allowlist without it", answers(ksm_pools=NO_LABELS), "node_pool_label", "fail", "lacks the label of the pool"),
    ("a node without it", answers(ksm_pools=HALF), "node_pool_label", "warn", "gpu-2"),
    ("no selectors", answers(ksm_selectors=[]), "node_selectors", "warn", "unassigned"),
    (
        "a metric is dropped",
        without("ksm_metrics", "kube_pod_status_phase"),
        "kube_state_metrics_families",
        "warn",
        "cannot fire: GpuPodsPending",
    ),
    ("no DCGM", answers(dcgm_ages=[]), "dcgm", "fail", "no DCGM series at all, and 2 nodes"),
    ("a node is blind", answers(dcgm_ages=[one(9, Hostname="gpu-1")]), "dcgm", "fail", "pool l40s: 1 GPU node"),
    (
        "DCGM is stale",
        answers(dcgm_ages=[one(9, Hostname="gpu-1"), one(240, node="gpu-2")]),
        "dcgm_fresh",
        "fail",
        "gpu-2 (4 min)",
    ),
    (
        "names do not join",
        answers(dcgm_ages=[one(9, Hostname="gpu-1"), one(9, node="gpu-2"), one(9, Hostname="localhost")]),
        "dcgm_nodes",
        "fail",
        "localhost",
    ),
    ("no pods on GPUs", answers(dcgm_pods=[]), "dcgm_pods", "warn", "1 pod on GPUs"),
    (
        "a counter is off",
        without("dcgm_counters", "DCGM_FI_DEV_XID_ERRORS"),
        "dcgm_counters",
        "warn",
        "cannot fire: GpuXidFatal, GpuXidError",
    ),
    (
        "no utilization",
        answers(dcgm_counters=named(["DCGM_FI_DEV_GPU_TEMP"])),
        "dcgm_counters",
        "fail",
        "utilization is unknown",
    ),
    ("we are not scraped", answers(own_up=[], own_builds=[]), "own", "fail", "does not scrape"),
    ("we do not answer", answers(own_up=[one(0)], own_builds=[]), "own", "fail", "fail"),
    ("under another job too", answers(own_up=[], own_builds=[one(job="gpu", version="1.2.3")]), "own", "warn", "gpu"),
    ("two versions", answers(own_builds=[one(version="1.2.3"), one(version="1.2.2")]), "own_version", "warn", "1.2.2"),
    (
        "ours are dropped",
        without("own_metrics", "gpu_autoscaler_source_up"),
        "own_metrics",
        "warn",
        "GpuAutoscalerSourceDown",
    ),
    (
        "nobody watches Alertmanager",
        without("others", "alertmanager_notifications_failed_total"),
        "watchers",
        "warn",
        "GpuAutoscalerWebhooksFail",
    ),
]


@pytest.mark.parametrize("said, check, verdict, words", [p[1:] for p in PLANTED], ids=[p[0] for p in PLANTED])
def test_a_fault_is_found_named_and_has_a_remedy(said: Answers, check: str, verdict: str, words: str) -> None:
    (finding,) = trouble(said)
    assert (finding.check, finding.verdict) == (f"telemetry.{check}", verdict)
    assert words in finding.said
    assert finding.remedy


def test_two_replicas_of_prometheus_that_are_asked_at_once_are_no_second_kube_state_metrics() -> None:
    up = [one(job="kube-state-metrics", instance="ksm-0", prometheus_replica=replica) for replica in ("a", "b")]
    assert trouble(answers(ksm_up=up)) == []


def test_a_new_node_may_be_without_dcgm_for_a_while() -> None:
    young = [one(7200, node="gpu-1"), one(300, node="gpu-2"), one(7200, node="cpu-1")]
    assert trouble(answers(dcgm_ages=[one(9, Hostname="gpu-1")], node_ages=young)) == []


@pytest.mark.parametrize(
    "ahead, uncertain, verdict",
    [(0.1, 0.05, "pass"), (7, 0, "warn"), (-7, 0, "warn"), (-90, 0, "fail"), (90, 0, "fail"), (90, 88, "pass")],
)
def test_a_clock_that_differs_is_told_beyond_what_the_call_took(ahead: float, uncertain: float, verdict: str) -> None:
    assert clock(timedelta(seconds=ahead), timedelta(seconds=uncertain)).verdict == verdict


@pytest.mark.parametrize(
    "kept, verdict", [("15d", "pass"), ("10d or 50GiB", "pass"), ("4d", "warn"), ("2d", "fail"), ("50GiB", "skip")]
)
def test_retention_covers_the_rules_and_a_week(kept: str, verdict: str) -> None:
    assert retention(kept, timedelta(days=3)).verdict == verdict


@pytest.mark.parametrize(
    "urls, configured, verdict",
    [
        (["http://a:9093/api/v2/alerts", "http://b:9093/api/v2/alerts"], 2, "pass"),
        (["http://a:9093/api/v2/alerts", "http://b:9093/api/v2/alerts"], 1, "warn"),
        (["http://a:9093/api/v2/alerts"], 2, "warn"),
        (["http://a:9093/api/v2/alerts"], 0, "skip"),
        ([], 1, "fail"),
    ],
)
def test_prometheus_must_send_to_every_alertmanager(urls: list[str], configured: int, verdict: str) -> None:
    assert alertmanagers({"activeAlertmanagers": [{"url": url} for url in urls]}, configured).verdict == verdict


def _scraped(**changes: Any) -> list[Finding]:
    targets = [target("kube-state-metrics", **changes), target("nvidia-dcgm-exporter"), target("node-exporter")]
    return list(scrapes(active_targets({"activeTargets": targets})))


def test_targets_that_answer_often_enough_are_told() -> None:
    told = _scraped()
    assert [finding.verdict for finding in told] == ["pass", "pass"]
    assert "node-exporter" not in told[1].said


def test_a_target_that_is_down_is_named_with_its_error() -> None:
    told = _scraped(health="down", lastError="connection refused")
    assert (told[0].check, told[0].verdict) == ("prometheus.targets", "warn")
    assert "kube-state-metrics:80 is down: connection refused" in told[0].said


def test_a_job_that_is_scraped_too_seldom_is_named() -> None:
    told = _scraped(scrapeInterval="2m")
    assert (told[1].check, told[1].verdict) == ("prometheus.intervals", "warn")
    assert "kube-state-metrics" in told[1].said
