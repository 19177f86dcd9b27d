"""What a pool's page and messages say of approval requests that stand."""

from collections.abc import Iterator

from receiver.capabilities.approvals.due import is_wanted
from receiver.capabilities.approvals.sentences import sentence
from receiver.core.explain.rules import SPEAKS_UP
from receiver.core.model.overrides import Asks
from receiver.core.model.policy import Pool
from receiver.core.notices.held_concerns import how_far_it_grows, symptom
from receiver.core.notices.notice import GUIDES, Cause, Concern, Level, Seen


def concerns_of(pool: Pool, seen: Seen) -> Iterator[Concern]:
    """Yield what people are asked for, and what they rejected: shown, so that it is not forgotten."""
    state, wanted, decision = seen.facts.pool(pool.id), seen.assignment.pools[pool.id], seen.decisions[pool.id]
    unapproved = any(r.rule == "approved" and r.verdict in SPEAKS_UP for r in decision.reasons)
    for question in (q for q in seen.facts.instructions.questions if q.pool == pool.id):
        if question.is_open(seen.now) and is_wanted(question, state, wanted):
            yield Concern(
                kind="question",
                level=seen.level("approved", pool=pool.id),
                rule="approved",
                what=symptom("approved", pool, seen) or "waits for an approval",
                why=sentence(question, seen.now, seen.facts.instructions.questions),
                todo=f"answer from the message, or with `gpu-autoscaler approvals approve {question.id} --who YOU`",
                guide=GUIDES[Cause.ASKS],
                question=question.id,
            )
        elif wanted.new_nodes and unapproved and question.asks is Asks.GROWTH and question.is_rejected(seen.now):
            yield Concern(
                kind="rejected",
                level=seen.level("approved", pool=pool.id, otherwise=Level.NOTE),
                rule="approved",
                what=f"{how_far_it_grows(decision)}: a person rejected further growth",
                why=sentence(question, seen.now),
                todo="To let it grow before that, set a floor:"
                f" gpu-autoscaler override set {pool.name} --min {question.to_count} --for 1h --why REASON --who YOU",
                guide=GUIDES[Cause.ASKS],
            )
