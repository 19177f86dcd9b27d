"""Prometheus and Alertmanager on the wire: the series that our rules would record of a world, and a board of alerts.

The real servers evaluate the rules in `tests/rules`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from receiver.adapters.monitoring import alertmanager, prometheus
from receiver.core.model.signals import HEARTBEAT_ALERT, Alert, Silence
from receiver.replay.world.objects import POOL_LABEL
from simulator.server import Simulator
from simulator.world import World

QUERY = "/api/v1/query"
Series = Iterable[tuple[Mapping[str, str], float]]


@dataclass(slots=True)
class Board:
    """What Alertmanager knows; lists are changed by the test."""

    alerts: list[Alert] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    started_at: datetime | None = None


def serve_alertmanager(httpserver: HTTPServer, sim: Simulator, board: Board) -> None:
    """Answer as Alertmanager's API v2 does: it marks what is silenced, and keeps silences that have ended."""

    def alerts(_: Request) -> Response:
        return _json([_alert_json(alert, _standing(sim, board)) for alert in board.alerts])

    def silences(_: Request) -> Response:
        standing = _standing(sim, board)
        return _json([_silence_json(s, "active" if s in standing else "expired") for s in board.silences])

    def status(_: Request) -> Response:
        return _json({"uptime": board.started_at.isoformat()} if board.started_at else {})

    for path, handler in (
        (alertmanager.ALERTS, alerts),
        (alertmanager.SILENCES, silences),
        (alertmanager.STATUS, status),
    ):
        httpserver.expect_request(path, method="GET").respond_with_handler(handler)


def serve_prometheus(httpserver: HTTPServer, sim: Simulator, courses_of: timedelta) -> None:
    """Answer the queries of the adapter with what our rules would have recorded, courses for that window alone."""

    def answer(request: Request) -> Response:
        with sim.moved() as world:
            series = _recorded(world, courses_of).get(request.args["query"], ())
            at = world.now.timestamp()
        result = [{"metric": dict(labels), "value": [at, str(value)]} for labels, value in series]
        return _json({"status": "success", "data": {"resultType": "vector", "result": result}})

    httpserver.expect_request(QUERY).respond_with_handler(answer)


def _recorded(world: World, courses_of: timedelta) -> Mapping[str, Series]:
    """Return the answer to each query."""
    seen = not world.faults.telemetry_gone
    with_gpus = [pool for pool in world.pools if world.gpus(pool)]
    utilization = {pool: world.utilization(pool) for pool in with_gpus if seen}
    waiting = [p for p in world.active_pods.values() if p.requests and p.reason == "Unschedulable"]
    waiting = [p for p in waiting if p.owner_kind != "DaemonSet"]
    return {
        prometheus.HEARTBEAT: [] if world.faults.rules_dead else [({"alertname": HEARTBEAT_ALERT}, 1)],
        prometheus.UTILIZATION: [({"pool": p}, v) for p, v in utilization.items() if v is not None],
        prometheus.COVERAGE: [({"pool": pool}, float(seen)) for pool in with_gpus],
        prometheus.WAITING: [
            ({**_of(p.key), "pool": p.node_selector.get(POOL_LABEL, "unassigned")}, p.gpus) for p in waiting
        ],
        prometheus.CREATED: [(_of(p.key), p.created_at.timestamp()) for p in waiting],
        prometheus.NODES: [
            ({"__name__": f"node:dcgm_{witness}:max", "node": node}, getattr(activity, witness))
            for node, activity in (world.node_activity() if seen else {}).items()
            for witness in ("engine", "memory", "power")
        ],
        prometheus.FAILURES: list(_failures(world) if seen else ()) + list(_restarts(world)),
        prometheus.SAMPLES: list(_samples(world) if seen else ()),
        **_courses(world, courses_of),
    }


def _failures(world: World) -> Series:
    """The fatal XID 79 of GPU 0 of each node on which a GPU failed."""
    for node in world.faults.failed:
        gpu = {"node": node, "gpu": "0", "UUID": "GPU-0"}
        yield gpu, world.now.timestamp()
        yield {**gpu, "of": "code"}, 79
        yield {**gpu, "of": "reported"}, 79


def _restarts(world: World) -> Series:
    for node, phase in world.faults.recovering.items():
        yield {"node": node, "phase": phase}, 1


def _samples(world: World) -> Series:
    for gpu in world.gpu_samples():
        if gpu.pod is not None:
            labels = {**_of(gpu.pod), "node": gpu.node, "gpu": str(gpu.index), "UUID": gpu.uuid}
            memory = gpu.memory_used / (gpu.memory_used + gpu.memory_free)
            yield {**labels, "of": "engine"}, gpu.util
            for of in ("memory", "peak_memory", "least_memory"):
                yield {**labels, "of": of}, memory


def _courses(world: World, window: timedelta) -> Mapping[str, Series]:
    found: list[list[tuple[Mapping[str, str], float]]] = [[] for _ in range(7)]
    for pod, course in world.courses(window).items():
        swing = None if course.power is None or course.power_floor is None else course.power - course.power_floor
        values = (course.engine, course.memory, course.power, swing, None, None, course.coverage)
        for answers, value in zip(found, values, strict=True):
            if value is not None:
                answers.append((_of(tuple(pod.split("/", 1))), value))
    return dict(zip(prometheus.course_queries(window), found, strict=True))


def _of(key: tuple[str, ...]) -> Mapping[str, str]:
    return {"namespace": key[0], "pod": key[1]}


def _standing(sim: Simulator, board: Board) -> list[Silence]:
    with sim.lock:
        return [s for s in board.silences if s.ends_at > sim.world.now]


def _alert_json(alert: Alert, standing: Iterable[Silence]) -> Mapping[str, Any]:
    by = [s.id for s in standing if all(m.matches(alert.labels) for m in s.matchers)]
    return {
        "fingerprint": alert.fingerprint,
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "startsAt": alert.starts_at.isoformat(),
        "endsAt": alert.starts_at.isoformat(),
        "status": {"state": "suppressed" if by else "active", "silencedBy": by, "inhibitedBy": []},
    }


def _silence_json(silence: Silence, state: str) -> Mapping[str, Any]:
    matchers = [
        {"name": m.name, "value": m.value, "isRegex": m.is_regex, "isEqual": m.is_equal} for m in silence.matchers
    ]
    return {
        "id": silence.id,
        "status": {"state": state},
        "matchers": matchers,
        "endsAt": silence.ends_at.isoformat(),
        "createdBy": silence.created_by,
        "comment": silence.comment,
    }


def _json(body: object) -> Response:
    return Response(json.dumps(body), content_type="application/json")
