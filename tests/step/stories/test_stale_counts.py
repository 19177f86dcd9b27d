"""Stories of a count at Civo that lags behind what was done: a removal that it does not show yet, or a growth."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.model.actions import OutcomeKind
from receiver.core.model.model import Stage
from receiver.ports import CloudPool, Store
from receiver.replay.ports import WorldCloud
from receiver.replay.world.objects import Behaviour, PodSpec
from simulator.world import Pdb
from tests.core.builders import EVERY_SECOND, HOUR, MINUTE, SECOND, a_pool
from tests.core.worlds import LAWS
from tests.expect import bought, living, phases, removed, told
from tests.given import lives
from tests.given.life import POOL, START, Life, a_job
from tests.given.pods import bound
from tests.step.stories.bench import PROVISIONING
from tests.stores import StoreWithoutRecords

STALE = 10 * MINUTE
COUNTED_LATE, SHOWN_LATE = "the count falls ten minutes late", "the list shows the count of ten minutes ago"
LATE = {COUNTED_LATE: Behaviour(decrement=STALE), SHOWN_LATE: Behaviour(list_lag=STALE)}
either = pytest.mark.parametrize("behaviour", LATE.values(), ids=LATE)


def after_a_removal(store: Store, behaviour: Behaviour, nodes: int = 1) -> Life:
    """*nodes* idle nodes of one age were removed a minute ago; Civo's number does not say so yet."""
    life = lives.idle_nodes(store, nodes, behaviour=behaviour)
    life.rest = MINUTE  # what Civo shows changes while nothing happens in the world
    life.world.advance(START + 50 * MINUTE)
    life.run_until(lambda: removed(life) == nodes, tick=5 * SECOND)
    life.run(MINUTE)
    assert living(life) == []
    assert life.cloud.look()[POOL].required == nodes
    return life


def starts_within(life: Life, job: str, time: timedelta) -> None:
    life.submit(a_job(job, submit_at=life.now, duration=HOUR))
    life.run(time)
    assert phases(life) == {"Running"}


@pytest.mark.chores(False)
@either
def test_growth_of_one_after_a_removal_buys_one_once_the_count_has_fallen(store: Store, behaviour: Behaviour) -> None:
    """Cluster Autoscaler's Civo provider writes counts from a cached value: grown from the stale number, the pool gets
    one node too many; the same number again is one too few once Civo takes its own step down."""
    life = after_a_removal(store, behaviour)
    starts_within(life, "late", STALE + PROVISIONING)
    life.run(30 * MINUTE, tick=30 * SECOND)
    assert bought(life) == 2  # the one that went, and one
    assert len(living(life)) == life.required() == 1
    assert life.world.kills == []


@given(
    late=st.integers(0, 14),
    kind=st.sampled_from(["decrement", "list_lag"]),
    turns=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 50), st.integers(1, 40)), min_size=1, max_size=5),
)
@settings(LAWS, max_examples=settings().max_examples // 8)  # each is a life of some three hours
def test_no_count_is_put_while_one_is_still_to_fall(late: int, kind: str, turns: list[tuple[int, int, int]]) -> None:
    """Jobs come and go, idle nodes go after two minutes, and Civo lowers its count, or shows it, so many minutes late:
    each PUT comes after the fall, is above the count, and in the end as many nodes live as are counted. No step decides
    for growth before, which Civo's count would only contradict."""
    store = StoreWithoutRecords()
    pool = a_pool(idle_for=2 * MINUTE, max_nodes=8)
    lag = late * MINUTE
    behaviour = Behaviour(decrement=lag) if kind == "decrement" else Behaviour(list_lag=lag)
    life = lives.at_zero(store, pool, billing=EVERY_SECOND, behaviour=behaviour)
    life.rest, puts, resize = MINUTE, [], life.world.resize

    def put(pool_id: str, count: int) -> None:
        found = life.world.pools[pool_id]
        puts.append((found.late_decrements, count - found.required))
        resize(pool_id, count)

    life.world.resize = put
    for number, (jobs, minutes, pause) in enumerate(turns):
        for job in range(jobs):
            life.submit(a_job(f"j{number}-{job}", submit_at=life.now, duration=minutes * MINUTE))
        life.run(pause * MINUTE, tick=MINUTE)
    life.rest = 5 * MINUTE
    life.run(2 * HOUR, tick=MINUTE)
    assert all(due == 0 and more > 0 for due, more in puts), puts
    waits = [s.decisions[POOL] for s in life.steps if s.facts.pool(POOL).count.uncounted > 0]
    assert all(decision.target <= decision.present for decision in waits)
    ends = [stored.outcome.kind for stored in store.actions(limit=1000) if stored.outcome is not None]
    assert OutcomeKind.SUPERSEDED not in ends
    assert life.required() == len(living(life))
    assert life.world.kills == []
    assert all(stepped.facts.pool(POOL).backoffs.removal is None for stepped in life.steps)


def test_a_stop_of_removals_ends_when_the_count_falls_after_all(store: Store) -> None:
    life = lives.idle_nodes(store, 2, behaviour=Behaviour(decrement=40 * MINUTE))
    life.rest = MINUTE
    life.world.add_pod(bound("works", life.world.lives[0].hostname))
    life.run(90 * MINUTE, tick=MINUTE)
    assert removed(life) == 1
    [stop] = [n for n in told(life) if n.topic.startswith("removals:")]
    assert "did not fall" in stop.body
    life.run(30 * MINUTE, tick=MINUTE)
    state = life.steps[-1].facts.pool(POOL)
    assert (state.backoffs.removal, state.required) == (None, 1)


def test_a_stop_of_removals_lasts_while_the_replacement_does(store: Store) -> None:
    life = lives.idle_nodes(store, behaviour=Behaviour(decrement="never"))
    life.run(70 * MINUTE, tick=MINUTE)
    [stop] = [n for n in told(life) if n.topic.startswith("removals:")]
    assert "came after its removal" in stop.body
    assert life.steps[-1].facts.pool(POOL).backoffs.removal is not None
    life.run(12 * HOUR, tick=5 * MINUTE)
    assert removed(life) == 1
    assert len([n for n in told(life) if n.topic.startswith("removals:")]) <= 1


@pytest.mark.chores(False)
def test_a_ready_node_that_an_old_list_shows_as_still_building_is_usable(store: Store) -> None:
    """Else another one would be bought for the capacity that a buffer or a booking keeps on it."""
    life = lives.idle_nodes(store)
    look = life.cloud.look

    def old() -> Mapping[str, CloudPool]:
        pool = look()[POOL]
        return {POOL: replace(pool, instances=tuple(replace(i, status="BUILDING") for i in pool.instances))}

    life.cloud.look = old  # type: ignore[method-assign]
    [node] = life.step().facts.pool(POOL).nodes
    assert node.stage is Stage.USABLE


@pytest.mark.chores(False)
@either
def test_growth_of_two_after_a_removal_of_three_buys_two_once_the_count_has_fallen(
    store: Store, behaviour: Behaviour
) -> None:
    """A PUT of two where Civo shows three would lower a count, which we never do."""
    life = after_a_removal(store, behaviour, nodes=3)
    life.rest = MINUTE  # no event of the world says when the count falls
    life.submit(a_job("late", pods=2, submit_at=life.now, duration=2 * HOUR))
    life.run(STALE + PROVISIONING)
    assert bought(life) == 5
    assert phases(life) == {"Running"}
    life.run(HOUR, tick=30 * SECOND)
    assert bought(life) == 5
    assert life.world.kills == []


@pytest.mark.chores(False)
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
    assert phases(life) == {"Running"}


@pytest.mark.chores(False)
def test_a_growth_that_the_list_does_not_show_is_not_asked_for_again(store: Store) -> None:
    life = lives.waiting(store, *(a_job(f"j{n}", duration=HOUR) for n in range(3)), behaviour=Behaviour(list_lag=STALE))
    life.run(20 * MINUTE)
    assert bought(life) == 3
    assert life.required() == 3


@pytest.mark.chores(False)
def test_more_work_while_a_growth_does_not_show_yet_gets_its_nodes_and_no_more(store: Store) -> None:
    life = lives.waiting(store, a_job("one", duration=HOUR), behaviour=Behaviour(list_lag=STALE))
    life.run(2 * MINUTE)
    life.submit(a_job("two", submit_at=life.now, duration=HOUR), a_job("three", submit_at=life.now, duration=HOUR))
    life.run(25 * MINUTE)
    assert bought(life) == 3
    assert phases(life) == {"Running"}


@pytest.mark.chores(False)
def test_a_removal_is_not_mistaken_for_somebody_elses_change(store: Store) -> None:
    """The number that falls ten minutes after our own DELETE was lowered by us."""
    life = after_a_removal(store, Behaviour(decrement=STALE))
    life.run(30 * MINUTE, tick=30 * SECOND)
    state = life.steps[-1].facts.pool(POOL)
    assert (state.required, state.count.drifts) == (0, ())


@pytest.mark.chores(False)
def test_a_replacement_is_not_removed_while_another_node_of_the_same_removal_cannot_be_emptied(store: Store) -> None:
    """Civo builds a new node for one that was removed, again and again: removing that as well would only cost money."""
    pool = a_pool(idle_for=2 * MINUTE)
    life = lives.idle_nodes(store, 2, pool, billing=EVERY_SECOND, behaviour=Behaviour(decrement="never"))
    [held, *_] = [vm.hostname for vm in living(life)]
    labels = {"app": "web"}
    life.world.add_pod(
        PodSpec(namespace="web", name="web-0", labels=labels, owner_kind="ReplicaSet", owner_name="web", node=held)
    )
    life.world.pdbs.append(Pdb(namespace="web", selector=labels, min_available=1))

    life.run(25 * MINUTE)

    assert removed(life) == 1


@pytest.mark.chores(False)
def test_nothing_is_bought_by_an_answer_that_is_older_than_the_one_before(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows a removed node again, and a count on which the growth of one would be the growth of two."""
    life = lives.idle_nodes(store)
    older = life.cloud.look()
    life.world.advance(START + 50 * MINUTE)
    life.run_until(lambda: not living(life), tick=5 * SECOND)
    life.run(MINUTE)
    with monkeypatch.context() as patched:
        patched.setattr(WorldCloud, "look", lambda _: older)
        patched.setattr(WorldCloud, "_required", lambda _, pool: older[pool].required)
        life.submit(a_job("late", submit_at=life.now))
        life.run(40 * SECOND)
        assert life.writes("resize") == []
    life.run(30 * SECOND)
    assert bought(life) == 2  # the one that went, and one


@pytest.mark.chores(False)
def test_a_node_that_civo_lists_again_for_long_costs_even_where_the_rest_of_the_answer_is_incomplete(
    store: Store,
) -> None:
    life = lives.idle_nodes(store)
    life.step()
    whole = life.cloud.look()[POOL]
    life.cloud.look = lambda: {POOL: replace(whole, instances=())}  # type: ignore[method-assign]
    life.pass_time(MINUTE)
    life.step()
    life.cloud.look = lambda: {POOL: replace(whole, unreadable="an instance is malformed")}  # type: ignore[method-assign]
    life.pass_time(5 * MINUTE)
    life.step()
    [node] = store.memory(life.now, START - HOUR).lives
    assert node.gone_at is None
