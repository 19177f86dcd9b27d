"""Civo's API: every endpoint that scaling a Kubernetes cluster needs, with the refusals it is known for."""

import hmac
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, Response, abort, g, jsonify, request

from receiver.replay.world.objects import Denied
from simulator.civo_bodies import body_of_request, count_in
from simulator.civo_pools import add_pools
from simulator.civo_shapes import (
    charge_json,
    cluster_json,
    instances_json,
    quota_json,
    region_json,
)
from simulator.live import Live
from simulator.sizes import rendered, sizes_of
from simulator.world import World

JSON = dict[str, Any]
PER_PAGE = 20
CLUSTERS = "/v2/kubernetes/clusters"
ANYWHERE = ("/v2/charges", "/v2/regions", "/v2/quota", "/v2/ping")  # account-wide: no region needed


def civo_face(live: Live) -> Blueprint:
    """Return the API as a blueprint."""
    face = Blueprint("civo", __name__)
    face.url_value_preprocessor(_take_cluster)
    face.before_request(lambda: _authorize(live) or _check_region(live) or _check_cluster(live))
    face.register_error_handler(Denied, refused)
    _add_account(face, live)
    _add_clusters(face, live)
    add_pools(face, live)

    @face.route("/v2/<path:unknown>", methods=["GET", "POST", "PUT", "DELETE", "PATCH"])
    def find_nothing() -> Response:
        abort(404)  # answered in plain text, not JSON, as seen live

    return face


def refused(error: Denied) -> tuple[Response, int]:
    """Answer with Civo's error body."""
    body = {"code": error.code, "reason": error.reason, **({"details": error.details} if error.details else {})}
    return jsonify(body), error.status


def _authorize(live: Live) -> tuple[Response, int] | None:
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key:
        return jsonify({"result": "requires_authentication", "status": 401, "reason": "Authentication required"}), 401
    if not hmac.compare_digest(key.strip().encode(), live.config.civo.api_key.encode()):
        return refused(Denied("authentication_invalid_key", 401, "The API key provided is invalid"))
    return None


def _check_region(live: Live) -> tuple[Response, int] | None:
    """Regional calls name the region in the query or in the body, in either case."""
    given = request.args.get("region")
    body = request.get_json(force=True, silent=True)
    if not given and isinstance(body, Mapping):
        given = body.get("region")
    if not given and (request.path.startswith(ANYWHERE) or not live.config.civo.require_region):
        return None
    if isinstance(given, str) and given.lower() == live.config.region.lower():
        return None
    return refused(Denied("region_unavailable", 400, f"The region {given or '(none)'} is not available"))


def _take_cluster(_: str | None, values: dict[str, Any] | None) -> None:
    """Take the cluster's id out of the path's values: there is one cluster, and no view needs its id."""
    g.cluster = (values or {}).pop("cluster", None)
    (values or {}).pop("unknown", None)


def _check_cluster(live: Live) -> tuple[Response, int] | None:
    if g.cluster in (None, live.config.cluster.id):
        return None
    return refused(Denied("database_kubernetes_cluster_not_found", 404, "Failed to find the Kubernetes cluster"))


def _add_account(face: Blueprint, live: Live) -> None:
    def looking(path: str, show: Callable[[World], Any]) -> None:
        def view() -> Response:
            with live.moved() as world:
                return jsonify(show(world))

        face.add_url_rule(path, path, view, methods=["GET"])

    looking("/v2/ping", lambda _: {"result": "success"})
    looking("/v2/sizes", lambda w: [rendered(s) for s in sizes_of(p.spec for p in w.pools.values())])
    looking("/v2/regions", lambda w: [region_json(w.config.region)])
    looking("/v2/quota", lambda w: quota_json(w))

    @face.get("/v2/charges")
    def list_charges() -> Response:
        with live.moved() as world:
            month = world.now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            frm, to = _moment("from") or month, _moment("to") or world.now
            records = [charge_json(c, world.config.region) for c in world.charges(frm, to)]
            return jsonify([*records, *live.config.civo.other_charges])


def _moment(name: str) -> datetime | None:
    text = request.args.get(name)
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError
    except ValueError:
        raise Denied("parameter_time_value", 400, f"The value of {name} is no RFC 3339 time") from None
    return moment.astimezone(UTC)


def _add_clusters(face: Blueprint, live: Live) -> None:
    @face.get(CLUSTERS)
    def list_clusters() -> Response:
        page, per_page = _whole("page", 1), _whole("per_page", PER_PAGE)
        with live.moved() as world:
            items = [cluster_json(live, world)] if page == 1 else []
        return jsonify({"page": page, "per_page": per_page, "pages": 1, "items": items})

    @face.get(f"{CLUSTERS}/<cluster>")
    def show_cluster() -> Response:
        with live.moved() as world:
            return jsonify(cluster_json(live, world))

    @face.put(f"{CLUSTERS}/<cluster>")
    def update_cluster() -> Response:
        body = body_of_request()
        with live.moved() as world:
            if body.get("pools") is not None:
                # As documented, and as it has cost people their pools: those not listed are deleted.
                world.replace_pools({str(p.get("id")): count_in(p) or 0 for p in body["pools"]})
            elif isinstance(body.get("num_target_nodes"), int):
                world.resize(next(iter(world.pools)), body["num_target_nodes"])
            return jsonify(cluster_json(live, world))

    @face.get(f"{CLUSTERS}/<cluster>/instances")
    def list_instances() -> Response:
        with live.moved() as world:
            return jsonify([i for p in world.pools.values() for i in instances_json(live, p)])

    @face.get("/v2/kubernetes/versions")
    def list_versions() -> Response:
        return jsonify([{"version": "1.32.5-k3s1", "label": "v1.32.5-k3s1", "type": "stable", "clusterType": "k3s"}])

    @face.post(f"{CLUSTERS}/<cluster>/recycle")
    def recycle() -> Response:
        hostname = body_of_request().get("hostname")
        with live.moved() as world:
            world.recycle(str(hostname))
        return jsonify({"result": "success"})


def _whole(name: str, default: int) -> int:
    text = request.args.get(name, "")
    return int(text) if text.isdigit() and int(text) else default
