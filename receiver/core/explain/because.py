"""A decision in one sentence, the same for log, chat, page and command line; and what it rests on, attached to it."""

from collections.abc import Collection
from dataclasses import asdict, replace

from receiver.core.explain.evidence import evidence_of
from receiver.core.explain.rules import plainly, remedies, sentence
from receiver.core.model.actions import Decision, Verdict
from receiver.core.scaling.guardrails import Case

# What a source of size says before its own sentence.
WANTED = {"standby": "to keep ready: ", "headroom": "for what comes next: ", "floor": "the pool's least size: "}
SPEAKS_UP = (Verdict.HOLDS, Verdict.LIMITS)


def why(decision: Decision, going: Collection[str] | None = None) -> str:
    """The deciding reason and what wanted the change, in plain words; of a removal for the nodes *going* (names) alone,
    where not all that the decision names went."""
    wanted = [(r.rule, _of_those(going, r.detail, decision)) for r in decision.reasons if r.verdict is Verdict.WANTS]
    held = [r for r in decision.reasons if r.verdict in SPEAKS_UP]
    said = [f"{WANTED.get(rule, '')}{detail}" for rule, detail in wanted if detail]
    said += [f"{plainly(r.rule)} ({r.detail})" for r in held]
    if not said:
        said = [r.detail for r in decision.reasons if r.verdict is Verdict.NOTES and r.detail][-1:]
    return "; ".join(said) or "nothing wanted a change"


def _of_those(going: Collection[str] | None, detail: str, decision: Decision) -> str:
    """*detail* with no other nodes before its colon than those *going*; empty where none of them do."""
    named, colon, because = detail.partition(": ")
    names = named.split(", ")
    known = {n["name"] for n in decision.evidence.get("nodes", ())}  # of a large pool not all
    if going is None or not colon or known.isdisjoint(names) or any(" " in name for name in names):
        return detail
    left = [name for name in names if name in going]
    return f"{', '.join(left)}: {because}" if left else ""


def with_grounds(decision: Decision, case: Case) -> Decision:
    """Return *decision* with the sentences of its reasons, what it rests on and what would change it, as JSON-able
    values.

    The sentences are stored too: they are shown as they were, whatever a later version would say.
    """
    reasons = tuple(replace(reason, detail=sentence(reason, case)) for reason in decision.reasons)
    decision = replace(decision, reasons=reasons, evidence=evidence_of(case, reasons))
    said = {"because": why(decision), "what_would_change": [asdict(r) for r in remedies(decision)]}
    return replace(decision, evidence={**decision.evidence, **said})
