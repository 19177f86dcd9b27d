"""What Prometheus has stored of kube-state-metrics, DCGM and ourselves: each fault is named, a healthy world is not."""

from datetime import timedelta

import pytest

from receiver.doctor.checks import Finding
from receiver.doctor.prometheus import clock
from receiver.doctor.telemetry import QUERIES, judge
from tests.doctor.monitored import POOLS, Answers, answers, named, one


def found(said: Answers) -> list[Finding]:
    return list(judge(said, POOLS))


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


NO_LABELS = [one(node="gpu-1"), one(node="cpu-1")]

PLANTED: list[tuple[str, Answers, str, str, str]] = [
    ("no kube-state-metrics", answers(ksm_up=[], ksm_jobs=[]), "kube_state_metrics", "fail", "no target"),
    (
        "a frozen exporter",
        answers(dcgm_implausible=[one(8, node="gpu-1", fault="frozen")]),
        "dcgm_plausible",
        "warn",
        "stood still for 30 minutes: gpu-1",
    ),
    (
        "stuck profiling",
        answers(dcgm_implausible=[one(node="gpu-2", fault="profiling")]),
        "dcgm_plausible",
        "warn",
        "shows work: gpu-2",
    ),
    ("under another job", answers(ksm_up=[], ksm_jobs=[one(job="ksm")]), "kube_state_metrics", "fail", 'job="ksm"'),
    (
        "kube-state-metrics is down",
        answers(ksm_up=[one(0, job="kube-state-metrics")]),
        "kube_state_metrics",
        "fail",
        "fail",
    ),
    ("honor_labels off", answers(ksm_renamed=[one()]), "kube_state_metrics_labels", "fail", "exported_pod"),
    ("no allowlist", answers(ksm_pools=[]), "node_pool_label", "fail", "not exported at all"),
    ("an allowlist without it", answers(ksm_pools=NO_LABELS), "node_pool_label", "fail", "lacks the label of the pool"),
    (
        "no selectors",
        without("ksm_metrics", "kube_pod_nodeselectors"),
        "kube_state_metrics_families",
        "warn",
        "kube_pod_nodeselectors",
    ),
    (
        "a metric is dropped",
        without("ksm_metrics", "kube_pod_status_phase"),
        "kube_state_metrics_families",
        "warn",
        "cannot fire: GpuPodsPending",
    ),
    ("no DCGM", answers(dcgm_ages=[]), "dcgm", "fail", "no DCGM series at all, and 2 nodes"),
    ("a node is blind", answers(dcgm_ages=[one(9, Hostname="gpu-1")]), "dcgm", "fail", "gpu-2 of pool l40s"),
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
    (
        "a second exporter has another name for a node",
        answers(
            dcgm_ages=[one(9, Hostname="gpu-1"), one(9, node="gpu-2"), one(9, Hostname="exporter-x")],
            dcgm_aliases=[one(node="exporter-x")],
        ),
        "dcgm_nodes",
        "warn",
        "exporter-x; the rules ignore",
    ),
    ("no pods on GPUs", answers(dcgm_pods=[]), "dcgm_pods", "warn", "1 pod on GPUs"),
    (
        "a counter is off",
        without("dcgm_counters", "DCGM_FI_DEV_XID_ERRORS"),
        "dcgm_counters",
        "warn",
        "cannot fire: GpuXidError",
    ),
    (
        "no utilization",
        answers(dcgm_counters=named(["DCGM_FI_DEV_GPU_TEMP"])),
        "dcgm_counters",
        "fail",
        "utilization is unknown",
    ),
    ("we are not scraped", answers(own_up=[], own_builds=[]), "own", "fail", "no target has the job"),
    ("we do not answer", answers(own_up=[one(0)], own_builds=[]), "own", "fail", "fail"),
    ("under another job too", answers(own_up=[], own_builds=[one(job="gpu")]), "own", "fail", 'job="gpu"'),
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


def test_a_new_node_may_be_without_dcgm_for_a_while() -> None:
    young = [one(7200, node="gpu-1"), one(300, node="gpu-2"), one(7200, node="cpu-1")]
    assert trouble(answers(dcgm_ages=[one(9, Hostname="gpu-1")], node_ages=young)) == []


@pytest.mark.parametrize(
    "ahead, uncertain, verdict",
    [(0.1, 0.05, "pass"), (7, 0, "warn"), (-7, 0, "warn"), (-90, 0, "fail"), (90, 0, "fail"), (90, 88, "pass")],
)
def test_a_clock_that_differs_is_told_beyond_what_the_call_took(ahead: float, uncertain: float, verdict: str) -> None:
    assert clock(timedelta(seconds=ahead), timedelta(seconds=uncertain)).verdict == verdict
