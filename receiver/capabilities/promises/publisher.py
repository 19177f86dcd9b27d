"""Count which promises came true: the first one to each workload that waits for a node."""

from itertools import islice

from receiver.core.explain.explain import MOST, fates
from receiver.core.model.model import Source
from receiver.core.promises.calibration import Promised
from receiver.ports import RecordStore
from receiver.reports.picture import kept_picture
from receiver.step.gather import Looked
from receiver.step.parts import StepContext


def judge_promises(work: StepContext, looked: Looked, records: RecordStore) -> None:
    """Count the promises that have ended and keep those that are new. Raises TryLater (store down)."""
    promised, facts = work.hands.promised, work.facts
    snapshot = records.snapshot()
    if snapshot is not None and (promised.at is None or snapshot[1] > promised.at):  # another process has led meanwhile
        last, at = kept_picture(records)[0], snapshot[1]
        promised.begin(
            {
                pod.workload: Promised(pool=pod.pool, starts_p50=pod.promised_at, starts_p90=pod.promised_by)
                for pod in last.waiting
                if pod.workload and pod.pool and pod.promised_at and pod.promised_by
            },
            at,
        )
    promised.at = work.now
    if not facts.up(Source.KUBERNETES):
        return
    if ended := promised.ended(looked.pods, work.now):
        records.count_promises({(pool, came.value): number for (pool, came), number in ended.items()})
    if facts.waiting:
        observing = work.mode == "observe"
        workload_fates = fates(
            facts, work.assignment, work.decisions, work.policy, observing=observing, learnt=work.learnt
        )
        for workload, fate in islice(workload_fates, MOST):
            if fate.pool is not None:
                promised.make(workload, fate.pool, fate.promise, work.now)
