"""Why a node whose removal was begun stays after all: the one reason that was true."""

from collections.abc import Iterable, Mapping, Sequence

from receiver.core.explain.rules import SPEAKS_UP, cause_of, plainly
from receiver.core.model.actions import Action, Because, Decision, Victim, VictimStage
from receiver.core.model.model import Node, Stage
from receiver.core.model.signals import SignalAction
from receiver.core.model.text import listed
from receiver.core.scaling.guardrails.rule import Case
from receiver.core.scaling.holds import case_holds
from receiver.core.scaling.node_holds import Blocks, node_holds
from receiver.core.scaling.removal import removable_at, way_of
from receiver.core.scaling.retirement import EMPTIED

TOLD_BELOW = ("being_deleted", "not_usable", "needed_by_waiting_work")
UNKNOWN = "its removal is no longer allowed"  # of a victim that was stored before a reason was kept with it


def spared(victims: Iterable[Victim]) -> Mapping[str, Sequence[str]]:
    """Return those of *victims* that stay, by the reason why."""
    nodes: dict[str, list[str]] = {}
    for victim in victims:
        if victim.stage is VictimStage.SPARED:
            nodes.setdefault(victim.why or UNKNOWN, []).append(victim.node or victim.instance)
    return nodes


def why_spared(victims: Iterable[Victim]) -> str:
    """Return why each of *victims* that was spared stays: ``n1, n2: the reason; n3: another``."""
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in spared(victims).items())


def obstacle(victim: Victim) -> str:
    """Return what the removal of *victim* waits for, waited for until it was spared, or was refused for; empty when
    it was spared for another reason, such as work that came."""
    if victim.stage is VictimStage.SPARED and not victim.refused:
        return victim.waited_for
    return victim.why


def why_kept(action: Action, decision: Decision, case: Case) -> Mapping[str, str]:
    """Return, by instance id, why *decision* keeps those victims of *action* that still exist."""
    nodes = {n.instance: n for n in case.state.nodes}
    let_go = decision.candidates[: max(0, decision.present - decision.target)]
    staying = (v for v in action.victims if v.instance in nodes and v.instance not in let_go)
    return {v.instance: _why(nodes[v.instance], v.because, decision, case) for v in staying}


def _why(node: Node, because: Because, decision: Decision, case: Case) -> str:
    if node.instance in decision.candidates:  # a guardrail leaves fewer nodes to go
        held = [r for r in decision.reasons if r.verdict in SPEAKS_UP]
        return cause_of(held[-1]) if held else _decided(decision)
    if node.busy and because not in EMPTIED:
        return f"{listed([pod.key for pod in node.pods])} started there"
    way = Blocks.EVICTION if because is Because.EVICTED else way_of(node, case)
    for hold in (*node_holds(node, way), *case_holds(node, case, way)):
        if hold.by not in TOLD_BELOW:
            return hold.why
    if node.instance in case.wanted.nodes.needed:
        placed = [workload for workload, instance in case.wanted.work.placed if instance == node.instance]
        names = listed(placed or list(case.wanted.work.settled))
        return f"waiting work fits on it: {names}" if names else "waiting work fits on it"
    return _not_due(node, because, case) or _decided(decision)


def _not_due(node: Node, because: Because, case: Case) -> str:
    """Why its moment is over, for the reason that it was chosen for."""
    hold = case.firing(SignalAction.HOLD)
    if because in (Because.STUCK, Because.LOST):
        return "it became usable" if node.stage is Stage.USABLE else ""
    if because is Because.EVICTED:
        return "no window evicts it any more"
    if because is Because.CONSOLIDATED and node.busy:
        if hold is not None:
            return f"alert {hold.alertname} is firing (action: hold)"
        if node.instance not in case.wanted.nodes.movable:
            return "its pods may not be moved, or no longer fit on other nodes"
    if node.stage is not Stage.USABLE:
        return "it is not usable at the moment"
    at = removable_at(node, case)
    if at > case.now:
        began = "its next paid hour began" if case.policy.billing.by_the_hour else "it was in use a moment ago"
        return f"{began}; it can be removed at {at:%H:%M:%S} UTC"
    if case.wanted.bounds.standby_nodes:
        return "it is kept as a spare node"
    return str(case.wanted.headroom) if case.wanted.headroom is not None and case.wanted.headroom.gpus else ""


def _decided(decision: Decision) -> str:
    reason = decision.deciding
    return f"the pool is to have {decision.target} nodes now ({reason.detail or plainly(reason.rule)})"
