"""The kinds of worlds that checks on a real control plane asked for are drawn, and their bugs are seen in them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from campaigns.faults.campaign import judge
from campaigns.faults.claims import with_claims
from campaigns.faults.generate import Maker, scenario
from campaigns.faults.outside import EVERYTHING, packs
from campaigns.faults.planted import plant
from campaigns.faults.scenario import Event, Scenario
from simulator.store import MemoryStore
from tests.campaigns.faults.small import POOL, a_job, small

ONE = replace(POOL, name="one", resources={"nvidia.com/gpu": 2}, price="2.00")
TWO = replace(ONE, name="two", price="1.60")
Judge = Callable[[Scenario], set[str]]


@pytest.fixture
def seen(emptied: MemoryStore) -> Judge:
    """Return the invariants that do not hold in a world."""
    return lambda world: {line.split(":")[0] for line in judge(world, emptied).message.splitlines()}


def of_pool(pool: str, at: float, **changes: Any) -> Event:
    """A job for the nodes of one pool."""
    return a_job(at=at, selector={"kubernetes.civo.com/civo-node-pool": f"{pool}-id"}, **changes)


def test_most_worlds_are_what_they_were() -> None:
    before = [with_claims(Maker(seed).scenario()) for seed in range(60)]
    now = [scenario(seed) for seed in range(60)]
    same = [one == other for one, other in zip(before, now, strict=True)]
    assert 20 < sum(same) < 50


def test_every_kind_is_drawn_often_enough_to_be_found_within_500_worlds() -> None:
    worlds = [scenario(seed) for seed in range(120)]
    kinds = {
        "a shelf": sum(bool(w.shelf) for w in worlds),
        "hangs": sum(any(e.what.get("error") == "hang" for e in w.events) for w in worlds),
        "bare nodes": sum(any(e.kind == "bare" for e in w.events) for w in worlds),
        "kept nodes": sum(any(e.what.get("id") == "kept" for e in w.events) for w in worlds),
        "nodes sick at work": sum(any(e.what.get("id") == "sick" for e in w.events) for w in worlds),
        "shared work": sum(any(e.what.get("id", "").startswith("share") for e in w.events) for w in worlds),
    }
    assert {kind: count for kind, count in kinds.items() if count < 4} == {}


def test_a_node_too_many_because_rooms_were_given_out_as_work_came(
    seen: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    coming = [of_pool("one", 5, id="early"), Event(at=25, kind="cancel", what={"id": "early"})]
    later = [a_job(at=32, id="any", pods=3), of_pool("two", 52, id="late")]
    world = replace(small(*coming, *later), pools=[ONE, TWO])
    assert seen(world) == set()
    plant("filled in the order", monkeypatch)
    assert seen(world) == {"4 filled poorly"}


def test_two_calls_that_hang_in_one_step(seen: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    hang = Event(at=1, kind="fault", what={"on": "cloud.resize", "error": "hang", "after": False})
    world = replace(small(hang, hang, of_pool("one", 5, id="a"), of_pool("two", 5, id="b")), pools=[ONE, TWO])
    assert seen(world) == set()
    plant("holds the other pools up", monkeypatch)
    assert seen(world) == {"9 held up"}


def test_a_node_that_was_deleted_before_it_was_usable_and_counts_as_coming(
    seen: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = Event(at=75, kind="delete_node", what={"pool": POOL.id, "which": 0})
    world = small(a_job(), deleted, troubled=600, timings={"build": 20, "boot": 30, "driver": 300})
    assert seen(world) == set()
    plant("young for ever", monkeypatch)
    assert seen(world) == {"5 broken"}


def test_a_removal_that_a_budget_blocks_ends_without_that_reason(seen: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    web = {"id": "kept", "pods": 1, "min_available": 1, "tolerations": EVERYTHING}
    pool = replace(POOL, count=1, idle_for=60)
    world = small(Event(at=5, kind="cpu", what=web), pool=pool, troubled=1500, granularity=1, removal_margin=0)
    assert seen(world) == set()
    plant("PodDisruptionBudget blocks", monkeypatch)
    assert seen(world) == {"9 says why"}


def test_a_sick_node_that_is_removed_while_its_work_runs(seen: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    falls_sick = Event(at=300, kind="sicken", what={"pool": POOL.id, "which": 0, "how": "xid"})
    pool = replace(POOL, repair_share=1.0)
    world = small(a_job(seconds=1800), falls_sick, pool=pool, troubled=1500)
    assert seen(world) == set()
    plant("removed while its work runs", monkeypatch)
    assert "1 GPU pods" in seen(world)


def test_a_node_whose_gpus_come_by_dra_and_that_is_removed_as_stuck(
    seen: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = replace(POOL, dra=True, provision_timeout=300)
    timings = {"build": 20, "boot": 10, "driver": 20}
    world = small(a_job(seconds=400), pool=pool, troubled=900, timings=timings)
    assert seen(world) == set()
    plant("waits for its device plugin", monkeypatch)
    assert seen(world) == {"1 never came"}


def test_control_state_that_is_lost_with_the_picture(seen: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = Event(at=5, kind="bug", what={"function": "step/publish.py:picture", "pool": None, "seconds": 120})
    alert = Event(at=20, kind="alert", what={"name": "Said", "action": "notify"})
    assert seen(small(bug, alert)) == set()
    plant("stored with the picture", monkeypatch)
    assert seen(small(bug, alert)) == {"5 bounded steps"}  # no step trusts its clock


def test_a_pool_that_asks_for_all_nodes_or_none_while_civo_has_one(
    seen: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    sold_out = Event(at=1, kind="stock", what={"pool": POOL.id, "left": 0})
    world = small(sold_out, a_job(pods=3), shelf={POOL.id: 1}, troubled=60)
    assert seen(world) == set()
    plant("asks for all nodes or none", monkeypatch)
    assert seen(world) == {"5 partial stock"}


def test_an_odd_node_beside_one_that_holds_the_pod(seen: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = replace(POOL, labels={"gpu": "l40s"})
    odd = Event(at=1, kind="bare", what={"pool": pool.id})
    work = [of_pool(pool.name, at, id=f"a{at}", seconds=1500) for at in (5, 250)]
    world = small(work[0], replace(odd, at=240), work[1], a_job(at=550, selector=pool.labels), pool=pool, troubled=700)
    assert seen(world) == set()
    plant("odd node disproves", monkeypatch)
    assert seen(world) == {"5 disproved"}


@pytest.mark.parametrize(
    ("asks", "fits"),
    [
        ([(1, "ab"), (1, "ab"), (1, "ab"), (1, "b")], True),
        ([(1, "ab"), (1, "b"), (1, "b"), (1, "b")], False),
        ([(2, "ab"), (2, "a")], True),
        ([(2, "b"), (1, "ab"), (1, "a")], True),
        ([(2, "b"), (2, "b")], False),
    ],
)
def test_every_way_to_fill_rooms_is_tried(asks: list[tuple[int, str]], fits: bool) -> None:
    rooms = [("a", 2), ("b", 2)]
    assert packs([(count, frozenset(pools)) for count, pools in asks], rooms) is fits
