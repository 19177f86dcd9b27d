"""A decision on 10 pools with 1,000 nodes that are too few for the waiting pods, and two what-if questions about it:
another configuration, and one node less.

Reading the configuration, both decisions, what becomes of every pod and the JSON are included; HTTP is not.
"""

import json
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import yaml

from benchmarks import core
from receiver.capabilities.registry import step_additions
from receiver.capabilities.what_if.evaluation import compare, without_node
from receiver.config.settings import load_text
from receiver.web.parts import LastStep

POOLS, NODES, PENDING, ROUNDS = 10, 1_000, (300, 1_000, 2_000), 5
MOST_SECONDS = {"decision": 0.2, "configuration": 0.5, "node": 0.5}  # of CPU time at best
BOUNDED = 1_000  # pods: of mixed sizes, pinned to a pool or not, and gangs


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
    """Measure the decision and both questions; return the result."""
    figures = [_measured(kind, pending, say) for pending in PENDING for kind in MOST_SECONDS]
    bounded = [f for f in figures if f["pending_pods"] == BOUNDED]
    missed = [f["question"] for f in bounded if f["best_seconds"] > MOST_SECONDS[f["question"]]]
    for question in missed:
        say(f"what-if: MISSED: the bound of {question} is {MOST_SECONDS[question]:g} s with {BOUNDED} pending pods")
    return {
        "what": "CPU seconds of a decision; of a what-if question, from the text of the configuration to the JSON",
        "settings": {"pools": POOLS, "nodes": NODES, "rounds": ROUNDS},
        "bounds": {"pending_pods": BOUNDED, "best_seconds": MOST_SECONDS},
        "figures": figures,
        "passed": not missed,
    }


def _measured(kind: str, pending: int, say: Callable[[str], None]) -> dict[str, Any]:
    facts = core.facts(pending, POOLS, NODES // POOLS)
    last = LastStep(facts=facts, settings=load_text(_configuration(200)), mode="act", additions=step_additions())
    ask: dict[str, Callable[[], object]] = {
        "decision": partial(core.one_step, last.settings.policy, facts),
        "configuration": lambda: json.dumps(compare(last, load_text(_configuration(120))).document()),
        "node": lambda: json.dumps(without_node(last, facts.pools[0].nodes[0].name, lambda _: ()).document()),
    }
    took = []
    for _ in range(ROUNDS):
        began = time.process_time()
        ask[kind]()
        took.append(time.process_time() - began)
    say(
        f"what-if: {kind}: {POOLS} pools, {NODES} nodes, {pending} pending pods: {min(took):.3f} s of CPU time "
        f"at best, {median(took):.3f} s median of {ROUNDS}"
    )
    seconds = {"best": min(took), "median": median(took), "worst": max(took)}
    row: dict[str, Any] = {"question": kind, "pending_pods": pending}
    return {**row, **{f"{name}_seconds": round(value, 4) for name, value in seconds.items()}}
