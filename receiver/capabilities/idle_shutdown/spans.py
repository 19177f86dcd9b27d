"""The GPUs that workloads hold idle for longer than they may, and those that a shutdown freed, as the report counts
them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from receiver.capabilities.idle_shutdown.judging import Candidate, IdleCase, IdleStanding, is_idle, standing_of
from receiver.core.model.model import Facts
from receiver.core.model.pods import Pod, gpus_of
from receiver.core.model.policy import Policy
from receiver.core.model.usage import IdleSpan

UNSEEN = timedelta(minutes=3)  # after a longer gap between two looks, the time between them counts for nothing


class Holdings:
    """What workloads hold at the time of some facts."""

    def __init__(self, facts: Facts, policy: Policy) -> None:
        self._at, self._policy = facts.at, policy
        self._nodes: Mapping[str, tuple[str, Mapping[str, str]]] = {
            node.name: (state.pool, node.labels) for state in facts.pools for node in state.nodes
        }

    def of(self, workload: Candidate) -> IdleSpan:
        """Return what the pods of *workload* hold, as a span that begins now."""
        gpus, usd = zip(*(self._of_pod(pod) for pod in workload.staying), strict=True)
        label = self._policy.attribution.team
        return IdleSpan(
            workload=workload.key,
            since=self._at,
            team=next((team for pod in workload.pods if (team := pod.labels.get(label, ""))), ""),
            gpus=sum(gpus),
            usd_per_hour=None if None in usd else sum(usd, Decimal(0)),
        )

    def _of_pod(self, pod: Pod) -> tuple[float, Decimal | None]:
        """Return its GPUs, and what they cost an hour by the price of the pool; None where that is not known."""
        pool_id, labels = self._nodes.get(pod.node or "", ("", {}))
        pool, gpus = self._policy.pool(pool_id), gpus_of(pod.requests, labels)
        offered = gpus_of(pool.resources, labels) if pool is not None else 0.0
        if pool is None or pool.price_usd_per_hour is None or not offered:
            return gpus, None
        return gpus, pool.price_usd_per_hour * Decimal(str(gpus / offered))


def is_overdue(workload: Candidate, case: IdleCase) -> bool:
    """True if *workload* is idle although its grace is over: it was only told, or it could not be ended."""
    standing, at = standing_of(workload.topic, case)
    match standing:
        case IdleStanding.TOLD if at is not None:
            is_over = case.now >= at + case.policy.idle_shutdown_grace
        case IdleStanding.OBSERVED | IdleStanding.FAILED:
            is_over = True
        case _:
            is_over = False
    return is_over and is_idle(workload, case)


def seen_idle(held: IdleSpan, before: IdleSpan | None) -> IdleSpan:
    """Return the span of a workload that is overdue and holds what *held* says: the one *before* with a later end, if
    it is the same and was seen a moment ago."""
    now = held.since
    is_same = before is not None and (before.gpus, before.usd_per_hour) == (held.gpus, held.usd_per_hour)
    if before is None or before.ended or before.until is None or not is_same or now - before.until > UNSEEN:
        return replace(held, until=now)
    return replace(before, until=now)


def started_again(spans: Iterable[IdleSpan], workloads: Iterable[Candidate]) -> Iterator[IdleSpan]:
    """Yield those of *spans* that ended a workload of which only new pods exist, with the end that this is."""
    created_at = {workload.key: min(pod.created_at for pod in workload.pods) for workload in workloads}
    for span in spans:
        again_at = created_at.get(span.workload)
        if span.ended and span.until is None and again_at is not None and again_at > span.since:
            yield replace(span, until=again_at)
