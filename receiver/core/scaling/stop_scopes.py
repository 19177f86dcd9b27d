"""Nodes that are closed to new work: all of a pool's while a budget that covers the whole pool is at its stop.

Running pods go on; what waits does not begin there, so every dollar beyond the line belongs to a node whose pod was
running when the line was reached. A team's stop closes nothing: its pods share nodes with others'. A node that hosts
us or the monitoring stays open: it is paid for as long as it does, and what watches the budget must be able to start.
"""

from collections.abc import Iterable

from receiver.core.model.model import CordonedBy, Node, Stage
from receiver.core.money.budget import Budgets, BudgetStage


def why_closed(budgets: Budgets, pool: str) -> str | None:
    """Why no new work may begin on the nodes of *pool* (an id): the budgets that are at their stop.

    Empty: it may. None: nobody can tell, and what is closed stays closed, as an unknown spend neither begins nor ends
    anything.
    """
    touched = budgets.touched(pool)
    stopped = [f"{view.title} {view.month}" for view in touched if view.stage is BudgetStage.STOP]
    if not stopped and any(view.unknown or view.unpriced for view in touched):
        return None
    return ", ".join(stopped)


def lacks_price(budgets: Budgets, pool: str) -> tuple[str, ...]:
    """The sizes for want of whose price nobody can tell whether *pool* (an id) is closed; empty when it is known to
    be."""
    if why_closed(budgets, pool) is not None:
        return ()
    return tuple(sorted({size for view in budgets.touched(pool) for size in view.unpriced}))


def takes_work(node: Node | None, why: str | None) -> bool:
    """True when new work may begin on *node* (None: one that Civo does not list yet), by what `why_closed` says."""
    if why is None:
        return node is None or node.closed_for is None
    return not why or (node is not None and bool(node.hosts))


def to_close(nodes: Iterable[Node], why: str | None) -> tuple[Node, ...]:
    """The nodes that are to be closed now, as *why* says; a cordon of somebody else's closes one as well."""
    if not why:
        return ()
    there = (n for n in nodes if n.registered and n.stage is not Stage.DELETING and not n.hosts)
    return tuple(
        n
        for n in there
        if n.cordoned_by is not CordonedBy.SOMEONE and (n.closed_for != why or n.cordoned_by is not CordonedBy.US)
    )


def to_open(nodes: Iterable[Node], why: str | None) -> tuple[Node, ...]:
    """The nodes that we closed and that are to be open now: all when the stop is over, else those that host us."""
    if why is None:
        return ()
    return tuple(n for n in nodes if n.closed_for is not None and takes_work(n, why))
