"""Charges: asks Civo from time to time, seeds a lost store, and completes the month's spend. Writes nothing itself."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.charges import Charged, Comparison, Seed, beside, is_due, new_seed, seeded_by_pool, seeded_usd
from receiver.core.model.memory import Memory, NodeLife
from receiver.core.model.model import Spend
from receiver.core.model.policy import Policy, Scope
from receiver.core.model.text import some
from receiver.core.money.budget import Month
from receiver.core.money.reconciliation import account, compare
from receiver.ports import Accounts, TryLater, WontWork

STALE = timedelta(days=1)  # older answers are not used for the account


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledCharges:
    """The account's charges compared with the ledger, and the month's *spend* completed by them and by the seed.

    *charged* and *seed* are to be stored, None if unchanged.
    """

    spend: Spend
    compared: Comparison | None
    charged: Charged | None
    seed: Seed | None


def reconcile_charges(
    accounts: Accounts | None,
    memory: Memory,
    lives: Sequence[NodeLife],
    spend: Spend,
    policy: Policy,
    month: Month,
    now: datetime,
    *,
    nodes_seen: bool,
) -> ReconciledCharges:
    """Return the account's charges compared with *lives*, which cost *spend* by the ledger.

    *nodes_seen* is True when Civo listed the nodes in this step, which a seed requires.
    """
    held, seed = memory.charged, memory.seed
    asked: Charged | None = None
    awaited = seed is None and policy.budget is not None
    set_now = any(
        c.scope is Scope.ACCOUNT and c.month == month.name and c.monthly_usd is not None for c in memory.budget_changes
    )
    # A budget of the account blocks growth until its spend is known.
    limits_account = policy.budget is not None and (set_now or policy.budget.account_usd is not None)
    urgent = awaited or (limits_account and not (held is not None and _is_fresh(held, now)))
    if accounts is not None and is_due(held, month.name, now, urgent=urgent):
        held = asked = _ask(accounts, held, month, now)
    compared: Comparison | None = None
    told: Decimal | None = None
    if held is not None and held.month == month.name:
        compared = compare(held, lives, policy, month.start, seed.at if seed else None)
        told = account(compared, spend.usd, month.start, policy)
        compared = replace(compared, account_usd=told if _is_fresh(held, now) else None)
    made = new_seed(seed, compared, spend.usd, policy, month.name, now) if nodes_seen else None
    seed = made or seed
    counted = beside(seed, ((life.instance, life.name) for life in lives))
    seeded, unpriced = seeded_usd(counted, policy, month.name)
    usd, unpriced = spend.usd + seeded, tuple(sorted({*spend.unpriced, *unpriced}))
    pools = dict(spend.pools)
    for pool, more in seeded_by_pool(counted, policy, month.name):
        pools[pool] = pools.get(pool, Decimal(0)) + more
    found = compared.account_usd if compared is not None else None
    completed = replace(
        spend,
        usd=usd,
        unpriced=unpriced,
        pools=pools,
        seeded=seeded,
        unknown=_why_unknown(held, nodes_seen=nodes_seen) if awaited and seed is None and accounts is not None else "",
        account=None if found is None else max(found, usd),
        account_at_least=max(told or Decimal(0), usd),
        account_unpriced=_without_price(compared, unpriced),
    )
    return ReconciledCharges(spend=completed, compared=compared, charged=asked, seed=made)


def _ask(accounts: Accounts, held: Charged | None, month: Month, now: datetime) -> Charged:
    """Ask Civo for the month up to *now*; after a failure the last answer of the month remains."""
    last = held if held is not None and held.month == month.name else None
    try:
        found = accounts.charges(month.start, now)
    except (TryLater, WontWork) as error:
        before = last or Charged(month=month.name, asked_at=now)
        return replace(before, asked_at=now, failure=str(error), failing_since=before.failing_since or now)
    return Charged(month=month.name, asked_at=now, answered_at=now, records=found.records, unreadable=found.unreadable)


def _is_fresh(charged: Charged, now: datetime) -> bool:
    return charged.answered_at is not None and now - charged.answered_at <= STALE


def _why_unknown(charged: Charged | None, *, nodes_seen: bool) -> str:
    if not nodes_seen:
        return "Civo does not list the nodes"
    if charged is not None and charged.unreadable and not charged.failure:
        return f"{some(len(charged.unreadable), 'charge')} cannot be read ({charged.unreadable[0]})"
    return f"Civo's charges do not answer ({charged.failure if charged and charged.failure else 'not asked yet'})"


def _without_price(compared: Comparison | None, unpriced_sizes: Sequence[str]) -> tuple[str, ...]:
    """The parts of the account without a price, in words."""
    if compared is None:
        return ()
    words = [f"{hours.normalize():f} hours of {code}" for code, hours in compared.unpriced]
    charged = {code for code, _ in compared.unpriced}
    words += [f"nodes of {size}" for size in unpriced_sizes if f"kube-node-{size}" not in charged]
    unreadable = len(compared.charged.unreadable)
    return (*words, f"{some(unreadable, 'charge')} that cannot be read") if unreadable else tuple(words)
