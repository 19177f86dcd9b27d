"""Stories of a count at Civo that lags behind what was done: a removal that it does not show yet, or a growth."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from receiver.core.model.model import Stage
from receiver.ports import CloudPool, Store
from receiver.replay.world.objects import Behaviour
from tests.step.harness import START, Life, a_job, a_policy, a_world
from tests.step.stories.bench import HOUR, MINUTE, POOL, PROVISIONING, SECOND, bought, idle_nodes, living

STALE = 10 * MINUTE
COUNTED_LATE, SHOWN_LATE = "the count falls ten minutes late", "the list shows the count of ten minutes ago"
LATE = {COUNTED_LATE: Behaviour(decrement=STALE), SHOWN_LATE: Behaviour(list_lag=STALE)}
either = pytest.mark.parametrize("behaviour", LATE.values(), ids=LATE)


def after_a_removal(store: Store, behaviour: Behaviour, nodes: int = 1) -> Life:
    """*nodes* idle nodes of one age were removed a minute ago; Civo's number does not say so yet."""
    life = idle_nodes(store, nodes, behaviour=behaviour)
    life.rest = MINUTE  # what Civo shows changes while nothing happens in the world
    life.world.advance(START + 50 * MINUTE)
    while len(life.writes("retire")) < nodes:
        life.run(5 * SECOND, tick=5 * SECOND)
    life.run(MINUTE)
    assert living(life) == []
    assert life.cloud.look()[POOL].required == nodes
    return life


def starts_within(life: Life, job: str, time: timedelta) -> None:
    life.submit(a_job(job, submit_at=life.now, duration=HOUR))
    life.run(time)
    assert {p.phase for p in life.world.active_pods.values()} == {"Running"}


@pytest.mark.parametrize(
    ("behaviour", "wait"),
    [(LATE[SHOWN_LATE], PROVISIONING), (LATE[COUNTED_LATE], STALE + PROVISIONING)],
    ids=[f"{SHOWN_LATE}: at once", f"{COUNTED_LATE}: Civo takes no other node before that"],
)
def test_growth_of_one_after_a_removal_buys_one(
    store: Store, figure: Callable[[str], None], behaviour: Behaviour, wait: timedelta
) -> None:
    """Cluster Autoscaler's Civo provider writes counts from a cached value: grown from the stale number, the pool
    gets one node too many, or with the stale number taken for the node itself none at all."""
    life = after_a_removal(store, behaviour)
    starts_within(life, "late", wait)
    life.run(30 * MINUTE, tick=30 * SECOND)
    assert bought(life) == 2  # the one that went, and one
    assert len(living(life)) == 1
    assert life.world.kills == []
    late = SHOWN_LATE if behaviour.list_lag else COUNTED_LATE
    figure(f"growth of one, {late}: {bought(life) - 1} bought, the job ran within {wait}")


def test_a_ready_node_that_an_old_list_shows_as_still_building_is_usable(store: Store) -> None:
    """Else another one would be bought for the capacity that a buffer or a booking keeps on it."""
    life = idle_nodes(store)
    look = life.cloud.look

    def old() -> Mapping[str, CloudPool]:
        pool = look()[POOL]
        return {POOL: replace(pool, instances=tuple(replace(i, status="BUILDING") for i in pool.instances))}

    life.cloud.look = old  # type: ignore[method-assign]
    [node] = life.step().facts.pool(POOL).nodes
    assert node.stage is Stage.USABLE


@either
def test_growth_of_two_after_a_removal_of_three_buys_two_once_the_count_has_fallen(
    store: Store, behaviour: Behaviour
) -> None:
    """A PUT of two where Civo shows three would lower a count, which we never do: this growth has to wait for it."""
    life = after_a_removal(store, behaviour, nodes=3)
    life.rest = MINUTE  # no event of the world says when the count falls
    life.submit(a_job("late", pods=2, submit_at=life.now, duration=2 * HOUR))
    life.run(STALE + PROVISIONING)
    assert bought(life) == 5
    assert {p.phase for p in life.world.active_pods.values()} == {"Running"}
    life.run(HOUR, tick=30 * SECOND)
    assert bought(life) == 5
    assert life.world.kills == []


@either
def test_work_that_comes_bit_by_bit_while_the_count_is_stale_is_bought_for_once(
    store: Store, behaviour: Behaviour
) -> None:
    life = after_a_removal(store, behaviour, nodes=2)
    for number in range(4):
        life.submit(a_job(f"j{number}", submit_at=life.now, duration=HOUR))
        life.run(90 * SECOND)
    life.run(30 * MINUTE, tick=20 * SECOND)
    assert bought(life) == 2 + 4
    assert life.world.kills == []
    assert {p.phase for p in life.world.active_pods.values()} == {"Running"}


def test_a_growth_that_the_list_does_not_show_is_not_asked_for_again(store: Store) -> None:
    world = a_world(behaviour=Behaviour(list_lag=STALE))
    life = Life(world=world, policy=a_policy(), store=store)
    life.submit(*(a_job(f"j{n}", duration=HOUR) for n in range(3)))
    life.run(20 * MINUTE)
    assert bought(life) == 3
    assert life.required() == 3


def test_more_work_while_a_growth_does_not_show_yet_gets_its_nodes_and_no_more(store: Store) -> None:
    world = a_world(behaviour=Behaviour(list_lag=STALE))
    life = Life(world=world, policy=a_policy(), store=store)
    life.submit(a_job("one", duration=HOUR))
    life.run(2 * MINUTE)
    life.submit(a_job("two", submit_at=life.now, duration=HOUR), a_job("three", submit_at=life.now, duration=HOUR))
    life.run(25 * MINUTE)
    assert bought(life) == 3
    assert {p.phase for p in life.world.active_pods.values()} == {"Running"}


def test_a_removal_is_not_mistaken_for_somebody_elses_change(store: Store) -> None:
    """The number that falls ten minutes after our own DELETE was lowered by us."""
    life = after_a_removal(store, Behaviour(decrement=STALE))
    life.run(30 * MINUTE, tick=30 * SECOND)
    state = life.steps[-1].facts.pool(POOL)
    assert (state.required, state.drifts) == (0, ())
