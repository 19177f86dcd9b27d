"""Take a person's answer: once, durably, and with whatever it sets. The loop acts upon it at its next step."""

from datetime import datetime

from receiver.core.model.actions import ActionKind
from receiver.core.model.approval_request import Answer, Question, override_of
from receiver.core.model.policy import Policy
from receiver.core.notices import people_notices
from receiver.ports import WebStore
from receiver.reports.picture import kept_picture


def size_of(pool: str, store: WebStore) -> int | None:
    """Return how many nodes the pool (an id) has by the last step's picture, those that were just asked for included;
    None where that is not known."""
    found = kept_picture(store)[0].pool(pool)
    if found is None or found.required is None:
        return None
    action = found.open_action
    return max(found.required, action.to_count if action is not None and action.kind == ActionKind.GROW else 0)


def take_answer(
    question: Question,
    answer: Answer,
    who: str,
    why: str,
    store: WebStore,
    policy: Policy,
    now: datetime,
    *,
    present: int,
) -> bool:
    """Keep *answer*, given by *who* while the pool has *present* nodes; False unless it stands and nobody answered."""
    pool = policy.pool(question.pool)
    most = present if pool is None else min(present, pool.max_nodes)
    override = override_of(answer, question, policy, now, present=most, who=who, why=why)
    notice = people_notices.answered(question, answer, who, override, policy)
    return store.answer_question(question.id, answer, who, why, now, notice, override)
