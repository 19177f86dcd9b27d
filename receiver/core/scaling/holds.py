"""Why a node stays: one list of small functions, as for guardrails. Guardrails act on counts, holds on single nodes.

A hold names the ways of going that it blocks (`Blocks`): an idle node is removed, a busy one consolidated or evicted
by a window, a dead or sick one replaced. A node goes when the moment for one of these ways has come and no hold
blocks it. Decisions, `explain node`, what-if and the messages about called-off removals ask these functions. Those that
see the node alone, and those of new work, are in `node_holds`.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from receiver.core.model.actions import Because
from receiver.core.model.model import Node, Stage
from receiver.core.model.signals import SignalAction
from receiver.core.model.text import clock, listed, some
from receiver.core.money.cost import next_unit_at
from receiver.core.scaling.bounds import evicting, is_emptied, window_may_evict
from receiver.core.scaling.guardrails.rule import Case
from receiver.core.scaling.node_holds import GOING, Blocks, Hold, node_holds
from receiver.core.scaling.packing import consents
from receiver.core.scaling.rooms import foreign_taints
from receiver.core.scaling.waits import LONGEST_REMOVAL_BACKOFF

PODS_NAMED = 5  # in a sentence
UNKNOWN_HOURS = "Civo gives no usable time of its creation, so it is unknown when its next paid hour begins"
REMOVAL, CONSOLIDATION = frozenset({Blocks.REMOVAL}), frozenset({Blocks.CONSOLIDATION})
EVICTION, REPLACEMENT = frozenset({Blocks.EVICTION}), frozenset({Blocks.REPLACEMENT})
ALIVE = GOING - REPLACEMENT
Check = Callable[[Node, Case], Hold | None]


def _being_deleted(node: Node, _case: Case) -> Hold | None:
    return Hold("being_deleted", GOING, "it is being deleted already") if node.stage is Stage.DELETING else None


def _not_usable(node: Node, case: Case) -> Hold | None:
    """It is on its way, or broken for now. Once it is dead, it is replaced."""
    if node.stage in (Stage.USABLE, Stage.DELETING):
        return None
    blocks = ALIVE - EVICTION if is_emptied(node, case.state) else ALIVE
    return Hold("not_usable", blocks, f"it is {node.stage}, and not overdue")


def kept_by_a_workload(node: Node, case: Case) -> Hold | None:
    """A pod there asked for it (`keep-until`). A budget stop overrides that."""
    until = node.keep.until
    if until is None or until <= case.now or case.wanted.money.stopped:
        return None
    why = f"{node.keep.pod or 'a workload'} has it kept until {clock(until, case.now)}"
    return Hold("kept_by_a_workload", ALIVE, why, until)


def _hours_unknown(node: Node, case: Case) -> Hold | None:
    """It would go by its paid units. A budget stop does not wait for that."""
    applies = node.times.undated and case.policy.billing.by_the_hour and not case.wanted.money.stopped
    return Hold("hours_unknown", REMOVAL | CONSOLIDATION, UNKNOWN_HOURS) if applies else None


def _gpus_in_use(node: Node, case: Case) -> Hold | None:
    """No pod holds them. A window that has begun to empty the node goes on: the readings may be older than the end of
    its last pod."""
    if node.busy or node.times.unknown_since is None:
        return None
    blocks = REMOVAL if node.instance in evicting(case.state) else REMOVAL | EVICTION
    blocks = blocks | REPLACEMENT if node.instance in case.wanted.nodes.repairs else blocks
    return Hold("gpus_in_use", blocks, "its GPUs are in use without a pod")


def removal_backs_off(node: Node, case: Case) -> Hold | None:
    """An earlier try has failed, such as an eviction."""
    backoff = case.state.backoffs.removal
    if backoff is None or node.instance not in backoff.instances:
        return None
    holds = backoff.holds(case.now, LONGEST_REMOVAL_BACKOFF)
    return Hold("removal_backs_off", GOING, backoff.reason, backoff.until) if holds else None


def _kept_free_for_a_buffer(node: Node, case: Case) -> Hold | None:
    buffer = None if case.wanted.money.stopped else case.wanted.nodes.warm.get(node.instance)
    return Hold("kept_free_for_a_buffer", REMOVAL, f"CapacityBuffer {buffer} keeps it free") if buffer else None


def _needed_by_waiting_work(node: Node, case: Case) -> Hold | None:
    is_needed = node.instance in case.wanted.nodes.needed
    return Hold("needed_by_waiting_work", REMOVAL, "waiting work would use it") if is_needed else None


def saves_nothing(node: Node, case: Case, *, beside: int = 0) -> Hold | None:
    """A commitment pays for the node's place even once *beside* others are gone. A node on which no work starts makes
    room for another all the same, and so does any where no other may come or an override sets a lower maximum."""
    billing, bounds, left = case.policy.billing, case.wanted.bounds, case.present - beside
    if not billing.committed or case.full or is_no_spare(node, case) or (bounds.overrun and left > bounds.max_nodes):
        return None
    committed = billing.committed_to(case.pool.id, next_unit_at(node.created_at, case.now, billing))
    if committed is None or left > committed.nodes:
        return None
    why = f"{some(committed.nodes, 'node')} of the pool are paid for until {clock(committed.until, case.now)} anyway"
    return Hold("saves_nothing", REMOVAL | CONSOLIDATION, why, committed.until)


def is_no_spare(node: Node, case: Case) -> bool:
    """True for a node on which no ordinary work of the pool starts: it is sick, maintained, or tainted by others."""
    return node.health.out_of_service or bool(foreign_taints(node, case.pool))


CASE_HOLDS = (
    _being_deleted,
    _not_usable,
    kept_by_a_workload,
    _hours_unknown,
    _gpus_in_use,
    removal_backs_off,
    _kept_free_for_a_buffer,
    _needed_by_waiting_work,
    saves_nothing,
)


def _cannot_be_drained(node: Node, _case: Case) -> Hold | None:
    """Its kubelet does not answer, so no pod there can end."""
    if node.stage is Stage.USABLE:
        return None
    pods = listed([pod.key for pod in node.pods], PODS_NAMED)
    return Hold("cannot_be_drained", REPLACEMENT, f"it is {node.stage}, and GPU pods are bound to it: {pods}")


def _pods_do_not_consent(node: Node, _case: Case) -> Hold | None:
    pods = [pod.key for pod in node.pods if not consents(pod)]
    why = f"it runs pods without consent to be moved: {listed(pods, PODS_NAMED)}"
    return Hold("pods_do_not_consent", CONSOLIDATION | REPLACEMENT, why) if pods else None


def _pods_fit_nowhere_else(node: Node, case: Case) -> Hold | None:
    why = "its pods consent to be moved, and fit on no other node that runs work"
    return None if node.instance in case.wanted.nodes.movable else Hold("pods_fit_nowhere_else", CONSOLIDATION, why)


def _alert_holds(_node: Node, case: Case) -> Hold | None:
    alert = case.firing(SignalAction.HOLD)
    why = "alert {} is firing (action: hold): busy nodes are not drained"
    return Hold("alert_holds", CONSOLIDATION, why.format(alert.alertname)) if alert is not None else None


def _utilization_not_low(_node: Node, case: Case) -> Hold | None:
    """Where seconds are paid, an alert must ask for fewer nodes."""
    is_low = case.policy.billing.by_the_hour or case.firing(SignalAction.SCALE_DOWN) is not None
    why = "the pool's utilization has not been low for long enough"
    return None if is_low else Hold("utilization_not_low", CONSOLIDATION, why)


def _pods_wait_for_gpus(node: Node, case: Case) -> Hold | None:
    """A node that is being emptied already goes on."""
    victims = case.state.open_action.victims if case.state.open_action else ()
    begun = any(v.instance == node.instance and v.because is Because.CONSOLIDATED for v in victims)
    why = "pods are waiting for GPUs in this pool, so busy nodes are not drained"
    return Hold("pods_wait_for_gpus", CONSOLIDATION, why) if case.wanted.work.gpus and not begun else None


def _not_emptied_before(node: Node, case: Case) -> Hold | None:
    """Each further try would end work that had started again there."""
    tried = any(node.instance in grace.not_emptied for grace in case.wanted.graces)
    return Hold("not_emptied_before", EVICTION, "it could not be emptied since the window opened") if tried else None


def _work_would_be_lost(node: Node, case: Case) -> Hold | None:
    """Evicted, it could not start again before the month of a budget ends."""
    is_lost = case.wanted.money.stopped or node.instance in case.wanted.nodes.unreturning
    why = "a budget would keep out its pods once evicted"
    return Hold("work_would_be_lost", EVICTION | REPLACEMENT, why) if is_lost else None


def _window_may_not_evict(node: Node, _case: Case) -> Hold | None:
    pods = [pod.key for pod in node.pods if not window_may_evict(pod)]
    why = f"a window may not evict {listed(pods, PODS_NAMED)}"
    return Hold("window_may_not_evict", EVICTION, why) if pods else None


DRAIN_HOLDS = (  # of busy nodes; the first one says enough
    _cannot_be_drained,
    _pods_do_not_consent,
    _pods_fit_nowhere_else,
    _alert_holds,
    _utilization_not_low,
    _pods_wait_for_gpus,
    _not_emptied_before,
    _work_would_be_lost,
    _window_may_not_evict,
)


def holds_on(node: Node, case: Case, way: Blocks) -> Iterator[Hold]:
    """Yield what blocks that *node* goes in this *way*, whatever the time and the guardrails. Of what keeps its pods
    where they are, that is the first hold alone."""
    yield from node_holds(node, way)
    yield from case_holds(node, case, way)
    if node.busy and (node.stage is Stage.USABLE or way is Blocks.REPLACEMENT):
        yield from islice(_blocking(way, DRAIN_HOLDS, node, case), 1)


def case_holds(node: Node, case: Case, way: Blocks) -> Iterator[Hold]:
    """Yield what blocks that *node* goes in this *way*, besides what it shows by itself and what its pods say."""
    return _blocking(way, CASE_HOLDS, node, case)


def may_go(node: Node, case: Case, way: Blocks) -> bool:
    """True where nothing blocks that *node* goes in this *way*, once its moment has come."""
    return next(holds_on(node, case, way), None) is None


def _blocking(way: Blocks, checks: Sequence[Check], node: Node, case: Case) -> Iterator[Hold]:
    for check in checks:
        hold = check(node, case)
        if hold is not None and way in hold.blocks:
            yield hold
