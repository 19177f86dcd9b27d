"""Publish a step after everything else is done: messages, Kubernetes Events, usage, the picture, samples.

Each part is guarded separately. A failure here changes neither this step nor the next one, which reads the control
state stored before.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

import structlog

from receiver.core.explain.samples import PoolSample, minute_of, turns
from receiver.core.model.actions import Decision
from receiver.core.model.model import Facts
from receiver.ports import TryLater
from receiver.reports.picture import Picture, picture
from receiver.step.chores.notify import send_standing_notices
from receiver.step.chores.usage import account_for_usage
from receiver.step.gather import Looked, Sources
from receiver.step.parts import StepContext

log = structlog.get_logger("receiver")


def publish(work: StepContext, looked: Looked, sources: Sources) -> None:
    """Write messages, usage, the picture and the log line. Raises WriterLostError when this replica may not write.

    Stops at the first store failure: every other part would wait for the same database.
    """
    makers: list[tuple[str, Callable[[], object]]] = [
        *(("messages", say) for say in work.unsaid),
        ("messages", lambda: send_standing_notices(work)),
        ("usage", lambda: account_for_usage(looked, sources, work.policy, work.now)),
        ("picture", lambda: _show(work, steady=looked.steady)),
        ("log", lambda: _log_step(work.facts, work.decisions, work.mode)),
    ]
    try:
        for name, make in makers:
            with work.parts.part(name):
                make()
    except TryLater as error:
        log.warning("not everything was published", error=str(error), code=error.code)


def _show(work: StepContext, *, steady: bool) -> None:
    """Store what this step found for pages, API and metrics and, where the clock is *steady*, the minute's samples."""
    facts = work.facts
    before, failures = work.store.snapshot(), work.parts.failures
    shown = picture(
        facts,
        work.assignment,
        work.decisions,
        work.numbers,
        work.policy,
        work.mode,
        failures,
        before[0] if before is not None else None,
        work.concerns,
    )
    work.parts.log()
    work.store.keep_snapshot(shown.document(), work.now)
    if steady:  # a stored minute is never replaced
        with work.parts.part("samples"):
            work.store.keep_samples(samples(shown, facts.at), turns(facts), facts.at)


def samples(shown: Picture, at: datetime) -> tuple[PoolSample, ...]:
    """Return the counts of every pool of the picture *shown* of a step at *at*, dated to its minute."""
    counts = PoolSample.__slots__[2:]
    return tuple(
        PoolSample(pool=pool.pool, at=minute_of(at), **{name: getattr(pool, name) for name in counts})
        for pool in shown.pools
    )


def _log_step(facts: Facts, decisions: Mapping[str, Decision], mode: str) -> None:
    for source in facts.sources.values():
        if source.configured and not source.up and source.since == facts.at:
            log.warning("source is silent", source=source.source.value, detail=source.detail)
    log.info(
        "step",
        mode=mode,
        woken_by=list(facts.deliveries),
        waiting=len(facts.waiting),
        silent=[s.source.value for s in facts.sources.values() if s.configured and not s.up],
        pools={d.pool: f"{d.present}->{d.target} {d.deciding.rule}" for d in decisions.values()},
    )
