"""Fill nodes before opening others: which soft taints a pool's nodes should carry.

kube-scheduler without a profile of its own spreads pods over the emptiest nodes, so that few ever fall idle. A taint
with the effect PreferNoSchedule keeps nobody away; the scheduler prefers nodes with fewer of them (plugin
TaintToleration, https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/). The fullest node of a
pool that has room carries none, the others in use one, idle ones two.
"""

from collections.abc import Iterator

from receiver.core.model import Facts, Node, PoolState, Stage
from receiver.core.policy import Packing, Policy, Pool, Taint

FILL_OTHERS_FIRST = Taint(key="gpu-autoscaler.io/fill-others-first", effect="PreferNoSchedule")
IDLE = Taint(key="gpu-autoscaler.io/idle", effect="PreferNoSchedule")
SOFT_TAINTS = (FILL_OTHERS_FIRST, IDLE)


def soft_taints(facts: Facts, policy: Policy) -> Iterator[tuple[Node, tuple[Taint, ...]]]:
    """Yield the nodes whose soft taints are not as they should be, each with those that it should carry.

    A full node is left as it is, for nothing chooses it; so is one that takes no work, or is not usable. Where every
    node holds one GPU there is nothing to fill, and no node should carry any.
    """
    fills = policy.packing is Packing.FULLEST_FIRST and any(p.gpus_per_node > 1 for p in policy.pools)
    for pool in policy.pools:
        state = facts.pool(pool.id)
        fullest = _fullest(state, pool) if fills else None
        for node in state.of(Stage.USABLE):
            if not _takes_work(node) or (fills and not _room(node, pool)):
                continue
            if not fills or node is fullest:
                wanted: tuple[Taint, ...] = ()
            else:
                wanted = (FILL_OTHERS_FIRST,) if node.busy else SOFT_TAINTS
            if {t.key for t in node.taints if t in SOFT_TAINTS} != {t.key for t in wanted}:
                yield node, wanted


def _fullest(state: PoolState, pool: Pool) -> Node | None:
    """The node in use with the least room that still has some, the oldest of those."""
    open_ones = [n for n in state.of(Stage.USABLE) if n.busy and _takes_work(n) and _room(n, pool)]
    return min(open_ones, key=lambda n: (_room(n, pool), n.created_at, n.name), default=None)


def _takes_work(node: Node) -> bool:
    return node.registered and node.cordoned_by is None and node.closed_for is None


def _room(node: Node, pool: Pool) -> int:
    """GPUs of *node* that no pod holds."""
    free = node.free
    return sum(max(0, free.get(resource, 0)) for resource in pool.resources)
