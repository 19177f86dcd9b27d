"""Stories of answers of Civo in which something lacks: no word that Civo did not document deletes a node that works,
and what one pool lacks stops that pool alone."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from receiver.core.model.actions import ActionKind
from receiver.core.model.model import Stage
from receiver.ports import CloudPool, Store
from receiver.replay.world.objects import VM
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import bought, living, titles
from tests.given import lives
from tests.given.life import POOL, Life, a_job
from tests.given.pods import bound

pytestmark = pytest.mark.chores(False)

EVERY_WORD = ["", "RESIZING", "REBOOTING", "UPGRADING", "SHUTOFF", "FAILED", "ERROR", "RUNNING"]
KINDS_OF_WORDS = ["", "RESIZING", "FAILED"]  # none, one that says nothing, one that says that the node failed
ZERO = datetime(1, 1, 1, tzinfo=UTC)


def shows(life: Life, change: Callable[[CloudPool], CloudPool]) -> None:
    """From now on Civo's answer shows every pool as *change* makes it."""

    def partial() -> Mapping[str, CloudPool]:
        return {pool: change(found) for pool, found in type(life.cloud).look(life.cloud).items()}

    life.cloud.look = partial  # type: ignore[method-assign]


def each(**fields: Any) -> Callable[[CloudPool], CloudPool]:
    """Show every instance with other *fields*."""

    def change(pool: CloudPool) -> CloudPool:
        return replace(pool, instances=tuple(replace(i, **fields) for i in pool.instances))

    return change


def works(life: Life) -> str:
    """A pod runs on the first node; return the node's name."""
    vm: VM = life.world.lives[0]
    life.world.add_pod(bound("works", vm.hostname))
    return vm.hostname


# --- words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", EVERY_WORD)
def test_no_word_of_civo_deletes_a_healthy_node(store: Store, word: str) -> None:
    """Two standby nodes and a busy one: with the status missing they went one after another, within three hours."""
    life = lives.idle_nodes(store, 3, a_pool(standby_nodes=2))
    works(life)
    life.run(5 * MINUTE)
    shows(life, each(status=word))
    life.run(3 * HOUR, tick=MINUTE)
    assert life.writes("retire") == []
    assert [n.stage for n in life.steps[-1].facts.pool(POOL).nodes] == [Stage.USABLE] * 3


@pytest.mark.chores(True)
@pytest.mark.parametrize("word", KINDS_OF_WORDS)
def test_the_message_names_civos_word_and_what_kubernetes_says(store: Store, word: str) -> None:
    life = lives.idle_nodes(store, 1, a_pool(standby_nodes=1))
    name = works(life)
    life.run(MINUTE)
    shows(life, each(status=word))
    life.run(HOUR, tick=MINUTE)
    [title] = titles(life, name, "reports it Ready")
    assert f"Civo reports {word or 'no status'} for {name}" in title
    assert not titles(life, name, "has not been Ready")


def test_a_pool_whose_nodes_have_no_status_grows_for_work(store: Store) -> None:
    life = lives.idle_nodes(store)
    works(life)
    shows(life, each(status=""))
    life.submit(a_job("next", duration=HOUR))
    life.run(10 * MINUTE)
    assert bought(life) == 2
    assert all(p.node for p in life.world.active_pods.values())


@pytest.mark.parametrize("word", KINDS_OF_WORDS)
def test_a_node_that_never_comes_up_goes_whatever_civo_calls_it(store: Store, word: str) -> None:
    life = lives.at_zero(store)
    life.world.faults.stuck_building(POOL, 1)
    shows(life, each(status=word))
    life.submit(a_job(duration=HOUR))
    life.run(25 * MINUTE)
    [first, *_] = life.world.lives
    assert ("retire", (POOL, first.id)) in life.writes("retire")


@pytest.mark.parametrize("word", KINDS_OF_WORDS)
def test_a_node_that_is_lost_goes_whatever_civo_calls_it(store: Store, word: str) -> None:
    life = lives.idle_nodes(store, 1, a_pool(standby_nodes=1))
    life.run(MINUTE)
    shows(life, each(status=word))
    [vm] = life.world.lives
    life.world.faults.not_ready(vm.hostname)
    life.run(10 * MINUTE)
    assert life.writes("retire") == []
    life.run(15 * MINUTE)
    assert ("retire", (POOL, vm.id)) in life.writes("retire")


# --- what one pool lacks ----------------------------------------------------------------------------------


def unreadable(pool: str) -> Callable[[CloudPool], CloudPool]:
    """Show *pool* as the adapter does where its count and an instance cannot be read."""

    def change(found: CloudPool) -> CloudPool:
        return (
            replace(found, required=0, instances=(), unreadable="its count is missing") if found.id == pool else found
        )

    return change


@pytest.mark.chores(True)
def test_a_pool_that_cannot_be_read_stands_still_and_the_others_go_on(store: Store) -> None:
    life = lives.small_and_big(store)
    life.submit(a_job("small", duration=3 * HOUR))
    life.run(10 * MINUTE)
    writes = len(life.writes("resize", "retire", "cordon"))
    shows(life, unreadable("small-id"))
    life.submit(a_job("more", submit_at=life.now, duration=3 * HOUR))
    life.run(10 * MINUTE)
    assert life.writes("resize", "retire", "cordon")[writes:] == [("resize", ("big-id", 1))]
    [title] = titles(life, "incomplete", "its count is missing")
    assert title.startswith("GPU pool small: ")
    state = life.steps[-1].facts.pool("small-id")
    assert (state.required, state.count.drifts) == (1, ())


def test_a_pool_that_can_be_read_again_is_as_it_was(store: Store) -> None:
    life = lives.idle_nodes(store, 1, a_pool(standby_nodes=1))
    life.run(10 * MINUTE)
    before = store.memory(life.now, life.now - HOUR).lives
    shows(life, unreadable(POOL))
    life.run(10 * MINUTE)
    assert [vm.gone_at for vm in store.memory(life.now, life.now - HOUR).lives] == [None]
    shows(life, lambda pool: pool)
    life.run(10 * MINUTE)
    after = store.memory(life.now, life.now - HOUR).lives
    assert [(a.idle_since, a.usable_at, a.created_at) for a in after] == [
        (b.idle_since, b.usable_at, b.created_at) for b in before
    ]
    assert life.writes() == []


def test_a_removal_is_not_finished_by_an_answer_that_lacks_its_instance(store: Store) -> None:
    life = lives.idle_nodes(store)
    life.world.advance(life.now + 50 * MINUTE)
    life.run_until(lambda: life.writes("cordon"), tick=5 * SECOND)
    shows(life, unreadable(POOL))
    life.run(2 * MINUTE)
    action = life.steps[-1].facts.pool(POOL).open_action
    assert action is not None
    assert action.kind is ActionKind.RETIRE
    assert life.writes("retire") == []
    shows(life, lambda pool: pool)
    life.run(10 * MINUTE)
    assert living(life) == []


# --- times ------------------------------------------------------------------------------------------------


@pytest.mark.chores(True)
@pytest.mark.parametrize("created_at", [None, datetime(2999, 1, 1, tzinfo=UTC)], ids=["none", "far ahead"])
def test_a_node_without_a_creation_is_kept_and_told_while_its_pool_grows(
    store: Store, created_at: datetime | None
) -> None:
    life = lives.idle_nodes(store)
    life.pass_time(7 * SECOND)
    [vm] = life.world.lives
    shows(life, each(created_at=created_at))
    life.run(3 * HOUR, tick=MINUTE)
    assert life.writes("retire") == []
    assert len(titles(life, vm.hostname, "creation time")) == 1
    life.submit(*(a_job(f"j{n}", submit_at=life.now, duration=HOUR) for n in range(2)))
    life.run(10 * MINUTE)
    assert bought(life) == 2
    shows(life, lambda pool: pool)
    life.run(3 * HOUR, tick=MINUTE)
    assert living(life) == []


@pytest.mark.chores(True)
def test_a_node_whose_creation_was_known_goes_at_its_hour(store: Store) -> None:
    life = lives.idle_nodes(store)
    life.pass_time(7 * SECOND)
    life.run(5 * MINUTE)
    shows(life, each(created_at=None))
    life.run(HOUR, tick=MINUTE)
    assert living(life) == []
    assert not titles(life, "creation time")


@pytest.mark.chores(True)
def test_a_node_that_was_seen_while_it_was_built_goes_at_its_hour(store: Store) -> None:
    life = lives.at_zero(store)
    shows(life, each(created_at=None))
    life.submit(a_job())
    life.run(70 * MINUTE, tick=30 * SECOND)
    assert living(life) == []
    assert life.world.lives[0].deleted_at is not None
    assert not titles(life, "creation time")


def test_the_ledger_counts_from_the_first_look(store: Store) -> None:
    life = lives.idle_nodes(store, 1, a_pool(standby_nodes=1))
    shows(life, each(created_at=None))
    life.run(90 * MINUTE, tick=MINUTE)
    [life_of_it] = store.memory(life.now, life.now - 2 * HOUR).lives
    assert life_of_it.created_at == life_of_it.seen_at
