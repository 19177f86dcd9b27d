"""What keeps a pool from changing for a while: nodes that do not come up, changes by others, refusals, cooldowns.

Civo's required count tells whether a removed node was replaced, and whether someone else changed the count.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from receiver.core.model.actions import Action, ActionKind, Because, Outcome, OutcomeKind, code_of
from receiver.core.model.flights import MUST_FALL_WITHIN, Flight, flights_of, may_have_landed, settle
from receiver.core.model.memory import PoolMemory
from receiver.core.model.model import ON_ITS_WAY, Backoff, Drift, Node, PoolState, Stage
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import some

LONGEST_GROWTH_BACKOFF = timedelta(hours=1)
LONGEST_REMOVAL_BACKOFF = timedelta(hours=25)
LONGEST_PROVISIONING_BACKOFF = timedelta(hours=27)
FIRST_BACKOFF = timedelta(minutes=30)
FIRST_BACKOFF_BESIDE_WORKING_NODES = timedelta(minutes=5)
LONGEST_BACKOFF = timedelta(hours=24)
SHORT_LOSS = timedelta(minutes=3)  # of a node, after which it is no room any more
STOPS_FOR = timedelta(hours=24)  # at most, after a removal that Civo answers with something other than one node less
CLOCKS_DIFFER = timedelta(minutes=1)  # at most, between Civo and here, for what was created after a removal
UNDOINGS = 3
IN_A_DAY = timedelta(hours=24)
GIVES_WAY_FOR = timedelta(hours=24)
UNDONE_WITHIN = timedelta(hours=1)  # a change against ours within this time reverts it
REFUSAL_LASTS = timedelta(seconds=30)  # stock changes by the minute, so older refusals do not count


class Direction(StrEnum):
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


def waits(
    pool: Pool, state: PoolState, policy: Policy, now: datetime, directions: Iterable[Direction] = Direction
) -> tuple[Wait, ...]:
    """Return everything that is timed and in force at *now*, growth before removal, in the order of the guardrails,
    whether or not the pool should change."""
    in_force: list[Wait] = []

    def wait(kind: WaitKind, until: datetime, reason: str, failures: int = 0, nodes: tuple[str, ...] = ()) -> None:
        if until > now:
            in_force.append(
                Wait(direction=direction, kind=kind, until=until, reason=reason, failures=failures, nodes=nodes)
            )

    for direction in directions:
        grows = direction is Direction.GROW
        backoff = state.backoffs.growth if grows else state.backoffs.removal
        longest = LONGEST_GROWTH_BACKOFF if grows else LONGEST_REMOVAL_BACKOFF
        if backoff is not None and (backoff.instances or backoff.holds(now, longest)):
            nodes = tuple(n.name for i in backoff.instances for n in state.nodes if n.instance == i)
            if nodes or not backoff.instances:  # else its nodes are gone
                wait(WaitKind.BACKOFF, backoff.until, backoff.reason, backoff.failures, nodes)
        until = undone_by_others(state, now, grows=grows)
        if until is not None:
            did = "lowered" if grows else "raised"
            wait(WaitKind.UNDONE, until, f"another system {did} the count repeatedly after our own change")
        failed = state.backoffs.trial
        if grows and failed is not None and failed.holds(now, LONGEST_PROVISIONING_BACKOFF):
            wait(WaitKind.PROVISIONING, failed.until, failed.reason, failed.failures)
        if grows:
            last, cooldown, did = state.last_changes.grown_at, pool.grow_cooldown, "grew"
        elif policy.billing.by_the_hour:
            continue  # removal follows the paid hour and has no cooldown
        else:
            last, cooldown, did = state.last_changes.shrunk_at, pool.shrink_cooldown, "shrank"
        if last is not None and last <= now:  # a change in the future: the clock was wrong then
            wait(WaitKind.COOLDOWN, last + cooldown, f"it {did} at {last:%Y-%m-%d %H:%M:%S} UTC")
    return tuple(in_force)


def unlisted_too_long(pool: Pool, state: PoolState, now: datetime) -> bool:
    """True when Civo was asked for nodes longer than the provision timeout ago and still lists fewer."""
    since = state.count.since
    return state.unlisted > 0 and since is not None and now - since > pool.provision_timeout


def stuck_nodes(pool: Pool, state: PoolState, now: datetime) -> list[Node]:
    """The nodes that did not become usable in time, or came up broken."""
    return [
        n
        for n in state.living
        if not n.was_usable
        and (
            (n.stage is Stage.BROKEN and not n.vanished)
            or ((n.stage in ON_ITS_WAY or n.vanished) and now - n.created_at > pool.provision_timeout)
        )
    ]


def dead_nodes(pool: Pool, state: PoolState, now: datetime) -> tuple[Node, ...]:
    """The nodes that had their time, or vanished from Kubernetes, and are certain not to be usable.

    While Kubernetes lists nodes that match no instance, a node that it does not know is not dead.
    """
    new = [
        n for n in stuck_nodes(pool, state, now) if not n.vanished and now - n.watched_since > pool.provision_timeout
    ]
    vanished = (n for n in state.living if n.vanished)
    new += [n for n in vanished if n.times.lost_at is not None and now - n.times.lost_at > SHORT_LOSS]
    return tuple(n for n in (*new, *lost_nodes(pool, state, now)) if n.registered or not state.unjoined)


def lost_nodes(pool: Pool, state: PoolState, now: datetime) -> list[Node]:
    """The nodes that were usable, broke, and did not recover within the provision timeout."""
    broken = [n for n in state.living if n.was_usable and n.stage is Stage.BROKEN]
    waited = (n for n in broken if n.times.lost_at is not None and now - n.times.lost_at > pool.provision_timeout)
    return [n for n in waited if not n.health.maintained]


def awaited_since(state: PoolState) -> datetime | None:
    """Since when the pool waits for its oldest node on the way, or for nodes that Civo does not list, or None."""
    coming = [n for n in state.living if not n.was_usable and (n.stage in ON_ITS_WAY or n.stage is Stage.BROKEN)]
    since = [n.watched_since for n in coming]
    if state.unlisted > 0 and state.count.since is not None:
        since.append(state.count.since)
    return min(since, default=None)


def stuck_on_the_way(pool: Pool, state: PoolState, now: datetime) -> tuple[str, ...]:
    """Names of the nodes that did not become usable in time or came up broken, and those Civo never built."""
    late = [n.name for n in stuck_nodes(pool, state, now)]
    missing = [f"{some(state.unlisted, 'node')} that Civo does not list"] if unlisted_too_long(pool, state, now) else []
    return (*late, *missing)


def probes_left(state: PoolState, now: datetime) -> int | None:
    """New nodes that a pool may request after nodes that never became usable or fell sick; None when all is well.

    While it backs off from provisioning: none. After that one on trial, until one becomes usable: a pool whose GPUs
    never come would cost a whole paid unit per waiting node, again and again.
    """
    failed = state.backoffs.trial
    if failed is None:
        return None
    if failed.holds(now, LONGEST_PROVISIONING_BACKOFF):
        return 0
    return max(0, 1 - len(state.coming) - state.unlisted)


def provisioning_failed(action: Action, state: PoolState) -> Backoff | None:
    """The pool's back-off from provisioning when *action* removes nodes that never became usable, else None.

    Each failure in a row doubles it, up to a day. Where other nodes of the pool work it starts lower, for one bad
    machine says little about the next. Nodes whose Node object was deleted came up well: at first another one is tried
    at once.
    """
    bad = {v.instance for v in action.victims if v.because is Because.STUCK}
    last = state.backoffs.provisioning
    instances = last.instances if last else ()
    never = [n for n in state.nodes if n.instance in bad and not n.was_usable and n.instance not in instances]
    if not never:
        return None  # or each was counted at the first try of its removal
    failures = (last.failures if last else 0) + 1
    vanished = all(n.vanished for n in never)
    first = FIRST_BACKOFF_BESIDE_WORKING_NODES if vanished or state.of(Stage.USABLE) else FIRST_BACKOFF
    base = min(first * 2 ** min(failures - 1, 10), LONGEST_BACKOFF)
    base = timedelta(0) if vanished and failures == 1 else base
    spread = hashlib.sha256(action.id.encode()).digest()[0] / 255 * 0.1
    return Backoff(
        failures=failures,
        until=action.opened_at + base * (1 + spread),
        reason=f"{', '.join(n.name for n in never)} never became usable",
        instances=(*instances, *(n.instance for n in never)),
    )


def removals_stop(late: Flight | None, civo_count: int, living: Sequence[Node], now: datetime) -> Backoff | None:
    """Return the stop of a pool where Civo answers a removal with something other than one node less, or None: further
    replacements would only cost money. It lasts while what shows it does: a count that has not fallen, and either an
    instance that came after the removal, or no fall within `MUST_FALL_WITHIN`."""
    if late is None or late.kind is ActionKind.GROW or not late.explains(civo_count):
        return None
    if not timedelta(0) <= now - late.sent_at < STOPS_FOR:
        return None
    until, surplus = late.sent_at + STOPS_FOR, len(living) - late.target
    came = [n.name for n in living if _came_after(n, late.sent_at)]
    if surplus > 0 and came:
        nodes = ", ".join(came[-surplus:])
        return Backoff(failures=1, until=until, reason=f"Civo replaced a removed node: {nodes} came after its removal")
    if late.is_overdue(now):
        minutes = int(MUST_FALL_WITHIN.total_seconds() // 60)
        reason = f"the count of {civo_count} did not fall to {late.target} within {minutes} minutes of a removal"
        return Backoff(failures=1, until=until, reason=reason)
    return None


def _came_after(node: Node, removal: datetime) -> bool:
    """True for an instance that did not exist at a *removal*. A person's node that was kept, and one of our own growth
    that Civo lists late, are older."""
    is_new = node.times.seen_since is not None and node.times.seen_since >= removal
    return is_new and node.created_at >= removal - CLOCKS_DIFFER


def drift(past: PoolMemory | None, civo_count: int, now: datetime, unanswered: Iterable[Flight] = ()) -> Drift | None:
    """The change of a pool's count since the last step that none of our own writes explains, or None. *unanswered* is
    growth that ended without an answer: Civo may show it now."""
    if past is None or past.required_since is None or civo_count == past.required:
        return None
    late, action = past.late, past.open_action
    flights = [*unanswered, *(flights_of([action], action.pool) if action is not None else ())]
    flights += [late] if late is not None and now - late.sent_at < STOPS_FOR else []
    counts = settle(past.required, flights)
    if _within(past.last_shrink_at, MUST_FALL_WITHIN, now) or (action and action.kind is ActionKind.RETIRE):
        counts = replace(counts, low=0)  # removals show late and one by one
    if civo_count in counts:
        return None
    against = past.last_shrink_at if civo_count > past.required else past.last_grow_at
    undoes = _within(against, UNDONE_WITHIN, now)
    return Drift(at=now, from_count=past.required, to_count=civo_count, undoes=undoes)


def _within(moment: datetime | None, span: timedelta, now: datetime) -> bool:
    return moment is not None and timedelta(0) <= now - moment <= span


def undone_by_others(state: PoolState, now: datetime, *, grows: bool) -> datetime | None:
    """Until when a pool does not grow, or does not shrink, because others keep reverting that; None: it may. After the
    third time in a day the other one wins."""
    against = sorted([d.at for d in state.count.drifts if d.undoes and (d.to_count < d.from_count) is grows])
    if len(against) < UNDOINGS or against[-1] - against[-UNDOINGS] > IN_A_DAY:
        return None
    until = against[-1] + GIVES_WAY_FOR
    return until if now < until else None


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
    """Return the shortage that the *reason* of a growth back-off names by its code."""
    return _BY_CODE.get(code_of(reason), Shortage.OTHER)


def refused_counts(ended: Iterable[tuple[Action, Outcome]], now: datetime) -> Mapping[str, int]:
    """Return, by pool id, the lowest node count that Civo has just refused for lack of stock or quota.

    *ended* is growth in the order in which it ended. A pool is left out once a growth of it succeeds, or if the refused
    request may have been sent before: a smaller one could then take nodes away.
    """
    lowest: dict[str, int] = {}
    for action, outcome in ended:
        if outcome.kind is OutcomeKind.CONFIRMED:
            lowest.pop(action.pool, None)
        elif (
            outcome.kind is OutcomeKind.FAILED
            and shortage_of(outcome.detail) is not Shortage.OTHER
            and not may_have_landed(action, outcome)
            and now - REFUSAL_LASTS < outcome.at <= now
        ):
            lowest[action.pool] = min(action.to_count, lowest.get(action.pool, action.to_count))
    return lowest


def smaller_request(present: int, refused: int) -> tuple[int, int] | None:
    """Return how many new nodes to request after *refused* nodes were refused (half of them, rounded up), and how many
    a gang may need at most; None when no smaller request is left."""
    if refused - present < 2:
        return None
    return -(-(refused - present) // 2), refused - present - 1
