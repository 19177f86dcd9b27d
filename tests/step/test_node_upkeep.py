"""receiver.step.chores.node_upkeep: labels, taints and left-over cordons of nodes; a failed write is tried again."""

from datetime import timedelta

import pytest

from receiver.core.model.policy import Pool, Taint
from receiver.ports import CORDON_ANNOTATION, Store, TryLater, WontWork
from tests.core.builders import a_pool
from tests.given import lives
from tests.given.life import Life, Wrapped, a_job, until_cordoned

TEN_SECONDS = timedelta(seconds=10)
LABELS = {"gpu": "on-demand"}
TAINT = Taint(key="gpu", value="true")


def a_labelled_pool(name: str, *, applies: bool = True) -> Pool:
    return a_pool(name, id=name, min_nodes=1, labels=LABELS, taints=(TAINT,), apply_to_nodes=applies)


def a_life(store: Store, *pools: Pool, nodes: int = 1) -> Life:
    """A life whose pools have so many usable nodes each, without labels and taints; nothing was written yet."""
    life = lives.idle_nodes(store, nodes, *pools)
    life.world.advance(life.now + timedelta(minutes=5))
    return life


def worn(life: Life, pool: str) -> tuple[str | None, tuple[Taint, ...]]:
    """The label and the taints of the pool's node."""
    [node] = [life.world.nodes[vm.hostname] for vm in life.world.pools[pool].instances]
    return node.labels.get("gpu"), tuple(t for t in node.taints if t.key == TAINT.key)


def test_a_node_gets_its_pools_labels_and_taints_once(store: Store) -> None:
    life = a_life(store, a_labelled_pool("a"))
    life.step()
    assert worn(life, "a") == ("on-demand", (TAINT,))
    life.wrap_cluster = lambda inner: Wrapped(inner, apply_labels_and_taints=lambda *_: pytest.fail("it has them"))
    life.run(TEN_SECONDS)
    assert not life.steps[-1].failures


def test_a_node_that_has_not_joined_the_cluster_is_not_written_to(store: Store) -> None:
    life = lives.at_zero(store, a_labelled_pool("a"))
    written: list[str] = []
    life.wrap_cluster = lambda inner: Wrapped(inner, apply_labels_and_taints=lambda node, *_: written.append(node))
    life.run(TEN_SECONDS, tick=timedelta(seconds=2))
    [node] = life.steps[-1].facts.pool("a").living
    assert (node.registered, written) == (False, [])


def test_every_node_gets_its_pools_labels_and_taints_in_one_step(store: Store) -> None:
    life = a_life(store, a_labelled_pool("a"), nodes=3)
    life.step()
    assert [node.labels.get("gpu") for node in life.world.nodes.values()] == ["on-demand"] * 3


def test_every_cordon_that_outlived_its_removal_is_lifted_in_one_step(store: Store) -> None:
    life = a_life(store, a_labelled_pool("a"), nodes=3)
    for name in life.world.nodes:
        life.world.patch_node(name, unschedulable=True, annotations={CORDON_ANNOTATION: "gone"})
    life.step()
    assert [node.unschedulable for node in life.world.nodes.values()] == [False] * 3


def test_a_node_that_a_person_uncordoned_during_its_removal_is_theirs_to_cordon(store: Store) -> None:
    """`kubectl uncordon`, hours later `kubectl drain`: the second cordon was taken for ours and lifted."""
    life = lives.at_zero(store)
    name = until_cordoned(life)
    life.world.patch_node(name, unschedulable=False)
    life.run(timedelta(minutes=2))
    life.submit(a_job("next", duration=timedelta(hours=2)))
    life.run(timedelta(minutes=4))
    assert CORDON_ANNOTATION not in life.world.nodes[name].annotations
    life.world.patch_node(name, unschedulable=True)
    life.run(timedelta(minutes=5))
    assert life.world.nodes[name].unschedulable


def test_without_apply_to_nodes_a_node_stays_as_it_is(store: Store) -> None:
    life = a_life(store, a_labelled_pool("a", applies=False))
    life.step()
    assert worn(life, "a") == (None, ())
    assert life.writes("apply_labels_and_taints") == []


@pytest.mark.parametrize("error", [TryLater("away", code="http_503"), WontWork("forbidden", code="http_403")])
def test_a_write_that_fails_leaves_the_other_pools_theirs_and_is_tried_again(store: Store, error: Exception) -> None:
    life = a_life(store, a_labelled_pool("a"), a_labelled_pool("b"))
    life.cluster.fail_next(error, "apply_labels_and_taints")
    life.step()
    assert (worn(life, "a"), worn(life, "b")) == ((None, ()), ("on-demand", (TAINT,)))
    life.run(TEN_SECONDS)
    assert worn(life, "a") == ("on-demand", (TAINT,))
