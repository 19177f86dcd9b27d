"""Make a decision executable: an absolute count or named victims, under an id that the same decision gives again."""

import hashlib
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from receiver.core.model.actions import Action, ActionKind, Because, Change, Decision, Victim
from receiver.core.model.model import Backoff, PoolState, Stage
from receiver.core.model.policy import Policy
from receiver.core.money.cost import unit_price

FIRST_BACKOFF = timedelta(minutes=30)
FIRST_BACKOFF_BESIDE_WORKING_NODES = timedelta(minutes=5)
LONGEST_BACKOFF = timedelta(hours=24)


def plan(decision: Decision, state: PoolState, policy: Policy) -> Action | None:
    """Return the action that *decision* asks for, or None to hold.

    Growth is one absolute count. Removal never lowers the count at the cloud, which would let the cloud choose a
    victim: it names the instances, soonest paid hour first.
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
    chosen = decision.candidates[: decision.present - decision.target]
    return Action(
        id=f"{stamp}-retire-{len(chosen)}",
        pool=pool.id,
        kind=ActionKind.RETIRE,
        opened_at=decision.at,
        from_count=decision.present,
        to_count=decision.present - len(chosen),
        victims=tuple(_victim(i, decision, state) for i in chosen),
    )


def _victim(instance: str, decision: Decision, state: PoolState) -> Victim:
    node = next(n for n in state.nodes if n.instance == instance)
    because = Because.IDLE if node.stage is Stage.USABLE else Because.STUCK
    if node.busy:
        because = Because.EVICTED if instance in decision.evicted else Because.CONSOLIDATED
    return Victim(instance=instance, node=node.name, because=because, since=decision.at)


def provisioning_failed(action: Action, state: PoolState) -> Backoff | None:
    """The pool's back-off from provisioning when *action* removes nodes that never became usable, else None.

    Each failure in a row doubles it, up to a day: every node on trial costs a paid unit. Where other nodes of the pool
    work it starts lower, for one bad machine says little about the next. Nodes whose Node object was deleted came up
    well: the first time, another one is tried at once.
    """
    bad = {v.instance for v in action.victims if v.because is Because.STUCK}
    known = state.provisioning.instances if state.provisioning else ()
    never = [n for n in state.nodes if n.instance in bad and not n.was_usable and n.instance not in known]
    if not never:
        return None  # or each was counted at the first try of its removal
    failures = (state.provisioning.failures if state.provisioning else 0) + 1
    vanished = all(n.vanished for n in never)
    first = FIRST_BACKOFF_BESIDE_WORKING_NODES if vanished or state.of(Stage.USABLE) else FIRST_BACKOFF
    base = min(first * 2 ** min(failures - 1, 10), LONGEST_BACKOFF)
    base = timedelta(0) if vanished and failures == 1 else base
    spread = hashlib.sha256(action.id.encode()).digest()[0] / 255 * 0.1
    return Backoff(
        failures=failures,
        until=action.opened_at + base * (1 + spread),
        reason=f"{', '.join(n.name for n in never)} never became usable",
        instances=(*known, *(n.instance for n in never)),
    )


def join(action: Action, decision: Decision, state: PoolState) -> Action:
    """Add to an open removal the nodes whose moment came meanwhile: a late count must not keep them another hour.

    Nodes that never became usable wait for an action of their own, with which their back-off is stored.
    """
    known = {v.instance for v in action.victims}
    let_go = decision.candidates[: max(0, decision.present - decision.target)]
    new = (_victim(i, decision, state) for i in let_go if i not in known)
    more = tuple(v for v in new if v.because is not Because.STUCK)
    return replace(action, victims=(*action.victims, *more), to_count=action.to_count - len(more)) if more else action
