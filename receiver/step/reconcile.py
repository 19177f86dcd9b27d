"""One reconcile step: gather, settle, decide, record, act, publish. The loop, replay and the tests call the same one.

No call that changes anything outside is made before every pool is decided. Messages and pages are made last. A step
whose clock is not trusted settles and changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from receiver.core.model.actions import Decision
from receiver.core.model.model import Facts
from receiver.core.model.policy import Policy
from receiver.core.scaling.failures import Failure
from receiver.core.scaling.wanted import Assignment
from receiver.ports import RecordStore
from receiver.step.act import act
from receiver.step.decide import decide
from receiver.step.gather import Sources, gather
from receiver.step.parts import NOTHING, Additions, Hands, Parts, StepFrame
from receiver.step.publish import publish
from receiver.step.record import record
from receiver.step.settle import settle


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """The result of a step."""

    facts: Facts
    assignment: Assignment
    decisions: Mapping[str, Decision]
    reconsider_at: datetime | None  # the first moment at which the next one could decide differently by time alone
    failed_pools: tuple[str, ...] = ()  # left out because of a bug
    trusted: bool = False  # the clock has not jumped since the step before; else this one only looked
    failures: tuple[Failure, ...] = field(default=(), compare=False)


def step(
    sources: Sources, hands: Hands, policy: Policy, mode: str, now: datetime, additions: Additions = NOTHING
) -> Stepped:
    """Run one step at *now* with the *additions* of capabilities. Raises TryLater when the store fails, WriterLostError
    when this replica may not write.

    Without `Sources.readers` (as in a replay) there are no chores: the step writes no explanations, messages, pages or
    samples and accounts for no usage.
    """
    parts, store = Parts(), sources.store
    additions = additions.unattended if mode == "observe" else additions
    frame = StepFrame(
        policy=policy,
        mode=mode,
        hands=hands,
        store=store,
        now=now,
        parts=parts,
        chores=sources.readers,
        additions=additions,
    )
    looked = gather(sources, policy, now, parts, chores=frame.chores)
    facts = settle(looked, frame)
    decided = decide(facts, policy, parts, asks=looked.trusted, chores=frame.chores, additions=additions)
    parts.log()
    work = record(decided, looked, frame)
    work, again = act(work, looked, sources)
    if frame.chores:
        with parts.part("publish"):
            publish(work, looked, sources, cast("RecordStore", store))
    return Stepped(
        facts=work.facts,
        assignment=work.assignment,
        decisions=work.decisions,
        reconsider_at=min((a for a in again if a > now), default=None),
        failed_pools=tuple(parts.failures.set_aside),
        trusted=looked.trusted,
        failures=tuple(parts.failures.all),
    )
