"""Prometheus and Alertmanager as a schedule has them: two HTTP faces on what the simulated world is, and their ills.

The real ones take half a minute to see anything, which 200 schedules cannot wait for; `tests/e2e` and `tests/rules` run
them. What is answered here are the series that our rules would record of this world (`receiver.replay.ports`).
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server
from werkzeug.wrappers import Request, Response

from campaigns.faults.blur import BLURS, blurred
from receiver.ports import TelemetryFacts
from simulator.gate import hung_up
from simulator.server import Simulator
from simulator.world import SimulatedTelemetry

BEAT = {"alertname": "GpuAutoscalerHeartbeat", "alertstate": "firing"}
PROMETHEUS_ILLS = (*BLURS, "absent", "slow", "cut", "html")
ALERTMANAGER_ILLS = ("absent", "slow", "cut", "html")
SLOW_SECONDS = 3.0
Series = Iterable[tuple[Mapping[str, str], float]]


@dataclass(slots=True)
class Ill:
    """How one of the two answers, until *until* (monotonic seconds)."""

    how: str = ""
    until: float = 0.0


@dataclass(slots=True)
class Faces:
    """Serves both on one port. *struck* counts the answers that an ill has spoilt."""

    cloud: Simulator
    struck: Counter[str] = field(default_factory=Counter)
    firing: dict[str, Mapping[str, str]] = field(default_factory=dict)  # labels by fingerprint
    ills: dict[str, Ill] = field(default_factory=lambda: {"prometheus": Ill(), "alertmanager": Ill()})
    _server: BaseWSGIServer | None = None

    def __enter__(self) -> "Faces":
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Silent)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where both are."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.port}"

    def ail(self, whom: str, how: str, seconds: float) -> None:
        """Let *whom* answer in that way for a while."""
        self.ills[whom] = Ill(how, time.monotonic() + seconds)

    def heal(self) -> None:
        """Both answer rightly from now on."""
        self.ills = {whom: Ill() for whom in self.ills}

    def _answer(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        request = Request(environ)
        asked = "prometheus" if request.path.startswith("/api/v1/") else "alertmanager"
        ill = self.ills[asked]
        how = ill.how if time.monotonic() < ill.until else ""
        if how:
            self.struck[f"{asked} {how}"] += 1
        match how:
            case "cut":
                raise hung_up(environ)
            case "absent":
                return Response("no such thing", 503)(environ, start_response)
            case "html":
                return Response("<html>login</html>", content_type="text/html")(environ, start_response)
            case "slow":
                time.sleep(SLOW_SECONDS)
        body = self._vector(request, how) if asked == "prometheus" else self._alarms(request)
        return Response(json.dumps(body), content_type="application/json")(environ, start_response)

    def _alarms(self, request: Request) -> object:
        if not request.path.endswith("/alerts"):
            return []
        with self.cloud.lock:
            at = self.cloud.clock.now().isoformat()
        status = {"state": "active", "silencedBy": [], "inhibitedBy": []}
        return [
            {"fingerprint": name, "labels": dict(labels), "annotations": {}, "startsAt": at, "status": status}
            for name, labels in self.firing.items()
        ]

    def _vector(self, request: Request, how: str) -> object:
        with self.cloud.moved() as world:
            facts, now = SimulatedTelemetry(world).look(), world.now.timestamp()
        if how in BLURS and how != "nan":
            facts = blurred(facts, how)
        shown = "NaN" if how == "nan" else None
        query = request.values.get("query", "")
        series = next((of for begins, of in SERIES.items() if query.startswith(begins)), None)
        found = () if series is None else series(facts)
        is_beat = query.startswith("ALERTS")
        result = [
            {"metric": dict(labels), "value": [now, str(value) if shown is None or is_beat else shown]}
            for labels, value in found
        ]
        return {"status": "success", "data": {"resultType": "vector", "result": result}}


def _beat(facts: TelemetryFacts) -> Series:
    return [(BEAT, 1.0)] if facts.rules_alive else []


def _nodes(facts: TelemetryFacts) -> Series:
    for node, activity in facts.nodes.items():
        for witness in ("engine", "memory", "power"):
            value = getattr(activity, witness)
            if value is not None:
                yield {"__name__": f"node:dcgm_{witness}:max", "node": node}, float(value)


def _waiting(facts: TelemetryFacts) -> Series:
    for pod in facts.waiting:
        labels = {"namespace": pod.namespace, "pod": pod.name, "pool": pod.scheduling.pool_hint or "unassigned"}
        yield labels, float(sum(pod.requests.values()))


SERIES: Mapping[str, Callable[[TelemetryFacts], Series]] = {
    "ALERTS": _beat,
    "pool:gpu_utilization": lambda facts: [({"pool": p}, v) for p, v in facts.utilization.items()],
    "pool:gpu_telemetry_coverage": lambda facts: [({"pool": p}, v) for p, v in facts.coverage.items()],
    "namespace_pod:gpu_pending": _waiting,
    '{__name__=~"node:dcgm_': _nodes,
}


class _Silent(WSGIRequestHandler):
    """Logs nothing."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 (werkzeug's signature)
        pass
