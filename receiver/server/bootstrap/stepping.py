"""What the loop does at each of its turns: a step, and beside it what the calendar asks for."""

from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from receiver.config.model import Mode
from receiver.core.model.memory import believed_since, is_sure
from receiver.ports import TryLater
from receiver.reports.monthly import MonthEnd
from receiver.runtime.store_opener import WarmUp
from receiver.server.bootstrap.outside import Outside
from receiver.step.reconcile import Stepped, step

PRUNE_EVERY = timedelta(hours=1)

log = structlog.get_logger("receiver")


class Stepping:
    """One step after another over *outside*, the first of them not before *begun*."""

    def __init__(self, outside: Outside, begun: datetime) -> None:
        said, store = outside.settings, outside.loops_store
        self._outside = outside
        self._warm_up = WarmUp(store, said.configuration.warm_up)
        watched = outside.sources.cluster is not None
        self._month_end = MonthEnd(store, outside.sources.telemetry, said.policy, watched=watched)
        self._pruned_at = begun
        self._believed: datetime | None = None

    def __call__(self, now: datetime) -> Stepped:
        """Take the step of *now*. Raises what `receiver.step.reconcile.step` raises."""
        self._outside.file.look()
        stepped = self._step(now)
        self._believed = believed_since(self._believed, now, steady=stepped.steady)
        if stepped.steady:  # what is deleted or told once must not be so by one step under a wrong clock
            self._prune(now)
            self._month_end.look(now, sure=is_sure(self._believed, now))
        return stepped

    def _step(self, now: datetime) -> Stepped:
        outside, policy = self._outside, self._outside.settings.policy
        warm_at = self._warm_up.ends_at(now)
        if warm_at is None:
            return step(outside.sources, outside.hands, policy, outside.mode, now)
        stepped = step(outside.sources, outside.only_looks, policy, Mode.OBSERVE.value, now)
        return replace(stepped, reconsider_at=min(warm_at, stepped.reconsider_at or warm_at))

    def _prune(self, now: datetime) -> None:
        if abs(now - self._pruned_at) <= PRUNE_EVERY:
            return
        self._pruned_at = now
        try:
            self._outside.loops_store.prune(now)
        except TryLater as error:  # forgetting can wait, scaling cannot
            log.warning("old rows not deleted", error=str(error))
