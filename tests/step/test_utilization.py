"""What the alerts on a pool's utilization do to it from end to end: cells of the tables in docs/guardrails.md."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.model.model import Source
from receiver.core.model.policy import Billing, Packing
from receiver.ports import SAFE_TO_EVICT_ANNOTATION, Store, TelemetryFacts
from receiver.replay.world.objects import PodSpec
from receiver.step.gather import gather
from receiver.step.parts import Parts
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import living
from tests.given import lives
from tests.given.life import BIG_SIZE, GPU, POOL, Life
from tests.given.pods import bound

pytestmark = pytest.mark.chores(False)

EVERY_SECOND = Billing(granularity=SECOND, removal_margin=timedelta(0))
CONSENTS = {SAFE_TO_EVICT_ANNOTATION: "true"}


def a_life(store: Store, count: int, **given: Any) -> Life:
    """*count* nodes of two GPUs, empty, and Alertmanager as our rules make it of what their GPUs do."""
    return lives.idle_nodes(
        store, count, a_pool(size=BIG_SIZE, resources={GPU: 2}, max_nodes=count), packing=Packing.SCHEDULER, **given
    )


def work(life: Life, node: int, used: float, gpus: int = 1, **given: Any) -> PodSpec:
    """A pod of *gpus* GPUs on the node of that number, which work at the ratio *used*."""
    name = f"on-{node}"
    pod = bound(
        name,
        life.world.lives[node].hostname,
        requests={GPU: gpus},
        owner_kind="ReplicaSet",
        owner_name=name,
        gpu_util=used,
        **given,
    )
    life.world.add_pod(pod)
    return pod


def firing(life: Life) -> set[str]:
    """Which alerts speak of the pool now."""
    return {a.labels["alertname"] for a in life.alarms.look().alerts if a.labels.get("pool") == POOL}


def test_without_a_prometheus_the_activity_of_gpus_is_no_configured_source(store: Store) -> None:
    life = a_life(store, 0)
    seen = gather(replace(life.sources, telemetry=None), life.policy, life.now, Parts())
    dcgm = seen.facts.sources[Source.DCGM]
    assert (dcgm.up, dcgm.configured) == (False, False)


def test_counters_that_nodes_do_not_deliver_are_known_of_dcgm_which_is_up(store: Store) -> None:
    life = a_life(store, 1)
    life.run(20 * MINUTE, tick=MINUTE)
    nodes = tuple(f"n{number}" for number in range(1, 6))

    class Lacking:
        def look(self) -> TelemetryFacts:
            return replace(life.telemetry.look(), missing={"DCGM_FI_DEV_XID_ERRORS": nodes})

    seen = gather(replace(life.sources, telemetry=Lacking()), life.policy, life.now, Parts())  # type: ignore[arg-type]  # one of its methods is enough
    dcgm = seen.facts.sources[Source.DCGM]
    assert dcgm.up
    assert dcgm.lacks == {"DCGM_FI_DEV_XID_ERRORS": nodes}


@pytest.mark.chores(True)
def test_low_with_every_node_busy_holds_for_hours_and_the_decision_lists_the_pods(store: Store) -> None:
    life = a_life(store, 2)
    for node in range(2):
        work(life, node, 0.1)
    life.run(2 * HOUR + 10 * MINUTE, tick=MINUTE)
    assert firing(life) == {"GpuPoolUnderutilized"}
    assert life.writes() == []
    [decision] = life.step().decisions.values()
    assert decision.deciding.rule == "nothing_wanted"
    assert decision.deciding.detail.startswith(
        "alert GpuPoolUnderutilized is firing (action: scale_down), and every node runs a GPU pod"
    )
    for node, vm in enumerate(life.world.lives):
        assert f"ml/on-{node} on {vm.hostname}" in decision.deciding.detail


def test_high_keeps_a_busy_node_that_could_be_emptied_and_lets_the_empty_one_go(store: Store) -> None:
    """Six full nodes, two half-empty ones that would fit into one, and an empty one."""
    life = a_life(store, 9)
    for node in range(6):
        work(life, node, 0.95, gpus=2)
    work(life, 6, 0.95)
    work(life, 7, 0.95, annotations=CONSENTS)
    life.run(HOUR - 3 * MINUTE, tick=20 * SECOND)
    assert firing(life) == {"GpuPoolBusy"}
    assert [vm.hostname for vm in life.world.lives if not vm.living] == [life.world.lives[8].hostname]
    life.run(HOUR + 10 * MINUTE, tick=MINUTE)
    assert len(living(life)) == 8
    assert life.writes("evict") == []


def test_in_the_middle_the_same_node_is_emptied_at_its_hours_end(store: Store) -> None:
    life = a_life(store, 9)
    for node in range(6):
        work(life, node, 0.85, gpus=2)
    work(life, 6, 0.85)
    work(life, 7, 0.85, annotations=CONSENTS)
    life.run(HOUR - 6 * MINUTE, tick=30 * SECOND)
    assert firing(life) == set()
    assert life.writes() == []
    life.run(6 * MINUTE)
    assert [args for _, args in life.writes("evict")] == [("ml", "on-7")]
    assert len(living(life)) == 7


def test_where_seconds_are_billed_low_empties_a_node_once_the_alert_fires_and_not_before(store: Store) -> None:
    life = a_life(store, 2, billing=EVERY_SECOND)
    work(life, 0, 0.6)
    work(life, 1, 0.6, annotations=CONSENTS)
    while not firing(life):
        assert life.writes() == []
        life.run(10 * SECOND)
    assert firing(life) == {"GpuPoolUnderutilized"}
    assert len(living(life)) == 2
    life.run(2 * MINUTE)
    assert [vm.hostname for vm in living(life)] == [life.world.lives[0].hostname]
    assert life.world.kills == []
