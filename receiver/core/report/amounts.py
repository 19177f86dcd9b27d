"""Cost lines added up: by what became of the paid GPU time, and by whose or what it was."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from receiver.core.report.lines import CostLine, PaidFor, Whose

KNOWN = (PaidFor.USED, PaidFor.IDLE, PaidFor.UNALLOCATED)  # of the rest nobody can say whether it was idle
DOING_NOTHING = (PaidFor.IDLE, PaidFor.UNALLOCATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """GPU-hours and what was paid for them in USD."""

    gpu_hours: float = 0.0
    usd: Decimal = Decimal("0.00")

    def plus(self, gpu_hours: float, usd: Decimal) -> "Amount":
        """This and more."""
        return Amount(gpu_hours=self.gpu_hours + gpu_hours, usd=self.usd + usd)


NOTHING = Amount()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtotal:
    """The lines of one *name*, by what the paid time came to."""

    name: str = ""
    amounts: Mapping[PaidFor, Amount] = field(default_factory=dict)

    def of(self, *paid_for: PaidFor) -> Amount:
        """What of it was paid for these; everything without any."""
        found = NOTHING
        for each in paid_for or tuple(PaidFor):
            amount = self.amounts.get(each, NOTHING)
            found = found.plus(amount.gpu_hours, amount.usd)
        return found

    @property
    def total(self) -> Amount:
        """Everything that was paid for."""
        return self.of()

    @property
    def idle(self) -> Amount:
        """What did nothing: held at rest, or held by nobody."""
        return self.of(*DOING_NOTHING)

    @property
    def efficiency(self) -> float | None:
        """1 less idle over paid GPU-hours (ratio 0-1), None of nothing. Hours of which nobody can say whether they
        were idle count on neither side."""
        known = self.of(*KNOWN).gpu_hours
        return min(max(1 - self.idle.gpu_hours / known, 0.0), 1.0) if known > 0 else None


def add_up(lines: Iterable[CostLine], name: str = "") -> Subtotal:
    """Return *lines* as one subtotal."""
    amounts: dict[PaidFor, Amount] = {}
    for line in lines:
        paid_for = line.whose.paid_for
        amounts[paid_for] = amounts.get(paid_for, NOTHING).plus(line.gpu_hours, line.usd)
    return Subtotal(name=name, amounts=amounts)


def by(key: Callable[[Whose], str], lines: Iterable[CostLine]) -> tuple[Subtotal, ...]:
    """Return *lines* in subtotals by *key*, the most expensive first."""
    sorted_in: dict[str, list[CostLine]] = {}
    for line in lines:
        sorted_in.setdefault(key(line.whose), []).append(line)
    found = [add_up(members, name) for name, members in sorted_in.items()]
    return tuple(sorted(found, key=lambda part: (-part.total.usd, part.name)))
