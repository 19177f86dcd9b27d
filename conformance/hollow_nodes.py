"""Nodes without machines in a real cluster: each node of the simulated Civo becomes a Node object there.

A thread plays what stands behind them: Civo's registration and removal of nodes, the driver that makes GPUs
allocatable, and the kubelet (heartbeats, pods that run, end and go). Where KWOK is the kubelet, it is told by an
annotation. Whatever the product or people write on a Node stays theirs; this reads the pods of its own nodes only.
"""

import logging
import threading
from datetime import datetime, timedelta
from typing import Literal

from urllib3.exceptions import HTTPError

from conformance.kubernetes_api import JSON, Api, ApiRefused, gone_is_fine, part
from conformance.plan import MARK, RUNS_FOR
from receiver.adapters.clock import SystemClock
from receiver.replay.world.objects import WorldNode
from simulator.dra.claims import CLASS, SLICE
from simulator.kubernetes_objects import micro_stamp, node_json, stamp
from simulator.server import Simulator

LOG = logging.getLogger("conformance")
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
DRA = "/apis/resource.k8s.io/v1"
EVERY = 0.2  # seconds
HEARTBEAT = timedelta(seconds=8)
LEASE_SECONDS = 40
Kubelet = Literal["stub", "kwok"]


class HollowNodes:
    """Runs from `start` to `stop`, which removes every node that it created."""

    def __init__(self, simulator: Simulator, api: Api, kubelet: Kubelet) -> None:
        self._simulator, self._api, self._kubelet = simulator, api, kubelet
        self._shown: dict[str, WorldNode] = {}  # by name, as last brought into the cluster
        self._beaten: dict[str, datetime] = {}
        self._published: dict[str, JSON] = {}  # by path: what DRA drivers show, as it was brought in
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hollow-nodes", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and delete the nodes with what belongs to them. Raises ApiRefused."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(30)
        for name in tuple(self._shown):
            self._drop(name)
        self._publish({})

    def _run(self) -> None:
        while not self._stopping.wait(EVERY):
            try:
                self.turn()
            except (ApiRefused, HTTPError) as error:  # the next turn tries again
                LOG.warning("hollow nodes: %s", error)

    def turn(self) -> None:
        """Bring the cluster to what the simulated Civo has now."""
        with self._simulator.moved() as world:
            nodes = dict(world.nodes)
            devices = {
                f"{DRA}/{plural}/{name}": dict(one)
                for plural in (CLASS, SLICE)
                for (_, name), one in world.claims.objects[plural].items()
            }
        now = SystemClock().now()
        for name in [n for n in self._shown if n not in nodes]:
            self._drop(name)
        for name, node in nodes.items():
            if name not in self._shown:
                self._create(node)
            elif node.version != self._shown[name].version:
                self._change(self._shown[name], node)
            self._shown[name] = node
            if self._kubelet == "stub" and node.ready and now - self._beaten.get(name, now - HEARTBEAT) >= HEARTBEAT:
                self._beat(name, now)
        self._publish(devices)
        if self._kubelet == "stub":
            self._run_pods(now)

    # --- nodes ---

    def _create(self, node: WorldNode) -> None:
        made = node_json(node)
        automatic = "node.kubernetes.io/"  # the cluster sets these itself
        taints = [t for t in made["spec"].get("taints", ()) if not t["key"].startswith(automatic)]
        marks = {"kwok.x-k8s.io/node": "fake"} if self._kubelet == "kwok" else {}
        metadata = {"name": node.name, "labels": {**node.labels, MARK: "true"}, "annotations": marks}
        spec = {"providerID": node.provider_id, "taints": taints}
        self._created(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
        self._show_status(node)

    def _change(self, before: WorldNode, node: WorldNode) -> None:
        path = f"{NODES}/{node.name}"
        if node.labels != before.labels:
            labels = {k: v for k, v in node.labels.items() if before.labels.get(k) != v}
            gone_is_fine(lambda: self._api.patch(path, {"metadata": {"labels": labels}}))
        self._show_status(node)

    def _show_status(self, node: WorldNode) -> None:
        """Write the status; a Node that was deleted meanwhile does not come back."""
        status = node_json(node)["status"]
        gone_is_fine(lambda: self._api.patch(f"{NODES}/{node.name}/status", {"status": status}))

    def _beat(self, name: str, now: datetime) -> None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": micro_stamp(now)}
        if name not in self._beaten:
            metadata = {"name": name, "labels": {MARK: "true"}}
            made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            self._created(LEASES, made)
        else:
            gone_is_fine(lambda: self._api.patch(f"{LEASES}/{name}", {"spec": spec}))
        self._beaten[name] = now

    def _drop(self, name: str) -> None:
        self._api.delete(f"{NODES}/{name}")
        for pod in self._api.items("/api/v1/pods", fieldSelector=f"spec.nodeName={name}"):
            self._api.delete(_path(pod), at_once=True)
        if self._beaten.pop(name, None) is not None:
            self._api.delete(f"{LEASES}/{name}")
        self._shown.pop(name, None)

    def _publish(self, devices: dict[str, JSON]) -> None:
        """Bring in what DRA drivers show: ResourceSlices, and the classes that come with a driver."""
        for path in [p for p, one in self._published.items() if devices.get(p) != one]:
            self._api.delete(path)
            del self._published[path]
        for path in [p for p in devices if p not in self._published]:
            metadata = {"name": path.rpartition("/")[2], "labels": {MARK: "true"}}
            made = {k: v for k, v in devices[path].items() if k != "metadata"} | {"metadata": metadata}
            if self._created(path.rpartition("/")[0], made):
                self._published[path] = devices[path]

    def _created(self, path: str, made: JSON) -> bool:
        """Create an object; False where one of the name is there, which may be another's."""
        try:
            self._api.post(path, made)
        except ApiRefused as refused:
            if refused.status != 409:
                raise
            return False
        return True

    # --- pods ---

    def _run_pods(self, now: datetime) -> None:
        alive = {name for name, node in self._shown.items() if node.ready}
        if not alive:
            return
        for pod in self._api.items("/api/v1/pods"):
            if part(pod, "spec").get("nodeName") in alive:
                gone_is_fine(lambda pod=pod: self._run_pod(pod, now))  # type: ignore[misc]  # bound at once

    def _run_pod(self, pod: JSON, now: datetime) -> None:
        status = part(pod, "status")
        phase = status.get("phase") or "Pending"
        if pod["metadata"].get("deletionTimestamp"):
            self._api.delete(_path(pod), at_once=True)
        elif phase == "Pending":
            self._say(pod, "Running", {"running": {"startedAt": stamp(now)}}, startTime=stamp(now))
        elif phase == "Running":
            seconds = (pod["metadata"].get("annotations") or {}).get(RUNS_FOR)
            started = datetime.fromisoformat(status["startTime"]) if status.get("startTime") else now
            if seconds is not None and now - started >= timedelta(seconds=float(seconds)):
                ended = {"exitCode": 0, "reason": "Completed", "startedAt": stamp(started), "finishedAt": stamp(now)}
                self._say(pod, "Succeeded", {"terminated": ended})

    def _say(self, pod: JSON, phase: str, state: JSON, **more: str) -> None:
        """Write a pod's status as its kubelet does."""
        ready = phase == "Running"
        containers = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "containerID": f"hollow://{pod['metadata']['uid']}",
                "ready": ready,
                "restartCount": 0,
                "state": state,
            }
            for container in pod["spec"]["containers"]
        ]
        kinds = {"Initialized": True, "ContainersReady": ready, "Ready": ready}
        conditions = [{"type": kind, "status": str(holds)} for kind, holds in kinds.items()]
        status = {"phase": phase, "conditions": conditions, "containerStatuses": containers, **more}
        self._api.patch(f"{_path(pod)}/status", {"status": status}, "strategic")


def _path(pod: JSON) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
