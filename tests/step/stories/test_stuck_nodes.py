"""Stories of nodes that never come up: told, taken away by name, and not bought again and again."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from receiver.core.model.policy import POOL_LABEL
from receiver.ports import CloudPool, ClusterFacts, ClusterNode, Store
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import bought, living, phases, titles
from tests.given import lives, troubles
from tests.given.life import BIG_SIZE, FAST, POOL, PRICE, START, Life, Wrapped, a_job
from tests.given.pods import bound

pytestmark = pytest.mark.chores(False)

NEVER = 1000
# Bought at 0, then probed after each back-off of 30, 60, 120, 240 and 480 minutes, each of which begins when the
# last node has been stuck for its 20 minutes: at 50, 130, 270, 530 and 1030 minutes. The next would be at 2010.
PROBES_IN_A_DAY = 6


def stuck_life(store: Store, fault: str, count: int = NEVER, jobs: int = 1) -> Life:
    """*jobs* jobs wait, and the next *count* nodes never become usable."""
    life = lives.at_zero(store)
    getattr(life.world.faults, fault)(POOL, count)
    life.submit(*(a_job(f"j{n}", duration=100 * HOUR) for n in range(jobs)))
    return life


faults = pytest.mark.parametrize("fault", ["gpu_never", "stuck_building"])


@pytest.mark.chores(True)
@faults
def test_a_node_that_is_not_usable_in_time_is_told_and_deleted_by_name(store: Store, fault: str) -> None:
    """karpenter-azure #1790: a node that registers and never shows its GPU has no timeout; it bills for ever, and
    its pods wait for ever. civo gpu-config.md: so does a single H100 without the NVLink option."""
    life = stuck_life(store, fault)
    life.run(22 * MINUTE)
    [vm] = life.world.lives
    assert [args for _, args in life.writes("retire")] == [(POOL, vm.id)]
    assert not vm.living
    assert len(titles(life, vm.hostname)) >= 1
    assert life.required() == 0


@faults
def test_a_pool_whose_gpus_never_come_buys_six_nodes_in_a_day_and_not_seventy_two(store: Store, fault: str) -> None:
    """karpenter-azure #1790 with a timeout alone: every twenty minutes another node, each for a paid hour."""
    life = stuck_life(store, fault)
    life.run(24 * HOUR, tick=5 * MINUTE)
    assert bought(life) == PROBES_IN_A_DAY
    assert all(not vm.living or life.now - vm.created_at < 25 * MINUTE for vm in life.world.lives)


def test_after_a_failure_one_node_probes_for_all_that_wait(store: Store) -> None:
    life = stuck_life(store, "gpu_never", count=4, jobs=4)
    life.run(22 * MINUTE)
    assert (bought(life), life.required()) == (4, 0)
    life.run_until(lambda: bought(life) > 4)
    assert 50 * MINUTE <= life.now - START <= 55 * MINUTE
    life.run(3 * MINUTE)
    assert bought(life) == 5  # the probe, until its GPU is there
    life.run(10 * MINUTE)
    assert bought(life) == 8  # it works, so the others are bought too
    assert phases(life) == {"Running"}


def test_the_back_off_outlives_the_process_and_ends_with_the_first_node_that_works(store: Store) -> None:
    life = stuck_life(store, "gpu_never", count=2)
    life.run(22 * MINUTE)
    again = lives.restarted(life, store)
    first = again.step().facts.pool(POOL).backoffs.provisioning
    assert first is not None
    assert first.failures == 1
    assert 25 * MINUTE <= first.until - again.now <= 34 * MINUTE
    again.run(55 * MINUTE)
    second = again.step().facts.pool(POOL).backoffs.provisioning
    assert second is not None
    assert second.failures == 2
    again.run(90 * MINUTE, tick=20 * SECOND)
    assert len(living(again)) == 1
    assert again.step().facts.pool(POOL).backoffs.provisioning is None


def test_the_hold_is_named_while_it_lasts(store: Store) -> None:
    """detent #1757: a hold under a wrong name sends people to the wrong place."""
    life = stuck_life(store, "gpu_never")
    life.run(30 * MINUTE)
    decision = life.steps[-1].decisions[POOL]
    assert decision.deciding.rule == "provisioning_works"
    assert decision.reconsider_at is not None


def test_work_goes_to_another_pool_meanwhile(store: Store) -> None:
    life = lives.at_zero(
        store, a_pool(), a_pool(id="dear-id", name="dear", size=BIG_SIZE, price_usd_per_hour=2 * PRICE)
    )
    life.world.faults.gpu_never(POOL, NEVER)
    life.submit(a_job("one", duration=20 * HOUR))
    life.run(30 * MINUTE)
    assert [p.phase for p in life.world.active_pods.values()] == ["Running"]
    life.submit(a_job("two", duration=20 * HOUR, submit_at=life.now))
    life.run(10 * MINUTE)
    assert (bought(life), bought(life, "dear-id")) == (1, 2)


def test_a_node_that_is_late_and_comes_up_after_all_is_used(store: Store) -> None:
    """It was usable before it was taken away: then it is a node like any other."""
    life = lives.waiting(store, a_job(duration=10 * MINUTE), timings=replace(FAST, driver=17 * MINUTE))
    life.run(40 * MINUTE)
    assert len(life.world.finished) == 1
    assert life.writes("retire") == []


def test_a_status_that_nobody_documents_is_given_the_same_time(store: Store) -> None:
    """A word that Civo adds to its list must not make us delete every node that passes through it."""
    life = lives.at_zero(store)
    look = life.cloud.look

    def renamed() -> Mapping[str, CloudPool]:
        return {
            k: replace(
                p,
                instances=tuple(
                    replace(i, status="PROVISIONING" if i.status == "BUILDING" else i.status) for i in p.instances
                ),
            )
            for k, p in look().items()
        }

    life.cloud.look = renamed  # type: ignore[method-assign]
    life.submit(a_job())
    life.run(20 * MINUTE)
    assert bought(life) == 1
    assert len(life.world.finished) == 1


@faults
def test_a_stuck_node_counts_as_spent_for_its_paid_hour(store: Store, fault: str) -> None:
    life = stuck_life(store, fault)
    life.run(25 * MINUTE)
    spent = life.step().facts.spend.usd
    assert spent == PRICE


@pytest.mark.chores(True)
@pytest.mark.parametrize("fault", ["lose_gpu", "not_ready"])
def test_a_node_that_broke_and_holds_no_pod_is_retired_after_the_timeout(store: Store, fault: str) -> None:
    """Karpenter's node repair waits 10 to 30 minutes; where nobody repairs, the broken node is paid for ever."""
    life = lives.idle_nodes(store, 2)
    broken, sound = life.world.lives
    life.run(5 * MINUTE)
    getattr(life.world.faults, fault)(broken.hostname)
    life.run(19 * MINUTE)
    assert life.writes("retire") == []
    life.run(5 * MINUTE)
    assert [args for _, args in life.writes("retire")] == [(POOL, broken.id)]
    assert sound.living
    assert titles(life, broken.hostname)


@pytest.mark.parametrize("fault", ["lose_gpu", "not_ready"])
def test_a_node_that_broke_under_a_pod_is_left_to_it(store: Store, fault: str) -> None:
    """civo/node-agent reboots it; what runs there may go on, and its owner decides."""
    life = lives.idle_nodes(store)
    [node] = life.world.nodes
    life.world.add_pod(bound("works", node))
    life.run(MINUTE)
    getattr(life.world.faults, fault)(node)
    life.run(5 * HOUR, tick=5 * MINUTE)
    assert life.writes("retire", "cordon") == []
    assert life.world.kills == []


@pytest.mark.parametrize("fault", ["lose_gpu", "not_ready"])
def test_a_node_that_recovers_in_time_stays_and_works(store: Store, fault: str) -> None:
    life = lives.idle_nodes(store)
    [node] = life.world.nodes
    life.run(5 * MINUTE)
    for _ in range(3):
        getattr(life.world.faults, fault)(node)
        life.run(8 * MINUTE)
        life.world.faults.recover(node)
        life.run(2 * MINUTE)
    life.submit(a_job(submit_at=life.now, duration=5 * MINUTE))
    life.run(10 * MINUTE)
    assert bought(life) == 1
    assert len(life.world.finished) == 1


def test_without_kubernetes_no_node_is_taken_for_broken(store: Store) -> None:
    """Who cannot see a node must not judge it."""
    life = lives.idle_nodes(store, 2)
    life.run(2 * MINUTE)
    troubles.kubernetes_down(life)
    life.run(5 * HOUR, tick=5 * MINUTE)
    assert life.writes("retire") == []


@pytest.mark.chores(True)
def test_nothing_is_removed_where_kubernetes_answers_for_another_cluster_than_civo(store: Store) -> None:
    """A wrong kubectl context: none of our instances has a node there, and the work on them is not seen."""
    life = lives.idle_nodes(store, 2)
    life.submit(a_job("one", duration=100 * HOUR), a_job("two", duration=100 * HOUR))
    node = ClusterNode(name="elsewhere", instance="other", ready=True, unschedulable=False, labels={POOL_LABEL: "cpu"})
    another = ClusterFacts(nodes=(node,), pods=())
    life.cluster = Wrapped(life.cluster, look=lambda: another, gpu_pods_on=lambda _: ())  # type: ignore[assignment]
    life.run(2 * HOUR, tick=MINUTE)
    assert [p.phase for p in life.world.active_pods.values()] == ["Running", "Running"]
    assert life.writes("retire") == []
    assert titles(life, "no Civo instance")
