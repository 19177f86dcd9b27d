"""The checks see what they are there for: each kind of sabotage is found in some world from a fixed seed."""

from dataclasses import replace

import pytest

from receiver.adapters.store import SqlStore
from receiver.core.model.model import Rights
from receiver.core.model.policy import Scope
from receiver.core.money.budget import Budgets, BudgetView
from receiver.core.scaling.bounds import Grace
from receiver.ports import Did, Receipt
from receiver.replay.ports import WorldCloud
from simulator.cluster_port import SimulatedCluster
from tests.faults.campaign import judge
from tests.faults.doors import OurWorld
from tests.faults.generate import scenario
from tests.faults.scenario import Event, PoolPlan, Scenario

WORLDS = 40


def first_violation(store: SqlStore, kind: str, seed: int = 1) -> str:
    """The first violation in the worlds from *seed* on that begins with *kind*; empty when there is none."""
    told = (judge(scenario(s), store).message for s in range(seed, seed + WORLDS))
    return next((message for message in told if message.startswith(kind)), "")


def test_a_node_that_is_bought_beside_the_one_asked_for_is_seen(
    emptied: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = WorldCloud.resize

    def resize(self: WorldCloud, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        return real(self, pool, decided_on=decided_on, target=target + 1, shown=shown)

    monkeypatch.setattr(WorldCloud, "resize", resize)
    assert first_violation(emptied, "2 maximum")
    assert first_violation(emptied, "4 asked twice")


def test_a_busy_node_that_is_deleted_instead_of_the_idle_one_is_seen(
    emptied: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = WorldCloud.retire

    def retire(self: WorldCloud, pool: str, instance: str) -> Receipt:
        world = self._world
        busy = [vm for vm in world.pools[pool].living if any(p.requests for p in world.pods_on(vm.hostname))]
        return real(self, pool, busy[0].id if busy else instance)

    monkeypatch.setattr(WorldCloud, "retire", retire)
    assert first_violation(emptied, "1 GPU pods")


def test_a_cordon_that_is_never_lifted_is_seen(emptied: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def uncordon(self: SimulatedCluster, node: str) -> Receipt:
        return Receipt(did=Did.DONE, sentence=f"said so of {node}")

    monkeypatch.setattr(SimulatedCluster, "uncordon", uncordon)
    assert first_violation(emptied, "5 settles", seed=30)


def test_a_gpu_pod_that_is_evicted_without_consent_is_seen(emptied: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = SimulatedCluster.cordon

    def cordon(self: SimulatedCluster, node: str, action: str) -> Receipt:
        for pod in [p for p in self._world.active_pods.values() if p.requests and p.node]:
            self._world.evict(pod.namespace, pod.name)
        return real(self, node, action)

    monkeypatch.setattr(SimulatedCluster, "cordon", cordon)
    assert first_violation(emptied, "1 evictions")


def test_growth_without_the_right_to_remove_is_seen(emptied: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rights, "holds_growth", lambda _self, _now: False)
    assert first_violation(emptied, "2 removable")


def test_growth_beyond_a_pools_own_budget_is_seen(emptied: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = PoolPlan(name="l40s", resources={"nvidia.com/gpu": 1}, max_nodes=3, budget="1.00")
    job = {"id": "j0", "seconds": 600, "pods": 1, "each": 1, "resource": "nvidia.com/gpu"}
    world = Scenario(
        seed=1,
        start="2026-11-20T12:00:00+00:00",
        pools=[pool],
        events=[Event(at=10, kind="job", what=job)],
        troubled=120,
        ticks=[10],
        budget="1000",
    )
    assert judge(world, emptied).message == ""
    real = Budgets.touched

    def touched(self: Budgets, pool: str, teams: frozenset[str] = frozenset()) -> tuple[BudgetView, ...]:
        return tuple(view for view in real(self, pool, teams) if view.scope is not Scope.POOL)

    monkeypatch.setattr(Budgets, "touched", touched)
    assert judge(world, emptied).message.startswith("2 pool's budget")


def night(**job: object) -> Scenario:
    """Two nodes with long work, and from 12:10 on none is allowed: what runs is evicted ten minutes later."""
    pool = PoolPlan(
        name="l40s", resources={"nvidia.com/gpu": 1}, max_nodes=3, window=[730, 750, 0], evict_after=600, count=2
    )
    what = {
        "id": "j0",
        "seconds": 3000,
        "pods": 2,
        "each": 1,
        "resource": "nvidia.com/gpu",
        "util": 0.5,
        "owner": "ReplicaSet",
        **job,
    }
    return Scenario(
        seed=1,
        start="2026-11-20T12:00:00+00:00",
        pools=[pool],
        events=[Event(at=10, kind="job", what=what)],
        troubled=1800,
        ticks=[30],
    )


def test_what_a_window_evicts_after_its_grace_is_allowed(emptied: SqlStore) -> None:
    result = judge(night(), emptied)
    assert (result.message, result.tally.counts["evictions by windows"]) == ("", 2)


def test_an_eviction_from_a_node_that_somebody_ended_since_our_look_is_allowed(emptied: SqlStore) -> None:
    quicker = Event(at=1200, kind="count", what={"pool": "l40s-id", "by": -2}, call="cluster.drain")
    assert not judge(replace(night(), events=[*night().events, quicker]), emptied).message


def test_an_eviction_before_the_grace_is_over_is_seen(emptied: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Grace, "ends_at", property(lambda self: self.told))
    assert judge(night(), emptied).message.startswith("1 evictions: ml/j0-0 holds a GPU and did not consent")


def test_an_eviction_of_a_jobs_pods_by_a_window_is_seen(emptied: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("receiver.core.scaling.removal", "receiver.replay.kubernetes"):
        monkeypatch.setattr(f"{module}.window_may_evict", lambda pod: True)
    assert "is not certain to be started again" in judge(night(owner="Job"), emptied).message


def test_an_eviction_beside_a_pod_that_a_budget_holds_is_seen(
    emptied: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Event(at=20, kind="cpu", what={"id": "held", "min_available": 1})
    world = replace(night(), events=[*night().events, held])
    monkeypatch.setattr(OurWorld, "rehearse_eviction", lambda self, namespace, name: None, raising=False)
    assert "was evicted although a budget holds web/held-0" in judge(world, emptied).message


def test_an_eviction_of_a_gang_by_a_window_is_seen(emptied: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("receiver.core.scaling.removal", "receiver.replay.kubernetes"):
        monkeypatch.setattr(f"{module}.window_may_evict", lambda pod: True)
    assert "belongs to a gang" in judge(night(gang=True), emptied).message


def test_evicting_more_than_is_too_many_is_seen(emptied: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    one_allowed = replace(night(), pools=[replace(night().pools[0], window=[730, 750, 1])])
    monkeypatch.setattr("receiver.core.scaling.removal.surplus_over", lambda most, case, dead: case.present)
    assert "nodes are evicted of 2, 1 allowed" in judge(one_allowed, emptied).message


def test_a_node_that_takes_new_work_beyond_the_stop_line_is_seen(
    emptied: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Scenario(
        seed=1,
        start="2026-11-20T12:00:00+00:00",
        pools=[PoolPlan(name="l40s", resources={"nvidia.com/gpu": 1}, max_nodes=3, count=1)],
        events=[],
        troubled=300,
        ticks=[10],
        granularity=600,
        budget="0.10",
    )
    closed = judge(world, emptied)
    assert (closed.message, closed.tally.counts["nodes closed to new work"]) == ("", 1)
    monkeypatch.setattr(
        SimulatedCluster, "cordon_for_budget", lambda _, node, why: Receipt(did=Did.DONE, sentence=f"{node}: {why}")
    )
    assert judge(world, emptied).message.startswith("2 beyond the line")
