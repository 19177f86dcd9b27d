"""Links of the dashboards: to each other, to the receiver's pages and to the runbooks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tools.dashboards.model import TAG, Panel, Row
from tools.dashboards.variables import typed

JSON = dict[str, Any]

# Placeholders like those of runbook_url in rules/: type your own addresses, or replace them in the files.
VARIABLES = (
    typed("receiver", "Autoscaler's URL", "http://127.0.0.1:8080"),
    typed("runbooks", "Runbooks' URL", "https://civo-gpu-autoscaler.example/docs/runbooks"),
)


def of_dashboard(page: str, page_title: str) -> list[JSON]:
    """Return a dashboard's links: the others, the receiver's *page* and the runbooks."""
    others = {
        "type": "dashboards",
        "title": "GPU autoscaler",
        "tags": [TAG],
        "asDropdown": False,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "tooltip": "",
        "url": "",
    }
    return [others, _elsewhere(page_title, f"${{receiver}}{page}"), _elsewhere("Runbooks", "${runbooks}")]


def _elsewhere(title: str, url: str) -> JSON:
    return {
        "type": "link",
        "title": title,
        "url": url,
        "icon": "doc",
        "tags": [],
        "asDropdown": False,
        "includeVars": False,
        "keepTime": False,
        "targetBlank": True,
        "tooltip": "",
    }


def opened(title: str, url: str) -> JSON:
    """Return a link for the values of a panel."""
    return {"title": title, "url": url, "targetBlank": True}


POOL_PAGE = opened("Pool ${__field.labels.pool_name} in the autoscaler", "${receiver}/pools/${__field.labels.pool}")

# The alerts on a panel's values, by its title.
RUNBOOKS: Mapping[str, Sequence[str]] = {
    "GPUs pending": ("GpuPodsPending",),
    "GPUs pending by pool": ("GpuPodsPending",),
    "Idle": ("GpuNodesIdle",),
    "Unknown": ("GpuNodeWithoutGpus", "GpuScaleUpStuck"),
    "Requested to usable: p50 and p95 of a day": ("GpuScaleUpStuck", "GpuNodeWithoutGpus"),
    "Cooldowns, windows and overrides": ("GpuPoolOutOfStock",),
    "Ended actions": ("GpuAutoscalerActionStuck", "GpuNodesCreatedRapidly", "GpuPoolOutOfStock"),
    "Fleet utilization against its target": ("GpuPoolBusy", "GpuPoolUnderutilized", "GpuTelemetryMissing"),
    "Allocated but idle": ("GpuAllocatedIdle",),
    "Workloads with the lowest utilization": ("GpuWorkloadUnderutilized", "GpuAllocatedIdle"),
    "Memory used by GPU": ("GpuMemoryLeakSuspected",),
    "Temperature": ("GpuTemperatureHigh",),
    "Last XID by GPU": ("GpuXidFatal", "GpuXidError", "GpuNodeGpusUnhealthy"),
    "GPUs with memory errors": ("GpuRowRemapFailed", "GpuEccUncorrectable"),
    "Tensor cores and memory bandwidth in use": ("GpuCollectiveStalled",),
    "Spend and forecast against the budget": ("GpuBudgetForecastExceeded", "GpuSpendUnknown"),
    "Budgets used": ("GpuBudgetWarn", "GpuBudgetHold", "GpuBudgetStop"),
    "Budgets by forecast": ("GpuBudgetForecastExceeded",),
    "Idle cost per hour by pool": ("GpuIdleCostHigh", "GpuNodesIdle"),
    "Longest wait by priority class": ("GpuQueueWaitLong",),
    "Waiting workloads": ("GpuQueueWaitLong", "GpuPodsPending"),
    "Age of the last step": ("GpuAutoscalerDown", "GpuAutoscalerStepsSlow", "GpuAutoscalerClockSkewed"),
    "Refused, superseded and changed by others": ("GpuAutoscalerPoolDrifts",),
    "Age of the heartbeat": ("GpuAutoscalerHeartbeat", "GpuAutoscalerRulesFail"),
    "Webhook answers": ("GpuAutoscalerWebhooksFail",),
    "Time of a step": ("GpuAutoscalerStepsSlow",),
    "Steps and errors": (
        "GpuAutoscalerStepsFail",
        "GpuAutoscalerPartFails",
        "GpuAutoscalerNotOneLeader",
        "GpuAutoscalerConfigurationRefused",
    ),
    "Sources": (
        "GpuAutoscalerSourceDown",
        "GpuKubeStateMetricsDown",
        "GpuKubeStateMetricsRelabeled",
        "GpuClustersMixed",
        "GpuNodesWithoutPool",
    ),
    "Outbox": ("GpuAutoscalerNoticesStuck",),
}


def with_runbooks(*rows: Row) -> tuple[Row, ...]:
    """Return *rows* with links from panels to the runbooks of their alerts."""
    return tuple(replace(row, panels=tuple(_with_runbooks(panel) for panel in row.panels)) for row in rows)


def _with_runbooks(panel: Panel) -> Panel:
    alerts = RUNBOOKS.get(panel.title, ())
    return replace(panel, links=[opened(f"Runbook {alert}", f"${{runbooks}}/{alert}.md") for alert in alerts])
