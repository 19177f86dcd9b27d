"""Budgets of a month (allowance, spend, forecast), and the times in which pools could not grow."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from receiver.core.model.overrides import EVERY_POOL, Override, OverrideKind
from receiver.core.model.policy import BudgetChange, Policy, Scope
from receiver.core.money.budget import BudgetStage, Forecast, stage_of, title_of
from receiver.core.report.lines import CostLine, PaidFor

NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLine:
    """Allowance and spend in USD of *scope* and *name* (a pool's name, a team).

    *spent_usd* and *stage* are None if the account's charges are unknown. *change* is set if an operator set the
    allowance. *forecast* is for the current month. *seeded_usd* is the part of *spent_usd* from before the ledger
    began; its owner is unknown, so it counts in full in each budget, as in decisions.
    """

    scope: Scope
    name: str
    monthly_usd: Decimal
    spent_usd: Decimal | None
    stage: BudgetStage | None
    hold_at: Decimal
    stop_at: Decimal
    seeded_usd: Decimal = NOTHING
    forecast: Forecast = field(default_factory=Forecast)
    change: BudgetChange | None = None

    @property
    def title(self) -> str:
        """The title of the budget."""
        return title_of(self.scope, self.name)

    @property
    def ratio(self) -> Decimal | None:
        """Spent / allowed, None if the allowance is 0 or the spend unknown."""
        return self.spent_usd / self.monthly_usd if self.monthly_usd and self.spent_usd is not None else None

    @property
    def left_usd(self) -> Decimal | None:
        """Allowed less spent; negative beyond the allowance."""
        return None if self.spent_usd is None else self.monthly_usd - self.spent_usd


def budget_lines(
    lines: Sequence[CostLine],
    allowances: Iterable[BudgetChange],
    policy: Policy,
    team: str | None,
    *,
    seeded_pools: Mapping[str, Decimal],
    account: Decimal | None,
    forecasts: Mapping[tuple[Scope, str], Forecast],
) -> tuple[BudgetLine, ...]:
    """Return the lines of all budgets of a month, or of one *team*'s.

    *lines* are the costs of all teams, *seeded_pools* the seeded USD that may belong to each pool (by id), *account*
    the account's USD (None: unknown), *forecasts* those of the last step, by scope and name.
    """
    budget = policy.budget
    if budget is None:
        return ()
    changes = {(c.scope, c.name): c for c in allowances if c.monthly_usd is not None}
    seeded = _sum(line for line in lines if line.whose.paid_for is PaidFor.SEEDED)
    found: list[BudgetLine] = []

    def add(scope: Scope, name: str, said: Decimal | None, spent: Decimal | None, before: Decimal, key: str) -> None:
        change = changes.get((scope, key))
        monthly = change.monthly_usd if change is not None else said
        if monthly is None:
            return
        found.append(
            BudgetLine(
                scope=scope,
                name=name,
                monthly_usd=monthly,
                spent_usd=spent,
                stage=None if spent is None else stage_of(spent, budget, monthly),
                hold_at=budget.hold_at,
                stop_at=budget.stop_at,
                seeded_usd=before,
                forecast=forecasts.get((scope, name), Forecast()),
                change=change,
            )
        )

    teams = [team] if team is not None else sorted({*budget.teams, *(n for s, n in changes if s is Scope.TEAM)})
    if team is None:
        whole = _sum(lines)
        add(Scope.ACCOUNT, "", budget.account_usd, None if account is None else max(account, whole), seeded, "")
        add(Scope.CLUSTER, "", budget.monthly_usd, whole, seeded, "")
        for pool in policy.pools:
            before = seeded_pools.get(pool.id, NOTHING)
            spent = _sum(line for line in lines if line.whose.pool == pool.name) + before
            add(Scope.POOL, pool.name, pool.budget_usd, spent, before, pool.id)
    for name in teams:
        held = _sum(line for line in lines if bool(line.whose.workload) and line.whose.owner.team == name)
        add(Scope.TEAM, name, budget.teams.get(name), held + seeded, seeded, name)
    return tuple(found)


def _sum(lines: Iterable[CostLine]) -> Decimal:
    return sum((line.usd for line in lines), NOTHING)


RULES = ("within_budget", "spend_is_known", "price_is_known")  # the guardrails of budgets


class Stood(StrEnum):
    """Why a pool could not grow."""

    BUDGET = "budget"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoke:
    """A stored decision about *pool* at *at*; *detail* is how a budget held its growth back, or empty."""

    pool: str
    at: datetime
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """*pool* (a name, or ``all``) could not grow from *since* to *until* (None: it still cannot). *who* paused it."""

    kind: Stood
    pool: str
    since: datetime
    until: datetime | None
    why: str
    who: str = ""


def standstills(
    spoken: Iterable[Spoke],
    said: Iterable[tuple[Override, datetime | None]],
    policy: Policy,
    start: datetime,
    until: datetime,
    team: str | None,
) -> tuple[Standstill, ...]:
    """Return the standstills between *start* and *until*, in order.

    *spoken* are the decisions of that time and each pool's last one before it, in order; *said* are overrides with
    their ends. A *team* gets those that its own budget caused.
    """
    found = [*_held(spoken, policy)]
    if team is not None:
        found = [each for each in found if title_of(Scope.TEAM, team) in each.why]
    else:
        found += _paused(said, policy, until)
    within = (each for each in found if each.since < until and (each.until is None or each.until > start))
    return tuple(sorted(within, key=lambda each: (each.since, each.pool, each.kind)))


def _held(spoken: Iterable[Spoke], policy: Policy) -> Iterator[Standstill]:
    open_now: dict[str, Standstill] = {}
    for spoke in spoken:
        before = open_now.get(spoke.pool)
        if spoke.detail and before is None:
            pool = policy.pool(spoke.pool)
            name, why = pool.name if pool else spoke.pool, spoke.detail
            open_now[spoke.pool] = Standstill(kind=Stood.BUDGET, pool=name, since=spoke.at, until=None, why=why)
        elif not spoke.detail and before is not None:
            yield replace(open_now.pop(spoke.pool), until=spoke.at)
    yield from open_now.values()


def _paused(said: Iterable[tuple[Override, datetime | None]], policy: Policy, now: datetime) -> Iterator[Standstill]:
    for override, ended_at in said:
        if override.kind is OverrideKind.PAUSE:
            pool = policy.pool(override.pool) if override.pool is not None else None
            end = min(override.until, ended_at or override.until)
            yield Standstill(
                kind=Stood.PAUSE,
                pool=pool.name if pool else override.pool or EVERY_POOL,
                since=override.at,
                until=end if end <= now else None,
                why=override.why,
                who=override.who,
            )
