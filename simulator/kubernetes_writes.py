"""The part of the Kubernetes API that changes something: nodes, pods, evictions, events, access reviews."""

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, jsonify, request

from receiver.core.model.policy import Taint
from receiver.replay.world.objects import Denied, WorldNode, WorldPod
from simulator.kubernetes_admission import admit
from simulator.kubernetes_apply import APPLY, applied
from simulator.kubernetes_events import CORE_API, NEW_API, find, in_words_of, post
from simulator.kubernetes_objects import node_json, pod_json, status_json
from simulator.kubernetes_patches import patched
from simulator.kubernetes_rights import need, review
from simulator.live import Live
from simulator.manifests import pod_spec

JSON = dict[str, Any]


def add_writes(face: Blueprint, live: Live) -> None:
    """Add every changing route to *face*."""
    _add_nodes(face, live)
    _add_pods(face, live)
    _add_evictions(face, live)
    _add_events(face, live)

    @face.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    def review_access() -> tuple[JSON, int]:
        return review(live, body_of()), 201


def body_of() -> Mapping[str, Any]:
    """Return the request's JSON object. Raises Denied (400)."""
    given = request.get_json(force=True, silent=True)
    if not isinstance(given, Mapping):
        raise Denied("BadRequest", 400, "the body of the request is no JSON object")
    return given


def _dry() -> bool:
    return "All" in request.args.getlist("dryRun")


def patch_of(before: JSON) -> JSON:
    """Return *before* with the request's patch. Raises Denied (409) when the patch names another version or uid."""
    given = request.get_json(force=True, silent=True)
    if (request.content_type or "").startswith(APPLY):
        if not isinstance(given, Mapping) or not request.args.get("fieldManager"):
            raise Denied("BadRequest", 400, "an apply patch is an object, and names its fieldManager")
        after = applied(before, given, request.args["fieldManager"])
    else:
        after = patched(before, request.content_type or "", given)
    for field in ("resourceVersion", "uid"):
        wanted = after["metadata"].get(field)
        if wanted is not None and wanted != before["metadata"].get(field):
            problem = "the object has been modified; please apply your changes to the latest version and try again"
            raise Denied("Conflict", 409, f"Operation cannot be fulfilled on {before['metadata']['name']!r}: {problem}")
    admit(before, after)
    return after


# --- nodes ------------------------------------------------------------------------------------------------


def _add_nodes(face: Blueprint, live: Live) -> None:
    def rendered(node: WorldNode) -> JSON:
        return node_json(node, kubelet=live.config.kubernetes.version)

    @face.patch("/api/v1/nodes/<name>")
    def patch_node(name: str) -> JSON:
        need(live, "patch", "nodes")
        with live.moved() as world:
            if name not in world.nodes:
                raise Denied("NotFound", 404, f'nodes "{name}" not found')
            after = patch_of(rendered(world.nodes[name]))
            return after if _dry() else rendered(_apply(live, world.nodes[name], after))

    @face.put("/api/v1/nodes/<name>")
    def replace_node(name: str) -> JSON:
        need(live, "update", "nodes")
        after = dict(body_of())
        with live.moved() as world:
            if name not in world.nodes:
                raise Denied("NotFound", 404, f'nodes "{name}" not found')
            version = (after.get("metadata") or {}).get("resourceVersion")
            if version not in (None, str(world.nodes[name].version)):
                raise Denied("Conflict", 409, f'Operation cannot be fulfilled on nodes "{name}": it has been modified')
            return after if _dry() else rendered(_apply(live, world.nodes[name], after))

    @face.delete("/api/v1/nodes/<name>")
    def delete_node(name: str) -> JSON:
        need(live, "delete", "nodes")
        with live.moved() as world:
            world.delete_node(name)
        return status_json(200, "", "", name=name, kind="nodes")


def _apply(live: Live, node: WorldNode, after: JSON) -> WorldNode:
    """Bring what may be changed of a node from *after* into the world."""
    metadata, spec = after.get("metadata") or {}, after.get("spec") or {}
    taints = tuple(
        Taint(key=t["key"], value=t.get("value") or "", effect=t["effect"]) for t in spec.get("taints") or ()
    )
    return live.world.patch_node(
        node.name,
        unschedulable=bool(spec.get("unschedulable")),
        labels=_differences(node.labels, metadata.get("labels") or {}),
        annotations=_differences(node.annotations, metadata.get("annotations") or {}),
        taints=taints,
    )


def _differences(before: Mapping[str, str], after: Mapping[str, Any]) -> Mapping[str, str | None]:
    """Return what leads from *before* to *after*; None removes a key. Raises Denied (422)."""
    if any(not isinstance(v, str) for v in after.values()):
        raise Denied("Invalid", 422, "labels and annotations are text")
    return {**{k: None for k in before if k not in after}, **{k: v for k, v in after.items() if before.get(k) != v}}


# --- pods -------------------------------------------------------------------------------------------------


def _add_pods(face: Blueprint, live: Live) -> None:
    @face.post("/api/v1/namespaces/<namespace>/pods")
    def create_pod(namespace: str) -> tuple[JSON, int]:
        need(live, "create", "pods")
        spec = pod_spec(body_of(), namespace)
        with live.moved() as world:
            live.quotas.admit(spec, world.pods.values())
            return pod_json(world.add_pod(spec)), 201

    @face.patch("/api/v1/namespaces/<namespace>/pods/<name>")
    def patch_pod(namespace: str, name: str) -> JSON:
        need(live, "patch", "pods")
        with live.moved():
            pod = _pod(live, namespace, name)
            after = patch_of(pod_json(pod))
            return after if _dry() else pod_json(_apply_to_pod(live, pod, after))

    @face.delete("/api/v1/namespaces/<namespace>/pods/<name>")
    def delete_pod(namespace: str, name: str) -> JSON:
        need(live, "delete", "pods")
        with live.moved() as world:
            pod = _pod(live, namespace, name)
            _check_preconditions(pod, request.get_json(force=True, silent=True))
            if not _dry():
                world.delete_pod(namespace, name)
            return pod_json(world.pods.get((namespace, name), pod))


def _pod(live: Live, namespace: str, name: str) -> WorldPod:
    pod = live.world.pods.get((namespace, name))
    if pod is None:
        raise Denied("NotFound", 404, f'pods "{name}" not found')
    return pod


def _check_preconditions(pod: WorldPod, options: Any) -> None:
    """Raise Denied (409) when DeleteOptions name another uid or version than the pod's."""
    wanted = (options or {}).get("preconditions") or {}
    for field, have in (("uid", pod.uid), ("resourceVersion", str(pod.version))):
        if wanted.get(field) not in (None, have):
            raise Denied(
                "Conflict", 409, f'the {field} in the precondition ({wanted[field]}) does not match "{pod.name}"'
            )


def _apply_to_pod(live: Live, pod: WorldPod, after: JSON) -> WorldPod:
    """Bring labels, annotations and the removal of scheduling gates into the world."""
    metadata = after.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    live.world.patch_pod(
        pod.namespace,
        pod.name,
        labels=_differences(pod.labels, labels),
        annotations=_differences(pod.annotations, annotations),
    )
    if pod.gate and not (after.get("spec") or {}).get("schedulingGates"):
        live.world.ungate(pod.namespace, pod.name)
    return live.world.pods[pod.key]


# --- evictions --------------------------------------------------------------------------------------------


def _add_evictions(face: Blueprint, live: Live) -> None:
    @face.post("/api/v1/namespaces/<namespace>/pods/<name>/eviction")
    def evict(namespace: str, name: str) -> tuple[Response, int]:
        need(live, "create", "pods/eviction")
        options = body_of().get("deleteOptions") or {}
        with live.moved() as world:
            _check_preconditions(_pod(live, namespace, name), options)
            rehearsed = _dry() or "All" in (options.get("dryRun") or ())
            try:
                (world.rehearse_eviction if rehearsed else world.evict)(namespace, name)
            except Denied as refused:
                if refused.status != 429:
                    raise
                causes = [{"reason": "DisruptionBudget", "message": refused.details}]
                return jsonify(status_json(429, refused.code, refused.reason, causes=causes)), 429
        return jsonify(status_json(201, "", "")), 201


# --- events -----------------------------------------------------------------------------------------------


def _add_events(face: Blueprint, live: Live) -> None:
    def create(namespace: str, api: str) -> tuple[JSON, int]:
        need(live, "create", "events")
        admit(None, body_of())
        with live.moved():
            return in_words_of(api, post(live, namespace, api, body_of())), 201

    @face.post("/api/v1/namespaces/<namespace>/events")
    def create_core_event(namespace: str) -> tuple[JSON, int]:
        return create(namespace, CORE_API)

    @face.post("/apis/events.k8s.io/v1/namespaces/<namespace>/events")
    def create_new_event(namespace: str) -> tuple[JSON, int]:
        return create(namespace, NEW_API)

    @face.patch("/api/v1/namespaces/<namespace>/events/<name>")
    def patch_core_event(namespace: str, name: str) -> JSON:
        need(live, "patch", "events")
        with live.moved():
            before = find(live, namespace, name)
            after = patch_of(before)
            for version in [v for v, body in live.posted_events.items() if body is before]:
                live.posted_events[version] = after
            return after
