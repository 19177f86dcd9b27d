"""Civo: key, region and cluster; pools, sizes, quota and charges compared with the configuration."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from receiver.adapters.survey.civo import AccountQuota, CivoSurvey, PoolAtCivo, SizeAtCivo
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import some
from receiver.doctor.checks import Area, Check, Finding, Installation, clock_check, judge_clock, taint_text
from receiver.ports import TryLater, WontWork

GPU = "nvidia.com/gpu"
POOLS = Check(
    "civo.pools",
    "whether every configured pool exists in the cluster",
    ("fail",),
    "correct civo_pool_id in the configuration, or create the pool",
)
SIZE = Check(
    "civo.pool_size",
    "whether each pool's nodes have the configured size: price and budget depend on it",
    ("fail", "skip"),
    "set `size` to the pool's size at Civo",
)
GPUS = Check(
    "civo.pool_gpus",
    "whether a node of the size has the GPUs in `resources` (not compared with MIG or time-slicing)",
    ("fail", "skip"),
    "correct `resources` or `size` of the pool",
)
SELECTABLE = Check(
    "civo.size_offered",
    "whether Civo lists each pool's size and offers it now (stock is not published)",
    ("warn",),
    "use another size, or ask Civo: it may refuse nodes of this size",
)
PRICE = Check(
    "civo.prices",
    "whether each pool's price is known: without one it does not grow (Civo's API has no prices)",
    ("fail",),
    "give the pool price_usd_per_hour, or its size a row in a prices_file (docs/configuration.md, Prices)",
)
PRICED_GPUS = Check(
    "civo.price_file",
    "whether price file and Civo agree on the GPUs of each pool's size: idle cost per GPU depends on it",
    ("warn", "skip"),
    "correct `gpus` of the size in prices_file",
)
LABELS = Check(
    "civo.pool_labels",
    "whether each pool's labels at Civo are the configured ones",
    ("warn", "fail", "skip"),
    "set the pool's labels at Civo (not by hand on nodes), or correct `labels`",
)
TAINTS = Check(
    "civo.pool_taints",
    "whether each pool's taints at Civo are the configured ones",
    ("fail", "skip"),
    "set the pool's taints at Civo (not by hand on nodes), or correct `taints`",
)
COUNT = Check(
    "civo.pool_count",
    "whether each pool's required count lies between `min_nodes` and `max_nodes`",
    ("warn",),
    "nothing after a new installation: idle nodes beyond the bounds are removed, missing ones added; otherwise see "
    "`gpu-autoscaler explain POOL`",
)
KEY = Check(
    "civo.key",
    "whether Civo accepts `CIVO_API_KEY`",
    ("fail", "skip"),
    "put a valid key of the account into the secret that sets CIVO_API_KEY (civo-api-access in kube-system has one)",
)
REGION = Check(
    "civo.region",
    "whether `CIVO_REGION` is a region of this key",
    ("fail", "skip"),
    "set CIVO_REGION as in the secret civo-api-access in kube-system",
)
CLUSTER = Check(
    "civo.cluster",
    "whether `CIVO_CLUSTER_ID` is a cluster in that region",
    ("fail", "skip"),
    "set CIVO_CLUSTER_ID as in the secret civo-api-access in kube-system; `civo kubernetes ls` lists them",
)
SIZES_READ = Check(
    "civo.sizes_read",
    "whether Civo lists its sizes",
    ("warn",),
    "run the doctor again later; sizes, prices and quota were not compared",
)
QUOTA_READ = Check(
    "civo.quota_read",
    "whether Civo returns the account's quota",
    ("warn",),
    "look at the quota in Civo's dashboard, or use a key that may read it",
)
CHARGES = Check(
    "civo.charges",
    "whether the account's charges can be read: a new store starts from them, and the ledger is compared with them",
    ("warn",),
    "use a key that may read charges, or state the month's spend (budget.spent_usd_stated)",
)
CIVO_CLOCK = clock_check("civo", "Civo's")
QUOTA = Check(
    "civo.quota",
    "whether instances, CPU, RAM and disk of the account's quota allow every pool its `max_nodes` (within "
    "`limits.max_gpus`) in addition to current usage; Civo has no GPU quota",
    ("warn", "fail", "skip"),
    "ask Civo to raise the quota (dashboard, Quota), or lower max_nodes",
)
UNITS = {"instance_count": "instances", "cpu_core": "CPU cores", "ram_mb": "MB of RAM", "disk_gb": "GB of disk"}
CHECKS = (
    KEY,
    REGION,
    CLUSTER,
    POOLS,
    SIZE,
    GPUS,
    SELECTABLE,
    PRICE,
    PRICED_GPUS,
    LABELS,
    TAINTS,
    COUNT,
    SIZES_READ,
    QUOTA_READ,
    QUOTA,
    CHARGES,
    CIVO_CLOCK,
)


def look(installation: Installation) -> Iterator[Finding]:
    """Check Civo from the key to the charges; a failed call skips only the checks that need it."""
    with closing(opened(installation)) as civo:
        try:
            found = civo.pools()
        except WontWork as error:
            yield from refused(error)
            return
        for check, said in ((KEY, "Civo accepts the key"), (REGION, civo.region), (CLUSTER, civo.cluster_id)):
            yield check.passed(said)
        policy = installation.settings.policy
        yield from at_civo(policy.pools, found)
        yield from priced(policy.pools, has_budget=policy.budget is not None)
        try:
            sizes = civo.sizes()
        except (TryLater, WontWork) as error:
            yield SIZES_READ.warned(str(error))
            sizes = {}
        else:
            yield SIZES_READ.passed(f"Civo lists {len(sizes)} sizes")
            yield from offered(policy.pools, sizes)
            listed = {name: price.gpus for name, price in installation.settings.prices.sizes.items()}
            yield counted(policy.pools, sizes, listed)
        try:
            account = civo.quota()
        except (TryLater, WontWork) as error:
            yield QUOTA_READ.warned(str(error))
        else:
            yield QUOTA_READ.passed("Civo returns the account's quota")
            yield from quota(policy, found, sizes, account)
        yield charges(installation, civo)
        yield judge_clock(CIVO_CLOCK, civo.told)


def opened(installation: Installation) -> CivoSurvey:
    """Return Civo with the server's settings. Raises WontWork for a key or id that cannot be sent."""
    told = installation.settings.environment
    try:
        survey = CivoSurvey(
            api_url=told.civo_api_url,
            api_key=told.civo_api_key.get_secret_value(),
            region=told.civo_region,
            cluster_id=told.civo_cluster_id,
            timeouts=installation.timeouts,
        )
    except ValueError as error:  # the message names the variable
        raise WontWork(str(error), code="configuration") from None
    survey.listen(installation.clock)
    return survey


def refused(error: WontWork) -> Iterator[Finding]:
    """Find which of key, region and cluster Civo refused; those before it are valid, those after it unknown.

    Raises *error* if it is about none of them.
    """
    if error.code.startswith("authentication_"):
        broken = KEY
    elif error.code == "region_unavailable":
        broken = REGION
    elif error.code.startswith("database_kubernetes_cluster_"):
        broken = CLUSTER
    else:
        raise error
    order = (KEY, REGION, CLUSTER)
    for check in order[: order.index(broken)]:
        yield check.passed("Civo accepts it")
    yield broken.failed(str(error))
    for check in order[order.index(broken) + 1 :]:
        yield check.skipped(f"unknown while {broken.name} fails")


def charges(installation: Installation, civo: CivoSurvey) -> Finding:
    """Read the charges of this month."""
    now = installation.clock.now()
    begins = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    try:
        found = civo.charges(begins, now)
    except (TryLater, WontWork) as error:
        return CHARGES.warned(str(error))
    if found.unreadable:
        said = f"{len(found.unreadable)} of this month's charges cannot be read, the first: {found.unreadable[0]}"
        return CHARGES.warned(said)
    return CHARGES.passed(f"{len(found.records)} charges of this month can be read")


def at_civo(wanted: Sequence[Pool], found: Mapping[str, PoolAtCivo]) -> Iterator[Finding]:
    """Compare each pool at Civo with its configuration."""
    missing = [pool for pool in wanted if pool.id not in found]
    for pool in missing:
        there = ", ".join(f"{p.id} ({p.size}, {some(p.required, 'node')})" for p in found.values())
        yield POOLS.failed(f"pool {pool.name} ({pool.id}) is not in the cluster, which has {there or 'no pool'}")
    pairs = [(pool, found[pool.id]) for pool in wanted if pool.id in found]
    if not missing:
        yield POOLS.passed(f"all {some(len(pairs), 'configured pool')} found")
    for pool, shows in pairs:
        yield _size(pool, shows)
        yield _labels(pool, shows)
        yield _taints(pool, shows)
        yield _count(pool, shows)


def _size(pool: Pool, there: PoolAtCivo) -> Finding:
    if not there.size:
        return SIZE.skipped(f"Civo does not return the size of pool {pool.name}")
    if there.size != pool.size:
        return SIZE.failed(f"nodes of pool {pool.name} are {there.size} at Civo, and {pool.size} in the configuration")
    return SIZE.passed(f"pool {pool.name}: {pool.size}")


def _labels(pool: Pool, there: PoolAtCivo) -> Finding:
    if there.labels is None and pool.labels:  # some answers lack the field
        return LABELS.skipped(f"Civo does not return the labels of pool {pool.name}; see kubernetes.node_labels")
    at_civo = there.labels or {}
    lacking = [f"{k}={v}" for k, v in pool.labels.items() if at_civo.get(k) != v]
    more = [f"{k}={v}" for k, v in at_civo.items() if k not in pool.labels]
    if lacking and not pool.apply_to_nodes:
        return LABELS.failed(f"pool {pool.name} lacks at Civo: {', '.join(lacking)}; pods that select it find no node")
    if more:
        said = f"pool {pool.name} has labels at Civo that are not configured: {', '.join(more)}"
        return LABELS.warned(f"{said}; while it has no node, pods that select them count as fitting nowhere")
    if there.labels is None:
        return LABELS.passed(f"pool {pool.name}: none configured, and none at Civo")
    put = f" ({', '.join(lacking)} applied to nodes: apply_to_nodes)" if lacking else ""
    return LABELS.passed(f"pool {pool.name}: equal{put}")


def _taints(pool: Pool, there: PoolAtCivo) -> Finding:
    if there.taints is None and pool.taints and not pool.apply_to_nodes:
        return TAINTS.skipped(f"Civo does not return the taints of pool {pool.name}; see kubernetes.node_taints")
    at_civo, said = set(there.taints or ()), set(pool.taints)
    lacking = sorted(map(taint_text, said - at_civo))
    more = sorted(map(taint_text, at_civo - said))
    if more:
        told = f"pool {pool.name} has taints at Civo that are not configured: {', '.join(more)}"
        return TAINTS.failed(f"{told}; nodes would be bought for pods that cannot run there")
    if lacking and not pool.apply_to_nodes:
        told = f"pool {pool.name} lacks at Civo: {', '.join(lacking)}"
        return TAINTS.failed(f"{told}; pods without GPUs would use it")
    if there.taints is None and not pool.taints:
        return TAINTS.passed(f"pool {pool.name}: none configured, and none at Civo")
    return TAINTS.passed(f"pool {pool.name}: equal{' (applied to nodes: apply_to_nodes)' if lacking else ''}")


def _count(pool: Pool, there: PoolAtCivo) -> Finding:
    if pool.min_nodes <= there.required <= pool.max_nodes:
        return COUNT.passed(f"pool {pool.name}: {there.required}, allowed {pool.min_nodes} to {pool.max_nodes}")
    said = f"pool {pool.name} has a required count of {some(there.required, 'node')}"
    return COUNT.warned(f"{said}, allowed {pool.min_nodes} to {pool.max_nodes}")


def priced(wanted: Sequence[Pool], *, has_budget: bool) -> Iterator[Finding]:
    """Find pools without a price."""
    unknown = [f"{pool.name} ({pool.size})" for pool in wanted if pool.price_usd_per_hour is None]
    if unknown:
        why = "its budget cannot be enforced" if has_budget else "its cost is unknown"
        yield PRICE.failed(f"no price is known for {', '.join(unknown)}: it does not grow, because {why}")
    else:
        prices = ", ".join(f"{pool.name} {pool.price_usd_per_hour} USD/h" for pool in wanted)
        yield PRICE.passed(f"known: {prices}")


def offered(wanted: Sequence[Pool], sizes: Mapping[str, SizeAtCivo]) -> Iterator[Finding]:
    """Compare Civo's sizes with the configured ones."""
    for pool in wanted:
        size = sizes.get(pool.size)
        if size is None:
            yield SELECTABLE.warned(f"Civo lists no size {pool.size} (pool {pool.name})")
            continue
        if size.selectable:
            yield SELECTABLE.passed(f"pool {pool.name}: {pool.size} is offered")
        else:
            yield SELECTABLE.warned(f"Civo does not offer {pool.size} (pool {pool.name}) at present")
        yield _gpus(pool, size)


def _gpus(pool: Pool, size: SizeAtCivo) -> Finding:
    if set(pool.resources) != {GPU}:
        return GPUS.skipped(f"pool {pool.name} offers {', '.join(pool.resources)}, which Civo does not know")
    if size.gpus != pool.resources[GPU]:
        said = f"a node of {size.name} has {some(size.gpus, 'GPU')} at Civo"
        return GPUS.failed(f"{said}, and {pool.resources[GPU]} in the configuration of pool {pool.name}")
    return GPUS.passed(f"pool {pool.name}: {some(size.gpus, 'GPU')} each")


def counted(wanted: Sequence[Pool], sizes: Mapping[str, SizeAtCivo], prices: Mapping[str, int | None]) -> Finding:
    """Compare the GPUs of the pools' sizes at Civo with those in the price file (None: not given)."""
    known = {pool.size: prices.get(pool.size) for pool in wanted if pool.size in sizes}
    both = {size: gpus for size, gpus in known.items() if gpus is not None}
    wrong = [f"{s}: {n} in the price file, {sizes[s].gpus} at Civo" for s, n in both.items() if n != sizes[s].gpus]
    if wrong:
        return PRICED_GPUS.warned("; ".join(wrong))
    if not both:
        return PRICED_GPUS.skipped("the price file lacks the GPUs of these sizes")
    return PRICED_GPUS.passed(f"as at Civo: {', '.join(both)}")


def quota(
    policy: Policy, found: Mapping[str, PoolAtCivo], sizes: Mapping[str, SizeAtCivo], account: AccountQuota
) -> Iterator[Finding]:
    """Fail if a pool below its maximum cannot get one more node, warn if not all can reach their maxima."""
    known = [pool for pool in policy.pools if pool.size in sizes]
    if not known or not account.limit:
        yield QUOTA.skipped("sizes or limits are unknown, so there is nothing to compare")
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
            short.append(f"{need} {UNITS[name]} more needed for the maxima, {max(0, room)} left")
    if short and not stuck:
        yield QUOTA.warned("; ".join(short))
    elif unknown and not stuck:
        yield QUOTA.skipped(f"the others fit; not compared, because Civo lists no such size: {', '.join(unknown)}")
    elif not stuck:
        yield QUOTA.passed("every pool can reach its max_nodes, subject to stock, which is not published")


def _stuck(
    pools: list[Pool], have: Mapping[str, int], sizes: Mapping[str, SizeAtCivo], free: Mapping[str, int]
) -> Iterator[Finding]:
    for pool in pools:
        takes = sizes[pool.size].takes
        lacks = [f"{UNITS[n]}: {takes[n]} needed, {max(0, room)} left" for n, room in free.items() if takes[n] > room]
        if lacks and have[pool.id] < pool.max_nodes:
            yield QUOTA.failed(f"no further node of pool {pool.name} fits into the quota ({'; '.join(lacks)})")


def _most(policy: Policy, pools: list[Pool], have: Mapping[str, int], each: Mapping[str, int]) -> int:
    """Return how much growth to the maxima needs at most of a resource of which a node of each pool needs *each*.

    If ``limits.max_gpus`` does not allow all maxima at once, the GPUs are counted where they need most.
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


AREA = Area(
    name="civo",
    source="Civo's API",
    checks=CHECKS,
    look=look,
    remedy="check that this host can reach CIVO_API_URL (egress rules, proxy, DNS), and run the doctor again",
)
