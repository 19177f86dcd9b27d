"""The calls of Civo that the product never makes: people, other programs and Civo itself do."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from receiver.core.model.policy import Taint
from receiver.replay.world.cloud import SimulatedCloud
from receiver.replay.world.objects import Denied, WorldPool

if TYPE_CHECKING:
    from simulator.world import FaultyNodes


class CivoCloud(SimulatedCloud):
    """Civo with the calls that the product never makes."""

    _nodes: "FaultyNodes"

    def recycle(self, hostname: str) -> None:
        """Replace one node: same count, new instance, new name, no drain. Unknown: 404."""
        for pool in self.pools.values():
            for vm in pool.instances:
                if vm.hostname == hostname and vm.living:
                    self._retire(pool, vm, "recycle")
                    self._follow(pool)
                    return
        raise Denied("database_kubernetes_node_not_found", 404, "Failed to find the node")

    def create_pool(self, spec: WorldPool) -> None:
        if spec.id in self.pools:
            raise Denied("database_kubernetes_cluster_invalid", 400, "The pool exists already")
        if not self.behaviour.partial_fill:
            self.accounts.check(spec, spec.count)
        pool = self._add_pool(spec)
        self._require(pool, spec.count)
        self._follow(pool)

    def delete_pool(self, pool_id: str) -> None:
        pool = self.pool(pool_id)
        del self.pools[pool_id]
        self._require(pool, 0)
        for vm in pool.living:
            self._retire(pool, vm, "delete_pool")

    def relabel(
        self, pool_id: str, *, labels: Mapping[str, str] | None = None, taints: tuple[Taint, ...] | None = None
    ) -> None:
        """PUT a pool's labels or taints, which its nodes take over; None leaves them."""
        pool = self.pool(pool_id)
        if labels is not None:
            pool.labels = dict(labels)
        if taints is not None:
            pool.taints = taints
        self._nodes.pool_relabelled(pool)

    def listed_count(self, pool_id: str) -> int:
        """Return the ``count`` in a list of pools (Behaviour.list_count). Unknown: 404."""
        if self.behaviour.list_count == "desired":
            return self.shown_count(pool_id)
        return len(self.pool(pool_id).instances)

    def replace_pools(self, counts: Mapping[str, int]) -> None:
        """PUT the cluster with a full list of pools: those not listed are deleted. Unknown: 404."""
        for pool in counts:
            self.pool(pool)
        for pool in [p for p in self.pools if p not in counts]:
            self.delete_pool(pool)
        for pool, count in counts.items():
            self.resize(pool, count)
