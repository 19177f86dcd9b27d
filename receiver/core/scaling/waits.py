"""What keeps a pool from changing for a while, per direction: back-offs, others' changes, failed nodes, cooldowns."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from receiver.core.model.model import PoolState
from receiver.core.model.policy import Policy, Pool
from receiver.core.scaling.capacity import LONGEST_GROWTH_BACKOFF, LONGEST_REMOVAL_BACKOFF
from receiver.core.scaling.provisioning import LONGEST_PROVISIONING_BACKOFF, undone_by_others


class Direction(StrEnum):
    """Which change waits."""

    GROW = "grow"
    SHRINK = "shrink"


class WaitKind(StrEnum):
    """Why: the guardrails `cooled_down`, `not_backing_off`, `provisioning_works` and `not_undone_by_others`."""

    COOLDOWN = "cooldown"  # it has just changed that way
    BACKOFF = "backoff"  # the last try failed
    PROVISIONING = "provisioning"  # its last nodes never became usable
    UNDONE = "undone"  # another system reverted our changes again and again


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One direction that waits until *until*. *nodes* names those that alone wait; empty is the whole pool."""

    direction: Direction
    kind: WaitKind
    until: datetime
    reason: str
    failures: int = 0
    nodes: tuple[str, ...] = ()


Timer = Callable[[Direction, Pool, PoolState, Policy, datetime], Wait | None]


def backing_off(direction: Direction, _pool: Pool, state: PoolState, _policy: Policy, now: datetime) -> Wait | None:
    """The back-off after a failed change, of the pool or of some of its nodes."""
    backoff, longest = {
        Direction.GROW: (state.backoff, LONGEST_GROWTH_BACKOFF),
        Direction.SHRINK: (state.removal_backoff, LONGEST_REMOVAL_BACKOFF),
    }[direction]
    if backoff is None or not (backoff.instances or backoff.holds(now, longest)):
        return None
    names = {n.instance: n.name for n in state.nodes}
    nodes = tuple(names[i] for i in backoff.instances if i in names)
    if backoff.instances and not nodes:
        return None  # its nodes are gone
    return Wait(
        direction=direction,
        kind=WaitKind.BACKOFF,
        until=backoff.until,
        reason=backoff.reason,
        failures=backoff.failures,
        nodes=nodes,
    )


def undone(direction: Direction, _pool: Pool, state: PoolState, _policy: Policy, now: datetime) -> Wait | None:
    """The pause after another system reverted our changes again and again."""
    grows = direction is Direction.GROW
    until = undone_by_others(state, now, grows=grows)
    if until is None:
        return None
    reason = f"another system {'lowered' if grows else 'raised'} the count repeatedly after our own change"
    return Wait(direction=direction, kind=WaitKind.UNDONE, until=until, reason=reason)


def failed_nodes(direction: Direction, _pool: Pool, state: PoolState, _policy: Policy, now: datetime) -> Wait | None:
    """The back-off from buying after nodes that never became usable."""
    failed = state.provisioning
    if direction is Direction.SHRINK or failed is None or not failed.holds(now, LONGEST_PROVISIONING_BACKOFF):
        return None
    return Wait(
        direction=direction,
        kind=WaitKind.PROVISIONING,
        until=failed.until,
        reason=failed.reason,
        failures=failed.failures,
    )


def cooling_down(direction: Direction, pool: Pool, state: PoolState, policy: Policy, now: datetime) -> Wait | None:
    """The cooldown after a change. Where hours are billed, removal follows the paid hour and has none."""
    if direction is Direction.GROW:
        last, cooldown, did = state.last_grow_at, pool.grow_cooldown, "grew"
    else:
        last, cooldown, did = state.last_shrink_at, pool.shrink_cooldown, "shrank"
        if policy.billing.by_the_hour:
            return None
    if last is None or not last <= now < last + cooldown:  # a change in the future: the clock was wrong then
        return None
    reason = f"it {did} at {last:%Y-%m-%d %H:%M:%S} UTC"
    return Wait(direction=direction, kind=WaitKind.COOLDOWN, until=last + cooldown, reason=reason)


TIMERS: tuple[Timer, ...] = (backing_off, undone, failed_nodes, cooling_down)


def waits(pool: Pool, state: PoolState, policy: Policy, now: datetime) -> tuple[Wait, ...]:
    """Return everything that is timed and in force at *now*, growth before removal, in the order of the guardrails,
    whether or not the pool should change."""
    found = (timer(direction, pool, state, policy, now) for direction in Direction for timer in TIMERS)
    return tuple(wait for wait in found if wait is not None and wait.until > now)
