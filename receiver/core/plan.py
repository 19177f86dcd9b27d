"""Make a decision executable: an absolute count or named victims, under an id that the same decision gives again."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from receiver.core.actions import Action, ActionKind, Change, Decision, Victim
from receiver.core.cost import unit_price
from receiver.core.model import PoolState
from receiver.core.policy import Policy


def plan(decision: Decision, state: PoolState, policy: Policy) -> Action | None:
    """Return the action that *decision* asks for, or None to hold.

    Growth is one absolute count. Shrinking never lowers the count at the cloud, which would let it choose
    a victim: it names the instances, soonest paid hour first.
    """
    pool = policy.pool(decision.pool)
    if pool is None or decision.change is Change.HOLD:
        return None
    stamp = f"{pool.name}-{decision.at:%Y%m%dT%H%M%S.%fZ}"
    if decision.change is Change.GROW:
        new_nodes = decision.target - decision.present
        price = pool.price_usd_per_hour
        return Action(
            id=f"{stamp}-grow-{decision.present}-to-{decision.target}",
            pool=pool.id,
            kind=ActionKind.GROW,
            opened_at=decision.at,
            from_count=decision.present,
            to_count=decision.target,
            reserved_usd=Decimal(0) if price is None else new_nodes * unit_price(price, policy.billing),
        )
    names = {n.instance: n.name for n in state.nodes}
    chosen = decision.candidates[: decision.present - decision.target]
    return Action(
        id=f"{stamp}-retire-{len(chosen)}",
        pool=pool.id,
        kind=ActionKind.RETIRE,
        opened_at=decision.at,
        from_count=decision.present,
        to_count=decision.present - len(chosen),
        victims=tuple(Victim(instance=i, node=names[i], since=decision.at) for i in chosen),
    )


def join(action: Action, let_go: Sequence[str], state: PoolState, now: datetime) -> Action:
    """Add to an open removal the nodes whose moment came meanwhile: a late count must not keep them another hour."""
    known = {v.instance for v in action.victims}
    names = {n.instance: n.name for n in state.nodes}
    more = tuple(Victim(instance=i, node=names[i], since=now) for i in let_go if i not in known)
    return replace(action, victims=(*action.victims, *more), to_count=action.to_count - len(more)) if more else action
