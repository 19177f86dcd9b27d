"""Small examples of what the random worlds found, one per bug."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from receiver.core.model.actions import Action
from receiver.core.model.memory import PoolMemory
from receiver.core.model.model import Backoff
from receiver.core.model.policy import Billing, Limits
from receiver.ports import Store, TryLater
from simulator.store import MemoryStore
from tests.core.builders import NOW, a_pod, a_pool, a_state, facts, run
from tests.core.builders import a_policy as a_core_policy
from tests.given import lives
from tests.given.life import TICK, Life

BY_THE_SECOND = Billing(granularity=timedelta(seconds=1))


@pytest.fixture
def store() -> Store:
    """A store in memory."""
    return MemoryStore()


def run_until(life: Life, holds: Callable[[], bool]) -> None:
    """Run until *holds* after a step."""
    while not holds():
        life.world.advance(life.wake_after_step(TICK))


def _open_action(life: Life) -> Action | None:
    return life.store.memory(life.now, life.now).pools.get("l40s-id", PoolMemory()).open_action


def test_a_removal_that_waits_for_its_retry_does_not_step_ten_times_a_second(store: Store) -> None:
    # found by world 27: a DELETE without an answer, and then 600 steps in the minute until its retry time
    life = lives.in_removal(store)
    for _ in range(6):
        life.cloud.fail_next(TryLater("no answer", code="timeout"), "retire")
    before = len(life.steps)
    life.run(timedelta(minutes=2), tick=timedelta(seconds=10))
    assert len(life.steps) - before < 60


def test_a_gang_gets_a_node_on_trial_after_nodes_that_never_came_up() -> None:
    # found by worlds 50 and 65: one node on trial is allowed, the gang wants two, and so nobody ever buys one
    failed = Backoff(failures=1, until=NOW - timedelta(hours=1), reason="never came up")
    ranks = [a_pod(f"rank{n}", gang="ml/train", gang_min=2) for n in range(2)]
    _, decisions = run(facts(a_state(provisioning=failed), waiting=ranks), a_core_policy())
    assert decisions["l40s"].target == 1


def test_a_removal_that_ends_in_this_step_still_counts_against_the_hourly_limit(store: Store) -> None:
    # found by world 6414: in the step that closed two removals a third node went, of two an hour
    pools = [a_pool(name, idle_for=timedelta(minutes=2)) for name in ("one", "two")]
    life = lives.idle_nodes(store, 1, *pools, limits=Limits(max_removals_per_hour=1), billing=BY_THE_SECOND)
    life.run(timedelta(minutes=20))
    assert len(life.writes("retire")) == 1
    assert len(life.writes("cordon")) == 1


def test_a_count_raised_between_the_cordon_and_the_delete_is_no_replacement(store: Store) -> None:
    # found by world 6359: the removal was judged by the count at its opening, and removals stopped for a day
    life = lives.idle_nodes(store, 1, a_pool(idle_for=timedelta(minutes=2)), billing=BY_THE_SECOND)
    run_until(life, lambda: bool(life.writes("cordon")))
    life.world.resize("l40s-id", 2)
    life.run(timedelta(minutes=20))
    assert len(life.writes("retire")) == 2
    assert life.required() == 0


def test_a_node_that_somebody_recycled_before_its_cordon_is_no_removal_of_ours(store: Store) -> None:
    # found by world 7434: the node's end was taken for our DELETE, its successor for Civo's, and removals stopped
    life = lives.idle_nodes(store, 1, a_pool(idle_for=timedelta(minutes=2)), billing=BY_THE_SECOND)
    life.cluster.fail_next(TryLater("no answer", code="timeout"), "cordon")
    run_until(life, lambda: _open_action(life) is not None)
    [node] = life.world.nodes
    life.world.recycle(node)
    life.run(timedelta(minutes=20))
    assert len(life.writes("retire")) == 1
    assert life.required() == 0
