"""Observe mode: every write of the ports becomes a sentence, and the inner object is only read."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from receiver.adapters.observe import ObservedCloud, ObservedCluster
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Taint
from receiver.core.model.room_requests import RoomAnswer
from receiver.ports import Cloud, CloudPool, Cluster, ClusterFacts, Did, Receipt

READS = {"look", "gpu_pods_on", "has_node", "ended", "held_places", "missing_rights"}
POD = Pod(
    namespace="ml",
    name="train-0",
    uid="u",
    requests={"nvidia.com/gpu": 1},
    phase=PodPhase.WAITING,
    created_at=datetime(2026, 11, 20, tzinfo=UTC),
)
POOLS = {"pool-a": CloudPool(id="pool-a", required=2, size="an.g1.l40s.kube.x1")}
FACTS = ClusterFacts(nodes=(), pods=(POD,))
EXAMPLES: Mapping[str, Any] = {
    "pool": "pool-a",
    "decided_on": 1,
    "target": 3,
    "instance": "instance-1",
    "node": "gpu-1",
    "action": "action-7",
    "pod": POD,
    "reason": "TriggeredScaleUp",
    "message": "usable in about 8 minutes",
    "shown": 2,
    "consenting": True,
    "covered": True,
    "evicting": True,
    "cordoned_at": datetime(2026, 11, 20, tzinfo=UTC),
    "namespaces": ("ml",),
    "namespace": "ml",
    "queue": "gpus",
    "why": "cluster budget 2026-11",
    "answer": RoomAnswer(kind="kueue_check", key="ml/train", state="Ready", message="the budgets cover it"),
    "kind": "kueue_check",
    "queues": True,
    "resources": ("nvidia.com/gpu",),
    "passing": ("production",),
    "labels": {"gpu": "on-demand"},
    "taints": (Taint(key="gpu", value="true"),),
    "pools": (),
}


class Recorder:
    """Answers the reads of both ports and writes down every call."""

    def __init__(self, answer: object) -> None:
        self.calls: list[str] = []
        self.answer = answer

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: object, **options: object) -> object:
            self.calls.append(name)
            return (POD,) if name == "gpu_pods_on" else self.answer

        return call


def methods(port: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(port, inspect.isfunction) if not name.startswith("_")]


def arguments(function: Callable[..., Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return an example for every parameter of *function*."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    named = {p.name: EXAMPLES[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
    return [EXAMPLES[p.name] for p in parameters if p.kind is not p.KEYWORD_ONLY], named


CASES: Sequence[tuple[Callable[[Any], Any], type, str]] = [
    *((ObservedCloud, Cloud, name) for name in methods(Cloud)),
    *((ObservedCluster, Cluster, name) for name in methods(Cluster)),
]


def test_every_method_of_both_ports_is_walked() -> None:
    assert {name for _, _, name in CASES} >= {
        "resize",
        "retire",
        "cordon",
        "uncordon",
        "cordon_for_budget",
        "uncordon_for_budget",
        "drain",
        "record_event",
    } | READS


@pytest.mark.parametrize("observed, port, name", [c for c in CASES if c[2] not in READS], ids=lambda c: str(c))
def test_a_write_becomes_a_sentence_and_reaches_nobody(observed: Callable[[Any], Any], port: type, name: str) -> None:
    inner = Recorder(None)
    args, options = arguments(getattr(port, name))
    receipt = getattr(observed(inner), name)(*args, **options)
    assert isinstance(receipt, Receipt)
    assert (receipt.did, receipt.required) == (Did.OBSERVED, None)
    assert receipt.sentence.startswith("would ")
    assert inner.calls == []


def test_reads_pass_through() -> None:
    cloud, cluster = Recorder(POOLS), Recorder(FACTS)
    observed_cloud: Cloud = ObservedCloud(cloud)
    observed_cluster: Cluster = ObservedCluster(cluster)
    assert observed_cloud.look() == POOLS
    assert observed_cluster.look() == FACTS
    assert observed_cluster.gpu_pods_on("gpu-1") == (POD,)
    assert (cloud.calls, cluster.calls) == (["look"], ["look", "gpu_pods_on"])


def test_the_sentence_names_what_would_change() -> None:
    cloud, cluster = ObservedCloud(Recorder(None)), ObservedCluster(Recorder(None))
    assert "3 nodes in pool pool-a instead of 1" in cloud.resize("pool-a", decided_on=1, target=3).sentence
    assert "instance-1 of pool pool-a" in cloud.retire("pool-a", "instance-1").sentence
    assert "gpu-1" in cluster.drain("gpu-1").sentence
