"""Deployments, ReplicaSets, StatefulSets and Jobs as the world's pods imply them: read, and scaled to zero.

An owner is there while it has pods, and after it was scaled to zero. The world cannot bring pods back, so scaling up
is refused. A ReplicaSet whose pods carry ``pod-template-hash`` belongs to the Deployment that its name begins with.
"""

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, request

from receiver.replay.world.objects import Denied, WorldPod
from simulator.kubernetes_objects import stamp, uid_of
from simulator.kubernetes_rights import need
from simulator.kubernetes_writes import patch_of
from simulator.live import Live
from simulator.world import World

JSON = dict[str, Any]
HASH_LABEL = "pod-template-hash"
APPS: Mapping[str, str] = {"deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet"}


def add_owners(face: Blueprint, live: Live) -> None:
    """Add reading and scaling of owners to *face*."""
    scaled: set[tuple[str, str]] = set()  # Deployments at zero, by namespace and name: their ReplicaSets have no pods
    for plural, kind in APPS.items():
        _add_scalable(face, live, plural, kind, scaled)
    _add_jobs(face, live)


def _add_scalable(face: Blueprint, live: Live, plural: str, kind: str, scaled: set[tuple[str, str]]) -> None:
    path = f"/apis/apps/v1/namespaces/<namespace>/{plural}/<name>"

    def show(namespace: str, name: str) -> JSON:
        need(live, "get", plural)
        with live.moved() as world:
            return _object(world, live, kind, namespace, name, scaled)

    def scale(namespace: str, name: str) -> JSON:
        need(live, "patch", f"{plural}/scale")
        with live.moved() as world:
            before = _scale(_object(world, live, kind, namespace, name, scaled))
            have = before["spec"].get("replicas", 0)
            wanted = (patch_of(before).get("spec") or {}).get("replicas") or 0
            if wanted not in (0, have):
                raise Denied("Invalid", 422, "spec.replicas: the simulator scales to zero only")
            if have and not wanted and "All" not in request.args.getlist("dryRun"):
                _to_zero(world, kind, namespace, name, scaled)
            return _scale(_object(world, live, kind, namespace, name, scaled))

    face.add_url_rule(path, f"get_{kind}", show, methods=["GET"])
    face.add_url_rule(f"{path}/scale", f"scale_{kind}", scale, methods=["PATCH"])


def _add_jobs(face: Blueprint, live: Live) -> None:
    @face.get("/apis/batch/v1/namespaces/<namespace>/jobs/<name>")
    def get_job(namespace: str, name: str) -> JSON:
        need(live, "get", "jobs")
        with live.moved() as world:
            return _job(world, live, namespace, name)

    @face.patch("/apis/batch/v1/namespaces/<namespace>/jobs/<name>")
    def patch_job(namespace: str, name: str) -> JSON:
        need(live, "patch", "jobs")
        with live.moved() as world:
            before = _job(world, live, namespace, name)
            after = patch_of(before)
            suspend = bool((after.get("spec") or {}).get("suspend"))
            if before["spec"]["suspend"] and not suspend:
                raise Denied("Invalid", 422, "spec.suspend: the simulator does not resume a Job")
            if suspend and "All" not in request.args.getlist("dryRun"):
                world.scale_to_zero("Job", namespace, name)
            return _job(world, live, namespace, name)


def _to_zero(world: World, kind: str, namespace: str, name: str, scaled: set[tuple[str, str]]) -> None:
    if kind != "Deployment":
        world.scale_to_zero(kind, namespace, name)
        return
    scaled.add((namespace, name))
    for owner in {p.owner_name for p in _pods(world, "Deployment", namespace, name)}:
        world.scale_to_zero("ReplicaSet", namespace, owner)


def _pods(world: World, kind: str, namespace: str, name: str) -> list[WorldPod]:
    """The pods of an owner, finished ones included."""

    def owned(pod: WorldPod) -> bool:
        if kind == "Deployment":
            return deployment_of(pod) == name
        return (pod.owner_kind, pod.owner_name) == (kind, name)

    return [p for p in world.pods.values() if p.namespace == namespace and owned(p)]


def deployment_of(pod: WorldPod) -> str | None:
    """Return the Deployment of a ReplicaSet's pod, None without one."""
    ending = f"-{pod.labels.get(HASH_LABEL, '')}"
    if pod.owner_kind != "ReplicaSet" or len(ending) == 1 or not pod.owner_name.endswith(ending):
        return None
    return pod.owner_name.removesuffix(ending)


def _metadata(live: Live, kind: str, namespace: str, name: str, pods: list[WorldPod], above: str | None) -> JSON:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": above,
        "uid": uid_of(namespace, "Deployment", above or ""),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "name": name,
        "namespace": namespace,
        "uid": uid_of(namespace, kind, name),
        "resourceVersion": str(max((p.version for p in pods), default=0)),
        "creationTimestamp": stamp(min((p.created_at for p in pods), default=live.started_at)),
        **({"ownerReferences": [owner]} if above else {}),
    }


def _object(world: World, live: Live, kind: str, namespace: str, name: str, scaled: set[tuple[str, str]]) -> JSON:
    pods = _pods(world, kind, namespace, name)
    zero = (namespace, name) in scaled if kind == "Deployment" else world.at_zero(kind, namespace, name)
    if not pods and not zero:
        raise Denied("NotFound", 404, f'{kind.lower()}s.apps "{name}" not found')
    count = sum(1 for p in pods if not p.over and p.deletion_at is None)
    above = next((d for p in pods if kind == "ReplicaSet" and (d := deployment_of(p))), None)
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": _metadata(live, kind, namespace, name, pods, above),
        "spec": {"replicas": count, "selector": {}, "template": {}},
        "status": {"replicas": count},
    }


def _scale(owner: JSON) -> JSON:
    """The Scale of *owner*. Go leaves out a zero."""
    count = owner["spec"]["replicas"]
    metadata = {k: v for k, v in owner["metadata"].items() if k != "ownerReferences"}
    spec = {"replicas": count} if count else {}
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": metadata,
        "spec": spec,
        "status": {"replicas": count},
    }


def _job(world: World, live: Live, namespace: str, name: str) -> JSON:
    pods = _pods(world, "Job", namespace, name)
    suspended = world.at_zero("Job", namespace, name)
    if not pods and not suspended:
        raise Denied("NotFound", 404, f'jobs.batch "{name}" not found')
    active = sum(1 for p in pods if not p.over and p.deletion_at is None)
    done = [p for p in pods if p.phase == "Succeeded"]
    finished = bool(pods) and len(done) == len(pods)
    status: JSON = {"active": active, "succeeded": len(done)}
    if finished:
        status["conditions"] = [{"type": "Complete", "status": "True"}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(live, "Job", namespace, name, pods, None),
        "spec": {"suspend": suspended, "template": {}},
        "status": status,
    }
