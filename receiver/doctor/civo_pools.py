"""The configured pools beside those that Civo has: pure judgements."""

from collections.abc import Iterator, Mapping, Sequence

from receiver.adapters.survey.civo import PoolAtCivo, SizeAtCivo
from receiver.core.model.policy import Pool, Taint
from receiver.core.model.text import some
from receiver.doctor.finding import Check, Finding

GPU = "nvidia.com/gpu"

POOLS = Check(
    "civo.pools",
    "whether every configured pool exists in the cluster",
    ("fail",),
    "correct civo_pool_id in the configuration, or create the pool",
)
SIZE = Check(
    "civo.pool_size",
    "whether each pool's nodes have the configured size: price and budget rest on it",
    ("fail", "skip"),
    "write the pool's size at Civo into `size`",
)
GPUS = Check(
    "civo.pool_gpus",
    "whether a node of the size has as many GPUs as `resources` says (not compared with MIG or time-slicing)",
    ("fail", "skip"),
    "correct `resources` or `size` of the pool",
)
SELECTABLE = Check(
    "civo.size_offered",
    "whether Civo lists each pool's size and offers it now (it tells nothing of stock)",
    ("warn",),
    "use another size, or ask Civo: nodes of it may be refused",
)
PRICE = Check(
    "civo.prices",
    "whether each pool's price is known: without one it does not grow (Civo's API tells no prices)",
    ("fail",),
    "give the pool price_usd_per_hour, or its size a row in a prices_file (docs/configuration.md, Prices)",
)
PRICED_GPUS = Check(
    "civo.price_file",
    "whether the price file counts as many GPUs in each pool's size as Civo: idle cost per GPU rests on it",
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
    "nothing, if it has just been installed: idle nodes beyond the bounds go, missing ones come; else see "
    "`gpu-autoscaler explain POOL`",
)


def at_civo(wanted: Sequence[Pool], found: Mapping[str, PoolAtCivo]) -> Iterator[Finding]:
    """Compare what Civo tells of each pool with what is configured."""
    missing = [pool for pool in wanted if pool.id not in found]
    for pool in missing:
        there = ", ".join(f"{p.id} ({p.size}, {some(p.required, 'node')})" for p in found.values())
        yield POOLS.failed(f"pool {pool.name} ({pool.id}) is not in the cluster; there are {there or 'none'}")
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
        return SIZE.skipped(f"Civo does not tell the size of pool {pool.name}")
    if there.size != pool.size:
        return SIZE.failed(f"nodes of pool {pool.name} are {there.size} at Civo, and {pool.size} in the configuration")
    return SIZE.passed(f"pool {pool.name}: {pool.size}")


def _labels(pool: Pool, there: PoolAtCivo) -> Finding:
    if there.labels is None and pool.labels:  # the field is left out of some answers
        return LABELS.skipped(f"Civo does not tell the labels of pool {pool.name}; see kubernetes.node_labels")
    at_civo = there.labels or {}
    lacking = [f"{k}={v}" for k, v in pool.labels.items() if at_civo.get(k) != v]
    more = [f"{k}={v}" for k, v in at_civo.items() if k not in pool.labels]
    if lacking and not pool.apply_to_nodes:
        return LABELS.failed(f"pool {pool.name} lacks at Civo: {', '.join(lacking)}; pods that ask for it find no node")
    if more:
        said = f"pool {pool.name} has labels at Civo that the configuration does not name: {', '.join(more)}"
        return LABELS.warned(f"{said}; pods that ask for them count as fitting nowhere while it has no node")
    if there.labels is None:
        return LABELS.passed(f"pool {pool.name}: none configured, and Civo tells of none")
    put = f" ({', '.join(lacking)} put on nodes by us: apply_to_nodes)" if lacking else ""
    return LABELS.passed(f"pool {pool.name}: equal{put}")


def _taints(pool: Pool, there: PoolAtCivo) -> Finding:
    if there.taints is None and pool.taints and not pool.apply_to_nodes:
        return TAINTS.skipped(f"Civo does not tell the taints of pool {pool.name}; see kubernetes.node_taints")
    at_civo, said = set(there.taints or ()), set(pool.taints)
    lacking = sorted(map(shown, said - at_civo))
    more = sorted(map(shown, at_civo - said))
    if more:
        told = f"pool {pool.name} has taints at Civo that the configuration does not name: {', '.join(more)}"
        return TAINTS.failed(f"{told}; nodes would be bought for pods that may not run there")
    if lacking and not pool.apply_to_nodes:
        told = f"pool {pool.name} lacks at Civo: {', '.join(lacking)}"
        return TAINTS.failed(f"{told}; pods without GPUs would take its room")
    if there.taints is None and not pool.taints:
        return TAINTS.passed(f"pool {pool.name}: none configured, and Civo tells of none")
    return TAINTS.passed(f"pool {pool.name}: equal{' (put on nodes by us: apply_to_nodes)' if lacking else ''}")


def shown(taint: Taint) -> str:
    """A taint as kubectl writes it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _count(pool: Pool, there: PoolAtCivo) -> Finding:
    if pool.min_nodes <= there.required <= pool.max_nodes:
        return COUNT.passed(f"pool {pool.name}: {there.required}, allowed {pool.min_nodes} to {pool.max_nodes}")
    said = f"pool {pool.name} is asked for {some(there.required, 'node')}"
    return COUNT.warned(f"{said}, allowed {pool.min_nodes} to {pool.max_nodes}")


def priced(wanted: Sequence[Pool], *, has_budget: bool) -> Iterator[Finding]:
    """Say whose price nobody knows."""
    unknown = [f"{pool.name} ({pool.size})" for pool in wanted if pool.price_usd_per_hour is None]
    if unknown:
        why = "its budget cannot be held" if has_budget else "what it costs cannot be told"
        yield PRICE.failed(f"no price is known for {', '.join(unknown)}: it does not grow, because {why}")
    else:
        prices = ", ".join(f"{pool.name} {pool.price_usd_per_hour} USD/h" for pool in wanted)
        yield PRICE.passed(f"known: {prices}")


def offered(wanted: Sequence[Pool], sizes: Mapping[str, SizeAtCivo]) -> Iterator[Finding]:
    """Compare sizes as Civo lists them with what is configured."""
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
        return GPUS.skipped(f"pool {pool.name} offers {', '.join(pool.resources)}, which Civo knows nothing of")
    if size.gpus != pool.resources[GPU]:
        said = f"a node of {size.name} has {some(size.gpus, 'GPU')} at Civo"
        return GPUS.failed(f"{said}, and {pool.resources[GPU]} in the configuration of pool {pool.name}")
    return GPUS.passed(f"pool {pool.name}: {some(size.gpus, 'GPU')} each")


def counted(wanted: Sequence[Pool], sizes: Mapping[str, SizeAtCivo], prices: Mapping[str, int | None]) -> Finding:
    """Compare the GPUs of the pools' sizes at Civo with those that the price file counts (None: it does not tell)."""
    known = {pool.size: prices.get(pool.size) for pool in wanted if pool.size in sizes}
    both = {size: gpus for size, gpus in known.items() if gpus is not None}
    wrong = [f"{s}: {n} in the price file, {sizes[s].gpus} at Civo" for s, n in both.items() if n != sizes[s].gpus]
    if wrong:
        return PRICED_GPUS.warned("; ".join(wrong))
    if not both:
        return PRICED_GPUS.skipped("the price file does not count the GPUs of these sizes")
    return PRICED_GPUS.passed(f"as at Civo: {', '.join(both)}")
