"""A scheduler that refuses pods for reasons beside room, taints and labels, and one that reserves before it binds."""

from collections.abc import Hashable, Mapping, Sequence

from receiver.replay.world.objects import WorldNode, WorldPod
from receiver.replay.world.scheduler import NodeChoice, Taken, Wish
from simulator.dra.scheduler import ClaimScheduler

OBSTACLE_ANNOTATION = "simulator/obstacle"  # why no node takes the pod: a key of `OBSTACLES`
PORT_ANNOTATION = "simulator/host-port"  # a port of the host: one such pod per node
FITS = "node(s) didn't have room for the whole gang"  # what `why_not` says of a node on which the pod has room
PORT_TAKEN = "node(s) didn't have free ports for the requested pod ports"
# What kube-scheduler says of each node that has room, or (whole) of the pod.
OBSTACLES: Mapping[str, str] = {
    "volumes": "node(s) exceed max volume count",
    "binding": "node(s) didn't find available persistent volumes to bind",
    "hugepages": "Insufficient hugepages-2Mi",
    "network": "Insufficient rdma/hca",
}
WHOLE: Mapping[str, str] = {
    "claim": 'persistentvolumeclaim "data" not found',
    "unbound": "pod has unbound immediate PersistentVolumeClaims",
}


class HinderedScheduler(ClaimScheduler):
    """Binds no pod with an obstacle, and one pod with a port of the host per node."""

    def _of_its_own(self, pod: WorldPod) -> Hashable:
        return super()._of_its_own(pod), _hindrances(pod)

    def _choose(self, pod: WorldPod, wish: Wish, taken: Taken, assumed: Sequence[NodeChoice]) -> NodeChoice | None:
        return None if OBSTACLE_ANNOTATION in pod.annotations else super()._choose(pod, wish, taken, assumed)

    def _left_over(self, pod: WorldPod, node: WorldNode, taken: Taken) -> float | None:
        return None if self._port_is_taken(pod, node.name) else super()._left_over(pod, node, taken)

    def _port_is_taken(self, pod: WorldPod, node: str) -> bool:
        port = pod.annotations.get(PORT_ANNOTATION)
        return port is not None and any(p.annotations.get(PORT_ANNOTATION) == port for p in self._cluster.on(node))

    def _why_not(self, pod: WorldPod) -> str:
        obstacle, said = pod.annotations.get(OBSTACLE_ANNOTATION, ""), super()._why_not(pod)
        if obstacle in WHOLE and self._cluster.nodes:
            return f"0/{len(self._cluster.nodes)} nodes are available: {WHOLE[obstacle]}."
        return said.replace(FITS, OBSTACLES.get(obstacle, PORT_TAKEN if PORT_ANNOTATION in pod.annotations else FITS))


def _hindrances(pod: WorldPod) -> tuple[str | None, ...]:
    return tuple(pod.annotations.get(key) for key in (OBSTACLE_ANNOTATION, PORT_ANNOTATION))
