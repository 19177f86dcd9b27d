"""Pods that may not, or must, share a node: they get as many nodes as the scheduler needs for them, and no more."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from receiver.core.model.model import Facts, Node, Stage
from receiver.core.model.pods import HostRule, Pod, PodPhase, Requirement, Together
from receiver.core.model.policy import Objective, Policy
from receiver.core.scaling.assign import assign
from receiver.core.scaling.wanted import Assignment, Wanted
from tests.core.builders import (
    GPU,
    HOUR,
    MINUTE,
    NOW,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    facts,
    with_fields,
)
from tests.core.choices import Choices, built
from tests.core.worlds import LAWS

X8 = a_pool("x8", id="l40s-id", resources={GPU: 8})
POLICY = a_policy(X8, objective=Objective.COST)
WIDE = a_policy(replace(X8, max_nodes=99), objective=Objective.COST)


def app(name: str) -> tuple[Requirement, ...]:
    return (Requirement(key="app", operator="In", values=(name,)),)


def apart(name: str = "a", *namespaces: str) -> HostRule:
    """No two pods of *name* on one node."""
    return HostRule(together=Together.NEVER, namespaces=namespaces or ("ml",), selector=app(name))


def beside(name: str = "a") -> HostRule:
    return HostRule(together=Together.ALWAYS, namespaces=("ml",), selector=app(name))


def evenly(name: str = "a", **changes: Any) -> HostRule:
    return HostRule(together=Together.EVENLY, namespaces=("ml",), selector=app(name), **changes)


def replicas(count: int, *rules: HostRule, name: str = "a", **changes: Any) -> list[Pod]:
    """So many waiting pods of one app, with one GPU each."""
    return [
        a_pod(f"{name}-{n}", **{"labels": {"app": name, "index": str(n)}, "host_rules": rules, **changes})
        for n in range(count)
    ]


def running(node: str, *pods: Pod, **changes: Any) -> Node:
    """A node of eight GPUs on which *pods* run."""
    on = tuple(replace(p, phase=PodPhase.RUNNING, node=node, created_at=NOW - MINUTE) for p in pods)
    given = {"allocatable": {GPU: 8}, "pods": on, "idle_since": None if on else NOW - 15 * MINUTE}
    return a_node(node, **{**given, **changes})


def wanted(pods: Sequence[Pod], *nodes: Node, policy: Policy = POLICY) -> Wanted:
    return assign(facts(a_state(*nodes), waiting=pods), policy).pools["l40s-id"]


@pytest.mark.parametrize(
    ("rule", "count", "nodes"),
    [
        pytest.param(apart(), 2, 2, id="two that keep apart"),
        pytest.param(apart(), 4, 4, id="one per host"),
        pytest.param(evenly(elsewhere=True), 4, 4, id="a spread beside CPU nodes"),
        pytest.param(evenly(elsewhere=True, max_skew=2), 4, 2, id="with a skew of two"),
        pytest.param(evenly(min_domains=4), 4, 4, id="a spread over four nodes at least"),
        pytest.param(evenly(min_domains=2), 4, 2, id="over two at least"),
        pytest.param(evenly(), 4, 1, id="a spread over this pool alone, where one node is level with itself"),
        pytest.param(beside(), 4, 1, id="four that run together"),
        pytest.param(apart("other"), 4, 1, id="apart from others"),
    ],
)
@pytest.mark.parametrize("gang", [None, "ml/g"], ids=["alone", "gang"])
def test_from_zero_as_many_nodes_are_bought_as_the_scheduler_needs(
    rule: HostRule, count: int, nodes: int, gang: str | None
) -> None:
    pods = replicas(count, rule, gang=gang)
    assert wanted(pods).for_demand == nodes
    coming = [a_node(f"c{n}", stage=Stage.BUILDING, idle_since=None, registered=False) for n in range(nodes)]
    assert wanted(pods, *coming).for_demand == 0, "the same pods are not bought for twice"


def test_a_gang_that_keeps_apart_is_bought_whole_or_not_at_all() -> None:
    pods = replicas(4, apart(), gang="ml/g")
    found = wanted(pods, policy=a_policy(replace(X8, max_nodes=3)))
    assert (found.for_demand, [held.rule for held in found.work.held]) == (0, ["gangs_whole"])
    assert found.work.held[0].detail.startswith("gang ml/g needs 4 new nodes at once")


@pytest.mark.parametrize(
    ("here", "waits", "nodes"),
    [
        pytest.param(replicas(1, apart("r"), name="r"), replicas(1, apart("a")), 0, id="another app runs there"),
        pytest.param(replicas(1, apart()), [a_pod("w", labels={"app": "a"}, host_rules=(apart(),))], 1, id="like it"),
        pytest.param(replicas(1, apart("w")), [a_pod("w", labels={"app": "w"})], 1, id="what runs keeps it away"),
        pytest.param([a_pod("r", labels={"app": "w"})], replicas(1, apart("w")), 1, id="it keeps away from what runs"),
        pytest.param(
            [a_pod("r", labels={"app": "a"}, namespace="other")], replicas(1, apart()), 0, id="one of another namespace"
        ),
        pytest.param(
            [a_pod("r", labels={"app": "a"}, namespace="other")],
            replicas(1, HostRule(together=Together.NEVER, namespaces=None, selector=app("a"))),
            1,
            id="a rule about every namespace",
        ),
        pytest.param(
            [with_fields(p, leaves_at=NOW) for p in replicas(1, apart())],
            [a_pod("w", labels={"app": "a"}, host_rules=(apart(),))],
            0,
            id="it is leaving",
        ),
        pytest.param(
            [with_fields(p, leaves_at=NOW - HOUR) for p in replicas(1, apart())],
            [a_pod("w", labels={"app": "a"}, host_rules=(apart(),))],
            1,
            id="it stays Terminating",
        ),
    ],
)
def test_beside_what_runs(here: list[Pod], waits: list[Pod], nodes: int) -> None:
    assert wanted(waits, running("n1", *here)).for_demand == nodes


@pytest.mark.parametrize(
    ("counts", "rule", "waits", "nodes"),
    [
        pytest.param((2, 2), evenly(), 4, 0, id="level nodes fill evenly"),
        pytest.param((4, 4), evenly(), 9, 1, id="and another is bought when they are full"),
        pytest.param((0, 0), evenly(elsewhere=True), 4, 2, id="a node elsewhere keeps each at one"),
        pytest.param((1, 1), evenly(elsewhere=True), 1, 1, id="both have one already"),
        pytest.param((1, 1), evenly(elsewhere=True, max_skew=2), 2, 0, id="a skew of two leaves room for one each"),
        pytest.param((1, 0), evenly(min_domains=3), 2, 1, id="fewer nodes than it asks for count as zero"),
    ],
)
def test_a_spread_over_nodes_that_exist(counts: tuple[int, ...], rule: HostRule, waits: int, nodes: int) -> None:
    there = [running(f"n{n}", *replicas(count, rule, name=f"a{n}")) for n, count in enumerate(counts)]
    there = [replace(node, pods=tuple(replace(pod, labels={"app": "a"}) for pod in node.pods)) for node in there]
    assert wanted(replicas(waits, rule), *there).for_demand == nodes


def test_a_node_that_takes_no_work_is_level_all_the_same() -> None:
    """By default the scheduler counts tainted and cordoned nodes as hosts without a pod."""
    rule = evenly()
    n1 = running("n1", *[replace(p, labels={"app": "a"}) for p in replicas(1, rule, name="r")])
    closed = running("n2", maintained="is restarted")
    assert wanted(replicas(2, rule), n1).for_demand == 0
    assert wanted(replicas(2, rule), n1, closed).for_demand == 2


def test_pods_that_run_together_are_not_put_apart() -> None:
    held = running("n1", *replicas(1, beside(), name="r", labels={"app": "a"}), a_pod("big", 6))
    found = assign(facts(a_state(held, running("n2")), waiting=replicas(2, beside())), POLICY)
    assert found.pools["l40s-id"].work.placed == (("ml/a-0", "i-n1"),)
    assert found.pools["l40s-id"].for_demand == 0
    assert [m.detail for m in found.misfits] == [
        "pod ml/a-1 must run beside pods that its affinity names, and their nodes have no room for it"
    ]


def test_a_gang_that_runs_together_and_is_too_large_for_a_node_buys_none() -> None:
    found = wanted(replicas(9, beside(), gang="ml/g"))
    assert (found.for_demand, [held.detail for held in found.work.held]) == (
        0,
        ["the pods of gang ml/g must share a node, and none has room for all of them"],
    )


def test_pods_that_keep_apart_get_the_smallest_nodes() -> None:
    small = a_pool("x1", price_usd_per_hour=Decimal(1))
    policy = a_policy(small, replace(X8, id="x8-id", price_usd_per_hour=Decimal(7)))
    found = assign(facts(a_state(pool="x1-id"), a_state(pool="x8-id"), waiting=replicas(8, apart())), policy)
    assert {pool: w.for_demand for pool, w in found.pools.items()} == {"x1-id": 8, "x8-id": 0}


def test_work_is_not_moved_beside_a_pod_that_keeps_it_away() -> None:
    moving = a_pod("moving", labels={"app": "a"}, owner="ReplicaSet/a", evictable=True)
    n2 = running("n2", a_pod("r"))
    for rules, movable in (((), {"i-n1"}), ((apart(),), frozenset())):
        pods = [with_fields(pod, host_rules=rules) for pod in n2.pods]
        found = wanted([], running("n1", moving), replace(n2, pods=tuple(pods)))
        assert found.nodes.movable == movable


# Random worlds against the scheduler's rules, written down a second time.


def a_world(draw: Choices) -> Facts:
    apps = ["a", "b"]
    rules = [apart("a"), apart("b"), evenly("a", elsewhere=True), evenly("b", min_domains=2), evenly("a"), beside("b")]

    def pod(name: str, **changes: Any) -> Pod:
        own = draw.one(apps)
        mine = tuple(rule for rule in rules if draw.one([False, False, True]))
        gang = draw.one([None, None, None, "ml/g"])
        return a_pod(name, draw.one([1, 1, 2, 4]), labels={"app": own}, host_rules=mine, **{"gang": gang, **changes})

    nodes = []
    for n in range(draw.one([0, 1, 2, 3])):
        on = [pod(f"on-{n}", gang=None)] if draw.one([True, False]) else []
        nodes.append(running(f"n{n}", *on))
    waiting = [pod(f"w{n}") for n in range(draw.one([1, 2, 4, 8]))]
    return facts(a_state(*nodes), waiting=waiting)


def seats(found: Assignment) -> list[tuple[Pod, object]]:
    return [
        (pod, room.host)
        for given in found.pools["l40s-id"].work.rooms
        for pod, room in zip(given.workload.pods, given.rooms, strict=True)
    ]


def about(rule: HostRule, pod: Pod) -> bool:
    return pod.namespace in (rule.namespaces or ()) and pod.labels.get("app") in rule.selector[0].values


def refuses(pod: Pod, host: object, hosts: dict[object, list[Pod]]) -> HostRule | None:
    """The rule by which the scheduler would keep *pod* from *host*."""
    for other in hosts[host]:
        for rule in other.scheduling.host_rules:
            if rule.together is Together.NEVER and about(rule, pod):
                return rule
    for rule in pod.scheduling.host_rules:
        counts = {name: sum(about(rule, other) for other in pods) for name, pods in hosts.items()}
        least = 0 if rule.elsewhere or len(counts) < rule.min_domains else min(counts.values())
        apart_ = rule.together is Together.NEVER and counts[host] > 0
        alone = rule.together is Together.ALWAYS and any(counts.values()) and not counts[host]
        uneven = rule.together is Together.EVENLY and counts[host] + about(rule, pod) - least > rule.max_skew
        if apart_ or alone or uneven:
            return rule
    return None


@given(built(a_world, 80))
@LAWS
def test_no_pod_is_put_where_the_scheduler_would_refuse_it(found: Facts) -> None:
    assignment = assign(found, WIDE)
    hosts: dict[object, list[Pod]] = {n.instance: list(n.pods) for n in found.pools[0].nodes}
    there, placed = set(hosts), seats(assignment)
    for pod, host in placed:
        hosts.setdefault(host, [])
        assert refuses(pod, host, hosts) is None, pod.name
        hosts[host].append(pod)
    assert all(sum(pod.gpus for pod in pods) <= 8 for pods in hosts.values())
    assert assignment.pools["l40s-id"].for_demand == len(hosts.keys() - there) <= len(found.waiting)
    left = [p for p in found.waiting if p.name not in {pod.name for pod, _ in placed}]
    together = {
        pod.name for pod in found.waiting if any(r.together is Together.ALWAYS for r in pod.scheduling.host_rules)
    }
    assert all(pod.name in together or pod.gang for pod in left), "the others get a node at the latest"


@given(built(a_world, 80))
@LAWS
def test_rules_about_pods_that_are_not_there_change_nothing(found: Facts) -> None:
    nowhere = (apart("nowhere"), evenly("nowhere"), beside("nowhere"))
    plain = replace(
        found, waiting=tuple(with_fields(p, host_rules=()) for p in found.waiting), pools=_without(found, ())
    )
    ruled = replace(found, waiting=tuple(with_fields(p, host_rules=nowhere) for p in found.waiting))
    ruled = replace(ruled, pools=_without(found, nowhere))
    assert outcome(plain) == outcome(ruled)


def outcome(found: Facts) -> object:
    """What is bought and who sits where, without the rules of those who sit there."""
    wanted = assign(found, WIDE).pools["l40s-id"]
    asking = [work.key for work in wanted.work.asking]
    return (
        wanted.for_demand,
        asking,
        wanted.work.settled,
        wanted.work.placed,
        wanted.nodes.needed,
        wanted.nodes.movable,
    )


def _without(found: Facts, rules: tuple[HostRule, ...]) -> Any:
    [state] = found.pools
    nodes = (replace(node, pods=tuple(with_fields(pod, host_rules=rules) for pod in node.pods)) for node in state.nodes)
    return (replace(state, nodes=tuple(nodes)),)
