"""Objects as `kubectl get -o json` writes them, small."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from receiver.cli.replay_run import trace_from_file
from receiver.replay.traces.trace import Trace, TraceReading

JSON = dict[str, Any]
WRITTEN = datetime(2026, 3, 2, 18, tzinfo=UTC)


def owned_by(kind: str, name: str, uid: str = "") -> JSON:
    """An ownerReference to a controller."""
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid or f"u-{name}", "controller": True}


def a_pod(name: str = "train-0", gpus: int = 8, owner: JSON | None = None, **changes: Any) -> JSON:
    """A pod of namespace ml: created 9:00, taken by its node 9:05, ended 10:05 on 2 March 2026.

    *changes* go by path (``status__phase``).
    """
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    pod: JSON = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"u-{name}",
            "creationTimestamp": "2026-03-02T09:00:00Z",
            "labels": {"team": "vision"},
            "ownerReferences": [owner] if owner else [],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": resources}]},
        "status": {
            "phase": "Succeeded",
            "startTime": "2026-03-02T09:05:00Z",
            "containerStatuses": [ended("2026-03-02T10:05:00Z")],
        },
    }
    return changed(pod, changes)


def ended(at: str) -> JSON:
    """The status of a container that ended."""
    return {"state": {"terminated": {"finishedAt": at}}}


def a_job(name: str = "train", gpus: int = 8, **changes: Any) -> JSON:
    """A complete Job of one pod: created 9:00, started 9:00, complete 10:05."""
    job: JSON = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"u-{name}",
            "creationTimestamp": "2026-03-02T09:00:00Z",
            "labels": {"team": "vision"},
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}]}},
        },
        "status": {
            "startTime": "2026-03-02T09:00:00Z",
            "completionTime": "2026-03-02T10:05:00Z",
            "succeeded": 1,
        },
    }
    return changed(job, changes)


def changed(thing: JSON, changes: JSON) -> JSON:
    """Set values by path; None takes one out."""
    for path, value in changes.items():
        *way, last = path.split("__")
        inner = thing
        for key in way:
            inner = inner.setdefault(key, {})
        if value is None:
            inner.pop(last, None)
        else:
            inner[last] = value
    return thing


def exported(folder: Path, *items: JSON, **reading: Any) -> Trace:
    """The trace of a list of *items*, whose file was written at WRITTEN."""
    file = folder / "export.json"
    file.write_text(json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}, indent=2), encoding="utf-8")
    os.utime(file, (WRITTEN.timestamp(), WRITTEN.timestamp()))
    return trace_from_file(file, TraceReading(**reading))
