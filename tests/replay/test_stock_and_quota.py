"""What a growth can run into: regional stock and the account's quota."""

import pytest

from receiver.replay.world.objects import Behaviour, Denied
from tests.replay.builders import L40S, pool, run, vms, world


def test_without_enough_stock_a_growth_is_refused_whole() -> None:
    w = world(stock={L40S: 3})
    with pytest.raises(Denied) as refused:
        w.resize("a", 5)
    assert (refused.value.code, refused.value.status) == ("gpu_count_exceeded", 403)
    assert w.pools["a"].required == 0
    assert vms(w) == []


def test_stock_counts_gpus_and_not_nodes() -> None:
    w = world(pool(resources={"nvidia.com/gpu": 4}), stock={L40S: 7})
    w.resize("a", 1)
    with pytest.raises(Denied, match="gpu_count_exceeded"):
        w.resize("a", 2)


def test_with_partial_fill_a_growth_is_taken_and_filled_up_when_stock_returns() -> None:
    w = world(pool("a"), pool("b", count=1), stock={L40S: 1}, behaviour=Behaviour(partial_fill=True))
    w.resize("a", 2)
    assert w.pools["a"].required == 2
    assert len(vms(w)) == 1
    w.resize("b", 0)
    run(w, 19)
    assert len(vms(w)) == 1
    run(w, 60)
    assert len(vms(w)) == 2


def test_a_gone_node_returns_its_stock() -> None:
    w = world(stock={L40S: 1})
    w.resize("a", 1)
    run(w, 1)
    w.resize("a", 0)
    with pytest.raises(Denied):
        w.resize("a", 1)
    run(w, 21)
    w.resize("a", 1)
    assert w.pools["a"].required == 1


def test_a_stock_fault_overrides_the_stock_until_it_is_lifted() -> None:
    w = world()
    w.faults.stock[L40S] = 1
    w.resize("a", 1)
    with pytest.raises(Denied, match="gpu_count_exceeded"):
        w.resize("a", 2)
    w.faults.clear()
    w.resize("a", 2)
    assert len(vms(w)) == 2


def test_quota_is_refused_with_one_line_for_each_that_is_exceeded() -> None:
    w = world(quota={"instance_count": 16, "cpu_core": 16, "ram_mb": 100_000, "disk_gb": 400})
    with pytest.raises(Denied) as refused:
        w.resize("a", 2)
    assert (refused.value.code, refused.value.status) == ("quota_limit_reached", 403)
    assert [line.split(":")[0] for line in refused.value.details.split("\n")] == ["cpu_core", "ram_mb"]
    w.resize("a", 1)
    assert w.quota_usage == {"instance_count": 1, "cpu_core": 12, "ram_mb": 98304, "disk_gb": 200}


def test_what_else_the_account_holds_counts_against_quota() -> None:
    w = world(quota={"instance_count": 2}, quota_used_elsewhere={"instance_count": 2})
    with pytest.raises(Denied, match="quota_limit_reached"):
        w.resize("a", 1)


def test_quota_falls_only_minutes_after_an_instance_is_gone() -> None:
    w = world(pool(count=1), quota={"instance_count": 1})
    w.resize("a", 0)
    run(w, 20 + 179)
    assert vms(w) == []
    with pytest.raises(Denied, match="quota_limit_reached"):
        w.resize("a", 1)
    run(w, 20 + 180)
    w.resize("a", 1)
    assert w.pools["a"].required == 1


def test_quota_and_behaviour_can_change_while_the_world_runs() -> None:
    w = world(pool(count=2))
    w.limit({"instance_count": 2})
    with pytest.raises(Denied, match="quota_limit_reached"):
        w.resize("a", 3)
    w.behave(Behaviour(decrement="never", billed_until="delete"))
    w.delete_instance("a", vms(w)[0].id)
    assert w.pools["a"].required == 2
    run(w, 100)
    assert w.charges(w.now, w.now)[0].instance != w.lives[0].id
