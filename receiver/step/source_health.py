"""Whether each source answers: what a step may believe, and since when."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

import structlog

from receiver.core.model.control import Control
from receiver.core.model.memory import Memory
from receiver.core.model.model import PoolState, Source, SourceState, Stage
from receiver.core.model.policy import Policy
from receiver.ports import TelemetryFacts, TryLater, WontWork

log = structlog.get_logger("receiver")
T = TypeVar("T")
MISSED_HEARTBEATS = 3
COVERAGE_NEEDED = 0.8  # share of usable nodes whose GPUs must report before their activity is believed


def ask(source: Source, question: Callable[[], T] | None, states: dict[Source, SourceState], now: datetime) -> T | None:
    """Ask *source* and note in *states* how it went; None when it did not answer or nobody configured it."""
    if question is None:
        states[source] = SourceState(source=source, up=False, detail="not configured", configured=False)
        return None
    try:
        answer = question()
    except (TryLater, WontWork) as error:
        states[source] = SourceState(source=source, up=False, at=now, detail=str(error))
        return None
    except Exception as error:  # an answer that nobody foresaw must not stop every pool for good
        log.exception("an answer was not understood", source=source.value)
        detail = f"its answer was not understood ({type(error).__name__}); the log has where"
        states[source] = SourceState(source=source, up=False, at=now, detail=detail)
        return None
    states[source] = SourceState(source=source, up=True, at=now)
    return answer


def judge_prometheus(telemetry: TelemetryFacts | None, states: dict[Source, SourceState], now: datetime) -> None:
    """Prometheus counts as up only while it evaluates our rules: an answer without them is silence, not calm."""
    if telemetry is not None and not telemetry.rules_alive:
        detail = "it answers, but GpuAutoscalerHeartbeat does not fire there: are the rules loaded?"
        states[Source.PROMETHEUS] = SourceState(source=Source.PROMETHEUS, up=False, at=now, detail=detail)


def judge_heartbeat(memory: Memory, policy: Policy, states: dict[Source, SourceState], now: datetime) -> None:
    """The heartbeat counts as heard until three of its intervals have passed without a delivery of it."""
    heard = memory.heartbeat_at
    life = MISSED_HEARTBEATS * policy.heartbeat_interval
    late = heard is None or abs(now - heard) > life  # one from the future came under a wrong clock
    detail = "" if not late else ("none heard yet" if heard is None else f"the last one came at {heard:%H:%M:%S} UTC")
    states[Source.HEARTBEAT] = SourceState(source=Source.HEARTBEAT, up=not late, at=heard, detail=detail)


def judge_dcgm(
    pools: Sequence[PoolState], telemetry: TelemetryFacts | None, states: dict[Source, SourceState], now: datetime
) -> None:
    """DCGM is up when every pool with usable nodes reports activity for enough of them."""
    blind = [
        p.pool
        for p in pools
        if p.of(Stage.USABLE) and (telemetry is None or telemetry.coverage.get(p.pool, 0.0) < COVERAGE_NEEDED)
    ]
    detail = f"no activity reported for pools {', '.join(blind)}" if blind else ""
    states[Source.DCGM] = SourceState(source=Source.DCGM, up=not blind, at=now, detail=detail)


def date_changes(states: dict[Source, SourceState], before: Control | None, now: datetime) -> None:
    """Set `since` of every state: when it last went up or down, as the step *before* this one saw it."""
    for source, state in states.items():
        old = before.sources.get(source) if before is not None else None
        states[source] = SourceState(
            source=source,
            up=state.up,
            at=state.at,
            since=old.since if old is not None and old.up == state.up else now,
            detail=state.detail,
            configured=state.configured,
        )
