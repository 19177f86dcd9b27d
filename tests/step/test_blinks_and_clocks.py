"""Clocks that jump, sources that blink, nodes that refuse: each went wrong once."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.model import Source
from receiver.core.model.policy import Budget, Limits
from receiver.core.model.signals import HEARTBEAT_ALERT, Alert
from receiver.ports import Delivery, Did, Receipt, Store, TryLater, WontWork
from receiver.replay.world.objects import Behaviour
from receiver.step.reconcile import step
from tests.core.builders import HOUR, MINUTE, a_pod, a_pool
from tests.expect import removed
from tests.given import lives
from tests.given.life import FAST, START, Wrapped, a_job

pytestmark = pytest.mark.chores(False)


def test_one_lost_answer_of_kubernetes_buys_no_node_beside_an_idle_one(store: Store) -> None:
    """kube-state-metrics is a scrape and a rule evaluation late: it still shows the pod that an idle node is for."""
    life = lives.waiting(store)
    life.run(30 * MINUTE)
    [node] = life.steps[-1].facts.pool("l40s-id").nodes
    assert node.idle_since is not None
    look = life.telemetry.look
    late = a_pod("late", pool_hint="unassigned", created_at=life.now)
    life.telemetry.look = lambda: replace(look(), waiting=(late,))  # type: ignore[method-assign]
    life.cluster.fail_next(TryLater("it did not answer in time", code="timeout"), "look")
    life.step()
    assert life.required() == 1


def test_removals_that_join_an_open_action_stay_within_the_hourly_limit(store: Store) -> None:
    life = lives.waiting(
        store, a_job("one"), behaviour=Behaviour(decrement=12 * MINUTE), limits=Limits(max_removals_per_hour=1)
    )
    life.run(2 * MINUTE)
    life.submit(a_job("two"))
    life.run(64 * MINUTE)
    assert removed(life) <= 1


def test_a_floor_holds_while_the_count_falls_late(store: Store) -> None:
    pool = a_pool(min_nodes=1)
    life = lives.at_zero(store, pool, behaviour=Behaviour(decrement=12 * MINUTE))
    life.run(2 * MINUTE)
    life.submit(a_job("one"), a_job("two"))
    life.run(80 * MINUTE)
    assert sum(vm.gone_at is None for vm in life.world.lives) >= 1
    assert removed(life) <= 1


def test_heartbeats_are_heard_again_after_one_under_a_clock_a_day_ahead(store: Store) -> None:
    life = lives.at_zero(store)
    alert = Alert(fingerprint="beat", labels={"alertname": HEARTBEAT_ALERT, "action": "heartbeat"}, starts_at=START)
    life.store.remember(Delivery(receiver="t", group_key="g", alerts=(alert,)), life.now + timedelta(days=1))
    life.run(5 * MINUTE)
    assert life.steps[-1].facts.up(Source.HEARTBEAT)


def test_a_heartbeat_that_came_under_a_clock_a_day_ahead_counts_for_nothing(store: Store) -> None:
    """Else the alerts that stop growth could be missing for a day, and nobody would notice."""
    life = lives.at_zero(store, heartbeats=False)
    alert = Alert(fingerprint="beat", labels={"alertname": HEARTBEAT_ALERT, "action": "heartbeat"}, starts_at=START)
    life.store.remember(Delivery(receiver="t", group_key="g", alerts=(alert,)), life.now + timedelta(days=1))
    assert not life.step().facts.up(Source.HEARTBEAT)


def test_a_back_off_set_by_a_clock_a_day_ahead_does_not_last_a_day(store: Store) -> None:
    life = lives.waiting(store)
    life._beat()
    ahead = life.now + timedelta(days=1)
    alert = Alert(fingerprint="beat", labels={"alertname": HEARTBEAT_ALERT, "action": "heartbeat"}, starts_at=START)
    life.store.remember(Delivery(receiver="t", group_key="g", alerts=(alert,)), life.now)
    life.cloud.fail_next(WontWork("none left", code="gpu_count_exceeded"), "resize")
    step(life.sources, life.hands, life.policy, life.mode, ahead)
    life.run(HOUR)
    assert len(life.writes("resize")) == 1


@pytest.mark.chores(True)
def test_a_hold_that_comes_and_goes_with_short_lived_pods_does_not_flood(store: Store) -> None:
    life = lives.at_zero(store, budget=Budget(monthly_usd=Decimal("1.00")))
    for number in range(12):
        life.submit(a_job(f"j{number}"))
        life.run(30 * timedelta(seconds=1))
        life.world.cancel_job(f"j{number}")
        life.run(30 * timedelta(seconds=1))
    assert sum("held" in t or "does not grow" in t for t in life.notices()) <= 6


def test_one_node_that_may_not_be_drained_costs_the_others_no_paid_hour(store: Store) -> None:
    life = lives.at_zero(store)
    kept: list[str] = []

    def drain(node: str, **asked: Any) -> Receipt:
        kept[:] = kept or [node]
        if node in kept:
            return Receipt(did=Did.DIFFERS, sentence=f"node {node} stays: ml/notebook is protected")
        return life.cluster.drain(node, **asked)

    life.wrap_cluster = lambda inner: Wrapped(inner, drain=drain)
    life.submit(a_job("first"))
    life.run(2 * HOUR + 6 * MINUTE)  # its window has come twice, and failed
    assert len(life.world.lives) == 1
    life.submit(*(a_job(f"more{n}") for n in range(2)))
    life.run(2 * HOUR)
    others = [vm for vm in life.world.lives if vm.hostname not in kept]
    assert others
    assert all(vm.gone_at is not None and vm.gone_at - vm.created_at <= HOUR for vm in others)


@pytest.mark.chores(True)
def test_a_cluster_that_is_being_rescaled_for_minutes_is_no_failure(store: Store) -> None:
    """Civo may refuse a second resize while nodes build: that is normal, and every pool meets it alike."""
    timings = replace(FAST, build=6 * MINUTE)
    life = lives.waiting(store, a_job("one"), timings=timings, behaviour=Behaviour(rescale_conflict=True))
    life.run(MINUTE)
    life.submit(a_job("two"))
    life.run(12 * MINUTE)
    assert life.required() == 2
    assert not any("could not grow" in t or "refused" in t for t in life.notices())


def test_a_short_restart_of_the_device_plugin_buys_no_node(store: Store) -> None:
    """For seconds the node offers no GPU; the pod that waits would start there right after."""
    life = lives.waiting(store)
    life.run(30 * MINUTE)
    look = life.cluster.look
    waiting = a_pod("late", created_at=life.now)

    def restarting() -> Any:
        found = look()
        nodes = tuple(replace(n, allocatable={}) for n in found.nodes)
        return replace(found, nodes=nodes, pods=(*found.pods, waiting))

    life.cluster.look = restarting  # type: ignore[method-assign]
    life.run(timedelta(seconds=15))
    assert life.required() == 1
