"""What the operator wants of reports, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOfWork:
    """Something that work comes to, such as an epoch: *query* (PromQL) counts it, and the report prices *per* of it.

    ``$range`` in the query stands for the time since the month's beginning.
    *only* says whose cost it is (attribute of an Owner, or ``namespace``, to its value); empty: everybody's.
    """

    name: str
    query: str
    per: Decimal = Decimal(1)
    only: Mapping[str, str] = field(default_factory=dict)

    @property
    def team(self) -> str:
        """The one team whose cost it is, or nothing."""
        return self.only.get("team", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """An offer: USD per node-hour of *size*, paid in every hour of *term_months*, whether or not it is used."""

    size: str
    term_months: int
    usd_per_hour: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Monthly:
    """What is sent when a month has ended: one notice for *everybody*, and one for each of *teams*."""

    everybody: bool = False
    teams: tuple[str, ...] = ()

    @property
    def wanted(self) -> tuple[str | None, ...]:
        """The scopes to send, None for everybody's."""
        return (*((None,) if self.everybody else ()), *self.teams)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPolicy:
    """What reports compare with, count and send. *efficiency_target* is a ratio 0-1."""

    efficiency_target: Decimal = Decimal("0.70")
    units: tuple[UnitOfWork, ...] = ()
    commitments: tuple[Commitment, ...] = ()
    monthly: Monthly = field(default_factory=Monthly)
