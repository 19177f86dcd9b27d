"""What people create through the Kubernetes API beside pods: namespaces, budgets, Deployments and Jobs.

A Deployment or Job is the pods that it implies, as `simulator.kubernetes_owners` reads it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from flask import Blueprint, request

from receiver.replay.world.objects import Denied, PodSpec, WorldPod
from simulator.kubernetes_objects import list_json, status_json
from simulator.kubernetes_owners import HASH_LABEL, deployment_of
from simulator.kubernetes_rights import need
from simulator.kubernetes_selectors import selector
from simulator.kubernetes_writes import body_of
from simulator.live import Live
from simulator.manifests import pod_spec
from simulator.world import Pdb, World

JSON = dict[str, Any]
HASH = "5d4f8c7b9"
BUDGETS = "/apis/policy/v1/namespaces/<namespace>/poddisruptionbudgets"


def add_created(face: Blueprint, live: Live) -> None:
    """Add the routes to *face*."""
    _add_namespaces(face, live)
    _add_budgets(face, live)
    _add_owner(face, live, "/apis/apps/v1/namespaces/<namespace>/deployments", "Deployment")
    _add_owner(face, live, "/apis/batch/v1/namespaces/<namespace>/jobs", "Job")


def _name(given: Mapping[str, Any]) -> str:
    name = (given.get("metadata") or {}).get("name")
    if not name:
        raise Denied("Invalid", 422, "metadata.name: Required value: name or generateName is required")
    return str(name)


def _add_namespaces(face: Blueprint, live: Live) -> None:
    def found(name: str) -> JSON:
        namespace = live.custom.find("", "namespaces", name)
        if namespace is None:
            raise Denied("NotFound", 404, f'namespaces "{name}" not found')
        return namespace

    @face.post("/api/v1/namespaces")
    def create_namespace() -> tuple[JSON, int]:
        need(live, "create", "namespaces")
        given = body_of()
        with live.moved() as world:
            if live.custom.find("", "namespaces", _name(given)) is not None:
                raise Denied("AlreadyExists", 409, f'namespaces "{_name(given)}" already exists')
            live.custom.put([{"apiVersion": "v1", "kind": "Namespace", **given}], world.now)
            return found(_name(given)), 201

    @face.get("/api/v1/namespaces/<name>")
    def get_namespace(name: str) -> JSON:
        need(live, "get", "namespaces")
        with live.moved():
            return found(name)

    @face.delete("/api/v1/namespaces/<name>")
    def delete_namespace(name: str) -> JSON:
        need(live, "delete", "namespaces")
        with live.moved() as world:
            found(name)
            pods = [p for p in world.pods.values() if p.namespace == name]
            for kind, owner in {(p.owner_kind, p.owner_name) for p in pods if p.owner_kind}:
                world.scale_to_zero(kind, name, owner)
            for pod in pods:
                if pod.key in world.pods:
                    world.delete_pod(*pod.key)
            live.custom.remove("", "namespaces", "", name)
        return status_json(200, "", "", name=name, kind="namespaces")


def _add_budgets(face: Blueprint, live: Live) -> None:
    @face.post(BUDGETS)
    def create_budget(namespace: str) -> tuple[JSON, int]:
        need(live, "create", "poddisruptionbudgets")
        given = body_of()
        spec = given.get("spec") or {}
        selector = dict((spec.get("selector") or {}).get("matchLabels") or {})
        if not isinstance(spec.get("minAvailable"), int) or not selector:
            raise Denied("Invalid", 422, "spec: the simulator knows minAvailable as a number, and matchLabels")
        made = Pdb(namespace=namespace, selector=selector, min_available=spec["minAvailable"], name=_name(given))
        with live.moved() as world:
            world.pdbs.append(made)
        return {**given, "apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}, 201

    @face.delete(f"{BUDGETS}/<name>")
    def delete_budget(namespace: str, name: str) -> JSON:
        need(live, "delete", "poddisruptionbudgets")
        with live.moved() as world:
            found = next((b for b in world.pdbs if (b.namespace, b.name) == (namespace, name)), None)
            if found is None:
                raise Denied("NotFound", 404, f'poddisruptionbudgets.policy "{name}" not found')
            world.pdbs.remove(found)
        return status_json(200, "", "", name=name, kind="poddisruptionbudgets")


def _add_owner(face: Blueprint, live: Live, path: str, kind: str) -> None:
    plural = path.rpartition("/")[2]
    api = "apps/v1" if kind == "Deployment" else "batch/v1"

    def create(namespace: str) -> tuple[JSON, int]:
        need(live, "create", plural)
        given = body_of()
        name = _name(given)
        with live.moved() as world:
            if _owned(world, kind, namespace, name):
                raise Denied("AlreadyExists", 409, f'{plural} "{name}" already exists')
            for spec in _pods_of(given, kind, namespace, name):
                live.quotas.admit(spec, world.pods.values())
                world.add_pod(spec)
        return {**given, "kind": kind}, 201

    def delete(namespace: str, name: str) -> JSON:
        need(live, "delete", plural)
        with live.moved() as world:
            pods = _owned(world, kind, namespace, name)
            if not pods:
                raise Denied("NotFound", 404, f'{plural} "{name}" not found')
            for owner_kind, owner in {(p.owner_kind, p.owner_name) for p in pods}:
                world.scale_to_zero(owner_kind, namespace, owner)
            for pod in [p for p in pods if p.over]:
                world.delete_pod(*pod.key)
        return status_json(200, "", "", name=name, kind=plural)

    def show_all(namespace: str) -> JSON:
        """With the names and labels that the pods imply: enough to find them."""
        need(live, "list", plural)
        matches = selector(kind, request.args.get("labelSelector"), None)
        with live.moved() as world:
            found: dict[str, Mapping[str, str]] = {}
            for pod in world.pods.values():
                name = _owner_of(pod, kind)
                if pod.namespace == namespace and name:
                    found[name] = pod.labels
            spec: JSON = {"selector": {}, "template": {}}
            items = [
                {"metadata": {"name": n, "namespace": namespace, "labels": dict(marks)}, "spec": spec}
                for n, marks in found.items()
            ]
            return list_json(kind, api, [o for o in items if matches(o)], world.version)

    face.add_url_rule(path, f"list_{kind}", show_all, methods=["GET"])
    face.add_url_rule(path, f"create_{kind}", create, methods=["POST"])
    face.add_url_rule(f"{path}/<name>", f"delete_{kind}", delete, methods=["DELETE"])


def _owner_of(pod: WorldPod, kind: str) -> str | None:
    """Return the name of the owner of *kind* that a pod has, None without one."""
    if kind == "Deployment":
        return deployment_of(pod)
    return pod.owner_name if pod.owner_kind == kind else None


def _owned(world: World, kind: str, namespace: str, name: str) -> list[WorldPod]:
    return [p for p in world.pods.values() if p.namespace == namespace and _owner_of(p, kind) == name]


def _pods_of(given: Mapping[str, Any], kind: str, namespace: str, name: str) -> Iterator[PodSpec]:
    """Return the pods that a new controller creates at once."""
    spec = given.get("spec") or {}
    count = spec.get("replicas", 1) if kind == "Deployment" else spec.get("parallelism", 1)
    template = spec.get("template") or {}
    first = f"{name}-{HASH}" if kind == "Deployment" else name
    marks = {HASH_LABEL: HASH} if kind == "Deployment" else {}
    for number in range(count):
        pod = pod_spec({**template, "metadata": {**(template.get("metadata") or {}), "name": f"{first}-{number}"}})
        yield replace(
            pod,
            namespace=namespace,
            labels={**pod.labels, **marks},
            owner_kind="ReplicaSet" if kind == "Deployment" else "Job",
            owner_name=first,
        )
