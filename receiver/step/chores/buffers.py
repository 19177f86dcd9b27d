"""Report to Kubernetes what is kept of each CapacityBuffer, and at which price."""

import structlog

from receiver.ports import Did, TryLater, WontWork
from receiver.step.parts import StepContext

log = structlog.get_logger("receiver")


def report_buffers(work: StepContext) -> None:
    """Write the status of every CapacityBuffer where it differs. A failed write is tried again by the next step."""
    cluster = work.hands.cluster
    assert cluster is not None
    statuses = {status.key: str(status) for status in work.assignment.buffers}
    for buffer in work.facts.buffers:
        try:
            work.hands.ready()
            receipt = cluster.report_buffer(buffer, statuses.get(buffer.key, ""))
        except (TryLater, WontWork) as error:
            log.warning("CapacityBuffer not written", buffer=buffer.key, error=str(error))
            continue
        if receipt.did is Did.DONE:
            log.info("CapacityBuffer", buffer=buffer.key, detail=receipt.sentence)
