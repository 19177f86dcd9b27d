"""Rolling updates: which pods wait for a version that keeps its GPUs, what ends that, and what a surge costs."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.explain.evidence import with_grounds
from receiver.core.explain.explain import State, explain
from receiver.core.explain.rollouts import Rollout, Rollouts, version_of
from receiver.core.model.actions import Decision
from receiver.core.model.model import Node
from receiver.core.model.pods import Pod, PodPhase, Workload
from receiver.core.model.policy import Policy
from receiver.core.notices.notice import Concern, Level, Severity
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import decide_all
from tests.core.builders import GPU, NOW, SECOND, a_node, a_pod, a_policy, a_pool, a_state, facts
from tests.core.notices.scene import concerns_of


def of(version: str, number: int = 0, **changes: Any) -> Pod:
    """A pod of Deployment ml/serve, 30 seconds old."""
    given: dict[str, Any] = {
        "owner": f"ReplicaSet/serve-{version}",
        "labels": {"pod-template-hash": version},
        "created_at": NOW - 30 * SECOND,
    }
    return a_pod(f"serve-{version}-{number}", **{**given, **changes})


def running(pod: Pod, name: str = "n1", gpus: int = 1, **changes: Any) -> Node:
    bound = replace(pod, node=name, phase=PodPhase.RUNNING)
    return a_node(name, pods=(bound,), idle_since=None, allocatable={GPU: gpus}, **changes)


def alone(pod: Pod) -> Workload:
    return Workload(key=pod.key, pods=(pod,))


def update(waiting: Pod, *nodes: Node) -> Rollout | None:
    return Rollouts(nodes, NOW).of(alone(waiting))


LWS, KNATIVE, RAY = "leaderworkerset.sigs.k8s.io/", "serving.knative.dev/", "ray.io/"
KEEPS = "its new pod needs 1 GPU that its old pod keeps until the new one is ready"


@pytest.mark.parametrize(
    ("owner", "labels", "series", "version"),
    [
        ("ReplicaSet/a-b-6d9f7", {"pod-template-hash": "6d9f7"}, "Deployment ml/a-b", "6d9f7"),
        (
            "ReplicaSet/llm-predictor-6d9f7",
            {"pod-template-hash": "6d9f7", "serving.kserve.io/inferenceservice": "llm"},
            "InferenceService ml/llm",
            "llm-predictor-6d9f7",
        ),
        ("ReplicaSet/serve-6d9f7", {"rollouts-pod-template-hash": "6d9f7"}, "Rollout ml/serve", "6d9f7"),
        (
            "ReplicaSet/llm-00002-deployment-6d9f7",
            {"pod-template-hash": "6d9f7", f"{KNATIVE}service": "llm", f"{KNATIVE}revision": "llm-00002"},
            "Knative Service ml/llm",
            "llm-00002",
        ),
        (
            "StatefulSet/llm",
            {f"{LWS}name": "llm", f"{LWS}template-revision-hash": "77c"},
            "LeaderWorkerSet ml/llm",
            "77c",
        ),
        (
            "RayCluster/llm-raycluster-x2",
            {
                "ray.io/originated-from-crd": "RayService",
                "ray.io/originated-from-cr-name": "llm",
                "ray.io/cluster": "x2",
            },
            "RayService ml/llm",
            "x2",
        ),
        ("ReplicaSet/serve", {}, None, None),
        ("ReplicaSet/serve-6d9f7", {"pod-template-hash": "other"}, None, None),
        ("StatefulSet/serve", {"controller-revision-hash": "serve-6d9f7"}, None, None),
        ("Job/train", {"pod-template-hash": "6d9f7"}, None, None),
        ("", {}, None, None),
    ],
)
def test_a_pod_says_what_makes_it_in_versions(
    owner: str, labels: dict[str, str], series: str | None, version: str | None
) -> None:
    known = version_of(a_pod(owner=owner, labels=labels))
    assert (known and str(known[0]), known and known[1]) == (series, version)


def test_a_new_pod_waits_for_a_gpu_that_the_version_before_keeps() -> None:
    known = update(of("new"), running(of("old")))
    assert known is not None
    assert (known.deadlocked, known.settled, known.old_pods) == (True, True, ("ml/serve-old-0",))
    assert str(known) == f"rolling update of Deployment ml/serve: {KEEPS}"


@pytest.mark.parametrize(
    "nodes",
    [
        [],
        [running(of("new", 1))],
        [running(of("old", owner="ReplicaSet/other-old"))],
        [running(of("old", namespace="web"))],
        [running(a_pod("train"))],
    ],
    ids=["nothing runs", "the same version", "another Deployment", "another namespace", "other work"],
)
def test_work_without_a_version_before_is_no_rolling_update(nodes: list[Node]) -> None:
    assert update(of("new"), *nodes) is None


@pytest.mark.parametrize(
    "nodes",
    [
        [running(of("old", terminating=True))],
        [running(of("old")), running(of("old", 1, terminating=True), "n2")],
        [running(of("old")), running(of("new", 1), "n2")],
        [running(of("old"), gpus=0)],
    ],
    ids=["the old pod leaves", "one of the old pods leaves", "a new pod has begun", "the old pod's node is too small"],
)
def test_an_update_that_moves_or_frees_too_little_is_no_deadlock(nodes: list[Node]) -> None:
    known = update(of("new"), *nodes)
    assert known is not None
    assert not known.deadlocked


def test_small_old_pods_on_one_node_make_room_for_a_large_new_one_together() -> None:
    old = tuple(replace(of("old", n, gpus=4), node="n1", phase=PodPhase.RUNNING) for n in range(2))
    node = a_node("n1", pods=old, idle_since=None, allocatable={GPU: 8})
    known = update(of("new", gpus=8), node)
    assert known is not None
    assert known.deadlocked
    assert "needs 8 GPUs that its old pods keep" in str(known)


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Deployment", '"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}'),
        ("InferenceService", '"predictor":{"deploymentStrategy":{"type":"Recreate"}}'),
        (
            "LeaderWorkerSet",
            '"rolloutStrategy":{"rollingUpdateConfiguration":{"maxSurge":0,"maxUnavailable":1}}',
        ),
        ("Rollout", '"strategy":{"canary":{"maxSurge":0,"maxUnavailable":1}}'),
    ],
)
def test_the_remedy_is_a_command_for_its_kind(kind: str, spec: str) -> None:
    known = update(of("new"), running(of("old")))
    assert known is not None
    named = replace(known, series=replace(known.series, kind=kind, name="x"))
    patch = f"kubectl -n ml patch {kind.lower()} x --type merge -p '{{\"spec\":{{{spec}}}}}'"
    assert named.remedy("ROOM") == f"let it take an old pod away first: {patch}; or ROOM"


def test_what_has_no_such_strategy_needs_room_or_a_person() -> None:
    known = update(of("new"), running(of("old")))
    assert known is not None
    named = replace(known, series=replace(known.series, kind="RayService"))
    assert named.remedy("ROOM") == "ROOM, or end one of its old pods"


def explained(waiting: Pod, *nodes: Node, policy: Policy) -> tuple[Any, Mapping[str, Decision]]:
    known = facts(a_state(*nodes), waiting=[waiting])
    assignment = assign(known, policy)
    decisions = decide_all(known, assignment, policy, explained_by=with_grounds)
    [only] = explain(known, assignment, decisions, policy)
    return only.fate, decisions


FULL = a_policy(a_pool(max_nodes=1))


def test_a_pod_is_told_the_deadlock_before_the_rule_and_its_remedy() -> None:
    fate, _ = explained(of("new"), running(of("old")), policy=FULL)
    assert fate.state is State.HELD
    assert fate.rule == "within_maximum"
    assert fate.detail.startswith(
        "rolling update of Deployment ml/serve: its new pod needs 1 GPU that its old pod keeps"
    )
    assert fate.todo.endswith("or raise max_nodes of pool l40s (now 1) meanwhile")


def test_in_its_first_half_minute_an_update_is_not_called_a_deadlock() -> None:
    """Its controller may take an old pod away."""
    fate, _ = explained(of("new", created_at=NOW - 29 * SECOND), running(of("old")), policy=FULL)
    assert "rolling update" not in fate.detail
    assert not fate.todo


def deadlocks(waiting: list[Pod], *nodes: Node, policy: Policy = FULL) -> list[Concern]:
    shown = concerns_of(facts(a_state(*nodes), waiting=waiting), policy)
    return [concern for concern in shown if concern.kind == "held"]


def test_a_deadlock_is_one_message_with_its_remedy_and_none_that_the_pool_is_full() -> None:
    [concern] = deadlocks([of("new")], running(of("old")))
    assert concern.title == "GPU pool l40s: the rolling update of Deployment ml/serve waits for itself"
    assert concern.why.endswith("the pool does not grow: at its maximum of 1 node")
    assert "kubectl -n ml patch deployment serve" in concern.todo
    assert (concern.level, concern.severity) == (Level.BAD, Severity.WARNING)
    assert (concern.topic, concern.key) == ("rollout:l40s-id:Deployment ml/serve", "new")


def test_nothing_is_told_while_its_controller_may_still_take_an_old_pod_away() -> None:
    assert deadlocks([of("new", created_at=NOW - 10 * SECOND)], running(of("old"))) == []


def test_other_work_that_waits_is_told_beside_it() -> None:
    told = deadlocks([of("new"), a_pod("train")], running(of("old")))
    assert {concern.topic for concern in told} == {"rollout:l40s-id:Deployment ml/serve", "held:l40s-id:within_maximum"}


def test_of_many_updates_three_are_told() -> None:
    names = [f"serve{n}" for n in range(5)]
    waiting = [replace(of("new", owner=f"ReplicaSet/{n}-new"), name=f"{n}-new") for n in names]
    nodes = [running(replace(of("old", owner=f"ReplicaSet/{n}-old"), name=f"{n}-old"), f"node-{n}") for n in names]
    policy = a_policy(a_pool(max_nodes=5))
    assert len(deadlocks(waiting, *nodes, policy=policy)) == 3


def test_a_surge_below_the_maximum_is_bought_named_and_priced() -> None:
    policy = a_policy(a_pool(price_usd_per_hour=Decimal("2.99")))
    fate, decisions = explained(of("new"), running(of("old")), policy=policy)
    decision = decisions["l40s-id"]
    assert (fate.state, decision.target) == (State.BUYING, 2)
    assert decision.reasons[0].detail == (
        "ml/serve-new-0 waits for 1 GPU: 1 more node, for the surge of the rolling update of Deployment ml/serve,"
        " about $2.99 an hour for each node until its old pods have gone"
    )


def test_work_that_no_version_before_runs_for_buys_without_a_word_of_updates() -> None:
    _, decisions = explained(of("new"), running(a_pod("train")), policy=a_policy())
    assert decisions["l40s-id"].reasons[0].detail == "ml/serve-new-0 waits for 1 GPU: 1 more node"
