"""Reads costs and the inputs of reports from the store."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from receiver.core.model.charges import Seed, beside, seeded_by_pool, seeded_usd
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Policy, Scope
from receiver.core.money.attribution import Attributed, By, Line, Part, attribute, key_of, lines
from receiver.core.money.budget import Forecast, Month
from receiver.core.money.reconciliation import account, compare
from receiver.core.report.report import Found, Report, report
from receiver.ports import ReadStore
from receiver.reports.picture import kept_picture


def costs_of(store: ReadStore, policy: Policy, month: Month, now: datetime) -> Attributed:
    """Return the attributed cost of *month* until *now*. Raises TryLater when the store fails."""
    lives, usage, unwatched = store.node_lives(month.start), store.usage(month.name), store.unwatched(month.name)
    seeded, unpriced = seeded_usd(_seed(store, lives, month), policy, month.name)
    found = attribute(lives, usage, unwatched, month, now, policy.billing, seeded, store.watch())
    return replace(found, unpriced=tuple(sorted({*found.unpriced, *unpriced})))


def seeded_pools(store: ReadStore, policy: Policy, month: Month) -> Mapping[str, Decimal]:
    """Return the USD of *month* from before the ledger began that may belong to each pool, by id. Raises TryLater."""
    return dict(seeded_by_pool(_seed(store, store.node_lives(month.start), month), policy, month.name))


def _seed(store: ReadStore, lives: Sequence[NodeLife], month: Month) -> Seed | None:
    return beside(store.seed_of(month.name), ((life.instance, life.name) for life in lives))


def told_by(attributed: Attributed, by: By, policy: Policy) -> tuple[Line, ...]:
    """Return the lines of *attributed* by one of its dimensions, the dearest first."""
    return lines(attributed, lambda share: key_of(share, by, policy))


def found_in(store: ReadStore, policy: Policy, month: Month, now: datetime) -> Found:
    """Return the input of the report of *month*. Raises TryLater when the store fails."""
    allowances = store.allowances_set(month.name)
    limited = policy.budget is not None and (
        policy.budget.account_usd is not None or any(c.scope is Scope.ACCOUNT for c in allowances)
    )
    return Found(
        lives=[life for life in store.node_lives(month.start) if life.created_at < month.end],
        usage=store.usage(month.name),
        workloads=store.workload_lives(month.start, month.end),
        attributed=costs_of(store, policy, month, now),
        counts={name: counted.count for name, counted in store.unit_counts(month.name).items()},
        allowances=allowances,
        watched=store.watched(),
        in_use=store.in_use(month.name),
        spoken=store.spoken(month.start, min(now, month.end)),
        overrides=[
            (kept.override, kept.ended_at) for kept in store.overrides_between(month.start, min(now, month.end))
        ],
        account_usd=_account(store, policy, month, now) if limited else None,
        seeded_pools=seeded_pools(store, policy, month),
        forecasts=_forecasts(store, month),
    )


def _forecasts(store: ReadStore, month: Month) -> Mapping[tuple[Scope, str], Forecast]:
    """The last step's forecasts for the budgets of *month*, by scope and name; empty for a month that is over."""
    found, _ = kept_picture(store)
    return {
        (Scope(budget.scope), budget.name): Forecast(
            burn=budget.forecast_burn_usd, trend=budget.forecast_trend_usd, since=budget.forecast_since
        )
        for budget in found.budgets
        if budget.month == month.name
    }


def _account(store: ReadStore, policy: Policy, month: Month, now: datetime) -> Decimal | None:
    """The charges of the whole account in *month* by Civo's last answer; None without one."""
    charged = store.charged_of(month.name)
    if charged is None or charged.answered_at is None:
        return None
    lives, seed = store.node_lives(month.start), store.seed_of(month.name)
    compared = compare(charged, lives, policy, month.start, seed.at if seed else None)
    shares = costs_of(store, policy, month, now).shares
    ledger = sum((share.usd for share in shares if share.part is not Part.SEEDED), Decimal(0))
    return account(compared, ledger, month.start, policy)


def report_of(store: ReadStore, policy: Policy, month: Month, now: datetime, team: str | None = None) -> Report:
    """Return the report of *month*: of all teams, or one *team*. Raises TryLater when the store fails."""
    return report(found_in(store, policy, month, now), policy, month, now, team)
