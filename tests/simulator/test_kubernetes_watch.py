"""Watches, as the official client and as a plain HTTP reader see them."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import requests
from kubernetes import watch
from kubernetes.client.exceptions import ApiException

from simulator.server import Simulator
from tests.simulator.builders import GPU_POOL, k8s

Starter = Callable[..., Simulator]
ApiFor = Callable[[Simulator], Any]
k8s_watch: Any = watch


@contextmanager
def watching(sim: Simulator, path: str, **params: Any) -> Iterator[Iterator[dict[str, Any]]]:
    """Open a watch; the headers are there when this returns, so nothing that follows is missed."""
    query = {"watch": "1", "timeoutSeconds": 60, **params}
    with requests.get(f"{sim.url}{path}", params=query, stream=True, timeout=60) as response:
        assert response.status_code == 200
        yield (json.loads(line) for line in response.iter_lines() if line)


def submit(sim: Simulator, name: str, **fields: Any) -> None:
    sim.live.submit([{"id": name, "duration": "5m", "tolerations": [{"operator": "Exists"}], **fields}])


def test_a_watch_tells_a_pods_life_in_order(sim: Simulator, core: Any) -> None:
    version = core.list_namespaced_pod("default").metadata.resource_version
    submit(sim, "train", duration="30s")
    sim.live.turn(timedelta(seconds=60))
    with sim.moved() as world:
        world.delete_pod("default", "train-0")
    stream = k8s_watch.Watch().stream(
        core.list_namespaced_pod, "default", resource_version=version, timeout_seconds=1, _request_timeout=60
    )
    seen = [(e["type"], e["object"].status.phase, e["object"].spec.node_name is not None) for e in stream]
    assert seen == [
        ("ADDED", "Pending", False),
        ("MODIFIED", "Pending", True),
        ("MODIFIED", "Running", True),
        ("MODIFIED", "Succeeded", True),
        ("DELETED", "Succeeded", True),
    ]


def test_a_change_reaches_an_open_watch_without_anybody_asking(sim: Simulator, core: Any) -> None:
    version = core.list_node().metadata.resource_version
    with watching(sim, "/api/v1/nodes", resourceVersion=version) as events:
        with sim.moved() as world:
            world.patch_node(next(iter(world.nodes)), unschedulable=True)
        first = next(events)
    assert (first["type"], first["object"]["kind"], first["object"]["spec"]["unschedulable"]) == (
        "MODIFIED",
        "Node",
        True,
    )


def test_the_ticker_shows_what_happens_by_itself(sim: Simulator, core: Any) -> None:
    with sim.moved() as world:
        world.resize(GPU_POOL, 2)
    version = core.list_node().metadata.resource_version
    with watching(sim, "/api/v1/nodes", resourceVersion=version) as events:
        sim.clock.advance(timedelta(seconds=66))  # type: ignore[attr-defined]  # the fixture's clock is a manual one
        assert next(events)["type"] == "ADDED"


def test_a_watch_without_a_version_begins_with_what_there_is(sim: Simulator) -> None:
    submit(sim, "train")
    with watching(sim, "/api/v1/namespaces/default/pods") as events:
        first = next(events)
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "train-0")


def test_a_pod_that_stops_being_selected_is_deleted_for_that_watch(sim: Simulator, core: Any) -> None:
    version = core.list_namespaced_pod("default").metadata.resource_version
    submit(sim, "train")
    sim.live.turn(timedelta(seconds=20))
    query = {"resourceVersion": version, "fieldSelector": "spec.nodeName=", "timeoutSeconds": 0.1}
    with watching(sim, "/api/v1/namespaces/default/pods", **query) as events:
        seen = [(e["type"], e["object"]["spec"].get("nodeName") is None) for e in events]
    assert seen == [("ADDED", True), ("DELETED", False)]


def test_a_watch_ends_after_its_time_with_a_bookmark(sim: Simulator) -> None:
    with watching(
        sim, "/api/v1/nodes", resourceVersion=sim.world.version, timeoutSeconds=0.1, allowWatchBookmarks="true"
    ) as e:
        (last,) = list(e)
    assert last["type"] == "BOOKMARK"
    assert int(last["object"]["metadata"]["resourceVersion"]) == sim.world.version


def forget_the_past(sim: Simulator, core: Any) -> str:
    """Return a version that the journal no longer reaches back to."""
    version: str = core.list_node().metadata.resource_version
    submit(sim, "train")
    sim.fault(kind="compact")
    return version


def test_a_watch_from_a_forgotten_version_gets_an_error_event(sim: Simulator, core: Any) -> None:
    version = forget_the_past(sim, core)
    with watching(sim, "/api/v1/pods", resourceVersion=version) as events:
        (error,) = list(events)
    assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")


def test_the_official_client_raises_for_a_forgotten_version(sim: Simulator, core: Any) -> None:
    version = forget_the_past(sim, core)
    stream = k8s_watch.Watch().stream(core.list_pod_for_all_namespaces, resource_version=version, timeout_seconds=60)
    with pytest.raises(ApiException) as refused:
        next(stream)
    assert refused.value.status == 410


def test_a_forgotten_version_may_be_refused_by_status_instead(start: Starter, api_for: ApiFor) -> None:

    sim = start(kubernetes={"expired": "status"})
    version = forget_the_past(sim, k8s.CoreV1Api(api_for(sim)))
    answer = requests.get(f"{sim.url}/api/v1/pods", params={"watch": "1", "resourceVersion": version}, timeout=60)
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


def test_a_watch_that_falls_behind_is_told_in_its_stream(sim: Simulator, core: Any) -> None:
    version = core.list_node().metadata.resource_version
    with watching(sim, "/api/v1/nodes", resourceVersion=version) as events:
        with sim.lock:
            sim.world.patch_node(next(iter(sim.world.nodes)), labels={"a": "1"})
            sim.world.compact(sim.world.version + 1)
        assert next(events)["object"]["code"] == 410


def test_stopping_the_simulator_ends_its_watches(start: Starter) -> None:
    sim = start()
    with watching(sim, "/api/v1/nodes", resourceVersion=sim.world.version, timeoutSeconds=300) as events:
        stopper = threading.Thread(target=sim.stop)
        stopper.start()
        assert list(events) == []
        stopper.join(timeout=60)
        assert not stopper.is_alive()


def test_a_watch_that_hangs_tells_nothing_and_does_not_end_until_it_is_let_go(sim: Simulator) -> None:
    query = {"resourceVersion": sim.world.version, "timeoutSeconds": 0.1}
    with watching(sim, "/api/v1/namespaces/default/pods", **query) as events:
        sim.fault(kind="watches", do="hang")
        submit(sim, "train")
        threading.Timer(0.3, lambda: requests.delete(f"{sim.url}/_faults", timeout=60)).start()
        began = time.monotonic()
        assert [e["object"]["metadata"]["name"] for e in events] == ["train-0"]
    assert time.monotonic() - began > 0.25


def test_a_watch_can_be_cut_off_in_the_middle(sim: Simulator) -> None:
    with watching(sim, "/api/v1/pods", resourceVersion=sim.world.version) as events:
        sim.fault(kind="watches", do="close")
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            next(events)


def test_a_watch_can_end_with_an_error_in_its_stream(sim: Simulator) -> None:
    with watching(sim, "/api/v1/pods", resourceVersion=sim.world.version) as events:
        sim.fault(kind="watches", do="error")
        (error,) = list(events)
    assert (error["type"], error["object"]["code"]) == ("ERROR", 500)


def test_a_simulator_stops_while_its_watches_hang(start: Starter) -> None:
    sim = start()
    with watching(sim, "/api/v1/nodes", resourceVersion=sim.world.version, timeoutSeconds=300):
        sim.fault(kind="watches", do="hang")
        began = time.monotonic()
        sim.stop()
    assert time.monotonic() - began < 60
