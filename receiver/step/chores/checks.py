"""Answer our AdmissionCheck in Kueue's Workloads, by what the budgets cover.

The Workload keeps the answer, so a restart changes nothing. A failed write is tried again by the next step.
"""

from functools import partial

import structlog

from receiver.core.model.model import Source
from receiver.core.notices.workload_notices import unanswered
from receiver.core.scaling.admission import CheckState
from receiver.ports import Did, TryLater, WontWork
from receiver.step.parts import StepContext

MOST_FAILURES = 3  # in a row, until the next step: each may last as long as a timeout

log = structlog.get_logger("receiver")


def answer_checks(work: StepContext) -> None:
    """Keep our AdmissionChecks active and write each answer that differs, those that let work start first. Without
    Civo's answer nothing is judged."""
    cluster = work.hands.cluster
    assert cluster is not None
    try:
        cluster.keep_checks_active()
    except (TryLater, WontWork) as error:
        log.warning("AdmissionCheck not set active", error=str(error))
    answers, failed = work.assignment.answers if work.facts.up(Source.CIVO) else (), 0
    refused: dict[str, list[str]] = {}  # for good, by why
    for answer in sorted(answers, key=lambda answer: answer.state is not CheckState.READY):
        if failed == MOST_FAILURES:
            break
        try:
            work.hands.ready()
            receipt = cluster.answer_check(answer)
        except (TryLater, WontWork) as error:
            log.warning("AdmissionCheck not answered", workload=answer.key, error=str(error))
            failed += isinstance(error, TryLater) or error.code == "http_403"
            if isinstance(error, WontWork):
                refused.setdefault(str(error), []).append(answer.key)
            continue
        failed = 0
        if receipt.did is Did.DONE:
            log.info("AdmissionCheck", workload=answer.key, state=answer.state.value, detail=answer.message)
    for reason, workloads in refused.items():
        work.say_later(partial(unanswered, reason, workloads))
