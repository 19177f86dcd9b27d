"""The stages of a node's provisioning: how long each took, for the histograms of /metrics."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from receiver.core.model.memory import NodeLife

# Stage: (where it begins, where it ends), as fields of NodeLife. `start` is the image pull of the first GPU pod.
STAGES = {
    "build": ("created_at", "active_at"),
    "boot": ("active_at", "ready_at"),
    "driver": ("ready_at", "usable_at"),
    "start": ("bound_at", "running_at"),
    "total": ("created_at", "usable_at"),
}
UPPER_BOUNDS = (5, 15, 30, 60, 120, 180, 300, 420, 600, 900, 1200, 1800)  # seconds
BUCKETS = (*(f"{bound}.0" for bound in UPPER_BOUNDS), "+Inf")  # as Prometheus writes the label `le`
A_MILLISECOND = timedelta(milliseconds=1)


def passed(before: NodeLife | None, after: NodeLife, first_seen: datetime) -> Iterator[tuple[str, int]]:
    """Yield each stage that ended between *before* (None: not known yet) and *after*, with its milliseconds.

    A stage whose beginning or end nobody watched is left out: what a node had behind it when it was *first_seen*
    was over at an unknown time (the cloud dates only its creation). A clock that was set back makes it 0 long.
    """
    for stage, (begins, ends) in STAGES.items():
        began, ended = getattr(after, begins), getattr(after, ends)
        if began is None or ended is None or (before is not None and getattr(before, ends) is not None):
            continue
        if ended > first_seen and (begins == "created_at" or began > first_seen):
            yield stage, max(0, (ended - began) // A_MILLISECOND)


def bucket(milliseconds: int) -> str:
    """Return the smallest of BUCKETS that *milliseconds* fit into."""
    return next(b for b in BUCKETS if milliseconds <= float(b) * 1000)
