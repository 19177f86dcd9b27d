"""What a decision rests on and what would change it, attached to the decision."""

from dataclasses import asdict, replace

from receiver.core.explain.because import why
from receiver.core.explain.evidence import evidence_of
from receiver.core.explain.rules import remedies
from receiver.core.model.actions import Decision
from receiver.core.scaling.guardrails import Case


def with_grounds(decision: Decision, case: Case) -> Decision:
    """Return *decision* with what it rests on and what would change it, as JSON-able values.

    The sentences too are stored: they are shown as they were said, whatever later versions would say.
    """
    decision = replace(decision, evidence=evidence_of(case, decision.reasons))
    said = {"because": why(decision), "what_would_change": [asdict(r) for r in remedies(decision)]}
    return replace(decision, evidence={**decision.evidence, **said})
