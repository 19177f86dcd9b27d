"""Report to Kubernetes what is kept of each CapacityBuffer, and at which price."""

from functools import partial

from receiver.capabilities.buffers.keeping import KIND, answered
from receiver.step.parts import StepContext, Write, WriteKind

STATUS = WriteKind("CapacityBuffer not written", "CapacityBuffer")


def report_buffers(work: StepContext) -> None:
    """Write the status of every CapacityBuffer where it differs. A failed write is tried again by the next step."""
    cluster = work.hands.cluster
    assert cluster is not None
    for answer in answered(work.facts.other_work.of_kind(KIND), work.assignment.answers):
        work.hands.write(STATUS, Write({"buffer": answer.key}, partial(cluster.answer_request, answer)))
