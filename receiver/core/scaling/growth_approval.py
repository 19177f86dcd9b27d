"""How far a pool may grow before people are asked (`approval.growth_above_usd_per_hour`)."""

from collections.abc import Iterable
from datetime import datetime

from receiver.core.model.approval_request import Question, growth_known, growth_let_go
from receiver.core.model.model import ON_ITS_WAY, PoolState
from receiver.core.model.policy import Pool
from receiver.core.scaling.bounds import BoundsInForce


def grows_unasked(
    target: int,
    pool: Pool,
    state: PoolState,
    bounds: BoundsInForce,
    questions: Iterable[Question],
    now: datetime,
) -> int:
    """Return the size up to *target* (nodes) that needs no further answer; at least the present size."""
    mine = tuple(q for q in questions if q.pool == pool.id)
    said = bounds.min_nodes if bounds.spoken.least is not None else 0  # by a person's pin or floor
    if not _costs_much(target, pool, state, max(growth_known(mine, now), said)):
        return target
    return min(target, max(state.required, growth_let_go(mine, now), said))


def _costs_much(target: int, pool: Pool, state: PoolState, stood_for: int) -> bool:
    """True when the new nodes that no answer and no person's word stands for cost more than the pool's policy lets go.

    Nodes that are on their way are new too, or growth by one node after the other would never be asked about.
    """
    policy, price = pool.approval, pool.price_usd_per_hour
    if target <= state.required or policy is None or policy.growth_above_usd_per_hour is None or price is None:
        return False
    under_way = len(state.of(*ON_ITS_WAY)) + state.unlisted
    known = max(state.required - under_way, min(state.required, stood_for))
    return (target - known) * price > policy.growth_above_usd_per_hour
