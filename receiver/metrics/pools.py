"""What /metrics says of why a pool is as it is: windows that are open, and the rules that held its last decision."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import Metric

from receiver.core.model.policy import Pool
from receiver.metrics.families import gauge


def holding(known: Sequence[tuple[Pool, Mapping[str, Any]]]) -> Iterator[Metric]:
    """Yield both families for pools with what the last step's picture says of each."""
    opened = [
        ((pool.id, window.name), float(window.name in (entry.get("windows") or ())))
        for pool, entry in known
        if entry
        for window in pool.windows
    ]
    yield gauge("pool_window_open", "Whether a window of a pool is open (1) or not (0).", opened, "pool", "window")
    rules = {(pool.id, str(rule)) for pool, entry in known for rule in entry.get("held_by") or ()}
    text = "1 for each rule that took something from the last decision; absent where none did."
    yield gauge("pool_held_by", text, [(labels, 1.0) for labels in sorted(rules)], "pool", "rule")
