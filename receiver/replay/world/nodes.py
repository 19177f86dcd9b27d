"""Nodes: from an instance to a node that runs GPU pods and back, and the faults on the way."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from receiver.core.model.pods import allocatable
from receiver.core.model.policy import Taint
from receiver.replay.world.activity import Gpus
from receiver.replay.world.cluster import Agenda, ClusterObjects, Dice, merged
from receiver.replay.world.objects import POOL_LABEL, VM, CivoPool, Faults, Timings, WorldNode
from receiver.replay.world.pods import Pods

NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")
UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@dataclass(slots=True, eq=False)
class Nodes:
    """The Kubernetes nodes of Civo's instances."""

    _cluster: ClusterObjects
    _agenda: Agenda
    _timings: Timings
    _dice: Dice
    _faults: Faults
    _activity: Gpus
    _pods: Pods
    _region: str
    _by_instance: dict[str, str] = field(default_factory=dict)  # node names
    _machines: dict[str, VM] = field(default_factory=dict)  # by node name

    # --- start ---

    def machine_active(self, vm: VM, pool: CivoPool, *, at_once: bool = False) -> None:
        """Boot the node of *vm*: it registers NotReady half-way through the boot time and is Ready at its end."""
        if at_once:
            self._register(vm, pool)
            self._ready(vm, at_once=True)
            return
        boot = self._dice.spread(self._timings.boot)
        self._agenda.after(boot / 2, self._register, vm, pool)
        self._agenda.after(boot, self._ready, vm)

    def _register(self, vm: VM, pool: CivoPool) -> None:
        if not vm.living:
            return
        late = bool(self._timings.label_lag)
        bare = self._faults.takes("bare", pool.id) is not None
        node = WorldNode(
            name=vm.hostname,
            instance=vm.id,
            provider_id=vm.provider_id,
            pool=pool.id,
            created_at=self._agenda.now,
            uid=self._dice.uuid(),
            dra=vm.spec.served_by_dra,
            allocatable=allocatable(vm.spec.machine),
            labels={
                "kubernetes.io/hostname": vm.hostname,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": vm.size,
                "topology.kubernetes.io/region": self._region,
                **({} if late else pool_labels(pool, bare=bare)),
            },
            taints=with_automatic(
                (*(() if bare else pool.taints), *vm.spec.startup_taints), ready=False, unschedulable=False
            ),
        )
        vm.registered_at = self._agenda.now
        self._by_instance[vm.id] = vm.hostname
        self._machines[vm.hostname] = vm
        self._cluster.add_node(node)
        self._pods.scheduler.node_changed(node.name)
        if late:
            self._agenda.after(self._timings.label_lag, self._label, vm, pool, bare)

    def _ready(self, vm: VM, *, at_once: bool = False) -> None:
        node = self._node_of(vm)
        if not vm.living or node is None:
            return
        vm.ready_at = self._agenda.now
        self._set_ready(node, ready=True)
        if not vm.spec.resources:
            vm.usable_at = self._agenda.now
        elif at_once:
            self._driver(vm, at_once=True)
            self._set_up(vm)
        elif self._faults.takes("gpu_never", vm.pool) is None:
            self._agenda.after(self._dice.spread(self._timings.driver), self._driver, vm)

    def _driver(self, vm: VM, *, at_once: bool = False) -> None:
        node = self._node_of(vm)
        if not vm.living or node is None:
            return
        if vm.spec.startup_taints:
            self._agenda.after(self._dice.spread(self._timings.set_up), self._set_up, vm)
        offered = {**node.allocatable, **vm.spec.resources}
        node = self._change(node, allocatable=offered, labels={**node.labels, **vm.spec.gpu_labels})
        self._gpus_up(node.name, vm)
        self._show_gpus(node, vm, at_once=at_once)

    def _show_gpus(self, node: WorldNode, vm: VM, *, at_once: bool) -> None:  # noqa: ARG002
        """Show the GPUs of *vm*, whose driver runs: the node's status does so at once."""
        self._shown(vm)

    def _set_up(self, vm: VM) -> None:
        node = self._node_of(vm)
        if vm.living and node is not None and vm.usable_at is None:
            self._change(node, taints=tuple(t for t in node.taints if t not in vm.spec.startup_taints))
            if vm.shown:
                vm.usable_at = self._agenda.now

    def _shown(self, vm: VM) -> None:
        """Every GPU of *vm* is shown in the node's status or in slices."""
        node = self._node_of(vm)
        if vm.living and node is not None and vm.usable_at is None:
            vm.shown = True
            if not set(node.taints) & set(vm.spec.startup_taints):
                vm.usable_at = self._agenda.now

    def _gpus_up(self, name: str, vm: VM) -> None:
        self._activity.node_up(name, vm)
        for key in self._cluster.pods_on.get(name, ()):
            self._activity.hold(self._cluster.pods[key], name)

    def _label(self, vm: VM, pool: CivoPool, bare: bool) -> None:
        node = self._node_of(vm)
        if node is not None:
            self._change(node, labels={**node.labels, **pool_labels(pool, bare=bare)})

    # --- end ---

    def machine_dies(self, vm: VM, by: str) -> None:
        """Switch *vm* off: its node is NotReady and everything on it stops."""
        node = self._node_of(vm)
        if node is not None:
            self._activity.node_down(node.name)
            self._pods.node_died(node.name, vm, by)
            self._set_ready(node, ready=False)

    def machine_gone(self, vm: VM) -> None:
        """Delete the node object of *vm* after `Timings.node_lingers`."""
        if self._node_of(vm) is not None:
            self._agenda.after(self._timings.node_lingers, self._drop, vm)

    def _drop(self, vm: VM) -> None:
        name = self._by_instance.pop(vm.id, None)
        if name is not None and name in self._cluster.nodes:
            self._drop_object(name)

    def _drop_object(self, name: str) -> None:
        self._machines.pop(name, None)
        self._cluster.drop_node(name)
        self._pods.node_removed(name)
        self._pods.scheduler.node_changed(name)

    def health(self, vm: VM) -> tuple[bool, bool]:
        node = self._node_of(vm)
        return (False, False) if node is None else (node.ready, node.unschedulable)

    def _set_ready(self, node: WorldNode, *, ready: bool) -> None:
        taints = with_automatic(node.taints, ready=ready, unschedulable=node.unschedulable)
        self._change(node, ready=ready, ready_since=self._agenda.now if ready else None, taints=taints)

    # --- calls of the Kubernetes API ---

    def patch(
        self,
        name: str,
        *,
        unschedulable: bool | None = None,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
        taints: Sequence[Taint] | None = None,
    ) -> WorldNode:
        """Change a node; a label or annotation of None is removed. Unknown: 404."""
        node = self._cluster.node(name)
        closed = node.unschedulable if unschedulable is None else unschedulable
        patched: dict[str, Any] = {
            "unschedulable": closed,
            "labels": merged(node.labels, labels),
            "annotations": merged(node.annotations, annotations),
            "taints": with_automatic(node.taints if taints is None else taints, ready=node.ready, unschedulable=closed),
        }
        changes = {k: v for k, v in patched.items() if v != getattr(node, k)}
        return self._change(node, **changes) if changes else node

    def _change(self, node: WorldNode, **changes: object) -> WorldNode:
        changed = self._cluster.change_node(node, **changes)
        self._pods.scheduler.node_changed(node.name)
        return changed

    def _node_of(self, vm: VM) -> WorldNode | None:
        return self._cluster.nodes.get(self._by_instance.get(vm.id, ""))


def with_automatic(taints: Iterable[Taint], *, ready: bool, unschedulable: bool) -> tuple[Taint, ...]:
    """Return *taints* with those that Kubernetes sets on a node in this state."""
    other_taints = tuple(t for t in taints if t not in (NOT_READY, UNSCHEDULABLE))
    return other_taints + ((UNSCHEDULABLE,) if unschedulable else ()) + (() if ready else (NOT_READY,))


def pool_labels(pool: CivoPool, *, bare: bool = False) -> Mapping[str, str]:
    """Return the labels that the nodes of *pool* carry, without its own ones where they are *bare*."""
    return {
        POOL_LABEL: pool.id,
        "kubernetes.civo.com/civo-node-size": pool.size,
        **({} if bare else pool.labels),
    }
