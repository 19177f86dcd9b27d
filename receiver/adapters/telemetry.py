"""Prometheus, or whatever speaks its HTTP API, behind the port `Telemetry`.

Asks for recorded series only (``rules/``): what the numbers mean is said there, once. A value that is not a
number is left out, never zero.
"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException

from receiver.adapters.sessions import quick_retry, quick_session, shown, wire_failure
from receiver.core.pods import Pod, PodPhase
from receiver.core.signals import HEARTBEAT_ALERT
from receiver.ports import TelemetryFacts, TryLater

UTILIZATION = "pool:gpu_utilization:avg5m"
COVERAGE = "pool:gpu_telemetry_coverage:ratio"
WAITING = "namespace_pod:gpu_pending:sum"
CREATED = f"max by (namespace, pod) (kube_pod_created) and on (namespace, pod) {WAITING}"
HEARTBEAT = f'ALERTS{{alertname="{HEARTBEAT_ALERT}",alertstate="firing"}}'
GPU = "nvidia.com/gpu"  # kube-state-metrics knows the sum only; the rules count this resource


class PrometheusTelemetry:
    """The latest values of our recording rules at *url*; *timeout* is seconds per query."""

    def __init__(self, url: str, timeout: float = 10) -> None:
        self._shown = shown(url.strip().rstrip("/"))
        self._session = quick_session()
        self._prometheus = PrometheusConnect(
            url=url.strip().rstrip("/"), retry=quick_retry(), session=self._session, timeout=timeout
        )

    def __repr__(self) -> str:
        return f"PrometheusTelemetry({self._shown!r})"

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def ping(self) -> None:
        """Raise TryLater unless a query is answered."""
        self._query("vector(1)")

    def look(self) -> TelemetryFacts:
        """Return what the recording rules say now."""
        alive = self._query(HEARTBEAT)
        return TelemetryFacts(
            utilization=self._by_pool(UTILIZATION, max),
            coverage=self._by_pool(COVERAGE, min),
            waiting=self._waiting(),
            rules_alive=any(value > 0 for _, value, _ in alive),
        )

    def _by_pool(self, query: str, of_two: Callable[[float, float], float]) -> Mapping[str, float]:
        """Return values by pool. Where replicas answer twice, the one that removes fewer nodes counts."""
        found: dict[str, float] = {}
        for labels, value, _ in self._query(query):
            pool = labels.get("pool", "")
            if pool:
                found[pool] = of_two(found[pool], value) if pool in found else value
        return found

    def _waiting(self) -> tuple[Pod, ...]:
        """Return the waiting pods as kube-state-metrics knows them, the oldest first."""
        samples = self._query(WAITING)
        if not samples:
            return ()
        created = {_key(labels): value for labels, value, _ in self._query(CREATED)}
        pods: dict[str, Pod] = {}
        for labels, value, at in samples:
            key = _key(labels)
            namespace, name = labels.get("namespace", ""), labels.get("pod", "")
            if namespace and name and value > 0:
                pods[key] = Pod(
                    namespace=namespace,
                    name=name,
                    uid=key,
                    requests={GPU: math.ceil(value)},
                    phase=PodPhase.WAITING,
                    created_at=datetime.fromtimestamp(created.get(key, at), UTC),
                    pool_hint=labels.get("pool") or None,
                )
        return tuple(sorted(pods.values(), key=lambda p: (p.created_at, p.key)))

    def _query(self, query: str) -> list[tuple[Mapping[str, str], float, float]]:
        """Return (labels, value, time) of an instant vector; values that are no numbers are left out.

        Errors are raised ``from None``: the client puts whole answers into its own.
        """
        try:
            result = self._prometheus.custom_query(query)
        except PrometheusApiClientException as error:
            code = _status(error)
            detail = f"Prometheus at {self._shown} answered {query!r} with {code.removeprefix('http_')}"
            raise TryLater(detail, code=code) from None
        except (requests.exceptions.JSONDecodeError, KeyError, TypeError):
            raise self._malformed(query) from None
        except (requests.RequestException, OSError, ValueError) as error:
            code, phrase = wire_failure(error)
            raise TryLater(f"Prometheus at {self._shown} was asked for {query!r}: {phrase}", code=code) from None
        if not isinstance(result, list):
            raise self._malformed(query)
        return [sample for record in result if (sample := self._sample(record, query)) is not None]

    def _sample(self, record: Any, query: str) -> tuple[Mapping[str, str], float, float] | None:
        try:
            at, text = record["value"]
            value, labels = float(text), record["metric"]
            found = {str(k): str(v) for k, v in labels.items()}
            return (found, value, float(at)) if math.isfinite(value) else None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._malformed(query) from None

    def _malformed(self, query: str) -> TryLater:
        detail = f"Prometheus at {self._shown} answered {query!r} with something that is no instant vector"
        return TryLater(detail, code="malformed")


def _key(labels: Mapping[str, str]) -> str:
    return f"{labels.get('namespace', '')}/{labels.get('pod', '')}"


def _status(error: PrometheusApiClientException) -> str:
    """Return ``http_503`` from the client's message, the only place where it keeps the status."""
    found = re.match(r"HTTP Status Code (\d{3})", str(error))
    return f"http_{found[1]}" if found else "malformed"
