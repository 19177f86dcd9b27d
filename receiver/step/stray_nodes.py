"""Kubernetes nodes that belong nowhere: to no instance that Civo lists, or to no configured pool any more."""

from collections.abc import Collection, Mapping, Sequence

from receiver.core.model.model import PoolState
from receiver.core.model.policy import POOL_LABEL, Pool
from receiver.ports import STOP_ANNOTATION, CloudPool, ClusterFacts


def unjoined(pool: Pool, cloud: Mapping[str, CloudPool] | None, cluster: ClusterFacts | None) -> tuple[str, ...]:
    """The Kubernetes nodes of *pool*, or with GPUs and of no pool, whose provider id names no listed instance."""
    if cloud is None or cluster is None:
        return ()
    listed = {i.id for found in cloud.values() for i in found.instances}
    return tuple(
        n.name
        for n in cluster.nodes
        if n.instance not in listed and n.ready
        and (n.labels.get(POOL_LABEL) == pool.id or ((n.allocatable or n.dra) and POOL_LABEL not in n.labels))
    )  # fmt: skip


def strays(pools: Sequence[PoolState], cluster: ClusterFacts | None, ours: Collection[str]) -> tuple[str, ...]:
    """The nodes that we closed to new work and that belong to none of *ours* (pool ids) any more."""
    known = {node.name for state in pools for node in state.nodes}
    closed = (n for n in (cluster.nodes if cluster else ()) if STOP_ANNOTATION in n.annotations)
    return tuple(n.name for n in closed if n.name not in known and n.labels.get(POOL_LABEL) not in ours)
