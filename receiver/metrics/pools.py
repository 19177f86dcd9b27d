"""What /metrics says of pools: windows, the rules that held the last decision, what is waited for, and the policy.

The operator's policy and configuration stand here too, for alert rules to compare with.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from receiver.config.live import ConfigurationFile, LiveSecrets
from receiver.core.model.policy import Policy, Pool
from receiver.core.scaling.waits import Direction, Shortage, WaitKind, shortage_of
from receiver.metrics.families import gauge
from receiver.reports.picture import PoolDocument

Known = Sequence[tuple[Pool, PoolDocument]]  # each pool that the picture has, with what it says


def holding(known: Known) -> Iterator[Metric]:
    """Yield both families."""
    opened = [
        ((pool.id, window.name), float(window.name in shown.windows))
        for pool, shown in known
        for window in pool.windows
    ]
    yield gauge("pool_window_open", "Whether a window of a pool is open (1) or not (0).", opened, "pool", "window")
    rules = sorted({(pool.id, rule) for pool, shown in known for rule in shown.held_by})
    text = "1 for each rule that took something from the last decision; absent where none did."
    yield gauge("pool_held_by", text, [(labels, 1.0) for labels in rules], "pool", "rule")


def waiting(known: Known, now: datetime) -> Iterator[Metric]:
    """Yield every family of what pools wait for."""
    failed = {pool.id: [w for w in shown.waits if w.kind == WaitKind.BACKOFF] for pool, shown in known}
    rows = [((pool,), float(bool(found))) for pool, found in failed.items()]
    yield gauge("pool_backoff", "Whether a pool backs off after failures (1).", rows, "pool")
    causes = {
        pool: {shortage_of(wait.reason) for wait in found if wait.direction == Direction.GROW}
        for pool, found in failed.items()
    }
    why = [((pool, cause.value), float(cause in found)) for pool, found in causes.items() for cause in Shortage]
    text = "Whether a pool's growth backs off for this cause (1) or not (0)."
    yield gauge("pool_backoff_cause", text, why, "pool", "cause")
    latest: dict[tuple[str, str, str], float] = {}
    for labels, until in (
        ((pool.id, w.direction, w.kind), w.until.timestamp()) for pool, shown in known for w in shown.waits if w.until
    ):
        latest[labels] = max(latest.get(labels, 0.0), until)
    text = "When a cooldown or back-off of a pool ends (Unix seconds); absent when none holds."
    yield gauge("pool_wait_until_timestamp_seconds", text, latest.items(), "pool", "direction", "kind")
    since = [(pool.id, shown.awaited_since) for pool, shown in known]
    ages = [((pool,), max(0.0, (now - at).total_seconds()) if at else 0.0) for pool, at in since]
    text = "How long the oldest node on its way has been awaited, in seconds; 0 when none is."
    yield gauge("pool_awaited_seconds", text, ages, "pool")


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


class OnDisk(Collector):
    """Whether what is on the disk could be used, and whether it is what runs; 0 before it is watched."""

    def __init__(self) -> None:
        self._state: Callable[[], tuple[bool, bool, bool]] = lambda: (False, False, False)

    def watch(self, secrets: LiveSecrets, file: ConfigurationFile) -> None:
        """Ask *secrets* and *file* from now on."""

        def state() -> tuple[bool, bool, bool]:
            secrets.tokens()  # looks at the files
            return file.refused, secrets.refused, file.differs

        self._state = state

    def collect(self) -> Iterator[Metric]:
        """Yield every family once."""
        file, secrets, differs = self._state()
        yield gauge(
            "configuration_refused",
            "Whether what is on the disk cannot be used (1) or can (0): the configuration file, the files of secrets.",
            [(("file",), float(file)), (("secrets",), float(secrets))],
            "part",
        )
        yield gauge(
            "configuration_differs",
            "Whether the configuration file on the disk is another one than the one that runs (1) or not (0).",
            [((), float(differs))],
        )
