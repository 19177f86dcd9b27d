"""Stories of sick nodes that are replaced (`pools[].repair: replace`)."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.policy import Budget, Limits, Repair
from receiver.ports import CORDON_ANNOTATION, Store
from simulator.world import Pdb
from tests.core.builders import HOUR, MINUTE, a_pool
from tests.expect import bought, living, phases, titles
from tests.given import lives
from tests.given.life import BIG_SIZE, FAST, GPU, POOL, PRICE, Life
from tests.given.pods import bound, waiting
from tests.step.stories.bench import QUARANTINE, UPGRADE, fail, mend

pytestmark = pytest.mark.chores(False)

CONSENT = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}


def repairing(store: Store, count: int = 1, *, policy: dict[str, Any] | None = None, **pool: Any) -> Life:
    """A life that begins with *count* idle nodes, which are replaced when they are sick."""
    return lives.idle_nodes(store, count, a_pool(repair=Repair.REPLACE, **pool), **(policy or {}))


def busy(life: Life, **given: Any) -> list[str]:
    """Bind a pod to each node of the pool; return the nodes' names."""
    names = [vm.hostname for vm in living(life)]
    for name in names:
        life.world.add_pod(bound(f"on-{name}", name, **given))
    life.run(MINUTE)
    return names


def alive(life: Life) -> set[str]:
    return {vm.hostname for vm in living(life)}


def end_work(life: Life, name: str) -> None:
    life.world.delete_pod("ml", f"on-{name}")


def closed(life: Life) -> set[str]:
    """The nodes that are cordoned for a repair."""
    return {n.name for n in life.world.nodes.values() if n.annotations.get(CORDON_ANNOTATION) == "repair"}


@pytest.mark.chores(True)
def test_a_sick_node_is_cordoned_while_its_work_runs_and_goes_when_that_ends(store: Store) -> None:
    life = repairing(store, 2)
    sick, _ = busy(life)
    fail(life, sick)
    life.run(9 * MINUTE)
    assert closed(life) == set()
    life.run(2 * MINUTE)
    assert closed(life) == {sick}
    life.run(HOUR, tick=MINUTE)
    assert sick in alive(life)
    assert phases(life) == {"Running"}
    end_work(life, sick)
    life.run(2 * MINUTE)
    assert sick not in alive(life)
    assert titles(life, f"{sick} (is sick: XID 79 on GPU 0)")


def test_an_idle_sick_node_does_not_wait_for_the_end_of_its_paid_hour(store: Store) -> None:
    life = repairing(store)
    [vm] = living(life)
    life.run(MINUTE)
    fail(life, vm.hostname)
    life.run(12 * MINUTE)
    assert living(life) == []
    assert bought(life) == 1


def test_the_least_size_of_a_pool_is_bought_again(store: Store) -> None:
    life = repairing(store, min_nodes=1, max_nodes=1)
    [vm] = living(life)
    life.run(MINUTE)
    fail(life, vm.hostname)
    life.run(20 * MINUTE)
    assert bought(life) == 2
    assert len(living(life)) == 1


def test_a_node_whose_pods_all_consent_is_emptied_at_once(store: Store) -> None:
    life = repairing(store)
    [sick] = busy(life, annotations=CONSENT, owner_kind="ReplicaSet", owner_name="web")
    fail(life, sick)
    life.run(20 * MINUTE)
    assert sick not in alive(life)
    assert bought(life) == 2
    assert phases(life) == {"Running"}


def test_one_pod_without_consent_keeps_a_sick_node(store: Store) -> None:
    life = repairing(store)
    [sick] = busy(life)
    fail(life, sick)
    life.run(2 * HOUR, tick=MINUTE)
    assert alive(life) == {sick}


def test_a_node_that_recovers_under_repair_takes_work_again(store: Store) -> None:
    life = repairing(store)
    [sick] = busy(life)
    fail(life, sick)
    life.run(12 * MINUTE)
    assert closed(life) == {sick}
    mend(life, sick)
    life.run(12 * MINUTE)
    assert closed(life) == set()
    assert not life.world.nodes[sick].unschedulable


def test_a_node_that_works_for_the_moment_is_not_removed(store: Store) -> None:
    life = repairing(store)
    [sick] = busy(life)
    fail(life, sick)
    life.run(12 * MINUTE)
    mend(life, sick)
    end_work(life, sick)
    life.run(5 * MINUTE)
    assert alive(life) == {sick}


def test_a_node_that_a_person_uncordons_is_left_alone(store: Store) -> None:
    life = repairing(store)
    [sick] = busy(life)
    fail(life, sick)
    life.run(12 * MINUTE)
    life.world.patch_node(sick, unschedulable=False)
    life.run(10 * MINUTE)
    assert not life.world.nodes[sick].unschedulable


def test_a_node_that_a_person_mends_and_uncordons_may_be_repaired_again(store: Store) -> None:
    life = repairing(store)
    [sick] = busy(life)
    fail(life, sick)
    life.run(12 * MINUTE)
    mend(life, sick)
    life.world.patch_node(sick, unschedulable=False)
    life.run(12 * MINUTE)
    assert closed(life) == set()
    fail(life, sick)
    life.run(12 * MINUTE)
    assert life.world.nodes[sick].unschedulable


@pytest.mark.parametrize(("share", "most"), [("0.2", 1), ("0.5", 2), ("1.0", 4)])
def test_never_more_than_a_share_of_the_pool_is_under_repair(store: Store, share: str, most: int) -> None:
    life = repairing(store, 5, repair_share=Decimal(share))
    names = busy(life)
    for name in names[1:]:  # one stays well
        fail(life, name)
    life.run(30 * MINUTE, tick=MINUTE)
    assert len(closed(life)) == most


def test_nothing_is_repaired_where_the_budget_does_not_cover_the_replacement(store: Store) -> None:
    life = repairing(store, policy={"budget": Budget(monthly_usd=PRICE * 2, hold_at=Decimal("0.9"))})
    [sick] = busy(life)
    fail(life, sick)
    life.run(30 * MINUTE, tick=MINUTE)
    assert closed(life) == set()


# --- how others fail


def test_two_faults_in_a_row_do_not_reset_the_clock(store: Store) -> None:
    """Each fault has a condition of its own, and the next one begins before the repair's time is over."""
    life = repairing(store)
    [sick] = busy(life)
    for number in range(3):
        fail(life, sick, ("xid", "condition", "unready")[number])
        life.run(3 * MINUTE)
        mend(life, sick)
        life.run(timedelta(seconds=20))
    fail(life, sick)
    life.run(MINUTE)
    assert closed(life) == {sick}


def test_a_share_of_a_small_pool_is_at_least_one_node(store: Store) -> None:
    """20 % of two nodes is none: such a pool was never repaired."""
    life = repairing(store, 2, min_nodes=2, repair_share=Decimal("0.2"))
    life.run(MINUTE)
    sick = min(alive(life))
    fail(life, sick)
    life.run(25 * MINUTE)
    assert sick not in alive(life)
    assert len(alive(life)) == 2


def every_node_fails(life: Life) -> Callable[[], None]:
    """What to do at every step so that each node of the pool falls sick as soon as it is usable."""

    def each() -> None:
        for name, node in list(life.world.nodes.items()):
            if QUARANTINE not in node.taints:
                life.world.patch_node(name, taints=(*node.taints, QUARANTINE))
            if any(node.gpus.values()):
                life.world.faults.failed[name] = "XID 79 on GPU 0"

    return each


def test_a_replacement_that_fails_again_is_not_bought_for_ever(store: Store) -> None:
    """The fault comes with every new node: an image or a workload breaks it."""
    life = repairing(store, min_nodes=1, max_nodes=1)
    life.run(timedelta(hours=8), tick=2 * MINUTE, each=every_node_fails(life))
    first = bought(life)
    life.run(timedelta(hours=8), tick=2 * MINUTE, each=every_node_fails(life))
    assert first <= 9
    assert bought(life) - first <= 2
    sickened = life.step().facts.pool(POOL).backoffs.sickened
    assert sickened is not None
    assert "fell sick" in sickened.reason


def test_without_repair_waiting_work_does_not_buy_sick_nodes_for_ever_either(store: Store) -> None:
    life = lives.at_zero(store, a_pool(max_nodes=20))
    life.world.add_pod(waiting("train"))
    life.run(timedelta(hours=2), tick=MINUTE, each=every_node_fails(life))
    assert 2 <= bought(life) <= 6
    assert life.step().facts.pool(POOL).backoffs.sickened is not None


# --- beside other changes


def fails_silently(life: Life, name: str) -> None:
    """Let the GPUs of *name* fail; nothing but Prometheus tells, so the scheduler still binds pods there."""
    life.world.faults.failed[name] = "XID 79 on GPU 0"


def test_work_that_leaves_a_sick_node_slowly_does_not_come_back_to_it(store: Store) -> None:
    """The evicted pod's successor waits while the pod still ends: the node was uncordoned, and it came back."""
    timings = replace(FAST, terminate=timedelta(seconds=30))
    life = lives.idle_nodes(
        store, 1, a_pool(repair=Repair.REPLACE, resources={GPU: 2}, size=BIG_SIZE, max_nodes=3), timings=timings
    )
    [sick] = busy(life, annotations=CONSENT, owner_kind="ReplicaSet", owner_name="web")
    fails_silently(life, sick)
    pods = set[tuple[str, str]]()
    life.run(15 * MINUTE, tick=timedelta(seconds=5), each=lambda: pods.update(life.world.active_pods))
    assert len(pods) == 2  # each by its name: evicted once
    assert bought(life) == 2
    assert sick not in alive(life)


def test_a_node_whose_removal_waits_is_cordoned_meanwhile(store: Store) -> None:
    life = repairing(store, 1, min_nodes=1, max_nodes=2)
    [sick] = busy(life, annotations=CONSENT, owner_kind="ReplicaSet", owner_name="web")
    fails_silently(life, sick)
    life.run(20 * MINUTE)
    assert closed(life) == {sick}


@pytest.mark.parametrize("repair", [Repair.NONE, Repair.REPLACE])
@pytest.mark.parametrize("limit", ["max_nodes", "max_gpus"])
def test_an_idle_sick_node_that_uses_a_limit_up_makes_room_for_waiting_work(
    store: Store, limit: str, repair: Repair
) -> None:
    pool = a_pool(repair=repair, max_nodes=1 if limit == "max_nodes" else 5)
    life = lives.idle_nodes(store, 1, pool, limits=Limits(max_gpus=1 if limit == "max_gpus" else None))
    life.run(MINUTE)
    [vm] = living(life)
    fail(life, vm.hostname)
    life.world.add_pod(waiting("train"))
    life.run(65 * MINUTE)
    assert vm.hostname not in alive(life)
    assert bought(life) == 2
    assert phases(life) == {"Running"}


def test_a_budget_stop_moves_no_work_from_a_sick_node(store: Store) -> None:
    life = repairing(store, policy={"budget": Budget(monthly_usd=PRICE * 3, hold_at=Decimal("0.9"))})
    [sick] = busy(life)
    fails_silently(life, sick)
    life.run(12 * MINUTE)
    assert closed(life) == {sick}
    end_work(life, sick)
    life.world.add_pod(bound("consents", sick, annotations=CONSENT, owner_kind="ReplicaSet", owner_name="web"))
    life.policy = replace(life.policy, budget=Budget(monthly_usd=Decimal("0.01"), hold_at=Decimal("0.9")))
    life.run(10 * MINUTE)
    assert life.writes("drain") == []
    assert sick in alive(life)


@pytest.mark.parametrize("partly", [False, True])
def test_waiting_work_does_not_wait_for_a_repair_that_cannot_end(store: Store, partly: bool) -> None:
    """A PodDisruptionBudget keeps a pod without a GPU on the idle node; then work for another node comes."""
    life = lives.idle_nodes(store, 1, a_pool(repair=Repair.REPLACE, resources={GPU: 2}, size=BIG_SIZE, max_nodes=3))
    life.run(MINUTE)
    [vm] = living(life)
    web = bound("web", vm.hostname, requests={}, owner_kind="ReplicaSet", owner_name="web", labels={"app": "web"})
    life.world.add_pod(web)
    life.world.pdbs.append(Pdb(namespace="ml", selector={"app": "web"}, min_available=1))
    if partly:
        life.world.faults.unhealthy(vm.hostname, 1)
    else:
        fail(life, vm.hostname)
    life.run(11 * MINUTE)
    assert life.writes("cordon")
    life.world.add_pod(waiting("train"))
    life.run(MINUTE)
    assert bought(life) == 2


def test_a_node_that_others_begin_to_maintain_stays_cordoned(store: Store) -> None:
    life = repairing(store)
    [sick] = busy(life)
    fail(life, sick)
    life.run(12 * MINUTE)
    assert closed(life) == {sick}
    labels = {**life.world.nodes[sick].labels, UPGRADE: "pod-restart-required"}
    life.world.patch_node(sick, labels=labels)
    life.run(5 * MINUTE)
    assert life.world.nodes[sick].unschedulable
