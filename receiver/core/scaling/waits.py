"""What keeps a pool from changing for a while, per direction: back-offs, others' changes, failed nodes, cooldowns."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from receiver.core.model.actions import Action, ActionKind, Because, Outcome, OutcomeKind, VictimStage
from receiver.core.model.memory import PoolMemory
from receiver.core.model.model import ON_ITS_WAY, Backoff, Drift, LateCount, Node, PoolState, Stage
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import some
from receiver.core.money.budget import may_have_landed

LONGEST_GROWTH_BACKOFF = timedelta(hours=1)
LONGEST_REMOVAL_BACKOFF = timedelta(hours=25)
LONGEST_PROVISIONING_BACKOFF = timedelta(hours=27)


def unlisted_too_long(pool: Pool, state: PoolState, now: datetime) -> bool:
    """True when Civo was asked for nodes longer than the provision timeout ago and still lists fewer."""
    since = state.required_since
    return state.unlisted > 0 and since is not None and now - since > pool.provision_timeout


def stuck_nodes(pool: Pool, state: PoolState, now: datetime) -> tuple[Node, ...]:
    """The nodes that did not become usable in time, or came up broken."""
    new = (n for n in state.living if not n.was_usable)
    late = pool.provision_timeout
    return tuple(
        n
        for n in new
        if (n.stage is Stage.BROKEN and not n.vanished)
        or ((n.stage in ON_ITS_WAY or n.vanished) and now - n.created_at > late)
    )


def dead_nodes(pool: Pool, state: PoolState, now: datetime) -> tuple[Node, ...]:
    """The nodes that had their time and are certain not to be usable.

    While Kubernetes lists nodes that match no instance, a node that it does not know is not dead. One that vanished
    from Kubernetes needs no time.
    """
    stuck = [n for n in stuck_nodes(pool, state, now) if not n.vanished]
    new = [n for n in stuck if now - n.watched_since > pool.provision_timeout]
    new += [n for n in state.living if n.vanished]
    return tuple(n for n in (*new, *lost_nodes(pool, state, now)) if n.registered or not state.unjoined)


def lost_nodes(pool: Pool, state: PoolState, now: datetime) -> tuple[Node, ...]:
    """The nodes that were usable, broke, and did not recover within the provision timeout."""
    broken = (n for n in state.living if n.was_usable and n.stage is Stage.BROKEN)
    return tuple(n for n in broken if n.lost_at is not None and now - n.lost_at > pool.provision_timeout)


def awaited_since(state: PoolState) -> datetime | None:
    """Since when the pool waits for its oldest node on the way, or for nodes that Civo does not list, or None."""
    coming = [n for n in state.living if not n.was_usable and (n.stage in ON_ITS_WAY or n.stage is Stage.BROKEN)]
    since = [n.watched_since for n in coming]
    if state.unlisted > 0 and state.required_since is not None:
        since.append(state.required_since)
    return min(since, default=None)


def stuck_on_the_way(pool: Pool, state: PoolState, now: datetime) -> tuple[str, ...]:
    """Names of the nodes that did not become usable in time or came up broken, and those Civo never built."""
    late = [n.name for n in stuck_nodes(pool, state, now)]
    missing = [f"{some(state.unlisted, 'node')} that Civo does not list"] if unlisted_too_long(pool, state, now) else []
    return (*late, *missing)


def probes_left(state: PoolState, now: datetime) -> int | None:
    """New nodes that a pool may request after nodes that never became usable; None when all is well.

    While it backs off from provisioning: none. After that one node on trial, until one becomes usable: a pool whose
    GPUs never come would otherwise cost a whole paid unit per waiting node, again and again.
    """
    if state.provisioning is None:
        return None
    if state.provisioning.holds(now, LONGEST_PROVISIONING_BACKOFF):
        return 0
    return max(0, 1 - len(state.coming) - state.unlisted)


MUST_FALL_WITHIN = timedelta(minutes=15)  # after a removal; longer than that is no delay
UNDOINGS = 3
IN_A_DAY = timedelta(hours=24)
GIVES_WAY_FOR = timedelta(hours=24)
UNDONE_WITHIN = timedelta(hours=1)  # a change against ours within this time reverts it


def expected_count(late: LateCount | None, shown: int, now: datetime) -> int:
    """The nodes requested when Civo shows *shown*: a change of ours counts before Civo shows it."""
    return late.expected if late is not None and is_late(late, shown) and not is_overdue(late, now) else shown


def is_late(late: LateCount, shown: int) -> bool:
    """True while Civo's count is still moving to our change; any other number was set by others."""
    if late.expected < late.shown:
        return late.expected < shown <= late.shown
    return late.shown <= shown < late.expected


def is_overdue(late: LateCount, now: datetime) -> bool:
    """True when the count should have fallen by *now*."""
    return now - late.since > MUST_FALL_WITHIN


def why_removals_stop(late: LateCount | None, shown: int, living: int, now: datetime) -> str | None:
    """Say how Civo answered a removal with something other than one node less, or None.

    Removals that are answered with replacements only cost money.
    """
    if late is None or not late.expected < shown <= late.shown:
        return None
    if living > late.expected:
        return f"Civo replaced a removed node: {living} nodes where {late.expected} were left"
    if is_overdue(late, now):
        minutes = int(MUST_FALL_WITHIN.total_seconds() // 60)
        return f"the count of {shown} did not fall to {late.expected} within {minutes} minutes of a removal"
    return None


def late_after(action: Action, state: PoolState, now: datetime) -> LateCount | None:
    """What a removal that ends now leaves uncounted: None when Civo's count fell, or was raised by others meanwhile.

    If no step ran for longer than a count takes to fall, the count of now says nothing about the removal.
    """
    if action.kind is not ActionKind.RETIRE:
        return None
    went = [v.since for v in action.victims if v.stage in (VictimStage.DELETED, VictimStage.GONE)]
    removed, known = len(went), [since for since in went if since is not None]
    if known and now - max(known) > 2 * MUST_FALL_WITHIN:
        return None
    left, shown = action.from_count - removed, state.required + state.uncounted
    raised = shown > action.from_count + state.uncounted
    if not removed or raised or shown <= left:
        return None
    return LateCount(expected=left, shown=shown, since=now)


def drift(past: PoolMemory | None, shown: int, now: datetime, unanswered: int = 0) -> Drift | None:
    """The change of a pool's count since the last step that none of our own actions explains, or None.

    *unanswered* is the highest count of growth that ended without an answer: Civo may show it now.
    """
    if past is None or past.required_since is None or shown == past.required:
        return None
    low, high = past.required, max(past.required, unanswered)
    if past.late is not None:
        low, high = min(low, past.late.expected), max(high, past.late.expected)
    action = past.open_action
    if action is not None and action.kind is ActionKind.GROW:
        high = max(high, action.to_count)
    if _within(past.last_shrink_at, MUST_FALL_WITHIN, now) or (action and action.kind is ActionKind.RETIRE):
        low = 0  # removals show late and one by one
    if low <= shown <= high:
        return None
    against = past.last_shrink_at if shown > past.required else past.last_grow_at
    undoes = _within(against, UNDONE_WITHIN, now)
    return Drift(at=now, from_count=past.required, to_count=shown, undoes=undoes)


def undone_by_others(state: PoolState, now: datetime, *, grows: bool) -> datetime | None:
    """Until when a pool does not grow, or does not shrink, because others keep reverting that; None: it may.

    Two programs that correct each other only cost money: after the third time in a day the other one wins.
    """
    against = sorted(d.at for d in state.drifts if d.undoes and (d.to_count < d.from_count) is grows)
    if len(against) < UNDOINGS or against[-1] - against[-UNDOINGS] > IN_A_DAY:
        return None
    until = against[-1] + GIVES_WAY_FOR
    return until if now < until else None


def _within(moment: datetime | None, span: timedelta, now: datetime) -> bool:
    return moment is not None and timedelta(0) <= now - moment <= span


REFUSAL_LASTS = timedelta(seconds=30)  # stock changes by the minute, so older refusals do not count


class Shortage(StrEnum):
    """Why Civo provided no node, as far as people can act on it."""

    STOCK = "stock"  # no free GPU of the kind, or the region is full: wait, or use another size or region
    QUOTA = "quota"  # the account's quota: request a higher one, or free resources
    OTHER = "other"


_BY_CODE = {
    "gpu_count_exceeded": Shortage.STOCK,
    "out_of_capacity": Shortage.STOCK,
    "quota_limit_reached": Shortage.QUOTA,
}


def shortage_of(reason: str) -> Shortage:
    """Return the shortage that the *reason* of a growth back-off names: it begins with Civo's error code."""
    code = reason.split(maxsplit=1)[0] if reason.strip() else ""
    return _BY_CODE.get(code.rstrip(":"), Shortage.OTHER)


def refused_counts(ended: Iterable[tuple[Action, Outcome]], now: datetime) -> Mapping[str, int]:
    """Return, by pool id, the lowest node count that Civo has just refused for lack of stock or quota.

    *ended* is growth in the order in which it ended. A pool is left out once a growth of it succeeds. So is one whose
    refused request may have been sent before: a smaller request could then take nodes away.
    """
    lowest: dict[str, int] = {}
    for action, outcome in ended:
        if outcome.kind is OutcomeKind.CONFIRMED:
            lowest.pop(action.pool, None)
        elif _is_fresh_refusal(action, outcome, now):
            lowest[action.pool] = min(action.to_count, lowest.get(action.pool, action.to_count))
    return lowest


def _is_fresh_refusal(action: Action, outcome: Outcome, now: datetime) -> bool:
    return (
        outcome.kind is OutcomeKind.FAILED
        and shortage_of(outcome.detail) is not Shortage.OTHER
        and not may_have_landed(action, outcome)
        and now - REFUSAL_LASTS < outcome.at <= now
    )


def smaller_request(present: int, refused: int) -> tuple[int, int] | None:
    """Return how many new nodes to request after *refused* nodes were refused, and how many a gang may need at most.

    The first is half of what was refused, rounded up; None when no smaller request is left.
    """
    if refused - present < 2:
        return None
    return -(-(refused - present) // 2), refused - present - 1


FIRST_BACKOFF = timedelta(minutes=30)
FIRST_BACKOFF_BESIDE_WORKING_NODES = timedelta(minutes=5)
LONGEST_BACKOFF = timedelta(hours=24)


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
