"""Required counts: who goes when one is lowered, and what a deletion by id does to it."""

from datetime import timedelta

import pytest

from receiver.replay.world.objects import Behaviour, Denied, Timings
from simulator.world import World
from tests.replay.builders import after, pool, run, seconds, vms, world


def mixed_pool(behaviour: Behaviour | None = None) -> World:
    """One pool with, by age: two ready nodes (the second cordoned), one NotReady, one building, one unlisted."""
    w = world(timings=Timings(create=seconds(1)), behaviour=behaviour)
    for count, at in ((1, 0), (2, 10)):
        w.resize("a", count)
        run(w, at + 10)
    run(w, 400)
    w.patch_node(vms(w)[1].hostname, unschedulable=True)
    w.faults.gpu_never("a", 1)
    w.resize("a", 3)
    run(w, 400 + 1 + 120 + 12)  # half-way through its boot: registered, NotReady
    w.resize("a", 4)
    run(w, 400 + 1 + 120 + 14)
    w.resize("a", 5)
    return w


@pytest.mark.parametrize("count, survivors", [(4, [0, 1, 2, 3]), (3, [0, 1, 2]), (2, [0, 1]), (1, [0])])
def test_a_lowered_count_takes_building_then_not_ready_then_cordoned_nodes(count: int, survivors: list[int]) -> None:
    w = mixed_pool()
    before = list(vms(w))
    assert [vm.status for vm in before] == ["ACTIVE", "ACTIVE", "ACTIVE", "BUILDING"]
    w.resize("a", count)
    assert [vm for vm in vms(w) if vm.living] == [before[i] for i in survivors]
    assert not w.pools["a"].coming


@pytest.mark.parametrize("by_age, survivor", [("oldest", 2), ("newest", 0)])
def test_among_equals_a_lowered_count_goes_by_age(by_age: str, survivor: int) -> None:
    w = world(behaviour=Behaviour(victims_by_age=by_age))  # type: ignore[arg-type]  # a Literal by parameter
    for count in (1, 2, 3):
        w.resize("a", count)
        run(w, count * 1000)
    before = list(vms(w))
    w.resize("a", 1)
    assert [vm for vm in vms(w) if vm.living] == [before[survivor]]


def test_deleting_by_id_lowers_the_count_at_once_and_takes_exactly_that_node() -> None:
    w = world(pool(count=3))
    first, second, third = vms(w)
    w.delete_instance("a", second.id)
    assert w.pools["a"].required == 2
    run(w, 60)
    assert vms(w) == [first, third]


def test_deleting_by_id_can_lower_the_count_late() -> None:
    w = world(pool(count=2), behaviour=Behaviour(decrement=timedelta(seconds=90)))
    w.delete_instance("a", vms(w)[0].id)
    assert run(w, 89).pools["a"].required == 2
    assert len(vms(w)) == 1
    assert run(w, 90).pools["a"].required == 1
    assert len(vms(run(w, 600))) == 1


def test_growth_during_a_late_decrement_is_lowered_with_it() -> None:
    w = world(pool(count=2), behaviour=Behaviour(decrement=timedelta(seconds=90)))
    w.delete_instance("a", vms(w)[0].id)
    w.resize("a", 3)
    run(w, 600)
    assert w.pools["a"].required == 2
    assert len(vms(w)) == 2


def test_when_deleting_by_id_never_lowers_the_count_a_replacement_is_built() -> None:
    w = world(pool(count=1), behaviour=Behaviour(decrement="never"))
    (old,) = vms(w)
    w.delete_instance("a", old.id)
    assert w.pools["a"].required == 1
    run(w, 19)
    assert vms(w) == [old]
    (new,) = vms(run(w, 20))
    assert new is not old
    assert new.status == "BUILDING"


def test_deleting_the_same_instance_again_changes_nothing() -> None:
    w = world(pool(count=2))
    gone = vms(w)[0].id
    w.delete_instance("a", gone)
    w.delete_instance("a", gone)
    assert w.pools["a"].required == 1
    run(w, 30)
    with pytest.raises(Denied) as refused:
        w.delete_instance("a", gone)
    assert (refused.value.code, refused.value.status) == ("database_cluster_pool_instance_not_found", 404)
    assert w.pools["a"].required == 1


@pytest.mark.parametrize("ask", [lambda w: w.resize("b", 1), lambda w: w.delete_instance("b", "x")])
def test_an_unknown_pool_is_refused(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(Denied) as refused:
        ask(world())
    assert (refused.value.code, refused.value.status) == ("database_cluster_pool_not_found", 404)


def test_a_negative_count_is_refused() -> None:
    w = world(pool(count=1))
    with pytest.raises(Denied):
        w.resize("a", -1)
    assert w.pools["a"].required == 1


def test_a_second_resize_during_a_running_one_may_be_refused() -> None:
    w = world(behaviour=Behaviour(rescale_conflict=True))
    w.resize("a", 1)
    with pytest.raises(Denied) as refused:
        w.resize("a", 2)
    assert (refused.value.code, refused.value.status) == ("cannot_scale_already_rescaling_cluster", 409)
    run(w, 120)
    w.resize("a", 2)
    assert w.pools["a"].required == 2


def test_by_default_a_second_resize_is_taken() -> None:
    w = world()
    w.resize("a", 1)
    w.resize("a", 2)
    assert len(vms(w)) == 2


def test_a_refusal_that_was_switched_on_lasts_as_often_as_asked() -> None:
    w = world()
    w.faults.refuse_rescale("out_of_capacity", status=403, times=2)
    for _ in range(2):
        with pytest.raises(Denied, match="out_of_capacity"):
            w.resize("a", 1)
    w.resize("a", 1)
    assert w.pools["a"].required == 1


def test_an_instance_that_was_never_listed_vanishes_without_a_trace_but_its_bill() -> None:
    w = world(timings=Timings(create=seconds(60)))
    w.resize("a", 1)
    run(w, 5)
    w.resize("a", 0)
    run(w, 600)
    assert vms(w) == []
    assert [vm.gone_at for vm in w.lives] == [after(5)]
    assert w.charges(after(0), after(600))[0].num_hours == 1
