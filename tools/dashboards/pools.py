"""Pools: requested and existing nodes, demand, and what blocks changes."""

from tools.dashboards import annotations, links, looks
from tools.dashboards.grids import heatmap, states
from tools.dashboards.model import Dashboard, Panel, Row, Target
from tools.dashboards.panels import bargauge, stat, table, timeseries
from tools.dashboards.promql import (
    ANY_POOL,
    NAMESPACE,
    POOL,
    by_pool,
    kept,
    named,
    of,
    told,
)
from tools.dashboards.variables import namespaces, pools

NODES = "gpu_autoscaler_pool_nodes"
UID = "gpu-autoscaler-pools"


def dashboard() -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        uid=UID,
        title="GPU autoscaler / Pools",
        description="GPU node pools: nodes by state, demand, provisioning, and what blocks changes.",
        rows=links.with_runbooks(
            Row(title="Now", panels=_now()),
            Row(title="Nodes and demand", panels=_nodes()),
            Row(title="From pending to a usable GPU", panels=_provisioning()),
            Row(title="What blocks a pool", panels=_holds()),
        ),
        annotations=annotations.EVERY,
        variables=(pools(), namespaces(), *links.VARIABLES),
        links=links.of_dashboard(UID, "/", "Status page"),
    )


def _nodes_now(state: str) -> str:
    return f"sum(max by (pool) ({of(NODES, POOL, state=state)}))"


def _now() -> tuple[Panel, ...]:
    texts = {
        "required": ("Desired", "Nodes requested from Civo. Above Ready for long: nodes are stuck.", looks.PLAIN),
        "ready": ("Ready", "Nodes with usable GPUs. Equal to Busy while pods wait: the pools are full.", looks.PLAIN),
        "building": (
            "Building",
            "Requested nodes whose GPUs are not usable yet. Look for nodes that stay.",
            looks.PLAIN,
        ),
        "busy": ("Busy", "Ready nodes with a GPU pod. Compare with Ready: the rest is idle.", looks.PLAIN),
        "idle": ("Idle", "Ready nodes without a GPU pod. They cost as much as busy ones.", looks.PLAIN),
        "unknown": (
            "Unknown",
            "Nodes on which Civo or Kubernetes lacks data, or that failed. Should be 0.",
            looks.NONE_IS_GOOD,
        ),
    }
    found = [
        stat(title, text, Target(expr=_nodes_now(state), legend=title), unit="short", width=3, thresholds=colours)
        for state, (title, text, colours) in texts.items()
    ]
    waiting = f"sum({of('pool:gpu_pending:sum', ANY_POOL)}) or vector(0)"
    oldest = f"max({of('pool:gpu_pending_seconds:max', ANY_POOL)}) or vector(0)"
    return (
        *found,
        stat(
            "GPUs pending",
            "GPUs requested by unschedulable pods. Above 0 while no node is building: see what blocks a pool, below.",
            Target(expr=waiting, legend="GPUs"),
            unit="short",
            width=3,
            thresholds=looks.steps(looks.GREEN, (1, looks.YELLOW)),
        ),
        stat(
            "Longest wait",
            "The longest current wait of a GPU pod. Yellow from 10 minutes, red from 2 hours.",
            Target(expr=oldest, legend="wait"),
            unit="s",
            width=3,
            thresholds=looks.steps(looks.GREEN, (600, looks.YELLOW), (7200, looks.RED)),
        ),
    )


def _nodes() -> tuple[Panel, ...]:
    def state(name: str) -> Target:
        return Target(expr=_nodes_now(name), legend=name)

    demand = of("namespace_pod:gpu_pending:sum", NAMESPACE, ANY_POOL)
    return (
        timeseries(
            "Nodes by state",
            "Busy, idle, building and unknown nodes of the selected pools, stacked. The line is the requested count: "
            "nodes in the gap below it are being built, or are stuck.",
            *(state(s) for s in ("busy", "idle", "building", "unknown", "required")),
            unit="short",
            decimals=0,
            stacked=True,
            steps=True,
            overrides=[
                *(looks.coloured(s, c) for s, c in looks.STATES.items()),
                looks.line("^required$", looks.PURPLE),
            ],
        ),
        timeseries(
            "Desired and ready by pool",
            "Requested (dashed) and usable nodes. They differ while a node is being built; a gap that stays is a "
            "stuck node.",
            Target(expr=told(f"max by (pool) ({of(NODES, POOL, state='ready')})"), legend="{{pool_name}} ready"),
            Target(expr=told(f"max by (pool) ({of(NODES, POOL, state='required')})"), legend="{{pool_name}} desired"),
            unit="short",
            decimals=0,
            steps=True,
            overrides=[looks.line(" desired$", looks.PURPLE)],
            links=[links.POOL_PAGE],
        ),
        timeseries(
            "GPUs pending by pool",
            "GPUs that waiting pods request, by the pool in their node selector; unassigned: no pool. Look for demand "
            "that stays while its pool does not grow.",
            Target(expr=named(f"sum by (pool) ({demand})"), legend="{{pool_name}}"),
            unit="short",
            decimals=0,
            steps=True,
            stacked=True,
            links=[links.POOL_PAGE],
        ),
        timeseries(
            "GPUs allocated and allocatable by pool",
            "Allocated GPUs, and those that the pool's nodes offer (dashed). Lines that meet: the pool is full. MIG "
            "slices and time-sliced replicas count as one each.",
            Target(expr=by_pool("pool:gpu_allocated:sum"), legend="{{pool_name}} allocated"),
            Target(expr=by_pool("pool:gpu_allocatable:sum"), legend="{{pool_name}} allocatable"),
            unit="short",
            decimals=0,
            steps=True,
            overrides=[looks.line(" allocatable$", looks.GREY)],
            links=[links.POOL_PAGE],
        ),
        table(
            "Pools now",
            "Every selected pool: nodes by state, demand, and current bounds. Wanted differs from Desired while a "
            "change is blocked or under way. Click a pool to open its page.",
            *(
                Target(expr=told(f"max by (pool) ({of(NODES, POOL, state=s)})"), table=True)
                for s in ("required", "ready", "building", "busy", "idle", "unknown")
            ),
            Target(expr=told(f"max by (pool) ({of('gpu_autoscaler_pool_nodes_wanted', POOL)})"), table=True),
            Target(expr=told(f"max by (pool) ({of('gpu_autoscaler_pool_nodes_min', POOL)})"), table=True),
            Target(expr=told(f"max by (pool) ({of('gpu_autoscaler_pool_nodes_max', POOL)})"), table=True),
            Target(expr=told(f"max by (pool) ({of('gpu_autoscaler_pool_pending_gpus', POOL)})"), table=True),
            unit="short",
            width=24,
            height=7,
            columns={
                "pool_name": "Pool",
                "Value #A": "Desired",
                "Value #B": "Ready",
                "Value #C": "Building",
                "Value #D": "Busy",
                "Value #E": "Idle",
                "Value #F": "Unknown",
                "Value #G": "Wanted",
                "Value #H": "Least",
                "Value #I": "Most",
                "Value #J": "GPUs pending",
            },
            overrides=[links.POOL_COLUMN],
        ),
    )


def _provisioning() -> tuple[Panel, ...]:
    waited = of("namespace_pod:gpu_scheduling_seconds:max", NAMESPACE, ANY_POOL)
    stage = 'stage=~"build|boot|driver|start"'
    return (
        timeseries(
            "Pending to scheduled: wait of placed pods",
            "Seconds from a GPU pod's creation until the scheduler bound it to a node: p50 and p90 over existing "
            "pods. A rise: nodes come more slowly, or the pool is at its maximum.",
            Target(expr=named(f"quantile by (pool) (0.5, {waited})"), legend="{{pool_name}} p50"),
            Target(expr=named(f"quantile by (pool) (0.9, {waited})"), legend="{{pool_name}} p90"),
            unit="s",
            links=[links.POOL_PAGE],
        ),
        timeseries(
            "Oldest pending pod by pool",
            "The longest current wait of a pod, by the pool in its node selector. A line that only rises: no node fits "
            "the pod, or its growth is blocked.",
            Target(
                expr=named(f"max by (pool) ({of('pool:gpu_pending_seconds:max', ANY_POOL)})"),
                legend="{{pool_name}}",
            ),
            unit="s",
            links=[links.POOL_PAGE],
        ),
        bargauge(
            "Stages of provisioning, median of a day",
            "build: until the node is active at Civo. boot: until it is Ready. driver: until its GPUs are allocatable. "
            "start: from the first GPU pod bound to it until that pod runs. Look for the longest stage.",
            Target(
                expr=told(f"max by (pool, stage) ({of('pool_stage:gpu_provision_seconds:p50', POOL, stage)})"),
                legend="{{pool_name}} {{stage}}",
                instant=True,
            ),
            unit="s",
            width=8,
            height=9,
            thresholds=looks.steps(looks.GREEN, (300, looks.YELLOW), (900, looks.RED)),
        ),
        timeseries(
            "Requested to usable: p50 and p95 of a day",
            "Seconds from the creation of a node at Civo until its GPUs are usable. p95 far above p50: some nodes are "
            "much slower than others.",
            Target(
                expr=told(f"max by (pool) ({of('pool_stage:gpu_provision_seconds:p50', POOL, stage='total')})"),
                legend="{{pool_name}} p50",
            ),
            Target(
                expr=told(f"max by (pool) ({of('pool_stage:gpu_provision_seconds:p95', POOL, stage='total')})"),
                legend="{{pool_name}} p95",
            ),
            unit="s",
            width=8,
            height=9,
        ),
        heatmap(
            "Nodes by provisioning time",
            "How many nodes became usable, by the time since their creation at Civo. Look for cells far above the "
            "rest.",
            Target(
                expr=kept("gpu_autoscaler_provision_seconds_bucket", POOL, own="pool, le", by="le", stage="total"),
                legend="{{le}}",
                heatmap=True,
            ),
            unit="s",
            width=8,
            height=9,
        ),
    )


def _holds() -> tuple[Panel, ...]:
    waits = of("gpu_autoscaler_pool_wait_until_timestamp_seconds", POOL)
    overrides = of("gpu_autoscaler_override_active", POOL)
    windows = of("gpu_autoscaler_pool_window_open", POOL)
    return (
        states(
            "Cooldowns, windows and overrides",
            "When a cooldown, a back-off or provisioning blocked a direction of a pool, when a time window was open, "
            "and when an override was in force. Look here first when a pool does not change.",
            Target(
                expr=told(f"group by (pool, direction, kind) ({waits} > time())"),
                legend="{{pool_name}}: {{kind}} ({{direction}})",
            ),
            Target(
                expr=told(f"2 * group by (pool, window) ({windows} == 1)"), legend="{{pool_name}}: window {{window}}"
            ),
            Target(
                expr=told(f"3 * group by (pool, kind) ({overrides} == 1)"), legend="{{pool_name}}: override {{kind}}"
            ),
            mappings=looks.words(_1=("waits", looks.YELLOW), _2=("open", looks.BLUE), _3=("in force", looks.PURPLE)),
            width=16,
            height=9,
        ),
        table(
            "Time until blocks end",
            "Seconds until the block on a pool's direction ends. Empty: no cooldown or back-off is running.",
            Target(expr=told(f"max by (pool, direction, kind) ({waits} - time() > 0)"), table=True),
            unit="s",
            width=8,
            height=9,
            sort="Ends in",
            columns={"pool_name": "Pool", "direction": "Direction", "kind": "What", "Value": "Ends in"},
            overrides=[links.POOL_COLUMN],
        ),
        timeseries(
            "Decisions",
            "Decisions by change; repetitions of the last one are not stored. Growth and shrinking in quick turns: the "
            "thresholds or the cooldowns are too tight.",
            Target(
                expr=f"{kept('gpu_autoscaler_decisions_total', POOL, own='pool, change', by='change')} > 0",
                legend="{{change}}",
            ),
            unit="short",
            bars=True,
            stacked=True,
            width=12,
            overrides=[
                looks.coloured("grow", looks.GREEN),
                looks.coloured("shrink", looks.ORANGE),
                looks.coloured("hold", looks.GREY),
            ],
        ),
        timeseries(
            "Ended actions",
            "Actions by kind and outcome. failed: Civo refused, and the pool backs off. superseded: another writer "
            "changed the count meanwhile.",
            Target(
                expr=f"{kept('gpu_autoscaler_actions_total', POOL, own='pool, kind, outcome', by='kind, outcome')} > 0",
                legend="{{kind}} {{outcome}}",
            ),
            unit="short",
            bars=True,
            stacked=True,
            width=12,
        ),
    )
