"""The messages about approval requests."""

from receiver.capabilities.approvals.choices import LABELS
from receiver.core.model.overrides import Answer, Override, Question, about
from receiver.core.model.policy import Policy
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Notice
from receiver.core.notices.people_notices import QUESTION_TOPIC


def answered(question: Question, override: Override | None, policy: Policy) -> Notice:
    """The notice of the answer to *question*, and of the override that this set."""
    answer = question.answer
    assert answer is not None
    pool = policy.pool(question.pool)
    name = pool.name if pool else question.pool
    verdict = {Answer.APPROVE: "approved", Answer.REJECT: "rejected"}.get(answer, f"answered: {LABELS[answer]}")
    lines = [f"Requested: {about(question)}."]
    if override is not None:
        lines += [f"Set: {override}.", f"To end it earlier: `gpu-autoscaler override end {override.id}`"]
    elif answer is Answer.REJECT:
        lines.append(f"It is not requested again before {wording.moment(question.expires_at, question.asked_at)}.")
    return Notice(
        cause=Cause.ANSWERED,
        topic=f"{QUESTION_TOPIC}{question.id}",
        key=f"answered:{answer}",
        title=f"GPU pool {name}: {question.who} {verdict}",
        body="\n".join(lines),
        pool=question.pool,
    )
