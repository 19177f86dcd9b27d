"""The reconciler's ports over a world answer as the real adapters do."""

import pytest

from receiver.core.model.pods import PodPhase, Toleration
from receiver.ports import Did, TryLater
from receiver.replay.ports import WorldCloud
from receiver.replay.world.objects import GPU, Behaviour
from simulator.cluster_port import SimulatedCluster
from simulator.world import World
from tests.replay.builders import job, pool, run, vms, world
from tests.world_ports import FlakyCloud

# --- Civo ---


def test_a_port_fails_when_told_to_and_does_nothing_then() -> None:
    w = world()
    cloud = FlakyCloud(w)
    cloud.fail_next(TryLater("no answer", code="timeout"), "resize")
    cloud.look()
    with pytest.raises(TryLater):
        cloud.resize("a", decided_on=0, target=1)
    assert cloud.writes == []
    assert cloud.resize("a", decided_on=0, target=1).did is Did.DONE


def test_an_answer_can_be_lost_after_the_write_took_effect() -> None:
    w = world()
    cloud = FlakyCloud(w)
    cloud.fail_after(TryLater("no answer", code="timeout"), "resize")
    with pytest.raises(TryLater):
        cloud.resize("a", decided_on=0, target=1)
    assert w.pools["a"].required == 1
    assert cloud.resize("a", decided_on=0, target=1).did is Did.ALREADY


def test_a_port_can_be_down_for_as_long_as_asked() -> None:
    cloud = FlakyCloud(world())
    cloud.fail_always(TryLater("down"))
    for _ in range(2):
        with pytest.raises(TryLater):
            cloud.look()
    cloud.fail_always(None)
    assert cloud.look()


# --- Kubernetes ---


def phases(w: World) -> dict[str, PodPhase]:
    """The phases that the port shows, by pod name."""
    return {p.name: p.phase for p in SimulatedCluster(w).look().pods}


def test_a_pod_keeps_what_decides_where_it_may_go() -> None:
    w = world()
    tolerations = (Toleration(key="gpu", operator="Exists"),)
    w.submit(job(pods=2, gang=True, namespace="ml", node_selector={"k": "v"}, tolerations=tolerations, team="blue"))
    first = SimulatedCluster(w).look().pods[0]
    assert (first.gang, first.owner, first.labels["team"]) == ("ml/j", "Job/j", "blue")
    assert (first.scheduling.node_selector, first.scheduling.tolerations, first.requests) == (
        {"k": "v"},
        tolerations,
        {GPU: 1},
    )


def test_a_pod_is_shown_anew_after_it_changed() -> None:
    w = world(pool(count=1))
    w.submit(job())
    cluster = SimulatedCluster(w)
    first = cluster.look().pods[0]
    assert cluster.look().pods[0] is first
    run(w, 1)
    assert cluster.look().pods[0].node is not None


def test_a_late_decrement_shows_in_what_the_cloud_says_after_a_removal() -> None:
    w = world(pool(count=2), behaviour=Behaviour(decrement="never"))
    assert WorldCloud(w).retire("a", vms(w)[0].id).required == 2
