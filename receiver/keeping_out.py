"""Keep new GPU work out while a budget's hold lasts, and let it in again when it is over.

Each step compares what is there with what should be and repairs the difference, so a restart or a lost answer changes
nothing. What goes wrong is told and tried again; it holds up no pool.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from receiver.core.keep_out import Intent, intent, notice
from receiver.core.model import Source
from receiver.ports import Cluster, Did, KeptOut, Receipt, TryLater, WontWork
from receiver.work import Work

log = structlog.get_logger("receiver")
QUEUE = "ClusterQueue "
Change = tuple[str, Callable[[], Receipt], bool]  # the place, what is done to it, and whether the hold is over


def keep_out(work: Work) -> tuple[str, ...]:
    """Do what the hold asks for; return the places that new work is kept out of now, as far as is known."""
    before = kept_out_before(work.store.snapshot())
    cluster = work.hands.cluster
    wanted = intent(work.assignment.budgets, work.policy, work.facts.spend.month)
    if cluster is None or wanted is None or not work.facts.up(Source.KUBERNETES):
        return before
    if not wanted.holds and not before and not _looks_all_the_same(work):
        return ()
    asks_kueue = _asks_kueue(before, work)
    found, failure = _look(cluster, queues=asks_kueue)
    there: set[str] = set()
    if failure is not None and asks_kueue:  # what is wrong with Kueue keeps no quota from coming or going
        found, worse = _look(cluster, queues=False)
        failure = worse or failure
        wanted = replace(wanted, cluster_queues=())
        there = {place for place in before if place.startswith(QUEUE)}
    if isinstance(failure, WontWork):
        place = "the cluster" if found is None else "ClusterQueues"
        work.store.say(notice(place, "failed", str(failure), wanted), work.now)
    if found is None:
        return before
    there |= {*found.namespaces, *(f"{QUEUE}{queue}" for queue in found.cluster_queues)}
    for place, write, over in _changes(wanted, found, cluster):
        if _done(place, write, wanted, work, over=over):
            there = there - {place} if over else there | {place}
    return tuple(sorted(there))


def _look(cluster: Cluster, *, queues: bool) -> tuple[KeptOut | None, TryLater | WontWork | None]:
    """Return what is there, or None and why nobody knows."""
    try:
        return cluster.kept_out(queues=queues), None
    except (TryLater, WontWork) as error:
        log.warning("what keeps new work out is not known", queues=queues, error=str(error))
        return None, error


def kept_out_before(kept: tuple[Mapping[str, Any], Any] | None) -> tuple[str, ...]:
    """The places that the last picture shows."""
    return tuple(kept[0].get("kept_out") or ()) if kept else ()


def _changes(wanted: Intent, found: KeptOut, cluster: Cluster) -> Iterator[Change]:
    for name in wanted.namespaces:
        yield name, partial(cluster.keep_out, name, wanted.resources, wanted.passing), False
    for name in wanted.cluster_queues:
        yield f"{QUEUE}{name}", partial(cluster.hold_queue, name), False
    for name in found.namespaces:
        if name not in wanted.namespaces:
            yield name, partial(cluster.let_in, name), True
    for name in found.cluster_queues:
        if name not in wanted.cluster_queues:
            yield f"{QUEUE}{name}", partial(cluster.release_queue, name), True


def _looks_all_the_same(work: Work) -> bool:
    """True once a minute where means are configured: a store may have forgotten what is held."""
    kept, budget = work.store.snapshot(), work.policy.budget
    if budget is None or not (budget.keep_out.namespaces or budget.keep_out.cluster_queues):
        return False
    return kept is None or kept[1].replace(second=0, microsecond=0) != work.now.replace(second=0, microsecond=0)


def _asks_kueue(before: tuple[str, ...], work: Work) -> bool:
    configured = work.policy.budget is not None and bool(work.policy.budget.keep_out.cluster_queues)
    return configured or any(place.startswith(QUEUE) for place in before)


def _done(place: str, write: Callable[[], Receipt], wanted: Intent, work: Work, *, over: bool) -> bool:
    """Make one write and tell what is news; True when the place is as it should be now."""
    work.hands.ready()
    try:
        receipt = write()
    except (TryLater, WontWork) as error:
        log.warning("new work not kept out or not let in", place=place, error=str(error))
        if isinstance(error, WontWork):
            work.store.say(notice(place, "failed", str(error), wanted, over=over), work.now)
        return False
    if receipt.did is not Did.ALREADY:
        log.info("budget hold", place=place, did=receipt.did.value, detail=receipt.sentence)
        work.store.say(notice(place, receipt.did.value, receipt.sentence, wanted, over=over), work.now)
    return receipt.did in (Did.DONE, Did.ALREADY)
