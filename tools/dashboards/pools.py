"""Pools: what was asked for, what is there, what waits, and what keeps a pool from moving."""

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


def dashboard() -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        uid="gpu-autoscaler-pools",
        title="GPU autoscaler / Pools",
        description="GPU node pools: nodes by state, demand, provisioning, and what holds a pool.",
        rows=links.with_runbooks(
            Row(title="Now", panels=_now()),
            Row(title="Nodes and demand", panels=_nodes()),
            Row(title="From pending to a usable GPU", panels=_provisioning()),
            Row(title="What holds a pool", panels=_holds()),
        ),
        annotations=annotations.EVERY,
        variables=(pools(), namespaces(), *links.VARIABLES),
        links=links.of_dashboard("/", "Status page"),
    )


def _nodes_now(state: str) -> str:
    return f"sum(max by (pool) ({of(NODES, POOL, state=state)}))"


def _now() -> tuple[Panel, ...]:
    texts = {
        "required": ("Desired", "Nodes that Civo was asked for.", looks.PLAIN),
        "ready": ("Ready", "Nodes whose GPUs can be used.", looks.PLAIN),
        "building": ("Building", "Nodes asked for whose GPUs cannot be used yet.", looks.PLAIN),
        "busy": ("Busy", "Ready nodes with a GPU pod.", looks.PLAIN),
        "idle": ("Idle", "Ready nodes without a GPU pod. They cost as much as busy ones.", looks.PLAIN),
        "unknown": (
            "Unknown",
            "Nodes that Civo or Kubernetes does not tell enough of, or that broke.",
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
            "GPUs that pods wait for which the scheduler has turned away.",
            Target(expr=waiting, legend="GPUs"),
            unit="short",
            width=3,
            thresholds=looks.steps(looks.GREEN, (1, looks.YELLOW)),
        ),
        stat(
            "Longest wait",
            "For how long the GPU pod has waited that has waited longest.",
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
            "Busy, idle, building and unknown nodes of the chosen pools, stacked. The line is what Civo was asked for: "
            "the gap below it is on its way, or not coming.",
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
            "Nodes asked for (dashed) and usable. They differ while a node is built.",
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
            "GPUs that waiting pods ask for, by the pool that their node selector names; unassigned names none.",
            Target(expr=named(f"sum by (pool) ({demand})"), legend="{{pool_name}}"),
            unit="short",
            decimals=0,
            steps=True,
            stacked=True,
            links=[links.POOL_PAGE],
        ),
        timeseries(
            "GPUs allocated and allocatable by pool",
            "GPUs that pods hold, and what the pool's nodes offer (dashed). MIG slices and time-sliced replicas count "
            "as one each.",
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
            "Every chosen pool: nodes by state, what demand asks for, and its bounds now. A click on a pool leads to "
            "its page.",
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
                "pool": "Id at Civo",
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
            overrides=[
                looks.column(
                    "Pool",
                    links=[links.opened("Pool in the autoscaler", '${receiver}/pools/${__data.fields["Id at Civo"]}')],
                )
            ],
        ),
    )


def _provisioning() -> tuple[Panel, ...]:
    waited = of("namespace_pod:gpu_scheduling_seconds:max", NAMESPACE, ANY_POOL)
    stage = 'stage=~"build|boot|driver|start"'
    return (
        timeseries(
            "Pending to usable: wait of pods that have been placed",
            "Seconds from a GPU pod's creation until the scheduler bound it to a node: half and nine tenths of the "
            "pods that are there now waited less.",
            Target(expr=named(f"quantile by (pool) (0.5, {waited})"), legend="{{pool_name}} p50"),
            Target(expr=named(f"quantile by (pool) (0.9, {waited})"), legend="{{pool_name}} p90"),
            unit="s",
            links=[links.POOL_PAGE],
        ),
        timeseries(
            "Oldest pending pod by pool",
            "For how long the pod has waited that has waited longest, by the pool that it names.",
            Target(
                expr=named(f"max by (pool) ({of('pool:gpu_pending_seconds:max', ANY_POOL)})"),
                legend="{{pool_name}}",
            ),
            unit="s",
            links=[links.POOL_PAGE],
        ),
        bargauge(
            "Stages of provisioning, median of a day",
            "build: until Civo calls the node active. boot: until it is Ready. driver: until its GPUs are allocatable. "
            "start: from the first GPU pod bound to it until that pod runs.",
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
            "Asked for to usable: p50 and p95 of a day",
            "Seconds from Civo creating a node until its GPUs can be used.",
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
            "Nodes by how long they took",
            "How many nodes became usable, by the time from Civo creating them until then.",
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
            "When a cooldown, a back-off or provisioning held a direction of a pool, when a time window was open, and "
            "when somebody's override was in force.",
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
            "What ends when",
            "Seconds until what holds a pool's direction now ends.",
            Target(expr=told(f"max by (pool, direction, kind) ({waits} - time() > 0)"), table=True),
            unit="s",
            width=8,
            height=9,
            sort="Ends in",
            columns={"pool_name": "Pool", "direction": "Direction", "kind": "What", "Value": "Ends in"},
        ),
        timeseries(
            "Decisions",
            "Decisions by change; one that only repeats the last is not stored again.",
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
            "Actions that ended",
            "Actions by kind and outcome. failed: Civo refused, the pool backs off. superseded: somebody else moved "
            "the count meanwhile.",
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
