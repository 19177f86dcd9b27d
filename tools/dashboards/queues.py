"""Queues: waiting pods and workloads, by queue, team, priority class and workload."""

from tools.dashboards import annotations, links, looks
from tools.dashboards.model import Dashboard, Panel, Row, Target
from tools.dashboards.panels import bargauge, stat, table, timeseries
from tools.dashboards.promql import (
    ANY_POOL,
    KUBE_STATE_METRICS,
    LISTED,
    NAMESPACE,
    NO_PODS,
    named,
    of,
    or_unknown,
    or_zero,
    summed,
)
from tools.dashboards.variables import namespaces, pools

WAITS = looks.steps(looks.GREEN, (600, looks.AMBER), (7200, looks.RED))
TEAM = 'label_team!=""'
UID = "gpu-autoscaler-queues"


def dashboard() -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        uid=UID,
        title="GPU autoscaler / Queues",
        description="Waiting GPU pods and workloads: number and wait by queue, team, priority class and workload.",
        rows=links.with_runbooks(
            Row(title="Now", panels=(*_now(), _who(), *_first())),
            Row(title="Depth", panels=_depth(), folded=True),
            Row(title="Wait", panels=_wait(), folded=True),
        ),
        annotations=annotations.EVERY,
        variables=(pools(), namespaces(), *links.VARIABLES),
        links=links.of_dashboard(UID, "/", "Status page"),
    )


def _team(expression: str, how: str) -> str:
    """Return *expression* over pods by the team in their labels."""
    teams = (
        "group by (cluster, namespace, pod, team) (label_replace("
        f'{of("kube_pod_labels", KUBE_STATE_METRICS, NAMESPACE, TEAM)}, "team", "$1", "label_team", "(.+)"))'
    )
    nobody = f'label_replace(group by (cluster, namespace, pod) ({expression}), "team", "unlabelled", "", "")'
    either = f"({teams} or on (cluster, namespace, pod) {nobody})"
    found = f"{how} by (team) (({expression}) * on (cluster, namespace, pod) group_left (team) {either})"
    return or_zero(found, LISTED, "team")


PENDING = of("namespace_pod:gpu_pending:sum", NAMESPACE, ANY_POOL)
SECONDS = of("namespace_pod:gpu_pending_seconds:max", NAMESPACE, ANY_POOL)
BY_WORKLOAD = "cluster, namespace, workload_kind, workload"
NO_QUEUES = "No queues of Kueue or Volcano"


def _now() -> tuple[Panel, ...]:
    return (
        stat(
            "GPU pods waiting",
            "Pods that are unschedulable for lack of GPUs. If it stays up, see what blocks a pool on the dashboard "
            "Pools.",
            Target(expr=or_zero(f"count({PENDING})", LISTED), legend="pods"),
            empty=NO_PODS,
            unit="short",
            width=6,
            thresholds=looks.steps(looks.GREEN, (1, looks.AMBER)),
        ),
        stat(
            "GPUs requested",
            "GPUs that those pods request. Compare with the nodes that are building.",
            Target(expr=or_zero(f"sum({PENDING})", LISTED), legend="GPUs"),
            empty=NO_PODS,
            unit="short",
            width=6,
            thresholds=looks.steps(looks.GREEN, (1, looks.AMBER)),
        ),
        stat(
            "Workloads in queues",
            "Workloads that Kueue or Volcano has not admitted. Their pods are gated or not created yet, so they are "
            "not among the pods to the left.",
            Target(expr=summed("queue:gpu_queue_pending:sum", own="queue, system"), legend="workloads"),
            empty=NO_QUEUES,
            unit="short",
            width=6,
            thresholds=looks.steps(looks.GREEN, (1, looks.AMBER)),
        ),
        stat(
            "Longest wait",
            "The longest current wait of a GPU pod. Yellow from 10 minutes, red from 2 hours.",
            Target(expr=or_zero(f"max({SECONDS})", LISTED), legend="wait"),
            empty=NO_PODS,
            unit="s",
            width=6,
            thresholds=WAITS,
        ),
    )


def _who() -> Panel:
    longest = f"max by ({BY_WORKLOAD}) ({of('namespace_workload:gpu_pending_seconds:max', NAMESPACE)})"
    most = f"topk(50, max by ({BY_WORKLOAD}) ({of('namespace_workload:gpu_pending:sum', NAMESPACE)}))"
    return table(
        "Waiting workloads",
        "Workloads whose pods wait for GPUs: how many GPUs, and the longest wait. The command gpu-autoscaler "
        "explain pod says why one waits.",
        Target(expr=or_unknown(most, LISTED, "workload", "kube-state-metrics"), table=True),
        Target(expr=f"{longest} and on ({BY_WORKLOAD}) {most}", table=True),
        empty="No pod waits for GPUs",
        unit="short",
        width=24,
        height=7,
        sort="Waits for",
        columns={
            "namespace": "Namespace",
            "workload_kind": "Kind",
            "workload": "Workload",
            "cluster": "Cluster",
            "Value #A": "GPUs",
            "Value #B": "Waits for",
        },
        overrides=[looks.column("Waits for", unit="s", thresholds=WAITS, custom__cellOptions=looks.FILLED)],
    )


def _first() -> tuple[Panel, ...]:
    by_pool = named(f"max by (cluster, pool) ({of('pool:gpu_pending_seconds:max', ANY_POOL)})")
    by_space = summed("namespace:gpu_pending:sum", NAMESPACE, own="namespace", by="namespace")
    return (
        timeseries(
            "GPUs pending by namespace",
            "GPUs requested by unschedulable pods, by namespace. Look for one that waits while others do not.",
            Target(expr=or_zero(by_space, LISTED, "namespace"), legend="{{namespace}}"),
            empty=NO_PODS,
            unit="short",
            decimals=0,
            stacked=True,
            steps=True,
        ),
        timeseries(
            "Longest wait by pool",
            "The longest current wait for GPUs, by the pool in the pod's node selector. A line that only rises: that "
            "pool does not grow.",
            Target(expr=or_zero(by_pool, LISTED, "pool_name"), legend="{{pool_name}} {{cluster}}"),
            empty=NO_PODS,
            unit="s",
            links=[links.POOL_PAGE],
        ),
    )


def _depth() -> tuple[Panel, ...]:
    queue = "queue, system"
    return (
        timeseries(
            "Workloads waiting by queue",
            "Waiting workloads of each Kueue or Volcano queue. A queue that only grows lacks quota or nodes.",
            Target(expr=summed("queue:gpu_queue_pending:sum", own=queue, by=queue), legend="{{queue}} ({{system}})"),
            empty=NO_QUEUES,
            unit="short",
            width=8,
            decimals=0,
            stacked=True,
            steps=True,
        ),
        timeseries(
            "GPUs waiting by queue",
            "GPUs that the waiting workloads of a queue request, if its metrics include them. Compare with the quota.",
            Target(
                expr=summed("queue:gpu_queue_pending_gpus:sum", own=queue, by=queue), legend="{{queue}} ({{system}})"
            ),
            empty="No queue reports GPUs",
            unit="short",
            width=8,
            decimals=0,
            stacked=True,
            steps=True,
        ),
        timeseries(
            "GPUs pending by team",
            "GPUs requested by unschedulable pods, by the label team. kube-state-metrics must export it: "
            "--metric-labels-allowlist=pods=[team]. Look for one team that waits while others do not.",
            Target(expr=_team(PENDING, "sum"), legend="{{team}}"),
            empty=NO_PODS,
            unit="short",
            width=8,
            decimals=0,
            stacked=True,
            steps=True,
        ),
    )


def _wait() -> tuple[Panel, ...]:
    queue = "cluster, queue, priority_class"
    by_class = f"max by (priority_class) ({of('priority_class:gpu_pending_seconds:max')})"
    classes = f'label_replace({by_class}, "priority_class", "without a class", "priority_class", "")'
    return (
        timeseries(
            "Wait in Kueue's queues until admitted",
            "p50 and p95 of the waits of recently admitted workloads, by queue and priority class. Urgent classes "
            "should wait the least.",
            *(
                Target(
                    expr=f"max by ({queue}) ({of(f'queue:gpu_queue_wait_seconds:{part}')})",
                    legend=f"{{{{queue}}}} {{{{priority_class}}}} {part} {{{{cluster}}}}",
                )
                for part in ("p50", "p95")
            ),
            empty="Kueue admitted nothing lately",
            unit="s",
            width=8,
        ),
        timeseries(
            "Longest wait by team",
            "The longest current wait of a team's pods for GPUs. A line that only rises: the team's pods do not fit "
            "or are blocked.",
            Target(expr=_team(SECONDS, "max"), legend="{{team}}"),
            empty=NO_PODS,
            unit="s",
            width=8,
            thresholds=WAITS,
        ),
        bargauge(
            "Longest wait by priority class",
            "The longest current wait of each class. The alert GpuQueueWaitLong fires above 10 minutes for the class "
            "production and above 2 hours for others, unless the receiver's policy says otherwise.",
            Target(expr=or_zero(classes, LISTED, "priority_class"), legend="{{priority_class}}", instant=True),
            empty=NO_PODS,
            unit="s",
            width=8,
            thresholds=WAITS,
        ),
    )
