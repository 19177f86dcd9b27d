"""What ``kubectl get jobs,pods -A -o json`` wrote, as the GPU pods that ran.

A pod says when it held its GPUs; a Job (or a training job of Kubeflow) is only asked where none of its pods are left,
and then for less exact times.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from receiver.adapters.http.json_items import NoJson, items
from receiver.adapters.http.sessions import moment
from receiver.adapters.kubernetes.api import entries, key_of, section
from receiver.adapters.kubernetes.gangs import whole
from receiver.adapters.kubernetes.nodes import words
from receiver.adapters.kubernetes.pods import (
    CLAIMS,
    controller_of,
    controller_uid,
    gpu_pod_from,
    gpu_requests,
    terminated,
)
from receiver.ports import TryLater
from receiver.ports.past import Past, PastPod, Trouble

NO_GPU = {"Pod": "pods without a GPU", "Job": "Jobs without a GPU"}
NEVER = "Jobs that never started"
TEMPLATES = {"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}
EXPORT = "kubectl get jobs,pods -A -o json"  # lists of the API server itself leave out the kinds
AGAIN = "export it again; do not edit it"


def read_export(path: Path, made_at: datetime | None = None) -> Past:
    """Return the GPU pods in the file at *path*, seen until *made_at*, or until it was last written. Raises OSError.

    What is no JSON at all is the one trouble that is told then.
    """
    reading = _Export()
    try:
        for number, raw in enumerate(items(path), start=1):
            reading.take(number, raw)
    except NoJson as error:
        reading.wrong(f"line {error.line}", "text", error.problem, "export it again with -o json, until its end")
    except UnicodeDecodeError as error:
        problem = f"byte 0x{error.object[error.start]:02x} is not UTF-8"
        reading.wrong("file", "text", problem, "save the file as UTF-8 (iconv -f latin1 -t utf-8)")
    return reading.past(made_at or datetime.fromtimestamp(path.stat().st_mtime, UTC))


class _Export:
    """An export under reading."""

    def __init__(self) -> None:
        self._pods: list[PastPod] = []
        self._owned: Counter[str] = Counter()  # pods by the uid of their controller
        self._jobs: list[Mapping[str, Any]] = []
        self._above: dict[str, str] = {}  # controllers of Jobs, by the Job's uid
        self._seen: dict[str, str] = {}
        self._latest: datetime | None = None
        self._troubles: list[Trouble] = []
        self._uncounted: Counter[str] = Counter()
        self._notes: list[str] = []

    def wrong(self, where: str, name: str, problem: str, remedy: str) -> None:
        """Note that field *name* at *where* cannot be taken."""
        self._troubles.append(Trouble(where=where, field=name, problem=problem, remedy=remedy))

    def take(self, number: int, raw: Any) -> None:
        """Take the object that is the *number*-th in the export."""
        kind = raw.get("kind") if isinstance(raw, dict) else None
        if not isinstance(raw, dict) or not isinstance(kind, str):
            self.wrong(f"item {number}", "kind", "it is no object of Kubernetes with a kind", f"export with {EXPORT}")
            return
        if kind not in ("Pod", "Job", *TEMPLATES):
            self._uncounted[f"objects that are neither jobs nor pods ({kind})"] += 1
            return
        metadata = section(raw, "metadata")
        where = f"{kind} {key_of(raw)}"
        if not metadata.get("name") or not metadata.get("namespace"):
            self.wrong(f"item {number}", "metadata", f"the {kind} has no name or no namespace", AGAIN)
            return
        uid = str(metadata.get("uid") or where)
        if uid in self._seen:
            self.wrong(where, "uid", f"it is there twice, first as item {self._seen[uid]}", "export it only once")
            return
        self._seen[uid] = str(number)
        if not self._times_are_fine(where, raw):
            return
        try:
            if kind == "Pod":
                self._pod(where, raw)
            else:
                self._above[uid] = controller_of(metadata)
                self._jobs.append(_slim(raw))
        except TryLater as error:
            self.wrong(where, "resources", str(error).partition(": ")[2] or str(error), AGAIN)

    def past(self, made_at: datetime) -> Past:
        """Return what was taken until *made_at*, or until the latest moment in it where that is later."""
        for raw in self._jobs:
            self._job(raw)
        pods = [
            PastPod(
                pod=p.pod, held_from=p.held_from, held_until=p.held_until, above=self._above.get(p.pod.owner_uid, "")
            )
            for p in self._pods
        ]
        running = any(p.held_from is not None and p.held_until is None for p in pods)
        until = max(made_at, self._latest) if self._latest is not None else made_at
        if running:
            self._notes.append(f"the export counts as made at {until:%Y-%m-%d %H:%M:%S} UTC (--until)")
        return Past(
            pods=pods,
            until=until,
            troubles=tuple(self._troubles),
            uncounted=dict(self._uncounted),
            notes=tuple(self._notes),
        )

    def _times_are_fine(self, where: str, raw: Mapping[str, Any]) -> bool:
        """Tell which times are none; without any the latest moment of the export moves on."""
        metadata, status = section(raw, "metadata"), section(raw, "status")
        given = {"creationTimestamp": metadata.get("creationTimestamp")}
        given |= {name: status[name] for name in ("startTime", "completionTime") if status.get(name) is not None}
        known = {name: moment(text) for name, text in given.items()}
        for name, at in known.items():
            if at is None:
                self.wrong(where, name, f"{given[name]!r} is no time such as 2026-03-02T09:00:00Z", AGAIN)
        told = [at for at in known.values() if at is not None]
        if len(told) < len(known):
            return False
        self._latest = max([*told, *([self._latest] if self._latest else [])])
        return True

    def _pod(self, where: str, raw: Mapping[str, Any]) -> None:
        self._owned[controller_uid(section(raw, "metadata"))] += 1
        pod = gpu_pod_from(raw)
        if pod is None:
            self._uncounted[NO_GPU["Pod"]] += 1
            return
        if CLAIMS in pod.requests:
            problem = "its devices are claimed by Dynamic Resource Allocation, so nothing says how many"
            self.wrong(where, "resourceClaims", problem, "leave it out with --skip-bad")
            return
        self._pods.append(PastPod(pod=pod, held_from=_held_from(raw), held_until=_held_until(raw)))

    def _job(self, raw: Mapping[str, Any]) -> None:
        """Take a job by itself where the export has no pod of it."""
        where = f"{raw['kind']} {key_of(raw)}"
        uid = str(section(raw, "metadata").get("uid") or "")
        ran = sum(whole(section(raw, "status").get(name)) or 0 for name in ("succeeded", "failed", "active"))
        if self._owned[uid]:
            if ran > self._owned[uid]:
                self._note_once("Jobs have fewer pods in the export than they ran: what those held is missing")
            return
        try:
            pods = [p for p in _stand_ins(raw) if p is not None]
        except TryLater as error:
            self.wrong(where, "resources", str(error).partition(": ")[2] or str(error), AGAIN)
            return
        if not pods:
            self._uncounted[NO_GPU["Job"]] += 1
        elif all(p.held_from is None for p in pods):
            self._uncounted[NEVER] += 1
        else:
            self._note_once("Jobs have no pods in the export: their time includes what they waited for a node")
            self._pods.extend(pods)

    def _note_once(self, text: str) -> None:
        """Note *text* with how often it was noted."""
        for i, note in enumerate(self._notes):
            number, _, rest = note.partition(" ")
            if rest == text:
                self._notes[i] = f"{int(number) + 1} {rest}"
                return
        self._notes.append(f"1 {text}")


def _slim(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a job without what a large export is mostly made of."""
    metadata = {k: v for k, v in section(raw, "metadata").items() if k not in ("managedFields", "annotations")}
    return {**raw, "metadata": metadata}


def _held_from(raw: Mapping[str, Any]) -> datetime | None:
    """Return when the kubelet accepted the pod; from then on its GPUs are taken."""
    if not section(raw, "spec").get("nodeName"):
        return None
    return moment(section(raw, "status").get("startTime"))


def _held_until(raw: Mapping[str, Any]) -> datetime | None:
    """Return when the last container ended, None while one runs; of an evicted pod, its last change."""
    if not terminated(raw):
        return None
    status = section(raw, "status")
    ends = [
        moment(section(section(container, "state"), "terminated").get("finishedAt"))
        for container in entries(status, "containerStatuses")
    ]
    told = [at for at in ends if at is not None]
    if told:
        return max(told)
    changed = [moment(c.get("lastTransitionTime")) for c in entries(status, "conditions")]
    return max((at for at in changed if at is not None), default=moment(status.get("startTime")))


def _stand_ins(raw: Mapping[str, Any]) -> Iterator[PastPod | None]:
    """Yield the pods that a job must have had, from its template and its own times; None for one without GPUs."""
    spec, status = section(raw, "spec"), section(raw, "status")
    begun = moment(status.get("startTime"))
    ended = moment(status.get("completionTime")) or _failed_at(entries(status, "conditions"))
    metadata = section(raw, "metadata")
    for name, count, template in _templates(str(raw["kind"]), spec):
        own = section(template, "metadata")
        for index in range(count if gpu_requests(section(template, "spec")) else 1):
            pod = gpu_pod_from(
                {
                    "metadata": {
                        **own,
                        "labels": {**words(metadata, "labels"), **words(own, "labels")},
                        "namespace": metadata.get("namespace"),
                        "name": f"{metadata.get('name')}-{name}{index}",
                        "creationTimestamp": metadata.get("creationTimestamp"),
                        "ownerReferences": [
                            {
                                "controller": True,
                                "kind": raw["kind"],
                                "name": metadata.get("name"),
                                "uid": metadata.get("uid"),
                            }
                        ],
                    },
                    "spec": section(template, "spec"),
                }
            )
            yield None if pod is None else PastPod(pod=pod, held_from=begun, held_until=ended)


def _templates(kind: str, spec: Mapping[str, Any]) -> Iterable[tuple[str, int, Mapping[str, Any]]]:
    """Yield what a job runs: a part of the pods' names, how many at once, and their template."""
    if kind == "Job":
        at_once = whole(spec.get("parallelism", 1)) or 1
        wanted = whole(spec.get("completions")) or at_once
        yield "", min(at_once, wanted), section(spec, "template")
        return
    for role, replicas in section(spec, TEMPLATES[kind]).items():
        if isinstance(replicas, dict):
            yield f"{role.lower()}-", whole(replicas.get("replicas", 1)) or 1, section(replicas, "template")


def _failed_at(conditions: Sequence[Mapping[str, Any]]) -> datetime | None:
    """Return when a job failed; only a complete one has a completionTime (Job v1 batch)."""
    over = (c for c in conditions if c.get("type") in ("Failed", "Succeeded") and c.get("status") == "True")
    return next((moment(c.get("lastTransitionTime")) for c in over), None)
