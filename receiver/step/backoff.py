"""Exponential backoff of a pool from growth or removal after a failure."""

import hashlib
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.core.model.actions import Action, ActionKind
from receiver.core.model.model import Backoff, PoolState
from receiver.core.scaling.waits import LONGEST_GROWTH_BACKOFF

FIRST_BACKOFF = timedelta(minutes=1)
FIRST_REMOVAL_BACKOFF = timedelta(minutes=5)
LONGEST_BACKOFF = timedelta(minutes=30)
COUNT_STUCK_BACKOFF = timedelta(hours=24)  # removals that Civo answers with replacements only cost money


def next_backoff(action: Action, state: PoolState, reason: str, now: datetime) -> Backoff:
    """The pool's next backoff from growth (1 to 30 minutes) or from removal (5 to 30 minutes), doubling.

    Up to a tenth is added as jitter, so that pools do not retry together. A growth that fails during a backoff from
    growth was a smaller request after a refusal: the backoff that holds goes on.
    """
    grow = action.kind is ActionKind.GROW
    if grow and is_smaller_request(state, now):
        assert state.backoff is not None
        return replace(state.backoff, reason=reason)
    last, first = (state.backoff, FIRST_BACKOFF) if grow else (state.removal_backoff, FIRST_REMOVAL_BACKOFF)
    failures = (last.failures if last else 0) + 1
    base = min(first * 2 ** min(failures - 1, 10), LONGEST_BACKOFF)
    spread = hashlib.sha256(action.id.encode()).digest()[0] / 255 * 0.1
    return Backoff(failures=failures, until=now + base * (1 + spread), reason=reason)


def is_smaller_request(state: PoolState, now: datetime) -> bool:
    """True while the pool backs off from growth: a request made now is for fewer nodes than Civo just refused."""
    return state.backoff is not None and state.backoff.holds(now, LONGEST_GROWTH_BACKOFF)


def after_part(action: Action, state: PoolState, now: datetime) -> Backoff | None:
    """The backoff of a pool that got some of the nodes that Civo had refused; None for any other pool.

    It starts again at one minute: some stock is there, so the rest is worth another request soon.
    """
    if not is_smaller_request(state, now):
        return None
    assert state.backoff is not None
    return next_backoff(action, replace(state, backoff=None), state.backoff.reason, now)


def removals_stopped(why: str, now: datetime) -> Backoff:
    """The backoff of a pool whose removed nodes Civo replaces: each removal would only cost money."""
    return Backoff(failures=1, until=now + COUNT_STUCK_BACKOFF, reason=why)
