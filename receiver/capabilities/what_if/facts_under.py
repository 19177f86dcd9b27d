"""What another policy would decide now: the facts of a step as that policy has them, and what stays as it was."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from receiver.core.model.devices import is_claim
from receiver.core.model.model import Facts, NextNode, PoolState
from receiver.core.model.policy import Policy, Pool
from receiver.core.money.budget import Forecast, month_of, nodes_of
from receiver.core.scaling.template import fingerprint, offer_of

THRESHOLDS = ("utilization_high", "utilization_low", "underutilized", "idle", "temperature_celsius")


def facts_under(facts: Facts, in_force: Policy, other: Policy) -> Facts:
    """Return *facts*, which were gathered under the policy *in_force*, for a decision by *other*.

    A pool that only *other* has starts without nodes. The nodes of a pool that it lacks keep running and costing, but
    are not managed. What depends on the policy and can be derived from the facts is derived anew: the offers of nodes
    (`offer_of`), the signals of pools, the cost of unmanaged nodes. `not_rederived` names the rest.
    """
    by_id = {state.pool: state for state in facts.pools}
    ids = {pool.id for pool in other.pools}
    states = tuple(_state(by_id.get(pool.id), in_force.pool(pool.id), pool, facts, other) for pool in other.pools)
    unmanaged = sum((per_hour(p, facts.pool(p.id)) for p in in_force.pools if p.id not in ids), Decimal(0))
    spend = replace(facts.spend, elsewhere_per_hour=facts.spend.elsewhere_per_hour + unmanaged)
    signals = tuple(signal for signal in facts.signals if signal.pool is None or signal.pool in ids)
    return replace(facts, pools=states, signals=signals, spend=spend)


def _state(state: PoolState | None, before: Pool | None, pool: Pool, facts: Facts, other: Policy) -> PoolState:
    if state is None or before is None:
        return PoolState(pool=pool.id, required=0)
    if fingerprint(before) == fingerprint(pool):
        return state
    offer = offer_of(pool, state.nodes, state.offer, facts.at, other.startup_taints)
    alike = before.size == pool.size
    return replace(state, offer=offer, next_node=state.next_node if alike else NextNode())


def per_hour(pool: Pool, state: PoolState, nodes: int | None = None) -> Decimal:
    """USD per hour of *nodes* nodes of *pool*; of those that exist or are requested unless given. 0 without a price."""
    count = nodes_of(state) if nodes is None else nodes
    return (pool.price_usd_per_hour or Decimal(0)) * count


def at_the_end(facts: Facts, usd_per_hour: Decimal, policy: Policy) -> Forecast:
    """The month's cost if *usd_per_hour* is paid until its end; unknown while the spend is."""
    if facts.spend.unknown:
        return Forecast()
    time_left = month_of(facts.at, policy.timezone).end - facts.at
    hours = Decimal(max(0, round(time_left.total_seconds()))) / Decimal(3600)
    return Forecast(usd=facts.spend.usd + usd_per_hour * hours, burn=usd_per_hour, since=facts.at)


def not_rederived(facts: Facts, in_force: Policy, other: Policy) -> Iterator[str]:
    """Yield what of *facts* depends on the policy *in_force*, would be otherwise under *other*, and stays as it was."""
    pairs = [(in_force.pool(pool.id), pool) for pool in other.pools]
    common = [(was, now) for was, now in pairs if was is not None]
    new = [now.name for was, now in pairs if was is None]
    if new:
        yield f"pools that only the other configuration has start without nodes: {', '.join(new)}"
    if in_force.billing.granularity != other.billing.granularity or in_force.billing.rounding != other.billing.rounding:
        yield "the spend so far is counted with the billing in force"
    if in_force.timezone != other.timezone:
        yield f"the spend so far is that of the month in {in_force.timezone}"
    if facts.spend.teams is None and other.budget is not None and other.budget.teams:
        yield "the spend of teams is not attributed yet, so budgets of teams block growth"
    if in_force.budget is None and other.budget is not None:
        yield "the spend so far is what this ledger has observed; from before it began, nothing is known"
    if any(was.price_usd_per_hour != now.price_usd_per_hour for was, now in common):
        yield "nodes bought so far are in the spend at the price of their purchase"
    if any(was.resources != now.resources for was, now in common) or in_force.startup_taints != other.startup_taints:
        yield "whether a node is usable is judged by the configuration in force"
    claims = any(is_claim(name) for pod in (*facts.waiting, *facts.other_work.deferred) for name in pod.requests)
    if claims and any(was is None or (was.devices, was.size) != (now.devices, now.size) for was, now in pairs):
        yield "what pods claim is judged by the devices that nodes show and the configuration in force names"
    thresholds = any(getattr(was, name) != getattr(now, name) for was, now in common for name in THRESHOLDS)
    if thresholds or in_force.queue_wait != other.queue_wait:
        yield "alerts fire by the thresholds in force"
    if in_force.keep_until != other.keep_until:
        yield "nodes that workloads keep (keep-until) are those of the configuration in force"
    if any(now.windows and any(w.evict_after is not None for w in now.windows) for _, now in pairs):
        yield "evictions by windows that are not announced yet start with their announcement"
