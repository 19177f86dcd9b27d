"""The files of k8s/ and what they make: every object, every pod that would come of them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.lint import load_yamls

JSON = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
K8S = ROOT / "k8s"
WORKLOADS = K8S / "workloads"
CONFIGURATION = WORKLOADS / "gpu-autoscaler.yaml"
CREATED = "2026-11-20T10:00:00Z"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
# What a controller's objects say about the template of the pods that it makes.
WITH_TEMPLATE = frozenset({"Deployment", "StatefulSet", "DaemonSet", "Job"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """One object of Kubernetes in a file of ours."""

    file: Path
    body: JSON

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """``file kind/name``, for messages."""
        return f"{self.file.relative_to(K8S)} {self.kind}/{self.body['metadata']['name']}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMade:
    """A pod as a controller would make it, waiting; *of* is the object that it comes from."""

    of: Object
    raw: JSON


@cache
def objects(folder: Path = WORKLOADS) -> tuple[Object, ...]:
    """Return every object below *folder*: documents with kind and name. They are shared: change copies."""
    found = []
    for file in sorted(set(folder.rglob("*.yaml")) - set((K8S / "chart" / "templates").rglob("*"))):
        for body in load_yamls(file.read_text(encoding="utf-8")):
            if isinstance(body, dict) and {"apiVersion", "kind", "metadata"} <= set(body):
                found.append(Object(file=file, body=body))
    assert found, folder
    return tuple(found)


def of_kind(*kinds: str) -> list[Object]:
    """Return the objects of k8s/workloads with one of *kinds*."""
    return [o for o in objects() if o.kind in kinds]


def pods() -> list[PodMade]:
    """Return one pod of each template in k8s/workloads, as it waits for a node."""
    return [PodMade(of=o, raw=pod_of(o, template)) for o in objects() for template in _templates(o)]


def pod_of(source: Object, template: JSON) -> JSON:
    """Return the pod that *source* makes of *template*, left out by the scheduler."""
    metadata = json.loads(json.dumps(template["metadata"]))
    name = source.body["metadata"]["name"]
    metadata.update(name=f"{name}-0", uid=f"uid-{name}", creationTimestamp=CREATED)
    metadata["namespace"] = source.body["metadata"].get("namespace", "default")
    if source.kind != "Pod":
        owner = {"apiVersion": source.body["apiVersion"], "kind": source.kind, "name": name, "controller": True}
        metadata["ownerReferences"] = [{**owner, "uid": "u"}]
    spec = json.loads(json.dumps(template["spec"]))
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]}}


def _templates(source: Object) -> Iterator[JSON]:
    spec = source.body.get("spec", {})
    if source.kind == "Pod":
        yield source.body
    elif source.kind == "CronJob":
        yield spec["jobTemplate"]["spec"]["template"]
    elif source.kind in WITH_TEMPLATE and "tasks" in spec:  # Volcano's
        yield from (task["template"] for task in spec["tasks"])
    elif source.kind in WITH_TEMPLATE:
        yield spec["template"]
