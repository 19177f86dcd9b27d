"""The smallest world of each everyday operation: no node is bought, kept or refused by it."""

from dataclasses import replace
from typing import Any

import pytest

from campaigns.faults.campaign import judge
from campaigns.faults.planted import BUGS, plant
from campaigns.faults.scenario import Event, Scenario
from simulator.scheduling import OBSTACLE_ANNOTATION, PORT_ANNOTATION
from simulator.slow_pods import BINDS_IN, FAILS, KEEPS_NOMINATION
from simulator.store import MemoryStore
from tests.campaigns.faults.small import POOL, a_job, small

LABELLED = replace(POOL, labels={"gpu": "l40s"}, max_nodes=2)
BY_LABEL: dict[str, Any] = {"selector": {"gpu": "l40s"}}
BY_SECOND: dict[str, Any] = {"granularity": 1, "removal_margin": 0}
ONE_STANDS = replace(POOL, count=1)
EIGHT = replace(POOL, resources={"nvidia.com/gpu": 8})


def hindered(at: float = 10, *, name: str = "j0", **annotations: str) -> Event:
    """A job with *annotations* for the simulated scheduler."""
    return a_job(at, id=name, annotations={f"simulator/{k.replace('_', '-')}": v for k, v in annotations.items()})


def an_event(at: float, kind: str, **what: Any) -> Event:
    return Event(at=at, kind=kind, what=what)


def on_the_node(at: float, kind: str, **what: Any) -> Event:
    return an_event(at, kind, pool=POOL.id, which="oldest", **what)


WORLDS: dict[str, Scenario] = {
    "a pod whose volume claim is missing": small(hindered(obstacle="claim")),
    "a pod whose volumes exceed what a node takes": small(hindered(obstacle="volumes"), **BY_SECOND),
    "eight pods that ask for hugepages": small(
        a_job(pods=8, annotations={OBSTACLE_ANNOTATION: "hugepages"}), pool=EIGHT
    ),
    "a claim that is created an hour later": small(
        hindered(obstacle="claim"), an_event(3500, "obstacle_over", id="j0"), troubled=3600, ticks=[90]
    ),
    "two pods with the same port of the host": small(
        a_job(pods=2, seconds=5 * 3600, annotations={PORT_ANNOTATION: "80"}), pool=EIGHT
    ),
    "a pod whose volume attaches slowly": small(
        hindered(binds_in="280"), pool=replace(ONE_STANDS, idle_for=60, shrink_cooldown=0), **BY_SECOND
    ),
    "a second pod beside a reserved GPU": small(
        hindered(binds_in="280"), a_job(60, id="j1"), pool=replace(ONE_STANDS, max_nodes=2)
    ),
    "a pod whose binding fails, and that stays nominated": small(
        a_job(annotations={BINDS_IN: "30", FAILS: "1", KEEPS_NOMINATION: "true"}),
        a_job(20, id="j1", priority=10, seconds=60),
        pool=replace(ONE_STANDS, max_nodes=2),
    ),
    "a pod that is nominated to a node that is gone": small(
        a_job(annotations={BINDS_IN: "60", KEEPS_NOMINATION: "true"}),
        an_event(30, "delete_instance", pool=POOL.id, which=0),
        pool=ONE_STANDS,
    ),
    "a restart with thirty seconds of grace": small(
        a_job(seconds=900, owner="ReplicaSet"), an_event(600, "restart", which=0, grace=30), troubled=700
    ),
    "a node whose kubelet dies under a pod": small(
        a_job(seconds=900),
        an_event(600, "kubelet_dies", pool=POOL.id, which=0),
        pool=replace(POOL, max_nodes=1),
        troubled=700,
    ),
    "the only node tainted": small(
        on_the_node(200, "taint", key="maintenance", effect="NoSchedule"), a_job(240), pool=ONE_STANDS
    ),
    "the only node tainted while it is busy": small(
        a_job(),
        on_the_node(600, "taint", key="maintenance", effect="NoSchedule"),
        a_job(620, id="j1"),
        troubled=700,
    ),
    "the newest node tainted and gone": small(
        on_the_node(200, "taint", key="maintenance", effect="NoSchedule"),
        a_job(1000),
        pool=replace(ONE_STANDS, idle_for=300, shrink_cooldown=0),
        troubled=1200,
        **BY_SECOND,
    ),
    "the only node relabelled": small(
        on_the_node(200, "relabel", key="gpu", value="mine"),
        a_job(240, **BY_LABEL),
        pool=replace(LABELLED, count=1),
    ),
    "a label taken from a busy node": small(
        a_job(**BY_LABEL),
        on_the_node(600, "relabel", key="gpu", value=None),
        a_job(620, id="j1", **BY_LABEL),
        pool=LABELLED,
        troubled=700,
    ),
    "a standby node that Civo calls RUNNING": small(
        an_event(5, "civo_answers", how="word", word="RUNNING", pool=POOL.id, which=None, seconds=2000),
        pool=replace(ONE_STANDS, standby_nodes=1),
        troubled=2000,
        ticks=[90],
    ),
    "a standby node without a status": small(
        an_event(5, "civo_answers", how="word", word="", pool=POOL.id, which=None, seconds=2000),
        pool=replace(ONE_STANDS, standby_nodes=1),
        troubled=2000,
        ticks=[90],
    ),
}


# Long ones, beside which others show the same: taints and labels that people set.
NIGHTLY = {"the only node tainted while it is busy", "the newest node tainted and gone", "the only node relabelled"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name in NIGHTLY)) for name in WORLDS]
)
def test_no_node_is_bought_or_kept_or_refused_by(name: str, emptied: MemoryStore) -> None:
    assert judge(WORLDS[name], emptied).message == ""


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("what a person does", "a label taken from a busy node"),
        ("a pod that leaves", "a restart with thirty seconds of grace"),
        ("a dead kubelet keeps", "a node whose kubelet dies under a pod"),
        ("a nominated pod", "a second pod beside a reserved GPU"),
        ("what the scheduler refuses", "a pod whose volumes exceed what a node takes"),
        ("a word that Civo", "a standby node that Civo calls RUNNING"),
    ],
)
def test_a_planted_bug_is_seen(words: str, name: str, emptied: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(words, monkeypatch)
    [bug] = [bug for bug in BUGS if words in bug.name]
    assert judge(WORLDS[name], emptied).message.startswith(bug.seen)
