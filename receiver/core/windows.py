"""Wall-clock windows in a named zone, in the vocabulary of Alertmanager's time_intervals."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """When a pool's bounds differ. Ranges are inclusive at both ends except *times*, whose end is exclusive.

    *times* are minutes of the day (start, end) with 0 <= start < end <= 1440; *weekdays* 0 (Sunday) to 6;
    *days_of_month* 1 to 31 or -31 to -1 from the month's end; *months* 1 to 12. An empty field matches always.
    """

    name: str
    location: str = "UTC"
    times: tuple[tuple[int, int], ...] = ()
    weekdays: tuple[tuple[int, int], ...] = ()
    days_of_month: tuple[tuple[int, int], ...] = ()
    months: tuple[tuple[int, int], ...] = ()
    years: tuple[tuple[int, int], ...] = ()
    min_nodes: int | None = None
    max_nodes: int | None = None
    standby_nodes: int | None = None
