"""Calls of the port `Cluster` that take several requests: the process dies between two of them, and the next one's same
call completes them."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import ClusterOptions, KubernetesCluster, connect
from receiver.ports import BUDGET_CHECK, Did, HeldPlaces, TryLater
from receiver.replay.world.objects import PodSpec
from simulator.server import Simulator
from tests.given.requests import EVERY_READER

GPU = "nvidia.com/gpu"
Process = Callable[[int], KubernetesCluster]


class DiedError(BaseException):
    """The process is gone."""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[[Simulator], Process]]:
    """Make adapters whose process dies before its n-th request that may change something (0: it lives)."""
    opened: list[KubernetesCluster] = []

    def of(sim: Simulator) -> Process:
        def begin(dies_before: int) -> KubernetesCluster:
            left = dies_before

            def before_write() -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    raise DiedError

            kubeconfig = str(sim.kubeconfig(tmp_path / f"kubeconfig-{len(opened)}"))
            calls = Calls(timeouts=(60, 60), before_write=before_write)
            opened.append(connect(kubeconfig, calls=calls, options=ClusterOptions(readers=EVERY_READER)))
            return opened[-1]

        return begin

    yield of
    for cluster in opened:
        cluster.close()


@pytest.mark.parametrize("dies_before", [3, 4])  # after two rehearsals
def test_a_drain_goes_on_with_the_pods_that_are_left(
    dies_before: int, sim: Simulator, process: Callable[[Simulator], Process]
) -> None:
    begin = process(sim)
    [node] = [n.name for n in begin(0).look().nodes]
    with sim.moved() as world:
        for name in ("a", "b"):
            world.add_pod(PodSpec(namespace="web", name=name, node=node, owner_kind="ReplicaSet", owner_name="web"))
    begin(0).cordon(node, "retire-1")
    with pytest.raises(DiedError):
        begin(dies_before).drain(node)
    assert sum(p.deletion_at is not None for p in sim.world.pods_on(node)) == dies_before - 3
    with pytest.raises(TryLater) as leaving:
        begin(0).drain(node)
    assert leaving.value.code == "draining"
    sim.live.turn(timedelta(seconds=10))
    assert begin(0).drain(node).did is Did.DONE


@pytest.mark.parametrize("dies_before", [1, 2])
def test_a_quota_that_was_to_be_replaced_is_there_in_the_end(
    dies_before: int, sim: Simulator, process: Callable[[Simulator], Process]
) -> None:
    begin = process(sim)
    begin(0).hold_namespace("ml", [GPU], [])
    with pytest.raises(DiedError):
        begin(dies_before).hold_namespace("ml", [GPU], ["production"])
    assert begin(0).hold_namespace("ml", [GPU], ["production"]).did is Did.DONE
    assert begin(0).hold_namespace("ml", [GPU], ["production"]).did is Did.ALREADY
    assert begin(0).held_places(queues=False) == HeldPlaces(namespaces=("ml",))


@pytest.mark.parametrize("dies_before", [1, 2])
def test_every_admission_check_is_active_in_the_end(
    dies_before: int, start: Callable[..., Simulator], process: Callable[[Simulator], Process]
) -> None:
    sim = start(kubernetes={"installed": ["kueue.x-k8s.io/v1beta2"]})
    checks: list[dict[str, Any]] = [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "AdmissionCheck",
            "metadata": {"name": name},
            "spec": {"controllerName": BUDGET_CHECK},
        }
        for name in ("one", "two")
    ]
    with sim.moved() as world:
        sim.live.custom.put(checks, world.now)
    begin = process(sim)
    for dies, said in ((dies_before, None), (0, Did.DONE), (0, Did.ALREADY)):
        cluster = begin(dies)
        cluster.look()
        if said is not None:
            assert cluster.keep_active("kueue_check").did is said
            continue
        with pytest.raises(DiedError):
            cluster.keep_active("kueue_check")
