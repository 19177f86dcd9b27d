"""What the month has cost so far: the ledger, the account's charges, and the seed of a lost store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.charges import Charged, Comparison, Seed, beside, is_due, new_seed, seeded_by_pool, seeded_usd
from receiver.core.model.memory import NodeLife
from receiver.core.model.model import (
    Spend,
)
from receiver.core.model.policy import Scope
from receiver.core.model.text import some
from receiver.core.money.attribution import MonthToDate, attribute, by_team
from receiver.core.money.budget import Month
from receiver.core.money.cost import committed_usd, dearer_per_hour, elsewhere_per_hour, spend_by_pool
from receiver.core.money.reconciliation import account, compare
from receiver.ports import (
    Accounts,
    TryLater,
    WontWork,
)
from receiver.step.asking import Look

STALE = timedelta(days=1)  # older answers are not used for the account


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledCharges:
    """The month's *spend*, completed by the account's charges and by the seed.

    *charged* and *seed* are to be stored, None if unchanged.
    """

    spend: Spend
    charged: Charged | None
    seed: Seed | None


def spend_of(lives: Sequence[NodeLife], look: Look, *, forecasts: bool) -> Spend:
    """Return what the ledger says of the month."""
    memory, policy, now = look.memory, look.policy, look.now
    pools, unpriced = spend_by_pool(lives, look.month.start, now, policy.billing, memory.ended)
    watched_usd: Mapping[str, Decimal] = {}
    since: datetime | None = None
    if forecasts:
        with look.parts.part("forecast"):
            began = max(look.month.start, min(memory.watched_since or now, now))
            watched_usd, since = spend_by_pool(lives, began, now, policy.billing)[0], began
    teams: Mapping[str, Decimal] | None = None
    with look.parts.part("teams"):  # a budget of a team whose spend is not known holds the team's growth
        # Sharing out a month of thousands of nodes takes a while: only where a team has a budget.
        set_now = any(c.scope is Scope.TEAM and c.month == look.month.name for c in memory.budget_changes)
        if look.sources.cluster is not None and policy.budget is not None and (policy.budget.teams or set_now):
            used = look.sources.store.usage(look.month.name)
            teams = by_team(attribute(lives, used, (), MonthToDate(look.month, now, policy.billing)))
    return Spend(
        month=look.month.name,
        usd=sum(pools.values(), Decimal(0)),
        unpriced=unpriced,
        pools=pools,
        teams=teams,
        elsewhere_per_hour=elsewhere_per_hour(lives, {pool.id for pool in policy.pools}),
        committed={c.pool: committed_usd(c, now, look.month.end) for c in policy.billing.committed if c.until > now},
        dearer_per_hour=dearer_per_hour(lives, policy.pools),
        seen=watched_usd,
        seen_since=since,
    )


def reconcile_charges(lives: Sequence[NodeLife], spend: Spend, look: Look, *, nodes_seen: bool) -> ReconciledCharges:
    """Return *spend*, what *lives* cost by the ledger, completed by the account's charges, which are compared with it.

    *nodes_seen* is True when Civo listed the nodes in this step, which a seed requires.
    """
    accounts, policy, month, now = look.sources.accounts, look.policy, look.month, look.now
    held, seed = look.memory.charged, look.memory.seed
    new_charges: Charged | None = None
    awaited = seed is None and policy.budget is not None
    set_now = any(
        c.scope is Scope.ACCOUNT and c.month == month.name and c.monthly_usd is not None
        for c in look.memory.budget_changes
    )
    # A budget of the account blocks growth until its spend is known.
    limits_account = policy.budget is not None and (set_now or policy.budget.account_usd is not None)
    urgent = awaited or (limits_account and not (held is not None and _is_fresh(held, now)))
    if accounts is not None and is_due(held, month.name, now, urgent=urgent):
        held = new_charges = _ask_charges(accounts, held, month, now)
    compared: Comparison | None = None
    account_usd: Decimal | None = None
    if held is not None and held.month == month.name:
        compared = compare(held, lives, policy, month.start, seed.at if seed else None)
        account_usd = account(compared, spend.usd, month.start, policy, seed)
        compared = replace(compared, account_usd=account_usd if _is_fresh(held, now) else None)
    fresh_seed = new_seed(seed, compared, spend.usd, policy, month.name, now) if nodes_seen else None
    seed = fresh_seed or seed
    counted = beside(seed, ((life.instance, life.name) for life in lives))
    seeded, unpriced = seeded_usd(counted, policy, month.name)
    usd, unpriced = spend.usd + seeded, tuple(sorted({*spend.unpriced, *unpriced}))
    pools = dict(spend.pools)
    for pool, seed_usd in seeded_by_pool(counted, policy, month.name):
        pools[pool] = pools.get(pool, Decimal(0)) + seed_usd
    fresh_usd = compared.account_usd if compared is not None else None
    completed = replace(
        spend,
        usd=usd,
        unpriced=unpriced,
        pools=pools,
        seeded=seeded,
        unknown=_why_unknown(held, nodes_seen=nodes_seen) if awaited and seed is None and accounts is not None else "",
        account=None if fresh_usd is None else max(fresh_usd, usd),
        account_at_least=max(account_usd or Decimal(0), usd),
        account_unpriced=_without_price(compared, unpriced),
        charges=compared,
    )
    return ReconciledCharges(spend=completed, charged=new_charges, seed=fresh_seed)


def _ask_charges(accounts: Accounts, held: Charged | None, month: Month, now: datetime) -> Charged:
    """Ask Civo for the month up to *now*; after a failure the last answer of the month remains."""
    last = held if held is not None and held.month == month.name else None
    try:
        charges = accounts.charges(month.start, now)
    except (TryLater, WontWork) as error:
        before = last or Charged(month=month.name, asked_at=now)
        return replace(before, asked_at=now, failure=str(error), failing_since=before.failing_since or now)
    return Charged(
        month=month.name, asked_at=now, answered_at=now, records=charges.records, unreadable=charges.unreadable
    )


def _is_fresh(charged: Charged, now: datetime) -> bool:
    return charged.answered_at is not None and now - charged.answered_at <= STALE


def _why_unknown(charged: Charged | None, *, nodes_seen: bool) -> str:
    if not nodes_seen:
        return "Civo does not list the nodes"
    if charged is not None and charged.unreadable and not charged.failure:
        return f"{some(len(charged.unreadable), 'charge')} cannot be read ({charged.unreadable[0]})"
    return f"Civo's charges cannot be read ({charged.failure if charged and charged.failure else 'not asked yet'})"


def _without_price(compared: Comparison | None, unpriced_sizes: Sequence[str]) -> tuple[str, ...]:
    """The parts of the account without a price, in words."""
    if compared is None:
        return ()
    words = [f"{hours.normalize():f} hours of {code}" for code, hours in compared.unpriced]
    charged = {code for code, _ in compared.unpriced}
    words += [f"nodes of {size}" for size in unpriced_sizes if f"kube-node-{size}" not in charged]
    unreadable = len(compared.charged.unreadable)
    return (*words, f"{some(unreadable, 'charge')} that cannot be read") if unreadable else tuple(words)
