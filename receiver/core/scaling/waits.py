"""What keeps a pool from changing for a while, per direction, and the moment at which each of it ends by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from receiver.core.model.model import PoolState
from receiver.core.model.policy import Policy, Pool
from receiver.core.scaling.capacity import LONGEST_GROWTH_BACKOFF, LONGEST_REMOVAL_BACKOFF
from receiver.core.scaling.count_drift import undone_by_others
from receiver.core.scaling.provisioning import LONGEST_PROVISIONING_BACKOFF


class Direction(StrEnum):
    """Which change waits."""

    GROW = "grow"
    SHRINK = "shrink"


class WaitKind(StrEnum):
    """Why: the guardrails `cooled_down`, `not_backing_off`, `provisioning_works` and `not_undone_by_others`."""

    COOLDOWN = "cooldown"  # it has just changed that way
    BACKOFF = "backoff"  # the last try failed
    PROVISIONING = "provisioning"  # nodes came that never became usable
    UNDONE = "undone"  # somebody else turned our changes back again and again


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One direction that waits until *until*. *nodes* names those that alone wait; empty is the whole pool."""

    direction: Direction
    kind: WaitKind
    until: datetime
    reason: str
    failures: int = 0
    nodes: tuple[str, ...] = ()


def waits(pool: Pool, state: PoolState, policy: Policy, now: datetime) -> tuple[Wait, ...]:
    """Return everything that is timed and in force at *now*, growth before removal, in the order of the guardrails.

    Whether the pool should change at all does not matter here.
    """
    found = (
        *_backoffs(state, now),
        *_undone(state, now),
        *_provisioning(state, now),
        *_cooldowns(pool, state, policy, now),
    )
    in_force = [w for w in found if w.until > now]
    return tuple(sorted(in_force, key=lambda w: w.direction is Direction.SHRINK))


def _backoffs(state: PoolState, now: datetime) -> Iterator[Wait]:
    for direction, backoff, longest in (
        (Direction.GROW, state.backoff, LONGEST_GROWTH_BACKOFF),
        (Direction.SHRINK, state.removal_backoff, LONGEST_REMOVAL_BACKOFF),
    ):
        if backoff is not None and (backoff.instances or backoff.holds(now, longest)):
            names = {n.instance: n.name for n in state.nodes}
            nodes = tuple(names[i] for i in backoff.instances if i in names)
            if backoff.instances and not nodes:
                continue  # the nodes that it speaks of are gone
            yield Wait(
                direction=direction,
                kind=WaitKind.BACKOFF,
                until=backoff.until,
                reason=backoff.reason,
                failures=backoff.failures,
                nodes=nodes,
            )


def _undone(state: PoolState, now: datetime) -> Iterator[Wait]:
    for direction, way in ((Direction.GROW, "lowered"), (Direction.SHRINK, "raised")):
        until = undone_by_others(state, now, grows=direction is Direction.GROW)
        if until is not None:
            reason = f"somebody {way} the count again and again after our own change"
            yield Wait(direction=direction, kind=WaitKind.UNDONE, until=until, reason=reason)


def _provisioning(state: PoolState, now: datetime) -> Iterator[Wait]:
    failed = state.provisioning
    if failed is not None and failed.holds(now, LONGEST_PROVISIONING_BACKOFF):
        yield Wait(
            direction=Direction.GROW,
            kind=WaitKind.PROVISIONING,
            until=failed.until,
            reason=failed.reason,
            failures=failed.failures,
        )


def _cooldowns(pool: Pool, state: PoolState, policy: Policy, now: datetime) -> Iterator[Wait]:
    changes = [(Direction.GROW, state.last_grow_at, pool.grow_cooldown, "grew")]
    if not policy.billing.by_the_hour:  # there removal is timed to the paid hour
        changes.append((Direction.SHRINK, state.last_shrink_at, pool.shrink_cooldown, "shrank"))
    for direction, last, cooldown, did in changes:
        if last is not None and last <= now:  # in the future: the clock was wrong then
            reason = f"it {did} at {last:%Y-%m-%d %H:%M:%S} UTC"
            yield Wait(direction=direction, kind=WaitKind.COOLDOWN, until=last + cooldown, reason=reason)
