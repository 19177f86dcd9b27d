"""Ways to be stuck, to loop or to starve: each happened once."""

import contextlib
import threading
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.actions import VictimStage
from receiver.ports import CORDON_ANNOTATION, Did, Receipt, Store, TryLater, WontWork
from receiver.replay.world.objects import Behaviour
from receiver.runtime.loop import Loop
from tests.core.builders import EVERY_SECOND, HOUR, MINUTE, NOW, a_node, a_pool, a_state, facts, run
from tests.core.builders import a_policy as core_policy
from tests.expect import removed
from tests.given import lives
from tests.given.life import SIZE, START, Life, Wrapped, a_job, until_cordoned

pytestmark = pytest.mark.chores(False)

POOL = "kubernetes.civo.com/civo-node-pool"
DEAR = {"size": "an.g1.l40s.kube.x2", "price_usd_per_hour": Decimal("2.00")}  # of another size


# --- other pools are tried


def test_a_growth_that_only_ever_meets_try_later_gives_way_to_another_pool(store: Store) -> None:
    life = lives.two_pools(store, other=DEAR)
    life.submit(a_job(duration=5 * HOUR))
    a = life.cloud

    def resize(pool: str, **given: Any) -> Receipt:
        if pool == "a-id":
            raise TryLater("internal error", code="http_500")
        return a.resize(pool, **given)

    life.wrap_cloud = lambda inner: Wrapped(inner, resize=resize)
    life.run(HOUR)
    assert life.required("b-id") == 1


@pytest.mark.chores(True)
def test_a_growth_that_only_ever_meets_try_later_is_told(store: Store) -> None:
    life = lives.waiting(store, a_job(duration=5 * HOUR))

    def resize(pool: str, **given: Any) -> Receipt:
        raise TryLater("internal error", code="http_500")

    life.wrap_cloud = lambda inner: Wrapped(inner, resize=resize)
    life.run(HOUR, tick=MINUTE)
    assert list(life.notices())


def test_a_node_that_is_stuck_building_does_not_keep_work_from_another_pool(store: Store) -> None:
    life = lives.two_pools(store, other=DEAR)
    life.world.faults.stuck_building("a-id")
    life.submit(a_job(duration=5 * HOUR))
    life.run(HOUR)
    assert life.required("b-id") == 1


@pytest.mark.chores(True)
@pytest.mark.parametrize("fault", ["stuck_building", "gpu_never"])
def test_a_node_that_never_becomes_usable_is_told(store: Store, fault: str) -> None:
    life = lives.at_zero(store)
    getattr(life.world.faults, fault)("l40s-id")
    life.submit(a_job(duration=5 * HOUR))
    life.run(2 * HOUR)
    assert [t for t in life.notices() if "0 -> 1" not in t]


def test_a_count_that_civo_took_and_never_builds_gives_way_to_another_pool(store: Store) -> None:
    life = lives.two_pools(store, other=DEAR, behaviour=Behaviour(partial_fill=True), stock={SIZE: 0})
    life.submit(a_job(duration=5 * HOUR))
    life.run(HOUR, tick=MINUTE)
    assert life.required("b-id") == 1


@pytest.mark.chores(True)
def test_a_count_that_civo_took_and_never_builds_is_told(store: Store) -> None:
    life = lives.waiting(store, a_job(duration=5 * HOUR), behaviour=Behaviour(partial_fill=True), stock={SIZE: 0})
    life.run(HOUR, tick=MINUTE)
    assert [t for t in life.notices() if "0 -> 1" not in t]


def test_an_old_node_that_lost_its_gpu_does_not_stop_the_pool_from_growing(store: Store) -> None:
    life = lives.waiting(store, a_job(duration=10 * HOUR))
    life.run(HOUR)
    [name] = life.world.nodes
    look = life.cluster.look

    def without_gpus() -> Any:
        found = look()
        return replace(found, nodes=tuple(replace(n, allocatable={}) if n.name == name else n for n in found.nodes))

    life.cluster.look = without_gpus  # type: ignore[method-assign]
    life.submit(a_job("second"))
    life.run(10 * MINUTE)
    assert life.required() == 2


# --- removals


def test_a_removal_that_fails_for_good_is_not_tried_again_at_every_tick(store: Store) -> None:
    life = lives.at_zero(store)
    tries = []

    def cordon(node: str, action: str) -> Receipt:
        tries.append(life.now)
        raise WontWork("grant the verb patch on nodes", code="http_403")

    life.wrap_cluster = lambda inner: Wrapped(inner, cordon=cordon)
    life.submit(a_job())
    life.run(60 * MINUTE)
    assert 1 <= len(tries) <= 5


def test_a_removal_that_fails_does_not_keep_the_pool_from_growing(store: Store) -> None:
    life = lives.at_zero(store)

    def cordon(node: str, action: str) -> Receipt:
        raise WontWork("grant the verb patch on nodes", code="http_403")

    life.wrap_cluster = lambda inner: Wrapped(inner, cordon=cordon)
    life.submit(a_job())
    life.run(60 * MINUTE)
    before = life.required()
    life.submit(*(a_job(f"more{n}") for n in range(3)))
    life.run(3 * MINUTE)
    assert life.required() > before


@pytest.mark.chores(True)
def test_a_node_whose_drain_is_refused_is_not_cordoned_again_and_again(store: Store) -> None:
    """A CPU pod with safe-to-evict: false stands there: the look does not show it, the drain does."""
    life = lives.at_zero(store)

    def drain(node: str, **_: object) -> Receipt:
        return Receipt(did=Did.DIFFERS, sentence=f"node {node} stays: ml/notebook is protected")

    life.wrap_cluster = lambda inner: Wrapped(inner, drain=drain)
    life.submit(a_job())
    life.run(60 * MINUTE)
    assert len(life.writes("cordon")) <= 2
    assert sum("called off" in t for t in life.notices()) <= 1


@pytest.mark.chores(True)
def test_a_replacement_that_civo_builds_stops_the_removals_of_the_pool(store: Store) -> None:
    life = lives.waiting(store, behaviour=Behaviour(decrement="never"))
    life.run(3 * HOUR, tick=timedelta(seconds=30))
    assert removed(life) == 1
    assert any("removals stop until" in t for t in life.notices())


def test_a_pod_that_wants_a_cordoned_node_does_not_wait_for_the_retry_of_its_drain(store: Store) -> None:
    life = lives.at_zero(store)

    def drain(node: str, **_: object) -> Receipt:
        raise TryLater("too many requests", code="http_429", delay=timedelta(minutes=30))

    life.wrap_cluster = lambda inner: Wrapped(inner, drain=drain)
    node = until_cordoned(life)
    life.run(timedelta(seconds=15))
    life.submit(a_job("late"))
    life.run(2 * MINUTE)
    assert not life.world.nodes[node].unschedulable


def test_a_node_that_a_person_makes_schedulable_again_is_not_deleted(store: Store) -> None:
    life = lives.at_zero(store)
    node = until_cordoned(life)
    life.world.patch_node(node, unschedulable=False)
    life.run(timedelta(seconds=15))
    assert life.writes("retire") == []


def test_a_pod_bound_after_the_last_look_to_a_node_that_lost_its_cordon_is_not_killed(store: Store) -> None:
    life = lives.at_zero(store)
    node = until_cordoned(life)
    life.world.patch_node(node, unschedulable=False)

    def gpu_pods_on(name: str) -> Any:
        found = life.cluster.gpu_pods_on(name)
        life.submit(a_job("late"))
        return found

    life.wrap_cluster = lambda inner: Wrapped(inner, gpu_pods_on=gpu_pods_on)
    life.world.advance(life.now + timedelta(seconds=5))
    life.step()
    life.world.advance(life.now + MINUTE)
    assert life.world.kills == []


# --- configuration and mode changes


def test_an_open_action_of_a_pool_that_left_the_configuration_is_closed(store: Store) -> None:
    life = lives.two_pools(store, other=DEAR)
    life.submit(a_job(duration=5 * HOUR))
    life.cloud.fail_next(TryLater("already rescaling"), "resize")
    life.step()
    life.policy = replace(life.policy, pools=life.policy.pools[1:])
    life.run(HOUR)
    assert [a for a in life.store.actions(pool="a-id") if a.outcome is None] == []


def test_a_cordon_of_ours_in_a_pool_that_left_the_configuration_is_lifted(store: Store) -> None:
    life = lives.two_pools(store, other=DEAR)
    node = until_cordoned(life)
    life.policy = replace(life.policy, pools=life.policy.pools[1:])
    life.run(HOUR)
    assert CORDON_ANNOTATION not in life.world.nodes[node].annotations


def test_what_was_observed_is_done_once_the_mode_is_act(store: Store) -> None:
    pool = a_pool(grow_cooldown=timedelta(0))
    life = lives.waiting(store, pool=pool, mode="observe")
    life.run(MINUTE)
    life.mode, life.wrap_cloud, life.wrap_cluster = "act", None, None
    life.run(10 * MINUTE)
    assert life.required() == 1


def test_a_removal_under_way_is_not_noted_as_deleted_when_the_mode_becomes_observe(store: Store) -> None:
    life = lives.in_removal(store)
    lives.observing(life)
    life.run(MINUTE)
    newest = life.store.actions()[0]
    assert all(v.stage is not VictimStage.DELETED for v in newest.action.victims)


# --- clocks, spinning, failures


def test_reconsider_at_is_not_every_second_where_seconds_are_billed() -> None:
    node = a_node(idle_since=NOW - MINUTE, created_at=NOW - timedelta(minutes=20, milliseconds=900))
    _, decisions = run(facts(a_state(node)), core_policy(billing=EVERY_SECOND))
    moment = decisions["l40s"].reconsider_at
    assert moment is None or moment - NOW > timedelta(seconds=5)


def test_a_clock_that_was_a_day_ahead_for_a_moment_does_not_stop_growth_for_a_day(store: Store) -> None:
    from receiver.step.reconcile import step

    life = lives.waiting(store)
    ahead = life.now + timedelta(days=1)
    beat = life._beat
    beat()
    life.cloud.fail_next(TryLater("already rescaling"), "resize")
    life.heartbeats = True
    step(life.sources, life.hands, life.policy, life.mode, ahead)  # one step with a wrong clock
    life.run(10 * MINUTE)
    assert life.required() == 1


def test_a_heartbeat_heard_under_a_wrong_clock_does_not_count_for_ever(store: Store) -> None:
    from receiver.core.model.model import Source
    from receiver.core.model.signals import HEARTBEAT_ALERT, Alert
    from receiver.ports import Delivery

    life = lives.at_zero(store, heartbeats=False)
    alert = Alert(fingerprint="beat", labels={"alertname": HEARTBEAT_ALERT, "action": "heartbeat"}, starts_at=START)
    delivery = Delivery(receiver="t", group_key="g", alerts=(alert,))
    life.store.remember(delivery, life.now + timedelta(days=1))
    life.run(HOUR)
    assert not life.steps[-1].facts.up(Source.HEARTBEAT)


def test_a_bug_met_in_one_pool_does_not_stop_the_others(store: Store) -> None:
    life = lives.two_pools(store, other=DEAR)
    life.submit(a_job("ja", node_selector={POOL: "a-id"}), a_job("jb", node_selector={POOL: "b-id"}))
    real = life.cloud

    def resize(pool: str, **given: Any) -> Receipt:
        if pool == "a-id":
            raise RuntimeError("a bug in a library")
        return real.resize(pool, **given)

    life.wrap_cloud = lambda inner: Wrapped(inner, resize=resize)
    for _ in range(5):
        with contextlib.suppress(RuntimeError):
            life.step()
        life.world.advance(life.now + timedelta(seconds=10))
    assert life.required("b-id") == 1


def test_the_loop_outlives_a_lock_that_cannot_be_asked_for() -> None:
    asked = threading.Event()

    class Writer:
        tries = 0
        leader = None

        def try_acquire(self) -> bool:
            self.tries += 1
            if self.tries == 1:
                raise TryLater("store: the writer lock cannot be asked for", code="store")
            asked.set()
            return False

        def held(self) -> bool:
            return False

        def release(self) -> None:
            pass

    class Clock:
        def now(self) -> Any:
            return START

    class Timer:
        def stepped(self, seconds: float, *, failed: bool, failures: object = ()) -> None:
            pass

    threading.excepthook, before = (lambda _args: None), threading.excepthook
    try:
        loop = Loop(lambda _now: pytest.fail("no step"), Writer(), Clock(), timedelta(seconds=1), Timer())
        loop.start()
        assert asked.wait(60)
    finally:
        loop.stop()
        threading.excepthook = before


def test_a_node_without_created_at_at_civo_ages_from_when_it_was_first_seen(store: Store) -> None:
    """Civo may leave created_at out while it builds; the adapter then says `now` at every look."""
    life = lives.at_zero(store)
    life.world.faults.stuck_building("l40s-id")
    look = life.cloud.look

    def young() -> Any:
        return {
            key: replace(p, instances=tuple(replace(i, created_at=life.now) for i in p.instances))
            for key, p in look().items()
        }

    life.cloud.look = young  # type: ignore[method-assign]
    life.submit(a_job(duration=5 * HOUR))
    life.run(19 * MINUTE)
    assert life.writes("retire") == []
    life.run(3 * MINUTE)
    assert removed(life) == 1  # stuck for 20 minutes, however young Civo calls it


@pytest.mark.chores(True)
def test_a_node_that_kubernetes_knows_by_another_identity_is_never_deleted_as_stuck(store: Store) -> None:
    """Without a provider id no node joins its instance: the instance looks as if it never came up, and work runs."""
    life = lives.at_zero(store)
    look, pods_on = life.cluster.look, life.cluster.gpu_pods_on

    def renamed() -> Any:
        found = look()
        nodes = tuple(replace(n, instance="", name=f"k-{n.name}") for n in found.nodes)
        return replace(found, nodes=nodes, pods=tuple(replace(p, node=p.node and f"k-{p.node}") for p in found.pods))

    life.cluster.look = renamed  # type: ignore[method-assign]
    life.cluster.gpu_pods_on = lambda node: pods_on(node.removeprefix("k-")) if node.startswith("k-") else []  # type: ignore[method-assign]
    life.submit(a_job(duration=5 * HOUR))
    life.run(HOUR)
    assert life.world.kills == []
    assert life.writes("retire") == []
    assert any("no Civo instance" in t for t in life.notices())


def test_events_that_cannot_be_written_do_not_hold_up_the_step(store: Store) -> None:
    """Each try may cost 35 s; the first failure says enough."""
    life = lives.at_zero(store, a_pool(max_nodes=50))
    calls = []

    def record_event(pod: Any, **given: Any) -> Receipt:
        calls.append(pod.key)
        raise TryLater("it did not answer in time", code="timeout")

    life.wrap_cluster = lambda inner: Wrapped(inner, record_event=record_event)
    life.submit(a_job(pods=40))
    life.step()
    assert len(calls) <= 5


@pytest.mark.chores(True)
def test_an_end_that_could_not_be_told_in_its_step_is_told_later(store: Store) -> None:
    life = lives.at_zero(store)
    failures = [TryLater("store: database is locked", code="store")]

    def say(notice: Any, at: Any) -> bool:
        if failures and notice.topic.startswith("action:"):
            raise failures.pop()
        return bool(store.say(notice, at))

    life.store = Wrapped(store, say=say)
    life.submit(a_job())
    life.run(5 * MINUTE)
    assert "GPU pool l40s: 0 -> 1 nodes" in list(life.notices())


def test_a_resolved_alert_counts_after_the_clock_was_set_back(store: Store) -> None:
    from receiver.core.model.signals import Alert
    from receiver.ports import Delivery

    def told(firing: bool) -> Delivery:
        alert = Alert(fingerprint="f", labels={"action": "freeze"}, starts_at=START, firing=firing)
        return Delivery(receiver="r", group_key="g", alerts=(alert,))

    store.remember(told(True), START + HOUR)
    store.remember(told(False), START)
    assert [a.firing for a in store.remembered_alerts(START - 4 * MINUTE)] == [False]


@pytest.mark.chores(True)
def test_a_node_whose_pods_come_back_as_fast_as_they_are_evicted_is_given_up(store: Store) -> None:
    life = lives.at_zero(store, billing=EVERY_SECOND)

    def drain(node: str, **_: object) -> Receipt:
        raise TryLater(f"web/web0 still leaving {node}", code="draining", delay=timedelta(seconds=5))

    life.wrap_cluster = lambda inner: Wrapped(inner, drain=drain)
    until_cordoned(life)
    for _ in range(20):
        life.step()
        life.pass_time(MINUTE)
    assert any("removal stopped" in t for t in life.notices())
    assert [n.unschedulable for n in life.world.nodes.values()] == [False]


# --- a removal that Civo's list ended


def a_partial_list(life: Life) -> None:
    """One step in which Civo lists no instance and counts none."""
    shown = life.cloud.look
    life.cloud.look = lambda: {pool: replace(p, required=0, instances=()) for pool, p in shown().items()}  # type: ignore[method-assign]
    life.step()
    del life.cloud.look


def test_work_gets_a_node_though_one_stays_cordoned_that_a_partial_list_showed_as_deleted(store: Store) -> None:
    life = lives.at_zero(store)
    node = until_cordoned(life)
    a_partial_list(life)
    life.submit(a_job("later"))
    life.run(HOUR)
    assert "later" in [job.id for job in life.world.finished]
    life.run(2 * HOUR)
    assert node not in life.world.nodes
