"""Which soft taints nodes should carry, so that one is filled before pods spread to others."""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given

from receiver.core.model import CordonedBy, Node, Stage
from receiver.core.packing import FILL_OTHERS_FIRST, IDLE, SOFT_TAINTS, soft_taints
from receiver.core.pods import PodPhase
from receiver.core.policy import Packing, Taint
from tests.core.builders import GPU, NOW, a_node, a_pod, a_policy, a_pool, a_state, facts, run
from tests.core.worlds import LAWS, World, worlds

EIGHT = a_pool(resources={GPU: 8}, price_usd_per_hour=None)
THEIRS = Taint(key="theirs", effect="PreferNoSchedule")


def a_big_node(name: str, held: int, **changes: object) -> Node:
    """A usable node of eight GPUs, *held* of which a pod holds."""
    pods = (a_pod(f"on-{name}", gpus=held, phase=PodPhase.RUNNING, node=name),) if held else ()
    return a_node(name, **{"allocatable": {GPU: 8}, "pods": pods, "idle_since": None if held else NOW, **changes})


def wanted(nodes: Iterable[Node], packing: Packing = Packing.FULLEST_FIRST) -> dict[str, tuple[Taint, ...]]:
    """The nodes to change by name, with what each should carry."""
    found = facts(a_state(*nodes))
    return {node.name: taints for node, taints in soft_taints(found, a_policy(EIGHT, packing=packing))}


def test_the_fullest_node_with_room_carries_none_others_in_use_one_and_idle_ones_two() -> None:
    nodes = [a_big_node("idle", 0), a_big_node("some", 2), a_big_node("most", 6), a_big_node("full", 8)]
    assert wanted(nodes) == {"idle": SOFT_TAINTS, "some": (FILL_OTHERS_FIRST,)}


def test_of_two_nodes_as_full_the_older_is_filled_first() -> None:
    older = a_big_node("b", 4, created_at=NOW.replace(hour=1))
    assert wanted([a_big_node("a", 4), older]) == {"a": (FILL_OTHERS_FIRST,)}


def test_a_node_that_becomes_the_fullest_loses_what_it_carried() -> None:
    assert wanted([a_big_node("a", 4, taints=(*SOFT_TAINTS, THEIRS))]) == {"a": ()}


def test_a_node_that_carries_what_it_should_is_left_alone() -> None:
    idle = a_big_node("idle", 0, taints=(THEIRS, *SOFT_TAINTS))
    assert wanted([idle, a_big_node("used", 1)]) == {}


def test_nodes_that_take_no_work_are_left_alone() -> None:
    nodes = [
        a_big_node("cordoned", 0, cordoned_by=CordonedBy.US),
        a_big_node("theirs", 0, cordoned_by=CordonedBy.SOMEONE),
        a_big_node("closed", 0, closed_for="the budget of 2026-11"),
        a_big_node("installing", 0, stage=Stage.INSTALLING),
        a_big_node("gone", 0, registered=False),
    ]
    assert wanted(nodes) == {}


def test_the_scheduler_alone_decides_where_the_operator_says_so_and_what_we_put_on_goes() -> None:
    nodes = [a_big_node("idle", 0, taints=SOFT_TAINTS), a_big_node("used", 1), a_big_node("full", 8, taints=(IDLE,))]
    assert wanted(nodes, Packing.SCHEDULER) == {"idle": (), "full": ()}


def test_nodes_of_one_gpu_alone_carry_none() -> None:
    pool = a_pool()
    found = facts(a_state(a_node("n1"), a_node("n2")))
    assert list(soft_taints(found, a_policy(pool))) == []


def test_beside_larger_nodes_an_idle_node_of_one_gpu_carries_two() -> None:
    small, big = a_pool("small"), replace(EIGHT, id="big-id", name="big")
    found = facts(a_state(a_node("n1"), pool="small-id"), a_state(a_big_node("used", 1), pool="big-id"))
    assert [(n.name, taints) for n, taints in soft_taints(found, a_policy(small, big))] == [("n1", SOFT_TAINTS)]


@LAWS
@given(worlds())
def test_law_soft_taints_change_no_decision(world: World) -> None:
    """They steer the scheduler, not us: what we count, buy and remove is the same with and without them."""
    found, policy = world
    marked = replace(
        found,
        pools=tuple(
            replace(s, nodes=tuple(replace(n, taints=(*n.taints, *SOFT_TAINTS)) for n in s.nodes)) for s in found.pools
        ),
    )
    before, after = run(found, policy)[1], run(marked, policy)[1]
    assert {p: (d.target, d.candidates) for p, d in before.items()} == {
        p: (d.target, d.candidates) for p, d in after.items()
    }


@LAWS
@given(worlds())
def test_law_what_soft_taints_should_be_they_stay(world: World) -> None:
    """Put on as wanted, nothing is left to change: no node is patched twice for the same facts."""
    found, policy = world
    changes = {node.instance: taints for node, taints in soft_taints(found, policy)}
    done = replace(
        found,
        pools=tuple(
            replace(s, nodes=tuple(replace(n, taints=changes.get(n.instance, n.taints)) for n in s.nodes))
            for s in found.pools
        ),
    )
    assert list(soft_taints(done, policy)) == []
