"""The API of Dynamic Resource Allocation over the world's devices and claims, in the version that is configured."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from flask import Blueprint, Response, abort

from receiver.replay.world.objects import Denied
from simulator.dra.allocator import alternatives
from simulator.dra.claims import CLAIM, CLASS, KINDS, SLICE, TEMPLATE
from simulator.dra.devices import DRA
from simulator.kubernetes_custom import CLUSTER_WIDE
from simulator.kubernetes_objects import JSON, status_json
from simulator.kubernetes_rights import need
from simulator.kubernetes_writes import body_of
from simulator.live import Live

BASE = f"/apis/{DRA}/<version>"
NAMESPACED = f"{BASE}/namespaces/<namespace>/<plural>"
ADMIN_LABEL = "resource.kubernetes.io/admin-access"


def add_dra(face: Blueprint, live: Live, answer_list: Callable[..., Response]) -> None:
    """Add the routes to *face*; *answer_list* answers lists and watches as for every other kind. Where a driver serves
    devices of a pool, the API is there from the start."""
    objects = live.world.claims.objects
    if objects[CLASS]:
        live.custom.install(f"{DRA}/{live.config.kubernetes.dra}")

    def served(version: str, plural: str, namespace: str) -> str:
        kind = live.custom.kind(DRA, version, plural)
        if kind is None or (plural in CLUSTER_WIDE) != (not namespace):
            abort(404)
        return kind

    def found(plural: str, namespace: str, name: str) -> JSON:
        if (namespace, name) not in objects[plural]:
            raise Denied("NotFound", 404, f'{plural}.{DRA} "{name}" not found')
        return objects[plural][namespace, name]

    @face.get(f"{BASE}/<plural>")
    @face.get(NAMESPACED)
    def list_devices(version: str, plural: str, namespace: str | None = None) -> Response:
        kind = live.custom.kind(DRA, version, plural) or abort(404)
        render = partial(in_words_of, version, plural)
        name, api = f"{plural}.{DRA}", f"{DRA}/{version}"
        every = objects[plural].values
        return answer_list(live, name, kind, api, namespace, lambda _: [render(o) for o in every()], render, None, name)

    @face.get(f"{BASE}/<plural>/<name>")
    @face.get(f"{NAMESPACED}/<name>")
    def get_device(version: str, plural: str, name: str, namespace: str = "") -> JSON:
        served(version, plural, namespace)
        need(live, "get", f"{plural}.{DRA}")
        with live.moved():
            return in_words_of(version, plural, found(plural, namespace, name))

    @face.post(f"{BASE}/<plural>")
    @face.post(NAMESPACED)
    def create_device(version: str, plural: str, namespace: str = "") -> tuple[JSON, int]:
        served(version, plural, namespace)
        need(live, "create", f"{plural}.{DRA}")
        with live.moved() as world:
            made = _created(live, plural, namespace, body_of(), flat=version == "v1beta1")
            after = world.claims.put(plural, made)
            world.claims.changed()
            return in_words_of(version, plural, after), 201

    @face.delete(f"{BASE}/<plural>/<name>")
    @face.delete(f"{NAMESPACED}/<name>")
    def delete_device(version: str, plural: str, name: str, namespace: str = "") -> JSON:
        served(version, plural, namespace)
        need(live, "delete", f"{plural}.{DRA}")
        with live.moved() as world:
            found(plural, namespace, name)
            if plural == CLAIM:
                world.claims.delete_claim((namespace, name))
            else:
                world.claims.remove(plural, (namespace, name))
        return status_json(200, "", "", name=name, kind=plural)


def _created(live: Live, plural: str, namespace: str, body: Mapping[str, Any], *, flat: bool) -> JSON:
    """Return the object in *body* as the world keeps it, in v1. Raises Denied: 409 for a name in use, 422 for a claim
    with admin access outside a namespace for it."""
    metadata = {**(body.get("metadata") or {}), **({"namespace": namespace} if namespace else {})}
    name = metadata.get("name")
    if not name or not isinstance(body.get("spec"), Mapping):
        raise Denied("Invalid", 422, f"{KINDS[plural]} is invalid: metadata.name and spec: Required value")
    if (namespace, name) in live.world.claims.objects[plural]:
        raise Denied("AlreadyExists", 409, f'{plural}.{DRA} "{name}" already exists')
    made = {"metadata": metadata, "spec": dict(body["spec"])}
    if flat:
        made = _with_requests(plural, made, _nested)
    if plural in (CLAIM, TEMPLATE):
        spec = made["spec"] if plural == CLAIM else made["spec"]["spec"]
        asked = [one for request in spec["devices"]["requests"] for one in alternatives(request)]
        spaces = live.custom.objects("", "namespaces")
        marked = [(s["metadata"]["name"], (s["metadata"].get("labels") or {}).get(ADMIN_LABEL)) for s in spaces]
        if any(one.admin for one in asked) and (namespace, "true") not in marked:
            raise Denied(
                "Invalid", 422, f"{KINDS[plural]} is invalid: adminAccess needs a namespace with {ADMIN_LABEL}"
            )
    return made


def in_words_of(version: str, plural: str, one: JSON) -> JSON:
    """Return *one* as *version* of the API shows it: v1beta1 has other requests and devices."""
    one = {**one, "apiVersion": f"{DRA}/{version}", "kind": KINDS[plural]}
    if version != "v1beta1":
        return one
    if plural == SLICE and "devices" in one["spec"]:
        devices = [
            {"name": d["name"], "basic": {k: v for k, v in d.items() if k != "name"}} for d in one["spec"]["devices"]
        ]
        return {**one, "spec": {**one["spec"], "devices": devices}}
    return _with_requests(
        plural, one, lambda r: {**{k: v for k, v in r.items() if k != "exactly"}, **r.get("exactly", {})}
    )


def _nested(request: JSON) -> JSON:
    if "firstAvailable" in request:
        return request
    return {"name": request["name"], "exactly": {k: v for k, v in request.items() if k != "name"}}


def _with_requests(plural: str, one: JSON, change: Callable[[JSON], JSON]) -> JSON:
    if plural == TEMPLATE:
        return {**one, "spec": _with_requests(CLAIM, one["spec"], change)}
    if plural != CLAIM:
        return one
    devices = one["spec"]["devices"]
    changed = {**devices, "requests": [change(request) for request in devices["requests"]]}
    return {**one, "spec": {**one["spec"], "devices": changed}}
