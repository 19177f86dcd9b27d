"""CapacityBuffers (``autoscaling.x-k8s.io``): what each asks for, and the status that Cluster Autoscaler would write.

The rules are those of kubernetes-sigs/cluster-autoscaler at 33c3f97bf: ``pkg/capacitybuffer/translators`` (pod
template, scalable, replicas), ``common/common.go`` (conditions), ``controller/resourcequotas.go``, and
``pkg/processors/capacitybuffer/pod_list_processor.go`` (Provisioning). What differs is in docs/decisions/0063.
Buffers without GPUs, or with another strategy, are left to others.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING
from typing import Any

from receiver.adapters.kubernetes import api
from receiver.adapters.kubernetes.affinity import requirement_from
from receiver.adapters.kubernetes.announced import MOST_OF_ONE, Reading, RequestReader, announced_pod, trimmed
from receiver.adapters.kubernetes.api import Json, entries, key_of, section, text, versioned, words
from receiver.adapters.kubernetes.installations import names_pools
from receiver.adapters.kubernetes.nodes import MOST_BYTES, bounded
from receiver.adapters.kubernetes.pods import SeenPod
from receiver.adapters.kubernetes.reflector import ResourceKind
from receiver.adapters.kubernetes.requests import effective
from receiver.capabilities.buffers.keeping import KIND, NOT_READY
from receiver.core.model.pods import CPU, MEMORY, Pod
from receiver.core.model.room_requests import RoomAnswer, RoomRequest
from receiver.core.scaling.demand import meets
from receiver.ports import ClusterFacts, Did, Receipt, TryLater, WontWork

RESOURCE = ResourceKind("autoscaling.x-k8s.io", "capacitybuffers", ("v1beta1", "v1alpha1"))
ACTIVE = "buffer.x-k8s.io/active-capacity"
READY, LIMITED, PROVISIONING = "ReadyForProvisioning", "LimitedByQuotas", "Provisioning"
UNREADY = "CapacityBuffer is not ready for provisioning"
SCALABLES = {  # by API group and kind: resource, path, and the field with the number of pods
    ("apps", "Deployment"): ("deployments", api.DEPLOYMENTS, "replicas"),
    ("apps", "ReplicaSet"): ("replicasets", api.REPLICA_SETS, "replicas"),
    ("apps", "StatefulSet"): ("statefulsets", api.STATEFUL_SETS, "replicas"),
    ("core", "ReplicationController"): ("replicationcontrollers", api.CONTROLLERS, "replicas"),
    ("batch", "Job"): ("jobs", api.JOBS, "parallelism"),
}
WITHOUT = "CapacityBuffers keep no nodes"
WITHOUT_QUOTAS = "ResourceQuotas do not limit CapacityBuffers"


class UnreadyError(Exception):
    """Why a buffer cannot be provisioned, in Cluster Autoscaler's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """What a buffer refers to: the pod template of one chunk, the *pods* of the scalable, the template's *named*
    status fields."""

    template: Json
    pods: int | None = None
    named: Mapping[str, Any]

    def requests(self) -> dict[str, int]:
        """Everything that one chunk requests, in thousandths of its unit."""
        return {name: n for name, n in effective(section(self.template, "spec"), thousandths).items() if n > 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """One CapacityBuffer *raw*, as the core sees it, its *status* without the condition Provisioning, and what a ready
    one refers to."""

    raw: Json
    request: RoomRequest
    status: Mapping[str, Any]
    chunk: Chunk | None


class Buffers(RequestReader):
    """The CapacityBuffers of the cluster. What was read last counts while the API server cannot tell: otherwise idle
    nodes that a buffer keeps would go. One that names pools, none of which is among our pools, is
    left to another installation."""

    kind = KIND

    def __init__(self, reading: Reading) -> None:
        self._reading, self._lists, self._clock = reading, reading.lists, reading.clock
        self._last: dict[str, Translated] = {}
        self._found: dict[str, dict[str, Json] | str] = {}  # in this step, by resource; or why it cannot be read

    def add_to(self, facts: ClusterFacts, living_pods: Sequence[SeenPod]) -> ClusterFacts:
        """Return *facts* with the buffers for GPUs, the oldest first; none where the CRD is not installed or we may not
        list it."""
        self._found.clear()
        try:
            self._last = {t.request.key: t for t in self._translated(living_pods)}
        except TryLater as error:
            self._lists.remarks.warn("CapacityBuffers not read", f"{error}; those read last count")
        return replace(facts, requests=(*facts.requests, *(t.request for t in self._last.values())))

    def answer(self, answer: RoomAnswer) -> Receipt:
        """See `Cluster.answer_request`; the message is that of the condition Provisioning."""
        key = answer.key
        translated = self._last.get(key)
        if translated is None:
            return Receipt(did=Did.DIFFERS, sentence=f"there is no CapacityBuffer {key}")
        before = section(translated.raw, "status")
        wanted: Json = {**translated.status, "conditions": self._conditions(translated, answer)}
        wanted = self._lists.known_status(RESOURCE, "CapacityBuffer", wanted)  # or it would be written again for ever
        if all(before.get(name) == value for name, value in wanted.items()):
            return Receipt(did=Did.ALREADY, sentence=f"CapacityBuffer {key} says so already")
        namespace, _, name = key.partition("/")
        body = {"metadata": versioned(translated.raw), "status": wanted}
        self._lists.patch_status(RESOURCE, namespace, name, body)
        return Receipt(did=Did.DONE, sentence=f"wrote the status of CapacityBuffer {key}")

    def _conditions(self, translated: Translated, answer: RoomAnswer) -> list[dict[str, Any]]:
        """Return all conditions, as ``meta.SetStatusCondition`` leaves them: a time changes with its status alone."""
        provisioning = condition(PROVISIONING, "FakePodsInjected", answer.message)
        if not translated.request.pods:
            provisioning = condition(PROVISIONING, NOT_READY, UNREADY, status="False")
        elif not translated.request.copies:
            provisioning = condition(PROVISIONING, "BufferIsEmpty", "CapacityBuffer has zero replicas", status="False")
        elif answer.state == NOT_READY:
            provisioning = condition(PROVISIONING, NOT_READY, answer.message, status="False")
        now = f"{self._clock.now():%Y-%m-%dT%H:%M:%SZ}"
        conditions: dict[str, Any] = {
            text(c, "type"): dict(c) for c in entries(section(translated.raw, "status"), "conditions")
        }
        for wanted in (*translated.status["conditions"], provisioning):
            before = conditions.get(wanted["type"], {})
            since = before.get("lastTransitionTime") if before.get("status") == wanted["status"] else None
            conditions[wanted["type"]] = {"lastTransitionTime": since or now, **wanted}
        return list(conditions.values())

    def _translated(self, living_pods: Sequence[SeenPod]) -> list[Translated]:
        raws = [
            raw
            for raw in self._lists.if_allowed(RESOURCE, WITHOUT) or ()
            if section(raw, "spec").get("provisioningStrategy") in (None, "", ACTIVE)
            and not section(raw, "metadata").get("deletionTimestamp")
            and (section(raw, "spec").get("podTemplateRef") or section(raw, "spec").get("scalableRef"))
        ]
        pools = self._reading.pools()
        raws = [raw for raw in raws if names_pools(raw, pools) is not False]
        raws.sort(key=lambda raw: (text(section(raw, "metadata"), "creationTimestamp"), key_of(raw)))
        translations = [t for raw in raws if (t := self._translate(raw, living_pods)) is not None]
        ready = {t.request.key: t for t in translations if t.request.pods}
        if ready and (quotas := self._quotas()) is not None:
            ready = {t.request.key: t for t in limited(ready.values(), quotas)}
        return [ready.get(t.request.key, t) for t in translations]

    def _quotas(self) -> list[Json] | None:
        try:
            return self._lists.every("resourcequotas", api.QUOTAS)
        except WontWork as error:
            self._lists.remarks.warn("ResourceQuotas not read", f"{error}; {WITHOUT_QUOTAS}")
            return None

    def _translate(self, raw: Json, living_pods: Sequence[SeenPod]) -> Translated | None:
        """Return what *raw* asks for and its status; None for one whose chunks have no GPUs."""
        key, named = key_of(raw), dict[str, Any](podTemplateRef=None, podTemplateGeneration=None)
        pod: Pod | None = None
        chunk: Chunk | None = None
        replicas, problem = None, ""
        try:
            chunk = self._chunk(raw, living_pods)
            pod = announced_pod(raw, chunk.template, priority=0, read=self._reading.pod)
            if pod is None:
                return None
            named = dict(chunk.named)
            replicas = replicas_of(section(raw, "spec"), chunk)
        except UnreadyError as error:
            problem = f"Buffer not ready for provisioning: {error}"
        except (TryLater, ValueError, ArithmeticError) as error:
            if isinstance(error, TryLater) and error.code != "malformed":
                raise
            problem = f"Buffer not ready for provisioning: {error}"
        ready = condition(READY, "AttributesSetSuccessfully", "ready")
        if problem:
            pod, ready = None, condition(READY, "error", problem, status="False")
        strategy = section(raw, "spec").get("provisioningStrategy") or ACTIVE
        status = {**named, "replicas": replicas, "provisioningStrategy": strategy, "conditions": [ready]}
        if pod is not None:
            pod = replace(pod, name=f"capacity-buffer-{pod.name}")
        ours = names_pools(raw, self._reading.pools()) is True
        request = RoomRequest(
            kind=KIND,
            key=key,
            pods=() if pod is None else (pod,),
            copies=min(replicas or 0, MOST_OF_ONE),
            problem=problem,
            named=ours,
        )
        return Translated(raw=raw, request=request, status=status, chunk=chunk)

    def _chunk(self, raw: Json, living_pods: Sequence[SeenPod]) -> Chunk:
        """Return what *raw* refers to. Of a scalable with pods the newest counts, as it was admitted. Raises
        UnreadyError."""
        namespace, spec = text(section(raw, "metadata"), "namespace"), section(raw, "spec")
        if spec.get("podTemplateRef"):
            name = text(section(spec, "podTemplateRef"), "name")
            target = self._one("podtemplates", api.POD_TEMPLATES, namespace, name)
            if target is None:
                raise UnreadyError(f'capacity buffer client can\'t get pod template: podtemplates "{name}" not found')
            generation = section(target, "metadata").get("generation") or 0
            named = {"podTemplateRef": {"name": name}, "podTemplateGeneration": generation}
            return Chunk(template=section(target, "template"), named=named)
        reference = section(spec, "scalableRef")
        group, kind, name = (text(reference, field) for field in ("apiGroup", "kind", "name"))
        if (group or "core", kind) not in SCALABLES:
            unsupported = f"kind {group}/{kind} is not supported to use pod template"
            raise UnreadyError(f"failed to resolve scalable object: {unsupported}")
        resource, path, field = SCALABLES[group or "core", kind]
        target = self._one(resource, path, namespace, name)
        if target is None:
            full = f"{resource}.{group}" if group not in ("", "core") else resource
            raise UnreadyError(f'failed to resolve scalable object: {full} "{name}" not found')
        named = dict[str, Any](podTemplateRef=None, podTemplateGeneration=None)
        pods = selected(section(target, "spec"), (p for p in living_pods if p.namespace == namespace))
        if pods and field == "replicas":
            newest = max(pods, key=lambda p: text(p.metadata, "creationTimestamp"))
            template = {"metadata": newest.metadata, "spec": newest.spec}
            return Chunk(template=template, pods=_whole(section(target, "status").get(field, 0)), named=named)
        spec = section(target, "spec")
        return Chunk(template=section(spec, "template"), pods=_whole(spec.get(field)), named=named)

    def _one(self, resource: str, path: str, namespace: str, name: str) -> Json | None:
        if resource not in self._found:
            try:
                self._found[resource] = {key_of(raw): raw for raw in self._lists.every(resource, path, view=trimmed)}
            except WontWork as error:
                self._found[resource] = str(error)
        objects = self._found[resource]
        if isinstance(objects, str):
            raise UnreadyError(objects)
        return objects.get(f"{namespace}/{name}")


def selected(spec: Json, pods: Iterable[SeenPod]) -> list[SeenPod]:
    """Those of *pods* that the selector in a scalable's *spec* selects; an empty one selects none here."""
    selector = section(spec, "selector")
    expressions = [requirement_from(e) for e in entries(selector, "matchExpressions")]
    equal = words(selector, "matchLabels")
    if not expressions and not equal:
        equal = {k: v for k, v in words(spec, "selector").items() if k not in ("matchLabels", "matchExpressions")}
    if not (equal or expressions):
        return []
    alike = [p for p in pods if equal.items() <= p.labels.items()]
    return [p for p in alike if all(meets(p.labels, e) for e in expressions)]


def condition(kind: str, reason: str, message: str, *, status: str = "True", **extra: object) -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, **extra}


def thousandths(quantities: Json) -> dict[str, int]:
    """Return *quantities* in thousandths of their unit, rounded up."""
    amounts = {name: bounded(value, MOST_BYTES) * 1000 for name, value in quantities.items()}
    return {name: int(n.to_integral_value(ROUND_CEILING)) for name, n in amounts.items()}


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def replicas_of(spec: Json, chunk: Chunk) -> int:
    """Return how many chunks a buffer of *spec* wants: the larger of replicas and percentage, as far as its limits go.
    Raises UnreadyError."""
    wanted: list[int] = []
    if (replicas := _whole(spec.get("replicas"))) is not None:
        wanted.append(max(0, replicas))
    if (percentage := _whole(spec.get("percentage"))) is not None and chunk.pods is not None:
        wanted.append(-(-max(0, percentage) * max(0, chunk.pods) // 100))
    prefix = "couldn't get number of replicas for buffer: "
    if spec.get("limits") is not None:
        limits, requests = thousandths(section(spec, "limits")), chunk.requests()
        fitting = [limits[name] // n for name, n in requests.items() if name in limits]
        if not fitting:
            raise UnreadyError(f"{prefix}resources in configured limits not found in the pod template")
        return min(max(wanted, default=fitting[0]), *fitting)
    if not wanted:
        raise UnreadyError(f"{prefix}replicas, percentage and limits are not defined")
    return max(wanted)


def limited(ready: Iterable[Translated], quotas: Sequence[Json]) -> list[Translated]:
    """Return *ready* with what the ResourceQuotas of their namespaces leave, and the condition LimitedByQuotas. Of two
    buffers the older one uses a quota up first."""
    taken = Counter[tuple[str, str]]()  # of each quota and resource, by the buffers before
    return [_limited(t, quotas, taken) for t in ready]


def _limited(one: Translated, quotas: Sequence[Json], taken: Counter[tuple[str, str]]) -> Translated:
    assert one.chunk is not None
    requests = one.chunk.requests()
    requests |= {f"requests.{name}": n for name, n in requests.items()}
    namespace, replicas = one.request.key.partition("/")[0], one.status["replicas"]
    mine = {key_of(q): q for q in quotas if section(q, "metadata").get("namespace") == namespace}
    rooms: dict[str, int] = {}
    for key, quota in mine.items():
        hard, used = (thousandths(section(section(quota, "status"), name)) for name in ("hard", "used"))
        if _covers(section(quota, "spec"), one.chunk):
            free = {name: n - used.get(name, 0) - taken[key, name] for name, n in hard.items() if name in requests}
            rooms[key] = min((max(0, n) // requests[name] for name, n in free.items()), default=replicas)
    allowed = min([replicas, *rooms.values()])
    for key in rooms:
        taken.update({(key, name): allowed * n for name, n in requests.items()})
    full = ", ".join(sorted(key.partition("/")[2] for key, room in rooms.items() if room < replicas))
    generation = section(one.raw, "metadata").get("generation")
    limit_condition = condition(
        LIMITED,
        "ResourceQuotasAllocated",
        f"Buffer replicas limited from {replicas} to {allowed} due to quotas: {full}" if full else "",
        status="True" if full else "False",
        **({"observedGeneration": generation} if generation else {}),
    )
    status = {**one.status, "replicas": allowed, "conditions": [*one.status["conditions"], limit_condition]}
    return replace(one, status=status, request=replace(one.request, copies=min(allowed, one.request.copies)))


def _covers(spec: Json, chunk: Chunk) -> bool:
    """True when a quota of *spec* counts pods like *chunk*."""
    scopes = spec.get("scopes") if isinstance(spec.get("scopes"), list) else []
    selectors = [{"scopeName": scope, "operator": "Exists"} for scope in scopes or ()]
    selectors += [dict(e) for e in entries(section(spec, "scopeSelector"), "matchExpressions")]
    priority = text(section(chunk.template, "spec"), "priorityClassName")
    best_effort = not chunk.requests().keys() & {CPU, MEMORY}
    covered = {"NotTerminating": True, "BestEffort": best_effort, "NotBestEffort": not best_effort}
    for scope in selectors:
        name = text(scope, "scopeName")
        if name == "PriorityClass":
            wanted = requirement_from({**scope, "key": name})
            if not meets({name: priority} if priority else {}, wanted):
                return False
        elif not covered.get(name, False):
            return False
    return True
