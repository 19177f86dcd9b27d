"""A scheduler that allocates the devices that pods claim."""

from collections.abc import Hashable, Sequence
from typing import Any

from receiver.replay.world.cluster import Key
from receiver.replay.world.objects import CLAIMS, WorldNode, WorldPod
from receiver.replay.world.scheduler import NodeChoice, Scheduler
from simulator.dra.allocator import UnjudgedError
from simulator.dra.claims import Allocation, Claims


class ClaimScheduler(Scheduler):
    """Places a pod where its claims can be allocated. What a DRA driver serves on a node is not counted there."""

    def __init__(self, *parts: Any, claims: Claims) -> None:
        super().__init__(*parts)
        self._claims = claims
        self._errors: dict[Key, UnjudgedError] = {}  # of the last try, for the pod that was tried

    def _of_its_own(self, pod: WorldPod) -> Hashable:
        return pod.key if pod.claims else None

    def forget(self, pod: WorldPod) -> None:
        self._errors.pop(pod.key, None)
        super().forget(pod)

    def devices_changed(self) -> None:
        """Try waiting pods again: devices may have become free."""
        self._room_came = True
        self._ask_for_pass()

    def _has_room(self, node: WorldNode) -> bool:
        return node.dra or super()._has_room(node)

    def _is_counted(self, resource: str, pod: WorldPod, node: WorldNode) -> bool:
        return resource in pod.compute or not (node.dra or (resource == CLAIMS and pod.claims))

    def _try(self, key: Key) -> bool:
        self._errors.pop(key, None)
        try:
            return super()._try(key)
        except UnjudgedError as error:
            self._errors[key] = error
            return False

    def _on_node(self, node: WorldNode, pod: WorldPod, assumed: Sequence[NodeChoice]) -> NodeChoice | None:
        if not node.dra and not pod.claims:
            return Allocation(node.name, {})
        allocations = [place for place in assumed if isinstance(place, Allocation)]
        allocation = self._claims.fit(pod, node, allocations)
        return None if isinstance(allocation, str) else allocation

    def _put(self, pod: WorldPod, place: NodeChoice) -> None:
        assert isinstance(place, Allocation)
        super()._put(self._claims.reserve(pod, place), place)

    def _refusal(self, pod: WorldPod) -> tuple[str, str]:
        error = self._errors.get(pod.key)
        if error is None:
            try:
                return super()._refusal(pod)
            except UnjudgedError as unjudged:  # the try of its gang ended at another pod, or before this node
                error = unjudged
        return "SchedulerError", f'running "DynamicResources" filter plugin: {error}'

    def _why_not(self, pod: WorldPod) -> str:
        refused, nodes = self._claims.refuses(pod), self._cluster.nodes
        return f"0/{len(nodes)} nodes are available: {refused}." if refused and nodes else super()._why_not(pod)

    def _lacks(self, pod: WorldPod, node: WorldNode) -> Sequence[str]:
        short = [each for each in super()._lacks(pod, node) if each != f"Insufficient {CLAIMS}"]
        unfit = "" if short else self._claims.fit(pod, node)
        return [unfit] if isinstance(unfit, str) and unfit else short
