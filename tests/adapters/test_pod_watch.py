"""The watch of pending pods: what it tells of, how it goes on after an end, and that it ends when it is told to."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Response

from receiver.adapters.kubernetes.pod_watch import PodWatch
from receiver.ports import TryLater, WontWork
from tests.adapters.kubernetes_objects import PODS, a_cluster_at, a_pod
from tests.adapters.wire import requests_sent, unused_url

GATED = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
HELD_BY_VOLCANO = [{"type": "PodScheduled", "status": "False", "reason": "Undetermined"}]


@pytest.fixture
def watch(httpserver: HTTPServer) -> Iterator[PodWatch]:
    cluster = a_cluster_at(httpserver.url_for(""))
    yield cluster.pod_watch()
    cluster.close()


def event(kind: str, version: int, pod: dict[str, Any]) -> dict[str, Any]:
    """One event of the stream, its object at *version*."""
    return {"type": kind, "object": {**pod, "metadata": {**pod["metadata"], "resourceVersion": str(version)}}}


def bookmark(version: int) -> dict[str, Any]:
    """What the API server says of time that passed without a change."""
    return {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": str(version)}}}


def gone() -> dict[str, Any]:
    """What it says of a version that it has forgotten."""
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 3 (9)"}
    return {"type": "ERROR", "object": status}


def streams(httpserver: HTTPServer, *streams: list[Any]) -> None:
    """Answer one watch after the other with these events."""
    for events in streams:
        lines = "".join((e if isinstance(e, str) else json.dumps(e)) + "\n" for e in events)
        httpserver.expect_ordered_request(PODS).respond_with_data(lines, content_type="application/json")


def told(watch: PodWatch) -> int:
    """Follow *watch* to its end; how often something was found."""
    found: list[None] = []
    watch.follow(lambda: None, lambda: found.append(None))
    return len(found)


def test_a_gpu_pod_that_the_scheduler_left_out_is_told_of(httpserver: HTTPServer, watch: PodWatch) -> None:
    streams(httpserver, [event("ADDED", 5, a_pod(conditions=[])), event("MODIFIED", 6, a_pod())])
    assert told(watch) == 1


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(gpus=0),
        a_pod(conditions=GATED),
        a_pod(node="gpu-1", phase="Pending"),
        a_pod(nominatedNodeName="gpu-1"),
        a_pod(deletionTimestamp="2026-11-20T10:01:00Z"),
    ],
    ids=["no GPU", "gated", "bound", "nominated", "going"],
)
def test_pods_that_no_new_node_would_help_are_not(httpserver: HTTPServer, watch: PodWatch, pod: dict[str, Any]) -> None:
    streams(httpserver, [event("ADDED", 5, pod), event("MODIFIED", 6, pod)])
    assert told(watch) == 0


def test_a_pod_that_volcano_holds_back_for_its_gang_is(httpserver: HTTPServer, watch: PodWatch) -> None:
    streams(httpserver, [event("MODIFIED", 5, a_pod(conditions=HELD_BY_VOLCANO))])
    assert told(watch) == 1


def test_a_pod_is_told_of_once_however_often_the_scheduler_words_it_anew(
    httpserver: HTTPServer, watch: PodWatch
) -> None:
    streams(httpserver, [event("MODIFIED", n, a_pod()) for n in range(5, 25)])
    assert told(watch) == 1


def test_a_pod_that_waits_again_is_told_of_again(httpserver: HTTPServer, watch: PodWatch) -> None:
    nominated = a_pod(nominatedNodeName="gpu-1")
    streams(httpserver, [event("MODIFIED", n, p) for n, p in enumerate((a_pod(), nominated, a_pod()), start=5)])
    assert told(watch) == 2


def test_a_pod_that_came_back_under_its_name_is_another(httpserver: HTTPServer, watch: PodWatch) -> None:
    second = a_pod()
    second["metadata"]["uid"] = "another"
    streams(httpserver, [event("ADDED", 5, a_pod()), event("DELETED", 6, a_pod()), event("ADDED", 7, second)])
    assert told(watch) == 2


def test_it_asks_for_pending_pods_only_and_goes_on_where_it_was(httpserver: HTTPServer, watch: PodWatch) -> None:
    streams(httpserver, [event("ADDED", 5, a_pod()), bookmark(9)], [event("MODIFIED", 11, a_pod())], [])
    assert [told(watch), told(watch), told(watch)] == [1, 0, 0]
    asked = [dict(request.args) for request in requests_sent(httpserver, "GET")]
    assert [query["resourceVersion"] for query in asked] == ["0", "9", "11"]
    assert {query["fieldSelector"] for query in asked} == {"status.phase=Pending"}
    assert {(query["watch"], query["allowWatchBookmarks"], query["timeoutSeconds"]) for query in asked} == {
        ("true", "true", "55")
    }


def test_after_a_forgotten_version_it_begins_with_what_there_is(httpserver: HTTPServer, watch: PodWatch) -> None:
    streams(httpserver, [event("ADDED", 3, a_pod())], [gone()], [event("ADDED", 3, a_pod())])
    assert told(watch) == 1
    assert told(watch) == 1  # what came in between may have been missed
    assert [r.args["resourceVersion"] for r in requests_sent(httpserver, "GET")] == ["0", "3", "0"]


def test_a_version_may_be_refused_by_status_too(httpserver: HTTPServer, watch: PodWatch) -> None:
    streams(httpserver, [bookmark(3)])
    httpserver.expect_ordered_request(PODS).respond_with_json({"kind": "Status", "message": "too old"}, status=410)
    streams(httpserver, [])
    told(watch)
    told(watch)
    assert [r.args["resourceVersion"] for r in requests_sent(httpserver, "GET")] == ["0", "3", "0"]


def test_what_there_is_now_is_forgotten_by_no_server_that_works(httpserver: HTTPServer, watch: PodWatch) -> None:
    streams(httpserver, [bookmark(3)], [gone()], [gone()], [gone()])
    told(watch)
    for _ in range(2):
        with pytest.raises(TryLater, match="410") as caught:
            told(watch)
    assert caught.value.code == "http_410"
    assert [r.args["resourceVersion"] for r in requests_sent(httpserver, "GET")] == ["0", "3", "0", "0"]


def test_a_missing_right_is_named(httpserver: HTTPServer, watch: PodWatch) -> None:
    httpserver.expect_request(PODS).respond_with_json({"kind": "Status", "message": "pods is forbidden"}, status=403)
    with pytest.raises(WontWork, match='grant the verb "watch" on "pods"'):
        told(watch)


@pytest.mark.parametrize(
    "line",
    ["<html>", "", "[]", "7", '{"kind": "PodList", "items": []}', '{"type": "ERROR", "object": {}}', "null"],
)
def test_what_is_no_watch_is_no_news_and_tried_again_later(httpserver: HTTPServer, watch: PodWatch, line: str) -> None:
    streams(httpserver, [line])
    with pytest.raises(TryLater, match="watch pods"):
        told(watch)


@pytest.mark.parametrize("odd", [{}, {"metadata": None}, {"metadata": 3}, {"spec": [], "status": "?"}])
def test_an_odd_object_is_no_news(httpserver: HTTPServer, watch: PodWatch, odd: dict[str, Any]) -> None:
    streams(httpserver, [{"type": "MODIFIED", "object": odd}, event("ADDED", 5, a_pod())])
    assert told(watch) == 1


def test_nobody_there_is_tried_again_later() -> None:
    cluster = a_cluster_at(unused_url())
    with pytest.raises(TryLater) as caught:
        told(cluster.pod_watch())
    cluster.close()
    assert caught.value.code == "unreachable"


def test_a_watch_that_is_silent_beyond_its_time_is_given_up(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("receiver.adapters.kubernetes.api.HANGS_AFTER", 0.2)
    release = threading.Event()
    httpserver.expect_request(PODS).respond_with_handler(lambda _: silent(release))
    cluster = a_cluster_at(httpserver.url_for(""))
    with pytest.raises(TryLater) as caught:
        told(cluster.pod_watch(seconds=0))
    release.set()
    cluster.close()
    assert caught.value.code == "timeout"


def test_it_ends_at_once_when_it_is_closed(httpserver: HTTPServer, watch: PodWatch) -> None:
    stood, release = threading.Event(), threading.Event()
    httpserver.expect_request(PODS).respond_with_handler(lambda _: silent(release))
    follower = threading.Thread(target=watch.follow, args=(stood.set, lambda: None))
    follower.start()
    assert stood.wait(5)
    began = time.monotonic()
    watch.close()
    follower.join(5)
    assert time.monotonic() - began < 1
    assert not follower.is_alive()
    release.set()


def test_once_closed_it_stands_no_more(httpserver: HTTPServer, watch: PodWatch) -> None:
    release = threading.Event()
    httpserver.expect_request(PODS).respond_with_handler(lambda _: silent(release))
    watch.close()
    began = time.monotonic()
    watch.follow(lambda: None, lambda: None)
    assert time.monotonic() - began < 1
    release.set()


def silent(release: threading.Event) -> Response:
    """A watch that stands and tells nothing."""

    def lines() -> Iterator[str]:
        yield " "
        release.wait(5)

    return Response(lines(), content_type="application/json")
