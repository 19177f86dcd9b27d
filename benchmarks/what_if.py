"""A what-if question about 10 pools with 1,000 nodes: another configuration, and one node less.

Reading the configuration, both decisions, what becomes of every pod and the JSON are included; HTTP is not.
"""

import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import yaml

from benchmarks import core
from receiver.capabilities.registry import step_additions
from receiver.capabilities.what_if.evaluation import compare, without_node
from receiver.config.settings import load_text
from receiver.web.parts import LastStep

POOLS, NODES, PENDING, ROUNDS = 10, 1_000, (300, 1_000), 5
BOUND_SECONDS = 1.0  # with 300 pods; with 1,000 of mixed sizes and gangs, one decision of the step takes as long


def _configuration(most: int) -> str:
    pools = [
        {
            "name": pool.name,
            "civo_pool_id": pool.id,
            "size": pool.size,
            "resources": dict(pool.resources),
            "max_nodes": most,
            "price_usd_per_hour": str(pool.price_usd_per_hour),
        }
        for pool in core.policy(POOLS).pools
    ]
    return yaml.safe_dump({"mode": "act", "budget": {"monthly_usd": 10_000_000}, "pools": pools})


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Measure both questions; return the result."""
    figures = [_measured(kind, pending, say) for pending in PENDING for kind in ("configuration", "node")]
    passed = all(f["median_seconds"] < BOUND_SECONDS for f in figures if f["pending_pods"] == PENDING[0])
    if not passed:
        say(f"what-if: MISSED: the bound is {BOUND_SECONDS:g} s with {PENDING[0]} pending pods")
    return {
        "what": "CPU seconds to answer a what-if question, from the text of the configuration to the JSON",
        "settings": {"pools": POOLS, "nodes": NODES, "rounds": ROUNDS},
        "figures": figures,
        "passed": passed,
    }


def _measured(kind: str, pending: int, say: Callable[[str], None]) -> dict[str, Any]:
    facts = core.facts(pending, POOLS, NODES // POOLS)
    last = LastStep(facts=facts, settings=load_text(_configuration(200)), mode="act", additions=step_additions())
    took = []
    for _ in range(ROUNDS):
        began = time.process_time()
        if kind == "node":
            json.dumps(without_node(last, facts.pools[0].nodes[0].name, lambda _: ()).document())
        else:
            json.dumps(compare(last, load_text(_configuration(120))).document())
        took.append(time.process_time() - began)
    say(
        f"what-if: {kind}: {POOLS} pools, {NODES} nodes, {pending} pending pods: {median(took):.3f} s of CPU time "
        f"median, {max(took):.3f} s at worst of {ROUNDS}"
    )
    row: dict[str, Any] = {"question": kind, "pending_pods": pending}
    return {**row, "median_seconds": round(median(took), 4), "worst_seconds": round(max(took), 4)}
