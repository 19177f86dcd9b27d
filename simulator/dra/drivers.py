"""The DRA drivers of nodes: they publish ResourceSlices one after the other, and replace them when a device changes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from receiver.replay.world.cluster import Agenda
from receiver.replay.world.objects import DeviceSet, WorldNode
from simulator.dra.claims import SLICE, Claims
from simulator.dra.devices import JSON, slices_of

AT_ONCE = timedelta(0)


@dataclass(slots=True, eq=False)
class Drivers:
    """Publishes the devices of nodes. Between two slices of a pool *between* passes, and before the first."""

    _claims: Claims
    _agenda: Agenda
    between: timedelta
    _sets: dict[str, tuple[WorldNode, tuple[DeviceSet, ...]]] = field(default_factory=dict)  # by node
    _generations: dict[str, int] = field(default_factory=dict)
    _withheld: set[str] = field(default_factory=set)  # nodes whose last slice does not come

    def start(
        self,
        node: WorldNode,
        sets: tuple[DeviceSet, ...],
        complete: Callable[[], None],
        *,
        at_once: bool = False,
        withheld: bool = False,
    ) -> None:
        """Publish *sets*; *complete* is called when every slice is there."""
        if sets:
            self._sets[node.name] = (node, sets)
            (self._withheld.add if withheld else self._withheld.discard)(node.name)
        self._publish(node, sets, complete, AT_ONCE if at_once else self.between)

    def stop(self, node: str) -> None:
        """Withdraw everything that was published of *node*."""
        self._sets.pop(node, None)
        self._withheld.discard(node)
        for key in [key for key, one in self._claims.objects[SLICE].items() if one["spec"].get("nodeName") == node]:
            self._claims.remove(SLICE, key)

    def taint(self, node: str, device: str, taint: Mapping[str, Any] | None) -> None:
        """Put *taint* on a device in place of every other one, or remove them all, in a new generation."""
        if node in self._sets:
            at, sets = self._sets[node]
            changed = tuple(
                replace(device_set, devices=tuple(_with(d, device, taint) for d in device_set.devices))
                for device_set in sets
            )
            self._sets[node] = (at, changed)
            self._publish(at, changed, lambda: None, self.between)

    def _publish(
        self, node: WorldNode, sets: tuple[DeviceSet, ...], complete: Callable[[], None], between: timedelta
    ) -> None:
        generation = self._generations[node.name] = self._generations.get(node.name, 0) + 1
        slices = [
            device_slice
            for device_set in sets
            for device_slice in slices_of(device_set, node.name, node.uid, generation)
        ]
        slices = slices[: len(slices) - (node.name in self._withheld)]
        for number, device_slice in enumerate(slices, 1):
            if between:
                self._agenda.after(between * number, self._put, node, device_slice, generation)
            else:
                self._put(node, device_slice, generation)
        if node.name in self._withheld:
            return
        if between and slices:
            self._agenda.after(between * len(slices), complete)
        else:
            complete()

    def _put(self, node: WorldNode, device_slice: JSON, generation: int) -> None:
        if node.name in self._sets and self._generations[node.name] == generation:
            self._claims.put(SLICE, device_slice)
            self._claims.changed()


def _with(device: Mapping[str, Any], name: str, taint: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if device["name"] != name:
        return device
    return {**device, "taints": [dict(taint)] if taint is not None else []}
