"""Links of the dashboards: to each other, to the receiver's pages and to the runbooks that it serves."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tools.dashboards import looks
from tools.dashboards.model import Panel, Row
from tools.dashboards.variables import typed

JSON = dict[str, Any]

VARIABLES = (typed("autoscaler_url", "Autoscaler's URL", "http://127.0.0.1:8080"),)
RUNBOOK = "${autoscaler_url}/docs/runbooks"
DASHBOARDS: Mapping[str, str] = {
    "gpu-autoscaler-pools": "Pools",
    "gpu-autoscaler-utilization": "GPU utilization",
    "gpu-autoscaler-cost": "Cost",
    "gpu-autoscaler-queues": "Queues",
    "gpu-autoscaler-receiver": "Receiver",
}


def of_dashboard(uid: str, page: str, page_title: str) -> list[JSON]:
    """Return the links of the dashboard *uid*: the other dashboards, the receiver's *page* and the documentation."""
    others = [
        _link(title, f"/d/{other}", icon="dashboard", here=True) for other, title in DASHBOARDS.items() if other != uid
    ]
    pages = {page_title: f"${{autoscaler_url}}{page}", "Documentation": "${autoscaler_url}/docs"}
    return [*others, *(_link(title, url, icon="doc", here=False) for title, url in pages.items())]


def _link(title: str, url: str, *, icon: str, here: bool) -> JSON:
    """Return a link. *here*: it opens in the same tab and keeps the time range and the variables."""
    return {
        "type": "link",
        "title": title,
        "url": url,
        "icon": icon,
        "tags": [],
        "asDropdown": False,
        "includeVars": here,
        "keepTime": here,
        "targetBlank": not here,
        "tooltip": "",
    }


def opened(title: str, url: str) -> JSON:
    """Return a link for the values of a panel."""
    return {"title": title, "url": url, "targetBlank": True}


# To the page of the pool that a series or a table's column "Pool" names.
POOL_PAGE = opened(
    "Pool ${__field.labels.pool_name} in the autoscaler", "${autoscaler_url}/pools/${__field.labels.pool_name}"
)
POOL_COLUMN = looks.column(
    "Pool", links=[opened("Pool ${__value.text} in the autoscaler", "${autoscaler_url}/pools/${__value.text}")]
)

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
    "GPUs with memory errors": ("GpuRowRemapFailed", "GpuRowRemapPending", "GpuEccUncorrectable"),
    "Tensor cores and memory bandwidth in use": ("GpuCollectiveStalled",),
    "Spend and forecast against the budget": ("GpuBudgetForecastExceeded", "GpuSpendUnknown"),
    "Budgets used": ("GpuBudgetWarn", "GpuBudgetHold", "GpuBudgetStop"),
    "Budgets by forecast": ("GpuBudgetForecastExceeded",),
    "Idle cost per hour by pool": ("GpuIdleCostHigh", "GpuNodesIdle"),
    "Longest wait by priority class": ("GpuQueueWaitLong",),
    "Waiting workloads": ("GpuQueueWaitLong", "GpuPodsPending"),
    "Age of the last step": ("GpuAutoscalerDown", "GpuAutoscalerStepsSlow", "GpuAutoscalerClockSkewed"),
    "Refused, superseded and changed by others": ("GpuAutoscalerPoolDrifts",),
    "Age of the heartbeat": ("GpuAutoscalerHeartbeat", "GpuAutoscalerRulesFail", "GpuAutoscalerRulesSlow"),
    "Webhook answers": ("GpuAutoscalerWebhooksFail",),
    "Time of a step": ("GpuAutoscalerStepsSlow",),
    "Steps and errors": (
        "GpuAutoscalerStepsFail",
        "GpuAutoscalerPartFails",
        "GpuAutoscalerNotOneLeader",
        "GpuAutoscalerConfigurationRefused",
    ),
    "Sick": ("GpuNodeGpusUnhealthy",),
    "GPUs with a fatal XID": ("GpuXidFatal",),
    "Nodes without telemetry": ("GpuTelemetryMissing", "GpuCountersMissing", "GpuProfilingStuck"),
    "Promises kept, of a week": ("GpuPromisesLate",),
    "Configuration": ("GpuAutoscalerConfigurationRefused",),
    "Sources": (
        "GpuAutoscalerSourceDown",
        "GpuKubeStateMetricsDown",
        "GpuKubeStateMetricsIncomplete",
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
    return replace(panel, links=[opened(f"Runbook {alert}", f"{RUNBOOK}/{alert}.md") for alert in alerts])
