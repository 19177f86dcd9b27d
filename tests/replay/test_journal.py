"""Versions, watches and repeatability."""

from typing import Any

import pytest

from receiver.replay.world.objects import GPU, Denied, PodSpec, Timings, WorldChange
from simulator.world import World
from tests.replay.builders import job, pool, run, vms, world


def lively(seed: int, **changes: Any) -> World:
    """A world in which much happens."""
    w = world(pool("a", resources={GPU: 2}), timings=Timings(jitter=0.3), seed=seed, **changes)
    w.resize("a", 3)
    for number in range(12):
        w.submit(job(f"x{number}", runs=100 + number, gpus_per_pod=1 + number % 2))
    run(w, 500)
    w.delete_instance("a", vms(w)[1].id)
    w.patch_node(vms(w)[0].hostname, unschedulable=True)
    return run(w, 2000)


def test_the_same_seed_gives_the_same_journal() -> None:
    assert list(lively(1).journal) == list(lively(1).journal)


def test_another_seed_gives_another_journal() -> None:
    assert list(lively(1).journal) != list(lively(2).journal)


def test_advancing_in_small_steps_gives_the_same_journal_as_in_one() -> None:
    def begun() -> World:
        w = world(timings=Timings(jitter=0.3))
        w.resize("a", 2)
        for number in range(4):
            w.submit(job(f"x{number}", runs=50))
        return w

    one, many = begun(), begun()
    run(one, 1000)
    for second in range(1001):
        run(many, second)
    assert list(one.journal) == list(many.journal)


def test_versions_grow_with_every_change_and_replaying_them_gives_the_present() -> None:
    w = lively(3)
    versions = [c.version for c in w.journal]
    assert versions == sorted(set(versions))
    assert w.version == versions[-1]
    pods: dict[str, object] = {}
    nodes: dict[str, object] = {}
    for change in w.journal:
        shelf = pods if change.kind == "Pod" else nodes
        assert (change.key in shelf) is (change.verb != "ADDED")
        assert change.before is shelf.get(change.key)
        if change.verb == "DELETED":
            del shelf[change.key]
        else:
            shelf[change.key] = change.obj
    assert pods == {f"{ns}/{name}": p for (ns, name), p in w.pods.items()}
    assert nodes == w.nodes


def test_changes_since_a_version_can_be_asked_for_one_kind() -> None:
    w = lively(1)
    middle = w.journal[len(w.journal) // 2].version
    later = w.changes_since(middle)
    assert [c.version for c in later] == list(range(middle + 1, w.version + 1))
    nodes = w.changes_since(middle, "Node")
    assert nodes == [c for c in later if c.kind == "Node"]
    assert nodes


def test_a_watch_from_before_a_compaction_is_gone() -> None:
    w = lively(1)
    w.compact(10)
    assert w.changes_since(9)[0].version == 10
    with pytest.raises(Denied) as refused:
        w.changes_since(8)
    assert refused.value.status == 410


def test_the_journal_keeps_to_its_limit() -> None:
    w = lively(1, journal_limit=40)
    assert len(w.journal) <= 40
    assert w.changes_since(w.oldest_version)[-1].version == w.version
    with pytest.raises(Denied):
        w.changes_since(0)


def test_a_change_that_changes_nothing_is_not_journaled() -> None:
    w = world(pool(count=1))
    before = w.version
    w.patch_node(vms(w)[0].hostname, unschedulable=False, labels={}, annotations={"absent": None})
    assert w.version == before


def test_a_snapshot_in_the_journal_does_not_move_with_the_object() -> None:
    w = world(pool(count=1))
    w.add_pod(PodSpec(namespace="default", name="p", requests={GPU: 1}))
    first: WorldChange = w.changes_since(0, "Pod")[0]
    run(w, 60)
    assert getattr(first.obj, "phase", None) == "Pending"
    assert w.pods["default", "p"].phase == "Running"


def test_an_event_is_kept_and_journaled() -> None:
    w = world()
    w.record_event(kind="Pod", namespace="ml", name="p", reason="TriggeredScaleUp", message="soon")
    assert [(e.name, e.reason, e.at) for e in w.events] == [("p", "TriggeredScaleUp", w.now)]
    assert w.changes_since(0, "Event")[0].obj is w.events[0]


def test_a_node_patch_removes_a_key_whose_value_is_none() -> None:
    w = world(pool(count=1))
    name = vms(w)[0].hostname
    w.patch_node(name, annotations={"a": "1", "b": "2"})
    w.patch_node(name, annotations={"a": None})
    assert w.nodes[name].annotations == {"b": "2"}


def test_a_pod_patch_changes_its_labels_and_annotations() -> None:
    w = world()
    w.submit(job())
    w.patch_pod("default", "j-0", labels={"team": "red"}, annotations={"a": "1"})
    patched = w.patch_pod("default", "j-0", annotations={"a": None})
    assert patched.labels["team"] == "red"
    assert patched.annotations == {}
    assert w.pods["default", "j-0"] is patched


def test_an_unknown_node_or_pod_is_not_found() -> None:
    w = world()
    for ask in (
        lambda: w.patch_node("n", unschedulable=True),
        lambda: w.delete_pod("d", "p"),
        lambda: w.evict("d", "p"),
    ):
        with pytest.raises(Denied) as refused:
            ask()
        assert refused.value.status == 404
