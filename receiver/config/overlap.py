"""Whether a window can be open at all, and whether two can at the same moment."""

from collections.abc import Iterable, Sequence

from receiver.config.schedule import WindowSpec

_MONTH_LENGTHS = (28, 29, 30, 31)
_LENGTHS_OF = {2: (28, 29), 4: (30,), 6: (30,), 9: (30,), 11: (30,)}  # the others have 31 days


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


def never_opens(window: WindowSpec) -> bool:
    """True when no month that *window* names has a day that it names, such as a 30 February."""
    months = [m for a, b in window.months or ((1, 12),) for m in range(a, b + 1)]
    lengths = {length for m in months for length in _LENGTHS_OF.get(m, (31,))}
    return bool(window.days_of_month) and not any(
        max(a, 1) <= min(b, length) for length in lengths for a, b in _placed(window.days_of_month, length)
    )


def _meet(mine: Sequence[tuple[int, int]], theirs: Sequence[tuple[int, int]]) -> bool:
    if not mine or not theirs:
        return True
    return any(a <= d and c <= b for a, b in mine for c, d in theirs)


def _placed(days: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """The ranges of *days* as dates of a month of *length* days; a day that it does not have is kept beyond it."""
    return [(a if a > 0 else length + 1 + a, b if b > 0 else length + 1 + b) for a, b in days]
