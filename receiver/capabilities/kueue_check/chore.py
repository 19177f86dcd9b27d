"""Answer our AdmissionCheck in Kueue's Workloads, by what the budgets cover.

The Workload keeps the answer, so a restart changes nothing. A failed write is tried again by the next step.
"""

from functools import partial

from receiver.capabilities.kueue_check.judging import KIND, CheckState
from receiver.capabilities.kueue_check.notices import unanswered
from receiver.core.model.model import Source
from receiver.ports import WontWork
from receiver.step.parts import StepContext, Write, WriteKind, fails_too_often

ACTIVE = WriteKind("AdmissionCheck not set active")
ANSWER = WriteKind("AdmissionCheck not answered", "AdmissionCheck", gives_up=fails_too_often)


def write_answers(work: StepContext) -> None:
    """Keep our AdmissionChecks active and write each answer that differs, those that let work start first. Without
    Civo's answer nothing is judged."""
    cluster = work.hands.cluster
    assert cluster is not None
    work.hands.write(ACTIVE, Write({}, partial(cluster.keep_active, KIND)))
    answers = [answer for answer in work.assignment.answers if answer.kind == KIND]
    if not answers or not work.facts.up(Source.CIVO):
        return
    writes = [
        Write(
            {"workload": answer.key},
            partial(cluster.answer_request, answer),
            result={"state": answer.state, "detail": answer.message},
        )
        for answer in sorted(answers, key=lambda answer: answer.state != CheckState.READY)
    ]
    refused: dict[str, list[str]] = {}  # for good, by why
    for written in work.hands.write_each(ANSWER, writes):
        if isinstance(written.error, WontWork):
            refused.setdefault(str(written.error), []).append(written.write.about["workload"])
    for reason, workloads in refused.items():
        work.say_later(partial(unanswered, reason, workloads))
