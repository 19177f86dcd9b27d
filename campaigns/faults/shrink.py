"""Make a world that violates an invariant smaller, so that a person can read why."""

from collections.abc import Iterator
from dataclasses import replace

from campaigns.faults.campaign import judge, say
from campaigns.faults.scenario import Scenario
from tests.stores import WorldStore, store_of


def shrink(world: Scenario) -> Scenario:
    """Leave out events, pools and settings as long as the same invariant is violated. ValueError when none is."""
    with store_of(world.seed) as store:
        kind = _kind(world, store)
        if not kind:
            raise ValueError(f"no invariant is violated in world {world.seed}")
        smaller: Scenario | None = world
        while smaller is not None:
            world = smaller
            say(f"{len(world.events)} events, {len(world.pools)} pools: {kind}")
            smaller = next((w for w in _smaller(world) if _kind(w, store) == kind), None)
    return world


def _kind(world: Scenario, store: WorldStore) -> str:
    message = judge(world, store).message
    return message.splitlines()[0].split(":")[0] if message else ""


def _smaller(world: Scenario) -> Iterator[Scenario]:
    """Worlds with less in them, the much smaller ones first."""
    size = len(world.events)
    while size:
        for start in range(0, len(world.events), size):
            yield world.without(*world.events[start : start + size])
        size //= 2
    for pool in world.pools if len(world.pools) > 1 else ():
        named = [e for e in world.events if e.what.get("pool") == pool.id]
        yield replace(world.without(*named), pools=[p for p in world.pools if p is not pool])
    for key in world.limits:
        yield replace(world, limits={k: v for k, v in world.limits.items() if k != key})
    for key in world.behaviour:
        yield replace(world, behaviour={k: v for k, v in world.behaviour.items() if k != key})
    for pool in world.pools:
        if pool.budget is not None:
            yield replace(world, pools=[replace(p, budget=None) if p is pool else p for p in world.pools])
    if world.budget is not None:
        yield replace(world, budget=None, pools=[replace(p, budget=None) for p in world.pools])
    if world.timings.get("jitter"):
        yield replace(world, timings={**world.timings, "jitter": 0})
