"""Traces played by the product in a world of their own."""

from collections.abc import Callable
from datetime import timedelta
from random import Random

from receiver.capabilities.registry import step_additions
from receiver.core.model.policy import Billing, Policy, Pool
from receiver.replay.contest import Product
from receiver.replay.figures import violations
from receiver.replay.play import Controller, Played, Reaction, play
from receiver.replay.world.objects import Job, Timings, WorldConfig, WorldPool
from simulator.world import World
from tests.given.life import GPU, PRICE, SIZE, START, a_job

SECOND = timedelta(seconds=1)
POOL = "l40s-id"
PLAIN = Timings(
    build=100 * SECOND,
    boot=20 * SECOND,
    driver=30 * SECOND,
    image_pull=0 * SECOND,
    warmup=0 * SECOND,
    delete=0 * SECOND,
    node_lingers=0 * SECOND,
    terminate=0 * SECOND,
    schedule=timedelta(milliseconds=1),
)
TICK = Reaction(start=START, tick=10 * SECOND)


def a_trace_world(gpus: int = 8) -> World:
    """One empty pool of nodes with *gpus* GPUs, usable 150 s after they are asked for."""
    pools = (WorldPool(id=POOL, size=SIZE, resources={GPU: gpus}),)
    return World(WorldConfig(pools=pools, timings=PLAIN, price={SIZE: PRICE}, packing="first_fit"), START)


def a_trace_policy(gpus: int = 8, **given: object) -> Policy:
    """At most 12 nodes, billed by the started hour."""
    pool = Pool(id=POOL, name="l40s", size=SIZE, resources={GPU: gpus}, max_nodes=12, price_usd_per_hour=PRICE)
    return Policy(**{"pools": (pool,), "billing": Billing(removal_margin=timedelta(minutes=5)), **given})  # type: ignore[arg-type]


def some_jobs(seed: int, count: int = 40) -> list[Job]:
    """Jobs of six hours, some of them gangs."""
    dice = Random(seed)
    return [
        a_job(
            f"job-{number}",
            submit_at=START + dice.uniform(0, 6 * 3600) * SECOND,
            duration=dice.choice((20, 400, 2000, 9000)) * SECOND,
            pods=pods,
            gpus_per_pod=dice.choice((1, 2, 4, 8)),
            gang=pods > 1,
        )
        for number in range(count)
        for pods in [dice.choice((1, 1, 1, 2, 3))]
    ]


def played_by(make: Callable[[World], Controller], jobs: list[Job], reaction: Reaction = TICK) -> Played:
    """Play *jobs* in a world of their own; whatever sized the pools, everything adds up."""
    world = a_trace_world()
    played = play(world, jobs, make(world), reaction)
    assert violations(jobs, played) == []
    return played


def by_product(world: World) -> Controller:
    """The product."""
    return Product(world, a_trace_policy(), step_additions())
