"""CapacityBuffers beside pods that leave, that the scheduler refuses, and that keep apart or need each other."""

from dataclasses import replace
from datetime import timedelta

from receiver.core.model.model import Facts, Node
from receiver.core.model.pods import HostRule, Pod, PodPhase, Requirement, Together
from receiver.core.model.policy import Objective
from receiver.core.scaling.witness import REFUSED_AFTER, judged
from tests.core.builders import (
    GPU,
    MINUTE,
    NOW,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    assigned,
    facts,
    run,
    with_fields,
)
from tests.given.requests import buffer_of

POLICY = a_policy(a_pool("x8", id="l40s-id", resources={GPU: 8}), objective=Objective.COST)


def chunk_of(together: Together) -> Pod:
    """A chunk of app a, with a rule about pods of that app."""
    app = (Requirement(key="app", operator="In", values=("a",)),)
    rule = HostRule(together=together, namespaces=("ml",), selector=app)
    return a_pod("a-0", labels={"app": "a"}, host_rules=(rule,))


def test_pods_that_keep_apart_are_kept_a_node_for_each() -> None:
    found = assigned(facts(a_state(), requests=(buffer_of("ml/b", chunk_of(Together.NEVER), 3),)), POLICY)
    assert found.pools["l40s-id"].by_source["buffer"] == 3


def test_pods_that_run_beside_others_open_no_nodes_without_end() -> None:
    chunk = chunk_of(Together.ALWAYS)
    pods = a_pod("full", 7), replace(chunk, name="r")
    running = tuple(replace(pod, phase=PodPhase.RUNNING, node="n1") for pod in pods)
    there = a_node("n1", allocatable={GPU: 8}, pods=running, idle_since=None)
    found = assigned(facts(a_state(there), requests=(buffer_of("ml/b", chunk, 3),)), POLICY)
    assert found.pools["l40s-id"].by_source["buffer"] == 0
    assert found.answers[0].message == "0 of 3 chunks have room; a chunk must run beside pods that its affinity names"


def test_a_buffer_waits_for_room_that_comes() -> None:
    ending = a_pod("old", phase=PodPhase.RUNNING, node="n1", leaves_at=NOW + timedelta(seconds=30))
    node: Node = a_node(pods=(ending,), idle_since=None, was_usable=True)
    buffer = buffer_of("ml/spare", a_pod("chunk"), 1)
    buffer = buffer_of("ml/spare", a_pod("chunk"), 1)
    assignment, decisions = run(facts(a_state(node), requests=(buffer,)), a_policy())
    [kept] = assignment.answers
    assert (decisions["l40s"].target, kept.ready_gpus) == (1, 0)
    assert kept.message.startswith("1 of 1 chunk has room, 1 of them on nodes that are on their way")


def test_a_buffer_is_kept_beside_work_that_the_scheduler_refuses() -> None:
    says = "0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 3 node(s) didn't match Pod's node affinity."
    job = a_pod("train-0", owner="Job/train", owner_uid="job-1", scheduler_says=says, created_at=NOW - 60 * MINUTE)
    seen: Facts = facts(a_state(a_node(idle_since=NOW)), waiting=[job])
    end = seen.at + REFUSED_AFTER + MINUTE
    while seen.at < end:
        rooms = {pool: wanted.work.rooms for pool, wanted in assigned(seen, a_policy()).pools.items()}
        seen = with_fields(seen, refusals=judged(seen, rooms, a_policy()), at=seen.at + MINUTE)
    assert any(each.refused_at for each in seen.other_work.refusals)
    later = with_fields(seen, at=seen.at + 60 * MINUTE, pools=(a_state(),))
    assert assigned(later, a_policy()).pools["l40s-id"].new_nodes == 0
    buffer = buffer_of("ml/spare", a_pod("spare", uid=""), 1)
    assert assigned(with_fields(later, requests=(buffer,)), a_policy()).pools["l40s-id"].new_nodes == 1
