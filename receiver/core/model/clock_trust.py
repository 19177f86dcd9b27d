"""Whether the clock can be believed with what cannot be taken back: one step under a wrong one must leave no trace."""

from datetime import datetime, timedelta

IN_A_ROW = timedelta(minutes=15)  # steps are seconds apart, five minutes at most
LONG = timedelta(hours=1)


def is_steady(before: datetime | None, now: datetime) -> bool:
    """True when the step *before* (None: there was none) was a moment ago by the same clock.

    After a jump, or a long pause, one step passes until the clock is believed: where it jumped to, or back, is then
    what two steps in a row say.
    """
    return before is not None and timedelta(0) <= now - before <= IN_A_ROW


def believed_since(before: datetime | None, now: datetime, *, steady: bool) -> datetime | None:
    """Since when every step has been *steady*, given since when they were at the step *before*; None: they are not."""
    if not steady:
        return None
    return now if before is None else min(before, now)


def is_sure(since: datetime | None, now: datetime) -> bool:
    """True when the clock has been believed for long enough (*since*) for what nothing ever replaces."""
    return since is not None and now - since >= LONG
