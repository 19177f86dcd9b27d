"""Readiness follows the last good step of the loop that leads; deliveries are kept all the while."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from queue import SimpleQueue
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import text

from receiver.adapters.clock import SystemClock
from receiver.adapters.store.database import Database, parse
from receiver.metrics.collector import Instruments
from receiver.ports import TryLater
from receiver.runtime.loop import Loop
from receiver.server.bootstrap import EXTENSION, start, stop
from receiver.step.reconcile import Stepped
from tests.core.builders import a_policy, a_state, facts, run
from tests.e2e.waiting import until
from tests.payloads import a_payload
from tests.step.loop_builders import Right, Seconds
from tests.step.process_builders import an_app

TICK, BOUND = timedelta(seconds=10), timedelta(minutes=5)
ALL_FAIL = TryLater("store: no such column: pools.offer", code="store")


class Steps:
    """A loop whose steps end as the test says, each when it says so."""

    def __init__(self, right: Right, tick: timedelta = TICK) -> None:
        self._ends, self._begun = SimpleQueue[Any](), SimpleQueue[None]()
        self.loop = Loop(self._step, right, SystemClock(), tick, right)

    def _step(self, _now: datetime) -> Stepped:
        self._begun.put(None)
        ended = self._ends.get(timeout=60)
        if isinstance(ended, Exception):
            raise ended
        found = facts(a_state())
        assignment, decisions = run(found, a_policy())
        return Stepped(
            facts=found, assignment=assignment, decisions=decisions, reconsider_at=None, failed_pools=tuple(ended)
        )

    def end(self, ended: Any) -> None:
        """Let the step under way end with *ended* (an exception, or the pools that failed); wait for the next one."""
        self._begun.get(timeout=60)
        self._ends.put(ended)
        self.loop.wake()
        until(lambda: not self._begun.empty(), "the next step")

    def close(self) -> None:
        self._ends.put(ALL_FAIL)
        self.loop.stop()


@pytest.fixture
def steps(seconds: Seconds) -> Iterator[Steps]:
    made = Steps(Right())
    made.loop.start()
    yield made
    made.close()


def test_a_leader_without_a_good_step_for_five_minutes_is_not_ready_and_stays_alive(
    steps: Steps, seconds: Seconds
) -> None:
    steps.end(())
    assert steps.loop.health().steps_well
    for _ in range(2):
        seconds.now += BOUND.total_seconds() / 2
        steps.end(ALL_FAIL)
        assert steps.loop.health().steps_well
    seconds.now += 1
    assert not steps.loop.health().steps_well
    assert steps.loop.health().alive
    steps.end(())
    assert steps.loop.health().steps_well


def test_a_step_that_serves_no_pool_is_not_good(steps: Steps, seconds: Seconds) -> None:
    (pool,) = a_policy().pools
    steps.end((pool.id,))
    seconds.now += BOUND.total_seconds() + 1
    steps.end((pool.id,))
    assert not steps.loop.health().steps_well


def test_a_first_step_has_as_long(steps: Steps, seconds: Seconds) -> None:
    until(steps.loop.leads, "a leader")
    assert steps.loop.good_age() == timedelta(0)
    seconds.now += BOUND.total_seconds()
    assert steps.loop.health().steps_well
    seconds.now += 1
    assert not steps.loop.health().steps_well


def test_a_loop_that_does_not_lead_has_nothing_to_answer_for(seconds: Seconds) -> None:
    waiting = Loop(lambda _now: pytest.fail("it does not lead"), Right(mine=False), SystemClock(), TICK, Right())
    waiting.start()
    until(lambda: waiting.health().state == "waiting", "a loop that waits")
    seconds.now += 10 * BOUND.total_seconds()
    assert waiting.good_age() is None
    assert waiting.health().steps_well
    waiting.stop()


def test_a_tick_of_minutes_does_not_count_as_failing() -> None:
    slow = Loop(lambda _now: pytest.fail("not started"), Right(), SystemClock(), timedelta(minutes=5), Right())
    assert slow.health().good_within > timedelta(minutes=15)


def test_the_metric_is_absent_where_the_process_does_not_lead() -> None:
    instruments, registry = Instruments(), CollectorRegistry()
    registry.register(instruments)
    name = "gpu_autoscaler_good_step_age_seconds"
    assert registry.get_sample_value(name) is None
    instruments.good_age = lambda: timedelta(seconds=7)
    assert registry.get_sample_value(name) == 7


@pytest.mark.usefixtures("own_logs")
def test_a_server_whose_steps_all_fail_is_not_ready_says_why_and_keeps_deliveries(
    tmp_path: Any, seconds: Seconds
) -> None:
    app = an_app(tmp_path)
    client, loop = app.test_client(), app.extensions[EXTENSION].loop
    start(app)
    try:
        until(lambda: loop.health().steps > 0 and not loop.health().errors, "a good step")
        assert client.get("/readyz").status_code == 200
        database = Database(parse(f"sqlite:///{tmp_path}/store.db"))
        with database.write() as connection:
            connection.execute(text("ALTER TABLE pools DROP COLUMN offer"))
        database.close()
        failed = loop.health().errors
        loop.wake()
        until(lambda: loop.health().errors > failed, "a step that fails")
        seconds.now += BOUND.total_seconds() + 1
        answer = client.get("/readyz")
        assert (answer.status_code, answer.get_json()["ready"]) == (503, False)
        assert answer.get_json()["reason"] == "no step has succeeded for 5 min: see the log"
        assert client.get("/readyz?exclude=steps").status_code == 200
        token = {"Authorization": "Bearer a-token-that-is-long-enough-1234567890"}
        assert client.post("/webhook", json=a_payload(), headers=token).status_code == 202
        until(lambda: b"Steps fail." in client.get("/").data, "a page that says so")  # once the loop beats again
    finally:
        stop(app)
