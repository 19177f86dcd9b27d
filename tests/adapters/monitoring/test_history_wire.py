"""What is asked of Prometheus page by page, and what becomes of answers that are none."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from receiver.adapters.monitoring.history import SCRAPED, Ask, PrometheusHistory, queries
from receiver.ports import Past, TryLater
from tests.adapters.wire import came, hanging_server, unused_url

RANGE = "/api/v1/query_range"
SINCE = datetime(2026, 3, 1, tzinfo=UTC)
UNTIL = SINCE + timedelta(days=2)
STEP = timedelta(seconds=30)
QUERIES = queries(timedelta(hours=1), STEP, "team")
POD = {"namespace": "ml", "pod": "train-0", "uid": "u"}

Handler = Callable[[Request], Response]


@pytest.fixture
def history(httpserver: HTTPServer) -> Iterator[PrometheusHistory]:
    adapter = PrometheusHistory(httpserver.url_for(""), timeout=60)
    yield adapter
    adapter.close()


def matrix(*series: tuple[dict[str, str], float], at: float) -> dict[str, Any]:
    result = [{"metric": labels, "values": [[at, str(value)]]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def facts(request: Request) -> dict[str, Any]:
    """A pod that ran for the first hour of the second day."""
    end, begin = float(request.args["end"]), (SINCE + timedelta(days=1)).timestamp()
    query = request.args["query"]
    if query == SCRAPED:
        scrapes = [[at, str(at)] for at in range(int(float(request.args["start"])), int(end) + 1, 60)]
        return {"data": {"result": [{"metric": {}, "values": scrapes}]}}
    if query.startswith("max(count_over_time(up"):
        return matrix(({}, 60), at=end)
    if end <= begin:
        return matrix(at=end)
    if query == QUERIES[Ask.REQUESTED]:
        return matrix(({**POD, "resource": "nvidia_com_gpu", "of": "app"}, 8), at=end)
    if query == QUERIES[Ask.TIMES]:
        times = {"created": begin, "start": begin + 60, "completion": begin + 3660, "over": 1.0}
        return matrix(*(({**POD, "of": of}, value) for of, value in times.items()), at=end)
    return matrix(at=end)


def serve(httpserver: HTTPServer, refuse: Callable[[Request], Response | None] = lambda _: None) -> None:
    """Answer as `facts`, unless *refuse* has an answer of its own."""

    def handler(request: Request) -> Response:
        return refuse(request) or Response(json.dumps(facts(request)), content_type="application/json")

    httpserver.expect_request(RANGE).respond_with_handler(handler)


def ask(history: PrometheusHistory) -> Past:
    """Two days of it."""
    return history.past(SINCE, UNTIL, STEP)


def points(request: Request) -> int:
    """At how many moments a query is evaluated."""
    step = float(request.args["step"].removesuffix("s"))
    return round((float(request.args["end"]) - float(request.args["start"])) / step) + 1


def moments(pages: list[Request]) -> list[float]:
    """The moments at which a query is evaluated by several requests for hours."""
    return [float(r.args["start"]) + 3600 * i for r in pages for i in range(points(r))]


EVERY_HOUR = [(SINCE + timedelta(hours=h)).timestamp() for h in range(1, 49)]


def test_a_pod_is_put_together_from_several_answers(httpserver: HTTPServer, history: PrometheusHistory) -> None:
    serve(httpserver)
    (pod,) = ask(history).pods
    assert (pod.pod.key, pod.pod.requests) == ("ml/train-0", {"nvidia.com/gpu": 8})
    assert (pod.held_from, pod.held_until) == (
        SINCE + timedelta(days=1, minutes=1),
        SINCE + timedelta(days=1, minutes=61),
    )


def test_pages_are_of_a_day_and_meet_without_a_hole(httpserver: HTTPServer, history: PrometheusHistory) -> None:
    serve(httpserver)
    ask(history)
    pages = [r for r, _ in httpserver.log if r.args["query"] == QUERIES[Ask.REQUESTED]]
    assert moments(pages) == EVERY_HOUR
    assert {points(r) for r in pages} == {24}


def test_where_nobody_asked_for_a_gpu_nothing_else_is_asked(httpserver: HTTPServer, history: PrometheusHistory) -> None:
    serve(httpserver)
    ask(history)
    asked_for = [r.args["query"] for r, _ in httpserver.log]
    assert (asked_for.count(QUERIES[Ask.REQUESTED]), asked_for.count(QUERIES[Ask.TIMES])) == (2, 1)


def test_a_page_that_is_too_large_is_asked_for_in_halves_that_meet_without_a_hole(
    httpserver: HTTPServer, history: PrometheusHistory
) -> None:
    def too_large(request: Request) -> bool:
        return request.args["query"] == QUERIES[Ask.REQUESTED] and points(request) > 6

    serve(httpserver, lambda r: Response("too many samples", 422) if too_large(r) else None)
    assert len(ask(history).pods) == 1
    answered = [
        r for r, answer in httpserver.log if r.args["query"] == QUERIES[Ask.REQUESTED] and answer.status_code == 200
    ]
    assert moments(answered) == EVERY_HOUR


def test_one_that_is_too_large_even_for_a_single_span_is_told(
    httpserver: HTTPServer, history: PrometheusHistory
) -> None:
    serve(httpserver, lambda r: Response("too many samples", 422) if r.args["query"] != "vector(1)" else None)
    with pytest.raises(
        TryLater, match=r"with 422; a span of an hour is too much for it: raise its --query.max-samples"
    ) as refused:
        ask(history)
    assert refused.value.code == "http_422"


def test_a_refusal_is_not_asked_again(httpserver: HTTPServer, history: PrometheusHistory) -> None:
    serve(httpserver, lambda _: Response("no", 401))
    with pytest.raises(TryLater, match=r"with 401$"):
        ask(history)
    assert len(httpserver.log) == 1


@pytest.mark.parametrize(
    "body", ["no json", "[]", '{"data": {}}', '{"data": {"result": 7}}', '{"data": {"result": [{"metric": {}}]}}']
)
def test_what_is_no_range_vector_is_told(httpserver: HTTPServer, history: PrometheusHistory, body: str) -> None:
    serve(httpserver, lambda _: Response(body))
    with pytest.raises(TryLater, match="with something else than a range vector"):
        ask(history)


def test_a_prometheus_that_does_not_answer_in_time_is_told_so_at_once() -> None:
    with hanging_server(RANGE, "GET") as (server, arrivals):
        history = PrometheusHistory(server.url_for(""), timeout=-4.8)  # five seconds are added for the way
        with pytest.raises(TryLater, match="it did not answer in time"):
            ask(history)
        history.close()
        assert len(came(arrivals)) == 1


def test_a_prometheus_that_is_not_there_is_told_without_its_credentials() -> None:
    url = unused_url().replace("http://", "http://ada:secret@")
    history = PrometheusHistory(url)
    with pytest.raises(TryLater, match="no connection") as refused:
        ask(history)
    history.close()
    assert "secret" not in str(refused.value)


def test_progress_is_told_by_pages(httpserver: HTTPServer, history: PrometheusHistory) -> None:
    serve(httpserver)
    told: list[tuple[int, int]] = []
    history.past(SINCE, UNTIL, STEP, lambda done, of: told.append((done, of)))
    assert told == [(1, 2), (2, 2)]
