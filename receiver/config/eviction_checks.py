"""What must hold of a window that evicts running work."""

from collections.abc import Iterator
from datetime import timedelta

from receiver.config.mistakes import Finding, Path
from receiver.config.model import PoolSpec
from receiver.config.schedule import WindowSpec
from receiver.core.model.text import lasting

SHORTEST_GRACE = timedelta(minutes=5)  # what people need to read a message and to act on it
A_DAY = 24 * 60


def evictions(pool: PoolSpec, window: WindowSpec, here: Path, path: Path) -> Iterator[Finding]:
    """Yield what makes *evict_after* of *window* meaningless or dangerous."""
    grace, mine = window.evict_after, (*path, "evict_after")
    if grace is None:
        return
    if window.max_nodes is None:
        yield Finding(
            path=mine,
            problem="needs max_nodes: only what runs beyond a maximum is evicted",
            remedy="give the window max_nodes, or remove evict_after",
            over=((*path, "max_nodes"),),
        )
    elif window.max_nodes >= pool.max_nodes:
        yield Finding(
            path=mine,
            problem=f"would never evict: max_nodes ({window.max_nodes}) is not below the pool's ({pool.max_nodes})",
            remedy="lower the window's max_nodes, or remove evict_after",
            over=((*path, "max_nodes"), (*here, "max_nodes")),
        )
    if grace < SHORTEST_GRACE:
        yield Finding(
            path=mine,
            problem=f"{lasting(grace)} is too short for anybody to act on the notice",
            remedy=f"write at least {lasting(SHORTEST_GRACE)}",
        )
    elif (longest := _longest(window)) is not None and grace >= longest:
        yield Finding(
            path=mine,
            problem=f"{lasting(grace)} is not over before the window closes: it is open for {lasting(longest)} at most",
            remedy="shorten evict_after, or the window is open too short to evict anything",
            over=((*path, "times"),),
        )


def _longest(window: WindowSpec) -> timedelta | None:
    """How long *window* is open at a stretch at most; None when nothing but its days bounds it."""
    minutes = sum(max(0, t.end_time - t.start_time) for t in window.times)
    return timedelta(minutes=minutes) if 0 < minutes < A_DAY else None
