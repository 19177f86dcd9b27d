"""Invariant 5 from outside: what is left to happen once the troubles are over."""

import contextlib
from collections.abc import Iterator

import requests

from campaigns.faults.processes.schedule import PoolPlan
from campaigns.faults.processes.stage import Stage
from receiver.ports import CORDON_ANNOTATION
from simulator.world import World


def unsettled(stage: Stage) -> list[str]:
    """What is left to happen, in words; empty when everything is at rest as it should be."""
    found = [*_loop(stage)]
    if stage.witness.awaits_watch:
        found.append("pods are not watched again")
    if stage.schedule.mode == "act":
        with stage.cloud.moved() as world:
            found += _world(stage, world)
    found += [f"action {number} is open" for (number,) in stage.receiver.rows(OPEN)]
    return found + [f"delivery {number} was not considered" for number in stage.receiver.unconsidered()]


OPEN = "SELECT id FROM actions WHERE outcome IS NULL"


def _loop(stage: Stage) -> Iterator[str]:
    health: dict[str, object] = {}
    with contextlib.suppress(requests.RequestException, ValueError):
        health = stage.receiver.health()
    if health.get("loop") != "leading":
        yield f"the loop is {health.get('loop', 'not reached')}"


def _world(stage: Stage, world: World) -> Iterator[str]:
    tight = _is_tight(stage, world)
    waiting = [p.name for p in world.active_pods.values() if p.requests]
    if waiting and not tight:
        yield f"{', '.join(waiting)} have not run"
    for node in world.nodes.values():
        if CORDON_ANNOTATION in node.annotations and node.unschedulable:
            yield f"{node.name} is cordoned by us"
    for plan in stage.schedule.pools:
        pool = world.pools[plan.id]
        if pool.required > plan.min_nodes and not (tight and waiting):
            yield f"{plan.name} asks for {pool.required} nodes, {plan.min_nodes} would do"
        if pool.required < plan.min_nodes and not tight:
            yield f"{plan.name} asks for {pool.required} nodes of {plan.min_nodes}"
        if len(pool.living) != pool.required:
            yield f"{plan.name} has {len(pool.living)} nodes of {pool.required}"


def _is_tight(stage: Stage, world: World) -> bool:
    """True when the budget may not cover another node."""
    budget = stage.schedule.budget_usd
    if budget is None:
        return False

    def unit(plan: PoolPlan) -> float:
        return plan.usd * stage.schedule.granularity / 3600

    reserved = sum(len(world.pools[p.id].living) * unit(p) for p in stage.schedule.pools)
    most = max(unit(p) * p.max_nodes for p in stage.schedule.pools)
    spent = stage.witness.surely_spent(world) * 1.1 + 2 * most  # the ledger sees nodes go later
    return spent >= 0.8 * budget or spent + reserved + most > budget
