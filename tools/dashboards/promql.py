"""Common parts of queries."""

NAMES = "pool:gpu_autoscaler_pool_info:latest"
KUBE_STATE_METRICS = 'job="kube-state-metrics"'
POOL = 'pool=~"$pool"'
ANY_POOL = 'pool=~"$pool|unassigned"'  # also pods without a pool
NAMESPACE = 'namespace=~"$namespace"'


CLUSTER = 'cluster=~"$cluster"'


def of(metric: str, *matchers: str, **equal: str) -> str:
    """Return a selector of *metric* in the cluster that was chosen; `.*` of "All" also takes series without one.

    *matchers* are taken as they are, *equal* are labels with the value that they must have.
    """
    exact = (f'{label}="{value}"' for label, value in equal.items())
    return f"{metric}{{{', '.join((CLUSTER, *matchers, *exact))}}}"


def named(expression: str) -> str:
    """Return *expression*, whose result has one series or more by pool, with the label `pool_name` joined in.

    A pool that the receiver does not tell of, or all of them where it is not installed, goes by its id. Ids are unique
    among clusters, names are not: *expression* keeps the label `cluster`, if there is one.
    """
    return (
        f"({expression}) * on (pool) group_left (pool_name) ("
        f"group by (pool, pool_name) ({of(NAMES)}) or on (pool) "
        f'label_replace(group by (pool) ({expression}), "pool_name", "$1", "pool", "(.+)"))'
    )


def told(expression: str) -> str:
    """Return *expression* over series of the receiver with `pool_name` joined in: it tells the names as well."""
    return f"({expression}) * on (pool) group_left (pool_name) group by (pool, pool_name) ({of(NAMES)})"


def by_pool(metric: str) -> str:
    """Return a recording by pool with the pool's name."""
    return named(f"max by (cluster, pool) ({of(metric, POOL)})")


def growth(counter: str, *matchers: str, window: str = "$__rate_interval", **equal: str) -> str:
    """Return by how much each series of *counter* has grown within *window* since it last began at 0.

    Not `increase`, `rate` or `changes`: PromQL extrapolates the first two, and in MetricsQL the first sample of a
    series counts.
    """
    series = of(counter, *matchers, **equal)
    return f"(last_over_time({series}[{window}]) - min_over_time({series}[{window}]))"


def quantile(share: float, histogram: str, by: str = "") -> str:
    """Return the *share* quantile (0-1) of a histogram's last minutes, by the labels *by* (comma-separated)."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share:g}, sum by ({labels}) {growth(f'{histogram}_bucket')})"


def happened(counter: str, *matchers: str, by: str = "", **equal: str) -> str:
    """Return a counter's number of events since the previous point, by the labels *by* (comma-separated)."""
    grown = growth(counter, *matchers, **equal)
    return f"sum by ({by}) {grown}" if by else f"sum{grown}"


def kept(counter: str, *matchers: str, own: str = "", by: str = "", **equal: str) -> str:
    """Return as :func:`happened` what is counted in the receiver's database, by the labels *by* out of its *own* ones.

    Every process on one database shows the same count, so of several the one counts that has seen most of it.
    """
    labels = f"cluster, {own}" if own else "cluster"
    most = f"(max by ({labels}) {growth(counter, *matchers, **equal)})"
    return f"sum by ({by}) {most}" if by else f"sum{most}"


def summed(metric: str, *matchers: str, own: str = "", by: str = "", **equal: str) -> str:
    """Return the sum over clusters of a gauge, by the labels *by* out of its *own* ones (comma-separated).

    Every process on one database, and so in one cluster, shows the same value.
    """
    labels = f"cluster, {own}" if own else "cluster"
    values = f"(max by ({labels}) ({of(metric, *matchers, **equal)}))"
    return f"sum by ({by}) {values}" if by else f"sum{values}"


# What is there whenever its exporter is scraped, and what a panel says where it is not.
LISTED = of("up", KUBE_STATE_METRICS) + " == 1"  # pods and nodes
NO_GPUS = f"({LISTED} unless on () {of('node_pool:gpu_allocatable:sum')})"
MEASURED = f"({of('node_gpu:dcgm_temperature:max')} or on () {NO_GPUS})"  # GPUs, where nodes offer any
STEPPED = of("gpu_autoscaler_step_age_seconds")  # the receiver, after its first step
NO_PODS = "No data from kube-state-metrics"
NO_TELEMETRY = "No GPU in dcgm-exporter"
NO_RECEIVER = "No data from the receiver"


def or_zero(expression: str, source: str, label: str = "") -> str:
    """Return *expression*, and 0 where it has nothing to tell although *source* is there: none is not unknown.

    With a *label*, its value is `none` then.
    """
    zero = f"0 * group({source})"
    return f"{expression} or on () " + (f'label_replace({zero}, "{label}", "none", "", "")' if label else zero)


def or_unknown(expression: str, source: str, label: str, exporter: str) -> str:
    """Return *expression* for a table that is empty when all is well: a row whose *label* says so where *source* is
    missing."""
    return f'{expression} or on () label_replace(0 * absent({source}), "{label}", "no data from {exporter}", "", "")'
