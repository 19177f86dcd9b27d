"""Every GPU node as a row of a table."""

from tools.dashboards import links, looks
from tools.dashboards.model import Panel, Target
from tools.dashboards.panels import table, values
from tools.dashboards.promql import KUBE_STATE_METRICS, POOL, named, of

MEMBERS = of("node_pool:kube_node_labels:relabel", POOL)
GPU_NODES = named(f"group by (cluster, node, pool) ({MEMBERS} and on (cluster, pool) {of('pool:gpu_pool:relabel')})")
ON_NODE = f"* on (cluster, node) group_left (pool, pool_name) ({GPU_NODES})"


def panels() -> tuple[Panel, ...]:
    """Return the table."""
    created = f"max by (cluster, node) ({of('kube_node_created', KUBE_STATE_METRICS)})"
    price = f"max by (cluster, pool) ({of('pool:gpu_node_price_usd_per_hour:max', POOL)})"
    offered = f"max by (cluster, node) ({of('node_pool:gpu_allocatable:sum', POOL)})"
    held = f"max by (cluster, node) ({of('node:gpu_allocated:sum')})"
    paid, idle = (
        f"max by (cluster, node) ({of(f'gpu_autoscaler_node_{what}_timestamp_seconds', POOL)})"
        for what in ("paid_until", "idle_since")
    )
    columns = {
        "Age": f"(time() - {created}) {ON_NODE}",
        "Per hour": f"({GPU_NODES}) * on (cluster, pool) group_left () {price}",
        "GPUs": f"{offered} {ON_NODE}",
        "Held": f"({held} or on (cluster, node) 0 * {offered}) {ON_NODE}",
        "Paid time left": f"({paid} - time()) {ON_NODE}",
        "Idle for": f"(time() - {idle}) {ON_NODE}",
    }
    return (
        table(
            "Nodes now",
            "Every node of the selected GPU pools: its age, its price, the GPUs that it offers and that pods hold, the "
            "rest of its paid unit of time, and for how long it has had no GPU pod. Look for old nodes without GPUs, "
            "and for idle ones whose paid time was extended.",
            *(Target(expr=expr, table=True) for expr in columns.values()),
            empty="No node of a GPU pool in kube-state-metrics",
            unit="s",
            width=24,
            height=12,
            sort="Idle for",
            columns={
                "pool_name": "Pool",
                "cluster": "Cluster",
                "node": "Node",
                **values(columns),
            },
            overrides=[
                links.POOL_COLUMN,
                looks.column("Per hour", unit="currencyUSD", decimals=2),
                looks.column("GPUs", unit="short", decimals=0),
                looks.column("Held", unit="short"),
            ],
        ),
    )
