"""Remove our scheduling gate from work that may wait, once there is room for it or its time has come.

A failed write is tried again by the next step.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from receiver.capabilities.patience.waiting import MOST_AT_ONCE, Admissions
from receiver.core.model.actions import Change
from receiver.core.model.pods import Pod, owner_of
from receiver.core.model.text import listed, some
from receiver.core.notices import wording
from receiver.core.notices.notice import Cause, Notice, Severity
from receiver.core.scaling.packing import LAST_WORKLOADS, Survival
from receiver.ports import Did, TryLater, WontWork
from receiver.step.parts import StepContext, Write, WriteKind

GATE = WriteKind("work not admitted", "work admitted", tuple(Did))


def admit_deferred_work(work: StepContext) -> datetime | None:
    """Admit the pods whose turn it is, gangs whole: the first ones of a gang may hold GPUs until the last has come.
    Return when the next one's deadline is near enough to buy a node for it. A refusal holds up its owner's pods alone.
    """
    facts, cluster = work.facts, work.hands.cluster
    if not facts.other_work.deferred or cluster is None:
        return None
    waiting = {pool: wanted.work.gpus for pool, wanted in work.assignment.pools.items()}
    shrinking = (d for d in work.decisions.values() if d.change is Change.SHRINK)
    going = frozenset(i for d in shrinking for i in d.candidates[: d.present - d.target])
    survival = Survival.of(work.store.lasted(LAST_WORKLOADS))
    ready_gpus = sum(answer.ready_gpus for answer in work.assignment.answers)
    ready, next_at = Admissions(facts, work.policy, waiting, going, survival, ready_gpus).admit()
    tried, refused = 0, dict[str, str]()  # the refusal by owner
    for workload in ready:
        if tried >= MOST_AT_ONCE:
            break
        for pod in workload.pods:
            if owner_of(pod) in refused:
                continue
            tried += 1
            error = work.hands.write(GATE, Write({"pod": pod.key}, partial(cluster.admit, pod))).error
            if isinstance(error, WontWork):
                refused[owner_of(pod)] = str(error)
            elif isinstance(error, TryLater):
                tried = MOST_AT_ONCE
                break
    if refused:
        stay = [pod for workload in ready for pod in workload.pods if owner_of(pod) in refused]
        work.say_later(partial(not_admitted, next(iter(refused.values())), stay))
    return next_at


def not_admitted(refused: str, pods: Sequence[Pod]) -> Notice:
    """Say that the scheduling gate of *pods* cannot be removed, and why Kubernetes *refused* it."""
    possessive = "its" if len(pods) == 1 else "their"
    return Notice(
        cause=Cause.NOT_ADMITTED,
        topic="admit",
        key=refused,
        title=f"{some(len(pods), 'pod')} cannot start: {possessive} scheduling gate cannot be removed",
        body=wording.worded(
            why=refused,
            whose=listed([pod.key for pod in pods]),
            after="each step tries again",
            do="To start them now, remove the gate gpu-autoscaler.io/may-wait by hand.",
        ),
        severity=Severity.FAILURE,
    )
