"""When nodes may be removed, and when a decision can change by itself."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from receiver.core.model.actions import Reason, VictimStage
from receiver.core.model.model import ON_ITS_WAY, Node, Stage
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.windows import next_change
from receiver.core.money.cost import HOUR, next_unit_at
from receiver.core.scaling.capacity import SHORT_LOSS
from receiver.core.scaling.guardrails import Case
from receiver.core.scaling.market import goes_early
from receiver.core.scaling.packing import consents
from receiver.core.scaling.waits import waits

SAFETY_MINIMUM = timedelta(seconds=10)  # a node this fresh from work is not judged idle, whatever the paid hour says
LOOK_AGAIN_AFTER = timedelta(seconds=5)  # between our cordon and the last look: a pod bound meanwhile becomes visible
SHORTEST_MARGIN = timedelta(seconds=30)  # a removal takes a tick, the cordon, the last look and the DELETE
AN_INSTANT = timedelta(microseconds=1)


def removal_moment(node: Node, pool: Pool, policy: Policy, now: datetime, *, stopped: bool = False) -> datetime:
    """When *node*, idle since `idle_since`, may go if it stays idle: a margin before its next paid unit, or
    after `idle_for` where every second is billed; at a budget's stop at once there, for nothing can begin on it.

    A wide node beside small ones stays its first paid unit only, and goes in a later one as soon as it has rested: work
    that needs it may follow the work that it was bought for, and later a small pod is what would land there."""
    rested = (node.idle_since or now) + min(SAFETY_MINIMUM, pool.idle_for)
    if not policy.billing.by_the_hour:
        return rested if stopped else (node.idle_since or now) + pool.idle_for
    ends = unit_ends_soon(node, policy, now)
    return max(rested, min(ends, node.created_at + policy.billing.granularity) if goes_early(pool, policy) else ends)


def unit_ends_soon(node: Node, policy: Policy, now: datetime) -> datetime:
    """A margin before the next paid unit of *node*; now where every second is billed."""
    if not policy.billing.by_the_hour:
        return now
    margin = max(policy.billing.removal_margin, min(SHORTEST_MARGIN, policy.billing.granularity / 4))
    return next_unit_at(node.created_at, now, policy.billing) - margin


def reconsider_at(case: Case, reasons: Iterable[Reason]) -> datetime | None:
    """The first moment after now at which the answer, which rests on *reasons*, can change without anything
    happening."""
    return min((m for m in _moments(case, reasons) if m > case.now), default=None)


def _moments(case: Case, reasons: Iterable[Reason]) -> Iterable[datetime]:
    for reason in reasons:
        if reason.until is not None:
            yield reason.until
    yield from changes(case)
    for node in case.state.nodes:
        yield from _moments_of(node, case)
    yield from _moments_of_action(case)


def changes(case: Case) -> Iterable[datetime]:
    """The moments at which what concerns the whole pool can change, in no order; some may be over."""
    state, pool = case.state, case.pool
    for wait in waits(pool, state, case.policy, case.now):
        yield wait.until
    if state.required_since and state.unlisted:
        yield state.required_since + pool.provision_timeout + AN_INSTANT
    for grace in case.wanted.graces:
        if grace.ends_at is not None:
            yield grace.ends_at
    yield from _moments_of_shares(case)
    yield from _moments_of_headroom(case)
    yield from _moments_of_people(case)
    change = next_change(pool.windows, case.now)
    if change is not None:
        yield change


def _moments_of_shares(case: Case) -> Iterable[datetime]:
    """When there is more of what the pools share."""
    if case.wanted.budget is not None and case.wanted.budget.ends_at is not None:
        yield case.wanted.budget.ends_at
    limits, changed = case.policy.limits, case.facts.first_changed_at
    if changed is not None and (limits.max_growth_per_hour is not None or limits.max_removals_per_hour is not None):
        yield changed + HOUR  # what was changed then counts no longer


def _moments_of_headroom(case: Case) -> Iterable[datetime]:
    """When the idle nodes that it keeps may be too many."""
    headroom = case.wanted.headroom
    if headroom is not None and headroom.falls_at is not None and any(n.idle_since for n in case.state.nodes):
        yield headroom.falls_at


def _moments_of_people(case: Case) -> Iterable[datetime]:
    if case.state.silence is not None:
        yield case.state.silence.until
    approval = case.pool.approval
    for node in case.state.of(Stage.USABLE) if approval is not None and approval.removals else ():
        assert approval is not None
        goes = removal_moment(node, case.pool, case.policy, case.now, stopped=case.wanted.stopped)
        yield goes - approval.wait  # people are asked then
    for override in case.overrides:
        yield override.at
        yield override.until
    for question in case.questions:
        yield from (question.asked_at, question.wait_ends, question.expires_at)


def _moments_of(node: Node, case: Case) -> Iterable[datetime]:
    by_the_hour = case.policy.billing.by_the_hour
    if node.kept_until is not None:
        yield node.kept_until
    next_unit = next_unit_at(node.created_at, case.now, case.policy.billing)
    if node.stage is Stage.USABLE and node.idle_since is not None:
        yield removal_moment(node, case.pool, case.policy, case.now, stopped=case.wanted.stopped)
        if by_the_hour:
            yield unit_ends_soon(node, case.policy, case.now)  # one that we emptied need not rest
            yield next_unit
    elif node.stage in (*ON_ITS_WAY, Stage.UNKNOWN):
        yield node.created_at + case.pool.provision_timeout + AN_INSTANT
    if node.lost_at is not None:
        yield node.lost_at + SHORT_LOSS + AN_INSTANT  # from then on it is no room for what waits
        yield node.lost_at + case.pool.provision_timeout + AN_INSTANT
    if not node.was_usable:
        yield node.watched_since + case.pool.provision_timeout + AN_INSTANT
    if by_the_hour and node.busy and all(consents(p) for p in node.pods):
        yield unit_ends_soon(node, case.policy, case.now)
        yield next_unit
    if by_the_hour and case.wanted.budget is not None and node.stage is not Stage.DELETING:
        yield next_unit  # the spend rises then


def _moments_of_action(case: Case) -> Iterable[datetime]:
    action = case.state.open_action
    if action is None:
        return
    if action.retry_at is not None:
        yield action.retry_at
    for victim in action.victims:
        if victim.stage is VictimStage.CORDONED and victim.since is not None:
            yield victim.since + LOOK_AGAIN_AFTER
