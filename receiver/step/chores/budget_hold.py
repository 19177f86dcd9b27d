"""Refuse new GPU work while a budget's hold lasts, by quotas and held queues, and admit it again afterwards.

Each step compares the cluster with the configuration and repairs the difference, so a restart or a lost answer changes
nothing. When nothing should be held, the cluster is read only after a start or a long pause: an earlier process may
have held places that are in neither configuration nor store. Failures are reported and tried again; they delay no pool.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial

import structlog

from receiver.core.model.memory import is_new_minute
from receiver.core.model.model import Source
from receiver.core.money.budget import Intent, intent
from receiver.core.notices.money_notices import kept_out
from receiver.ports import Cluster, Did, HeldPlaces, Receipt, TryLater, WontWork
from receiver.step.parts import StepContext

log = structlog.get_logger("receiver")
QUEUE = "ClusterQueue "
Change = tuple[str, Callable[[], Receipt], bool]  # the place, what is done to it, and whether the hold is over


def hold_new_work(work: StepContext, *, steady: bool) -> Mapping[str, datetime] | None:
    """Apply or lift the hold. Returns the held places and since when, as far as is known; None before the first read.

    *steady* is False in the first step after a start or a pause, and after a jump of the clock. Nothing is admitted
    then: the clock may have jumped into another month.
    """
    before = work.facts.kept_out
    cluster = work.hands.cluster
    wanted = intent(work.assignment.budgets, work.policy, work.facts.spend.month)
    if cluster is None or wanted is None or not work.facts.up(Source.KUBERNETES):
        return before
    begins = before is None or not steady
    if not wanted.holds and not before and not begins and not _looks_all_the_same(work):
        return {}
    asks_kueue = begins or _asks_kueue(before or (), work)
    found, failure = _look(cluster, queues=asks_kueue)
    there: set[str] = set()
    if failure is not None and asks_kueue:  # a failure of Kueue must not stop the quotas
        found, worse = _look(cluster, queues=False)
        failure = worse or failure
        wanted = replace(wanted, cluster_queues=())
        there = {place for place in before or () if place.startswith(QUEUE)}
    concerned = _is_configured(work) or bool(before)
    if isinstance(failure, WontWork) and concerned:
        place = "the cluster" if found is None else "ClusterQueues"
        work.say_later(partial(kept_out, place, "failed", str(failure), wanted))
    if found is None:
        may_not_ask = isinstance(failure, WontWork) and not concerned
        return {} if may_not_ask else before  # without the right to read, nothing was ever held
    there |= {*found.namespaces, *(f"{QUEUE}{queue}" for queue in found.cluster_queues)}
    for place, write, over in _changes(wanted, found, cluster):
        if over and not steady:
            continue
        with work.parts.part("keep_out"):
            if _done(place, write, wanted, work, over=over):
                there = there - {place} if over else there | {place}
    if begins and isinstance(failure, TryLater):
        return None  # Kueue's part is not known yet
    return {place: (before or {}).get(place, work.now) for place in sorted(there)}


def _look(cluster: Cluster, *, queues: bool) -> tuple[HeldPlaces | None, TryLater | WontWork | None]:
    """Return the places held in the cluster, or None and the error."""
    try:
        return cluster.held_places(queues=queues), None
    except (TryLater, WontWork) as error:
        log.warning("cannot read the budget hold from the cluster", queues=queues, error=str(error))
        return None, error


def _changes(wanted: Intent, found: HeldPlaces, cluster: Cluster) -> Iterator[Change]:
    for name in wanted.namespaces:
        yield name, partial(cluster.hold_namespace, name, wanted.resources, wanted.passing), False
    for name in wanted.cluster_queues:
        yield f"{QUEUE}{name}", partial(cluster.hold_queue, name), False
    for name in found.namespaces:
        if name not in wanted.namespaces:
            yield name, partial(cluster.release_namespace, name), True
    for name in found.cluster_queues:
        if name not in wanted.cluster_queues:
            yield f"{QUEUE}{name}", partial(cluster.release_queue, name), True


def _looks_all_the_same(work: StepContext) -> bool:
    """True once a minute where a hold is configured: a restored store may not know what is held."""
    if not _is_configured(work):
        return False
    return is_new_minute(work.before, work.now)


def _is_configured(work: StepContext) -> bool:
    """True where the configuration names namespaces or queues to hold."""
    budget = work.policy.budget
    return budget is not None and bool(budget.keep_out.namespaces or budget.keep_out.cluster_queues)


def _asks_kueue(before: Iterable[str], work: StepContext) -> bool:
    configured = work.policy.budget is not None and bool(work.policy.budget.keep_out.cluster_queues)
    return configured or any(place.startswith(QUEUE) for place in before)


def _done(place: str, write: Callable[[], Receipt], wanted: Intent, work: StepContext, *, over: bool) -> bool:
    """Make one write and send a message if it changed something; True when the place is as it should be now."""
    work.hands.ready()
    try:
        receipt = write()
    except (TryLater, WontWork) as error:
        log.warning("budget hold not applied or not lifted", place=place, error=str(error))
        if isinstance(error, WontWork):
            work.say_later(partial(kept_out, place, "failed", str(error), wanted, over=over))
        return False
    if receipt.did is not Did.ALREADY:
        log.info("budget hold", place=place, did=receipt.did.value, detail=receipt.sentence)
        work.say_later(partial(kept_out, place, receipt.did.value, receipt.sentence, wanted, over=over))
    return receipt.did in (Did.DONE, Did.ALREADY)
