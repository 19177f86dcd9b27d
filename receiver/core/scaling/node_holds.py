"""Why no work starts on a node, and what keeps it whatever a decision says: the holds that a node shows by itself.

`receiver.core.scaling.holds` has those that a decision adds, and asks all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from receiver.core.model.model import REPAIR, CordonedBy, Node
from receiver.core.model.policy import Pool, Repair


class Blocks(Enum):
    """What a hold blocks: work that comes to a node, or one of the ways in which a node goes."""

    PODS = auto()  # the scheduler puts none there
    NEW_WORK = auto()  # it is no room for waiting work; our own cordon is lifted where there is room
    REMOVAL = auto()  # of an idle node
    CONSOLIDATION = auto()  # of a busy node whose pods move to others
    EVICTION = auto()  # of a node beyond a window's maximum, with what runs there
    REPLACEMENT = auto()  # of a node that is dead or under repair


PODS, NEW_WORK = frozenset({Blocks.PODS}), frozenset({Blocks.NEW_WORK})
GOING = frozenset(Blocks) - PODS - NEW_WORK
EVERYTHING = frozenset(Blocks)


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a node stays or takes no work: as found by the function *by*. *until* is its end, None if unknown."""

    by: str
    blocks: frozenset[Blocks]
    why: str  # a sentence
    until: datetime | None = None


def shown_by(node: Node) -> Iterator[Hold]:
    """Yield every hold that *node* shows by itself. Each rests on one fact, so none has a function of its own."""
    cordon, keep, health = node.cordon, node.keep, node.health
    if cordon.by is CordonedBy.SOMEONE:
        yield Hold("cordoned_by_others", EVERYTHING, "someone else cordoned it")
    if health.maintained:
        yield Hold("maintained", EVERYTHING, f"it {health.maintained}")
    if keep.protected:
        yield Hold("protected", GOING, "it is protected")
    if keep.hosts:  # the autoscaler, or the monitoring that it depends on
        yield Hold("hosts_the_autoscaler", GOING, f"it hosts {', '.join(keep.hosts)}")
    if keep.drain_losses:
        yield Hold("loses_pods", GOING, "; ".join(keep.drain_losses))
    if health.sick and not health.partly:
        yield Hold("sick", PODS | NEW_WORK, f"it is sick: {health.sick}")
    if cordon.deleted:
        yield Hold("deleted", NEW_WORK, "its DELETE was accepted")
    if cordon.by is CordonedBy.US:
        yield Hold("cordoned_by_us", PODS, "the autoscaler cordoned it")
    if cordon.stop is not None:
        yield Hold("marked_as_closed", PODS, "it is marked as closed by a budget's stop")
    if not node.registered:
        yield Hold("not_registered", PODS, "it has no Node object in Kubernetes")


def node_holds(node: Node, way: Blocks) -> Iterator[Hold]:
    """Yield what *node* shows that blocks *way*."""
    return (hold for hold in shown_by(node) if way in hold.blocks)


def node_hold(node: Node, way: Blocks) -> Hold | None:
    """Return the first thing that *node* shows that blocks *way*."""
    return next(node_holds(node, way), None)


def work_hold(node: Node, pool: Pool, closed: str | None) -> Hold | None:
    """Return why the usable *node* of *pool* is no room for waiting work; None where it is. *closed* says which budgets
    close the pool (`bounds.why_closed`)."""
    return node_hold(node, Blocks.NEW_WORK) or _under_repair(node, pool) or closed_by_a_budget(node, closed)


def _under_repair(node: Node, pool: Pool) -> Hold | None:
    """Some of its GPUs may work, or work again for a moment. The cordon of its removal replaces that of the repair."""
    ours = node.cordon.action == REPAIR or (pool.repair is Repair.REPLACE and node.health.sick and node.cordon.action)
    return Hold("under_repair", NEW_WORK, "it is under repair") if ours and node.cordon.by is not None else None


def closed_by_a_budget(node: Node, closed: str | None) -> Hold | None:
    """While the spend is unknown, what was closed stays closed. A node that hosts us or the monitoring stays open."""
    is_closed = node.cordon.stop is not None if closed is None else bool(closed) and not node.keep.hosts
    return Hold("closed_by_a_budget", NEW_WORK, "a budget closes it to new work") if is_closed else None
