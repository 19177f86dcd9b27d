"""Small worlds and jobs for the tests of the simulated world."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from receiver.replay.world.objects import GPU, VM, Behaviour, Job, Timings, WorldConfig, WorldPod, WorldPool
from simulator.world import World

T0 = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
L40S = "an.g1.l40s.kube.x1"
PRICE = Decimal("1.29")


def seconds(value: float) -> timedelta:
    """A duration."""
    return timedelta(seconds=value)


def after(value: float) -> datetime:
    """The moment that many seconds after the beginning."""
    return T0 + timedelta(seconds=value)


def pool(name: str = "a", **changes: Any) -> WorldPool:
    """A pool of one-GPU nodes."""
    return WorldPool(**{"id": name, "size": L40S, "resources": {GPU: 1}, **changes})


def world(
    *pools: WorldPool, timings: Timings | None = None, behaviour: Behaviour | None = None, **changes: Any
) -> World:
    """A world of *pools* (one empty one by default), with round timings: build 120 s, boot 20 s, driver 180 s."""
    config = WorldConfig(
        pools=pools or (pool(),),
        timings=timings or Timings(),
        behaviour=behaviour or Behaviour(),
        price={L40S: PRICE},
        **changes,
    )
    return World(config, T0)


def job(name: str = "j", runs: float = 600, **changes: Any) -> Job:
    """A job of one pod with one GPU."""
    return Job(**{"id": name, "submit_at": T0, "duration": seconds(runs), **changes})


def vms(world: World, name: str = "a") -> list[VM]:
    """The instances that Civo lists for a pool."""
    return world.pools[name].instances


def the_pod(world: World, name: str = "j-0", namespace: str = "default") -> WorldPod:
    """A pod as it is now."""
    return world.pods[namespace, name]


def run(world: World, to: float) -> World:
    """Advance to that many seconds after the beginning."""
    world.advance(after(to))
    return world


def placed(w: World, *jobs: Job, by: float = 1) -> list[str | None]:
    """Submit *jobs* and return where each first pod is, a second later."""
    for j in jobs:
        w.submit(j)
    run(w, by)
    return [the_pod(w, f"{j.id}-0").node for j in jobs]
