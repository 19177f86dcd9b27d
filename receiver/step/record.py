"""Store the decisions of a step before anything is done about them."""

from dataclasses import replace
from datetime import datetime

from receiver.config.environment import installed_version
from receiver.core.model.policy import Policy
from receiver.ports import Grounds, StepStore
from receiver.step.carry_out import Hands
from receiver.step.chores.approvals import ask
from receiver.step.gather import Looked
from receiver.step.parts import Decided, Parts, StepContext


def record(
    decided: Decided,
    looked: Looked,
    hands: Hands,
    store: StepStore,
    policy: Policy,
    mode: str,
    now: datetime,
    parts: Parts,
) -> StepContext:
    """Store the decisions and send the approval requests. Raises TryLater."""
    made = {"mode": mode, "version": installed_version()}
    decisions = {pool: replace(d, evidence={**d.evidence, **made}) for pool, d in decided.decisions.items()}
    made_from = Grounds(facts=decided.facts, policy=policy)
    numbers = dict(looked.before.decisions) if looked.before is not None else {}
    for pool, decision in decisions.items():
        numbers.setdefault(pool, 0)
        with parts.part("record", pool, sets_aside=True):
            numbers[pool] = store.decided(decision, made_from)
    numbers = {pool: numbers[pool] for pool in decisions}
    work = StepContext(
        facts=decided.facts,
        assignment=decided.assignment,
        decisions=decisions,
        numbers=numbers,
        drifts=looked.drifts,
        policy=policy,
        mode=mode,
        hands=hands,
        store=store,
        before=looked.before,
        now=now,
        parts=parts,
    )
    with parts.part("approvals"):
        ask(decided.questions, work)
    return work
