"""When the first node of a pool may go, and what keeps the others: the future as far as it is known now."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from receiver.core.model.actions import ActionKind, Decision, Reason, Verdict
from receiver.core.model.model import Node, Stage
from receiver.core.model.policy import Repair
from receiver.core.model.signals import SignalAction
from receiver.core.model.text import clock, listed, some
from receiver.core.scaling.bounds import Grace
from receiver.core.scaling.decide import later
from receiver.core.scaling.guardrails import GUARDRAILS, apply
from receiver.core.scaling.guardrails.rule import Case
from receiver.core.scaling.guardrails.waiting import COOLED_DOWN
from receiver.core.scaling.holds import holds_on, kept_by_a_workload, may_go, removal_backs_off
from receiver.core.scaling.node_holds import Blocks, node_holds
from receiver.core.scaling.removal import changes, idle_removals_left, removable_at, surplus_over, unit_ends_soon
from receiver.core.scaling.waits import LONGEST_PROVISIONING_BACKOFF

MOST_CHANGES = 50  # that are looked through: a window that opens every minute is no reason to look for ever
PODS_NAMED = NODES_NAMED = 5  # in a sentence
Say = Callable[[Reason, Case], str]  # the sentence of a reason


def allowed_from(at: datetime, case: Case, say: Say, *, idle: bool) -> tuple[datetime | None, str]:
    """Return the earliest moment from *at* on that all guardrails allow a removal if nothing happens until then, and
    what held it before; None where it is not known when that ends. Spare nodes and headroom keep *idle* ones only."""
    reason = ""
    for _ in range(MOST_CHANGES):
        then = later(case, at)
        held = (_kept_ready(then) if idle else "") or held_by_guardrail(then, say)
        if not held:
            return at, reason
        reason = held
        soonest = min((moment for moment in changes(then) if moment > at), default=None)
        if soonest is None:
            return None, reason
        at = soonest
    return None, reason


def first_removal(nodes: Sequence[Node], case: Case, say: Say) -> tuple[datetime | None, str]:
    """Return the earliest moment at which one of *nodes* may go if it stays as it is: its own moment has come, and all
    guardrails allow it; and what held it beyond its own moment. None where it is not known when that ends."""
    at, reason = case.now, ""
    for _ in range(MOST_CHANGES):
        own = min(_own_moment(node, later(case, at)) for node in nodes)
        # Spare nodes are those that work can use: a sick one is none of them, and goes beside them.
        allowed, held = allowed_from(own, case, say, idle=not any(n.busy or n.health.out_of_service for n in nodes))
        reason = held or reason
        if allowed is None or allowed == own:
            return allowed, reason
        at = allowed
    return None, reason


def _own_moment(node: Node, case: Case) -> datetime:
    """When *node* goes by its own clock, at the case's time or later."""
    holds = (kept_by_a_workload(node, case), removal_backs_off(node, case))
    at = max([case.now, *(hold.until for hold in holds if hold is not None and hold.until is not None)])
    return max(at, removable_at(node, later(case, at)))


def _kept_ready(case: Case) -> str:
    """Which idle nodes the pool keeps for what comes next, in a sentence; empty when one of them may go."""
    if idle_removals_left(case) > 0:
        return ""
    headroom = case.wanted.headroom
    if headroom is not None and headroom.spare_nodes <= 0:
        return str(headroom)
    return f"{some(case.wanted.bounds.standby_nodes, 'spare node')} kept ready"


def held_by_guardrail(case: Case, say: Say) -> str:
    """The guardrail that holds the removal of one node now, in a sentence; empty when none does."""
    action = case.state.open_action
    if action is not None and action.kind is ActionKind.GROW:
        case = replace(case, state=replace(case.state, open_action=None))  # it ends within a moment
    case = replace(case, empty=1, going=1)
    reasons = apply(case.present - 1, case, GUARDRAILS)
    return next((say(r, case) for r in reasons if r.verdict is Verdict.HOLDS), "")


def about_idle(idle: Sequence[Node], case: Case, say: Say) -> str:
    """Say of *idle* nodes, of which there is at least one, when the first may go, or what keeps them."""
    free = [n for n in idle if n.idle and may_go(n, case, Blocks.REMOVAL)]
    many = some(len(idle), "idle node")
    if not free:
        named = [(n.name, reasons_to_stay(n, case, Blocks.REMOVAL)[:1]) for n in idle[:NODES_NAMED]]
        stays = [f"{name} stays: {'; '.join(reason)}" for name, reason in named]
        unnamed = [f"and {len(idle) - NODES_NAMED} more"] if len(idle) > NODES_NAMED else []
        return f"{many}: {'; '.join([*stays, *unnamed])}"
    paid = ", paid for" if case.policy.billing.by_the_hour else ""
    at, reason = first_removal(free, case, say)
    waits = next((f"; {repair_wait}" for n in free if (repair_wait := repair_waits(n, case))), "")
    if at is None:
        return f"{many}{paid}; none can be removed: {reason}{waits}"
    return f"{many}{paid}; the first can be removed at {clock(at, case.now)}{_because(reason)}{waits}"


def repair_waits(node: Node, case: Case) -> str:
    """Why the repair of a sick *node* is not begun while the pool is careful; empty for any other node."""
    failed = case.state.backoffs.trial
    waits = case.pool.repair is Repair.REPLACE and node.health.sick and node.instance not in case.wanted.nodes.repairs
    if not waits or failed is None or not failed.holds(case.now, LONGEST_PROVISIONING_BACKOFF):
        return ""
    return f"repair of {node.name} waits until {clock(failed.until, case.now)}: {failed.reason}"


def reasons_to_stay(node: Node, case: Case, way: Blocks) -> Sequence[str]:
    """Return what blocks that *node* goes in this *way*, in sentences; all that it shows by itself in one. A back-off
    of its removal is no such reason: it ends."""
    holds = [hold for hold in holds_on(node, case, way) if hold.by != removal_backs_off.__name__]
    own = list(node_holds(node, way))
    shown = ["; ".join(hold.why for hold in own)] if own else []
    return [*shown, *(hold.why for hold in holds[len(own) :])]


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def planned(grace: Grace, case: Case, say: Say) -> str:
    """What a window whose *grace* runs will evict, or cannot evict now, in a sentence."""
    many = some(surplus_over(grace.max_nodes, case), "node")
    assert grace.ends_at is not None
    at, reason = allowed_from(max(grace.ends_at, case.now), case, say, idle=False)
    says = f"window {grace.window} takes {many} beyond {grace.max_nodes}"
    if at is None:
        return f"{says}, but not yet: {reason}"
    return f"{says} from {clock(at if reason else grace.ends_at, case.now)} on{_because(reason)}"


class RuleVerdict(Protocol):
    """What one rule said: a `Reason`, or the document of one."""

    @property
    def rule(self) -> str:
        """The rule's name."""

    @property
    def verdict(self) -> str:
        """One of `Verdict`, or the word of a newer version."""

    @property
    def target(self) -> int:
        """The nodes that it left."""

    @property
    def cause(self) -> str:
        """What keeps the pool from changing, as a clause; empty where nothing does, or an older version said it."""


def unobserved_target(reasons: Sequence[RuleVerdict], present: int) -> int:
    """Return the nodes that a decision with *reasons*, made on *present* nodes in observe mode, leaves without the
    cooldown of a change that was only observed: in act mode its nodes would be on their way."""
    before = present
    for reason in reasons:
        if reason.verdict == Verdict.HOLDS:
            return before if reason.rule == COOLED_DOWN.name else present
        before = reason.target
    return before


def first_act(decision: Decision, case: Case, say: Say) -> str:
    """Return what act mode would do first in the pool of an observed *decision*, as far as is known; empty for
    nothing."""
    pool, nodes = case.pool.name, {node.instance: node for node in case.state.nodes}
    target = unobserved_target(decision.reasons, decision.present)
    if target > decision.present:
        return f"request {some(target - decision.present, 'node')} in {pool} ({decision.present} -> {target})"
    going = [nodes[i] for i in decision.candidates[: decision.present - target] if i in nodes]
    if going:
        their, them = ("its", "it") if len(going) == 1 else ("their", "them")
        emptied = f", evict {their} pods" if any(node.busy for node in going) else ""
        return f"cordon {listed([node.name for node in going], NODES_NAMED)}{emptied} and remove {them} now"
    free = [node for node in case.state.of(Stage.USABLE) if node.idle and may_go(node, case, Blocks.REMOVAL)]
    if not free:
        return ""
    first = min(free, key=lambda node: (_own_moment(node, case), node.name))
    at, _ = first_removal([first], case, say)
    return "" if at is None else f"cordon {first.name} and remove it at {clock(at, case.now)}"


def why_kept(case: Case, say: Say) -> str:
    """Say which pods hold the nodes of a pool of low utilization; empty where a usable node holds none."""
    usable = case.state.of(Stage.USABLE)
    if not usable or not all(n.busy for n in usable):
        return ""
    movable = [n for n in usable if may_go(n, case, Blocks.CONSOLIDATION)]
    if movable:
        first = min(movable, key=lambda n: (unit_ends_soon(n, case), n.name))
        at, reason = first_removal(movable, case, say)
        if at is None:
            return f"{first.name} is not drained: {reason}"
        return f"{first.name} is drained at {clock(at, case.now)}{_because(reason)}"
    held = case.firing(SignalAction.HOLD)
    pods = [f"{pod.key} on {node.name}" for node in usable for pod in node.pods]
    reason = "none may be drained without its pods' consent and room elsewhere"
    if held:
        reason = f"alert {held.alertname} is firing (action: hold)"
    return f"every node runs a GPU pod, and {reason}: {listed(pods, PODS_NAMED)}"
