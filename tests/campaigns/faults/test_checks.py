"""The checks see what they are there for: each kind of sabotage is found in a small world."""

from dataclasses import replace
from typing import Any

import pytest

from campaigns.faults.campaign import judge
from campaigns.faults.doors import OurWorld
from campaigns.faults.run import Run
from campaigns.faults.scenario import Event, Scenario
from receiver.core.model.policy import Scope
from receiver.core.model.rights import Rights
from receiver.core.money.budget import Budgets, BudgetView
from receiver.core.scaling.bounds import Grace
from receiver.ports import Did, Receipt
from receiver.replay.ports import WorldCloud
from simulator.cluster_port import SimulatedCluster
from simulator.store import MemoryStore
from tests.campaigns.faults.small import POOL, a_job, small


def seen(world: Scenario, store: MemoryStore) -> set[str]:
    """The invariants that do not hold in *world*."""
    return {line.split(":")[0] for line in judge(world, store).message.splitlines()}


def test_a_node_that_is_bought_beside_the_one_asked_for_is_seen(
    emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = small(a_job(), pool=replace(POOL, max_nodes=1))
    assert seen(world, emptied) == set()
    real = WorldCloud.resize

    def resize(self: WorldCloud, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        return real(self, pool, decided_on=decided_on, target=target + 1, shown=shown)

    monkeypatch.setattr(WorldCloud, "resize", resize)
    assert seen(world, emptied) == {"2 maximum", "4 asked twice", "4 filled poorly"}


def test_a_busy_node_that_is_deleted_instead_of_the_idle_one_is_seen(
    emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = small(a_job(), pool=replace(POOL, count=2), granularity=1)
    assert seen(world, emptied) == set()
    real = WorldCloud.retire

    def retire(self: WorldCloud, pool: str, instance: str) -> Receipt:
        world = self._world
        busy = [vm for vm in world.pools[pool].living if any(p.requests for p in world.pods_on(vm.hostname))]
        return real(self, pool, busy[0].id if busy else instance)

    monkeypatch.setattr(WorldCloud, "retire", retire)
    assert "1 GPU pods" in seen(world, emptied)


def test_a_cordon_that_is_never_lifted_is_seen(emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    late = a_job(at=121)  # the only node, idle for two minutes, was cordoned a second ago
    world = small(late, pool=replace(POOL, count=1, max_nodes=1), granularity=1)
    assert seen(world, emptied) == set()

    def uncordon(self: SimulatedCluster, node: str) -> Receipt:
        return Receipt(did=Did.DONE, sentence=f"said so of {node}")

    monkeypatch.setattr(SimulatedCluster, "uncordon", uncordon)
    monkeypatch.setattr("campaigns.faults.run.CALM_STEPS", 8)
    assert seen(world, emptied) == {"5 settles"}


def test_a_gpu_pod_that_is_evicted_without_consent_is_seen(
    emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = small(a_job(), pool=replace(POOL, count=2), granularity=1)
    real = SimulatedCluster.cordon

    def cordon(self: SimulatedCluster, node: str, action: str) -> Receipt:
        for pod in [p for p in self._world.active_pods.values() if p.requests and p.node]:
            self._world.evict(pod.namespace, pod.name)
        return real(self, node, action)

    monkeypatch.setattr(SimulatedCluster, "cordon", cordon)
    assert "1 evictions" in seen(world, emptied)


def test_growth_without_the_right_to_remove_is_seen(emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Event(at=5, kind="rights", what={"lost": ["patch nodes"]})  # it asks every five minutes
    world = small(lost, a_job(at=400), ticks=[60], troubled=600, granularity=1)
    assert seen(world, emptied) == set()
    monkeypatch.setattr(Rights, "holds_growth", lambda _self, _now: False)
    assert seen(world, emptied) == {"2 removable"}


def test_growth_beyond_a_pools_own_budget_is_seen(emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    world = small(a_job(), pool=replace(POOL, budget="1.00"), budget="1000", troubled=120)
    assert seen(world, emptied) == set()
    real = Budgets.touched

    def touched(self: Budgets, pool: str, teams: frozenset[str] = frozenset()) -> tuple[BudgetView, ...]:
        return tuple(view for view in real(self, pool, teams) if view.scope is not Scope.POOL)

    monkeypatch.setattr(Budgets, "touched", touched)
    assert "2 pool's budget" in seen(world, emptied)


def night(**job: Any) -> Scenario:
    """Two nodes with long work, and from 12:02 on none is allowed: what runs is evicted two minutes later."""
    pool = replace(POOL, window=[722, 740, 0], evict_after=120, count=2)
    work = a_job(**{"seconds": 1800, "pods": 2, "util": 0.5, "owner": "ReplicaSet", **job})
    return small(work, pool=pool, troubled=600, ticks=[30])


def test_what_a_window_evicts_after_its_grace_is_allowed(emptied: MemoryStore) -> None:
    result = judge(night(), emptied)
    assert (result.message, result.tally.counts["evictions by windows"]) == ("", 2)


def test_an_eviction_from_a_node_that_somebody_ended_since_our_look_is_allowed(emptied: MemoryStore) -> None:
    quicker = Event(at=200, kind="count", what={"pool": "l40s-id", "by": -2}, call="cluster.drain")
    assert not judge(replace(night(), events=[*night().events, quicker]), emptied).message


def test_an_eviction_before_the_grace_is_over_is_seen(emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Grace, "ends_at", property(lambda self: self.told))
    assert judge(night(), emptied).message.startswith("1 evictions: ml/j0-0 holds a GPU and did not consent")


def test_an_eviction_of_a_jobs_pods_by_a_window_is_seen(emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("receiver.core.scaling.holds", "receiver.replay.kubernetes"):
        monkeypatch.setattr(f"{module}.window_may_evict", lambda pod: True)
    assert "is not certain to be started again" in judge(night(owner="Job"), emptied).message


def test_an_eviction_beside_a_pod_that_a_budget_holds_is_seen(
    emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Event(at=20, kind="cpu", what={"id": "held", "min_available": 1})
    world = replace(night(), events=[*night().events, held])
    monkeypatch.setattr(OurWorld, "rehearse_eviction", lambda self, namespace, name: None, raising=False)
    assert "was evicted although a budget holds web/held-0" in judge(world, emptied).message


def test_an_eviction_of_a_gang_by_a_window_is_seen(emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("receiver.core.scaling.holds", "receiver.replay.kubernetes"):
        monkeypatch.setattr(f"{module}.window_may_evict", lambda pod: True)
    assert "belongs to a gang" in judge(night(gang=True), emptied).message


def test_evicting_more_than_is_too_many_is_seen(emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    one_allowed = replace(night(), pools=[replace(night().pools[0], window=[722, 740, 1])])
    monkeypatch.setattr("receiver.core.scaling.removal.surplus_over", lambda most, case, gone=(): case.present)
    assert "nodes are evicted of 2, 1 allowed" in judge(one_allowed, emptied).message


def test_a_node_that_takes_new_work_beyond_the_stop_line_is_seen(
    emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = small(pool=replace(POOL, count=1), granularity=600, budget="0.10")
    closed = judge(world, emptied)
    assert (closed.message, closed.tally.counts["nodes closed to new work"]) == ("", 1)
    monkeypatch.setattr(
        SimulatedCluster, "cordon_for_budget", lambda _, node, why: Receipt(did=Did.DONE, sentence=f"{node}: {why}")
    )
    assert judge(world, emptied).message.startswith("2 beyond the line")


def test_a_node_whose_only_gpu_is_not_healthy_does_not_count_as_one_that_works(emptied: MemoryStore) -> None:
    dead = [
        Event(at=30, kind="override", what={"id": "o0", "say": "snooze", "seconds": 3000, "pool": "l40s-id"}),
        Event(at=40, kind="sicken", what={"pool": "l40s-id", "which": 0, "how": "device"}),
    ]
    run = Run(small(*dead, pool=replace(POOL, count=1), troubled=1500, granularity=1), emptied)
    run.go()
    assert run.tally.counts["nodes removed"] == 1
