"""Stories of the wrong node: the busy one, the new one, our own, or one that was emptied for nothing."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from receiver.core.model.actions import OutcomeKind
from receiver.ports import SAFE_TO_EVICT_ANNOTATION, Receipt, Store, WontWork
from receiver.replay.world.objects import PodSpec
from simulator.world import Pdb
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import bought, living, titles
from tests.given import lives
from tests.given.life import FAST, POOL, START, Life, Wrapped, a_job
from tests.given.pods import bound, waiting

pytestmark = pytest.mark.chores(False)


def counted(life: Life) -> list[tuple[int, int]]:
    """From now on note every PUT of a count: (asked for before, asked for now)."""
    seen: list[tuple[int, int]] = []
    resize = life.world.resize

    def noted(pool_id: str, count: int) -> None:
        seen.append((life.world.pools[pool_id].required, count))
        resize(pool_id, count)

    life.world.resize = noted
    return seen


def test_the_idle_node_goes_and_neither_the_old_busy_one_nor_the_one_that_builds(store: Store) -> None:
    """civo/docs, kube100 #24: on a lowered count Civo takes the building node, then the oldest one, busy or not."""
    life = lives.idle_nodes(store, 2, timings=replace(FAST, build=15 * MINUTE))
    puts = counted(life)
    busy, idle = (vm.hostname for vm in life.world.lives)
    life.world.add_pod(bound("works", busy))
    life.world.advance(START + 48 * MINUTE)
    life.step()
    life.world.resize(POOL, 3)  # somebody wants one more: it builds until after the removal
    life.run(11 * MINUTE)
    oldest, gone, young = life.world.lives
    assert [vm.hostname for vm in (oldest, gone) if vm.deleted_at] == [idle]
    assert young.status == "BUILDING"
    assert young.living
    assert all(before < count for before, count in puts)
    assert life.required() == 2


def test_shrinking_and_growing_again_and_again_never_kills_the_node_that_builds(store: Store) -> None:
    """civo/docs: a count that is lowered while a node builds takes that one; the pool then grows again, loses the
    next young node, and so on."""
    life = lives.small_and_big(store, timings=replace(FAST, build=8 * MINUTE))
    puts = counted(life)
    for number in range(8):  # a job every 20 minutes, so that some node builds at most removal moments
        life.submit(a_job(f"j{number}", submit_at=life.now, duration=25 * MINUTE))
        life.run(20 * MINUTE, tick=40 * SECOND)
    life.run(90 * MINUTE, tick=MINUTE)
    assert len(life.world.finished) == 8
    assert life.world.kills == []
    assert all(vm.usable_at is not None for vm in life.world.lives)  # none went before it had come up
    assert all(before < count for before, count in puts)
    assert living(life, "small-id") == []


@pytest.mark.parametrize("other", ["of the same pool", "of another pool"])
def test_eight_nodes_of_one_age_go_at_their_hours_end_while_another_node_builds(
    store: Store, figure: Callable[[str], None], other: str
) -> None:
    """Cluster Autoscaler drains one node at a time and waits ten minutes after every scale-up (FAQ: drain
    parallelism 1, delay after add 10 m), so most of eight idle nodes would enter another paid hour."""
    slow = replace(FAST, build=15 * MINUTE)
    life = lives.small_and_big(store, timings=slow)
    life.submit(*(a_job(f"j{n}", duration=10 * MINUTE) for n in range(8)))
    life.run(48 * MINUTE)
    eight = list(life.world.lives)
    assert len(eight) == 8
    if other == "of another pool":
        life.submit(a_job("wide", gpus_per_pod=8))
    else:
        life.world.resize("small-id", 9)
    life.run(14 * MINUTE)
    last = life.world.lives[-1]
    assert len(life.world.lives) == 9
    assert last.status == "BUILDING"
    ages = [vm.gone_at - vm.created_at for vm in eight if vm.gone_at]
    assert len(ages) == 8
    assert all(55 * MINUTE <= age <= HOUR for age in ages)
    assert all(c.num_hours <= 1 for c in life.world.charges(START, life.now) if c.to)
    figure(f"eight nodes of one age, another {other} builds: gone at ages {min(ages)} to {max(ages)}, one hour each")


@pytest.mark.chores(True)
def test_a_node_that_civo_refuses_to_delete_takes_work_again(store: Store) -> None:
    """Nomad Autoscaler #1290: the client was drained first, then the provider refused, and an empty, unusable node
    was left. Cluster Autoscaler #5048: nobody lifted the taint after a failure."""
    life = lives.idle_nodes(store)

    def retire(pool: str, instance: str) -> Receipt:
        raise WontWork("the cluster is locked", code="database_kubernetes_cluster_locked")

    life.wrap_cloud = lambda inner: Wrapped(inner, retire=retire)
    life.world.advance(START + 50 * MINUTE)
    life.run(6 * MINUTE)
    assert len(life.writes("cordon")) == 1
    [node] = life.world.nodes.values()
    assert not node.unschedulable
    life.world.add_pod(waiting("late"))
    life.run(MINUTE)
    assert life.world.pods["ml", "late"].node == node.name
    assert titles(life, "removal stopped", "locked")


def test_nodes_at_the_floor_are_not_even_cordoned(store: Store) -> None:
    """Nomad Autoscaler #1290 again: what may not go must be known before anything is drained."""
    life = lives.idle_nodes(store, 2, a_pool(min_nodes=2))
    life.run(3 * HOUR, tick=30 * SECOND)
    assert life.writes() == []


@pytest.mark.parametrize("name", ["gpu-autoscaler", "prometheus", "alertmanager"])
def test_a_node_that_hosts_us_or_our_eyes_is_never_taken(store: Store, name: str) -> None:
    """cluster-turndown #22 scaled its own deployment to zero; escalator #139: its own pod stood on the node."""
    life = lives.idle_nodes(store)
    [node] = life.world.nodes
    labels = {"app.kubernetes.io/name": name}
    life.world.add_pod(PodSpec(namespace="monitoring", name=f"{name}-0", labels=labels, node=node))
    life.run(3 * HOUR, tick=30 * SECOND)
    assert life.writes("cordon", "evict", "retire") == []


def test_a_job_that_loads_for_hours_without_touching_its_gpu_keeps_it(store: Store) -> None:
    """NeMo-RL #3184, #1577, codalab #3979: jobs that load a model or download data show 0 % and were reaped."""
    life = lives.waiting(store, a_job("loads", duration=5 * HOUR, gpu_util=0.0))
    life.run(5 * HOUR + 10 * MINUTE, tick=30 * SECOND)
    assert any(r.rule == "scale_down" for d in life.store.decisions() for r in d.decision.reasons)  # it was asked for
    assert life.world.kills == []
    assert [job.restarts for job in life.world.finished] == [0]
    assert bought(life) == 1


def system_pods(life: Life) -> None:
    """A DaemonSet's pod and coredns run on the only node."""
    [node] = life.world.nodes
    labels = {"k8s-app": "kube-dns"}
    life.world.add_pod(
        PodSpec(namespace="kube-system", name="ds", owner_kind="DaemonSet", owner_name="nvidia-dcgm", node=node)
    )
    dns = PodSpec(namespace="kube-system", name="coredns", labels=labels, owner_kind="ReplicaSet", owner_name="coredns")
    life.world.add_pod(replace(dns, node=node))


def test_system_pods_that_a_disruption_budget_covers_do_not_pin_an_idle_gpu_node(store: Store) -> None:
    """marin #3276, Karpenter aws #8447: the GPU job was done, and a coredns or a metrics pod kept the node."""
    life = lives.idle_nodes(store)
    system_pods(life)
    life.world.pdbs.append(Pdb(namespace="kube-system", selector={"k8s-app": "kube-dns"}, min_available=0))
    life.run(HOUR)
    assert living(life) == []
    assert [args for _, args in life.writes("evict")] == [("kube-system", "coredns")]


@pytest.mark.chores(True)
def test_a_system_pod_without_a_disruption_budget_keeps_its_node_and_is_named(store: Store) -> None:
    """As Cluster Autoscaler has it: nobody said that the cluster can do without this pod for a moment."""
    life = lives.idle_nodes(store)
    system_pods(life)
    life.run(90 * MINUTE, tick=30 * SECOND)
    assert life.writes("cordon", "evict", "retire") == []
    assert titles(life, "kube-system/coredns belongs to kube-system, and no PodDisruptionBudget covers it")


def test_a_pod_that_nothing_starts_again_is_not_lost_with_its_node(store: Store) -> None:
    """Without a controller an evicted pod is gone for good: it was evicted, and its node deleted."""
    life = lives.idle_nodes(store, 2)
    first, second = life.world.nodes
    life.world.add_pod(PodSpec(namespace="default", name="debug", node=first))
    life.run(2 * HOUR, tick=30 * SECOND)
    assert [vm.hostname for vm in living(life)] == [first]
    assert life.world.pods["default", "debug"].node == first
    assert [args[0] for _, args in life.writes("cordon")] == [second]
    life.world.patch_pod("default", "debug", annotations={SAFE_TO_EVICT_ANNOTATION: "true"})
    life.run(HOUR, tick=30 * SECOND)
    assert living(life) == []


def test_a_pod_that_came_to_a_cordoned_node_and_would_be_lost_saves_it(store: Store) -> None:
    life = lives.idle_nodes(store)
    [node] = life.world.nodes
    _until_cordoned(life)
    life.world.add_pod(PodSpec(namespace="default", name="debug", node=node))
    life.run(MINUTE, tick=SECOND)
    assert life.writes("evict", "retire") == []
    assert not life.world.nodes[node].unschedulable


def test_a_pod_whose_disruption_budget_pins_the_node_is_respected_and_named(store: Store) -> None:
    """Karpenter aws #8447: nobody could see which pod kept the paid node."""
    life = lives.idle_nodes(store)
    [node] = life.world.nodes
    labels = {"app": "ingress"}
    life.world.add_pod(
        PodSpec(namespace="web", name="ingress", labels=labels, owner_kind="ReplicaSet", owner_name="i", node=node)
    )
    life.world.pdbs.append(Pdb(namespace="web", selector=labels, min_available=1))
    life.pass_time(10 * SECOND)
    life.run(59 * MINUTE)
    [action] = [a.action for a in life.store.actions() if a.outcome is None or a.action.last_error]
    assert "web/ingress" in action.last_error
    life.run(2 * MINUTE)
    assert [vm.hostname for vm in living(life)] == [node]
    assert not life.world.nodes[node].unschedulable  # it is paid for again: it takes work again
    outcome = life.store.actions()[0].outcome
    assert outcome is not None
    assert outcome.kind is OutcomeKind.WITHDRAWN


def _until_cordoned(life: Life) -> None:
    """To the cordon of an idle node at the end of its paid hour."""
    life.world.advance(START + 50 * MINUTE)
    life.run_until(lambda: life.writes("cordon"), tick=5 * SECOND)


@pytest.mark.parametrize("seconds", [5, 60, 150])
def test_a_node_that_is_not_ready_for_a_while_during_its_removal_goes_all_the_same(store: Store, seconds: int) -> None:
    """civo/node-agent reboots a GPU node that looks unhealthy, also one that is being drained."""
    life = lives.idle_nodes(store)
    [node] = life.world.nodes
    _until_cordoned(life)
    life.world.faults.not_ready(node)
    life.run(timedelta(seconds=seconds))
    life.world.faults.recover(node)
    life.run(START + HOUR - life.now)
    assert living(life) == []
    assert life.required() == 0
    assert life.world.kills == []


def test_a_pod_on_a_node_that_flaps_during_its_removal_is_not_lost(store: Store) -> None:
    """civo/node-agent: while the node is away the pod that came to it last must not be forgotten."""
    life = lives.idle_nodes(store)
    [node] = life.world.nodes
    _until_cordoned(life)
    life.world.add_pod(bound("late", node))
    life.world.faults.not_ready(node)
    life.run(MINUTE)
    life.world.faults.recover(node)
    life.run(2 * HOUR, tick=30 * SECOND)
    assert life.world.kills == []
    assert life.writes("retire") == []
    assert not life.world.nodes[node].unschedulable
