"""What the file says about reports, and the core's values for it."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator

from receiver.config.mistakes import Flag, Identifier, Money, Ratio, Text, Units, Wrong, duration, text
from receiver.config.section import Section
from receiver.core.model.policy import Commitment, Monthly, ReportPolicy, UnitOfWork

_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""")
_FIXED_RANGE = re.compile(r"\[\s*(\d[0-9a-z]*)\s*(?::[^\]]*)?\]")  # of a range selector or a subquery
_A_DAY = timedelta(days=1)


def _query(value: Any) -> str:
    """Return a query that counts a month; raise Wrong for a fixed range that reaches into the month before."""
    said = text(value, "a query")
    for fixed in _FIXED_RANGE.findall(_QUOTED.sub("", said)):
        if _is_long(fixed):
            raise Wrong(
                f"its range [{fixed}] reaches into the month before while the month is young, and counts that too",
                "write [$range], which is as long as the month is old",
            )
    return said


def _is_long(fixed: str) -> bool:
    try:
        return duration(fixed) > _A_DAY
    except Wrong:  # more than a year, or what Prometheus itself will refuse
        return True


class UnitScope(Section):
    """Whose cost a unit of work is."""

    team: Text | None = None
    """whose cost is divided: lines of this team only"""
    project: Text | None = None
    """of this project only"""
    workload_class: Text | None = None
    """of this workload class only"""
    environment: Text | None = None
    """of this environment only"""
    cost_center: Text | None = None
    """of this cost center only"""
    namespace: Text | None = None
    """of this namespace only"""


class UnitSpec(Section):
    """Something that work comes to, and how Prometheus counts it."""

    name: Text
    """a unit of work, such as `epoch`"""
    query: Annotated[str, BeforeValidator(_query)]
    """counts the units of a month: one value, asked for at the month's end, and hourly until then;
    [`$range`](reports.md#cost-per-unit-of-work) is the time since the month began"""
    per: Units = 1
    """how many units the cost is told for: `1000` for requests"""
    only: UnitScope = UnitScope()


class CommitmentSpec(Section):
    """An offer of committed capacity."""

    size: Identifier
    """an offer of committed capacity: Civo's size"""
    term_months: Units
    """for how long"""
    usd_per_hour: Money
    """the price of one node for one hour, all its GPUs together"""


class MonthlySpec(Section):
    """Which reports are sent when a month has ended."""

    everybody: Flag = False
    """send everybody's report when a month has ended"""
    teams: tuple[Text, ...] = ()
    """send each of these teams its own"""


class ReportsSpec(Section):
    """What reports compare with, count and send."""

    efficiency_target: Ratio = Decimal("0.70")
    """what efficiency is compared with"""
    units: tuple[UnitSpec, ...] = ()
    commitments: tuple[CommitmentSpec, ...] = ()
    monthly: MonthlySpec = MonthlySpec()

    def policy(self) -> ReportPolicy:
        """Return the core's value."""
        return ReportPolicy(
            efficiency_target=self.efficiency_target,
            units=tuple(
                UnitOfWork(
                    name=unit.name,
                    query=unit.query,
                    per=Decimal(unit.per),
                    only={key: value for key, value in unit.only if value is not None},
                )
                for unit in self.units
            ),
            commitments=tuple(
                Commitment(size=c.size, term_months=c.term_months, usd_per_hour=c.usd_per_hour)
                for c in self.commitments
            ),
            monthly=Monthly(everybody=self.monthly.everybody, teams=self.monthly.teams),
        )
