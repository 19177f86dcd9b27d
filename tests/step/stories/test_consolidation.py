"""Pods that consent to be moved let their node go; nobody else's are touched."""

import pytest

from receiver.core.model.actions import Because
from receiver.core.model.policy import Packing
from receiver.ports import SAFE_TO_EVICT_ANNOTATION, Store
from simulator.world import Pdb
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import living
from tests.given import lives, troubles
from tests.given.life import BIG_SIZE, GPU, START, Life
from tests.given.pods import bound

pytestmark = pytest.mark.chores(False)

CONSENTS = {SAFE_TO_EVICT_ANNOTATION: "true"}
AT_THE_HOURS_END = HOUR + MINUTE


def half_empty(store: Store, *, movable: dict[str, str]) -> Life:
    """Two two-GPU nodes, one pod on each; that of the second carries the annotations *movable*."""
    life = lives.idle_nodes(store, 2, a_pool(size=BIG_SIZE, resources={GPU: 2}), packing=Packing.SCHEDULER)
    first, second = (vm.hostname for vm in life.world.lives)
    owned = {"owner_kind": "ReplicaSet", "gpu_util": 0.6}
    life.world.add_pod(
        bound("stays", first, owner_name="stays", annotations={SAFE_TO_EVICT_ANNOTATION: "false"}, **owned)
    )
    life.world.add_pod(
        bound("moves", second, owner_name="moves", annotations=movable, labels={"app": "moves"}, **owned)
    )
    return life


def where(life: Life) -> dict[str, str | None]:
    """The node of each running pod, by owner."""
    return {p.owner_name: p.node for p in life.world.active_pods.values() if p.phase == "Running"}


def test_pods_that_consent_and_fit_elsewhere_let_their_node_go_at_its_hours_end(store: Store) -> None:
    """Cluster Autoscaler and Karpenter move whatever has no annotation against it (Karpenter #2388: thousands of
    evictions a day); here an owner has to say yes first."""
    life = half_empty(store, movable=CONSENTS)
    first, second = life.world.lives
    life.world.advance(START + 40 * MINUTE)
    life.run(14 * MINUTE)
    assert life.writes() == []  # not before the moment at which an idle one would go
    life.run(7 * MINUTE)
    assert second.gone_at is not None
    assert second.gone_at - second.created_at <= HOUR
    assert [args for _, args in life.writes("evict")] == [("ml", "moves")]
    assert life.world.kills == []
    assert where(life) == {"stays": first.hostname, "moves": first.hostname}
    [victim] = [v for a in life.store.actions() for v in a.action.victims]
    assert victim.because is Because.CONSOLIDATED


def test_without_the_annotation_no_pod_is_ever_moved(store: Store) -> None:
    life = half_empty(store, movable={})
    life.run(3 * HOUR, tick=MINUTE)
    assert life.writes() == []


def test_nothing_is_consolidated_while_hold_fires(store: Store) -> None:
    life = half_empty(store, movable=CONSENTS)
    life.alarms.extra.append(troubles.alert("GpuPoolBusy", "hold"))
    life.run(AT_THE_HOURS_END, tick=30 * SECOND)
    assert life.writes() == []
    assert len(living(life)) == 2


def test_hold_of_another_pool_does_not_matter(store: Store) -> None:
    life = half_empty(store, movable=CONSENTS)
    life.alarms.extra.append(troubles.alert("GpuPoolBusy", "hold", pool="other-id"))
    life.run(AT_THE_HOURS_END, tick=20 * SECOND)
    assert len(living(life)) == 1


def test_a_disruption_budget_is_respected_and_the_node_given_back(store: Store) -> None:
    life = half_empty(store, movable=CONSENTS)
    life.world.pdbs.append(Pdb(namespace="ml", selector={"app": "moves"}, min_available=1))
    life.run(2 * HOUR + 10 * MINUTE, tick=30 * SECOND)
    assert len(living(life)) == 2
    assert life.world.kills == []
    assert not any(n.unschedulable for n in life.world.nodes.values())
    assert life.world.pods["ml", "moves"].phase == "Running"


def test_pods_that_fit_nowhere_else_stay_where_they_are(store: Store) -> None:
    life = half_empty(store, movable=CONSENTS)
    first = life.world.lives[0].hostname
    life.world.add_pod(bound("fills", first))
    life.run(3 * HOUR, tick=MINUTE)
    assert life.writes() == []


def test_room_that_another_pod_waits_for_is_not_room_to_move_to(store: Store) -> None:
    """The free GPU is spoken for: moving there would make the other one wait for a new node."""
    life = half_empty(store, movable={**CONSENTS})
    first, _ = (vm.hostname for vm in life.world.lives)
    life.world.advance(START + 50 * MINUTE)
    life.world.add_pod(bound("comes", first, duration=2 * HOUR))
    life.run(20 * MINUTE)
    assert life.writes() == []


def test_one_pod_without_consent_keeps_the_whole_node_and_none_of_the_others_is_evicted(store: Store) -> None:
    life = half_empty(store, movable=CONSENTS)
    _, second = (vm.hostname for vm in life.world.lives)
    life.world.add_pod(bound("silent", second))
    life.run(2 * HOUR, tick=MINUTE)
    assert life.writes("evict", "retire") == []


def test_consolidation_does_not_move_a_pod_twice_in_a_row(store: Store) -> None:
    """Karpenter #2388, aws #8536: churn; each move made the next one look good."""
    life = half_empty(store, movable=CONSENTS)
    life.run(6 * HOUR, tick=30 * SECOND)
    assert len(life.writes("evict")) == 1
    assert len(life.writes("resize")) == 0
