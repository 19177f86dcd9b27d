"""Remove our scheduling gate from work that may wait, once there is room for it or its time has come.

A failed write is tried again by the next step.
"""

from datetime import datetime
from functools import partial

from receiver.core.model.actions import Change
from receiver.core.model.pods import owner_of
from receiver.core.notices import workload_notices
from receiver.core.scaling.packing import LAST_WORKLOADS, Survival
from receiver.core.scaling.patience import MOST_AT_ONCE, Admissions
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
        work.say_later(partial(workload_notices.not_admitted, next(iter(refused.values())), stay))
    return next_at
