"""The month's cost line by line: what attribution says, with what was held split into used and idle, in cents."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from receiver.core.model.policy import Policy
from receiver.core.model.usage import Owner
from receiver.core.money.attribution import FINEST, Attributed, By, Part, Share, key_of
from receiver.core.money.attribution import Line as Told
from receiver.core.money.attribution import lines as attributed_lines
from receiver.core.money.cost import level_by_level


class PaidFor(StrEnum):
    """What paid GPU time came to."""

    USED = "used"  # held by a workload, and not seen to be at rest
    IDLE = "idle"  # held by a workload, engine and memory at rest
    UNALLOCATED = "unallocated"  # bought, and held by nobody
    UNWATCHED = "unwatched"  # nobody saw who held it
    AHEAD = "ahead"  # of a paid unit under way: it can still be used
    SEEDED = "seeded"  # spent before the ledger began, known as a sum only


NOBODYS = {
    Part.UNALLOCATED: PaidFor.UNALLOCATED,
    Part.UNWATCHED: PaidFor.UNWATCHED,
    Part.AHEAD: PaidFor.AHEAD,
    Part.SEEDED: PaidFor.SEEDED,
}


@dataclass(frozen=True, slots=True)
class Whose:
    """What a line is about. *workload*, *namespace*, *owner* and *priority_class* are empty for what nobody held."""

    paid_for: PaidFor
    pool: str = ""
    size: str = ""
    kind: str = ""
    namespace: str = ""
    workload: str = ""
    owner: Owner = Owner()  # noqa: RUF009 (frozen, and empty)
    priority_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """GPU-hours, and USD in whole cents, of *whose*."""

    whose: Whose
    gpu_hours: float
    usd: Decimal


@dataclass(frozen=True, slots=True)
class CostPiece:
    """Part of what one *instance* cost, in exact USD."""

    whose: Whose
    instance: str
    seconds: float
    usd: Decimal


def pieces(attributed: Attributed, policy: Policy) -> Iterator[CostPiece]:
    """Yield the shares of *attributed*, what was held split into used and idle."""
    for share in attributed.shares:
        yield from _pieces_of(share, policy)


def cost_lines(found: Iterable[CostPiece]) -> tuple[CostLine, ...]:
    """Add *found* up by whose they are, the dearest first.

    Cents are dealt from the month's sum to what teams held (and each thing that nobody held), from there to workloads
    and to lines, so that every level adds up to the one above.
    """
    exact: dict[Whose, Decimal] = {}
    seconds: dict[Whose, float] = {}
    for piece in found:
        exact[piece.whose] = exact.get(piece.whose, Decimal(0)) + piece.usd
        seconds[piece.whose] = seconds.get(piece.whose, 0.0) + piece.seconds
    cents = level_by_level(exact, {whose: (_team(whose), whose.workload) for whose in exact})
    made = [CostLine(whose=whose, gpu_hours=seconds[whose] / 3600, usd=cents[whose]) for whose in exact]
    return tuple(sorted(made, key=lambda line: (-line.usd, line.whose.workload, line.whose.pool, line.whose.paid_for)))


def told_by(attributed: Attributed, by: By, policy: Policy) -> tuple[Told, ...]:
    """Return *attributed* by one of its dimensions, the dearest first, with the money that the report's lines say."""
    found = [(share, piece) for share in attributed.shares for piece in _pieces_of(share, policy)]
    filed = {piece.whose: (share.part, key_of(share, by, policy)) for share, piece in found}
    usd: dict[tuple[Part, str], Decimal] = {}
    idle: dict[tuple[Part, str], Decimal] = {}
    for line in cost_lines(piece for _, piece in found):
        under = filed[line.whose]
        usd[under] = usd.get(under, Decimal(0)) + line.usd
        if line.whose.paid_for is PaidFor.IDLE:
            idle[under] = idle.get(under, Decimal(0)) + line.usd
    told = (
        replace(line, usd=usd[line.part, line.key], idle_usd=idle.get((line.part, line.key), Decimal("0.00")))
        for line in attributed_lines(attributed, lambda share: key_of(share, by, policy))
    )
    return tuple(sorted(told, key=lambda line: (-line.usd, line.part, line.key)))


def _team(whose: Whose) -> tuple[Part, str]:
    """The widest level below the month: what the workloads of a team held, and each thing that nobody held."""
    return Part.HELD if whose.workload else Part(whose.paid_for), whose.owner.team


def _pieces_of(share: Share, policy: Policy) -> Iterator[CostPiece]:
    row = share.usage
    whose = Whose(
        paid_for=PaidFor.USED if row else NOBODYS[share.part],
        pool=key_of(share, By.POOL, policy),
        size=share.size,
        kind=key_of(share, By.GPU_KIND, policy),
        namespace=row.namespace if row else "",
        workload=row.workload if row else "",
        owner=row.owner if row else Owner(),
        priority_class=row.priority_class if row else "",
    )
    idle = min(max(row.idle / row.held, 0.0), 1.0) if row and row.held > 0 else 0.0
    idle_usd = (share.usd * Decimal(idle)).quantize(FINEST)  # the two halves are the share itself
    if idle < 1:
        yield CostPiece(whose, share.instance, share.seconds * (1 - idle), share.usd - idle_usd)
    if idle > 0:
        yield CostPiece(replace(whose, paid_for=PaidFor.IDLE), share.instance, share.seconds * idle, idle_usd)
