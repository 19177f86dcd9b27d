"""What one bad node, one lost answer or one bad word of Civo must not do to everything else."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.model.policy import Pool
from receiver.ports import Receipt, Store, TryLater, WontWork
from receiver.replay.world.objects import Behaviour, PodSpec
from tests.core.builders import HOUR, MINUTE
from tests.given import lives
from tests.given.life import FAST, GPU, PRICE, SIZE, Life, Wrapped, a_job

pytestmark = pytest.mark.chores(False)


def two_pools(store: Store, nodes: int) -> Life:
    """Pool a with so many *nodes*, and an empty, dearer pool b."""
    prices = {"a": PRICE, "b": 2 * PRICE}
    pools = (Pool(id=i, name=i, size=SIZE, resources={GPU: 1}, max_nodes=2, price_usd_per_hour=prices[i]) for i in "ab")
    return lives.at_zero(store, *pools, nodes={"a": nodes})


def refusing(life: Life, instance: str) -> None:
    """Civo refuses the DELETE of *instance* for ever."""

    def retire(pool: str, asked: str) -> Receipt:
        if asked == instance:
            raise WontWork("no", code="database_x")
        return life.cloud.retire(pool, asked)

    life.wrap_cloud = lambda inner: Wrapped(inner, retire=retire)


def test_less_demand_after_a_lost_answer_does_not_lower_what_civo_was_asked_for(store: Store) -> None:
    life = lives.at_zero(store, timings=replace(FAST, create=MINUTE), behaviour=Behaviour(list_lag=MINUTE))
    for number in range(5):
        life.world.add_pod(PodSpec(namespace="ml", name=f"p{number}", requests={GPU: 1}, duration=HOUR))
    life.pass_time(timedelta(seconds=1))
    life.cloud.fail_after(TryLater("no answer", code="timeout"), "resize")
    life.step()
    for name in ("p0", "p1"):
        life.world.delete_pod("ml", name)
    life.run(timedelta(seconds=30))
    assert life.required() == 5
    assert [args[1] for _, args in life.writes("resize")] == [5]


@pytest.mark.parametrize("cause", ["its DELETE is refused", "the heartbeat is silent"])
def test_a_dead_node_that_cannot_go_keeps_no_work_waiting(store: Store, cause: str) -> None:
    life = two_pools(store, 2)
    life.step()
    bad = life.world.pools["a"].instances[0]
    refusing(life, bad.id)
    life.heartbeats = cause != "the heartbeat is silent"
    life.world.faults.not_ready(bad.hostname)
    life.run(25 * MINUTE, tick=MINUTE)
    life.submit(a_job(pods=2, duration=9 * HOUR, submit_at=life.now))
    life.run(HOUR, tick=MINUTE)
    assert [p.phase for p in life.world.active_pods.values()] == ["Running", "Running"]


def test_a_refused_delete_keeps_no_other_idle_node_and_counts_as_one_failure(store: Store) -> None:
    life = two_pools(store, 1)
    life.step()
    [good] = life.world.pools["a"].instances
    life.world.faults.gpu_never("a")
    life.submit(a_job(pods=2, duration=50 * MINUTE))
    life.run(MINUTE)
    [bad] = [vm for vm in life.world.pools["a"].instances if vm.id != good.id]
    refusing(life, bad.id)
    life.run(30 * MINUTE)
    for key in list(life.world.active_pods):
        life.world.delete_pod(*key)
    life.run(3 * HOUR, tick=timedelta(seconds=30))
    assert [vm.id for vm in life.world.pools["a"].instances] == [bad.id]
    failed = life.store.memory(life.now, life.now - HOUR).pools["a"].provisioning
    assert failed is not None
    assert failed.failures == 1


def test_a_ready_node_that_lost_its_gpu_is_drained_like_any_other(store: Store) -> None:
    life = two_pools(store, 1)
    life.step()
    [node] = life.world.nodes
    kept: Any = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    life.world.add_pod(PodSpec(namespace="x", name="db", owner_kind="StatefulSet", node=node, annotations=kept))
    life.world.faults.lose_gpu(node)
    life.run(40 * MINUTE)
    assert [(p.name, p.node) for p in life.world.active_pods.values()] == [("db", node)]
    assert life.writes("retire") == []


@pytest.mark.chores(True)
def test_two_kinds_of_pods_of_one_owner_that_fit_nowhere_are_each_told_once(store: Store) -> None:
    life = lives.at_zero(store)
    for name, gpus in (("master", 16), ("worker", 32)):
        spec = PodSpec(namespace="ml", name=name, requests={GPU: gpus}, owner_kind="PyTorchJob", owner_name="big")
        life.world.add_pod(spec)
    life.pass_time(timedelta(seconds=2))
    life.run(10 * MINUTE)
    assert sorted(life.notices()) == ["No GPU pool can hold ml/master", "No GPU pool can hold ml/worker"]


@pytest.mark.parametrize("source", ["cloud", "cluster", "telemetry", "alarms"])
def test_an_answer_that_nobody_foresaw_makes_its_source_silent_and_ends_no_step(store: Store, source: str) -> None:
    life = lives.waiting(store)
    getattr(life, source).fail_next(OverflowError("date value out of range"), "look")
    facts = life.step().facts
    silent = [s for s in facts.sources.values() if not s.up and "not understood (OverflowError)" in s.detail]
    assert len(silent) == 1
    life.run(timedelta(minutes=1))
    assert life.required() == 1
