"""Pools: requested and existing nodes, demand, and what blocks changes."""

from tools.dashboards import annotations, links, looks, nodes
from tools.dashboards.grids import heatmap, states
from tools.dashboards.model import Dashboard, Panel, Row, Target
from tools.dashboards.panels import bargauge, stat, table, timeseries, values
from tools.dashboards.promql import (
    ANY_POOL,
    LISTED,
    NAMESPACE,
    NO_PODS,
    NO_RECEIVER,
    POOL,
    STEPPED,
    by_pool,
    kept,
    named,
    of,
    or_unknown,
    or_zero,
    summed,
    told,
)
from tools.dashboards.variables import namespaces, pools

NODES = "gpu_autoscaler_pool_nodes"
DECISIONS, ACTIONS = "gpu_autoscaler_decisions_total", "gpu_autoscaler_actions_total"
UID = "gpu-autoscaler-pools"


def dashboard() -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        uid=UID,
        title="GPU autoscaler / Pools",
        description="GPU node pools: nodes by state, demand, provisioning, and what blocks changes.",
        rows=links.with_runbooks(
            Row(title="Now", panels=(*_now(), _pools_now(), _by_state(), _blocks())),
            Row(title="Nodes and demand by pool", panels=_by_pool(), folded=True),
            Row(title="Nodes", panels=nodes.panels(), folded=True),
            Row(title="From pending to a usable GPU", panels=_provisioning(), folded=True),
            Row(title="Changes", panels=_changes(), folded=True),
        ),
        annotations=annotations.EVERY,
        variables=(pools(), namespaces(), *links.VARIABLES),
        links=links.of_dashboard(UID, "/", "Status page"),
    )


def _nodes_now(state: str) -> str:
    return summed(NODES, POOL, own="pool", state=state)


def _each(metric: str, *matchers: str, **equal: str) -> str:
    """The receiver's *metric* by pool, with names."""
    return told(f"max by (cluster, pool) ({of(metric, POOL, *matchers, **equal)})")


def _now() -> tuple[Panel, ...]:
    # By state: title, text, width.
    texts = {
        "required": ("Desired", "Nodes requested from Civo. Above Ready for long: nodes are stuck.", 3),
        "ready": ("Ready", "Nodes with usable GPUs. Equal to Busy while pods wait: the pools are full.", 3),
        "busy": ("Busy", "Ready nodes with a GPU pod. Compare with Ready: the rest is idle.", 3),
        "idle": ("Idle", "Ready nodes without a GPU pod. They cost as much as busy ones.", 3),
        "building": ("Building", "Requested nodes whose GPUs are not usable yet. Look for nodes that stay.", 2),
        "unknown": ("Unknown", "Nodes on which Civo or Kubernetes lacks data, or that failed. Should be 0.", 2),
        "sick": ("Sick", "Nodes with a GPU that failed. They count as Ready or Unknown too. Should be 0.", 2),
    }
    found = [
        stat(
            title,
            text,
            Target(expr=_nodes_now(state), legend=title),
            empty=NO_RECEIVER,
            unit="short",
            width=width,
            thresholds=looks.NONE_IS_GOOD if state in ("unknown", "sick") else looks.PLAIN,
        )
        for state, (title, text, width) in texts.items()
    ]
    waiting = f"sum({of('pool:gpu_pending:sum', ANY_POOL)})"
    oldest = f"max({of('pool:gpu_pending_seconds:max', ANY_POOL)})"
    return (
        *found,
        stat(
            "GPUs pending",
            "GPUs requested by unschedulable pods. Above 0 while no node is building: see what blocks a pool, below.",
            Target(expr=or_zero(waiting, LISTED), legend="GPUs"),
            empty=NO_PODS,
            unit="short",
            width=3,
            thresholds=looks.steps(looks.GREEN, (1, looks.AMBER)),
        ),
        stat(
            "Longest wait",
            "The longest current wait of a GPU pod. Yellow from 10 minutes, red from 2 hours.",
            Target(expr=or_zero(oldest, LISTED), legend="wait"),
            empty=NO_PODS,
            unit="s",
            width=3,
            thresholds=looks.steps(looks.GREEN, (600, looks.AMBER), (7200, looks.RED)),
        ),
    )


def _pools_now() -> Panel:
    columns = {
        "Desired": _each(NODES, state="required"),
        "Ready": _each(NODES, state="ready"),
        "Building": _each(NODES, state="building"),
        "Busy": _each(NODES, state="busy"),
        "Idle": _each(NODES, state="idle"),
        "Unknown": _each(NODES, state="unknown"),
        "Sick": _each(NODES, state="sick"),
        "Wanted": _each("gpu_autoscaler_pool_nodes_wanted"),
        "Least": _each("gpu_autoscaler_pool_nodes_min"),
        "Most": _each("gpu_autoscaler_pool_nodes_max"),
        "GPUs pending": _each("gpu_autoscaler_pool_pending_gpus"),
    }
    red = {"thresholds": looks.steps(looks.TEXT, (1, looks.RED)), "custom__cellOptions": {"type": "color-text"}}
    return table(
        "Pools now",
        "Every selected pool: nodes by state, demand, and current bounds. Wanted differs from Desired while a "
        "change is blocked or under way. Click a pool to open its page.",
        *(Target(expr=expr, table=True) for expr in columns.values()),
        empty=NO_RECEIVER,
        unit="short",
        width=24,
        height=6,
        columns={
            "pool_name": "Pool",
            "cluster": "Cluster",
            **values(columns),
        },
        overrides=[links.POOL_COLUMN, looks.column("Unknown", **red), looks.column("Sick", **red)],
    )


def _by_state() -> Panel:
    states_shown = ("busy", "idle", "building", "unknown", "required", "sick")
    return timeseries(
        "Nodes by state",
        "Busy, idle, building and unknown nodes of the selected pools, stacked. The dashed line is the requested "
        "count: nodes in the gap below it are being built, or are stuck. Sick nodes are a line: they have another "
        "state too.",
        *(Target(expr=_nodes_now(state), legend=state) for state in states_shown),
        empty=NO_RECEIVER,
        unit="short",
        decimals=0,
        height=9,
        stacked=True,
        steps=True,
        overrides=[
            *(looks.coloured(s, c) for s, c in looks.STATES.items() if s in states_shown),
            looks.line("^required$", looks.PURPLE),
            looks.line("^sick$", looks.STATES["sick"], dashed=False),
        ],
    )


def _blocks() -> Panel:
    waits = of("gpu_autoscaler_pool_wait_until_timestamp_seconds", POOL)
    overrides = of("gpu_autoscaler_override_active", POOL)
    windows = of("gpu_autoscaler_pool_window_open", POOL)
    held = told(f"group by (cluster, pool, direction, kind) ({waits} > time())")
    return states(
        "Cooldowns, windows and overrides",
        "When a cooldown, a back-off or provisioning blocked a direction of a pool, when a time window was open, "
        "and when an override was in force. Look here first when a pool does not change.",
        Target(expr=held, legend="{{pool_name}}: {{kind}} ({{direction}}) {{cluster}}"),
        Target(
            expr=told(f"2 * group by (cluster, pool, window) ({windows} == 1)"),
            legend="{{pool_name}}: window {{window}} {{cluster}}",
        ),
        Target(
            expr=told(f"3 * group by (cluster, pool, kind) ({overrides} == 1)"),
            legend="{{pool_name}}: override {{kind}} {{cluster}}",
        ),
        Target(expr=f"4 * absent({STEPPED})", legend="the receiver"),
        empty="No cooldown, window or override",
        mappings=looks.words(
            _1=("waits", looks.YELLOW),
            _2=("open", looks.BLUE),
            _3=("in force", looks.PURPLE),
            _4=("no data", looks.RED),
        ),
        height=9,
    )


def _by_pool() -> tuple[Panel, ...]:
    demand = of("namespace_pod:gpu_pending:sum", NAMESPACE, ANY_POOL)
    return (
        timeseries(
            "Desired and ready by pool",
            "Requested (dashed) and usable nodes. They differ while a node is being built; a gap that stays is a "
            "stuck node.",
            Target(expr=_each(NODES, state="ready"), legend="{{pool_name}} ready {{cluster}}"),
            Target(expr=_each(NODES, state="required"), legend="{{pool_name}} desired {{cluster}}"),
            empty=NO_RECEIVER,
            unit="short",
            width=8,
            decimals=0,
            steps=True,
            overrides=[looks.line(r" desired\b", None)],
            links=[links.POOL_PAGE],
        ),
        timeseries(
            "GPUs pending by pool",
            "GPUs that waiting pods request, by the pool in their node selector; unassigned: no pool. Look for demand "
            "that stays while its pool does not grow.",
            Target(
                expr=or_zero(named(f"sum by (cluster, pool) ({demand})"), LISTED, "pool_name"),
                legend="{{pool_name}} {{cluster}}",
            ),
            empty=NO_PODS,
            unit="short",
            width=8,
            decimals=0,
            steps=True,
            stacked=True,
            links=[links.POOL_PAGE],
        ),
        timeseries(
            "GPUs allocated and allocatable by pool",
            "Allocated GPUs, and those that the pool's nodes offer (dashed). Lines that meet: the pool is full. MIG "
            "slices and time-sliced replicas count as one each.",
            Target(
                expr=or_zero(by_pool("pool:gpu_allocated:sum"), LISTED, "pool_name"),
                legend="{{pool_name}} allocated {{cluster}}",
            ),
            Target(expr=by_pool("pool:gpu_allocatable:sum"), legend="{{pool_name}} allocatable {{cluster}}"),
            empty=NO_PODS,
            unit="short",
            width=8,
            decimals=0,
            steps=True,
            overrides=[looks.line(r" allocatable\b", None)],
            links=[links.POOL_PAGE],
        ),
    )


def _provisioning() -> tuple[Panel, ...]:
    waited = of("namespace_pod:gpu_scheduling_seconds:max", NAMESPACE, ANY_POOL)
    oldest = named(f"max by (cluster, pool) ({of('pool:gpu_pending_seconds:max', ANY_POOL)})")
    return (
        timeseries(
            "Pending to scheduled: wait of placed pods",
            "Seconds from a GPU pod's creation until the scheduler bound it to a node: p50 and p90 over existing "
            "pods. A rise: nodes come more slowly, or the pool is at its maximum.",
            Target(expr=named(f"quantile by (cluster, pool) (0.5, {waited})"), legend="{{pool_name}} p50 {{cluster}}"),
            Target(expr=named(f"quantile by (cluster, pool) (0.9, {waited})"), legend="{{pool_name}} p90 {{cluster}}"),
            empty="No GPU pod in kube-state-metrics",
            unit="s",
            links=[links.POOL_PAGE],
        ),
        timeseries(
            "Oldest pending pod by pool",
            "The longest current wait of a pod, by the pool in its node selector. A line that only rises: no node fits "
            "the pod, or its growth is blocked.",
            Target(expr=or_zero(oldest, LISTED, "pool_name"), legend="{{pool_name}} {{cluster}}"),
            empty=NO_PODS,
            unit="s",
            links=[links.POOL_PAGE],
        ),
        *_stages(),
        *_promises(),
    )


def _stages() -> tuple[Panel, ...]:
    none = "The receiver saw no new node"
    stage = 'stage=~"build|boot|driver|start"'
    each = of("pool_stage:gpu_provision_seconds:p50", POOL, stage)
    whole = kept("gpu_autoscaler_provision_seconds_bucket", POOL, own="pool, le", by="le", stage="total")
    return (
        bargauge(
            "Stages of provisioning, median of a day",
            "build: until the node is active at Civo. boot: until it is Ready. driver: until its GPUs are allocatable. "
            "start: from the first GPU pod bound to it until that pod runs. Look for the longest stage.",
            Target(
                expr=told(f"max by (cluster, pool, stage) ({each})"),
                legend="{{pool_name}} {{stage}} {{cluster}}",
                instant=True,
            ),
            empty=f"{none} within a day",
            unit="s",
            width=8,
            height=9,
            thresholds=looks.steps(looks.GREEN, (300, looks.AMBER), (900, looks.RED)),
        ),
        timeseries(
            "Requested to usable: p50 and p95 of a day",
            "Seconds from the creation of a node at Civo until its GPUs are usable. p95 far above p50: some nodes are "
            "much slower than others. Dashed: what the receiver expects, the median of the last 20 nodes.",
            *(
                Target(
                    expr=_each(f"pool_stage:gpu_provision_seconds:{part}", stage="total"),
                    legend=f"{{{{pool_name}}}} {part} {{{{cluster}}}}",
                )
                for part in ("p50", "p95")
            ),
            Target(expr=_each("gpu_autoscaler_pool_ready_in_seconds"), legend="{{pool_name}} expected {{cluster}}"),
            empty=f"{none} within a day",
            unit="s",
            width=8,
            height=9,
            overrides=[looks.line(r" expected\b", None)],
        ),
        heatmap(
            "Nodes by provisioning time",
            "How many nodes became usable, by the time since their creation at Civo. Look for cells far above the "
            "rest.",
            Target(expr=whole, legend="{{le}}", heatmap=True),
            empty=none,
            unit="s",
            width=8,
            height=9,
        ),
    )


def _promises() -> tuple[Panel, ...]:
    ended = _each("pool:gpu_promises_ended:sum")
    median, late = _each("pool:gpu_promises_by_median:ratio"), _each("pool:gpu_promises_kept:ratio")
    none = "No promise ended within a week"
    return (
        timeseries(
            "Promises kept, of a week",
            "The part of the promised starts of waiting workloads that came by the promised p50, and by the promised "
            "p90 (dashed). Well calibrated: 50 % and 90 %. Below that, promises are too early; above, too late.",
            Target(expr=median, legend="{{pool_name}} by p50 {{cluster}}"),
            Target(expr=late, legend="{{pool_name}} by p90 {{cluster}}"),
            empty=none,
            unit="percentunit",
            most=1,
            overrides=[looks.line(r" by p90\b", None)],
            links=[links.POOL_PAGE],
        ),
        table(
            "Promises of a week",
            "Promised starts of waiting workloads that ended within a week, and the parts that came by the promised "
            "p50 and p90. A small number proves little. Of many, half should come by p50 and nine in ten by p90.",
            Target(expr=ended, table=True),
            Target(expr=f"{median} and on (cluster, pool) {ended} > 0", table=True),
            Target(expr=f"{late} and on (cluster, pool) {ended} > 0", table=True),
            empty=none,
            unit="percentunit",
            columns={
                "pool_name": "Pool",
                "cluster": "Cluster",
                "Value #A": "Ended",
                "Value #B": "By p50",
                "Value #C": "By p90",
            },
            overrides=[links.POOL_COLUMN, looks.column("Ended", unit="short", decimals=0)],
        ),
    )


def _changes() -> tuple[Panel, ...]:
    waits = of("gpu_autoscaler_pool_wait_until_timestamp_seconds", POOL)
    held = told(f"max by (cluster, pool, rule) ({of('gpu_autoscaler_pool_held_by', POOL)})")
    left = told(f"max by (cluster, pool, direction, kind) ({waits} - time() > 0)")
    decided = f"{kept(DECISIONS, POOL, own='pool, change', by='change')} > 0"
    ended = f"{kept(ACTIONS, POOL, own='pool, kind, outcome', by='kind, outcome')} > 0"
    return (
        table(
            "Time until blocks end",
            "Seconds until the block on a pool's direction ends. Empty: no cooldown or back-off is running.",
            Target(expr=or_unknown(left, STEPPED, "pool_name", "the receiver"), table=True),
            empty="No cooldown or back-off is running",
            unit="s",
            sort="Ends in",
            columns={
                "pool_name": "Pool",
                "cluster": "Cluster",
                "direction": "Direction",
                "kind": "What",
                "Value": "Ends in",
            },
            overrides=[links.POOL_COLUMN],
        ),
        table(
            "What held the last decision",
            "The guardrails that reduced or blocked each pool's last decision. For the reason see the pool's page, "
            "for each guardrail docs/guardrails.md.",
            Target(expr=or_unknown(held, STEPPED, "pool_name", "the receiver"), table=True),
            empty="No guardrail held a pool's last decision",
            unit="short",
            columns={"pool_name": "Pool", "cluster": "Cluster", "rule": "Rule"},
            overrides=[links.POOL_COLUMN],
        ),
        timeseries(
            "Decisions",
            "Decisions by change; repetitions of the last one are not stored. Growth and shrinking in quick turns: the "
            "thresholds or the cooldowns are too tight.",
            Target(expr=or_zero(decided, STEPPED, "change"), legend="{{change}}"),
            empty=NO_RECEIVER,
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
            Target(expr=or_zero(ended, STEPPED, "kind"), legend="{{kind}} {{outcome}}"),
            empty=NO_RECEIVER,
            unit="short",
            bars=True,
            stacked=True,
            width=12,
        ),
    )
