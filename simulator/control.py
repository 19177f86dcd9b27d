"""The simulator's own paths (``/_...``): faults, the request log, the state for assertions, jobs, a manual clock."""

import re
from collections.abc import Mapping
from typing import Any, get_args

from flask import Blueprint, Response, jsonify, request

from receiver.replay.world.objects import Denied
from simulator.gate import RequestLog
from simulator.http_faults import HttpFault, HttpFaults, Kind
from simulator.live import Live
from simulator.reading import Unreadable, duration, read
from simulator.state import state_json
from simulator.world_faults import KINDS, impose, lift, shown

JSON = dict[str, Any]
HTTP_KINDS = get_args(Kind)


def control_face(live: Live, faults: HttpFaults, log: RequestLog) -> Blueprint:
    """Return the paths as a blueprint."""
    face = Blueprint("control", __name__)
    face.register_error_handler(Unreadable, lambda e: (jsonify({"errors": e.errors}), 400))
    face.register_error_handler(Denied, lambda e: (jsonify({"errors": [str(e)]}), e.status))
    _add_faults(face, live, faults)
    _add_log(face, log)
    _add_jobs(face, live)
    _add_custom(face, live)

    @face.get("/_state")
    def show_state() -> Response:
        with live.moved() as world:
            return jsonify(state_json(live, world))

    @face.post("/_advance")
    def advance() -> Response:
        by = duration(_object(request.get_json(force=True, silent=True)).get("by"), "by")
        try:
            return jsonify({"now": live.turn(by).isoformat()})
        except ValueError as error:
            raise Unreadable([str(error)]) from None

    return face


def _object(given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise Unreadable(["the whole: is no JSON object"])
    return given


def _add_faults(face: Blueprint, live: Live, faults: HttpFaults) -> None:
    def both() -> JSON:
        return {"http": faults.shown(), "world": shown(live)}

    @face.get("/_faults")
    def show_faults() -> JSON:
        return both()

    @face.post("/_faults")
    def add_faults() -> JSON:
        given = request.get_json(force=True, silent=True)
        for one in given if isinstance(given, list) else [given]:
            add_fault(live, faults, _object(one))
        return both()

    @face.delete("/_faults")
    def clear_faults() -> JSON:
        faults.clear()
        lift(live)
        return both()

    @face.delete("/_faults/<int:number>")
    def clear_fault(number: int) -> tuple[JSON, int]:
        known = faults.clear(number)
        return both(), 200 if known else 404


def add_fault(live: Live, faults: HttpFaults, given: Mapping[str, Any]) -> None:
    """Let a fault of the wire or of the world stand. Raises Unreadable."""
    kind = given.get("kind")
    if kind in HTTP_KINDS:
        fault = read(HttpFault, given)
        if errors := fault.wrong():
            raise Unreadable(errors)
        faults.add(fault)
    elif kind in KINDS:
        impose(live, given)
    else:
        raise Unreadable([f"kind: {kind!r} is none of {', '.join((*HTTP_KINDS, *KINDS))}"])


def _add_log(face: Blueprint, log: RequestLog) -> None:
    @face.get("/_requests")
    def show_requests() -> Response:
        query = request.args
        found = [
            e
            for e in log.entries()
            if query.get("face", e["face"]) == e["face"]
            and query.get("method", e["method"]) == e["method"]
            and re.search(query.get("path", ""), e["path"])
            and e["seq"] > int(query.get("after", 0))
        ]
        return jsonify(found)

    @face.get("/_calls")
    def count_calls() -> Response:
        return jsonify(log.calls())

    @face.delete("/_requests")
    def clear_requests() -> Response:
        log.clear()
        return jsonify([])


def _add_jobs(face: Blueprint, live: Live) -> None:
    @face.post("/_jobs")
    def submit_jobs() -> tuple[Response, int]:
        given = request.get_json(force=True, silent=True)
        pods = live.submit([_object(one) for one in (given if isinstance(given, list) else [given])])
        return jsonify([f"{p.namespace}/{p.name}" for p in pods]), 201

    @face.delete("/_jobs/<job>")
    def cancel_job(job: str) -> Response:
        with live.moved() as world:
            world.cancel_job(job)
        return jsonify({})


def _add_custom(face: Blueprint, live: Live) -> None:
    @face.post("/_custom")
    def put_objects() -> tuple[JSON, int]:
        given = request.get_json(force=True, silent=True)
        with live.moved() as world:
            live.custom.put([_object(one) for one in (given if isinstance(given, list) else [given])], world.now)
        return {}, 201

    @face.delete("/_custom")
    def clear_objects() -> JSON:
        with live.moved():
            live.custom.clear()
        return {}
