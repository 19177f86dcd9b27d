"""One step: gather, settle, decide, record, act, publish. Driven by the loop, by replay and by tests alike.

Nothing is written outside before everything is decided. What is made for people comes last or, where it is stored with
what it tells, may fail without effect; what the next step decides from is stored before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from receiver.core.model.actions import Decision
from receiver.core.model.failures import Failure
from receiver.core.model.model import Facts
from receiver.core.model.policy import Policy
from receiver.core.scaling.approval import asking_nobody
from receiver.core.scaling.assign import Assignment
from receiver.step.act import act
from receiver.step.carry_out import Hands
from receiver.step.decide import decide
from receiver.step.gather import Sources, gather
from receiver.step.parts import Parts
from receiver.step.publish import publish
from receiver.step.record import record
from receiver.step.settle import settle


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """What a step came to. *reconsider_at* is the first moment at which another could differ by itself.

    *failed_pools* are those that were set aside because of a bug, *failures* every part that failed.
    """

    facts: Facts
    assignment: Assignment
    decisions: Mapping[str, Decision]
    reconsider_at: datetime | None
    failed_pools: tuple[str, ...] = ()
    steady: bool = False  # the clock can be believed with what is done once (`receiver.core.model.control`)
    failures: tuple[Failure, ...] = field(default=(), compare=False)


def step(sources: Sources, hands: Hands, policy: Policy, mode: str, now: datetime, *, chores: bool = True) -> Stepped:
    """Run one step at *now*. Raises TryLater when the store fails, WriterLostError when we may not write.

    Without *chores* (in a replay, where nobody reads on) nothing is explained, told, shown or sampled, usage is not
    accounted for, and no idle workload is shut down.
    """
    parts = Parts()
    policy = asking_nobody(policy) if mode == "observe" else policy  # what is not done needs nobody's approval
    looked = gather(sources, policy, now, parts, chores=chores)
    facts = settle(looked, hands, sources.store, policy, mode, now, parts)
    decided = decide(facts, policy, parts, steady=looked.steady, chores=chores)
    parts.log()
    work = record(decided, looked, hands, sources.store, policy, mode, now, parts)
    work, again = act(work, looked, sources, chores=chores)
    if chores:
        with parts.part("publish"):
            publish(work, looked, sources)
    return Stepped(
        facts=work.facts,
        assignment=work.assignment,
        decisions=work.decisions,
        reconsider_at=min((a for a in again if a > now), default=None),
        failed_pools=tuple(parts.failures.set_aside),
        steady=looked.steady,
        failures=tuple(parts.failures.all),
    )
