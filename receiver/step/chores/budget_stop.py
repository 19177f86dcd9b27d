"""Close nodes to new work while a budget is at its stop, and open them again when the stop is over.

Each step compares what the nodes carry with what they should, so a restart, a lost store or a lost answer changes
nothing, and what somebody undoes is done again. What goes wrong is told and tried again; it holds up no pool.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import structlog

from receiver.core.model.model import Source
from receiver.core.model.policy import Pool
from receiver.core.money.budget import month_of
from receiver.core.notices import closing_notices
from receiver.core.scaling import stop_scopes
from receiver.ports import Did, Receipt, TryLater, WontWork
from receiver.step.parts import StepContext

log = structlog.get_logger("receiver")
ANSWERS_MISSED = 3  # in a row; the other nodes of the pool wait for the next step then


@dataclass(slots=True)
class _Written:
    """What the nodes of one pool came to: what was done, and what each node said that could not be changed."""

    did: list[Did] = field(default_factory=list)
    refused: dict[str, WontWork] = field(default_factory=dict)  # by node


def close_nodes(work: StepContext, strays: Iterable[str], *, steady: bool) -> None:
    """Close and open the nodes of every pool as its budgets ask, and open *strays*: those of pools that left the
    configuration. Nothing is opened unless the clock is *steady*: it may have jumped into another month."""
    if work.hands.cluster is None or not (work.facts.up(Source.KUBERNETES) and work.facts.up(Source.CIVO)):
        return
    for pool in work.policy.pools:
        with work.parts.part("close_nodes", pool.id):
            _serve(pool, work, steady=steady)
    for node in strays if steady else ():
        try:
            _write(node, "", work)
        except (TryLater, WontWork) as error:
            log.warning("node of a pool that left the configuration not opened", node=node, error=str(error))


def _serve(pool: Pool, work: StepContext, *, steady: bool) -> None:
    """Close and open the nodes of *pool*."""
    why, there = stop_scopes.why_closed(work.assignment.budgets, pool.id), work.facts.pool(pool.id).nodes
    if nodes := [n.name for n in stop_scopes.to_close(there, why)]:
        _close(pool, nodes, why or "", work)
    if (nodes := [n.name for n in stop_scopes.to_open(there, why)]) and steady:
        _open(pool, nodes, why or "", work)
    unpriced = stop_scopes.lacks_price(work.assignment.budgets, pool.id)
    if unpriced and any(n.closed_for is not None for n in there):
        work.say_later(lambda: closing_notices.stay_closed(pool, unpriced))


def _close(pool: Pool, nodes: Sequence[str], why: str, work: StepContext) -> None:
    """Close *nodes* because of *why*, and tell what the message of the budget's line does not."""
    written = _write_all(nodes, why, work)
    if Did.OBSERVED in written.did:
        work.say_later(lambda: closing_notices.observed(pool, len(nodes), why))
    elif Did.DONE in written.did and _was_over(pool, work):
        work.say_later(lambda: closing_notices.again(pool, why))
    if written.refused:
        work.say_later(lambda: closing_notices.failed(pool, written.refused, why))


def _open(pool: Pool, nodes: Sequence[str], why: str, work: StepContext) -> None:
    """Open *nodes*; that is news when the stop is over, not when one of them has come to host us (*why* is set)."""
    written = _write_all(nodes, "", work)
    if Did.OBSERVED in written.did:
        work.say_later(lambda: closing_notices.observed(pool, len(nodes), ""))
    elif Did.DONE in written.did and not why:
        work.say_later(lambda: closing_notices.reopened(pool, written.did.count(Did.DONE), work.now))
    if written.refused:
        work.say_later(lambda: closing_notices.failed(pool, written.refused, ""))


def _was_over(pool: Pool, work: StepContext) -> bool:
    """True when people were told in this month that *pool* takes new work again: its line is told once a month."""
    at = closing_notices.when_reopened(work.store.told(closing_notices.TOPIC)).get(pool.id)
    zone = work.policy.timezone
    return at is not None and month_of(at, zone) == month_of(work.now, zone)


def _write_all(nodes: Sequence[str], why: str, work: StepContext) -> _Written:
    """Close *nodes* because of *why*, or open them where it is empty; what one of them refuses holds up no other."""
    written, missed = _Written(), 0
    # In another order each time: those that never answer must not stand before the others for good.
    for node in sorted(nodes, key=lambda name: crc32(f"{work.now} {name}".encode())):
        try:
            written.did.append(_write(node, why, work).did)
            missed = 0
        except TryLater as error:
            log.warning("node not closed or opened", node=node, error=str(error))
            missed += 1
            if missed == ANSWERS_MISSED:
                break
        except WontWork as error:
            log.warning("node not closed or opened", node=node, error=str(error))
            written.refused[node] = error
            missed = 0
    return written


def _write(node: str, why: str, work: StepContext) -> Receipt:
    cluster = work.hands.cluster
    assert cluster is not None
    work.hands.ready()
    receipt = cluster.shut(node, why) if why else cluster.reopen(node)
    if receipt.did not in (Did.ALREADY, Did.OBSERVED):
        log.info("budget stop", node=node, did=receipt.did.value, detail=receipt.sentence)
    return receipt
