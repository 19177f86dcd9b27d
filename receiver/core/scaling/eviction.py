"""Which nodes go when the grace of a window is over: as many as are too many, the least work lost first."""

from datetime import datetime, timedelta

from receiver.core.model.actions import VictimStage
from receiver.core.model.model import Node, Stage
from receiver.core.model.pods import Pod
from receiver.core.money.cost import next_unit_at
from receiver.core.scaling.eviction_grace import Grace, begun, most_after, yields
from receiver.core.scaling.guardrails import Case
from receiver.core.scaling.removal_eligibility import is_kept, nobody_speaks_for, was_refused

ON_THE_WAY = (VictimStage.CHOSEN, VictimStage.CORDONED)


def evicted(case: Case, dead: int) -> tuple[Node, ...]:
    """The nodes that go now because a window's grace is over, beside *dead* ones: idle ones first, then those that
    hold the fewest GPUs, then those that lose the fewest GPU-hours.

    A node that is going already comes before all others. One that an open window has begun to empty goes whether or not
    the announcement still stands: given back, it would start what was evicted, which would then be evicted again.
    Nodes on their way are not counted: they go first, once they are usable and idle.
    """
    graces = case.wanted.graces
    if not graces:
        return ()
    most, emptying = most_after(graces, case.now), begun(case.state)
    able = sorted((n for n in case.state.nodes if may_be_evicted(n, case)), key=lambda n: _loss(n, case))
    due = 0 if most is None else surplus_over(most, case, dead)
    carried = sum(n.instance in emptying for n in able)
    return tuple(able[: max(due, min(carried, surplus_over(min(g.max_nodes for g in graces), case, dead)))])


def surplus_over(most: int, case: Case, dead: int) -> int:
    """How many usable nodes there are beyond *most*."""
    return max(0, min(case.present - dead, len(case.state.of(Stage.USABLE))) - most)


def may_be_evicted(node: Node, case: Case) -> bool:
    """True when *node* can be evicted now: a refusal backs off. That its GPUs are busy is no reason: it is what the
    window is there to end."""
    return could_be_evicted(node, case) and not was_refused(node, case)


def could_be_evicted(node: Node, case: Case) -> bool:
    """True when nobody spoke for *node*, all of its pods yield, and it was not tried in vain since the window opened.
    GPUs in use without a pod keep it as well."""
    return (
        node.stage is Stage.USABLE
        and nobody_speaks_for(node)
        and not is_kept(node, case)
        and (node.busy or (node.idle_since is not None and (node.unknown_since is None or _is_emptied(node, case))))
        and not (node.busy and any(node.instance in grace.given_up for grace in case.wanted.graces))
        and not (node.busy and _is_kept_out(node, case))
        and all(yields(pod) for pod in node.pods)
    )


def _is_emptied(node: Node, case: Case) -> bool:
    """True for a node that a window has begun to empty: what its GPUs show may be older than its last pod's end. It is
    not deleted before they are at rest (`receiver.step.carry_out`)."""
    return node.instance in begun(case.state)


def _is_kept_out(node: Node, case: Case) -> bool:
    """True when what runs on *node* could start nowhere again before a budget's month ends: it would be lost."""
    return case.wanted.stopped or node.instance in case.wanted.unreturning


def busy_beyond(grace: Grace, case: Case) -> tuple[Node, ...]:
    """The busy nodes among which *grace* would choose, when there are more usable nodes than it allows, besides those
    that a window has begun to empty."""
    emptying = begun(case.state)
    if surplus_over(grace.max_nodes, case, 0) <= len(emptying):
        return ()
    able = (n for n in case.state.nodes if n.busy and could_be_evicted(n, case))
    return tuple(n for n in able if n.instance not in emptying)


def _is_going(node: Node, case: Case) -> bool:
    """True while an open action takes *node*, for whatever reason: no other goes in its place."""
    action = case.state.open_action
    return any(v.instance == node.instance and v.stage in ON_THE_WAY for v in (action.victims if action else ()))


def _loss(node: Node, case: Case) -> tuple[bool, bool, int, timedelta, datetime, str]:
    """What evicting *node* loses, the least first. Among nodes that hold as many GPUs time changes no order."""
    gpus = sum(pod.gpus for pod in node.pods)
    lost = sum((max(timedelta(0), case.now - _began(pod)) * pod.gpus for pod in node.pods), timedelta(0))
    unit = case.now if node.busy else next_unit_at(node.created_at, case.now, case.policy.billing)
    return (node.instance not in begun(case.state), not _is_going(node, case), gpus, lost, unit, node.name)


def _began(pod: Pod) -> datetime:
    return pod.running_since or pod.bound_at or pod.created_at
