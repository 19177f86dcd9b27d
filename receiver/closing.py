"""Close nodes to new work while a budget is at its stop, and open them again when the stop is over.

Each step compares what the nodes carry with what they should, so a restart, a lost store or a lost answer changes
nothing, and what somebody undoes is done again. What goes wrong is told and tried again; it holds up no pool.
"""

from collections.abc import Iterable, Sequence

import structlog

from receiver.core import closing, closing_notices
from receiver.core.model import Source
from receiver.core.policy import Pool
from receiver.ports import Did, Receipt, TryLater, WontWork
from receiver.work import Work

log = structlog.get_logger("receiver")
ANSWERS_MISSED = 3  # in a row; the other nodes of the pool wait for the next step then


def close_nodes(work: Work, strays: Iterable[str], *, steady: bool) -> None:
    """Close and open the nodes of every pool as its budgets ask, and open *strays*: those of pools that left the
    configuration. Nothing is opened unless the clock is *steady*: it may have jumped into another month."""
    if work.hands.cluster is None or not (work.facts.up(Source.KUBERNETES) and work.facts.up(Source.CIVO)):
        return
    for pool in work.policy.pools:
        why = closing.why_closed(work.assignment.budgets, pool.id)
        nodes = [n.name for n in closing.to_change(work.facts.pool(pool.id).nodes, why)]
        if nodes and (why or steady):
            _change(pool, nodes, why or "", work)
    for node in strays if steady else ():
        try:
            _write(node, "", work)
        except (TryLater, WontWork) as error:
            log.warning("node of a pool that left the configuration not opened", node=node, error=str(error))


def _change(pool: Pool, nodes: Sequence[str], why: str, work: Work) -> None:
    """Close *nodes* because of *why*, or open them where it is empty, and tell what a person must know."""
    did: list[Did] = []
    missed = 0
    for node in nodes:
        try:
            did.append(_write(node, why, work).did)
            missed = 0
        except TryLater as error:
            log.warning("node not closed or opened", node=node, error=str(error))
            missed += 1
            if missed == ANSWERS_MISSED:
                break
        except WontWork as error:
            log.warning("node not closed or opened", node=node, error=str(error))
            work.store.say(closing_notices.failed(pool, str(error), why), work.now)
            return
    if Did.OBSERVED in did:
        work.store.say(closing_notices.observed(pool, len(nodes), why), work.now)
    elif Did.DONE in did and not why:
        work.store.say(closing_notices.reopened(pool, did.count(Did.DONE), work.now), work.now)


def _write(node: str, why: str, work: Work) -> Receipt:
    cluster = work.hands.cluster
    assert cluster is not None
    work.hands.ready()
    receipt = cluster.shut(node, why) if why else cluster.reopen(node)
    if receipt.did not in (Did.ALREADY, Did.OBSERVED):
        log.info("budget stop", node=node, did=receipt.did.value, detail=receipt.sentence)
    return receipt
