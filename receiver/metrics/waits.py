"""What /metrics says of that for which a pool waits: nodes on their way, cooldowns, back-offs and their causes."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from prometheus_client.core import Metric

from receiver.core.model.policy import Pool
from receiver.core.scaling.capacity import Shortage, shortage_of
from receiver.core.scaling.recheck_times import Direction, WaitKind
from receiver.metrics.families import gauge, moment

Known = Sequence[tuple[Pool, Mapping[str, Any]]]  # each pool with what the picture says of it, empty for nothing


def waiting(known: Known, now: datetime) -> Iterator[Metric]:
    """Yield every family."""
    seen = [(pool, entry) for pool, entry in known if entry]
    failed = {pool.id: [w for w in _waits(entry) if w.get("kind") == WaitKind.BACKOFF] for pool, entry in seen}
    away = [((pool,), float(bool(found))) for pool, found in failed.items()]
    yield gauge("pool_backoff", "Whether a pool backs off after failures (1).", away, "pool")
    causes = {pool: {_cause(w) for w in found} for pool, found in failed.items()}
    rows = [((pool, cause.value), float(cause in found)) for pool, found in causes.items() for cause in Shortage]
    text = "Whether a pool's growth backs off for this cause (1) or not (0)."
    yield gauge("pool_backoff_cause", text, rows, "pool", "cause")
    yield _waits_until(known)
    since = [(pool.id, moment(entry.get("awaited_since"))) for pool, entry in seen]
    ages = [((pool,), max(0.0, (now - at).total_seconds()) if at else 0.0) for pool, at in since]
    text = "How long the oldest node on its way has been awaited, in seconds; 0 when none is."
    yield gauge("pool_awaited_seconds", text, ages, "pool")


def _cause(wait: Mapping[str, Any]) -> Shortage | None:
    """Why growth backs off; None for a removal that does."""
    return shortage_of(str(wait.get("reason"))) if wait.get("direction") == Direction.GROW else None


def _waits(entry: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return entry.get("waits") or ()


def _waits_until(known: Known) -> Metric:
    """The latest end of what holds each direction of a pool for a while; nothing where nothing does."""
    latest: dict[tuple[str, str, str], float] = {}
    for pool, entry in known:
        for wait in _waits(entry):
            labels = (pool.id, str(wait.get("direction")), str(wait.get("kind")))
            until = moment(wait.get("until"))
            if until is not None:
                latest[labels] = max(latest.get(labels, 0.0), until.timestamp())
    text = "When a cooldown or back-off of a pool ends (Unix seconds); absent when none holds."
    return gauge("pool_wait_until_timestamp_seconds", text, latest.items(), "pool", "direction", "kind")
