"""What an open removal of a pool that left the configuration leaves behind: nothing, and in observe mode no lie."""

from dataclasses import replace
from datetime import timedelta

from receiver.ports import CORDON_ANNOTATION, Store
from tests.given import lives
from tests.given.life import START, Life, until_cordoned


def without_its_pool(life: Life, store: Store, mode: str) -> Life:
    """The next process, whose configuration names another pool."""
    pool = replace(life.policy.pools[0], id="other-id", name="other")
    return lives.restarted(life, store, policy=replace(life.policy, pools=(pool,)), mode=mode)


def test_the_cordons_of_a_pool_that_left_the_configuration_are_lifted(store: Store) -> None:
    life = lives.at_zero(store)
    node = until_cordoned(life)
    without_its_pool(life, store, "act").step()
    assert not life.world.nodes[node].unschedulable


def test_every_cordon_of_a_pool_that_left_the_configuration_is_lifted(store: Store) -> None:
    life = lives.idle_nodes(store, 2)
    life.world.advance(START + timedelta(minutes=50))
    for _ in range(400):
        wake = life.wake_after_step(timedelta(seconds=5))
        if len(life.writes("cordon")) == 2:
            break
        life.world.advance(wake)
    assert [node.unschedulable for node in life.world.nodes.values()] == [True, True]
    without_its_pool(life, store, "act").step()
    assert [node.unschedulable for node in life.world.nodes.values()] == [False, False]


def test_what_was_only_observed_stays_open_until_it_may_be_done(store: Store) -> None:
    life = lives.at_zero(store)
    node = until_cordoned(life)
    without_its_pool(life, store, "observe").step()
    assert CORDON_ANNOTATION in life.world.nodes[node].annotations
    (action,) = [a for a in store.actions(pool="l40s-id", limit=10) if a.outcome is None]
    without_its_pool(life, store, "act").step()
    assert CORDON_ANNOTATION not in life.world.nodes[node].annotations
    (ended,) = [a for a in store.actions(pool="l40s-id", limit=10) if a.action.id == action.action.id]
    assert ended.outcome is not None
