"""Bugs about claims of devices are seen in small worlds, and a product without them passes there."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from campaigns.faults.campaign import judge
from campaigns.faults.claims import PARTS, SPECS, WHOLE
from campaigns.faults.planted import plant
from campaigns.faults.scenario import Event, Scenario
from simulator.store import MemoryStore
from tests.campaigns.faults.small import POOL, a_job, small

GPU = "nvidia.com/gpu"
CLAIMED = replace(POOL, devices=WHOLE, dra=True)
Judge = Callable[[Scenario], set[str]]


@pytest.fixture
def seen(emptied: MemoryStore) -> Judge:
    """Return the invariants that do not hold in a world."""
    return lambda world: {line.split(":")[0] for line in judge(world, emptied).message.splitlines()}


def objects(**claims: str) -> Event:
    """The templates and *claims*, each by the name of what it asks for."""
    given = {name: SPECS[asked] for name, asked in claims.items()}
    return Event(at=0, kind="claims", what={"templates": SPECS, "claims": given})


def a_claiming_job(template: str = "one", at: float = 10, **changes: Any) -> Event:
    """A job whose pods claim devices."""
    return a_job(at=at, **{"each": 0, "claims": {"template": template}, **changes})


@pytest.mark.parametrize("template", ["one", "two", "all", "near", "four-or-one", "mig-or-gpu"])
def test_work_that_claims_devices_runs_and_its_nodes_go(seen: Judge, template: str) -> None:
    pool = replace(CLAIMED, resources={GPU: 2})
    assert seen(small(objects(), a_claiming_job(template, pods=2), pool=pool)) == set()


@pytest.mark.parametrize("template", ["mig", "large", "mig-or-gpu"])
def test_work_that_claims_parts_of_devices_runs_and_its_nodes_go(seen: Judge, template: str) -> None:
    pool = replace(POOL, devices=PARTS, slices=2)
    assert seen(small(objects(), a_claiming_job(template, pods=2), pool=pool, timings={"slices": 20})) == set()


def test_a_node_that_is_removed_while_a_claim_is_allocated_on_it(seen: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    idle = a_claiming_job(util=0.0, memory=0.0)  # used GPUs keep a node by themselves
    world = small(objects(), idle, pool=replace(CLAIMED, count=1), granularity=1)
    assert seen(world) == set()
    plant("while a claim is allocated", monkeypatch)
    assert seen(world) == {"1 GPU pods", "1 claims", "1 pods killed"}


def test_a_shared_claim_that_is_counted_for_each_pod(seen: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    world = small(objects(ours="one"), a_claiming_job(pods=3, claims={"claim": "ours"}), pool=CLAIMED)
    assert seen(world) == set()
    plant("counted once for each", monkeypatch)
    assert seen(world) == {"4 asked twice"}


def test_an_incomplete_pool_that_is_taken_for_complete(seen: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = replace(CLAIMED, resources={GPU: 2}, slices=2)
    never = Event(at=0, kind="slices", what={"pool": pool.id})
    world = small(objects(), never, a_claiming_job(), pool=pool, timings={"build": 20, "boot": 10, "driver": 20})
    assert seen(world) == set()
    plant("before all of its slices", monkeypatch)
    assert seen(world) == {"5 shown"}


def test_a_tainted_device_that_counts_as_free(seen: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = replace(CLAIMED, resources={GPU: 2}, count=1)
    of_node = {"pool": pool.id, "which": 0, "effect": "NoSchedule", "for_good": True}
    sick = [Event(at=0, kind="sick", what={**of_node, "device": n}) for n in (0, 1)]
    world = small(objects(), *sick, a_claiming_job(), pool=pool, granularity=1)
    assert seen(world) == set()
    monkeypatch.setattr("receiver.core.model.devices._Kind.lets_in", lambda *_: True)
    # Later the scheduler's refusal is believed, and the work is held by that name.
    monkeypatch.setattr("campaigns.faults.run.CALM_STEPS", 8)
    assert seen(world) == {"5 settles"}
