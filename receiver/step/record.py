"""Record: store the decisions of a step, and send the requests to people, before anything else is done."""

from dataclasses import replace

import structlog

from receiver import installed_version
from receiver.core.promises.startup import NOTHING_LEARNT, learn
from receiver.core.scaling.packing import LAST_WORKLOADS
from receiver.ports import Grounds
from receiver.step.decide import Decided
from receiver.step.gather import Looked
from receiver.step.parts import StepContext, StepFrame

log = structlog.get_logger("receiver")


def record(decided: Decided, looked: Looked, frame: StepFrame) -> StepContext:
    """Store the decisions and the requests to people with their messages; with chores, learn when work may start.
    Raises TryLater."""
    parts, store, policy = frame.parts, frame.store, frame.policy
    origin = {"mode": frame.mode, "version": installed_version()}
    decisions = {pool: replace(d, evidence={**d.evidence, **origin}) for pool, d in decided.decisions.items()}
    made_from = Grounds(facts=decided.facts, policy=policy)
    before = looked.before.decisions if looked.before is not None else {}
    numbers = {pool: before.get(pool, 0) for pool in decisions}
    for pool, decision in decisions.items():
        with parts.part("record", pool, sets_aside=True):
            numbers[pool] = store.decided(decision, made_from)
    for part, record_due in decided.record:
        with parts.part(part):
            record_due(numbers, frame)
    learnt = NOTHING_LEARNT
    with parts.part("promises"):
        if frame.chores and decided.facts.waiting:
            learnt = learn(looked.lives, store.lasted(LAST_WORKLOADS))
    return StepContext(
        facts=decided.facts,
        assignment=decided.assignment,
        decisions=decisions,
        numbers=numbers,
        drifts=looked.drifts,
        before=looked.before,
        learnt=learnt,
        policy=policy,
        mode=frame.mode,
        hands=frame.hands,
        store=store,
        now=frame.now,
        parts=parts,
        chores=frame.chores,
        additions=frame.additions,
    )
