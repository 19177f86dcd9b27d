"""The smoke test: one GPU pod from creation to running, with the time of each stage.

The pod is always deleted, however the test ends. The new node is removed like every idle node.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.api import CONFLICT
from receiver.adapters.kubernetes.cluster import credentials
from receiver.adapters.survey import MARK, CivoSurvey, PodState, SmokeSurvey
from receiver.config import Mode, Settings
from receiver.core.model.policy import POOL_LABEL, Pool
from receiver.core.model.text import lasting, span
from receiver.core.money.accounting import LABELS
from receiver.doctor import civo, server
from receiver.doctor.checks import CALL_TIMEOUTS, Check, Finding, Installation, skipped
from receiver.doctor.nodes import of_pool
from receiver.ports import Clock, ClusterNode, TryLater, WontWork

IMAGE = "nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04"
NAME = "gpu-autoscaler-smoke"
POLL_SECONDS = 2.0
STARTS_WITHIN = timedelta(minutes=10)  # in addition to provision_timeout: scheduling and the image pull

READY_TO = Check(
    "smoke.allowed",
    "whether the smoke test can start: mode act here and at the server, and the pod is accepted",
    "set `mode: act`, and let the user create, get and delete pods (docs/doctor.md, Smoke test)",
)
PENDING = Check(
    "smoke.pending",
    "whether the scheduler reports the pod as unschedulable",
    "see `kubectl describe pod` for the reason: a quota, a scheduling gate, another scheduler",
)
ASKED = Check(
    "smoke.asked",
    "whether one more node of the pool was requested from Civo",
    "`gpu-autoscaler explain pool NAME` and `gpu-autoscaler explain pod NAMESPACE/gpu-autoscaler-smoke` say why",
)
READY = Check(
    "smoke.node_ready",
    "whether a new node of the pool became Ready",
    "see docs/runbooks/GpuScaleUpStuck.md",
)
GPUS = Check(
    "smoke.gpus",
    "whether the new node's GPUs became allocatable",
    "see docs/runbooks/GpuNodeWithoutGpus.md",
)
RUNNING = Check(
    "smoke.running",
    "whether the pod ran on it",
    "see `kubectl describe pod` and `kubectl logs`: taints, the image, the driver",
)
CLEANED = Check(
    "smoke.cleaned",
    "whether the pod was deleted; its node is removed like every idle node",
    "kubectl delete pod gpu-autoscaler-smoke: until then its node stays in use",
)
STAGES = (PENDING, ASKED, READY, GPUS, RUNNING)
CHECKS = (READY_TO, *STAGES, CLEANED)
SHOWS = {
    PENDING: "the pod is unschedulable",
    ASKED: "one more node is requested from Civo",
    READY: "the new node is Ready",
    GPUS: "its GPUs are allocatable",
    RUNNING: "the pod runs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A pod in *namespace* on *pool* with a *timeout*; *wait* sleeps for a number of seconds."""

    pool: Pool
    namespace: str = "default"
    timeout: timedelta = timedelta(minutes=30)
    wait: Callable[[float], None] = time.sleep

    @property
    def by_hand(self) -> str:
        """How to delete the pod."""
        return f"kubectl -n {self.namespace} delete pod {NAME}: until then its node stays in use"


def chosen(settings: Settings, name: str | None) -> Pool:
    """Return the pool called *name*, or the cheapest with `max_nodes` above 0. Raises LookupError."""
    pools = [pool for pool in settings.policy.pools if (name in (pool.name, pool.id) if name else pool.max_nodes)]
    if not pools:
        raise LookupError(name or "")
    return min(pools, key=lambda pool: (pool.price_usd_per_hour is None, pool.price_usd_per_hour or 0))


def longest(pool: Pool) -> timedelta:
    """Return the default timeout of the test."""
    return pool.provision_timeout + STARTS_WITHIN


def manifest(test: Trial, settings: Settings) -> dict[str, Any]:
    """Return the pod: one unit of the pool's GPU resource, on the pool only, with attribution labels."""
    pool, attribution = test.pool, settings.policy.attribution
    pool_tolerations = [{"key": t.key, "operator": "Equal", "value": t.value, "effect": t.effect} for t in pool.taints]
    chart = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    devices = {min(pool.resources): "1"}
    container = {
        "name": "nvidia-smi",
        "image": IMAGE,
        "command": ["nvidia-smi"],
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi", **devices},
            "limits": {"memory": "256Mi", **devices},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": NAME,
            "namespace": test.namespace,
            "labels": dict.fromkeys(sorted({getattr(attribution, name) for name in LABELS}), NAME),
            "annotations": {MARK: uuid.uuid4().hex},
        },
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {**pool.labels, POOL_LABEL: pool.id},
            "tolerations": [*pool_tolerations, chart],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }


def allowed(installation: Installation) -> Finding:
    """Judge whether the server would buy a node."""
    mode = installation.settings.configuration.mode
    if mode is not Mode.ACT:
        return READY_TO.failed(f"mode is {mode.value}: no node would be bought, and the pod would wait in vain")
    try:
        running = server.running_mode(installation)
    except TryLater as error:
        return READY_TO.failed(str(error), "start the server, or set GPU_AUTOSCALER_URL to its address")
    problem = f"the server runs in mode {running}: no node would be bought"
    return READY_TO.failed_if(running != Mode.ACT.value, problem, "the server runs in mode act")


def smoke(installation: Installation, test: Trial) -> Iterator[Finding]:
    """Run the test and yield each stage as it is reached. Closing the generator early also deletes the pod."""
    verdict = allowed(installation)
    yield verdict
    if verdict.verdict == "fail":
        return
    try:
        where = credentials(installation.settings.environment.kubeconfig)
    except WontWork as error:
        yield READY_TO.failed(str(error))
        return
    cluster = SmokeSurvey(where, clock=installation.clock, calls=Calls(timeouts=CALL_TIMEOUTS))
    with closing(cluster), closing(civo.opened(installation)) as cloud:
        try:
            before = _look(cluster, cloud, test)
            uid = _created(cluster, test, manifest(test, installation.settings))
        except (TryLater, WontWork) as error:
            yield READY_TO.failed(str(error), "" if isinstance(error, WontWork) else test.by_hand)
            return
        try:
            yield from _watched(installation.clock, test, cluster, cloud, before)
        finally:
            cleaned = _deleted(cluster, test, uid)
        yield cleaned


def _created(cluster: SmokeSurvey, test: Trial, pod: Mapping[str, Any]) -> str:
    """Create the pod and return its uid, even if the answer was lost. Raises TryLater and WontWork."""
    try:
        return cluster.create(test.namespace, pod)
    except TryLater as error:
        if error.code == CONFLICT:
            raise  # another test runs, or was killed
        test.wait(POLL_SECONDS)
        uid = cluster.made(test.namespace, NAME, pod["metadata"]["annotations"][MARK])
        if uid is None:
            raise
        return uid


def _look(cluster: SmokeSurvey, cloud: CivoSurvey, test: Trial) -> tuple[int, list[ClusterNode]]:
    """Return the required count of the pool, and its nodes."""
    pool = cloud.look().get(test.pool.id)
    return pool.required if pool else 0, of_pool(cluster.nodes(), test.pool)


def _watched(
    clock: Clock, test: Trial, cluster: SmokeSurvey, cloud: CivoSurvey, before: tuple[int, list[ClusterNode]]
) -> Iterator[Finding]:
    """Yield each stage when it is first seen, with the time since the start and since the previous stage."""
    required_before, names_before = before[0], {node.name for node in before[1]}
    began = last = clock.now()
    missing, trouble, pod = list(STAGES), "", PodState(phase="")
    while clock.now() - began < test.timeout and RUNNING in missing and pod.phase != "Failed":
        try:
            pod, trouble = cluster.state(test.namespace, NAME), ""
            required, nodes = _look(cluster, cloud, test)
        except TryLater as error:
            trouble = str(error)
        except WontWork as error:
            trouble = str(error)
            break
        else:
            ready = [node for node in nodes if node.ready and node.name not in names_before]
            reached = {
                PENDING: pod.unschedulable,
                ASKED: required > required_before,
                READY: bool(ready),
                GPUS: any(node.allocatable for node in ready),
                RUNNING: pod.phase in ("Running", "Succeeded"),
            }
            for check in [check for check in missing if reached[check]]:
                missing.remove(check)
                now = clock.now()
                took = f"{span((now - began).total_seconds())} (+{(now - last).total_seconds():.0f} s)"
                yield check.passed(f"{SHOWS[check]} after {took}")
                last = now
        if RUNNING in missing:
            test.wait(POLL_SECONDS)
    if RUNNING not in missing:
        yield from skipped(missing, "the pod ran without it: a node had room, so none had to be bought")
        return
    first = RUNNING if pod.phase == "Failed" else missing[0]
    problem = f"not seen within {lasting(test.timeout)}"
    if pod.phase == "Failed":
        problem = f"the pod failed ({pod.says or 'no reason given'})"
    detail = trouble or (f"the scheduler reports: {pod.says}" if pod.unschedulable else "")
    yield first.failed(f"{problem}; {detail}" if detail else problem)
    yield from skipped((check for check in missing if check is not first), "not reached")


def _deleted(cluster: SmokeSurvey, test: Trial, uid: str) -> Finding:
    """Delete the pod, with up to three attempts."""
    for attempt in range(3):
        try:
            cluster.delete(test.namespace, NAME, uid)
        except (TryLater, WontWork) as error:
            trouble = str(error)
            if isinstance(error, WontWork):
                break
            test.wait(POLL_SECONDS * attempt)
        else:
            message = "the pod is deleted; its node is removed when idle, mostly at the end of its paid hour"
            return CLEANED.passed(message)
    return CLEANED.failed(trouble, test.by_hand)
