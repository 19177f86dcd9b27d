"""A summary of the world for assertions and for people."""

from datetime import timedelta
from typing import Any

from receiver.replay.world.cloud import LONGEST_WINDOW
from simulator.kubernetes_objects import stamp
from simulator.live import Live
from simulator.world import World

JSON = dict[str, Any]


def state_json(live: Live, world: World) -> JSON:
    """Return pools, nodes, pods, kills, finished jobs, money and charges. Durations are seconds, money USD as text."""
    charges = world.charges(max(live.started_at, world.now - LONGEST_WINDOW + timedelta(hours=1)), world.now)
    return {
        "now": world.now.isoformat(),
        "started_at": live.started_at.isoformat(),
        "version": world.version,
        "cluster_status": world.cluster_status,
        "pools": [_pool(p) for p in world.pools.values()],
        "nodes": [_node(n) for n in world.nodes.values()],
        "pods": [_pod(p) for p in world.pods.values()],
        "events": [_event(e) for e in world.events],
        "kills": [
            {
                "at": k.at.isoformat(),
                "pod": f"{k.namespace}/{k.name}",
                "node": k.node,
                "instance": k.instance,
                "gpus": k.gpus,
                "ran_seconds": k.ran.total_seconds(),
                "by": k.by,
            }
            for k in world.kills
        ],
        "finished": [
            {
                "id": j.id,
                "team": j.team,
                "gpus": j.gpus,
                "wait_seconds": j.wait.total_seconds(),
                "restarts": j.restarts,
                "finished_at": j.finished_at.isoformat(),
            }
            for j in world.finished
        ],
        "gpu_seconds": world.gpu_seconds,
        "paid": {"usd": str(world.paid()), "node_hours": sum(c.num_hours for c in charges)},
        "charges": [
            {
                "code": c.code,
                "label": c.label,
                "from": stamp(c.frm),
                "to": stamp(c.to) if c.to else None,
                "num_hours": c.num_hours,
            }
            for c in charges
        ],
        "quota": {"usage": dict(world.quota_usage), "limits": dict(world.config.quota)},
    }


def _pool(pool: Any) -> JSON:
    return {
        "id": pool.id,
        "size": pool.size,
        "required": pool.required,
        "instances": [
            {
                "id": vm.id,
                "hostname": vm.hostname,
                "status": vm.status,
                "created_at": vm.created_at.isoformat(),
                "usable_at": vm.usable_at.isoformat() if vm.usable_at else None,
            }
            for vm in pool.instances
        ],
    }


def _node(node: Any) -> JSON:
    return {
        "name": node.name,
        "pool": node.pool,
        "instance": node.instance,
        "ready": node.ready,
        "unschedulable": node.unschedulable,
        "gpus": dict(node.gpus),
        "annotations": dict(node.annotations),
    }


def _pod(pod: Any) -> JSON:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "phase": pod.phase,
        "node": pod.node,
        "requests": dict(pod.requests),
        "scheduled": pod.scheduled,
        "reason": pod.reason,
        "message": pod.message,
        "owner": f"{pod.owner_kind}/{pod.owner_name}" if pod.owner_kind else "",
    }


def _event(event: Any) -> JSON:
    about = "/".join(filter(None, (event.kind, event.namespace, event.name)))
    return {
        "at": event.at.isoformat(),
        "about": about,
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
    }
