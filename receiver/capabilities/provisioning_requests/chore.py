"""Report to Kubernetes how far each ProvisioningRequest is.

The conditions of the request are the memory, so a restart changes nothing. A failed write is tried again by the next
step.
"""

from functools import partial

from receiver.capabilities.provisioning_requests.progress import KIND, progress
from receiver.core.model.model import Source
from receiver.core.promises.promise import Promises
from receiver.step.parts import StepContext, Write, WriteKind, fails_too_often

CONDITIONS = WriteKind("ProvisioningRequest not written", "ProvisioningRequest", gives_up=fails_too_often)


def report_bookings(work: StepContext) -> None:
    """Write the conditions of every ProvisioningRequest where they differ; nothing while Civo does not answer."""
    cluster = work.hands.cluster
    assert cluster is not None
    requests = work.facts.other_work.of_kind(KIND)
    if not requests or not work.facts.up(Source.CIVO):
        return
    eta = partial(_eta, work)
    answers = [progress(request, work.assignment, work.policy, work.now, eta) for request in requests]
    writes = [
        Write(
            {"request": answer.key},
            partial(cluster.answer_request, answer),
            result={"stage": answer.state, "detail": answer.message},
        )
        for answer in answers
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
