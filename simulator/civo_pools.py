"""Civo's pools: listed with gaps, resized by count, shrunk by instance."""

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, jsonify

from receiver.core.model.policy import Taint
from receiver.replay.world.objects import CivoPool, Denied
from simulator.civo_bodies import body_of_request, count_in, labels_in, taints_in
from simulator.civo_shapes import pool_json
from simulator.live import Live
from simulator.sizes import pool_of, sizes_of
from simulator.world import World

POOLS = "/v2/kubernetes/clusters/<cluster>/pools"


def add_pools(face: Blueprint, live: Live) -> None:
    """Add the pool routes to *face*."""
    _add_reading(face, live)
    _add_resizing(face, live)

    @face.post(POOLS)
    def create_pool() -> Response:
        body = body_of_request()
        with live.moved() as world:
            _create(world, body)
        return jsonify({"result": "success"})  # no pool in the answer: the caller reads again

    @face.delete(f"{POOLS}/<pool>")
    def delete_pool(pool: str) -> Response:
        with live.moved() as world:
            world.delete_pool(pool)
        return jsonify({"result": "success"})

    @face.delete(f"{POOLS}/<pool>/instances/<instance>")
    def delete_instance(pool: str, instance: str) -> Response:
        with live.moved() as world:
            world.delete_instance(pool, instance)
        return jsonify({"result": "success"})


def _add_reading(face: Blueprint, live: Live) -> None:
    @face.get(POOLS)
    def list_pools() -> Response:
        with live.moved() as world:
            zero = world.config.behaviour.list_zero_pools
            found = [p for p in world.pools.values() if zero or p.instances or p.required]
            return jsonify([pool_json(p, count=world.listed_count(p.id)) for p in found])

    @face.get(f"{POOLS}/<pool>")
    def show_pool(pool: str) -> Response:
        with live.moved() as world:
            return jsonify(pool_json(_pool(world, pool), count=world.listed_count(pool)))


def _add_resizing(face: Blueprint, live: Live) -> None:
    @face.put(f"{POOLS}/<pool>")
    def update_pool(pool: str) -> Response:
        body = body_of_request()
        count, labels, taints = count_in(body), labels_in(body), taints_in(body)
        with live.moved() as world:
            found = _pool(world, pool)
            if body.get("size") not in (None, "", found.size):
                raise Denied("database_kubernetes_cluster_invalid", 400, "The size of a pool cannot be changed")
            if count is not None:  # without a count nothing changes: an old client leaves out a zero
                world.resize(pool, count)
            wiped = "taints" in body and taints is None and world.config.behaviour.taints_null_wipes
            new_taints: tuple[Taint, ...] | None = () if wiped else taints
            if labels is not None or new_taints is not None:
                world.relabel(pool, labels=labels, taints=new_taints)
            return jsonify(pool_json(found, count=found.required))


def _create(world: World, body: Mapping[str, Any]) -> None:
    name = str(body.get("size") or "")
    fields = {
        "id": str(body.get("id") or ""),
        "count": count_in(body) or 0,
        "labels": labels_in(body) or {},
        "taints": taints_in(body) or (),
    }
    size = next((s for s in sizes_of(p.spec for p in world.pools.values()) if s.name == name), None)
    if size is None:
        raise Denied("database_size_not_found", 404, f"Failed to find the size {name!r}")
    if not fields["id"]:
        raise Denied("database_kubernetes_cluster_invalid", 400, "A pool needs an id")
    world.create_pool(pool_of(size, **fields))


def _pool(world: World, pool: str) -> CivoPool:
    try:
        return world.pools[pool]
    except KeyError:
        raise Denied("database_cluster_pool_not_found", 404, "Failed to find the pool") from None
