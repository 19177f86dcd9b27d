"""The cost of storing a decision's facts: bytes in the store, and time in a step with a new decision.

Worlds of several sizes; both are written as the store writes them, and read again. A step that decides nothing new
writes nothing.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

from benchmarks import core
from receiver.adapters.store import decisions
from receiver.ports import Grounds, GroundsKept

ROUNDS = 15
SIZES = ((1, 5), (10, 50), (200, 1_000), (200, 10_000))  # pools of ten nodes each, pending pods


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Measure every size; return the result."""
    figures = []
    for pools, pending in SIZES:
        figure = _measured(pools, pending)
        say(
            f"{pools} pools, {pools * core.NODES_PER_POOL} nodes, {pending} pending pods: facts "
            f"{figure['facts_bytes']} bytes, policy {figure['policy_bytes']} bytes; written in "
            f"{figure['write_milliseconds']:.2f} ms, read in {figure['read_milliseconds']:.2f} ms"
        )
        figures.append(figure)
    return {
        "what": "bytes of facts and policy as a decision keeps them, and milliseconds (median) to write and read both",
        "settings": {"rounds": ROUNDS},
        "figures": figures,
    }


def _measured(pools: int, pending: int) -> dict[str, Any]:
    facts, policy = core.facts(pending), core.policy()
    made_from = Grounds(
        facts=replace(facts, pools=facts.pools[:pools], waiting=facts.waiting[:pending]),
        policy=replace(policy, pools=policy.pools[:pools]),
    )
    bodies = decisions.grounds_values(made_from)
    kept = GroundsKept(format=decisions.FORMAT, **{name: decisions.decompressed(body) for name, body in bodies.items()})
    if decisions.read_grounds(kept) != made_from:
        raise RuntimeError("what was written is not what is read")
    return {
        "pools": pools,
        "pending_pods": pending,
        "facts_bytes": len(bodies["facts"]),
        "policy_bytes": len(bodies["policy"]),
        "write_milliseconds": _milliseconds(lambda: decisions.grounds_values(made_from)),
        "read_milliseconds": _milliseconds(lambda: decisions.read_grounds(kept)),
    }


def _milliseconds(work: Callable[[], object]) -> float:
    lasted = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        lasted.append(time.perf_counter() - began)
    return round(median(lasted) * 1000, 3)
