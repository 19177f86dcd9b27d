"""The watches over the simulated API server: a pod that finds no room wakes the loop, whatever happened before, and a
look at rest lists nothing."""

import queue
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import ClusterOptions, KubernetesCluster, connect
from receiver.adapters.kubernetes.reflector import Watching
from receiver.metrics.collector import WatchCounts
from receiver.ports import TryLater, WontWork
from receiver.reports.state import WatchState
from simulator.server import Simulator
from simulator.world_faults import lift
from tests.adapters.kubernetes.custom_objects import a_workload
from tests.e2e.waiting import until

WITHIN = 60.0  # seconds; on an idle machine it is a tenth of one


class Watched:
    """A cluster whose lists are watched and that is looked at ten times a second, and the wake-ups that came of it."""

    def __init__(self, sim: Simulator, cluster: KubernetesCluster) -> None:
        self.sim, self.cluster = sim, cluster
        self.wakes: queue.Queue[None] = queue.Queue()
        self.counts = WatchCounts()
        self.stopping = threading.Event()
        watching = Watching(
            leads=lambda: True, wake=lambda: self.wakes.put(None), stands=self.counts.stands, fell=self.counts.fell
        )
        cluster.watch(watching, 1)
        self.loop = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self.stopping.wait(0.1):
            try:
                self.cluster.look()
            except (TryLater, WontWork):
                continue

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
    monkeypatch.setattr("receiver.adapters.kubernetes.reflector.HANGS_AFTER_SECONDS", 0.2)
    monkeypatch.setattr("receiver.adapters.kubernetes.reflector.LONGEST_BACKOFF_SECONDS", 0.05)
    before = set(threading.enumerate())  # those of other tests in this process may not have ended yet
    cluster = connect(str(sim.kubeconfig(tmp_path / "kubeconfig")), calls=Calls(timeouts=(60, 60)))
    scene = Watched(sim, cluster)
    cluster.look()
    scene.loop.start()
    until(lambda: scene.counts.state is WatchState.UP, "a watch that stands")
    yield scene
    scene.stopping.set()
    scene.loop.join()
    cluster.stop(timeout=WITHIN)  # also while it hangs
    assert not [t.name for t in threading.enumerate() if t not in before and t.name.startswith("watch of")]
    cluster.close()


def test_a_pod_that_fits_nowhere_wakes_the_loop(watched: Watched) -> None:
    watched.submit("large", gpus=4)
    watched.wakes.get(timeout=WITHIN)


def test_a_pod_that_finds_room_does_not(watched: Watched) -> None:
    watched.submit("small", gpus=1)
    watched.submit("cpu-only", gpus=0)
    until(lambda: {p.name: p.node for p in watched.cluster.look().pods}.get("small-0"), "the pod on its node")
    with pytest.raises(queue.Empty):
        watched.wakes.get(timeout=0.1)


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "watches", "do": "hang"},
        {"kind": "watches", "do": "close"},
        {"kind": "watches", "do": "error"},
        {"kind": "deny", "right": "watch pods"},
        {"kind": "error", "face": "kubernetes", "path": "watch", "status": 503, "times": 12},
    ],
    ids=["hangs", "is cut", "errs", "is denied", "is unavailable"],
)
def test_a_pod_that_came_while_the_watch_was_gone_is_seen(watched: Watched, fault: dict[str, Any]) -> None:
    watched.sim.fault(**fault)
    until(lambda: watched.counts.state is WatchState.DOWN, "a watch that is down")
    watched.submit("large", gpus=4)
    until(lambda: [p.gpus for p in watched.cluster.look().pods] == [4], "the pod")
    watched.lift()
    until(lambda: watched.counts.state is WatchState.UP, "a watch that stands again")


@pytest.mark.parametrize("how", ["event", "status"])
def test_a_forgotten_version_costs_no_pod(watched: Watched, how: str) -> None:
    watched.sim.fault(kind="expired", how=how)
    watched.sim.fault(kind="watches", do="close")
    until(lambda: watched.counts.state is WatchState.DOWN, "a watch that is down")
    watched.submit("large", gpus=4)
    watched.sim.fault(kind="compact")
    watched.lift()
    until(lambda: [p.gpus for p in watched.cluster.look().pods] == [4], "the pod")
    until(lambda: watched.counts.state is WatchState.UP, "a watch that stands again")


def test_a_look_at_rest_lists_nothing_and_sees_what_changes(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.stopping.set()
    watched.loop.join()
    kinds = {"nodes", "pods", "jobs.batch", "resourceslices.resource.k8s.io", "deviceclasses.resource.k8s.io"}
    watched.submit("first", gpus=4)  # its Job may say how long it may wait
    until(lambda: [p.gpus for p in watched.cluster.look().pods] == [4], "the first pod")
    until(lambda: _settled(watched, kinds), "watches of everything")
    monkeypatch.setattr(watched.cluster._wire, "listed", _no_list)
    watched.submit("large", gpus=4)
    until(lambda: [p.gpus for p in watched.cluster.look().pods] == [4, 4], "the pod")
    [node] = [n for n in watched.cluster.look().nodes if n.allocatable]
    watched.cluster.cordon(node.name, "a1")
    assert [n.unschedulable for n in watched.cluster.look().nodes if n.name == node.name] == [True]


def _settled(watched: Watched, kinds: set[str]) -> bool:
    watched.cluster.look()
    reflectors = watched.cluster._lists._reflectors.values()
    return all(r._is_fresh() for r in reflectors) and {r.resource for r in reflectors} <= kinds


def _no_list(resource: str, *_: Any, **__: Any) -> Any:
    raise AssertionError(f"{resource} are listed")


def test_what_a_removal_rests_on_is_read_with_quorum_whatever_the_cache_says(watched: Watched) -> None:
    watched.submit("small", gpus=1)
    [node] = [n.name for n in watched.cluster.look().nodes if n.allocatable]
    until(lambda: bool(watched.cluster.look().pods), "the pod in the cache")
    for reflector in watched.cluster._lists._reflectors.values():  # a cache that knows of no pod and is not stale yet
        if reflector.resource == "pods":
            reflector._kept = {}
    watched.stopping.set()
    assert [p.node for p in watched.cluster.gpu_pods_on(node)] == [node]


def test_queued_workloads_come_by_their_watch(sim: Simulator, tmp_path: Path) -> None:
    cluster = connect(
        str(sim.kubeconfig(tmp_path / "kubeconfig")),
        options=ClusterOptions(kueue_queued=True),
        calls=Calls(timeouts=(60, 60)),
    )
    cluster.watch(Watching(leads=lambda: True, wake=lambda: None))
    assert "does not serve" in cluster.look().unread
    sim.live.custom.install("kueue.x-k8s.io/v1beta2")
    cluster._lists._absent.clear()  # as after a minute
    assert cluster.look().pods == ()
    workload = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", **a_workload()}
    with sim.moved() as world:
        sim.live.custom.put([workload], world.now)
    until(lambda: len(cluster.look().pods) == 2, "the announced pods")
    cluster.close()
