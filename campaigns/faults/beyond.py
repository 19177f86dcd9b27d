"""Invariant 2 beyond the stop line: no dollar goes to a node whose pod was not running when the line was reached.

Exact from the first step on that saw the line and could reach Kubernetes: from then on no new GPU pod begins on a node
that we could close, so every paid unit that such a node begins is that of a pod from before. Until that step, and on a
node between its appearance in Kubernetes and our next step, work may still begin; whoever tolerates a cordon, or binds
a pod by hand, is not kept out by one. A node that hosts us or the monitoring stays open.
"""

from collections.abc import Callable, Collection
from datetime import datetime

from campaigns.faults.truth import Truth
from receiver.core.model.policy import Budget
from receiver.ports import STOP_ANNOTATION
from receiver.replay.world.nodes import UNSCHEDULABLE
from receiver.replay.world.objects import WorldNode, WorldPod
from receiver.replay.world.scheduler import untolerated
from simulator.cluster_port import HOST_LABEL, HOSTS


class BeyondTheLine:
    """Watches the nodes of pools whose budget is at its stop. *violated* notes what must not be."""

    def __init__(
        self,
        truth: Truth,
        budget: Budget | None,
        clock: Callable[[], datetime],
        violated: Callable[[str, str], None],
    ) -> None:
        self._truth, self._budget, self._clock, self._violated = truth, budget, clock, violated
        self._bound_by_hand = {e.what["id"] for e in truth.scenario.events if e.kind == "bind"}
        self._answered: set[str] = set()  # the looks of this step that were answered
        self._there: set[str] = set()  # nodes that Kubernetes showed to this step
        self._hosted: set[str] = set()  # of these, the ones that hosted us or the monitoring then
        self._hindered = False  # a fault struck Kubernetes, or somebody made nodes schedulable, in this step
        self._closed: dict[str, frozenset[str]] = {}  # by node: the GPU pods that ran there when it was closed
        self.ever_closed: set[str] = set()

    def called(self, name: str, *, failed: bool) -> None:
        """Follow the looks of a step."""
        if name == "store.memory":  # the first call of a step
            self._answered, self._hindered = set(), False
            self._nothing_began()
        elif name.endswith(".look") and not failed:
            self._answered.add(name)
            if name == "cluster.look":
                self._there = set(self._truth.world.nodes)
                self._hosted = {name for name in self._there if self._hosts(name)}

    def struck(self, name: str) -> None:
        """A fault struck at call *name*."""
        self._hindered = self._hindered or name.startswith(("cluster.", "world."))

    def made_schedulable(self) -> None:
        """Somebody else made a node schedulable, perhaps after we closed it in this very step."""
        self._hindered = True

    def before_patch(self, node: WorldNode, unschedulable: bool) -> None:
        """We open no node that is closed to new work while the stop lasts, but one that has come to host us."""
        if node.name in self._hosted:
            return
        if not unschedulable and STOP_ANNOTATION in node.annotations and self._is_stopped(node.pool):
            self._violated("2 beyond the line", f"{node.name} is opened to new work, and the budget is at its stop")

    def stepped(self, shown: Collection[str], *, known: bool, aside: Collection[str] = ()) -> None:
        """After a step that could: every node that it was *shown* of a pool at its stop is closed, but for pools set
        *aside* because of a bug, whose nodes it may not know. *known* is whether the spend is."""
        self._nothing_began()
        if not known or self._hindered or not self._answered >= {"cloud.look", "cluster.look"}:
            return
        if self._truth.scenario.mode != "act":
            return
        for pool in self._truth.world.pools.values():
            if pool.id in aside or not self._is_stopped(pool.id):
                continue
            for vm in (vm for vm in pool.living if vm.hostname in self._there and vm.hostname in shown):
                node = self._truth.node_of(vm)
                if node is None or node.name in self._hosted or self._hosts(node.name):
                    continue
                if not node.unschedulable:
                    self._violated("2 beyond the line", f"{node.name} takes new work, and the budget is at its stop")
                elif STOP_ANNOTATION in node.annotations and node.name not in self._closed:
                    given = [*self._truth.gpu_pods_on(node), *self._truth.reserved_on(node.name)]
                    self._closed[node.name] = frozenset(p.uid for p in given)
                    self.ever_closed.add(node.name)

    def _nothing_began(self) -> None:
        """On the nodes that were closed, and that nobody opened meanwhile, no other pod has begun."""
        for name, ran in list(self._closed.items()):
            node = self._truth.world.nodes.get(name)
            if node is None or not node.unschedulable or STOP_ANNOTATION not in node.annotations:
                del self._closed[name]
                continue
            for pod in self._truth.gpu_pods_on(node):
                if pod.uid not in ran and self._is_kept_out(pod):
                    self._violated("2 beyond the line", f"{pod.namespace}/{pod.name} began on {name}, which is closed")

    def _hosts(self, node: str) -> bool:
        """True while one of our own or the monitoring's pods is on *node*."""
        return any(p.node == node and p.labels.get(HOST_LABEL) in HOSTS for p in self._truth.world.active_pods.values())

    def _is_kept_out(self, pod: WorldPod) -> bool:
        """True for a pod that a cordon keeps off a node."""
        return pod.name not in self._bound_by_hand and untolerated([UNSCHEDULABLE], pod.tolerations) is not None

    def _is_stopped(self, pool: str) -> bool:
        return self._budget is not None and self._truth.surely_stopped(pool, self._budget, self._clock())
