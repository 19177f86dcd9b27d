"""What is told of Workloads of Kueue."""

from collections.abc import Sequence

from receiver.core.model.text import listed, some
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Notice, Severity


def unanswered(refused: str, workloads: Sequence[str]) -> Notice:
    """Say that the budget's answer to *workloads* of Kueue cannot be written, and why Kubernetes *refused* it."""
    return Notice(
        cause=Cause.NOT_ADMITTED,
        topic="checks",
        key=refused,
        title=f"{some(len(workloads), 'Workload')} of Kueue cannot be answered: the check of the budget stays pending",
        body=wording.worded(
            why=refused,
            whose=listed(workloads),
            after="each step tries again; until then Kueue keeps their quota reserved",
            do="To let them start now: take the AdmissionCheck out of their ClusterQueue.",
        ),
        severity=Severity.FAILURE,
    )
