"""Small examples of what the random worlds found, one per bug."""

from datetime import timedelta

from receiver.ports import Store, TryLater
from tests.reconcile.harness import Life, a_policy, a_world, until_cordoned


def test_a_removal_that_waits_for_its_retry_does_not_step_ten_times_a_second(store: Store) -> None:
    # found by world 27: a DELETE without an answer, and then 600 steps in the minute until its retry time
    life = Life(world=a_world(), policy=a_policy(), store=store)
    until_cordoned(life)
    for _ in range(6):
        life.cloud.fail_next(TryLater("no answer", code="timeout"), "retire")
    before = len(life.steps)
    life.run(timedelta(minutes=2), tick=timedelta(seconds=10))
    assert len(life.steps) - before < 60
