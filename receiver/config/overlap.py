"""Whether two windows can be open at the same moment."""

from collections.abc import Iterable, Sequence

from receiver.config.schedule import WindowSpec

_MONTH_LENGTHS = (28, 29, 30, 31)


def may_overlap(one: WindowSpec, other: WindowSpec) -> bool:
    """True when some moment lies in both windows, as far as their fields tell (same zone only).

    Weekday and date can always meet in some year, so the fields are compared one by one.
    """
    if one.location != other.location:
        return False
    times = ([(t.start_time, t.end_time - 1) for t in window.times] for window in (one, other))
    pairs = ((one.weekdays, other.weekdays), (one.months, other.months), (one.years, other.years))
    return (
        _meet(*times)
        and all(_meet(mine, theirs) for mine, theirs in pairs)
        and any(
            _meet(_placed(one.days_of_month, length), _placed(other.days_of_month, length)) for length in _MONTH_LENGTHS
        )
    )


def _meet(mine: Sequence[tuple[int, int]], theirs: Sequence[tuple[int, int]]) -> bool:
    if not mine or not theirs:
        return True
    return any(a <= d and c <= b for a, b in mine for c, d in theirs)


def _placed(days: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """The ranges of *days* as dates of a month of *length* days; a day that it does not have is kept beyond it."""
    return [(a if a > 0 else length + 1 + a, b if b > 0 else length + 1 + b) for a, b in days]
