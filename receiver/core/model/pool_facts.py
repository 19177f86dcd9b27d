"""What Civo says of a cluster's node pools, as far as a configuration may leave it out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from receiver.core.model.policy import Pool, Taint

GPU = "nvidia.com/gpu"  # what Civo counts


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAtCivo:
    """A pool's *size* (empty: not in the answer), *labels* and *taints* (None: not in the answer)."""

    size: str = ""
    labels: Mapping[str, str] | None = None
    taints: tuple[Taint, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFacts:
    """The *pools* of the *cluster* (region and id) by their ids, and the GPUs of one node by size (None: Civo gives no
    number). People choose ids of pools, so another cluster may have the same."""

    cluster: str = ""
    pools: Mapping[str, PoolAtCivo] = field(default_factory=dict)
    gpus: Mapping[str, int | None] = field(default_factory=dict)

    @classmethod
    def of(cls, pools: Sequence[Pool]) -> "PoolFacts":
        """Return what *pools* of a policy say."""
        pools_at_civo = {p.id: PoolAtCivo(size=p.size, labels=p.labels, taints=p.taints) for p in pools}
        return cls(pools=pools_at_civo, gpus={p.size: p.resources.get(GPU) for p in pools})

    def then(self, answer: "PoolFacts", configured: Mapping[str, str]) -> "PoolFacts":
        """Return these facts with a later *answer* over them.

        What the answer lacks stays known. A pool that is *configured* (its size by its id; empty: not known yet) keeps
        the size that was read first: prices and budgets depend on it, so a person confirms another one by writing it
        into the configuration.
        """
        pools, changed = dict(self.pools), self.resized(answer, configured)
        for pool, new in answer.pools.items():
            pool_at_civo = pools.get(pool, new)
            pools[pool] = replace(
                new,
                size=pool_at_civo.size if pool in changed else new.size or pool_at_civo.size,
                labels=pool_at_civo.labels if new.labels is None else new.labels,
                taints=pool_at_civo.taints if new.taints is None else new.taints,
            )
        counted = {size: gpus for size, gpus in answer.gpus.items() if gpus is not None or size not in self.gpus}
        return PoolFacts(cluster=answer.cluster, pools=pools, gpus={**self.gpus, **counted})

    def resized(self, answer: "PoolFacts", configured: Mapping[str, str]) -> Mapping[str, tuple[str, str]]:
        """Return the size that is known and the one in *answer* of each *configured* pool for which they differ, unless
        the configuration has the latter, by pool id."""
        sizes = {pool: (self.pools[pool].size, answer.pools[pool].size) for pool in self.pools.keys() & answer.pools}
        return {
            pool: (before, new)
            for pool, (before, new) in sizes.items()
            if before and new not in ("", before, configured.get(pool, new))
        }
