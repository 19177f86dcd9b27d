"""Nodes on their way: which never came, which broke, how many may be tried after that; and drift of Civo's node count.

Civo's required count tells whether a removed node was replaced, and whether someone else changed the count.
"""

from datetime import datetime, timedelta

from receiver.core.model.actions import Action, ActionKind, VictimStage
from receiver.core.model.memory import PoolMemory
from receiver.core.model.model import ON_ITS_WAY, Drift, LateCount, Node, PoolState, Stage
from receiver.core.model.policy import Pool
from receiver.core.model.text import some

LONGEST_PROVISIONING_BACKOFF = timedelta(hours=27)


def unlisted_too_long(pool: Pool, state: PoolState, now: datetime) -> bool:
    """True when Civo was asked for nodes longer than the provision timeout ago and still lists fewer."""
    since = state.required_since
    return state.unlisted > 0 and since is not None and now - since > pool.provision_timeout


def stuck_nodes(pool: Pool, state: PoolState, now: datetime) -> tuple[Node, ...]:
    """The nodes that did not become usable in time, or came up broken."""
    new = (n for n in state.living if not n.was_usable)
    late = pool.provision_timeout
    return tuple(
        n
        for n in new
        if (n.stage is Stage.BROKEN and not n.vanished)
        or ((n.stage in ON_ITS_WAY or n.vanished) and now - n.created_at > late)
    )


def dead_nodes(pool: Pool, state: PoolState, now: datetime) -> tuple[Node, ...]:
    """The nodes that had their time and are certain not to be usable.

    While Kubernetes lists nodes that match no instance, a node that it does not know is not dead. One that vanished
    from Kubernetes needs no time.
    """
    stuck = [n for n in stuck_nodes(pool, state, now) if not n.vanished]
    new = [n for n in stuck if now - n.watched_since > pool.provision_timeout]
    new += [n for n in state.living if n.vanished]
    return tuple(n for n in (*new, *lost_nodes(pool, state, now)) if n.registered or not state.unjoined)


def lost_nodes(pool: Pool, state: PoolState, now: datetime) -> tuple[Node, ...]:
    """The nodes that were usable, broke, and did not recover within the provision timeout."""
    broken = (n for n in state.living if n.was_usable and n.stage is Stage.BROKEN)
    return tuple(n for n in broken if n.lost_at is not None and now - n.lost_at > pool.provision_timeout)


def awaited_since(state: PoolState) -> datetime | None:
    """Since when the pool waits for its oldest node on the way, or for nodes that Civo does not list, or None."""
    coming = [n for n in state.living if not n.was_usable and (n.stage in ON_ITS_WAY or n.stage is Stage.BROKEN)]
    since = [n.watched_since for n in coming]
    if state.unlisted > 0 and state.required_since is not None:
        since.append(state.required_since)
    return min(since, default=None)


def stuck_on_the_way(pool: Pool, state: PoolState, now: datetime) -> tuple[str, ...]:
    """Names of the nodes that did not become usable in time or came up broken, and those Civo never built."""
    late = [n.name for n in stuck_nodes(pool, state, now)]
    missing = [f"{some(state.unlisted, 'node')} that Civo does not list"] if unlisted_too_long(pool, state, now) else []
    return (*late, *missing)


def probes_left(state: PoolState, now: datetime) -> int | None:
    """New nodes that a pool may request after nodes that never became usable; None when all is well.

    While it backs off from provisioning: none. After that one node on trial, until one becomes usable: a pool whose
    GPUs never come would otherwise cost a whole paid unit per waiting node, again and again.
    """
    if state.provisioning is None:
        return None
    if state.provisioning.holds(now, LONGEST_PROVISIONING_BACKOFF):
        return 0
    return max(0, 1 - len(state.coming) - state.unlisted)


MUST_FALL_WITHIN = timedelta(minutes=15)  # after a removal; longer than that is no delay
UNDOINGS = 3
IN_A_DAY = timedelta(hours=24)
GIVES_WAY_FOR = timedelta(hours=24)
UNDONE_WITHIN = timedelta(hours=1)  # a change against ours within this time reverts it


def expected_count(late: LateCount | None, shown: int, now: datetime) -> int:
    """The nodes requested when Civo shows *shown*: a change of ours counts before Civo shows it."""
    return late.expected if late is not None and is_late(late, shown) and not is_overdue(late, now) else shown


def is_late(late: LateCount, shown: int) -> bool:
    """True while Civo's count is still moving to our change; any other number was set by others."""
    if late.expected < late.shown:
        return late.expected < shown <= late.shown
    return late.shown <= shown < late.expected


def is_overdue(late: LateCount, now: datetime) -> bool:
    """True when the count should have fallen by *now*."""
    return now - late.since > MUST_FALL_WITHIN


def why_removals_stop(late: LateCount | None, shown: int, living: int, now: datetime) -> str | None:
    """Say how Civo answered a removal with something other than one node less, or None.

    Removals that are answered with replacements only cost money.
    """
    if late is None or not late.expected < shown <= late.shown:
        return None
    if living > late.expected:
        return f"Civo replaced a removed node: {living} nodes where {late.expected} were left"
    if is_overdue(late, now):
        minutes = int(MUST_FALL_WITHIN.total_seconds() // 60)
        return f"the count of {shown} did not fall to {late.expected} within {minutes} minutes of a removal"
    return None


def late_after(action: Action, state: PoolState, now: datetime) -> LateCount | None:
    """What a removal that ends now leaves uncounted: None when Civo's count fell, or was raised by others meanwhile.

    If no step ran for longer than a count takes to fall, the count of now says nothing about the removal.
    """
    if action.kind is not ActionKind.RETIRE:
        return None
    went = [v.since for v in action.victims if v.stage in (VictimStage.DELETED, VictimStage.GONE)]
    removed, known = len(went), [since for since in went if since is not None]
    if known and now - max(known) > 2 * MUST_FALL_WITHIN:
        return None
    left, shown = action.from_count - removed, state.required + state.uncounted
    raised = shown > action.from_count + state.uncounted
    if not removed or raised or shown <= left:
        return None
    return LateCount(expected=left, shown=shown, since=now)


def drift(past: PoolMemory | None, shown: int, now: datetime, unanswered: int = 0) -> Drift | None:
    """The change of a pool's count since the last step that none of our own actions explains, or None.

    *unanswered* is the highest count of growth that ended without an answer: Civo may show it now.
    """
    if past is None or past.required_since is None or shown == past.required:
        return None
    low, high = past.required, max(past.required, unanswered)
    if past.late is not None:
        low, high = min(low, past.late.expected), max(high, past.late.expected)
    action = past.open_action
    if action is not None and action.kind is ActionKind.GROW:
        high = max(high, action.to_count)
    if _within(past.last_shrink_at, MUST_FALL_WITHIN, now) or (action and action.kind is ActionKind.RETIRE):
        low = 0  # removals show late and one by one
    if low <= shown <= high:
        return None
    against = past.last_shrink_at if shown > past.required else past.last_grow_at
    undoes = _within(against, UNDONE_WITHIN, now)
    return Drift(at=now, from_count=past.required, to_count=shown, undoes=undoes)


def undone_by_others(state: PoolState, now: datetime, *, grows: bool) -> datetime | None:
    """Until when a pool does not grow, or does not shrink, because others keep reverting that; None: it may.

    Two programs that correct each other only cost money: after the third time in a day the other one wins.
    """
    against = sorted(d.at for d in state.drifts if d.undoes and (d.to_count < d.from_count) is grows)
    if len(against) < UNDOINGS or against[-1] - against[-UNDOINGS] > IN_A_DAY:
        return None
    until = against[-1] + GIVES_WAY_FOR
    return until if now < until else None


def _within(moment: datetime | None, span: timedelta, now: datetime) -> bool:
    return moment is not None and timedelta(0) <= now - moment <= span
