"""What Civo's required count says of a pool: how many nodes survive a removal, and whether somebody else changed it."""

from datetime import datetime, timedelta

from receiver.core.model.actions import Action, ActionKind, VictimStage
from receiver.core.model.memory import PoolMemory
from receiver.core.model.model import Drift, LateCount, PoolState

MUST_FALL_WITHIN = timedelta(minutes=15)  # after a removal; what stays longer is no delay
UNDOINGS = 3
IN_A_DAY = timedelta(hours=24)
GIVES_WAY_FOR = timedelta(hours=24)
UNDONE_WITHIN = timedelta(hours=1)  # a change against our own within this time undoes it


def expected_count(late: LateCount | None, shown: int, now: datetime) -> int:
    """The nodes that are asked for where Civo shows *shown*: a change of ours is believed before it is shown."""
    return late.expected if late is not None and is_late(late, shown) and not is_overdue(late, now) else shown


def is_late(late: LateCount, shown: int) -> bool:
    """True while Civo's count is on its way to what our change made of it; anything else is somebody's wish."""
    if late.expected < late.shown:
        return late.expected < shown <= late.shown
    return late.shown <= shown < late.expected


def is_overdue(late: LateCount, now: datetime) -> bool:
    """True when the count should have fallen by *now*."""
    return now - late.since > MUST_FALL_WITHIN


def why_removals_stop(late: LateCount | None, shown: int, living: int, now: datetime) -> str | None:
    """Say how Civo answered a removal otherwise than by one node less, or None.

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
    """What a removal that ends now leaves uncounted: None when Civo's count fell, or somebody raised it meanwhile.

    Where nobody looked for longer than a count takes to fall, that of now tells nothing of it.
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
    """The change of a pool's count since the last look that none of our own actions explains, or None.

    *unanswered* is the highest count of growth that ended without an answer: it may be what shows now.
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
        low = 0  # our removals show late and one by one
    if low <= shown <= high:
        return None
    against = past.last_shrink_at if shown > past.required else past.last_grow_at
    undoes = _within(against, UNDONE_WITHIN, now)
    return Drift(at=now, from_count=past.required, to_count=shown, undoes=undoes)


def undone_by_others(state: PoolState, now: datetime, *, grows: bool) -> datetime | None:
    """Until when a pool does not grow, or does not shrink, because somebody keeps turning that back; None: it may.

    Two programs that correct each other only cost money: after the third time in a day the other one has its way.
    """
    against = sorted(d.at for d in state.drifts if d.undoes and (d.to_count < d.from_count) is grows)
    if len(against) < UNDOINGS or against[-1] - against[-UNDOINGS] > IN_A_DAY:
        return None
    until = against[-1] + GIVES_WAY_FOR
    return until if now < until else None


def _within(moment: datetime | None, span: timedelta, now: datetime) -> bool:
    return moment is not None and timedelta(0) <= now - moment <= span
