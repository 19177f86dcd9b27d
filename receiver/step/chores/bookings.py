"""Report to Kubernetes how far each ProvisioningRequest is.

The conditions of the request are the memory, so a restart changes nothing. A failed write is tried again by the next
step.
"""

from functools import partial

from receiver.core.model.model import Source
from receiver.core.promises.promise import Promises
from receiver.core.scaling.bookings import progress
from receiver.step.chores.checks import ANSWER
from receiver.step.parts import StepContext, Write, WriteKind

CONDITIONS = WriteKind("ProvisioningRequest not written", "ProvisioningRequest", gives_up=ANSWER.gives_up)


def report_bookings(work: StepContext) -> None:
    """Write the conditions of every ProvisioningRequest where they differ; nothing while Civo does not answer."""
    cluster = work.hands.cluster
    assert cluster is not None
    if not work.facts.other_work.bookings or not work.facts.up(Source.CIVO):
        return
    eta = partial(_eta, work)
    reports = [progress(each, work.assignment, work.policy, work.now, eta) for each in work.facts.other_work.bookings]
    writes = [
        Write(
            {"request": report.key},
            partial(cluster.report_booking, report),
            result={"stage": report.stage.value, "detail": report.message},
        )
        for report in reports
    ]
    work.hands.write_each(CONDITIONS, writes)


def _eta(work: StepContext, key: str) -> str:
    """When the last node of the request *key* is usable: to the minute, so that it is not written at every step."""
    latest = None
    for pool in work.policy.pools:
        wanted = work.assignment.pools[pool.id]
        decision = work.decisions.get(pool.id)
        for placement in wanted.work.rooms if decision is not None else ():
            if placement.workload.key == key and decision is not None:
                state = work.facts.pool(pool.id)
                promise = Promises(pool, state, wanted, decision, work.learnt, work.now).of(placement.workload)
                latest = promise if latest is None or promise.after(latest) else latest
    if latest is None or latest.starts_p90 is None:
        return ""
    word, at = ("by", latest.starts_p90) if latest.learnt else ("about", latest.starts_p50 or latest.starts_p90)
    return f"usable {word} {at:%H:%M} UTC"
