"""What ``kubectl get jobs,pods -A -o json`` wrote, as the GPU pods that ran.

A pod says when it held its GPUs; a Job (or a training job of Kubeflow) counts only if none of its pods are left,
and then for less exact times.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from receiver.adapters.http.sessions import moment
from receiver.adapters.kubernetes.api import Json, condition, entries, key_of, section, text, words
from receiver.adapters.kubernetes.nodes import NotUnderstoodError
from receiver.adapters.kubernetes.pods import SeenPod, latest, whole
from receiver.core.model.devices import CLAIMS
from receiver.core.model.shares import is_share
from receiver.ports import Past, PastPod, Trouble, TryLater

TEMPLATES = {"PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}
EXPORT = "kubectl get jobs,pods -A -o json"  # lists of the API server itself leave out the kinds
AGAIN = "export it again; do not edit it"
FEWER_PODS = "Jobs have fewer pods in the export than they ran: what those held is missing"
NO_PODS = "Jobs have no pods in the export: their time includes what they waited for a node"


def read_export(path: Path, made_at: datetime | None = None) -> Past:
    """Return the GPU pods in the file at *path*, seen until *made_at*, or until it was last written. Raises OSError.
    A file that is not JSON is then the only trouble reported."""
    reading = _Export()
    try:
        for number, raw in enumerate(items(path), start=1):
            reading.take(number, raw)
    except json.JSONDecodeError as error:
        problem, remedy = f"invalid JSON ({error.msg})", "export it again with -o json, until its end"
        reading.wrong(f"line {error.lineno}", "text", problem, remedy)
    except RecursionError:
        reading.wrong("file", "text", "it is nested too deeply", AGAIN)
    except UnicodeDecodeError as error:
        problem = f"byte 0x{error.object[error.start]:02x} is not UTF-8"
        reading.wrong("file", "text", problem, "save the file as UTF-8 (iconv -f latin1 -t utf-8)")
    return reading.past(made_at or datetime.fromtimestamp(path.stat().st_mtime, UTC))


def items(path: Path) -> Iterator[Any]:
    """Yield the ``items`` of the JSON objects in a file, and objects without such a list themselves. Several objects
    may follow each other, as several exports do. Raises JSONDecodeError, RecursionError, UnicodeDecodeError,
    OSError."""
    text, at = path.read_text(encoding="utf-8-sig").rstrip(), 0
    while at < len(text):
        at = next(i for i in range(at, len(text)) if not text[i].isspace())
        document, at = json.JSONDecoder().raw_decode(text, at)
        listed = document.get("items") if isinstance(document, dict) else document
        yield from listed if isinstance(listed, list) else [document]


class _Export:
    def __init__(self) -> None:
        self._pods: list[PastPod] = []
        self._owned: Counter[str] = Counter()  # pods by the uid of their controller
        self._jobs: list[Json] = []
        self._above: dict[str, str] = {}  # controllers of Jobs, by the Job's uid
        self._seen: dict[str, int] = {}
        self._latest: datetime | None = None
        self._troubles: list[Trouble] = []
        self._uncounted: Counter[str] = Counter()
        self._notes: Counter[str] = Counter()  # how many Jobs a note is about

    def wrong(self, where: str, name: str, problem: str, remedy: str) -> None:
        """Note that field *name* at *where* cannot be taken."""
        self._troubles.append(Trouble(where=where, field=name, problem=problem, remedy=remedy))

    def take(self, number: int, raw: object) -> None:
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
        self._seen[uid] = number
        if not self._times_are_fine(where, raw):
            return
        if kind == "Pod":
            self._pod(where, SeenPod(raw))
        else:
            self._above[uid] = SeenPod(raw).controller
            own_metadata = {k: v for k, v in metadata.items() if k not in ("managedFields", "annotations")}
            self._jobs.append({**raw, "metadata": own_metadata})

    def past(self, made_at: datetime) -> Past:
        """Return what was taken until *made_at*, or until the latest moment in it where that is later."""
        for raw in self._jobs:
            self._job(raw)
        pods = [replace(p, above=self._above.get(p.pod.owner_uid, "")) for p in self._pods]
        until = max(made_at, self._latest) if self._latest is not None else made_at
        notes = [f"{number} {note}" for note, number in self._notes.items()]
        if any(p.held_from is not None and p.held_until is None for p in pods):
            notes.append(
                f"the export counts as made at {until:%Y-%m-%d %H:%M:%S} UTC (`until` in the file of --timing)"
            )
        return Past(
            pods=pods, until=until, troubles=tuple(self._troubles), uncounted=dict(self._uncounted), notes=tuple(notes)
        )

    def _times_are_fine(self, where: str, raw: Json) -> bool:
        metadata, status = section(raw, "metadata"), section(raw, "status")
        times = {"creationTimestamp": metadata.get("creationTimestamp")}
        times |= {name: status[name] for name in ("startTime", "completionTime") if status.get(name) is not None}
        wrong = {name: raw_time for name, raw_time in times.items() if moment(raw_time) is None}
        for name, raw_time in wrong.items():
            self.wrong(where, name, f"{raw_time!r} is no time such as 2026-03-02T09:00:00Z", AGAIN)
        if wrong:
            return False
        last = latest(times.values())
        self._latest = max(filter(None, (self._latest, last)))
        return True

    def _pod(self, where: str, seen: SeenPod) -> None:
        self._owned[seen.controller_uid] += 1
        try:
            pod = seen.gpu_pod
        except TryLater as error:
            self._not_understood(where, error)
            return
        if pod is None:
            self._uncounted["pods without a GPU"] += 1
        elif CLAIMS in pod.requests:
            self._claims(where)
        elif any(map(is_share, pod.requests)):
            problem = f"it shares GPUs ({', '.join(pod.requests)}), which a trace cannot say"
            self.wrong(where, "resources", problem, "leave it out with `skip_bad: true` in the file of --timing")
        else:
            # From the moment the kubelet accepted the pod on, its GPUs are taken.
            start = moment(seen.status.get("startTime")) if seen.node else None
            self._pods.append(PastPod(pod=pod, held_from=start, held_until=_held_until(seen)))

    def _job(self, raw: Json) -> None:
        """Take a job by itself where the export has no pod of it."""
        uid, kind = text(section(raw, "metadata"), "uid"), str(raw["kind"])
        ran = sum(whole(section(raw, "status").get(name)) or 0 for name in ("succeeded", "failed", "active"))
        if self._owned[uid]:
            if ran > self._owned[uid]:
                self._notes[FEWER_PODS] += 1
            return
        try:
            pods = [p for p in _stand_ins(raw) if p is not None]
        except TryLater as error:
            self._not_understood(f"{kind} {key_of(raw)}", error)
            return
        templates = _templates(kind, section(raw, "spec"))
        if (
            not pods
            and section(raw, "status").get("startTime")
            and any(SeenPod(t).resource_claims for *_, t in templates)
        ):
            self._claims(f"{kind} {key_of(raw)}")
        elif not pods:
            self._uncounted["Jobs without a GPU"] += 1
        elif all(p.held_from is None for p in pods):
            self._uncounted["Jobs that never started"] += 1
        else:
            self._notes[NO_PODS] += 1
            self._pods.extend(pods)

    def _claims(self, where: str) -> None:
        problem = "its devices are claimed by Dynamic Resource Allocation, so nothing says how many"
        self.wrong(where, "resourceClaims", problem, "leave it out with `skip_bad: true` in the file of --timing")

    def _not_understood(self, where: str, error: TryLater) -> None:
        self.wrong(where, "resources", error.what if isinstance(error, NotUnderstoodError) else str(error), AGAIN)


def _held_until(seen: SeenPod) -> datetime | None:
    """Return when the last container ended, None while one runs; of an evicted pod, its last change."""
    if not seen.terminated:
        return None
    changed = [c.get("lastTransitionTime") for c in entries(seen.status, "conditions")]
    ends = latest(seen.container_times("terminated", "finishedAt"))
    return ends or latest(changed) or moment(seen.status.get("startTime"))


def _stand_ins(raw: Json) -> Iterator[PastPod | None]:
    """Yield the pods that a job must have had, from its template and its own times; None for one without GPUs."""
    metadata, status = section(raw, "metadata"), section(raw, "status")
    # Only a complete Job has a completionTime (Job v1 batch).
    failed = condition(status, "Failed", "Succeeded").get("lastTransitionTime")
    start, ended = moment(status.get("startTime")), moment(status.get("completionTime")) or moment(failed)
    owner = {"controller": True, "kind": raw["kind"], "name": metadata.get("name"), "uid": metadata.get("uid")}
    for name, count, template in _templates(str(raw["kind"]), section(raw, "spec")):
        own = section(template, "metadata")
        inherited = {
            **own,
            "labels": {**words(metadata, "labels"), **words(own, "labels")},
            "namespace": metadata.get("namespace"),
            "creationTimestamp": metadata.get("creationTimestamp"),
            "ownerReferences": [owner],
        }
        spec = section(template, "spec")
        for index in range(count if SeenPod({"spec": spec}).gpus else 1):
            named = {**inherited, "name": f"{metadata.get('name')}-{name}{index}"}
            pod = SeenPod({"metadata": named, "spec": spec}).gpu_pod
            yield None if pod is None else PastPod(pod=pod, held_from=start, held_until=ended)


def _templates(kind: str, spec: Json) -> Iterable[tuple[str, int, Json]]:
    if kind == "Job":
        at_once = whole(spec.get("parallelism", 1)) or 1
        wanted = whole(spec.get("completions")) or at_once
        yield "", min(at_once, wanted), section(spec, "template")
        return
    for role, replicas in section(spec, TEMPLATES[kind]).items():
        if isinstance(replicas, dict):
            yield f"{role.lower()}-", whole(replicas.get("replicas", 1)) or 1, section(replicas, "template")
