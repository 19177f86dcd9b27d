"""A destination that hangs delays neither the cloud nor the other destination, and shows in the metrics."""

import json

from pytest_httpserver import HTTPServer

from simulator.server import Simulator
from tests.adapters.wire import hanging_server
from tests.e2e.clouds import submit, until_running
from tests.e2e.installing import Install
from tests.e2e.waiting import until
from tests.payloads import a_payload

TOLD = 'gpu_autoscaler_messages_total{destination="destination 2 (json)",outcome="delivered"} 1.0'
FAILED = 'gpu_autoscaler_messages_total{destination="destination 1 (json)",outcome="failed"} 1.0'


def test_a_message_reaches_its_destination_though_another_one_hangs(
    cloud: Simulator, install: Install, httpserver: HTTPServer
) -> None:
    httpserver.expect_request("/SECRET-chat", method="POST").respond_with_data("ok")
    chat = httpserver.url_for("/SECRET-chat").replace("http", "json", 1)
    with hanging_server("/SECRET-hangs", "POST") as (server, _):
        hangs = server.url_for("/SECRET-hangs").replace("http", "json", 1) + "?rto=0.5"
        receiver = install(cloud, environ={"GPU_AUTOSCALER_NOTIFY_URLS": f"{hangs} {chat}"}).serve()
        submit(cloud)
        receiver.deliver(a_payload())
        until_running(cloud)
        until(lambda: httpserver.log, "a message")
        until(lambda: {TOLD, FAILED} <= set(receiver.get("/metrics").text.splitlines()), "both counted")
    [(request, _)] = httpserver.log
    message = json.loads(request.get_data())
    assert (message["title"], message["type"]) == ("GPU pool l40s: 0 -> 1 nodes", "success")
    assert "ml/train-0 waits for 1 GPU" in message["message"]
    [failed] = receiver.log("notice not delivered")
    assert failed["errors"][0].startswith("destination 1 (json): ")
    assert "SECRET" not in receiver.said() + receiver.get("/metrics").text


def test_each_destination_gets_what_its_filter_lets_through_in_its_format(
    cloud: Simulator, install: Install, httpserver: HTTPServer
) -> None:
    for path in ("/pager", "/chat", "/events"):
        httpserver.expect_request(path, method="POST").respond_with_data("ok")
    pager, chat = (httpserver.url_for(path).replace("http", "json", 1) for path in ("/pager", "/chat"))
    urls = f"pager={pager} chat={chat} events={httpserver.url_for('/events')}"
    filters = {"pager": {"level": "failure"}, "chat": {"pools": ["l40s"]}, "events": {"format": "cloudevents"}}
    receiver = install(cloud, environ={"GPU_AUTOSCALER_NOTIFY_URLS": urls}, notify={"destinations": filters}).serve()
    submit(cloud)
    receiver.deliver(a_payload())
    until_running(cloud)
    until(lambda: len(httpserver.log) >= 2, "a message and an event")
    assert {request.path for request, _ in httpserver.log} == {"/chat", "/events"}
    (event,) = [request.get_json(force=True) for request, _ in httpserver.log if request.path == "/events"]
    assert (event["type"], event["subject"]) == ("io.gpu-autoscaler.notice.grew.v1", "l40s")
