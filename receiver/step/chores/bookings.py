"""Report to Kubernetes how far each ProvisioningRequest is.

The conditions of the request are the memory, so a restart changes nothing. A failed write is tried again by the next
step.
"""

from functools import partial

import structlog

from receiver.core.model.model import Source
from receiver.core.promises.promise import Promises
from receiver.core.scaling.bookings import progress
from receiver.ports import Did, TryLater, WontWork
from receiver.step.chores.checks import MOST_FAILURES
from receiver.step.parts import StepContext

log = structlog.get_logger("receiver")


def report_bookings(work: StepContext) -> None:
    """Write the conditions of every ProvisioningRequest where they differ; nothing while Civo does not answer."""
    cluster = work.hands.cluster
    assert cluster is not None
    failed = 0
    for booking in work.facts.bookings if work.facts.up(Source.CIVO) else ():
        if failed == MOST_FAILURES:
            break
        report = progress(booking, work.assignment, work.policy, work.now, partial(_eta, work))
        try:
            work.hands.ready()
            receipt = cluster.report_booking(report)
        except (TryLater, WontWork) as error:
            log.warning("ProvisioningRequest not written", request=report.key, error=str(error))
            failed += isinstance(error, TryLater) or error.code == "http_403"
            continue
        failed = 0
        if receipt.did is Did.DONE:
            log.info("ProvisioningRequest", request=report.key, stage=report.stage.value, detail=report.message)


def _eta(work: StepContext, key: str) -> str:
    """When the last node of the request *key* is usable: to the minute, so that it is not written at every step."""
    latest = None
    for pool in work.policy.pools:
        wanted = work.assignment.pools[pool.id]
        decision = work.decisions.get(pool.id)
        for placement in wanted.given if decision is not None else ():
            if placement.workload.key == key and decision is not None:
                state = work.facts.pool(pool.id)
                promise = Promises(pool, state, wanted, decision, work.learnt, work.now).of(placement.workload)
                latest = promise if latest is None or promise.after(latest) else latest
    if latest is None or latest.starts_p90 is None:
        return ""
    word, at = ("by", latest.starts_p90) if latest.learnt else ("about", latest.starts_p50 or latest.starts_p90)
    return f"usable {word} {at:%H:%M} UTC"
