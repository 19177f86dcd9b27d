"""Exact USD dealt out as whole cents, so that every level adds up to the level above it.

The largest remainders get the cents that are missing (Hamilton's method): each amount is its exact one rounded down or
up to the next cent, and nothing that cost nothing gets a cent.
"""

from collections.abc import Hashable, Mapping, Sequence
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
CENT = Decimal("0.01")
NOISE = Decimal("1e-12")  # far above what divisions of USD by hours leave behind, far below any price
Path = Sequence[Hashable]  # from the widest level to the narrowest


def amount(usd: Decimal) -> str:
    """*usd* as every API writes it: digits without an exponent, and no zeros behind the cents."""
    whole, point, part = f"{usd:f}".partition(".")
    return whole + point + (part if len(part) <= 2 else part.rstrip("0").ljust(2, "0"))


def in_cents(usd: Decimal) -> Decimal:
    """*usd* to the cent, half a cent up.

    The same sum worked out in another order may miss half a cent by the rest of a division: that is rounded away first.
    """
    return usd.quantize(NOISE, ROUND_HALF_UP).quantize(CENT, ROUND_HALF_UP)


def to_cents(exact: Mapping[K, Decimal], total: Decimal | None = None) -> dict[K, Decimal]:
    """Round *exact* amounts so that they sum to *total*, or without one to what their sum rounds to.

    A *total* in whole cents that was rounded elsewhere may be some cents off the exact sum: then amounts of more than
    nothing go up or down by more than one.
    """
    # The rest of a division may be less than nothing by a millionth of a millionth: that is nothing, and no cent less.
    down = {name: max(usd, Decimal(0)).quantize(CENT, ROUND_FLOOR) for name, usd in exact.items()}
    whole = in_cents(sum(exact.values(), Decimal(0))) if total is None else total
    missing = int((whole - sum(down.values(), Decimal(0))) / CENT)
    by_remainder = sorted(exact, key=lambda name: (down[name] - exact[name], str(name)))
    if missing > 0:
        some = [name for name in by_remainder if exact[name] > 0] or by_remainder
        for number in range(missing if some else 0):
            down[some[number % len(some)]] += CENT
    while missing < 0:  # the smallest remainders give first
        rich = [name for name in reversed(by_remainder) if down[name] >= CENT][:-missing]
        for name in rich:
            down[name] -= CENT
        missing = missing + len(rich) if rich else 0
    return down


def level_by_level(exact: Mapping[K, Decimal], paths: Mapping[K, Path]) -> dict[K, Decimal]:
    """Deal what *exact* sums to among the widest groups of *paths*, then each group's cents within it, and so on.

    Every path has the same length; names that share a whole path are dealt among at the end.
    """
    return dict(_dealt(exact, paths, None, 0))


def _dealt(
    exact: Mapping[K, Decimal], paths: Mapping[K, Path], total: Decimal | None, depth: int
) -> Sequence[tuple[K, Decimal]]:
    if all(len(paths[name]) <= depth for name in exact):
        return list(to_cents(exact, total).items())
    groups: dict[Hashable, dict[K, Decimal]] = {}
    for name, usd in exact.items():
        groups.setdefault(paths[name][depth], {})[name] = usd
    cents = to_cents({group: sum(members.values(), Decimal(0)) for group, members in groups.items()}, total)
    return [pair for group, members in groups.items() for pair in _dealt(members, paths, cents[group], depth + 1)]
