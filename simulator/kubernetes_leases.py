"""Leases over the Kubernetes API: created, or applied by their holder. The rest is as for custom objects."""

from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, request

from receiver.replay.world.objects import Denied
from simulator.kubernetes_apply import APPLY
from simulator.kubernetes_rights import need
from simulator.kubernetes_writes import body_of, patch_of
from simulator.live import Live

JSON = dict[str, Any]
AnswerList = Callable[..., Response]
GROUP = "coordination.k8s.io"
ALL = f"/apis/{GROUP}/v1/namespaces/<namespace>/leases"


def add_leases(face: Blueprint, live: Live, answer_list: AnswerList) -> None:
    """Add the routes to *face*; *answer_list* answers lists and watches as for every other kind."""

    @face.get(ALL)
    def list_leases(namespace: str) -> Response:
        found = live.custom.objects(GROUP, "leases")
        api, noted = f"{GROUP}/v1", f"leases.{GROUP}"
        return answer_list(live, "leases", "Lease", api, namespace, lambda _: found, lambda o: o, noted_as=noted)

    @face.post(ALL)
    def create_lease(namespace: str) -> tuple[JSON, int]:
        need(live, "create", "leases")
        given = body_of()
        with live.moved():
            name = str((given.get("metadata") or {}).get("name"))
            if live.custom.find(GROUP, "leases", name, namespace) is not None:
                raise Denied("AlreadyExists", 409, f'leases.{GROUP} "{name}" already exists')
            return _put(live, namespace, name, dict(given)), 201

    @face.patch(f"{ALL}/<name>")
    def patch_lease(namespace: str, name: str) -> JSON:
        """An apply creates what is not there, with the right to create."""
        need(live, "patch", "leases")
        applies = (request.content_type or "").startswith(APPLY)
        with live.moved():
            before = live.custom.find(GROUP, "leases", name, namespace)
            if before is None:
                if not applies:
                    raise Denied("NotFound", 404, f'leases.{GROUP} "{name}" not found')
                need(live, "create", "leases")
                return _put(live, namespace, name, dict(body_of()))
            after = patch_of(before)
            if applies:
                given = body_of().get("metadata") or {}
                said = {n: {**(before["metadata"].get(n) or {}), **(given.get(n) or {})} for n in _WORDS}
                after = {**after, "metadata": {**after["metadata"], **said}}
            return live.custom.replace(GROUP, "leases", after)


_WORDS = ("labels", "annotations")


def _put(live: Live, namespace: str, name: str, given: JSON) -> JSON:
    metadata = {**(given.get("metadata") or {}), "namespace": namespace, "name": name}
    live.custom.put([{**given, "apiVersion": f"{GROUP}/v1", "kind": "Lease", "metadata": metadata}], live.world.now)
    found = live.custom.find(GROUP, "leases", name, namespace)
    assert found is not None
    return found
