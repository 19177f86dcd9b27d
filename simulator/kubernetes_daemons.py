"""The GPU operator's DaemonSets as the API shows them after a correct installation."""

from collections.abc import Sequence
from typing import Any

from simulator.kubernetes_objects import stamp, taint_json, uid_of
from simulator.live import DAEMONS, OPERATOR_NAMESPACE, Live

JSON = dict[str, Any]


def daemon_sets(live: Live) -> list[JSON]:
    """Return the DaemonSets of the operator; their pods tolerate the taints of every GPU pool.

    The caller holds the lock of the world, or accepts a slightly later answer.
    """
    if not live.config.kubernetes.daemonsets:
        return []
    pools = [pool for pool in live.config.pools if pool.resources]
    worn = [taint_json(taint) for pool in pools for taint in pool.taints]
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, *worn]
    with live.moved() as world:
        on = sum(bool(node.gpus) and node.ready for node in world.nodes.values())
    return [_daemon_set(name, tolerations, on, stamp(live.started_at)) for name in DAEMONS]


def _daemon_set(name: str, tolerations: Sequence[JSON], on: int, since: str) -> JSON:
    spec = {"containers": [{"name": name, "image": f"nvcr.io/nvidia/{name}:1"}], "tolerations": list(tolerations)}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": OPERATOR_NAMESPACE,
            "uid": uid_of("DaemonSet", name),
            "resourceVersion": "1",
            "creationTimestamp": since,
            "labels": {"app": name},
        },
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
        "status": {
            "currentNumberScheduled": on,
            "desiredNumberScheduled": on,
            "numberReady": on,
            "numberMisscheduled": 0,
        },
    }


def overlaid(made: Sequence[JSON], given: Sequence[JSON]) -> list[JSON]:
    """Return *made* with those of *given* in the place of their namesakes, and the rest of *given* behind them."""

    def key(found: JSON) -> tuple[str, str]:
        return found["metadata"].get("namespace", ""), found["metadata"]["name"]

    return list(({key(o): o for o in made} | {key(o): o for o in given}).values())
