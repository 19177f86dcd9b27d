"""The account's quota beside what the pools may come to: a pure judgement. Civo has no quota of GPUs."""

from collections.abc import Iterator, Mapping

from receiver.adapters.survey.civo import PoolAtCivo, Quota, SizeAtCivo
from receiver.core.model.policy import Policy, Pool
from receiver.doctor.finding import Check, Finding

QUOTA = Check(
    "civo.quota",
    "whether instances, CPU, RAM and disk of the account's quota allow every pool its `max_nodes` (within "
    "`limits.max_gpus`) beside what is used; Civo has no quota of GPUs",
    ("warn", "fail", "skip"),
    "ask Civo to raise the quota (dashboard, Quota), or lower max_nodes",
)
UNITS = {"instance_count": "instances", "cpu_core": "CPU cores", "ram_mb": "MB of RAM", "disk_gb": "GB of disk"}


def quota(
    policy: Policy, found: Mapping[str, PoolAtCivo], sizes: Mapping[str, SizeAtCivo], account: Quota
) -> Iterator[Finding]:
    """Fail where a pool that may grow cannot get one more node, warn where not all can come to their maximum."""
    known = [pool for pool in policy.pools if pool.size in sizes]
    if not known or not account.limit:
        yield QUOTA.skipped("sizes or limits are not known, so there is nothing to compare")
        return
    unknown = [f"{pool.name} ({pool.size})" for pool in policy.pools if pool.size not in sizes]
    have = {pool.id: found[pool.id].required if pool.id in found else 0 for pool in known}
    free = {name: account.limit[name] - account.usage[name] for name in account.limit}
    stuck = list(_stuck(known, have, sizes, free))
    yield from stuck
    short = []
    for name, room in free.items():
        need = _most(policy, known, have, {pool.id: sizes[pool.size].takes[name] for pool in known})
        if need > room:
            short.append(f"{need} {UNITS[name]} more are needed for the maxima, {max(0, room)} are left")
    if short and not stuck:
        yield QUOTA.warned("; ".join(short))
    elif unknown and not stuck:
        yield QUOTA.skipped(f"the others fit; not compared, because Civo lists no such size: {', '.join(unknown)}")
    elif not stuck:
        yield QUOTA.passed("every pool can come to its max_nodes; stock is another matter, and told by nobody")


def _stuck(
    pools: list[Pool], have: Mapping[str, int], sizes: Mapping[str, SizeAtCivo], free: Mapping[str, int]
) -> Iterator[Finding]:
    for pool in pools:
        takes = sizes[pool.size].takes
        lacks = [f"{UNITS[n]}: {takes[n]} needed, {max(0, room)} left" for n, room in free.items() if takes[n] > room]
        if lacks and have[pool.id] < pool.max_nodes:
            yield QUOTA.failed(f"not one more node of pool {pool.name} fits into the quota ({'; '.join(lacks)})")


def _most(policy: Policy, pools: list[Pool], have: Mapping[str, int], each: Mapping[str, int]) -> int:
    """What growth to the maxima can take at most of a thing of which a node of each pool takes *each*.

    Where ``limits.max_gpus`` allows not all maxima at once, the GPUs go where they take most.
    """
    gpus = policy.limits.max_gpus
    left = None if gpus is None else max(0, gpus - sum(have[p.id] * p.gpus_per_node for p in pools))
    total = 0
    for pool in sorted(pools, key=lambda p: each[p.id] / p.gpus_per_node, reverse=True):
        more = max(0, pool.max_nodes - have[pool.id])
        if left is not None:
            more = min(more, left // pool.gpus_per_node)
            left -= more * pool.gpus_per_node
        total += more * each[pool.id]
    return total
