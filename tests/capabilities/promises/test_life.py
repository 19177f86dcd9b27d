"""What became of the first promise to waiting work is counted."""

from datetime import datetime, timedelta
from typing import Any

from receiver.ports import Store
from receiver.step.reconcile import step
from tests.core.builders import MINUTE
from tests.expect import published
from tests.given import lives
from tests.given.life import ADDED, a_job

LONG = timedelta(hours=5)


def waiting(store: Store) -> dict[str, Any]:
    (pod,) = published(store)["waiting"]
    return dict(pod)


def test_the_picture_has_the_promise_and_keeps_the_first_one(store: Store) -> None:
    life = lives.experienced(store)
    life.submit(a_job("late", duration=LONG))
    life.step()
    first = waiting(store)
    assert life.now < datetime.fromisoformat(first["expected_at"]) < datetime.fromisoformat(first["expected_by"])
    life.run(MINUTE)
    assert (waiting(store)["promised_at"], waiting(store)["promised_by"]) == (
        first["expected_at"],
        first["expected_by"],
    )


def test_a_promise_is_counted_once_when_the_pod_runs_whichever_process_made_it(store: Store) -> None:
    life = lives.experienced(store)
    assert store.counts()["promises"] == {}  # the first six got guesses
    life.submit(a_job("late", duration=LONG))
    life.run(MINUTE)
    again = lives.restarted(life, store)
    again.run(10 * MINUTE)
    assert sum(store.counts()["promises"].values()) == 1


def test_a_replica_that_leads_again_does_not_count_what_another_has_counted(store: Store) -> None:
    first = lives.experienced(store)
    first.submit(a_job("late", duration=LONG))
    first.run(MINUTE)
    second = lives.restarted(first, store)
    second.run(10 * MINUTE)
    counted = dict(store.counts()["promises"])
    first.run(MINUTE)
    assert sum(counted.values()) == 1
    assert store.counts()["promises"] == counted


def test_a_pod_that_still_waits_after_the_promised_time_counts_as_late(store: Store) -> None:
    life = lives.experienced(store)
    life.world.faults.gpu_never("l40s-id", 100)
    life.submit(a_job("late", duration=LONG))
    life.run(10 * MINUTE)
    assert store.counts()["promises"] == {("l40s-id", "late"): 1}


def test_a_late_pod_counts_once_whichever_process_sees_it_wait_and_run(store: Store) -> None:
    life = lives.experienced(store)
    life.world.faults.gpu_never("l40s-id", 1)
    life.submit(a_job("late", duration=LONG))
    life.run(8 * MINUTE)
    assert store.counts()["promises"] == {("l40s-id", "late"): 1}
    again = lives.restarted(life, store)
    again.run(timedelta(hours=1))
    assert store.counts()["promises"] == {("l40s-id", "late"): 1}


def test_one_step_under_a_clock_ahead_counts_nothing_as_late(store: Store) -> None:
    life = lives.experienced(store)
    life.submit(a_job("late", duration=LONG))
    life.run(MINUTE)
    step(life.sources, life.hands, life.policy, life.mode, life.now + timedelta(days=1), ADDED)
    assert store.counts()["promises"] == {}
    life.run(10 * MINUTE)
    assert sum(store.counts()["promises"].values()) == 1
    assert ("l40s-id", "late") not in store.counts()["promises"]
