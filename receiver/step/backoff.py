"""How long a pool leaves off what failed."""

import hashlib
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.core.model.actions import Action, ActionKind
from receiver.core.model.model import Backoff, PoolState
from receiver.core.scaling.capacity import LONGEST_GROWTH_BACKOFF

FIRST_BACKOFF = timedelta(minutes=1)
FIRST_REMOVAL_BACKOFF = timedelta(minutes=5)
LONGEST_BACKOFF = timedelta(minutes=30)
COUNT_STUCK_BACKOFF = timedelta(hours=24)  # removals that Civo answers with replacements only cost money


def next_backoff(action: Action, state: PoolState, reason: str, now: datetime) -> Backoff:
    """The pool's next back-off from growth (1 to 30 minutes) or from removal (5 to 30), doubling.

    It is spread by up to a tenth, so that pools do not retry as one. Growth that fails during a back-off from growth is
    a smaller request after a refusal: that back-off goes on.
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
    """True when the pool of *state* backs off from growth: what it asks for now is fewer than Civo has just refused."""
    return state.backoff is not None and state.backoff.holds(now, LONGEST_GROWTH_BACKOFF)


def after_part(action: Action, state: PoolState, now: datetime) -> Backoff | None:
    """The back-off of a pool in which *action* has got some nodes of those that Civo refused; None for any other.

    It begins anew: there is stock now and then, so the rest is asked for in a minute.
    """
    if not is_smaller_request(state, now):
        return None
    assert state.backoff is not None
    return next_backoff(action, replace(state, backoff=None), state.backoff.reason, now)


def removals_stopped(why: str, now: datetime) -> Backoff:
    """The back-off of a pool whose removals Civo does not answer by one node less: each would only cost money."""
    return Backoff(failures=1, until=now + COUNT_STUCK_BACKOFF, reason=why)
