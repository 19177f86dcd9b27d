"""Enforce budgets in Kubernetes: refuse new GPU work during a hold, cordon nodes during a stop, and undo both after.

Each step compares the cluster with what it should be, so a restart, a lost store or a lost answer changes nothing, and
a manual change is reverted. Failures are reported and tried again; they delay no pool.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from zlib import crc32

import structlog

from receiver.core.model.memory import is_new_minute
from receiver.core.model.policy import Pool
from receiver.core.money.budget import Intent, intent, month_of
from receiver.core.notices import money_notices
from receiver.core.scaling.bounds import lacks_price, to_close, to_open, why_closed
from receiver.ports import Cluster, Did, HeldPlaces, Receipt, TryLater, WontWork
from receiver.step.parts import StepContext, Write, WriteKind, Written

log = structlog.get_logger("receiver")
QUEUE = "ClusterQueue "
ANSWERS_MISSED = 3  # in a row; then the other nodes of the pool wait for the next step
HOLD = WriteKind("budget hold not applied or not lifted", "budget hold", (Did.DONE, Did.DIFFERS, Did.OBSERVED))
STOP = WriteKind("node not cordoned or uncordoned", "budget stop", (Did.DONE, Did.DIFFERS))
STRAY = WriteKind("node of a pool no longer configured not uncordoned", "budget stop", (Did.DONE, Did.DIFFERS))
Change = tuple[str, Callable[[], Receipt], bool]  # the place, what is done to it, and whether the hold is over


def held_places(work: StepContext) -> Mapping[str, datetime] | None:
    """Return the places that are held in the cluster and since when; None if it does not say. An earlier process may
    have held places that are in neither configuration nor store."""
    before, cluster = work.facts.earlier.kept_out, work.hands.cluster
    places, failure = _look(cluster, queues=True) if cluster is not None else (None, None)
    if places is None or failure is not None:
        return before or None
    return {place: (before or {}).get(place, work.now) for place in sorted(_names(places))}


def hold_new_work(work: StepContext) -> Mapping[str, datetime] | None:
    """Apply or lift the hold. Returns the held places and since when, as far as is known; None before the first read.

    When nothing should be held, the cluster is read only where it is not known what is held, and once a minute where a
    hold is configured.
    """
    before, cluster, budget = work.facts.earlier.kept_out, work.hands.cluster, work.policy.budget
    wanted = intent(work.assignment.budgets, work.policy, work.facts.spend.month)
    if cluster is None or wanted is None:
        return before
    begins = before is None
    holds_queues = budget is not None and bool(budget.keep_out.cluster_queues)
    configured = holds_queues or (budget is not None and bool(budget.keep_out.namespaces))
    if not (wanted.holds or before or begins or (configured and is_new_minute(work.before, work.now))):
        return {}
    held_queues = {place for place in before or () if place.startswith(QUEUE)}
    asks_kueue = begins or holds_queues or bool(held_queues)
    held, failure = _look(cluster, queues=asks_kueue)
    places: set[str] = set()
    if failure is not None and asks_kueue:  # a failure of Kueue must not stop the quotas
        held, worse = _look(cluster, queues=False)
        failure = worse or failure
        wanted = replace(wanted, cluster_queues=())
        places = held_queues
    concerned = configured or bool(before)
    if isinstance(failure, WontWork) and concerned:
        place = "the cluster" if held is None else "ClusterQueues"
        work.say_later(partial(money_notices.kept_out, place, "failed", str(failure), wanted))
    if held is None:
        may_not_ask = isinstance(failure, WontWork) and not concerned
        return {} if may_not_ask else before  # without the right to read, nothing was ever held
    places |= _names(held)
    for place, make, over in _changes(wanted, held, cluster):
        with work.parts.part("keep_out"):
            if _done(place, make, wanted, work, over=over):
                places = places - {place} if over else places | {place}
    if begins and isinstance(failure, TryLater):
        return None  # Kueue's part is not known yet
    return {place: (before or {}).get(place, work.now) for place in sorted(places)}


def _names(places: HeldPlaces) -> set[str]:
    return {*places.namespaces, *(f"{QUEUE}{queue}" for queue in places.cluster_queues)}


def _look(cluster: Cluster, *, queues: bool) -> tuple[HeldPlaces | None, TryLater | WontWork | None]:
    try:
        return cluster.held_places(queues=queues), None
    except (TryLater, WontWork) as error:
        log.warning("cannot read the budget hold from the cluster", queues=queues, error=str(error))
        return None, error


def _changes(wanted: Intent, held_places: HeldPlaces, cluster: Cluster) -> Iterator[Change]:
    for name in wanted.namespaces:
        yield name, partial(cluster.hold_namespace, name, wanted.resources, wanted.passing), False
    for name in wanted.cluster_queues:
        yield f"{QUEUE}{name}", partial(cluster.hold_queue, name), False
    for name in held_places.namespaces:
        if name not in wanted.namespaces:
            yield name, partial(cluster.release_namespace, name), True
    for name in held_places.cluster_queues:
        if name not in wanted.cluster_queues:
            yield f"{QUEUE}{name}", partial(cluster.release_queue, name), True


def _done(place: str, make: Callable[[], Receipt], wanted: Intent, work: StepContext, *, over: bool) -> bool:
    """Make one write and send a message if it changed something; True when the place is as it should be now."""
    written = work.hands.write(HOLD, Write({"place": place}, make))
    receipt = written.receipt
    if receipt is None:
        if isinstance(written.error, WontWork):
            work.say_later(partial(money_notices.kept_out, place, "failed", str(written.error), wanted, over=over))
        return False
    if receipt.did is not Did.ALREADY:
        did, detail = receipt.did.value, receipt.sentence
        work.say_later(partial(money_notices.kept_out, place, did, detail, wanted, over=over))
    return receipt.did in (Did.DONE, Did.ALREADY)


def close_nodes(work: StepContext, strays: Iterable[str]) -> None:
    """Cordon and uncordon the nodes of every pool as its budgets ask, and uncordon *strays*, the nodes of pools that
    are no longer configured."""
    for pool in work.policy.pools:
        with work.parts.part("close_nodes", pool.id):
            nodes, stop_reason = work.facts.pool(pool.id).nodes, why_closed(work.assignment.budgets, pool.id)
            if closing := to_close(nodes, stop_reason):
                _write_all(pool, [n.name for n in closing], stop_reason or "", work)
            if opening := to_open(nodes, stop_reason):
                _write_all(pool, [n.name for n in opening], "", work, stopped=bool(stop_reason))
            unpriced = lacks_price(work.assignment.budgets, pool.id)
            if unpriced and any(n.cordon.stop is not None for n in nodes):
                work.say_later(partial(money_notices.stay_closed, pool, unpriced))
    for node in strays:
        _write(STRAY, node, "", work)


def _write_all(pool: Pool, nodes: Sequence[str], stop_reason: str, work: StepContext, *, stopped: bool = False) -> None:
    """Cordon *nodes* because of *stop_reason*, or uncordon them if it is empty, and report what the budget's own
    message does not say. A node that refuses delays no other. Nodes opened while the pool is still *stopped* host the
    autoscaler."""
    # In another order each time: nodes that never answer must not always come first.
    written: list[Written] = []
    for node in sorted(nodes, key=lambda name: crc32(f"{work.now} {name}".encode())):
        written.append(_write(STOP, node, stop_reason, work))
        unanswered = [isinstance(each.error, TryLater) for each in written[-ANSWERS_MISSED:]]
        if len(unanswered) == ANSWERS_MISSED and all(unanswered):
            break
    did = [each.receipt.did for each in written if each.receipt is not None]
    refused = {each.write.about["node"]: each.error for each in written if isinstance(each.error, WontWork)}
    if Did.OBSERVED in did:
        work.say_later(partial(money_notices.would_be_closed, pool, len(nodes), stop_reason))
    elif Did.DONE in did and stop_reason and _was_over(pool, work):
        work.say_later(partial(money_notices.closed_again, pool, stop_reason, work.assignment.budgets))
    elif Did.DONE in did and not stop_reason and not stopped:
        work.say_later(partial(money_notices.reopened, pool, did.count(Did.DONE), work.now))
    if refused:
        work.say_later(partial(money_notices.not_closed, pool, refused, stop_reason))


def _was_over(pool: Pool, work: StepContext) -> bool:
    """True when a message this month said that *pool* accepts new work again: each budget line is sent once a month."""
    at = money_notices.when_reopened(work.store.told(money_notices.CLOSED_TOPIC)).get(pool.id)
    zone = work.policy.timezone
    return at is not None and month_of(at, zone) == month_of(work.now, zone)


def _write(kind: WriteKind, node: str, stop_reason: str, work: StepContext) -> Written:
    """Cordon *node* because of *stop_reason*, or uncordon it if that is empty."""
    cluster = work.hands.cluster
    assert cluster is not None
    cordon = partial(cluster.cordon_for_budget, node, stop_reason)
    make = cordon if stop_reason else partial(cluster.uncordon_for_budget, node)
    return work.hands.write(kind, Write({"node": node}, make))
