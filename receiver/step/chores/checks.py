"""Answer our AdmissionCheck in Kueue's Workloads, by what the budgets cover.

The Workload keeps the answer, so a restart changes nothing. A failed write is tried again by the next step.
"""

from collections.abc import Sequence
from functools import partial

from receiver.core.model.model import Source
from receiver.core.notices.workload_notices import unanswered
from receiver.core.scaling.wanted import CheckState
from receiver.ports import TryLater, WontWork
from receiver.step.parts import StepContext, Write, WriteKind, Written

MOST_FAILURES = 3  # in a row, until the next step: each may last as long as a timeout


def _fails_too_often(written: Sequence[Written]) -> bool:
    """True when the last writes failed as others will: no answer, or no right. A refusal of one object is neither."""
    failures = 0
    for each in reversed(written):
        if each.error is None:
            break
        failures += isinstance(each.error, TryLater) or each.error.code == "http_403"
    return failures == MOST_FAILURES


ACTIVE = WriteKind("AdmissionCheck not set active")
ANSWER = WriteKind("AdmissionCheck not answered", "AdmissionCheck", gives_up=_fails_too_often)


def answer_checks(work: StepContext) -> None:
    """Keep our AdmissionChecks active and write each answer that differs, those that let work start first. Without
    Civo's answer nothing is judged."""
    cluster = work.hands.cluster
    assert cluster is not None
    work.hands.write(ACTIVE, Write({}, cluster.keep_checks_active))
    if not work.assignment.answers or not work.facts.up(Source.CIVO):
        return
    writes = [
        Write(
            {"workload": answer.key},
            partial(cluster.answer_check, answer),
            result={"state": answer.state.value, "detail": answer.message},
        )
        for answer in sorted(work.assignment.answers, key=lambda answer: answer.state is not CheckState.READY)
    ]
    refused: dict[str, list[str]] = {}  # for good, by why
    for written in work.hands.write_each(ANSWER, writes):
        if isinstance(written.error, WontWork):
            refused.setdefault(str(written.error), []).append(written.write.about["workload"])
    for reason, workloads in refused.items():
        work.say_later(partial(unanswered, reason, workloads))
