"""What the Kubernetes port over a world says of pods' wishes.

What it does to pods and nodes is promised by its port: tests/contracts/test_cluster.py.
"""

from datetime import UTC, datetime, timedelta

import pytest

from receiver.core.model.pods import Pod, Preference, Requirement
from receiver.core.model.policy import Taint
from receiver.core.model.room_requests import RoomAnswer
from receiver.ports import (
    IDLE_SHUTDOWN_ANNOTATION,
    KEEP_UNTIL_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    Did,
    HeldPlaces,
)
from receiver.replay.kubernetes import WorldCluster
from receiver.replay.world.objects import GPU, PodSpec, WorldConfig
from receiver.replay.world.world import World as ReplayWorld
from simulator.cluster_port import SimulatedCluster
from simulator.world import World
from tests.replay.builders import T0, job, pool, run, world

MAY_MOVE = {SAFE_TO_EVICT_ANNOTATION: "true"}
GPU_TAINT = Taint(key="gpu", value="true")


def seen(w: World) -> Pod:
    """The only GPU pod as the port shows it."""
    (found,) = SimulatedCluster(w).look().pods
    return found


def annotated(**annotations: str) -> Pod:
    """A running pod with these annotations, as the port shows it."""
    w = world(pool(count=1))
    w.submit(job(annotations=annotations))
    return seen(run(w, 10))


def test_a_replay_has_no_queue_to_hold_and_no_request_to_answer() -> None:
    cluster = WorldCluster(ReplayWorld(WorldConfig(pools=(pool(),)), T0))
    answer = RoomAnswer(kind="buffers", key="ml/warm", state="True")
    assert cluster.hold_queue("gpus").did is Did.DIFFERS
    assert cluster.answer_request(answer).did is Did.DIFFERS
    assert (cluster.held_places(queues=True), cluster.look().requests, cluster.writes) == (HeldPlaces(), (), [])


# --- what pods say ---


@pytest.mark.parametrize(
    "text, read",
    [("90m", timedelta(minutes=90)), ("1h30m", timedelta(minutes=90)), ("1d", timedelta(days=1)), ("soon", None)],
)
def test_a_pod_says_after_how_long_an_idle_time_it_may_be_shut_down(text: str, read: timedelta | None) -> None:
    assert annotated(**{IDLE_SHUTDOWN_ANNOTATION: text}).wishes.idle_shutdown == read


@pytest.mark.parametrize(
    "text, read",
    [
        ("2026-03-02T12:00:00Z", datetime(2026, 3, 2, 12, tzinfo=UTC)),
        ("2026-03-02T12:00:00+02:00", datetime(2026, 3, 2, 10, tzinfo=UTC)),
        ("2026-03-02T12:00:00", None),
        ("tomorrow", None),
    ],
)
def test_a_pod_says_until_when_it_is_kept(text: str, read: datetime | None) -> None:
    assert annotated(**{KEEP_UNTIL_ANNOTATION: text}).wishes.keep_until == read


def test_a_pod_shows_what_it_prefers_and_the_minimum_of_its_gang() -> None:
    w = world()
    preferred = (Preference(weight=5, term=(Requirement(key="zone", operator="Exists"),)),)
    w.submit(job("g", pods=3, gang=True, gang_min=2, preferred=preferred))
    w.submit(job("alone"))
    shown = {p.name: (p.gang_min, p.scheduling.preferred) for p in SimulatedCluster(w).look().pods}
    assert shown["g-0"] == (2, preferred)
    assert shown["alone-0"] == (None, ())


def test_a_gang_declared_without_a_size_has_no_minimum() -> None:
    w = world()
    spec = PodSpec(namespace="ml", name="p", requests={GPU: 1}, annotations={"gpu-autoscaler.io/gang": "g"})
    w.add_pod(spec)
    assert (seen(w).gang, seen(w).gang_min) == ("ml/g", None)


def test_only_a_pod_that_waits_has_the_schedulers_sentence() -> None:
    w = world(pool(count=1))
    w.submit(job(gpus_per_pod=2))
    assert seen(run(w, 1)).scheduler_says == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    assert annotated().scheduler_says == ""
    gated = world()
    gated.add_pod(PodSpec(namespace="ml", name="gated", requests={GPU: 1}, gate="queue.example/gate"))
    assert seen(run(gated, 1)).scheduler_says == ""
