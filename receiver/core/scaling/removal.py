"""Which nodes may go, and in which order."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.actions import Because, Victim
from receiver.core.model.approval_request import let_go
from receiver.core.model.model import CordonedBy, Node, SignalAction, Stage
from receiver.core.money.cost import next_unit_at
from receiver.core.scaling.assign import floor_gives_way
from receiver.core.scaling.eviction import evicted
from receiver.core.scaling.eviction_grace import begun
from receiver.core.scaling.guardrails import Case
from receiver.core.scaling.provisioning import dead_nodes
from receiver.core.scaling.recheck_times import removal_moment, unit_ends_soon
from receiver.core.scaling.removal_eligibility import is_kept, is_ours_to_take

NOW = timedelta(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removable:
    """The *nodes* that may go, in the order in which they do. *surplus* are idle ones beyond what a person allows,
    *evicted* those beyond what a window allows whose grace is over."""

    nodes: tuple[Node, ...]
    surplus: tuple[Node, ...] = ()
    evicted: tuple[Node, ...] = ()

    @property
    def told(self) -> tuple[Node, ...]:
        """Those that go by a word that was given before: nobody is asked about them again."""
        return (*self.surplus, *self.evicted)


def is_dead(node: Node) -> bool:
    """True for a node that goes although it is not usable: it never came up, or it broke."""
    return node.stage is not Stage.USABLE


def removable(case: Case, within: timedelta = NOW) -> Removable:
    """Return the nodes that may go now: dead ones, then idle ones that are too many by a person's or a window's word or
    whose moment has come or comes *within* a time, then busy ones that a window evicts or that may be emptied.

    Soonest paid unit first; a pool's spare nodes and its headroom are left.
    """
    dead = [n for n in dead_nodes(case.pool, case.state, case.now) if not n.busy and is_ours_to_take(n, case)]
    many = _surplus(case, len(dead))
    over = tuple(evicted(case, len(dead)))
    chosen = (*many, *over)
    due = [n for n in case.state.nodes if n not in chosen and may_go(n, case) and goes_at(n, case) <= case.now + within]
    moved = [n for n in case.state.nodes if n not in over and may_be_emptied(n, case, within)]
    for nodes in (dead, due, moved):
        nodes.sort(key=lambda n: (next_unit_at(n.created_at, case.now, case.policy.billing), n.name))
    # Never more than Civo wants to have: where it wants fewer than live, it is about to take one itself.
    emptying = [n for n in over if n.instance in begun(case.state)]  # before others: its work was evicted already
    others = [n for n in over if n not in emptying]
    empty, busy = [n for n in others if not n.busy], [n for n in others if n.busy]
    resting = due[: max(0, may_leave(case) - len(many) - len(empty) - sum(not n.busy for n in emptying))]
    going = tuple([*dead, *many, *emptying, *empty, *resting, *busy, *moved][: case.present])
    return Removable(nodes=going, surplus=many, evicted=tuple(n for n in over if n in going))


def may_leave(case: Case) -> int:
    """How many idle nodes may go beside those that the pool keeps ready, by its spare nodes and its headroom."""
    spare = [
        n
        for n in case.state.of(Stage.USABLE)
        if not n.busy and n.instance not in case.wanted.needed and n.cordoned_by is not CordonedBy.SOMEONE
    ]
    keep = 0 if floor_gives_way(case.wanted) else case.wanted.bounds.standby_nodes
    leaving = len(spare) - keep
    if case.wanted.headroom is not None and not floor_gives_way(case.wanted):
        leaving = min(leaving, case.wanted.headroom.may_leave)
    return leaving


def unapproved(going: Sequence[Node], said: Collection[Node], case: Case) -> tuple[Node, ...]:
    """Those of *going* that wait for a person's answer: idle ones, or ones to be emptied, where the policy asks.

    Nobody is asked about dead nodes, nor about those that go by a person's word or after an eviction that was told
    (*said*); at a budget's stop line an empty node waits for nobody.
    """
    if case.pool.approval is None or not case.pool.approval.removals:
        return ()
    spoken = {n.instance for n in said}
    alive = [n for n in going if n.instance not in spoken and not is_dead(n)]
    needs = [n for n in alive if n.busy or not floor_gives_way(case.wanted)]
    may_go = {busy: let_go(case.wanted.questions, case.now, busy=busy) for busy in (False, True)}
    return tuple(n for n in needs if n.instance not in may_go[n.busy])


def _surplus(case: Case, dead: int) -> tuple[Node, ...]:
    """The idle nodes that go at once beside the *dead*, because a person said that there are to be fewer.

    Those that are on their way out already go first, so that no other is chosen when a paid unit begins.
    """
    bounds, state = case.wanted.bounds, case.state
    if not bounds.overrun:
        return ()
    chosen = {v.instance for v in state.open_action.victims} if state.open_action else set()
    idle = sorted(
        (n for n in state.nodes if may_go(n, case)),
        key=lambda n: (n.instance not in chosen, next_unit_at(n.created_at, case.now, case.policy.billing), n.name),
    )
    return tuple(idle[: max(0, case.present - dead - bounds.max_nodes)])


def goes_at(node: Node, case: Case) -> datetime:
    """When *node* may go by the clock; an idle one that we just emptied for that need not rest, nor one that is busy
    still."""
    if node.busy or any(v.instance == node.instance for v in _being_emptied(case)):
        return unit_ends_soon(node, case.policy, case.now)
    return removal_moment(node, case.pool, case.policy, case.now, stopped=case.wanted.stopped)


def _being_emptied(case: Case) -> Sequence[Victim]:
    action = case.state.open_action
    return [v for v in action.victims if v.because is Because.CONSOLIDATED] if action else []


def may_be_emptied(node: Node, case: Case, within: timedelta = NOW) -> bool:
    """True when the pods of *node* consented to be moved, fit elsewhere, and its moment has come or comes *within* a
    time.

    Where hours are paid that is the end of one; where seconds are, low utilization must have lasted (`scale_down`).
    """
    return could_be_emptied(node, case) and unit_ends_soon(node, case.policy, case.now) <= case.now + within


def could_be_emptied(node: Node, case: Case) -> bool:
    """True when nothing but time keeps the pods of *node* where they are.

    Demand goes before low utilization: while GPUs are waited for in this pool, no other node of it begins to be
    emptied. One that is being emptied goes on, for the pods that left it may wait for a moment.
    """
    begun = any(v.instance == node.instance for v in _being_emptied(case))
    return (
        node.stage is Stage.USABLE
        and node.instance in case.wanted.movable
        and case.firing(SignalAction.HOLD) is None
        and is_ours_to_take(node, case)
        and (case.policy.billing.by_the_hour or case.firing(SignalAction.SCALE_DOWN) is not None)
        and (begun or not case.wanted.waiting_gpus)
    )


def may_go(node: Node, case: Case) -> bool:
    """True when nothing but time keeps *node*: it is usable, idle, ours to take and nobody waits or asks for it."""
    return (
        node.stage is Stage.USABLE
        and not node.busy
        and node.idle_since is not None
        and node.unknown_since is None
        and not is_kept(node, case)
        and node.instance not in case.wanted.needed
        and is_ours_to_take(node, case)
    )
