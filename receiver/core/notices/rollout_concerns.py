"""Rolling updates that wait for themselves: a person has to change the update or the pool."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from receiver.core.explain.explain import room_for
from receiver.core.explain.rollouts import Rollout, Rollouts
from receiver.core.model.model import PoolState
from receiver.core.model.pods import Workload
from receiver.core.model.policy import Pool
from receiver.core.notices.notice import Cause, Concern, Level, Seen, Severity
from receiver.core.scaling.wanted import Wanted

MOST_TOLD = 3  # of one pool, each with its own remedy
GUIDE = "troubleshooting.md#a-rolling-update-does-not-end"


def deadlocks(waiting: Iterable[Workload], state: PoolState, now: datetime) -> Mapping[str, Rollout]:
    """Return, by key, those of the *waiting* workloads whose rolling update waits for itself."""
    rollouts = Rollouts(state.nodes, now)
    pairs = ((work.key, rollouts.of(work)) for work in waiting)
    return {key: rollout for key, rollout in pairs if rollout is not None and rollout.deadlocked}


def of_deadlocks(
    updates: Iterable[Rollout], pool: Pool, wanted: Wanted, rule: str, how_far: str, seen: Seen
) -> Iterator[Concern]:
    """Yield a concern for each of *updates* whose controller has had its time; *rule* keeps *pool* from growing for
    them, and *how_far* says so. A message is sent once per version."""
    settled = {rollout.series: rollout for rollout in updates if rollout.settled}
    for series in sorted(settled, key=str)[:MOST_TOLD]:
        yield Concern(
            kind=Cause.HELD,
            level=Level.BAD,
            severity=Severity.WARNING,  # the version before goes on running: that wakes no person
            what=str(settled[series]),
            title=f"GPU pool {pool.name}: the rolling update of {series} waits for itself",
            why=f"{settled[series].cause}; the pool {how_far}",
            doing="its old pods go on running, and it does not end by itself",
            todo=f"To end it, {settled[series].remedy(room_for(rule, pool, wanted))}",
            guide=GUIDE,
            decision=seen.numbers.get(pool.id),
            topic=f"rollout:{pool.id}:{series}",
            key=settled[series].version,
        )
