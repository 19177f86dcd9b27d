"""Whether the clock can be believed with what cannot be taken back: one step under a wrong one must leave no trace."""

from datetime import datetime, timedelta

IN_A_ROW = timedelta(minutes=15)  # steps are seconds apart, a minute at most


def is_steady(before: datetime | None, now: datetime) -> bool:
    """True when the step *before* (None: there was none) was a moment ago by the same clock.

    After a jump, or a long pause, one step passes until the clock is believed: where it jumped to, or back, is then
    what two steps in a row say.
    """
    return before is not None and timedelta(0) <= now - before <= IN_A_ROW
