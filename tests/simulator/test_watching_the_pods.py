"""The lookout over the simulated API server: a pod that finds no room wakes the loop, whatever happened before."""

import queue
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.kubernetes.cluster import KubernetesCluster, connect
from receiver.metrics.process import WatchCounts, WatchState
from receiver.runtime.pod_watcher import Lookout
from simulator.server import Simulator
from simulator.world_faults import lift
from tests.e2e.waiting import until

WITHIN = 5.0  # seconds; without a fault it is half a second


class Watched:
    """A lookout on *sim*, and the wake-ups that came of it."""

    def __init__(self, sim: Simulator, cluster: KubernetesCluster) -> None:
        self.sim = sim
        self.wakes: queue.Queue[None] = queue.Queue()
        self.counts = WatchCounts()
        watch = cluster.pod_watch(seconds=1)
        self.lookout = Lookout(watch, lambda: self.wakes.put(None), lambda: True, self.counts, lambda _: 0.05)

    def submit(self, name: str, gpus: int) -> None:
        """Submit a job; four GPUs fit nowhere."""
        job = {"id": name, "duration": "10m", "gpus_per_pod": gpus, "tolerations": [{"operator": "Exists"}]}
        self.sim.live.submit([job])
        self.sim.live.turn(timedelta(seconds=5))

    def lift(self) -> None:
        """Undo every fault, as ``DELETE /_faults`` does."""
        lift(self.sim.live)


@pytest.fixture
def watched(sim: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr("receiver.adapters.kubernetes.api.HANGS_AFTER", 0.2)
    cluster = connect(str(sim.kubeconfig(tmp_path / "kubeconfig")), timeouts=(1, 2))
    scene = Watched(sim, cluster)
    scene.lookout.start()
    until(lambda: scene.counts.state is WatchState.UP, "a watch that stands")
    yield scene
    began = time.monotonic()
    scene.lookout.stop()
    assert time.monotonic() - began < 2  # also while it hangs
    cluster.close()


def test_a_pod_that_fits_nowhere_wakes_the_loop(watched: Watched) -> None:
    watched.submit("large", gpus=4)
    watched.wakes.get(timeout=WITHIN)


def test_a_pod_that_finds_room_does_not(watched: Watched) -> None:
    watched.submit("small", gpus=1)
    watched.submit("cpu-only", gpus=0)
    with pytest.raises(queue.Empty):
        watched.wakes.get(timeout=0.5)


def test_a_hundred_pods_wake_it_once(watched: Watched) -> None:
    job = {"id": "many", "duration": "10m", "gpus_per_pod": 4, "pods": 100}
    watched.sim.live.submit([job])
    watched.sim.live.turn(timedelta(seconds=5))
    watched.wakes.get(timeout=WITHIN)
    with pytest.raises(queue.Empty):
        watched.wakes.get(timeout=0.5)


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "watches", "do": "hang"},
        {"kind": "watches", "do": "close"},
        {"kind": "watches", "do": "error"},
        {"kind": "deny", "right": "watch pods"},
        {"kind": "error", "face": "kubernetes", "path": "watch", "status": 503, "times": 3},
    ],
    ids=["hangs", "is cut", "errs", "is denied", "is unavailable"],
)
def test_a_pod_that_came_while_the_watch_was_gone_wakes_it_afterwards(
    watched: Watched, fault: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("receiver.runtime.pod_watcher.LONGEST_BACKOFF_SECONDS", 0.05)
    watched.sim.fault(**fault)
    until(lambda: watched.counts.state is WatchState.DOWN, "a watch that is down")
    watched.submit("large", gpus=4)
    watched.lift()
    watched.wakes.get(timeout=WITHIN)


@pytest.mark.parametrize("how", ["event", "status"])
def test_a_forgotten_version_costs_no_pod(watched: Watched, how: str) -> None:
    watched.sim.fault(kind="expired", how=how)
    watched.sim.fault(kind="watches", do="close")
    until(lambda: watched.counts.state is WatchState.DOWN, "a watch that is down")
    watched.submit("large", gpus=4)
    watched.sim.fault(kind="compact")
    watched.lift()
    watched.wakes.get(timeout=WITHIN)


def test_it_stops_while_the_watch_hangs(watched: Watched) -> None:
    watched.sim.fault(kind="watches", do="hang")
    watched.lookout.stop(timeout=2)
    assert not watched.lookout.is_alive()
