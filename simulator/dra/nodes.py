"""Nodes whose GPUs a DRA driver may serve."""

from functools import partial
from typing import Any

from receiver.replay.world.nodes import Nodes
from receiver.replay.world.objects import VM, WorldNode
from simulator.dra.devices import device_sets
from simulator.dra.drivers import Drivers
from simulator.dra.pods import ClaimingPods


class ServedNodes(Nodes):
    """Nodes with DRA drivers: their GPUs are shown once every ResourceSlice is there."""

    _pods: ClaimingPods

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.drivers = Drivers(self._pods.claims, self._agenda, self._timings.slices)

    def _show_gpus(self, node: WorldNode, vm: VM, *, at_once: bool) -> None:
        withheld = self._faults.takes("slices", vm.pool) is not None
        self.drivers.start(node, device_sets(vm.spec), partial(self._shown, vm), at_once=at_once, withheld=withheld)

    def _drop_object(self, name: str) -> None:
        self.drivers.stop(name)
        super()._drop_object(name)
