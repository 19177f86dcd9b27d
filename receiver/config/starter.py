"""The first file of an installation, written by `gpu-autoscaler init`: values of the chart with a cluster's GPU pools.

What only a person can decide stands behind "to decide", and what Civo does not say is asked there, never guessed.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from receiver.config.completion import short_name
from receiver.config.prices import HOURS_PER_MONTH, Prices
from receiver.core.model.pool_facts import GPU, PoolAtCivo, PoolFacts
from receiver.core.model.text import dollars, some

DECIDE = "to decide"
BUDGET = 100  # USD, as the chart's default
_PLAIN = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")  # what YAML takes for nothing but text


class NoGpuPoolError(Exception):
    """No pool of the cluster is known to have GPUs; str() says what there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAtCivo:
    """What Civo says of the cluster *id* in *region*; *nodes* are the counts of pools by id, as far as it says them."""

    id: str
    region: str
    facts: PoolFacts
    nodes: Mapping[str, int]


def chart_values(cluster: ClusterAtCivo, prices: Prices, today: date) -> str:
    """Return the text of the file. Raises NoGpuPoolError."""
    gpus = cluster.facts.gpus
    listed = {pool: at for pool, at in cluster.facts.pools.items() if (gpus.get(at.size) or 0) > 0}
    if not listed:
        pools = ", ".join(_counted(pool, at, gpus) for pool, at in cluster.facts.pools.items()) or "no pool"
        raise NoGpuPoolError(f"the cluster {cluster.id} in region {cluster.region} has no GPU pool, only {pools}")
    lines = [
        f"# Helm values of the chart k8s/chart, written by `gpu-autoscaler init` on {today}.",
        f"# Civo's cluster {cluster.id}, region {cluster.region}. Only you know what is marked `{DECIDE}`.",
        "",
        "image:",
        f"  repository: YOUR_REGISTRY/civo-gpu-autoscaler # {DECIDE}: where you pushed the image",
        "",
        "# Civo says name, size, GPUs, labels and taints of each pool. What you write here goes first.",
        "pools:",
    ]
    for pool, at in listed.items():
        lines += _pool(pool, at, cluster, prices)
    lines += _others(cluster.facts, listed)
    lines += ["", "config:", *_budget(listed, cluster, prices)]
    return "\n".join((*lines, ""))


def _pool(pool: str, at: PoolAtCivo, cluster: ClusterAtCivo, prices: Prices) -> Iterator[str]:
    nodes, price = cluster.nodes.get(pool), prices.sizes.get(at.size)
    now = "Civo does not say how many nodes it has" if nodes is None else f"{some(nodes, 'node')} now"
    yield _comment(f"{short_name(at.size)}: {at.size} with {some(cluster.facts.gpus[at.size] or 0, 'GPU')}, {now}")
    if at.labels:
        yield _comment(f"labels: {', '.join(f'{key}={value}' for key, value in at.labels.items())}")
    if at.taints:
        yield _comment(f"taints: {', '.join(f'{t.key}={t.value}:{t.effect}' for t in at.taints)}")
    yield f"  - civo_pool_id: {_scalar(pool)}"
    costs = "" if price is None else f", {dollars(price.usd_per_hour)} an hour each"
    yield f"    max_nodes: {max(1, nodes or 0)} # {DECIDE}: the most nodes{costs}"
    if price is None:
        without = f"No price of {at.size} is known, and without one the pool does not grow"
        yield f"  {_comment(f'{without}. {DECIDE.capitalize()}:')}"
        yield "    # price_usd_per_hour: USD"
    if at.labels is None:
        yield "    # Civo does not say its labels. If its nodes have any, so that pods select them:"
        yield "    # labels: {KEY: VALUE}"
    if at.taints is None:
        yield "    # Civo does not say its taints. If its nodes have any:"
        yield "    # taints: [{key: KEY, value: VALUE, effect: NoSchedule}]"


def _others(facts: PoolFacts, listed: Mapping[str, PoolAtCivo]) -> Iterator[str]:
    """Yield the pools that are left out, and why."""
    other_pools = {pool: at for pool, at in facts.pools.items() if pool not in listed}
    without = [_called(pool, at) for pool, at in other_pools.items() if facts.gpus.get(at.size) is not None]
    if without:
        yield _comment(f"without GPUs, so left out: {', '.join(without)}")
    for pool, at in other_pools.items():
        if facts.gpus.get(at.size) is None:
            unsaid = f"GPUs of {at.size}" if at.size else "size"
            fields = "" if at.size else "size: SIZE, "
            yield _comment(f"Civo does not say the {unsaid} of pool {pool}. If it has GPUs:")
            yield f"  # - {{civo_pool_id: {_scalar(pool)}, max_nodes: 1, {fields}resources: {{{GPU}: GPUS_OF_A_NODE}}}}"


def _budget(listed: Mapping[str, PoolAtCivo], cluster: ClusterAtCivo, prices: Prices) -> Iterator[str]:
    monthly, unpriced = Decimal(0), list[str]()
    for pool, at in listed.items():
        price = prices.sizes.get(at.size)
        if price is None:
            unpriced.append(at.size)
        else:
            monthly += price.usd_per_hour * HOURS_PER_MONTH * max(1, cluster.nodes.get(pool, 0))
    beside = f", {' and '.join(dict.fromkeys(unpriced))} not counted" if unpriced else ""
    yield _comment(f"{DECIDE}: USD a month. The nodes above, never off, cost {dollars(monthly)} a month{beside}.")
    yield f"  budget: {{monthly_usd: {BUDGET}}}"


def _called(pool: str, at: PoolAtCivo) -> str:
    return f"{pool} ({at.size or 'size unknown'})"


def _counted(pool: str, at: PoolAtCivo, gpus: Mapping[str, int | None]) -> str:
    unsaid = at.size and gpus.get(at.size) is None
    return f"{_called(pool, at)}, whose GPUs Civo does not say" if unsaid else _called(pool, at)


def _comment(text: str) -> str:
    return f"  # {' '.join(text.split())}"


def _scalar(text: str) -> str:
    """Return *text* so that YAML reads it as text."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
