"""What `PrometheusTelemetry` asks and makes of the answers."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from receiver.adapters.monitoring.prometheus import (
    COVERAGE,
    CREATED,
    FAILURES,
    HEARTBEAT,
    MISSING,
    NODES,
    SAMPLES,
    UTILIZATION,
    WAITING,
    PrometheusTelemetry,
    course_queries,
)
from receiver.core.model.pods import PodPhase
from receiver.core.model.usage import Activity, Course, Sample
from receiver.ports import TelemetryFacts, TryLater
from tests.adapters.wire import came, hanging_server, unused_url

QUERY = "/api/v1/query"
AT = 1_795_000_000.0


@pytest.fixture
def telemetry(httpserver: HTTPServer) -> Iterator[PrometheusTelemetry]:
    adapter = PrometheusTelemetry(httpserver.url_for(""), timeout=60)
    yield adapter
    adapter.close()


def vector(*samples: tuple[dict[str, str], str]) -> dict[str, Any]:
    result = [{"metric": labels, "value": [AT, value]} for labels, value in samples]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def serve(httpserver: HTTPServer, answers: dict[str, dict[str, Any]]) -> None:
    """Answer each query of *answers*, and any other with an empty vector."""
    for query, answer in answers.items():
        httpserver.expect_request(QUERY, query_string={"query": query}).respond_with_json(answer)
    httpserver.expect_request(QUERY).respond_with_json(vector())


def test_an_empty_prometheus_knows_nothing_and_runs_no_rules(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry
) -> None:
    serve(httpserver, {})
    assert telemetry.look() == TelemetryFacts()


def test_the_recorded_series_are_asked_for_by_name(httpserver: HTTPServer, telemetry: PrometheusTelemetry) -> None:
    serve(httpserver, {})
    telemetry.look()
    assert {r.args["query"] for r, _ in httpserver.log} == {
        *(HEARTBEAT, UTILIZATION, COVERAGE, WAITING, NODES, FAILURES, MISSING)
    }
    assert (UTILIZATION, COVERAGE) == ("pool:gpu_utilization:avg5m", "pool:gpu_telemetry_coverage:ratio")
    assert HEARTBEAT == 'ALERTS{alertname="GpuAutoscalerHeartbeat",alertstate="firing"}'
    assert all(r.path == QUERY for r, _ in httpserver.log)


def test_ratios_are_read_by_pool(httpserver: HTTPServer, telemetry: PrometheusTelemetry) -> None:
    ratios = vector(({"pool": "a"}, "0.25"), ({"pool": "b"}, "0"))
    serve(httpserver, {UTILIZATION: ratios, COVERAGE: vector(({"pool": "a"}, "1"))})
    facts = telemetry.look()
    assert facts.utilization == {"a": 0.25, "b": 0.0}
    assert facts.coverage == {"a": 1.0}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_value_that_is_no_number_is_left_out_and_never_zero(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry, value: str
) -> None:
    serve(httpserver, {UTILIZATION: vector(({"pool": "a"}, value), ({"pool": "b"}, "0.5"))})
    assert telemetry.look().utilization == {"b": 0.5}


def test_a_value_without_a_pool_is_left_out(httpserver: HTTPServer, telemetry: PrometheusTelemetry) -> None:
    serve(httpserver, {UTILIZATION: vector(({}, "0.5"))})
    assert telemetry.look().utilization == {}


def test_of_two_replicas_the_answer_that_removes_fewer_nodes_counts(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry
) -> None:
    both = vector(*(({"pool": "a", "replica": r}, v) for r, v in (("1", "0.2"), ("2", "0.9"), ("3", "0.4"))))
    serve(httpserver, {UTILIZATION: both, COVERAGE: both})
    facts = telemetry.look()
    assert (facts.utilization, facts.coverage) == ({"a": 0.9}, {"a": 0.2})


def test_failed_gpus_and_restarts_by_civos_node_agent_are_read_by_node(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry
) -> None:
    def gpu(node: str, number: str, value: str = str(AT), **labels: str) -> tuple[dict[str, str], str]:
        return {"node": node, "gpu": number, "UUID": f"{node}-{number}", **labels}, value

    found = vector(
        *(gpu("n1", "0"), gpu("n1", "0", "79", of="code"), gpu("n1", "0", "79", of="reported")),
        *(gpu("n1", "3"), gpu("n2", "0"), gpu("n2", "0", "1", xid="48")),
        *(gpu("n3", "0", "79", of="code"), gpu("n3", "0", "45", of="reported")),  # a failure that has ended
        ({"__name__": "civo_node_agent_recovery_phase", "node": "n4", "phase": "WaitingReboot"}, "1"),
    )
    serve(httpserver, {FAILURES: found})
    facts = telemetry.look()
    assert facts.failed == {
        "n1": "XID 79 on GPU 0, a fatal XID on GPU 3, which is no longer reported",
        "n2": "XID 48 on GPU 0, which is no longer reported",
    }
    assert facts.recovering == {"n4": "WaitingReboot"}


def test_a_failed_gpu_that_a_restart_renumbered_is_named_by_its_new_number_and_its_old_xid(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry
) -> None:
    def gpu(number: str, value: str, **labels: str) -> tuple[dict[str, str], str]:
        return {"node": "n1", "gpu": number, "UUID": "GPU-x", **labels}, value

    found = vector(gpu("2", str(AT)), gpu("3", "48", of="code"), gpu("2", "45", of="reported"))
    serve(httpserver, {FAILURES: found})
    assert telemetry.look().failed == {"n1": "XID 48 on GPU 2"}


def test_counters_that_nodes_do_not_deliver_are_read_by_counter(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry
) -> None:
    xid = {"counter": "DCGM_FI_DEV_XID_ERRORS"}
    found = vector(({**xid, "node": "n2"}, "1"), ({**xid, "node": "n1"}, "1"), ({"node": "n3"}, "1"))
    serve(httpserver, {MISSING: found})
    assert telemetry.look().missing == {"DCGM_FI_DEV_XID_ERRORS": ("n1", "n2")}


def of_node(witness: str, value: str, node: str = "n1", **labels: str) -> tuple[dict[str, str], str]:
    return {"__name__": f"node:dcgm_{witness}:max", "node": node, **labels}, value


def test_each_node_has_what_its_gpus_show(httpserver: HTTPServer, telemetry: PrometheusTelemetry) -> None:
    both = vector(
        of_node("engine", "0.5"), of_node("memory", "0.25"), of_node("power", "200"), of_node("power", "36", "n2")
    )
    serve(httpserver, {NODES: both})
    assert telemetry.look().nodes == {"n1": Activity(engine=0.5, memory=0.25, power=200.0), "n2": Activity(power=36.0)}


def test_without_rules_for_nodes_the_look_succeeds_and_knows_no_node(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry
) -> None:
    serve(httpserver, {UTILIZATION: vector(({"pool": "a"}, "0.5"))})
    facts = telemetry.look()
    assert (facts.nodes, facts.utilization) == ({}, {"a": 0.5})


def test_of_two_replicas_the_answer_that_shows_more_use_of_a_node_counts(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry
) -> None:
    replicas = (of_node("engine", v, replica=r) for r, v in (("1", "0.1"), ("2", "0.6"), ("3", "0.3")))
    serve(httpserver, {NODES: vector(*replicas)})
    assert telemetry.look().nodes == {"n1": Activity(engine=0.6)}


@pytest.mark.parametrize(
    "sample",
    [
        of_node("engine", "NaN"),
        of_node("engine", "+Inf"),
        of_node("engine", "0.5", node=""),
        of_node("other", "0.5"),
        ({"node": "n1"}, "0.5"),
    ],
)
def test_a_sample_of_no_node_no_witness_or_no_number_is_left_out(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry, sample: tuple[dict[str, str], str]
) -> None:
    serve(httpserver, {NODES: vector(sample)})
    assert telemetry.look().nodes == {}


WINDOW = timedelta(minutes=30)
POD = {"namespace": "ml", "pod": "a"}


def serve_courses(httpserver: HTTPServer, *values: str | None) -> None:
    """Answer the queries of a course, in their order, with *values* for pod ml/a, None: nothing."""
    answers = (vector((POD, value)) if value is not None else vector() for value in values)
    serve(httpserver, dict(zip(course_queries(WINDOW), answers, strict=True)))


def test_a_course_has_the_peaks_the_changes_and_how_much_was_seen(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry
) -> None:
    serve_courses(httpserver, "0.75", "0.125", "300", "180", "90", "0.99", "0.9")
    course = Course(
        window=WINDOW,
        engine=0.75,
        memory=0.125,
        power=300.0,
        power_floor=120.0,
        least_swing=90.0,
        nvml=0.99,
        coverage=0.9,
    )
    assert telemetry.courses(WINDOW) == {"ml/a": course}


@pytest.mark.parametrize(
    "values, course",
    [
        (("0", None, "NaN", "NaN", "NaN", None, None), Course(window=WINDOW, engine=0.0)),
        (
            (None, None, "300", None, None, None, "1"),
            Course(window=WINDOW, power=300.0, coverage=1.0),
        ),  # no swing, no floor
        ((None, "0.5", None, None, None, None, "0"), Course(window=WINDOW, memory=0.5)),
    ],
)
def test_a_witness_that_says_nothing_of_a_pod_is_none_and_not_zero(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry, values: tuple[str | None, ...], course: Course
) -> None:
    serve_courses(httpserver, *values)
    assert telemetry.courses(WINDOW) == {"ml/a": course}


@pytest.mark.parametrize("labels", [{"namespace": "ml"}, {"pod": "a"}, {}])
def test_a_course_that_names_no_pod_is_left_out(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry, labels: dict[str, str]
) -> None:
    serve(httpserver, {query: vector((labels, "1")) for query in course_queries(WINDOW)})
    assert telemetry.courses(WINDOW) == {}


def test_courses_that_cannot_be_asked_for_are_tried_later(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry
) -> None:
    httpserver.expect_request(QUERY).respond_with_data("no", status=422)
    with pytest.raises(TryLater, match="422"):
        telemetry.courses(WINDOW)


def test_courses_time_out_as_other_queries_do() -> None:
    with hanging_server(QUERY, "GET") as (server, arrivals):
        telemetry = PrometheusTelemetry(server.url_for(""), timeout=0.2)
        with pytest.raises(TryLater) as caught:
            telemetry.courses(WINDOW)
        telemetry.close()
        assert came(arrivals) == ["GET"]
    assert caught.value.code == "timeout"


def test_waiting_pods_are_read_with_age_size_and_pool(httpserver: HTTPServer, telemetry: PrometheusTelemetry) -> None:
    older, newer = {"namespace": "ml", "pod": "old"}, {"namespace": "ml", "pod": "new"}
    waiting = vector(({**newer, "pool": "unassigned"}, "1"), ({**older, "pool": "pool-a"}, "4"))
    serve(httpserver, {WAITING: waiting, CREATED: vector((older, str(AT - 600)), (newer, str(AT - 60)))})
    old, new = telemetry.look().waiting
    assert (old.key, old.gpus, old.scheduling.pool_hint, old.phase) == ("ml/old", 4, "pool-a", PodPhase.WAITING)
    assert old.created_at == datetime.fromtimestamp(AT - 600, UTC)
    assert (new.requests, new.scheduling.pool_hint) == ({"nvidia.com/gpu": 1}, "unassigned")


def test_a_waiting_pod_that_asks_for_a_part_of_a_gpu_needs_a_whole_one(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry
) -> None:
    serve(
        httpserver,
        {WAITING: vector(({"namespace": "ml", "pod": "a"}, "0.5"), ({"namespace": "ml", "pod": "b"}, "1.2"))},
    )
    assert [pod.gpus for pod in telemetry.look().waiting] == [1, 2]


def test_a_waiting_pod_of_unknown_age_counts_from_its_sample(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry
) -> None:
    serve(httpserver, {WAITING: vector(({"namespace": "ml", "pod": "a"}, "1"))})
    (pod,) = telemetry.look().waiting
    assert pod.created_at == datetime.fromtimestamp(AT, UTC)
    assert pod.scheduling.pool_hint is None


@pytest.mark.parametrize("labels, value", [({"namespace": "ml"}, "1"), ({"pod": "a"}, "1"), ({}, "1")])
def test_a_waiting_sample_that_names_no_pod_is_left_out(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry, labels: dict[str, str], value: str
) -> None:
    serve(httpserver, {WAITING: vector((labels, value))})
    assert telemetry.look().waiting == ()


@pytest.mark.parametrize("value, alive", [("1", True), ("0", False)])
def test_the_rules_are_alive_while_the_heartbeat_fires(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry, value: str, alive: bool
) -> None:
    serve(httpserver, {HEARTBEAT: vector(({"alertname": "GpuAutoscalerHeartbeat"}, value))})
    assert telemetry.look().rules_alive is alive


@pytest.mark.parametrize("status", [400, 401, 404, 422, 429, 500, 503])
def test_a_refused_query_names_url_query_and_status_but_not_the_answer(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry, status: int
) -> None:
    httpserver.expect_request(QUERY).respond_with_data("<html>internal words</html>", status=status)
    with pytest.raises(TryLater, match=httpserver.url_for("").rstrip("/")) as caught:
        telemetry.look()
    assert caught.value.code == f"http_{status}"
    assert "internal words" not in str(caught.value)
    assert len(httpserver.log) == (3 if status in (500, 503) else 1)


def test_nothing_is_asked_before_the_time_that_the_server_named_is_over(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry
) -> None:
    httpserver.expect_request(QUERY).respond_with_data("", status=429, headers={"Retry-After": "120"})
    for _ in range(2):
        with pytest.raises(TryLater) as caught:
            telemetry.look()
        assert caught.value.code == "http_429"
        assert caught.value.delay is not None
    assert len(httpserver.log) == 1


@pytest.mark.parametrize(
    "answer",
    [
        "<html>",
        "[]",
        "{}",
        '{"data": {"result": {}}}',
        '{"data": {"result": [{"metric": {}}]}}',
        '{"data": {"result": [{"metric": {}, "value": [1, "x"]}]}}',
        '{"data": {"result": [{"metric": [], "value": [1, "1"]}]}}',
        '{"data": {"resultType": "scalar", "result": [1, "1"]}}',
    ],
)
def test_an_answer_that_is_no_vector_is_not_read_as_nothing(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry, answer: str
) -> None:
    httpserver.expect_request(QUERY).respond_with_data(answer)
    with pytest.raises(TryLater) as caught:
        telemetry.look()
    assert caught.value.code == "malformed"


def test_a_query_that_works_the_third_time_has_worked(httpserver: HTTPServer, telemetry: PrometheusTelemetry) -> None:
    calls: list[str] = []

    def answer(request: Request) -> Response:
        calls.append(request.path)
        return Response("down", status=503) if len(calls) < 3 else Response('{"data": {"result": []}}')

    handler: Callable[[Request], Response] = answer
    httpserver.expect_request(QUERY).respond_with_handler(handler)
    telemetry.value("vector(1)", datetime(2026, 11, 20, tzinfo=UTC))
    assert len(calls) == 3


def test_a_query_that_times_out_costs_its_timeout_only_once() -> None:
    with hanging_server(QUERY, "GET") as (server, arrivals):
        telemetry = PrometheusTelemetry(server.url_for(""), timeout=0.2)
        with pytest.raises(TryLater) as caught:
            telemetry.look()
        telemetry.close()
        assert came(arrivals) == ["GET"]
    assert caught.value.code == "timeout"


def test_an_unreachable_prometheus_is_named_without_the_password_in_its_url() -> None:
    url = unused_url()
    telemetry = PrometheusTelemetry(url.replace("://", "://someone:hidden@"), timeout=1)
    with pytest.raises(TryLater, match=url) as caught:
        telemetry.look()
    telemetry.close()
    assert caught.value.code == "unreachable"
    assert "hidden" not in str(caught.value) + repr(telemetry)


def test_a_prefix_in_the_url_is_kept(httpserver: HTTPServer) -> None:
    httpserver.expect_request(f"/prometheus{QUERY}").respond_with_json(vector())
    telemetry = PrometheusTelemetry(httpserver.url_for("/prometheus/"))
    telemetry.value("vector(1)", datetime(2026, 11, 20, tzinfo=UTC))
    telemetry.close()
    assert len(httpserver.log) == 1


def test_what_each_gpu_of_a_pod_did_is_read_from_one_query(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry
) -> None:
    pod = {"namespace": "ml", "pod": "train-0", "node": "n1"}
    told = vector(
        ({**pod, "gpu": "0", "of": "engine"}, "0.9"),
        ({**pod, "gpu": "0", "of": "memory"}, "0.5"),
        ({**pod, "gpu": "0", "of": "peak_memory"}, "0.6"),
        ({**pod, "gpu": "0", "of": "least_memory"}, "0.4"),
        ({**pod, "gpu": "1", "of": "engine"}, "0"),
        ({**pod, "gpu": "1", "of": "something else"}, "1"),
        ({"namespace": "ml", "gpu": "2", "of": "engine"}, "1"),
        ({**pod, "pod": "other", "gpu": "3", "of": "engine"}, "NaN"),
    )
    serve(httpserver, {SAMPLES: told})
    full = Sample(engine=0.9, memory=0.5, peak_memory=0.6, least_memory=0.4)
    assert telemetry.samples() == {"ml/train-0": (full, Sample(engine=0.0))}
    assert len(httpserver.log) == 1


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (vector(({}, "412.5")), 412.5),
        (vector(), None),
        (vector(({"job": "a"}, "1"), ({"job": "b"}, "2")), None),
        (vector(({}, "NaN")), None),
    ],
)
def test_a_query_has_one_value_or_none(
    httpserver: HTTPServer, telemetry: PrometheusTelemetry, answer: dict[str, Any], value: float | None
) -> None:
    moment = datetime(2026, 11, 1, tzinfo=UTC)
    asked = {"query": "sum(epochs)", "time": str(moment.timestamp())}
    httpserver.expect_request(QUERY, query_string=asked).respond_with_json(answer)
    assert telemetry.value("sum(epochs)", moment) == value
