"""The objects of a budget hold over the Kubernetes API: ResourceQuotas, and Kueue's cluster-wide objects."""

from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, abort, request

from receiver.replay.world.objects import Denied
from simulator.kubernetes_admission import admit
from simulator.kubernetes_rights import need
from simulator.kubernetes_writes import body_of, patch_of
from simulator.live import Live

JSON = dict[str, Any]
ONE = "/api/v1/namespaces/<namespace>/resourcequotas/<name>"
AnswerList = Callable[..., Response]


def add_holding(face: Blueprint, live: Live, answer_list: AnswerList) -> None:
    """Add the routes to *face*; *answer_list* answers lists and watches as for every other kind."""

    @face.get("/api/v1/resourcequotas")
    @face.get("/api/v1/namespaces/<namespace>/resourcequotas")
    def list_quotas(namespace: str | None = None) -> Response:
        found = live.quotas.every
        return answer_list(live, "resourcequotas", "ResourceQuota", "v1", namespace, lambda _: found(), lambda o: o)

    @face.get(ONE)
    def get_quota(namespace: str, name: str) -> JSON:
        need(live, "get", "resourcequotas")
        with live.moved():
            return live.quotas.get(namespace, name)

    @face.post("/api/v1/namespaces/<namespace>/resourcequotas")
    def create_quota(namespace: str) -> tuple[JSON, int]:
        need(live, "create", "resourcequotas")
        admit(None, body_of())
        with live.moved() as world:
            return live.quotas.create(namespace, body_of(), world.now), 201

    @face.patch(ONE)
    def patch_quota(namespace: str, name: str) -> JSON:
        need(live, "patch", "resourcequotas")
        with live.moved():
            return live.quotas.replace(patch_of(live.quotas.get(namespace, name)))

    @face.delete(ONE)
    def delete_quota(namespace: str, name: str) -> JSON:
        need(live, "delete", "resourcequotas")
        with live.moved():
            return live.quotas.delete(namespace, name, request.get_json(force=True, silent=True))

    @face.patch("/apis/<group>/<version>/<plural>/<name>")
    def patch_custom(group: str, version: str, plural: str, name: str) -> JSON:
        need(live, "patch", f"{plural}.{group}")
        if live.custom.kind(group, version, plural) is None:
            abort(404)
        with live.moved():
            before = next((o for o in live.custom.objects(group, plural) if o["metadata"]["name"] == name), None)
            if before is None or before["metadata"].get("namespace"):
                raise Denied("NotFound", 404, f'{plural}.{group} "{name}" not found')
            return live.custom.replace(group, plural, patch_of(before))
