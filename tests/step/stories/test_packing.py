"""Soft taints let a scheduler that spreads pods fill one node before it begins another."""

from dataclasses import replace

import pytest

from receiver.core.model.policy import Packing
from receiver.core.model.usage import Accounting, WorkloadLife
from receiver.core.scaling.packing import FILL_OTHERS_FIRST, IDLE, SOFT_TAINTS
from receiver.ports import Store
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.given import lives
from tests.given.life import BIG_SIZE, GPU, START, Life, a_job, a_policy
from tests.given.pods import bound

pytestmark = pytest.mark.chores(False)


def spread(store: Store, packing: Packing) -> Life:
    """Two idle nodes of four GPUs under a scheduler that prefers the emptiest, and jobs of one GPU a minute apart."""
    pool = a_pool(size=BIG_SIZE, resources={GPU: 4}, max_nodes=2)
    life = lives.idle_nodes(store, 2, pool, packing=packing, world={"packing": "least_allocated"})
    life.run(5 * MINUTE)
    for number in range(4):
        life.submit(a_job(f"j{number}", submit_at=life.now, duration=60 * MINUTE))
        life.run(MINUTE)
    return life


@pytest.mark.parametrize("packing, nodes", [(Packing.FILL, 1), (Packing.SCHEDULER, 2)])
def test_four_pods_of_one_gpu_share_a_node_of_four_and_spread_without_soft_taints(
    store: Store, packing: Packing, nodes: int
) -> None:
    life = spread(store, packing)
    assert len({p.node for p in life.world.active_pods.values()}) == nodes


def test_a_node_is_patched_when_what_it_should_carry_changes_and_not_at_every_step(store: Store) -> None:
    life = spread(store, Packing.FILL)
    done = life.writes("set_soft_taints")
    assert 1 <= len(done) <= 4
    life.run(5 * MINUTE, 10 * SECOND)
    assert life.writes("set_soft_taints") == done


def test_what_we_put_on_goes_when_the_operator_leaves_it_to_the_scheduler(store: Store) -> None:
    life = spread(store, Packing.FILL)
    assert any(set(SOFT_TAINTS) & set(n.taints) for n in life.world.nodes.values())
    life.policy = a_policy(*life.policy.pools, packing=Packing.SCHEDULER)
    life.run(MINUTE)
    assert not any(set(SOFT_TAINTS) & set(n.taints) for n in life.world.nodes.values())


def test_the_loop_wakes_when_an_idle_nodes_paid_hour_ends_soon(store: Store) -> None:
    """A tick may be hours long: work that comes in the last minutes of a paid hour would begin on that node."""
    life = lives.idle_nodes(store)
    life.run(10 * MINUTE, tick=HOUR)
    assert life.writes("set_soft_taints") == []
    life.run(35 * MINUTE, tick=HOUR)
    assert [taints for _, (_, taints) in life.writes("set_soft_taints")] == [(IDLE,)]


def test_a_node_of_one_gpu_is_called_idle_until_a_pod_is_bound_and_is_patched_once(store: Store) -> None:
    life = lives.idle_nodes(store)
    life.run(45 * MINUTE, tick=HOUR)
    [(_, (node, _))] = life.writes("set_soft_taints")
    life.submit(a_job("train", submit_at=life.now, duration=HOUR))
    life.run(MINUTE)
    assert {p.node for p in life.world.active_pods.values()} == {node}
    assert IDLE not in life.world.nodes[str(node)].taints
    life.run(5 * MINUTE, 10 * SECOND)
    assert [taints for _, (_, taints) in life.writes("set_soft_taints")] == [(IDLE,), ()]


def test_in_observe_mode_a_node_in_use_keeps_what_it_carries(store: Store) -> None:
    life = lives.idle_nodes(store)
    life.run(45 * MINUTE, tick=HOUR)
    lives.observing(life)
    life.submit(a_job("train", submit_at=life.now, duration=HOUR))
    life.run(MINUTE)
    [(_, (node, taints))] = life.writes("set_soft_taints")
    assert taints == (IDLE,)
    assert {p.node for p in life.world.active_pods.values()} == {node}


def test_what_the_ledger_knows_of_ended_workloads_says_which_node_is_filled(store: Store) -> None:
    ended = WorkloadLife(
        workload="", namespace="ml", created_at=START - HOUR, bound_at=START - HOUR, ended_at=START, gpus=1
    )
    store.account(Accounting(lives=tuple(replace(ended, workload=f"ml/Job/j{n}") for n in range(100))), None, START)
    life = lives.idle_nodes(store, 2, a_pool(size=BIG_SIZE, resources={GPU: 4}, max_nodes=2))
    old, young = (vm.hostname for vm in life.world.lives)
    life.world.add_pod(bound("old", old))
    life.run(52 * MINUTE, tick=MINUTE)
    life.world.add_pod(bound("young", young))
    life.run(MINUTE)
    assert {name: set(SOFT_TAINTS) & set(node.taints) for name, node in life.world.nodes.items()} == {
        old: {FILL_OTHERS_FIRST},
        young: set(),
    }
