"""What some queries that are easily got wrong answer, on series written by hand."""

from pathlib import Path

import pytest

from tests.dashboards.panel_queries import assert_answer, panel_query
from tools.dashboards.promql import named
from tools.grafana.files import EVERYTHING

pytestmark = pytest.mark.usefixtures("each_prometheus")

NAMES = 'pool:gpu_autoscaler_pool_info:latest{pool="5f3c-1", pool_name="l40s"}'


def test_a_pool_without_a_name_goes_by_its_id(tmp_path: Path) -> None:
    expr = named('sum by (pool) (x{cluster=~"$cluster"})')
    series = {NAMES: "1x10", 'x{pool="5f3c-1"}': "4x10", 'x{pool="5f3c-2"}': "5x10"}
    answer = [
        {"labels": '{pool="5f3c-1", pool_name="l40s"}', "value": 4},
        {"labels": '{pool="5f3c-2", pool_name="5f3c-2"}', "value": 5},
    ]
    assert_answer(tmp_path, expr, series, answer)


def test_workloads_with_low_utilization_include_one_that_has_ended(tmp_path: Path) -> None:
    labels = {w: f'namespace="ml", workload_kind="Job", workload="{w}"' for w in ("ended", "running")}
    series = {
        f"namespace_workload:gpu_utilization:avg{{{labels['ended']}}}": "0.1x3 stale",
        f"namespace_workload:gpu_utilization:avg{{{labels['running']}}}": "0.7x10",
        f"namespace_workload:gpu_allocated:sum{{{labels['ended']}}}": "1 4 2 2 stale",
        f"namespace_workload:gpu_allocated:sum{{{labels['running']}}}": "8x10",
    }
    title = "Workloads with the lowest utilization"
    for ref, values in (("A", {"ended": 0.1, "running": 0.7}), ("B", {"ended": 4, "running": 8})):
        answer = [{"labels": f"{{{labels[w]}}}", "value": value} for w, value in values.items()]
        assert_answer(tmp_path, panel_query("utilization", title, ref), series, answer)


def test_nvlink_is_in_bytes_per_second(tmp_path: Path) -> None:
    series = {
        'node_pool:kube_node_labels:relabel{node="n", pool="p"}': "1x10",
        'node_gpu:dcgm_nvlink_bandwidth:max{node="n", gpu="0"}': "1000x10",  # MiB/s
    }
    answer = [{"labels": '{node="n", gpu="0", pool="p", pool_name="p"}', "value": 1000 * 2**20}]
    assert_answer(tmp_path, panel_query("utilization", "NVLink"), series, answer)


def test_all_clusters_takes_series_with_and_without_the_label_and_one_cluster_only_its_own(tmp_path: Path) -> None:
    expr = panel_query("queues", "GPUs requested")
    series = {
        'namespace_pod:gpu_pending:sum{namespace="ml", pod="a", pool="p"}': "4x10",
        'namespace_pod:gpu_pending:sum{namespace="ml", pod="b", pool="p", cluster="lon"}': "2x10",
    }
    assert_answer(tmp_path, expr, series, [{"labels": "{}", "value": 6}])
    assert_answer(tmp_path, expr, series, [{"labels": "{}", "value": 2}], {**EVERYTHING, "cluster": "lon"})


@pytest.mark.parametrize(("second", "two"), [("0+1x10", 1), ("7x10", 0)])
def test_two_that_step_are_seen_and_one_that_waits_is_not(tmp_path: Path, second: str, two: int) -> None:
    steps = "gpu_autoscaler_loop_steps_total"
    series = {f'{steps}{{instance="a"}}': "0+6x10", f'{steps}{{instance="b"}}': second}
    expr = panel_query("receiver", "Invariants, as seen from outside", "C")
    assert_answer(tmp_path, expr, series, [{"labels": "{}", "value": two}])


def test_a_pool_above_its_maximum_is_seen(tmp_path: Path) -> None:
    expr = panel_query("receiver", "Invariants, as seen from outside", "A")
    series = {
        'gpu_autoscaler_pool_nodes{pool="a", state="required"}': "3x10",
        'gpu_autoscaler_pool_nodes{pool="b", state="required"}': "2x10",
        'gpu_autoscaler_pool_nodes_max{pool="a"}': "2x10",
        'gpu_autoscaler_pool_nodes_max{pool="b"}': "2x10",
    }
    assert_answer(tmp_path, expr, series, [{"labels": "{}", "value": 1}])


def test_a_gpu_with_two_kinds_of_memory_errors_counts_once(tmp_path: Path) -> None:
    labels = 'node="n", gpu="0", UUID="u", GPU_I_ID=""'
    series = {
        f"node_gpu:dcgm_row_remap_failure:max{{{labels}}}": "1x10",
        f"node_gpu:dcgm_ecc_dbe:max{{{labels}}}": "3x10",
        'node_gpu:dcgm_ecc_dbe:max{node="n", gpu="1", UUID="v"}': "0x10",
    }
    assert_answer(
        tmp_path, panel_query("utilization", "GPUs with memory errors"), series, [{"labels": "{}", "value": 1}]
    )


def test_a_pod_without_a_team_label_waits_as_unlabelled(tmp_path: Path) -> None:
    series = {
        'namespace_pod:gpu_pending:sum{namespace="ml", pod="a", pool="p"}': "4x10",
        'namespace_pod:gpu_pending:sum{namespace="ml", pod="b", pool="p"}': "1x10",
        'kube_pod_labels{job="kube-state-metrics", namespace="ml", pod="a", label_team="vision"}': "1x10",
        'kube_pod_labels{job="kube-state-metrics", namespace="ml", pod="b"}': "1x10",
    }
    answer = [{"labels": '{team="vision"}', "value": 4}, {"labels": '{team="unlabelled"}', "value": 1}]
    assert_answer(tmp_path, panel_query("queues", "GPUs pending by team"), series, answer)


def test_each_gpu_is_in_one_band(tmp_path: Path) -> None:
    series: dict[str, str] = {'node_pool:kube_node_labels:relabel{node="n", pool="p"}': "1x10"}
    for number, ratio in enumerate((0.0, 0.4, 0.69, 0.7, 0.9, 0.91, 0.95, 0.96)):
        series[f'node_gpu:dcgm_utilization:ratio{{node="n", gpu="{number}"}}'] = f"{ratio}x10"
    for ref, count in zip("ABCDE", (1, 2, 2, 2, 1), strict=True):
        assert_answer(
            tmp_path, panel_query("utilization", "GPUs by band", ref), series, [{"labels": "{}", "value": count}]
        )


@pytest.mark.parametrize(
    ("dashboard", "title", "ref", "metric", "labels", "values", "answer"),
    [
        ("cost", "Idle this month", "A", "cost_usd", 'part="unallocated", gpu_kind="l40s"', "30x10", "{}"),
        ("pools", "Decisions", "A", "decisions_total", 'pool="5f3c-1", change="grow"', "0+30x10", '{change="grow"}'),
        (
            "pools",
            "Ended actions",
            "A",
            "actions_total",
            'pool="5f3c-1", kind="grow", outcome="confirmed"',
            "0+30x10",
            '{kind="grow", outcome="confirmed"}',
        ),
        (
            "receiver",
            "Stored alerts, by action",
            "A",
            "alerts_total",
            'action="scale_up"',
            "0+30x10",
            '{action="scale_up"}',
        ),
        (
            "receiver",
            "Refused, superseded and changed by others",
            "A",
            "actions_total",
            'pool="5f3c-1", kind="grow", outcome="failed"',
            "30x10",
            '{pool="5f3c-1", pool_name="l40s"}',
        ),
    ],
    ids=["idle cost", "decisions", "actions", "alerts", "refused"],
)
def test_two_processes_on_one_database_count_once(
    tmp_path: Path, dashboard: str, title: str, ref: str, metric: str, labels: str, values: str, answer: str
) -> None:
    name = f"gpu_autoscaler_{metric}"
    series = {NAMES: "1x10", f'{name}{{{labels}, instance="a"}}': values, f'{name}{{{labels}, instance="b"}}': values}
    expected = 30 * 4 if "+" in values else 30  # between the five samples in the 5 minutes of Grafana's interval
    answers = [{"labels": answer, "value": expected}]
    # No sample is at the beginning of the window: Prometheus 3 leaves it out.
    assert_answer(tmp_path, panel_query(dashboard, title, ref), series, answers, at="10m30s")
