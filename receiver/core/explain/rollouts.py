"""Rolling updates: a pod of the new version waits for GPUs while pods of the version before keep theirs.

A Deployment that takes no pod away first makes one more (its surge), and waits until that is ready. Where its pool
cannot grow that is a deadlock: the new pod waits for GPUs that an old one keeps until the new one is ready.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from receiver.core.model.model import Node
from receiver.core.model.pods import Pod, Workload
from receiver.core.model.text import dollars, listed, some

SETTLES_WITHIN = timedelta(seconds=30)  # by then a controller that may take an old pod away has begun to
WORKER_SET, KNATIVE, RAY = "leaderworkerset.sigs.k8s.io/", "serving.knative.dev/", "ray.io/"
INFERENCE_SERVICE = "serving.kserve.io/inferenceservice"
OLD_FIRST = {"maxSurge": 0, "maxUnavailable": 1}
# What makes each kind take an old pod away before it makes a new one.
PATCHES: Mapping[str, Any] = {
    "Deployment": {"strategy": {"rollingUpdate": OLD_FIRST}},
    "InferenceService": {"predictor": {"deploymentStrategy": {"type": "Recreate"}}},
    "LeaderWorkerSet": {"rolloutStrategy": {"rollingUpdateConfiguration": OLD_FIRST}},
    "Rollout": {"strategy": {"canary": OLD_FIRST}},
}


@dataclass(frozen=True, slots=True)
class Series:
    """What makes pods of one version after the other."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """A waiting pod of the new *version* of a *series* asks for *gpus*, and *old_pods* (keys) of others hold GPUs.

    *deadlocked*: one of them would have to go first, and none does.
    """

    series: Series
    version: str
    gpus: int
    old_pods: tuple[str, ...]
    deadlocked: bool
    settled: bool  # its controller had time to take an old pod away

    @property
    def cause(self) -> str:
        """Why it waits for itself, in a clause."""
        keeps = "its old pod keeps" if len(self.old_pods) == 1 else "its old pods keep"
        return f"its new pod needs {some(self.gpus, 'GPU')} that {keeps} until the new one is ready"

    def __str__(self) -> str:
        return f"rolling update of {self.series}: {self.cause}"

    def remedy(self, room: str) -> str:
        """What ends a deadlock; *room* says how its pool could get a node for the time of the update."""
        patch = PATCHES.get(self.series.kind)
        if patch is None:
            return f"{room}, or end one of its old pods"
        body = json.dumps({"spec": patch}, separators=(",", ":"))
        target = f"{self.series.kind.lower()} {self.series.name}"
        patched = f"kubectl -n {self.series.namespace} patch {target} --type merge -p '{body}'"
        return f"let it take an old pod away first: {patched}; or {room}"


def version_of(pod: Pod) -> tuple[Series, str] | None:
    """Return what makes *pod* in versions, and its version; None for a pod that is not rolled out by making more."""
    labels, (kind, _, name) = pod.labels, pod.owner.partition("/")
    hashed = labels.get("pod-template-hash") or labels.get("rollouts-pod-template-hash")
    rollout: tuple[str, str | None, str | None] = ("", None, None)
    if KNATIVE + "service" in labels:
        rollout = "Knative Service", labels[KNATIVE + "service"], labels.get(KNATIVE + "revision")
    elif WORKER_SET + "name" in labels:
        rollout = "LeaderWorkerSet", labels[WORKER_SET + "name"], labels.get(WORKER_SET + "template-revision-hash")
    elif labels.get(RAY + "originated-from-crd") == "RayService":
        rollout = "RayService", labels.get(RAY + "originated-from-cr-name"), labels.get(RAY + "cluster")
    elif kind == "ReplicaSet" and hashed and name.endswith(f"-{hashed}"):
        maker = "Rollout" if "rollouts-pod-template-hash" in labels else "Deployment"
        rollout = maker, name.removesuffix(f"-{hashed}"), hashed
        if INFERENCE_SERVICE in labels:
            rollout = "InferenceService", labels[INFERENCE_SERVICE], name
    made_by, series, version = rollout
    return (Series(made_by, pod.namespace, series), version) if series and version else None


class Rollouts:
    """The rolling updates whose old pods run on *nodes*, those of one pool; looked for when first asked."""

    def __init__(self, nodes: Iterable[Node], now: datetime) -> None:
        self._nodes, self._now = nodes, now
        self._pods: dict[Series, list[tuple[str, Node, Pod]]] | None = None

    def of(self, work: Workload) -> Rollout | None:
        """Return the rolling update that *work*, which waits, belongs to; None where no pod of another version runs."""
        pod = work.pods[0]
        series_and_version = version_of(pod)
        if series_and_version is None:
            return None
        series, version = series_and_version
        pods = self._by_series().get(series, ())
        old = [(node, other) for name, node, other in pods if name != version]
        if not old:
            return None
        is_under_way = len(old) < len(pods) or any(other.terminating for _, other in old)
        return Rollout(
            series=series,
            version=version,
            gpus=work.gpus,
            old_pods=tuple(sorted(other.key for _, other in old)),
            deadlocked=not is_under_way and any(_would_hold(node, pod, series) for node, _ in old),
            settled=self._now - pod.created_at >= SETTLES_WITHIN,
        )

    def _by_series(self) -> Mapping[Series, list[tuple[str, Node, Pod]]]:
        if self._pods is None:
            self._pods = defaultdict(list)
            for node in self._nodes:
                for pod in node.pods:
                    if (version := version_of(pod)) is not None:
                        self._pods[version[0]].append((version[1], node, pod))
        return self._pods


def _would_hold(node: Node, pod: Pod, series: Series) -> bool:
    """True when *node* had the GPUs for *pod* if the pods of *series* there were gone."""
    others = [p for p in node.pods if (version := version_of(p)) is None or version[0] != series]
    taken = {r: sum(p.requests.get(r, 0) for p in others) for r in pod.requests}
    return all(node.allocatable.get(r, 0) - taken[r] >= count for r, count in pod.requests.items())


def surge(works: Iterable[Workload], rollouts: Rollouts, usd_per_hour: Decimal | None) -> str:
    """``for the surge of the rolling update of Deployment ml/serve, about $2.99 an hour until its old pods have gone``:
    what of *works* buys nodes only while the versions before run; empty where nothing does. *usd_per_hour* is the price
    of a node."""
    updates = [rollout for work in works if (rollout := rollouts.of(work)) is not None]
    if not updates:
        return ""
    names = listed(list(dict.fromkeys(str(rollout.series) for rollout in updates)))
    cost = f", about {dollars(usd_per_hour)} an hour for each node" if usd_per_hour is not None else ""
    return f"for the surge of the rolling update of {names}{cost} until its old pods have gone"
