"""What CapacityBuffers need beside lists: templates and scalables of the core group, a status written, a deletion."""

from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, abort

from receiver.replay.world.objects import Denied
from simulator.kubernetes_objects import status_json
from simulator.kubernetes_rights import need
from simulator.kubernetes_writes import patch_of
from simulator.live import Live

JSON = dict[str, Any]
ListCustom = Callable[[str, str, str], Response]


def add_buffers(face: Blueprint, live: Live, list_custom: ListCustom) -> None:
    """Add the routes to *face*; *list_custom* answers lists of a group, version and plural."""
    for plural in ("podtemplates", "replicationcontrollers"):
        answer = {"group": "", "version": "v1", "plural": plural}
        face.add_url_rule(f"/api/v1/{plural}", f"list_{plural}", list_custom, methods=["GET"], defaults=answer)

    @face.delete("/apis/<group>/<version>/namespaces/<namespace>/<plural>/<name>")
    def delete_custom(group: str, version: str, namespace: str, plural: str, name: str) -> JSON:
        need(live, "delete", plural)
        if live.custom.kind(group, version, plural) is None:
            abort(404)
        with live.moved():
            live.custom.remove(group, plural, namespace, name)
        return status_json(200, "", "", name=name, kind=plural)

    @face.patch("/apis/<group>/<version>/<plural>/<name>/status")
    @face.patch("/apis/<group>/<version>/namespaces/<namespace>/<plural>/<name>/status")
    def patch_status(group: str, version: str, plural: str, name: str, namespace: str | None = None) -> JSON:
        need(live, "patch", f"{plural}/status")
        if live.custom.kind(group, version, plural) is None:
            abort(404)
        with live.moved():
            before = live.custom.find(group, plural, name, namespace or "")
            if before is None:
                raise Denied("NotFound", 404, f'{plural}.{group} "{name}" not found')
            after = patch_of(before)
            managed = {n: v for n, v in after["metadata"].items() if n == "managedFields"}
            metadata = {**before["metadata"], **managed}
            return live.custom.replace(
                group, plural, {**before, "metadata": metadata, "status": after.get("status") or {}}
            )
