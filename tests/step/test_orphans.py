"""What an open removal of a pool that left the configuration leaves behind: nothing, and in observe mode no lie."""

from dataclasses import replace
from datetime import timedelta

from receiver.adapters.observe import ObservedCloud, ObservedCluster
from receiver.ports import CORDON_ANNOTATION, Store
from receiver.replay.world.objects import WorldPool
from tests.step.harness import GPU, SIZE, START, Life, a_policy, a_world, until_cordoned


def without_its_pool(life: Life, store: Store, mode: str) -> Life:
    """The next process, whose configuration names another pool."""
    pool = replace(life.policy.pools[0], id="other-id", name="other")
    observing = mode == "observe"
    return Life(
        world=life.world,
        policy=replace(life.policy, pools=(pool,)),
        store=store,
        mode=mode,
        wrap_cloud=ObservedCloud if observing else None,
        wrap_cluster=ObservedCluster if observing else None,
    )


def test_the_cordons_of_a_pool_that_left_the_configuration_are_lifted(store: Store) -> None:
    life = Life(world=a_world(), policy=a_policy(), store=store)
    node = until_cordoned(life)
    without_its_pool(life, store, "act").step()
    assert not life.world.nodes[node].unschedulable


def test_every_cordon_of_a_pool_that_left_the_configuration_is_lifted(store: Store) -> None:
    world = a_world(WorldPool(id="l40s-id", size=SIZE, resources={GPU: 1}, count=2))
    life = Life(world=world, policy=a_policy(), store=store)
    world.advance(START + timedelta(minutes=50))
    for _ in range(400):
        wake = life.wake_after_step(timedelta(seconds=5))
        if len(life.writes("cordon")) == 2:
            break
        world.advance(wake)
    assert [node.unschedulable for node in world.nodes.values()] == [True, True]
    without_its_pool(life, store, "act").step()
    assert [node.unschedulable for node in world.nodes.values()] == [False, False]


def test_what_was_only_observed_stays_open_until_it_may_be_done(store: Store) -> None:
    life = Life(world=a_world(), policy=a_policy(), store=store)
    node = until_cordoned(life)
    without_its_pool(life, store, "observe").step()
    assert CORDON_ANNOTATION in life.world.nodes[node].annotations
    (action,) = [a for a in store.actions(pool="l40s-id", limit=10) if a.outcome is None]
    without_its_pool(life, store, "act").step()
    assert CORDON_ANNOTATION not in life.world.nodes[node].annotations
    (ended,) = [a for a in store.actions(pool="l40s-id", limit=10) if a.action.id == action.action.id]
    assert ended.outcome is not None
