"""Prometheus, or a server with its HTTP API, behind the port `Telemetry`.

Most queries read recorded series, which ``rules/`` defines. A value that is not a number is ignored, never zero.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import requests
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException

from receiver.adapters.clock import SystemClock
from receiver.adapters.http.sessions import ReadPause, quick_retry, quick_session, retry_after, shown, wire_failure
from receiver.core.model.pods import Pod, PodPhase, Scheduling
from receiver.core.model.signals import HEARTBEAT_ALERT
from receiver.core.model.usage import Activity, Course, Sample
from receiver.ports import TelemetryFacts, TryLater

UTILIZATION = "pool:gpu_utilization:avg5m"
COVERAGE = "pool:gpu_telemetry_coverage:ratio"
WAITING = "namespace_pod:gpu_pending:sum"
CREATED = f"max by (namespace, pod) (kube_pod_created) and on (namespace, pod) {WAITING}"
HEARTBEAT = f'ALERTS{{alertname="{HEARTBEAT_ALERT}",alertstate="firing"}}'
NODES = '{__name__=~"node:dcgm_(engine|memory|power):max"}'
# A GPU's failure, its fatal XID, whether one is still reported; the phase in which Civo's node agent restarts a node (1
# in the present one).
FAILURES = (
    "node_gpu:dcgm_xid_fatal_timestamp_seconds:latest > 0"
    ' or label_replace(last_over_time(node_gpu:dcgm_xid_fatal:max[1d]), "of", "code", "", "")'
    " or last_over_time(node_gpu:dcgm_xid_fatal:count[1d])"
    ' or label_replace(node_gpu:dcgm_xid_raised:max, "of", "reported", "", "")'
    ' or civo_node_agent_recovery_phase{phase=~"Reboot|WaitingReboot|Drain|Replace"} == 1'
)
MISSING = "node:gpu_counter_missing:relabel and node:gpu_counter_missing:relabel offset 15m"  # not of a new node
HOLDERS = "namespace_pod_gpu:dcgm_holders:relabel"
ENGINE = "namespace_pod_gpu:dcgm_engine:ratio"
MEMORY = "namespace_pod_gpu:dcgm_memory:ratio"
POWER = "namespace_pod_gpu:dcgm_power:max"
NVML = "node_gpu:dcgm_nvml:ratio"
UNSEEN = "namespace_pod:gpu_unseen:sum"
FRESH = 120  # seconds; an older value is stale: Prometheus shows it for up to five minutes
GPU = "nvidia.com/gpu"  # the rules count all GPU resources together


def _held(of_gpus: str, holders: str) -> str:
    """Return the query that gives each holder in *holders* the value *of_gpus* of its GPUs."""
    return f"max by (node, gpu, UUID) ({of_gpus}) * on (node, gpu, UUID) group_right () group by ({HELD}) ({holders})"


GPU_LABELS = ("node", "gpu", "UUID", "GPU_I_ID")
HELD = ", ".join(("namespace", "pod", *GPU_LABELS))
SAMPLES = " or ".join(
    f'label_replace({query}, "of", "{name}", "", "")'
    for name, query in (
        ("engine", f"avg_over_time({ENGINE}[2m])"),
        ("memory", f"avg_over_time({MEMORY}[2m])"),
        ("peak_memory", f"max_over_time({MEMORY}[2m])"),
        ("least_memory", f"min_over_time({MEMORY}[2m])"),
        ("nvml", _held(f"avg_over_time({NVML}[2m])", HOLDERS)),
        ("power", f"min_over_time({POWER}[2m])"),
    )
)
_WITNESS = re.compile("node:dcgm_(engine|memory|power):max")


class PrometheusReader:
    """Queries of the Prometheus at *url*; *timeout* is seconds until a query is given up."""

    SHAPE = "an instant vector"  # of its answers

    def __init__(self, url: str, timeout: float = 10) -> None:
        url = url.strip().rstrip("/")
        self.shown = shown(url)
        self._session = quick_session()
        self._session.hooks["response"].append(self._note_wait)
        self._pause, self._clock = ReadPause(), SystemClock()
        self._wait: timedelta | None = None
        self._prometheus = PrometheusConnect(url=url, retry=quick_retry(), session=self._session, timeout=timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shown!r})"

    def close(self) -> None:
        self._session.close()

    def _result(self, query: str, ask: Callable[[], Any]) -> list[Any]:
        """Return what *ask* gets for *query*, as messages show it. Errors are raised ``from None``: those of the
        client contain whole answers. Nothing is asked before the time that the server named is over."""
        self._pause.check()
        self._wait = None
        try:
            result = ask()
        except PrometheusApiClientException as error:
            match = re.match(r"HTTP Status Code (\d{3})", str(error))  # the only place that has the status
            code = f"http_{match[1]}" if match else "malformed"
            detail = f"Prometheus at {self.shown} answered {query} with {code.removeprefix('http_')}"
            refusal = TryLater(detail, code=code, delay=self._wait)
            self._pause.begin(refusal)
            raise refusal from None
        except (requests.exceptions.JSONDecodeError, KeyError, TypeError, RecursionError):
            raise self._malformed(query) from None
        except (requests.RequestException, OSError, ValueError) as error:
            code, phrase = wire_failure(error)
            raise TryLater(f"Prometheus at {self.shown} did not answer {query}: {phrase}", code=code) from None
        if not isinstance(result, list):
            raise self._malformed(query)
        return result

    def _note_wait(self, response: requests.Response, *_: object, **__: object) -> None:
        """Keep what the client's errors leave out."""
        self._wait = retry_after(response.headers, self._clock.now()) if response.status_code >= 400 else None

    def _malformed(self, query: str) -> TryLater:
        detail = f"Prometheus at {self.shown} answered {query} with something else than {self.SHAPE}"
        return TryLater(detail, code="malformed")


class PrometheusTelemetry(PrometheusReader):
    """The latest values of the recording rules at *url*; *timeout* is seconds per query."""

    def look(self) -> TelemetryFacts:
        failed, recovering = self._failures()
        return TelemetryFacts(
            utilization=self._by_pool(UTILIZATION, max),
            coverage=self._by_pool(COVERAGE, min),
            waiting=self._waiting(),
            nodes=self._nodes(),
            rules_alive=any(value > 0 for _, value, _ in self._query(HEARTBEAT)),
            failed=failed,
            recovering=recovering,
            missing=self._missing(),
        )

    def value(self, query: str, at: datetime) -> float | None:
        """Return the value of *query* at *at*, None if it has no value or several."""
        samples = self._query(query, at)
        return samples[0][1] if len(samples) == 1 else None

    def courses(self, window: timedelta) -> Mapping[str, Course]:
        """Return the activity of each pod's GPUs over the last *window* (1 s or more), by ``namespace/name``."""
        queries = course_queries(window)
        engine, memory, power, swing, least_swing, nvml, coverage = (self._by_pod(query) for query in queries)
        return {
            key: Course(
                window=window,
                engine=engine.get(key),
                memory=memory.get(key),
                power=power.get(key),
                power_floor=power[key] - swing[key] if key in power and key in swing else None,
                least_swing=least_swing.get(key),
                nvml=nvml.get(key),
                coverage=coverage.get(key, 0.0),
            )
            for key in sorted(engine.keys() | memory.keys() | power.keys())
        }

    def samples(self) -> Mapping[str, Sequence[Sample]]:
        """Return the activity of each pod's GPUs over the last two minutes, GPU by GPU, by ``namespace/name``."""
        gpus_by_pod: dict[str, dict[tuple[str, ...], dict[str, float]]] = {}
        for labels, value, _ in self._query(SAMPLES):
            if labels.get("namespace") and labels.get("pod") and labels.get("of") in Sample.__slots__:
                gpu = tuple(labels.get(name, "") for name in GPU_LABELS)
                gpus_by_pod.setdefault(_key(labels), {}).setdefault(gpu, {})[labels["of"]] = value
        return {key: tuple(Sample(**activity) for activity in gpus.values()) for key, gpus in gpus_by_pod.items()}

    def _nodes(self) -> Mapping[str, Activity]:
        """Return DCGM's activity of each node; of several replicas the highest value counts."""
        activities: dict[str, dict[str, float]] = {}
        for labels, value, _ in self._query(NODES):
            node, witness = labels.get("node", ""), _WITNESS.fullmatch(labels.get("__name__", ""))
            if node and witness:
                values = activities.setdefault(node, {})
                values[witness[1]] = max(value, values.get(witness[1], value))
        return {node: Activity(**values) for node, values in activities.items()}

    def _failures(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return by node its GPUs with a fatal XID, and the phase of a restart by Civo's node agent. A GPU whose
        failure ended reports XID 0; one that fell off the bus is not reported at all."""
        codes: dict[tuple[str, str], str] = {}
        recovering: dict[str, str] = {}
        reported: set[tuple[str, str]] = set()
        failed: dict[tuple[str, str], str] = {}
        for labels, value, _ in self._query(FAILURES):
            node, index = labels.get("node", ""), labels.get("gpu", "")
            gpu = (node, labels.get("UUID") or index)  # a restart of the machine may renumber its GPUs
            if node and "phase" in labels:
                recovering[node] = labels["phase"]
            elif node and labels.get("of") == "code":
                codes[gpu] = f"{value:.0f}"
            elif node and "xid" in labels:
                codes.setdefault(gpu, labels["xid"])
            elif node and labels.get("of") == "reported":
                reported.add(gpu)
            elif node:
                failed[gpu] = index
        faults_by_node: dict[str, list[str]] = {}
        for gpu, index in sorted(failed.items(), key=lambda item: (item[0][0], item[1])):
            xid = f"XID {codes[gpu]}" if gpu in codes else "a fatal XID"
            lost = "" if gpu in reported else ", which is no longer reported"
            faults_by_node.setdefault(gpu[0], []).append(f"{xid} on GPU {index}{lost}")
        return {node: ", ".join(faults) for node, faults in faults_by_node.items()}, recovering

    def _missing(self) -> Mapping[str, Sequence[str]]:
        nodes_by_counter: dict[str, set[str]] = {}
        for labels, _, _ in self._query(MISSING):
            if labels.get("counter") and labels.get("node"):
                nodes_by_counter.setdefault(labels["counter"], set()).add(labels["node"])
        return {counter: tuple(sorted(nodes)) for counter, nodes in sorted(nodes_by_counter.items())}

    def _by_pod(self, query: str) -> Mapping[str, float]:
        named = ((labels, value) for labels, value, _ in self._query(query))
        return {_key(labels): value for labels, value in named if labels.get("namespace") and labels.get("pod")}

    def _by_pool(self, query: str, of_two: Callable[[float, float], float]) -> Mapping[str, float]:
        """Return values by pool; of several replicas the value that removes fewer nodes counts."""
        value_by_pool: dict[str, float] = {}
        for labels, value, _ in self._query(query):
            if pool := labels.get("pool"):
                value_by_pool[pool] = of_two(value_by_pool[pool], value) if pool in value_by_pool else value
        return value_by_pool

    def _waiting(self) -> tuple[Pod, ...]:
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
                    scheduling=Scheduling(pool_hint=labels.get("pool") or None),
                )
        return tuple(sorted(pods.values(), key=lambda p: (p.created_at, p.key)))

    def _query(self, query: str, at: datetime | None = None) -> list[tuple[Mapping[str, str], float, float]]:
        """Return (labels, value, time) of an instant vector at *at*, or now, without values that are not numbers."""
        params = {"time": at.timestamp()} if at else None
        result = self._result(repr(query), lambda: self._prometheus.custom_query(query, params))
        samples: list[tuple[Mapping[str, str], float, float]] = []
        try:
            for record in result:
                moment, text = record["value"]
                value, labels = float(text), {str(k): str(v) for k, v in record["metric"].items()}
                if math.isfinite(value):
                    samples.append((labels, value, float(moment)))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise self._malformed(repr(query)) from None
        return samples


def course_queries(window: timedelta) -> tuple[str, str, str, str, str, str, str]:
    """Return the queries for a pod's highest engine, widest change of memory, highest watts, widest swing of the
    watts, narrowest one in the last hour at most, highest NVML utilization, and the share of the window that was seen.
    The widest change of a single GPU counts: the highest of eight GPUs may stand still while another one loads; the
    narrowest swing belongs to a GPU whose exporter may be frozen. The share is counted in steps of the window,
    independent of the interval of the rules; a held GPU without engine values, in the window or now, was not seen, nor
    one that the pod requested and its node lacks."""
    seconds = max(1, round(window.total_seconds()))
    step = max(1, min(60, seconds // 60))
    span, steps, an_hour = f"[{seconds}s]", f"[{seconds}s:{step}s]", f"[{min(seconds, 3600)}s]"

    def highest(series: str) -> str:
        return f"max by (namespace, pod) (max_over_time({series}{span}))"

    def swing(of: str, series: str, span: str = span) -> str:
        return f"{of} by (namespace, pod) (max_over_time({series}{span}) - min_over_time({series}{span}))"

    def counted(series: str) -> str:
        return f"count_over_time(({series} and time() - timestamp({series}) <= {FRESH}){steps})"

    nvml = f"max by (namespace, pod) ({_held(f'max_over_time({NVML}{span})', f'max_over_time({HOLDERS}{span})')})"
    engine = f"{counted(ENGINE)} and {ENGINE} or 0 * max_over_time({HOLDERS}{span})"
    others = (f'label_replace({counted(s)}, "of", "{s}", "", "")' for s in (MEMORY, POWER))
    steps_seen = f"min by (namespace, pod) ({' or '.join((engine, *others, f'0 * {UNSEEN}'))})"
    coverage = f"clamp_max({steps_seen} * {step} / {seconds}, 1)"  # with a step at both ends there is one more
    watts, swings = highest(POWER), (swing("max", POWER), swing("min", POWER, an_hour))
    return highest(ENGINE), swing("max", MEMORY), watts, *swings, nvml, coverage


def _key(labels: Mapping[str, str]) -> str:
    return f"{labels.get('namespace', '')}/{labels.get('pod', '')}"
