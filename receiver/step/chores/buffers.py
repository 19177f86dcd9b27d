"""Report to Kubernetes what is kept of each CapacityBuffer, and at which price."""

from functools import partial

from receiver.step.parts import StepContext, Write, WriteKind

STATUS = WriteKind("CapacityBuffer not written", "CapacityBuffer")


def report_buffers(work: StepContext) -> None:
    """Write the status of every CapacityBuffer where it differs. A failed write is tried again by the next step."""
    cluster = work.hands.cluster
    assert cluster is not None
    statuses = {status.key: str(status) for status in work.assignment.buffers}
    for buffer in work.facts.other_work.buffers:
        report = partial(cluster.report_buffer, buffer, statuses.get(buffer.key, ""))
        work.hands.write(STATUS, Write({"buffer": buffer.key}, report))
