"""The part of the Kubernetes API that a client of nodes, pods, budgets, events and access reviews needs: reading."""

import base64
import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from flask import Blueprint, Response, abort, jsonify, request

from receiver.replay.world.objects import Denied
from simulator.gate import hung_up
from simulator.kubernetes_buffers import add_buffers
from simulator.kubernetes_created import add_created
from simulator.kubernetes_daemons import daemon_sets, overlaid
from simulator.kubernetes_dra import add_dra
from simulator.kubernetes_events import CORE_API, NEW_API, core_json, find, in_words_of
from simulator.kubernetes_holding import add_holding
from simulator.kubernetes_leases import add_leases
from simulator.kubernetes_objects import list_json, node_json, pod_json, stamp, status_json, uid_of
from simulator.kubernetes_owners import add_owners
from simulator.kubernetes_rights import authorize, need
from simulator.kubernetes_selectors import selector
from simulator.kubernetes_watch import Watch, stream
from simulator.kubernetes_writes import add_writes
from simulator.live import Live
from simulator.world import Pdb, World

JSON = dict[str, Any]
GROUPS = {
    "policy": "v1",
    "events.k8s.io": "v1",
    "authorization.k8s.io": "v1",
    "apps": "v1",
    "batch": "v1",
    "scheduling.k8s.io": "v1",
    "networking.k8s.io": "v1",
    "coordination.k8s.io": "v1",
}


def kubernetes_face(live: Live) -> Blueprint:
    """Return the API as a blueprint."""
    for installed in live.config.kubernetes.installed:
        live.custom.install(installed)
    face = Blueprint("kubernetes", __name__)
    face.before_request(lambda: authorize(live))
    face.register_error_handler(Denied, refused)
    _add_discovery(face, live)
    _add_nodes(face, live)
    _add_pods(face, live)
    _add_events(face, live)
    _add_budgets(face, live)
    _add_custom(face, live)
    add_writes(face, live)
    add_owners(face, live)
    add_created(face, live)
    add_holding(face, live, answer_list)
    add_leases(face, live, answer_list)
    add_dra(face, live, answer_list)
    return face


def refused(error: Denied) -> tuple[Response, int]:
    """Answer with a Status."""
    return jsonify(status_json(error.status, error.code, error.reason)), error.status


def _add_discovery(face: Blueprint, live: Live) -> None:
    version = live.config.kubernetes.version
    major, minor = version.removeprefix("v").split(".")[:2]

    @face.get("/version")
    def show_version() -> JSON:
        build = {"gitCommit": "0" * 40, "gitTreeState": "clean", "buildDate": "2025-06-01T00:00:00Z"}
        go = {"goVersion": "go1.23.8", "compiler": "gc", "platform": "linux/amd64"}
        return {"major": major, "minor": minor, "gitVersion": version, **build, **go}

    @face.get("/healthz")
    @face.get("/livez")
    @face.get("/readyz")
    def show_health() -> str:
        return "ok"

    @face.get("/api")
    def show_api() -> JSON:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}

    @face.get("/apis")
    def show_groups() -> JSON:
        groups = []
        with live.moved():
            installed = live.custom.installed
        for name in {**GROUPS, **installed}:
            served = [v for v in (GROUPS.get(name), installed.get(name)) if v]
            versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in served]
            groups.append({"name": name, "versions": versions, "preferredVersion": versions[0]})
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    @face.get("/api/v1")
    def show_core() -> JSON:
        found = [
            ("nodes", False, "Node"),
            ("pods", True, "Pod"),
            ("events", True, "Event"),
            ("namespaces", False, "Namespace"),
        ]
        return _resources("v1", found)

    @face.get("/apis/policy/v1")
    def show_policy() -> JSON:
        return _resources("policy/v1", [("poddisruptionbudgets", True, "PodDisruptionBudget")])


def _resources(version: str, found: Iterable[tuple[str, bool, str]]) -> JSON:
    verbs = ["get", "list", "watch", "create", "patch", "delete"]
    resources = [
        {"name": n, "singularName": k.lower(), "namespaced": s, "kind": k, "verbs": verbs} for n, s, k in found
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}


def _add_nodes(face: Blueprint, live: Live) -> None:
    def rendered(node: Any) -> JSON:
        return node_json(node, kubelet=live.config.kubernetes.version)

    @face.get("/api/v1/nodes")
    def list_nodes() -> Response:
        return answer_list(
            live, "nodes", "Node", "v1", None, lambda w: [rendered(n) for n in w.nodes.values()], rendered
        )

    @face.get("/api/v1/nodes/<name>")
    def get_node(name: str) -> JSON:
        need(live, "get", "nodes")
        with live.moved() as world:
            if name not in world.nodes:
                raise Denied("NotFound", 404, f'nodes "{name}" not found')
            return rendered(world.nodes[name])


def _add_pods(face: Blueprint, live: Live) -> None:
    @face.get("/api/v1/pods")
    @face.get("/api/v1/namespaces/<namespace>/pods")
    def list_pods(namespace: str | None = None) -> Response:
        return answer_list(
            live, "pods", "Pod", "v1", namespace, lambda w: [pod_json(p) for p in w.pods.values()], pod_json
        )

    @face.get("/api/v1/namespaces/<namespace>/pods/<name>")
    def get_pod(namespace: str, name: str) -> JSON:
        need(live, "get", "pods")
        with live.moved() as world:
            if (namespace, name) not in world.pods:
                raise Denied("NotFound", 404, f'pods "{name}" not found')
            return pod_json(world.pods[namespace, name])

    @face.get("/api/v1/namespaces")
    def list_namespaces() -> JSON:
        need(live, "list", "namespaces")
        with live.moved() as world:
            names = sorted({"default", "kube-system"} | {namespace for namespace, _ in world.pods})
            metadata = [{"name": n, "uid": uid_of(n), "creationTimestamp": stamp(live.started_at)} for n in names]
            made = [{"metadata": m, "status": {"phase": "Active"}} for m in metadata]
            items = overlaid(made, live.custom.objects("", "namespaces"))
            return list_json("Namespace", "v1", items, world.version)


def _add_events(face: Blueprint, live: Live) -> None:
    def events(api: str, namespace: str | None) -> Response:
        def rendered(event: Any) -> JSON:
            return in_words_of(api, core_json(live, event))

        kind = "Event" if api == CORE_API else "NewEvent"  # field selectors exist for core/v1 only
        return answer_list(
            live, "events", kind, api, namespace, lambda w: [rendered(e) for e in w.events], rendered, shown_as="Event"
        )

    @face.get("/api/v1/events")
    @face.get("/api/v1/namespaces/<namespace>/events")
    def list_core_events(namespace: str | None = None) -> Response:
        return events(CORE_API, namespace)

    @face.get("/apis/events.k8s.io/v1/events")
    @face.get("/apis/events.k8s.io/v1/namespaces/<namespace>/events")
    def list_new_events(namespace: str | None = None) -> Response:
        return events(NEW_API, namespace)

    @face.get("/api/v1/namespaces/<namespace>/events/<name>")
    def get_core_event(namespace: str, name: str) -> JSON:
        need(live, "get", "events")
        with live.moved():
            return find(live, namespace, name)


def _add_budgets(face: Blueprint, live: Live) -> None:
    @face.get("/apis/policy/v1/poddisruptionbudgets")
    @face.get("/apis/policy/v1/namespaces/<namespace>/poddisruptionbudgets")
    def list_budgets(namespace: str | None = None) -> Response:
        def rendered(budget: tuple[Pdb, int]) -> JSON:
            with live.moved() as world:
                return _budget(world, *budget, live)

        def found(_: World) -> list[JSON]:
            return [rendered(budget) for budget in live.budgets]

        kind = "PodDisruptionBudget"
        return answer_list(live, "poddisruptionbudgets", kind, "policy/v1", namespace, found, rendered)


def _budget(world: World, pdb: Pdb, version: int, live: Live) -> JSON:
    running = [p for p in world.active_pods.values() if p.phase == "Running" and p.namespace == pdb.namespace]
    healthy = sum(1 for p in running if all(p.labels.get(k) == v for k, v in pdb.selector.items()))
    return {
        "metadata": {
            "name": pdb.name,
            "namespace": pdb.namespace,
            "uid": uid_of(pdb.namespace, pdb.name),
            "resourceVersion": str(version),
            "creationTimestamp": stamp(live.started_at),
        },
        "spec": {"minAvailable": pdb.min_available, "selector": {"matchLabels": dict(pdb.selector)}},
        "status": {
            "currentHealthy": healthy,
            "desiredHealthy": pdb.min_available,
            "disruptionsAllowed": max(0, healthy - pdb.min_available),
            "expectedPods": healthy,
            "observedGeneration": 1,
        },
    }


def _add_custom(face: Blueprint, live: Live) -> None:
    @face.get("/apis/<group>/<version>/<plural>")
    def list_custom(group: str, version: str, plural: str) -> Response:
        name = f"{plural}.{group}" if group else plural
        need(live, "list", name)
        kind = live.custom.kind(group, version, plural)
        if kind is None:
            abort(404)
        found = live.custom.objects(group, plural)
        if (group, plural) == ("apps", "daemonsets"):
            found = overlaid(daemon_sets(live), found)
        api, noted = f"{group}/{version}".lstrip("/"), f"{plural}.{group}"
        return answer_list(live, name, kind, api, None, lambda _: found, lambda o: o, noted_as=noted)

    add_buffers(face, live, list_custom)


def answer_list(
    live: Live,
    resource: str,
    kind: str,
    api: str,
    namespace: str | None,
    objects: Callable[[World], list[JSON]],
    render: Callable[[Any], JSON],
    shown_as: str | None = None,
    noted_as: str | None = None,
) -> Response:
    """Answer a list or, with ``watch``, a watch of *resource* as the query asks.

    Its changes are in the world's journal as *noted_as*.
    """
    query = request.args
    watching = query.get("watch") in ("1", "true", "True")
    need(live, "watch" if watching else "list", resource)
    shown = shown_as or kind
    labels, fields = query.get("labelSelector"), query.get("fieldSelector")
    matches = selector(kind, labels, fields)
    with live.moved() as world:
        version, oldest = world.version, world.oldest_version
        found = [o for o in objects(world) if namespace in (None, o["metadata"].get("namespace")) and matches(o)]
    if not watching:
        found.sort(key=_key)
        page, more = _page(found, query.get("limit"), query.get("continue"))
        return jsonify(list_json(shown, api, page, version, more))
    since = _version(query.get("resourceVersion"))
    if since is not None and since < oldest and live.expired == "status":
        raise Denied("Expired", 410, f"too old resource version: {since} ({oldest})")
    watch = Watch(
        noted_as=noted_as or kind,
        render=render,
        kind=shown,
        api=api,
        namespace=namespace,
        matches=matches,
        since=version if since is None else since,
        seconds=float(query["timeoutSeconds"]) if query.get("timeoutSeconds") else None,
        bookmarks=query.get("allowWatchBookmarks") in ("1", "true", "True"),
        cut_off=partial(hung_up, request.environ),
    )
    return Response(stream(live, watch, found if since is None else []), mimetype="application/json")


def _version(text: str | None) -> int | None:
    """None for a watch that begins with what there is: without a version, or from "0"."""
    if not text or text == "0":
        return None
    if not text.isdigit():
        raise Denied("BadRequest", 400, f"resourceVersion: {text!r} is no version")
    return int(text)


def _key(obj: JSON) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _page(found: list[JSON], limit: str | None, token: str | None) -> tuple[list[JSON], str | None]:
    """Return one page of *found* (sorted) and the token of the next one."""
    if token:
        try:
            after = tuple(json.loads(base64.urlsafe_b64decode(token)))
        except ValueError:
            raise Denied("BadRequest", 400, "continue key is not valid") from None
        found = [o for o in found if _key(o) > after]
    size = int(limit) if limit and limit.isdigit() else 0
    if not size or len(found) <= size:
        return found, None
    return found[:size], base64.urlsafe_b64encode(json.dumps(_key(found[size - 1])).encode()).decode()
