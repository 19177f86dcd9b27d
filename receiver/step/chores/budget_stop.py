"""Cordon nodes while a budget is at its stop, and uncordon them when the stop is over.

Each step compares the nodes with what they should be, so a restart, a lost store or a lost answer changes nothing, and
a manual uncordon is reverted. Failures are reported and tried again; they delay no pool.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import structlog

from receiver.core.model.model import Source
from receiver.core.model.policy import Pool
from receiver.core.money.budget import month_of
from receiver.core.notices import money_notices
from receiver.core.scaling.bounds import lacks_price, to_close, to_open, why_closed
from receiver.ports import Did, Receipt, TryLater, WontWork
from receiver.step.parts import StepContext

log = structlog.get_logger("receiver")
ANSWERS_MISSED = 3  # in a row; then the other nodes of the pool wait for the next step


@dataclass(slots=True)
class _Written:
    """The results of writing to one pool's nodes: what was done, and the error of each node that refused."""

    did: list[Did] = field(default_factory=list)
    refused: dict[str, WontWork] = field(default_factory=dict)  # by node


def close_nodes(work: StepContext, strays: Iterable[str], *, steady: bool) -> None:
    """Cordon and uncordon the nodes of every pool as its budgets ask, and uncordon *strays*, the nodes of pools that
    are no longer configured. Unless the clock is *steady* nothing is uncordoned: it may have jumped into another
    month."""
    if work.hands.cluster is None or not (work.facts.up(Source.KUBERNETES) and work.facts.up(Source.CIVO)):
        return
    for pool in work.policy.pools:
        with work.parts.part("close_nodes", pool.id):
            _serve(pool, work, steady=steady)
    for node in strays if steady else ():
        try:
            _write(node, "", work)
        except (TryLater, WontWork) as error:
            log.warning("node of a pool no longer configured not uncordoned", node=node, error=str(error))


def _serve(pool: Pool, work: StepContext, *, steady: bool) -> None:
    """Cordon and uncordon the nodes of *pool*."""
    why, there = why_closed(work.assignment.budgets, pool.id), work.facts.pool(pool.id).nodes
    if nodes := [n.name for n in to_close(there, why)]:
        _close(pool, nodes, why or "", work)
    if (nodes := [n.name for n in to_open(there, why)]) and steady:
        _open(pool, nodes, why or "", work)
    unpriced = lacks_price(work.assignment.budgets, pool.id)
    if unpriced and any(n.closed_for is not None for n in there):
        work.say_later(lambda: money_notices.stay_closed(pool, unpriced))


def _close(pool: Pool, nodes: Sequence[str], why: str, work: StepContext) -> None:
    """Cordon *nodes* because of *why*, and report what the budget's own message does not say."""
    written = _write_all(nodes, why, work)
    if Did.OBSERVED in written.did:
        work.say_later(lambda: money_notices.would_be_closed(pool, len(nodes), why))
    elif Did.DONE in written.did and _was_over(pool, work):
        work.say_later(lambda: money_notices.closed_again(pool, why))
    if written.refused:
        work.say_later(lambda: money_notices.not_closed(pool, written.refused, why))


def _open(pool: Pool, nodes: Sequence[str], why: str, work: StepContext) -> None:
    """Uncordon *nodes*. That is news when the stop is over, not when a node was opened to host the autoscaler itself
    (*why* is set)."""
    written = _write_all(nodes, "", work)
    if Did.OBSERVED in written.did:
        work.say_later(lambda: money_notices.would_be_closed(pool, len(nodes), ""))
    elif Did.DONE in written.did and not why:
        work.say_later(lambda: money_notices.reopened(pool, written.did.count(Did.DONE), work.now))
    if written.refused:
        work.say_later(lambda: money_notices.not_closed(pool, written.refused, ""))


def _was_over(pool: Pool, work: StepContext) -> bool:
    """True when a message this month said that *pool* accepts new work again: each budget line is sent once a month."""
    at = money_notices.when_reopened(work.store.told(money_notices.CLOSED_TOPIC)).get(pool.id)
    zone = work.policy.timezone
    return at is not None and month_of(at, zone) == month_of(work.now, zone)


def _write_all(nodes: Sequence[str], why: str, work: StepContext) -> _Written:
    """Cordon *nodes* because of *why*, or uncordon them if it is empty. A node that refuses delays no other."""
    written, missed = _Written(), 0
    # In another order each time: nodes that never answer must not always come first.
    for node in sorted(nodes, key=lambda name: crc32(f"{work.now} {name}".encode())):
        try:
            written.did.append(_write(node, why, work).did)
            missed = 0
        except TryLater as error:
            log.warning("node not cordoned or uncordoned", node=node, error=str(error))
            missed += 1
            if missed == ANSWERS_MISSED:
                break
        except WontWork as error:
            log.warning("node not cordoned or uncordoned", node=node, error=str(error))
            written.refused[node] = error
            missed = 0
    return written


def _write(node: str, why: str, work: StepContext) -> Receipt:
    cluster = work.hands.cluster
    assert cluster is not None
    work.hands.ready()
    receipt = cluster.cordon_for_budget(node, why) if why else cluster.uncordon_for_budget(node)
    if receipt.did not in (Did.ALREADY, Did.OBSERVED):
        log.info("budget stop", node=node, did=receipt.did.value, detail=receipt.sentence)
    return receipt
