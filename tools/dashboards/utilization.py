"""GPU utilization: by GPU and workload in bands, the fleet against its target, and GPU health."""

from tools.dashboards import annotations, links, looks
from tools.dashboards.grids import bands
from tools.dashboards.model import Dashboard, Panel, Row, Target
from tools.dashboards.panels import gauge, stat, table, timeseries
from tools.dashboards.promql import (
    LISTED,
    MEASURED,
    NAMESPACE,
    NO_PODS,
    NO_TELEMETRY,
    POOL,
    by_pool,
    named,
    of,
    or_unknown,
    or_zero,
)
from tools.dashboards.variables import namespaces, pools

BANDS_TOLD = "Green 70-90 %, yellow 40-70 % and 90-95 %, red under 40 % or over 95 %."
POOLS_NODES = named(f"group by (cluster, node, pool) ({of('node_pool:kube_node_labels:relabel', POOL)})")
ON_POOL = f"* on (cluster, node) group_left (pool, pool_name) ({POOLS_NODES})"
WORKLOAD = "cluster, namespace, workload_kind, workload"
UID = "gpu-autoscaler-utilization"


def dashboard() -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        uid=UID,
        title="GPU autoscaler / GPU utilization",
        description="GPU utilization by owner, and GPU health: memory, power, temperature, XID, NVLink.",
        rows=links.with_runbooks(
            Row(title="Fleet", panels=(*_now(), *_fleet(), _lowest())),
            Row(title="By GPU and by workload", panels=_heat(), folded=True),
            Row(title="Memory and power", panels=_memory(), folded=True),
            Row(title="Health", panels=_health(), folded=True),
        ),
        annotations=annotations.EVERY,
        variables=(pools(), namespaces(), *links.VARIABLES),
        links=links.of_dashboard(UID, "/", "Status page"),
    )


def by_gpu(metric: str, *matchers: str) -> str:
    """Return *metric* of the GPUs on the selected pools' nodes, without nodes that have just been removed."""
    return f"{of(metric, *matchers)} {ON_POOL}"


def over_a_cell(metric: str, *matchers: str, how: str = "avg") -> str:
    """Return *metric* over the time of one cell of a grid. It is a recording by GPU or workload whose series outlive
    pods, so a GPU that changed owners within a cell counts by time."""
    return f"{how}_over_time({of(metric, *matchers)}[$__rate_interval])"


GPU = "{{pool_name}} / {{node}} / {{gpu}} {{GPU_I_ID}} {{cluster}}"
MIB = 1024 * 1024  # bytes; DCGM exports NVLink's throughput in MiB/s, and not as the counter that it declares


def _now() -> tuple[Panel, ...]:
    offered = of("node_pool:gpu_allocatable:sum", POOL)
    silent = f"count({offered} unless on (cluster, node) {of('node_gpu:dcgm_utilization:ratio')})"
    share = f"sum({of('pool:gpu_allocated:sum', POOL)}) / (sum({of('pool:gpu_allocatable:sum', POOL)}) > 0)"
    idle = f"sum({of('pool:gpu_allocated_idle:sum', POOL)})"
    fatal = f"count(({by_gpu('node_gpu:dcgm_xid_fatal_timestamp_seconds:latest')}) > 0)"
    each = "cluster, gpu, UUID, GPU_I_ID, node"
    broken = " or ".join(
        f"max by ({each}) ({of(f'node_gpu:dcgm_{what}:max')} > 0)"
        for what in ("row_remap_failure", "uncorrectable_remapped_rows", "ecc_dbe")
    )
    return (
        gauge(
            "Fleet utilization",
            "Average over all GPUs and MIG instances of the selected pools. The target is 65-85 %: below it GPUs are "
            "paid for but unused, above it there is no room for bursts.",
            Target(expr=f"avg({by_gpu('node_gpu:dcgm_utilization:ratio')})", legend="fleet"),
            empty=NO_TELEMETRY,
            unit="percentunit",
            thresholds=looks.FLEET_VALUE,
            width=4,
            height=4,
        ),
        stat(
            "GPUs allocated",
            "Ratio of allocatable GPUs that pods hold, used or not. High while utilization is low: pods hold more "
            "than they use.",
            Target(expr=share, legend="allocated"),
            empty="No GPU in kube-state-metrics",
            unit="percentunit",
        ),
        stat(
            "Allocated but idle",
            "GPUs held by pods that used less than 5 % of them for an hour. The table below names the workloads.",
            Target(expr=or_zero(idle, MEASURED), legend="GPUs"),
            empty=NO_TELEMETRY,
            unit="short",
            thresholds=looks.steps(looks.GREEN, (1, looks.ORANGE)),
        ),
        stat(
            "Nodes without telemetry",
            "Nodes with GPUs and without utilization in dcgm-exporter. Above 0: the averages leave GPUs out.",
            Target(expr=or_zero(silent, LISTED), legend="nodes"),
            empty=NO_PODS,
            unit="short",
            thresholds=looks.steps(looks.GREEN, (1, looks.ORANGE)),
        ),
        stat(
            "GPUs with a fatal XID",
            "GPUs that are lost for their jobs until they are reset. The row Health names them. Should be 0.",
            Target(expr=or_zero(fatal, MEASURED), legend="GPUs"),
            empty=NO_TELEMETRY,
            unit="short",
            thresholds=looks.NONE_IS_GOOD,
        ),
        stat(
            "GPUs with memory errors",
            "GPUs with a failed row remapping, remapped uncorrectable rows, or uncorrected ECC errors. Should be 0.",
            Target(expr=or_zero(f"count({broken})", MEASURED), legend="GPUs"),
            empty=NO_TELEMETRY,
            unit="short",
            thresholds=looks.NONE_IS_GOOD,
        ),
    )


def _fleet() -> tuple[Panel, ...]:
    gpus = by_gpu("node_gpu:dcgm_utilization:ratio")

    def counted(name: str, within: str) -> Target:
        return Target(expr=or_zero(f"count(({gpus}) {within})", MEASURED), legend=name)

    return (
        timeseries(
            "Fleet utilization against its target",
            "Average of all GPUs and of each pool. The green band is the target of 65-85 %.",
            Target(expr=f"avg({gpus})", legend="fleet"),
            Target(expr=by_pool("pool:gpu_utilization:avg"), legend="{{pool_name}} {{cluster}}"),
            empty=NO_TELEMETRY,
            unit="percentunit",
            most=1,
            thresholds=looks.FLEET_TARGET,
            threshold_style="area",
            links=[links.POOL_PAGE],
            overrides=[looks.line("^fleet$", looks.TEXT, dashed=False)],
        ),
        timeseries(
            "GPUs by band",
            f"Number of GPUs and MIG instances per band. Look for red that lasts. {BANDS_TOLD}",
            counted("under 40 %", "< 0.4"),
            counted("40-70 %", ">= 0.4 < 0.7"),
            counted("70-90 %", ">= 0.7 <= 0.9"),
            counted("90-95 %", "> 0.9 <= 0.95"),
            counted("over 95 %", "> 0.95"),
            empty=NO_TELEMETRY,
            unit="short",
            decimals=0,
            stacked=True,
            steps=True,
            overrides=[
                looks.coloured("under 40 %", looks.RED),
                looks.coloured("40-70 %", looks.YELLOW),
                looks.coloured("70-90 %", looks.GREEN),
                looks.coloured("90-95 %", "light-yellow"),
                looks.coloured("over 95 %", "dark-red"),
            ],
        ),
    )


def _lowest() -> Panel:
    ran = f"avg_over_time({of('namespace_workload:gpu_utilization:avg', NAMESPACE)}[$__range])"
    lowest = f"bottomk(20, max by ({WORKLOAD}) ({ran}))"

    def beside(values: str) -> Target:
        return Target(expr=f"max by ({WORKLOAD}) ({values}) and on ({WORKLOAD}) {lowest}", table=True)

    return table(
        "Workloads with the lowest utilization",
        "The 20 workloads with the lowest average utilization in the selected time, running or ended: the most "
        "GPUs that each held, and those that have now been idle for an hour. Ask their owners for smaller "
        "requests.",
        Target(expr=or_unknown(lowest, MEASURED, "workload", "dcgm-exporter"), table=True),
        beside(f"max_over_time({of('namespace_workload:gpu_allocated:sum', NAMESPACE)}[$__range])"),
        beside(of("namespace_workload:gpu_allocated_idle:sum", NAMESPACE)),
        empty="No workload held a measured GPU",
        unit="short",
        width=24,
        height=7,
        columns={
            "namespace": "Namespace",
            "workload_kind": "Kind",
            "workload": "Workload",
            "cluster": "Cluster",
            "Value #A": "Utilization",
            "Value #B": "Most GPUs",
            "Value #C": "GPUs idle now",
        },
        overrides=[
            looks.column(
                "Utilization",
                unit="percentunit",
                thresholds=looks.BANDS,
                custom__cellOptions=looks.FILLED,
            )
        ],
    )


def _heat() -> tuple[Panel, ...]:
    course = over_a_cell("namespace_workload:gpu_utilization:avg", NAMESPACE)
    spaces = f"max by (cluster, namespace) ({of('namespace:gpu_utilization:avg', NAMESPACE)})"
    return (
        bands(
            "Utilization by GPU",
            "Each row is a GPU or MIG instance: pool, node, index, instance. Each cell is an average over its time. "
            f"{BANDS_TOLD} A gap: no telemetry. Look for rows that stay red.",
            Target(expr=f"{over_a_cell('node_gpu:dcgm_utilization:ratio')} {ON_POOL}", legend=GPU),
            empty=NO_TELEMETRY,
            unit="percentunit",
            thresholds=looks.BANDS,
            height=11,
        ),
        bands(
            "Utilization by workload",
            "Each row is a workload, averaged over the GPUs that its pods hold; it ends with the workload. "
            f"{BANDS_TOLD}",
            Target(expr=f"max by ({WORKLOAD}) ({course})", legend="{{namespace}} / {{workload}} {{cluster}}"),
            empty="No workload held a measured GPU",
            unit="percentunit",
            thresholds=looks.BANDS,
            width=14,
            height=9,
        ),
        timeseries(
            "Utilization by namespace",
            "Average over the GPUs that a namespace's pods hold, for the selected namespaces. Low lines: candidates "
            "for smaller or shared GPUs.",
            Target(expr=spaces, legend="{{namespace}} {{cluster}}"),
            empty="No workload held a measured GPU",
            unit="percentunit",
            most=1,
            width=10,
            height=9,
        ),
    )


def _memory() -> tuple[Panel, ...]:
    return (
        bands(
            "Memory used by GPU",
            "Used memory relative to used, free and reserved memory, the maximum within a cell. Yellow from 90 %, red "
            "from 97 %: the next allocation may fail.",
            Target(expr=f"{over_a_cell('node_gpu:dcgm_memory:ratio', how='max')} {ON_POOL}", legend=GPU),
            empty=NO_TELEMETRY,
            unit="percentunit",
            thresholds=looks.steps(looks.GREEN, (0.9, looks.AMBER), (0.97, looks.RED)),
            width=12,
            height=9,
        ),
        timeseries(
            "Memory used by pool and workload",
            "Average ratio of used memory. A line that only rises may be a leak.",
            Target(expr=by_pool("pool:gpu_memory:avg"), legend="pool {{pool_name}} {{cluster}}"),
            Target(
                expr=f"max by ({WORKLOAD}) ({of('namespace_workload:gpu_memory:avg', NAMESPACE)})",
                legend="{{namespace}} / {{workload}} {{cluster}}",
            ),
            empty=NO_TELEMETRY,
            unit="percentunit",
            most=1,
            width=12,
            height=9,
        ),
        timeseries(
            "Power by pool",
            "Watts that the GPUs of a pool draw. Look for idle pools that draw power.",
            Target(expr=by_pool("pool:gpu_power:sum"), legend="{{pool_name}} {{cluster}}"),
            empty=NO_TELEMETRY,
            unit="watt",
            stacked=True,
            width=12,
        ),
        timeseries(
            "Power by workload",
            "Watts of the GPUs that a workload holds. Look for workloads whose power falls while they hold the same "
            "GPUs. MIG instances have no power metric of their own.",
            Target(
                expr=f"max by ({WORKLOAD}) ({of('namespace_workload:gpu_power:sum', NAMESPACE)})",
                legend="{{namespace}} / {{workload}} {{cluster}}",
            ),
            empty="No workload held a measured GPU",
            unit="watt",
            stacked=True,
            width=12,
        ),
    )


def _health() -> tuple[Panel, ...]:
    known = "cluster, pool_name, node, gpu, UUID"
    xid = f"max by ({known}) (({by_gpu('node_gpu:dcgm_xid:max')}) > 0)"
    tensor, memory = (
        named(f"avg by (cluster, pool) ({by_gpu(f'node_gpu:dcgm_{what}:ratio')})") for what in ("tensor", "dram")
    )
    text = {"custom__cellOptions": {"type": "color-text"}}  # a cell without a value has no text
    return (
        timeseries(
            "Temperature",
            "Degrees Celsius by GPU. The alert GpuTemperatureHigh fires above 85 for 5 minutes.",
            Target(expr=by_gpu("node_gpu:dcgm_temperature:max"), legend=GPU),
            empty=NO_TELEMETRY,
            unit="celsius",
            thresholds=looks.TEMPERATURE,
            threshold_style="dashed",
            width=12,
        ),
        table(
            "Last XID by GPU",
            "GPUs that have reported an XID error, with its number, which stays until the driver or the exporter "
            "restarts. Fatal ones are in a column of their own: such a GPU is lost for its jobs.",
            Target(expr=or_unknown(xid, MEASURED, "node", "dcgm-exporter"), table=True),
            Target(expr=f"max by ({known}) ({by_gpu('node_gpu:dcgm_xid_fatal:max')})", table=True),
            empty="No XID error",
            unit="none",
            width=12,
            columns={
                "pool_name": "Pool",
                "cluster": "Cluster",
                "node": "Node",
                "gpu": "GPU",
                "UUID": "UUID",
                "Value #A": "XID",
                "Value #B": "Fatal",
            },
            overrides=[
                links.POOL_COLUMN,
                looks.column("XID", thresholds=looks.steps(looks.AMBER), **text),
                looks.column("Fatal", thresholds=looks.steps(looks.RED), **text),
            ],
        ),
        timeseries(
            "Tensor cores and memory bandwidth in use",
            "Average ratio of active cycles by pool. A busy GPU with both near 0 makes no progress: a spinning "
            "collective, or a waiting kernel.",
            Target(expr=tensor, legend="{{pool_name}} tensor {{cluster}}"),
            Target(expr=memory, legend="{{pool_name}} memory {{cluster}}"),
            empty="No profiling metrics",
            unit="percentunit",
            most=1,
            width=12,
        ),
        timeseries(
            "NVLink",
            "Bytes per second over all links of a GPU, sent and received. Look for GPUs of one job that differ, and "
            "for 0 during training.",
            Target(expr=f"{MIB} * {by_gpu('node_gpu:dcgm_nvlink_bandwidth:max')}", legend=GPU),
            empty="No NVLink metrics",
            unit="Bps",
            width=12,
        ),
    )
