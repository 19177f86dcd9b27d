"""What the panels say of two clusters whose series differ by the label `cluster`, as a global store has them."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.dashboards.panel_queries import assert_answer, panel_query

pytestmark = pytest.mark.usefixtures("each_prometheus")

LON, FRA = 'cluster="lon"', 'cluster="fra"'
TOTAL = 'scope="cluster"'


def of_both(name: str, lon: float, fra: float, labels: str = "") -> Mapping[str, str]:
    """A series of each cluster; two processes of one show the same."""
    more = f"{labels}, " if labels else ""
    return {
        f'{name}{{{more}{LON}, instance="a"}}': f"{lon}x10",
        f'{name}{{{more}{LON}, instance="b"}}': f"{lon}x10",
        f'{name}{{{more}{FRA}, instance="c"}}': f"{fra}x10",
    }


@pytest.mark.parametrize(
    ("title", "ref", "series", "answers"),
    [
        ("Spent", "A", of_both("gpu_autoscaler_budget_spent_usd", 100, 250, TOTAL), {"{}": 350}),
        ("Budget", "A", of_both("gpu_autoscaler_budget_limit_usd", 1000, 2500, TOTAL), {"{}": 3500}),
        ("Forecast", "A", of_both("gpu_autoscaler_budget_forecast_usd", 200, 500, TOTAL), {"{}": 700}),
        ("Cost per hour", "A", of_both("cluster:gpu_spend_usd_per_hour:sum", 10, 25), {"{}": 35}),
        (
            "Saved against always-on",
            "A",
            {
                **of_both("gpu_autoscaler_always_on_usd", 90, 80),
                **of_both("gpu_autoscaler_always_on_spent_usd", 50, 60),
            },
            {"{}": 60},
        ),
        ("By team", "A", of_both("gpu_autoscaler_cost_team_usd", 20, 50, 'team="vision"'), {'{team="vision"}': 70}),
        (
            "Month's cost by namespace",
            "A",
            of_both("gpu_autoscaler_cost_namespace_usd", 20, 50, 'workload_namespace="ml"'),
            {'{workload_namespace="ml"}': 70},
        ),
        (
            "By project",
            "A",
            of_both("gpu_autoscaler_cost_project_usd", 20, 50, 'project="llm"'),
            {'{project="llm"}': 70},
        ),
        (
            "By use",
            "A",
            of_both("gpu_autoscaler_cost_usd", 20, 50, 'part="held", gpu_kind="l40s"'),
            {'{part="held"}': 70},
        ),
        (
            "Budgets used",
            "A",
            of_both("scope_name:gpu_budget_used:ratio", 0.2, 0.5, TOTAL),
            {f"{{{TOTAL}, {LON}}}": 0.2, f"{{{TOTAL}, {FRA}}}": 0.5},
        ),
        (
            "Spend and forecast against the budget",
            "D",
            {
                **of_both("gpu_autoscaler_budget_limit_usd", 1000, 2500, TOTAL),
                **of_both("gpu_autoscaler_budget_threshold_ratio", 0.5, 0.8, 'stage="warn"'),
            },
            {'{stage="warn"}': 2500},
        ),
    ],
)
def test_costs_of_two_clusters_are_added_up_and_their_budgets_are_not(
    tmp_path: Path, title: str, ref: str, series: Mapping[str, str], answers: Mapping[str, float]
) -> None:
    samples = [{"labels": labels, "value": value} for labels, value in answers.items()]
    assert_answer(tmp_path, panel_query("cost", title, ref), series, samples)


@pytest.mark.parametrize(
    ("dashboard", "title", "ref", "series", "answers"),
    [
        (
            "pools",
            "Sick",
            "A",
            of_both("gpu_autoscaler_pool_nodes", 1, 2, 'pool="a", state="sick"'),
            {"{}": 3},
        ),
        ("receiver", "Messages pending", "A", of_both("gpu_autoscaler_notices_pending", 1, 2), {"{}": 3}),
        (
            "receiver",
            "Mode",
            "A",
            of_both("gpu_autoscaler_mode", 1, 0, 'mode="act"'),
            {f"{{{LON}}}": 1, f"{{{FRA}}}": 0},
        ),
        (  # after ten minutes; the one of fra came to an end
            "receiver",
            "Age of the heartbeat",
            "A",
            of_both("gpu_autoscaler_last_heartbeat_timestamp_seconds", 590, 100),
            {"{}": 500},
        ),
        (
            "receiver",
            "Sources",
            "A",
            of_both("gpu_autoscaler_source_up", 1, 0, 'source="civo"'),
            {f'{{source="civo", {LON}}}': 1, f'{{source="civo", {FRA}}}': 0},
        ),
        (  # fra spent more than it may, lon may spend more than both
            "receiver",
            "Invariants, as seen from outside",
            "B",
            {
                **of_both("gpu_autoscaler_budget_spent_usd", 100, 250, TOTAL),
                **of_both("gpu_autoscaler_budget_limit_usd", 1000, 200, TOTAL),
                **of_both("gpu_autoscaler_budget_threshold_ratio", 1, 1, 'stage="stop"'),
            },
            {"{}": 1},
        ),
        (
            "queues",
            "Workloads waiting by queue",
            "A",
            of_both("queue:gpu_queue_pending:sum", 3, 4, 'queue="q", system="kueue"'),
            {'{queue="q", system="kueue"}': 7},
        ),
        (
            "queues",
            "GPUs pending by namespace",
            "A",
            of_both("namespace:gpu_pending:sum", 3, 4, 'namespace="ml"'),
            {'{namespace="ml"}': 7},
        ),
        (
            "utilization",
            "Utilization by namespace",
            "A",
            of_both("namespace:gpu_utilization:avg", 0.3, 0.4, 'namespace="ml"'),
            {f'{{namespace="ml", {LON}}}': 0.3, f'{{namespace="ml", {FRA}}}': 0.4},
        ),
    ],
)
def test_one_cluster_does_not_hide_another(
    tmp_path: Path, dashboard: str, title: str, ref: str, series: Mapping[str, str], answers: Mapping[str, float]
) -> None:
    samples = [{"labels": labels, "value": value} for labels, value in answers.items()]
    assert_answer(tmp_path, panel_query(dashboard, title, ref), series, samples)


def test_one_process_in_each_of_two_clusters_is_not_two_that_step(tmp_path: Path) -> None:
    steps = "gpu_autoscaler_loop_steps_total"
    series = {f'{steps}{{{LON}, instance="a"}}': "0+6x10", f'{steps}{{{FRA}, instance="b"}}': "0+6x10"}
    expr = panel_query("receiver", "Invariants, as seen from outside", "C")
    assert_answer(tmp_path, expr, series, [{"labels": "{}", "value": 0}])


def test_pods_of_one_name_in_two_clusters_can_have_different_teams(tmp_path: Path) -> None:
    pod = 'namespace="ml", pod="serve-0"'
    series = {
        f'namespace_pod:gpu_pending:sum{{{pod}, pool="p", {LON}}}': "4x10",
        f'namespace_pod:gpu_pending:sum{{{pod}, pool="q", {FRA}}}': "1x10",
        f'kube_pod_labels{{job="kube-state-metrics", {pod}, label_team="vision", {LON}}}': "1x10",
        f'kube_pod_labels{{job="kube-state-metrics", {pod}, label_team="language", {FRA}}}': "1x10",
    }
    answer = [{"labels": '{team="vision"}', "value": 4}, {"labels": '{team="language"}', "value": 1}]
    assert_answer(tmp_path, panel_query("queues", "GPUs pending by team"), series, answer)
