"""Stories of pods that end slowly, of nodes that are reserved before a pod is bound, and of kubelets that die."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from receiver.ports import Store
from simulator.slow_pods import BINDS_IN, FAILS, KEEPS_NOMINATION
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import bought, living, phases, titles
from tests.given import lives
from tests.given.life import GPU, POOL, Life, a_job

pytestmark = pytest.mark.chores(False)

GRACES = (timedelta(0), 30 * SECOND, 120 * SECOND)
LONG = 10 * HOUR


def serving(store: Store, gpus: int = 1) -> Life:
    """A pod of a ReplicaSet fills the only node of a pool."""
    life = lives.idle_nodes(store, 1, a_pool(resources={GPU: gpus}))
    life.submit(a_job("serve", owner_kind="ReplicaSet", duration=LONG, gpus_per_pod=gpus))
    life.run(MINUTE)
    return life


def restart(life: Life, grace: timedelta) -> None:
    """A person deletes the pod that runs; its successor waits for the same room."""
    name = next(name for (_, name), pod in life.world.active_pods.items() if pod.deletion_at is None)
    life.world.delete_pod("ml", name, grace)


def run_until(life: Life, done: Callable[[], object], within: timedelta) -> timedelta:
    """Run until *done*; return how long that took."""
    began = life.now
    while not done():
        assert life.now - began < within
        life.run(10 * SECOND)
    return life.now - began


@pytest.mark.parametrize("gpus", [1, 8])
@pytest.mark.parametrize("grace", GRACES, ids=lambda grace: f"{grace.total_seconds():.0f}s")
def test_restarts_buy_nothing(store: Store, grace: timedelta, gpus: int) -> None:
    life = serving(store, gpus)
    for _ in range(5):
        restart(life, grace)
        life.run(grace + MINUTE)
        assert phases(life) == {"Running"}
    assert bought(life) == 1


def test_a_restart_that_takes_longer_than_a_node_buys_one_at_once(store: Store) -> None:
    life = serving(store)
    restart(life, HOUR)
    life.run(30 * SECOND)
    assert bought(life) == 2


def test_real_need_beside_a_restart_is_bought_at_once(store: Store) -> None:
    life = serving(store)
    restart(life, 60 * SECOND)
    life.submit(a_job("more"))
    life.step()
    assert life.required() == 2


def test_a_reserved_node_stays_past_its_paid_hour(store: Store) -> None:
    life = lives.idle_nodes(store)
    life.run(HOUR - 5 * MINUTE - 40 * SECOND)
    life.submit(a_job("slow", duration=HOUR, annotations={BINDS_IN: "400"}))
    life.run(8 * MINUTE)
    assert life.writes("retire") == []
    assert life.world.pods["ml", "slow-0"].phase == "Running"


def test_a_reserved_node_is_given_to_no_other_work(store: Store) -> None:
    life = lives.idle_nodes(store)
    life.submit(a_job("slow", duration=HOUR, annotations={BINDS_IN: "400"}))
    life.submit(a_job("other"))
    life.run(30 * SECOND)
    assert bought(life) == 2


def test_a_binding_that_fails_again_and_again_neither_buys_nor_loses_a_node(store: Store) -> None:
    life = lives.idle_nodes(store)
    life.submit(a_job("slow", duration=HOUR, annotations={BINDS_IN: "240", FAILS: "2"}))
    life.run(13 * MINUTE)
    assert life.world.pods["ml", "slow-0"].phase == "Running"
    assert bought(life) == 1


@pytest.mark.chores(True)
def test_a_nomination_that_outlives_its_node_is_demand_again_and_told(store: Store) -> None:
    life = lives.idle_nodes(store)
    life.run(30 * SECOND)
    life.submit(a_job("slow", duration=HOUR, annotations={BINDS_IN: "30", KEEPS_NOMINATION: "true"}))
    [node] = list(life.world.nodes)
    life.world.delete_node(node)
    assert run_until(life, lambda: bought(life) == 2, 10 * MINUTE) >= 110 * SECOND
    life.run(10 * SECOND)
    assert titles(life, "nominated to node", node)


def test_nothing_is_billed_to_a_team_before_its_pod_is_bound(store: Store) -> None:
    life = lives.idle_nodes(store)
    life.submit(a_job("slow", duration=HOUR, annotations={BINDS_IN: "500"}))
    life.run(4 * MINUTE)
    assert {pod.phase for node in life.step().facts.pool(POOL).nodes for pod in node.pods} == {"reserved"}
    assert [life_.bound_at for life_ in store.memory(life.now, life.now - HOUR).lives] == [None]


@pytest.mark.chores(True)
def test_a_node_whose_kubelet_died_goes_although_its_pods_stay_terminating(store: Store) -> None:
    life = serving(store)
    life.run(2 * MINUTE)
    [node] = list(life.world.nodes)
    life.world.kubelet_dies(node)
    run_until(life, lambda: node not in {vm.hostname for vm in living(life)}, HOUR)
    assert titles(life, "stays Terminating", node)
    life.run(10 * MINUTE)
    assert phases(life) == {"Running"}


def test_a_node_whose_kubelet_died_a_moment_ago_stays(store: Store) -> None:
    life = serving(store)
    life.run(2 * MINUTE)
    [node] = list(life.world.nodes)
    life.world.kubelet_dies(node)
    life.run(15 * MINUTE)  # its pods are asked to end after five minutes, and stuck two minutes later
    assert node in {vm.hostname for vm in living(life)}
