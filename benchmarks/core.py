"""The pure core by itself: assigning the waiting work over all pools, deciding each one's size, planning its change.

200 pools with 2,000 nodes; 1,000 and 10,000 pending pods. Nothing else runs: no network, no store.
"""

import gc
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from statistics import median
from typing import Any

from receiver.capabilities.registry import step_additions
from receiver.core.explain.evidence import with_grounds
from receiver.core.model.model import Facts, Node, PoolState, Source, SourceState, Spend, Stage
from receiver.core.model.pods import Pod, PodPhase, Scheduling
from receiver.core.model.policy import Budget, Policy, Pool
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import decide_all, plan

NOW = datetime(2026, 9, 1, 12, 0, tzinfo=UTC)
GPU = "nvidia.com/gpu"
POOL_LABEL = "kubernetes.civo.com/civo-node-pool"
POOLS, NODES_PER_POOL = 200, 10
PENDING = (1_000, 10_000)
ROUNDS = 9


def policy(pools: int = POOLS) -> Policy:
    """Return *pools* pools of four prices that may each hold 100 nodes of eight GPUs."""
    found = tuple(
        Pool(
            id=f"pool-{number:03}",
            name=f"p{number:03}",
            size="an.g1.l40s.kube.x8",
            resources={GPU: 8},
            max_nodes=100,
            price_usd_per_hour=Decimal("10.32") + number % 4,
        )
        for number in range(pools)
    )
    return Policy(pools=found, budget=Budget(monthly_usd=Decimal(10_000_000)))


def _pod(
    number: int,
    phase: PodPhase,
    gpus: int,
    *,
    node: str | None = None,
    pool: str | None = None,
    gang: str | None = None,
) -> Pod:
    return Pod(
        namespace="bench",
        name=f"{phase.value}-{number}",
        uid=f"{phase.value}-{number}",
        requests={GPU: gpus},
        phase=phase,
        created_at=NOW - timedelta(minutes=5),
        node=node,
        scheduling=Scheduling(node_selector={POOL_LABEL: pool} if pool else {}),
        gang=gang,
    )


def _waiting(number: int, pools: int) -> Pod:
    four, gpus = number // 4, 1 + number % 8
    if four % 2:
        return _pod(number, PodPhase.WAITING, gpus, pool=f"pool-{number % pools:03}")
    return _pod(number, PodPhase.WAITING, gpus, gang=f"gang-{four}" if four % 4 else None)


def _node(pool: str, number: int) -> Node:
    name = f"{pool}-{number}"
    busy = number % 2 == 0
    return Node(
        name=name,
        instance=name,
        stage=Stage.USABLE,
        created_at=NOW - timedelta(hours=2, minutes=number),
        allocatable={GPU: 8},
        pods=(_pod(number, PodPhase.RUNNING, 6, node=name),) if busy else (),
        idle_since=None if busy else NOW - timedelta(minutes=20),
    )


def facts(waiting: int, pools: int = POOLS, nodes: int = NODES_PER_POOL) -> Facts:
    """Return *pools* pools of *nodes* nodes with *waiting* pods: half name a pool, a quarter are gangs of four, a
    quarter fit any."""
    pods = tuple(_waiting(n, pools) for n in range(waiting))
    states = tuple(
        PoolState(
            pool=f"pool-{p:03}",
            required=nodes,
            nodes=tuple(_node(f"pool-{p:03}", n) for n in range(nodes)),
        )
        for p in range(pools)
    )
    return Facts(
        at=NOW,
        pools=states,
        waiting=pods,
        signals=(),
        sources={s: SourceState(source=s, up=True, at=NOW) for s in Source},
        spend=Spend(month="2026-09", usd=Decimal(1000), unpriced=()),
    )


def one_step(policy: Policy, found: Facts) -> int:
    """Assign, decide and plan every pool once; return how many nodes are asked for in all."""
    added = step_additions()
    assignment = assign(found, policy, sources=added.sources, guardrails=added.guardrails)
    decisions = decide_all(found, assignment, policy, explained_by=with_grounds)
    actions = [plan(decision, found.pool(pool), policy) for pool, decision in decisions.items()]
    return sum(max(0, action.to_count - action.from_count) for action in actions if action is not None)


def run(say: Callable[[str], None]) -> dict[str, Any]:
    """Measure and return the result to keep; say the figures."""
    wanted = policy()
    rows = []
    for waiting in PENDING:
        found = facts(waiting)
        took = []
        for _ in range(ROUNDS):
            gc.collect()
            began = time.perf_counter()
            grown = one_step(wanted, found)
            took.append(time.perf_counter() - began)
        rows.append(
            {
                "pending_pods": waiting,
                "best_seconds": round(min(took), 4),
                "median_seconds": round(median(took), 4),
                "worst_seconds": round(max(took), 4),
                "nodes_asked_for": grown,
            }
        )
        say(
            f"core: {POOLS} pools, {POOLS * NODES_PER_POOL} nodes, {waiting} pending pods: "
            f"{min(took):.3f} s at best, {median(took):.3f} s median, {max(took):.3f} s at worst of {ROUNDS}; "
            f"{grown} nodes asked for"
        )
    growth = rows[-1]["median_seconds"] / rows[0]["median_seconds"]
    say(f"core: {PENDING[-1] // PENDING[0]} times the pods take {growth:.1f} times as long")
    return {
        "what": "seconds for one assign, and the decision and the plan of every pool",
        "settings": {"pools": POOLS, "nodes": POOLS * NODES_PER_POOL, "rounds": ROUNDS},
        "figures": rows,
        "growth": {"pods": PENDING[-1] / PENDING[0], "seconds": round(growth, 2)},
    }
