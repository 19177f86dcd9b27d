"""What the operator said, as /metrics exports it for the alert rules to compare with."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from receiver.core.model.policy import Policy
from receiver.metrics.families import gauge


def thresholds(policy: Policy) -> Iterator[Metric]:
    """Yield every threshold of *policy*; a limit that is not set has no series, and the rules have a default."""
    pools = policy.pools
    high = [((p.id,), p.utilization_high) for p in pools]
    low = [((p.id,), p.utilization_low) for p in pools]
    yield gauge("policy_utilization_high_ratio", "Utilization above which a pool is kept (0-1).", high, "pool")
    yield gauge("policy_utilization_low_ratio", "Utilization below which a pool may shrink (0-1).", low, "pool")
    under = [((p.id,), p.underutilized) for p in pools]
    unused = [((p.id,), p.idle) for p in pools]
    hot = [((p.id,), p.temperature_celsius) for p in pools]
    text = "Utilization below which people are told of a workload (0-1)."
    yield gauge("policy_underutilized_ratio", text, under, "pool")
    yield gauge("policy_idle_ratio", "Utilization below which a GPU that is held is idle (0-1).", unused, "pool")
    yield gauge("policy_temperature_celsius", "Degrees above which people are told of a GPU.", hot, "pool")
    timeouts = [((p.id,), p.provision_timeout.total_seconds()) for p in pools]
    text = "How long a new node may take until its GPUs are allocatable, in seconds."
    yield gauge("policy_provision_timeout_seconds", text, timeouts, "pool")
    waits = [((name,), longest.total_seconds()) for name, longest in policy.queue_wait.items()]
    text = "How long a GPU pod of a priority class may wait before people are told, in seconds."
    yield gauge("policy_queue_wait_seconds", text, waits, "priority_class")
    idle = [((), float(policy.idle_cost_usd_per_hour))]
    yield gauge("policy_idle_cost_usd_per_hour", "USD per hour of idle GPUs from which people are told.", idle)
    most = policy.limits.max_growth_per_hour
    text = "Nodes that all pools together may be asked for within an hour; absent without a limit."
    yield gauge("policy_max_growth_per_hour", text, [((), most)] if most is not None else [])
