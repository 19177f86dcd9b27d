"""The picture of a month: where everything stands in it. Across in percent of its width, down in pixels.

So it needs no script and no style, and its text keeps its size on a phone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from receiver.web.pages.show import number, percent, usd

DOWN_TO = 164  # the ground line of the upper panel: spend since the month began
GROUND = 316  # that of the lower one: spend by day
UPPER, LOWER = 118, 96  # how high the panels are
HEIGHT = 338
GAP = 0.22  # of a day's width, between its bar and the next


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A day: *used* and *idle* are heights, the idle part stands on top."""

    x: float
    width: float
    used: float
    idle: float
    title: str

    @property
    def used_y(self) -> float:
        """The upper edge of what was not idle."""
        return round(GROUND - self.used, 2)

    @property
    def idle_y(self) -> float:
        """The upper edge of what was idle."""
        return round(GROUND - self.used - self.idle, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkLine:
    """A horizontal line with its label; *kind* says how it is drawn."""

    kind: str
    y: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DayTick:
    """A day's number below the picture."""

    x: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A piece of the line of spend since the month began."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthPicture:
    """The geometry, and what a person who cannot see it is told."""

    bars: tuple[Bar, ...]
    steps: tuple[Step, ...]
    levels: tuple[MarkLine, ...]
    pace: MarkLine | None
    peak: MarkLine | None
    ticks: tuple[DayTick, ...]
    described: str
    height: int = HEIGHT
    ground: int = GROUND
    middle: int = DOWN_TO


def month_picture(report: Mapping[str, Any], days_in_month: int) -> MonthPicture | None:
    """Return the picture of *report* (its document), None for a month of which no day has begun."""
    days = report["days"]
    if not days:
        return None
    amounts = [(_amount(day["usd"]), _amount(day["idle_usd"])) for day in days]
    monthly = _amount((report["budget"] or {}).get("monthly_usd"))
    before = _amount(report["paid_for"]["seeded"]["usd"])  # spent before the days that the ledger knows
    pace = monthly / days_in_month if monthly else Decimal(0)
    most = max(*(usd for usd, _ in amounts), pace, Decimal("0.01"))
    each = 100 / days_in_month
    bars = tuple(
        Bar(
            x=round(n * each + each * GAP / 2, 3),
            width=round(each * (1 - GAP), 3),
            used=_down(whole - idle, most, LOWER),
            idle=_down(idle, most, LOWER),
            title=f"{day['day']}: {usd(whole)}, of it {usd(idle)} idle",
        )
        for n, (day, (whole, idle)) in enumerate(zip(days, amounts, strict=True))
    )
    spent = before + sum((whole for whole, _ in amounts), Decimal(0))
    top = max(monthly, spent, Decimal("0.01"))
    return MonthPicture(
        bars=bars,
        steps=tuple(_steps([whole for whole, _ in amounts], before, top, each)),
        levels=tuple(_levels(report, monthly, top)),
        pace=MarkLine(kind="pace", y=_y(pace, most, GROUND, LOWER), label=f"- - even pace {usd(pace)}")
        if pace
        else None,
        peak=MarkLine(kind="peak", y=_y(most, most, GROUND, LOWER), label=usd(most)) if most > pace else None,
        ticks=tuple(
            DayTick(x=round((n + 0.5) * each, 3), label=str(n + 1))
            for n in range(days_in_month)
            if n == 0 or (n + 1) % 5 == 0
        ),
        described=_described(report, amounts, spent, monthly),
    )


def _steps(amounts: Sequence[Decimal], before: Decimal, top: Decimal, each: float) -> list[Step]:
    found, height = [], before
    for n, usd_of_day in enumerate(amounts):
        found.append(
            Step(
                x1=round(n * each, 3),
                y1=_y(height, top, DOWN_TO, UPPER),
                x2=round((n + 1) * each, 3),
                y2=_y(height + usd_of_day, top, DOWN_TO, UPPER),
            )
        )
        height += usd_of_day
    return found


def _levels(report: Mapping[str, Any], monthly: Decimal, top: Decimal) -> list[MarkLine]:
    """The budget's lines; where none is set, only how high the spend came."""
    if not monthly:
        return [MarkLine(kind="peak", y=_y(top, top, DOWN_TO, UPPER), label=usd(top))]
    lines = [("stop", _amount(report["budget"]["stop_at"])), ("hold", _amount(report["budget"]["hold_at"]))]
    return [
        MarkLine(
            kind=name,
            y=_y(monthly * ratio, top, DOWN_TO, UPPER),
            label=f"{name} {usd(monthly * ratio)} ({percent(ratio)})",
        )
        for name, ratio in lines
    ]


def _described(
    report: Mapping[str, Any], amounts: Sequence[tuple[Decimal, Decimal]], spent: Decimal, monthly: Decimal
) -> str:
    idle = sum((idle for _, idle in amounts), Decimal(0))
    most = max(range(len(amounts)), key=lambda n: amounts[n][0])
    of = f" of {usd(monthly)} allowed" if monthly else ""
    return (
        f"{usd(spent)}{of} spent in {report['month']} so far shown, {usd(idle)} of it idle; the most on "
        f"{report['days'][most]['day']} with {usd(amounts[most][0])}."
    )


def _y(amount: Decimal, most: Decimal, ground: int, height: int) -> float:
    return round(ground - _down(amount, most, height), 2)


def _down(amount: Decimal, most: Decimal, height: int) -> float:
    return round(float(min(max(amount / most, Decimal(0)), Decimal(1))) * height, 2)


def _amount(value: Any) -> Decimal:
    return number(value) or Decimal(0)
