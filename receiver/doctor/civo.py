"""Civo: key, region and cluster; pools, sizes, quota and charges compared with the configuration."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing

from receiver.adapters.survey import CivoSurvey, SizeAtCivo, known_facts, survey_of
from receiver.config import Settings
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.pool_facts import PoolAtCivo, PoolFacts
from receiver.core.model.text import dollars, some
from receiver.doctor.checks import CALL_TIMEOUTS, Area, Check, Finding, Installation, few, skipped, taint_text
from receiver.ports import CloudPool, TryLater, WontWork

KEY = Check(
    "civo.key",
    "whether Civo accepts `CIVO_API_KEY`",
    "put a valid key of the account into the secret that sets CIVO_API_KEY (civo-api-access in kube-system has one)",
)
REGION = Check(
    "civo.region",
    "whether `CIVO_REGION` is a region of this key",
    "set CIVO_REGION as in the secret civo-api-access in kube-system",
)
CLUSTER = Check(
    "civo.cluster",
    "whether `CIVO_CLUSTER_ID` is a cluster in that region",
    "set CIVO_CLUSTER_ID as in the secret civo-api-access in kube-system; `civo kubernetes ls` lists them",
)
POOLS = Check(
    "civo.pools",
    "whether every configured pool exists in the cluster",
    "correct civo_pool_id in the configuration, or create the pool",
)
SIZE = Check(
    "civo.pool_size",
    "whether each pool's nodes have the configured size: price and budget depend on it",
    "if the pool was replaced, set `size` to its size at Civo",
)
LABELS, TAINTS = (
    Check(
        f"civo.pool_{kind}",
        f"whether each pool's {kind} at Civo are the configured ones",
        f"set the pool's {kind} at Civo (not by hand on nodes), or correct `{kind}`",
    )
    for kind in ("labels", "taints")
)
PRICE = Check(
    "civo.prices",
    "whether each pool's price is known: without one it does not grow (Civo's API has no prices)",
    "give the pool price_usd_per_hour, or its size a row in a prices_file (docs/configuration.md, Prices)",
)
OFFERED = Check(
    "civo.size_offered",
    "whether Civo lists each pool's size and offers it now (stock is not published)",
    "use another size, or ask Civo: it may refuse nodes of this size",
)
GPUS = Check(
    "civo.pool_gpus",
    "whether a node of the size has the GPUs in `resources` (not compared with MIG or time-slicing)",
    "correct `resources` or `size` of the pool",
)
QUOTA = Check(
    "civo.quota",
    "whether the account's quota of instances, CPU, RAM and disk allows every pool its `max_nodes` (within "
    "`limits.max_gpus`) in addition to current usage; Civo has no GPU quota",
    "ask Civo to raise the quota (dashboard, Quota), or lower max_nodes",
)
CHARGES = Check(
    "civo.charges",
    "whether the account's charges can be read: a new store starts from them",
    "use a key that may read charges, or state the month's spend (budget.spent_usd_stated)",
)
CHECKS = (KEY, REGION, CLUSTER, POOLS, SIZE, LABELS, TAINTS, PRICE, OFFERED, GPUS, QUOTA, CHARGES)
REFUSALS = {"authentication_": KEY, "region_unavailable": REGION, "database_kubernetes_cluster_": CLUSTER}
GPU = "nvidia.com/gpu"
UNITS = {"instance_count": "instances", "cpu_core": "CPU cores", "ram_mb": "MB of RAM", "disk_gb": "GB of disk"}


def look(installation: Installation) -> Iterator[Finding]:
    """Check Civo from the key to the charges; a failed call skips only the checks that need it."""
    policy = installation.settings.policy
    with closing(opened(installation)) as civo:
        try:
            cloud_pools = civo.look()
        except WontWork as error:
            yield from refused(error)
            return
        for check, message in ((KEY, "Civo accepts the key"), (REGION, civo.region), (CLUSTER, civo.cluster_id)):
            yield check.passed(message)
        yield from at_civo(policy.pools, cloud_pools, civo.shown().pools)
        effect = "its budget cannot be enforced" if policy.budget is not None else "its cost is unknown"
        bare = [f"{pool.name} ({pool.size})" for pool in policy.pools if pool.price_usd_per_hour is None]
        prices = ", ".join(f"{pool.name} {dollars(pool.price_usd_per_hour)}/h" for pool in policy.pools)
        no_price = f"no price is known for {', '.join(bare)}: it does not grow, because {effect}"
        yield PRICE.failed_if(bare, no_price, f"known: {prices}")
        try:
            sizes = civo.sizes()
            yield from offered(policy.pools, sizes)
            yield from quota(policy, cloud_pools, sizes, civo.free())
        except (TryLater, WontWork) as error:
            yield QUOTA.warned(str(error), "run the doctor again later, or use a key that may read sizes and quota")
        now = installation.clock.now()
        try:
            charges = civo.charges(now.replace(day=1, hour=0, minute=0, second=0, microsecond=0), now)
        except (TryLater, WontWork) as error:
            yield CHARGES.warned(str(error))
        else:
            problem = f"charges of this month cannot be read: {few(charges.unreadable)}"
            read = f"{len(charges.records)} charges of this month can be read"
            yield CHARGES.warned_if(charges.unreadable, problem, read)


def opened(installation: Installation) -> CivoSurvey:
    """Return Civo with the server's settings. Raises WontWork for a key or id that cannot be sent."""
    return survey_of(installation.settings.environment, CALL_TIMEOUTS)


def known(settings: Settings) -> tuple[PoolFacts | None, str]:
    """Return what is known of pools that the configuration leaves to Civo, as the server remembers and Civo says it,
    and why Civo's answer is missing."""
    return known_facts(settings, settings.environment, CALL_TIMEOUTS)


def refused(error: WontWork) -> Iterator[Finding]:
    """Find which of key, region and cluster Civo refused; those before it are valid, those after it unknown.

    Raises *error* if it is about none of them.
    """
    broken = next((check for sign, check in REFUSALS.items() if error.code.startswith(sign)), None)
    if broken is None:
        raise error
    order = (KEY, REGION, CLUSTER)
    place = order.index(broken)
    yield from (check.passed("accepted by Civo") for check in order[:place])
    yield broken.failed(str(error))
    yield from skipped(order[place + 1 :], f"unknown while {broken.name} fails")


def at_civo(
    pools: Sequence[Pool], cloud_pools: Mapping[str, CloudPool], marks_by_pool: Mapping[str, PoolAtCivo]
) -> Iterator[Finding]:
    """Compare each pool at Civo with its configuration; *marks_by_pool* has what some answers lack."""
    inventory = ", ".join(f"{p.id} ({p.size}, {some(p.required, 'node')})" for p in cloud_pools.values()) or "no pool"
    missing = [pool for pool in pools if pool.id not in cloud_pools]
    problems = [f"pool {pool.name} ({pool.id}) is not in the cluster, which has {inventory}" for pool in missing]
    unreadable = [pool for pool in pools if pool.id in cloud_pools and cloud_pools[pool.id].unreadable]
    problems += [
        f"Civo's response on pool {pool.name} is incomplete: {cloud_pools[pool.id].unreadable}" for pool in unreadable
    ]
    yield from POOLS.failures(problems, f"all {some(len(pools), 'configured pool')} found")
    for pool in pools:
        if pool.id not in cloud_pools:
            continue
        at, marks = cloud_pools[pool.id], marks_by_pool.get(pool.id, PoolAtCivo())
        differs = f"nodes of pool {pool.name} are {at.size} at Civo, and {pool.size} in the configuration"
        size = at.size or "Civo does not return its size"
        yield SIZE.failed_if(at.size and at.size != pool.size, differs, f"pool {pool.name}: {size}")
        labels = [f"{k}={v}" for k, v in marks.labels.items()] if marks.labels is not None else None
        yield _equal(LABELS, pool, [f"{k}={v}" for k, v in pool.labels.items()], labels)
        taints = [taint_text(taint) for taint in marks.taints] if marks.taints is not None else None
        yield _equal(TAINTS, pool, [taint_text(taint) for taint in pool.taints], taints)


def _equal(check: Check, pool: Pool, configured: Collection[str], present: Collection[str] | None) -> Finding:
    """Compare labels or taints of *pool* with those *present* at Civo (None: some answers lack the field)."""
    kind = "labels" if check is LABELS else "taints"
    if present is None and configured and not pool.apply_to_nodes:
        message = f"Civo does not return the {kind} of pool {pool.name}; see kubernetes.node_{kind}"
        return check.skipped(message)
    lacking, extra = sorted({*configured} - {*(present or ())}), sorted({*(present or ())} - {*configured})
    unknown = f"pool {pool.name} has {kind} at Civo that are not configured: {', '.join(extra)}"
    if extra and check is TAINTS:
        return check.failed(f"{unknown}; nodes would be bought for pods that cannot run there")
    if lacking and not pool.apply_to_nodes:
        effect = "pods that select it find no node" if check is LABELS else "pods without GPUs would use it"
        return check.failed(f"pool {pool.name} lacks at Civo: {', '.join(lacking)}; {effect}")
    if extra:
        return check.warned(f"{unknown}; while it has no node, pods that select them count as fitting nowhere")
    if present is None and not configured:
        return check.passed(f"pool {pool.name}: none configured, and Civo returns none")
    return check.passed(f"pool {pool.name}: equal{' (applied to nodes: apply_to_nodes)' if lacking else ''}")


def offered(pools: Sequence[Pool], sizes: Mapping[str, SizeAtCivo]) -> Iterator[Finding]:
    """Compare Civo's sizes with the configured ones."""
    for pool in pools:
        size = sizes.get(pool.size)
        if size is None:
            yield OFFERED.warned(f"Civo lists no size {pool.size} (pool {pool.name})")
            continue
        problem = f"Civo does not offer {pool.size} (pool {pool.name}) at present"
        yield OFFERED.warned_if(not size.selectable, problem, f"pool {pool.name}: {pool.size} is offered")
        if set(pool.resources) != {GPU}:
            yield GPUS.skipped(f"pool {pool.name} offers {', '.join(pool.resources)}, which Civo does not know")
            continue
        mismatch = f"a node of {pool.size} has {some(size.gpus, 'GPU')} at Civo"
        mismatch += f", and {pool.resources[GPU]} in the configuration of pool {pool.name}"
        yield GPUS.failed_if(
            size.gpus != pool.resources[GPU], mismatch, f"pool {pool.name}: {some(size.gpus, 'GPU')} each"
        )


def quota(
    policy: Policy, cloud_pools: Mapping[str, CloudPool], sizes: Mapping[str, SizeAtCivo], free: Mapping[str, int]
) -> Iterator[Finding]:
    """Fail if a pool below its maximum cannot get one more node, warn if not all can reach their maxima."""
    sized_pools = [pool for pool in policy.pools if pool.size in sizes]
    if not sized_pools or not free:
        yield QUOTA.skipped("sizes or limits are unknown, so there is nothing to compare")
        return
    have = {pool.id: cloud_pools[pool.id].required if pool.id in cloud_pools else 0 for pool in sized_pools}
    stuck = []
    for pool in sized_pools:
        takes = sizes[pool.size].takes
        lacks = [f"{UNITS[n]}: {takes[n]} needed, {max(0, room)} left" for n, room in free.items() if takes[n] > room]
        if lacks and have[pool.id] < pool.max_nodes:
            stuck.append(f"no further node of pool {pool.name} fits into the quota ({'; '.join(lacks)})")
    short = []
    for name, room in free.items():
        need = _most(policy, sized_pools, have, {pool.id: sizes[pool.size].takes[name] for pool in sized_pools})
        if need > room:
            short.append(f"{need} more {UNITS[name]} needed to reach every max_nodes, {max(0, room)} left")
    unknown = [f"{pool.name} ({pool.size})" for pool in policy.pools if pool.size not in sizes]
    if stuck:
        yield from map(QUOTA.failed, stuck)
    elif short:
        yield QUOTA.warned("; ".join(short))
    elif unknown:
        yield QUOTA.skipped(f"the others fit; not compared, because Civo lists no such size: {', '.join(unknown)}")
    else:
        yield QUOTA.passed("every pool can reach its max_nodes, subject to stock, which is not published")


def _most(policy: Policy, pools: list[Pool], have: Mapping[str, int], each: Mapping[str, int]) -> int:
    """Return how much growth to the maxima needs at most of a resource of which a node of each pool needs *each*.

    If ``limits.max_gpus`` does not allow all maxima at once, the GPUs are counted where they need most.
    """
    gpus = policy.limits.max_gpus
    gpus_left = None if gpus is None else max(0, gpus - sum(have[p.id] * p.gpus_per_node for p in pools))
    total = 0
    for pool in sorted(pools, key=lambda p: each[p.id] / p.gpus_per_node, reverse=True):
        growth = max(0, pool.max_nodes - have[pool.id])
        if gpus_left is not None:
            growth = min(growth, gpus_left // pool.gpus_per_node)
            gpus_left -= growth * pool.gpus_per_node
        total += growth * each[pool.id]
    return total


AREA = Area(
    name="civo",
    source="Civo's API",
    checks=CHECKS,
    look=look,
    remedy="check that this host can reach CIVO_API_URL (egress rules, proxy, DNS), and run the doctor again",
)
