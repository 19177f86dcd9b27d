"""Small examples of what the random worlds found, one per bug."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from receiver.core.model.actions import Action
from receiver.core.model.memory import PoolMemory
from receiver.core.model.model import Backoff
from receiver.core.model.policy import Billing, Limits
from receiver.ports import Store, TryLater
from receiver.replay.world.objects import WorldPool
from tests.core.builders import NOW, a_pod, a_state, facts, run
from tests.core.builders import a_policy as a_core_policy
from tests.step.harness import GPU, SIZE, TICK, Life, a_policy, a_world, until_cordoned


def run_until(life: Life, holds: Callable[[], bool]) -> None:
    """Run until *holds* after a step."""
    while not holds():
        life.world.advance(life.wake_after_step(TICK))


def _open_action(life: Life) -> Action | None:
    return life.store.memory(life.now, life.now).pools.get("l40s-id", PoolMemory()).open_action


def test_a_removal_that_waits_for_its_retry_does_not_step_ten_times_a_second(store: Store) -> None:
    # found by world 27: a DELETE without an answer, and then 600 steps in the minute until its retry time
    life = Life(world=a_world(), policy=a_policy(), store=store)
    until_cordoned(life)
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
    two = ("one", "two")
    world = a_world(*(WorldPool(id=f"{n}-id", size=SIZE, resources={GPU: 1}, count=1) for n in two))
    pools = [replace(a_policy().pools[0], id=f"{n}-id", name=n, idle_for=timedelta(minutes=2)) for n in two]
    policy = a_policy(*pools, limits=Limits(max_removals_per_hour=1), billing=Billing(granularity=timedelta(seconds=1)))
    life = Life(world=world, policy=policy, store=store)
    life.run(timedelta(minutes=20))
    assert len(life.writes("retire")) == 1
    assert len(life.writes("cordon")) == 1


def test_a_count_raised_between_the_cordon_and_the_delete_is_no_replacement(store: Store) -> None:
    # found by world 6359: the removal was judged by the count at its opening, and removals stopped for a day
    world = a_world(WorldPool(id="l40s-id", size=SIZE, resources={GPU: 1}, count=1))
    pool = replace(a_policy().pools[0], idle_for=timedelta(minutes=2))
    life = Life(world=world, policy=a_policy(pool, billing=Billing(granularity=timedelta(seconds=1))), store=store)
    run_until(life, lambda: bool(life.writes("cordon")))
    world.resize("l40s-id", 2)
    life.run(timedelta(minutes=20))
    assert len(life.writes("retire")) == 2
    assert life.required() == 0


def test_a_node_that_somebody_recycled_before_its_cordon_is_no_removal_of_ours(store: Store) -> None:
    # found by world 7434: the node's end was taken for our DELETE, its successor for Civo's, and removals stopped
    world = a_world(WorldPool(id="l40s-id", size=SIZE, resources={GPU: 1}, count=1))
    pool = replace(a_policy().pools[0], idle_for=timedelta(minutes=2))
    life = Life(world=world, policy=a_policy(pool, billing=Billing(granularity=timedelta(seconds=1))), store=store)
    life.cluster.fail_next(TryLater("no answer", code="timeout"), "cordon")
    run_until(life, lambda: _open_action(life) is not None)
    [node] = world.nodes
    world.recycle(node)
    life.run(timedelta(minutes=20))
    assert len(life.writes("retire")) == 1
    assert life.required() == 0
