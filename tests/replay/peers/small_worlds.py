"""Small worlds for the tests of peers: nodes usable 150 s after they were asked for, and nothing else takes time."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from benchmarks.peers import ALL
from receiver.replay.figures import violations
from receiver.replay.play import Controller, Played, Reaction, play
from receiver.replay.world.objects import GPU, VM, Job, Timings, WorldConfig, WorldPool
from simulator.world import World
from tests.replay.builders import L40S, PRICE, T0, after, job, seconds

NONE = timedelta(0)
TIMINGS = Timings(
    build=seconds(100),
    boot=seconds(20),
    driver=seconds(30),
    image_pull=NONE,
    warmup=NONE,
    delete=NONE,
    node_lingers=NONE,
    terminate=NONE,
    schedule=timedelta(milliseconds=1),
    finished_lingers=NONE,
)
MOST = 10


def empty_world(*pools: WorldPool) -> World:
    """A world of *pools*; a job may lose pods six times."""
    config = WorldConfig(pools=pools, timings=TIMINGS, price={L40S: PRICE}, packing="first_fit", backoff_limit=6)
    return World(config, T0)


def played_by(name: str, jobs: Sequence[Job], *sizes: int, most: int = MOST) -> Played:
    """Let a peer run *jobs* on pools of *sizes* (8 GPUs by default), called p1, p2 and so on, with at most *most* nodes
    each, and check that everything adds up."""
    pools = (WorldPool(id=f"p{size}", size=L40S, resources={GPU: size}) for size in sizes or (8,))
    return played_on(name, jobs, *pools, most=most)


def played_on(name: str, jobs: Sequence[Job], *pools: WorldPool, most: int = MOST) -> Played:
    """The same on *pools*."""
    peer = ALL[name]
    world = empty_world(*pools)
    limits = dict.fromkeys(world.pools, most)
    controller: Controller = peer(world, limits, jobs)
    played = play(world, jobs, controller, Reaction(start=T0, tick=peer.every))
    assert violations(jobs, played, limits) == []
    return played


def at(name: str, submit: float, runs: float = 600, gpus: int = 8, pods: int = 1) -> Job:
    """A job of *pods* pods with *gpus* GPUs each, that many seconds after the beginning."""
    return job(name, runs, submit_at=after(submit), gpus_per_pod=gpus, pods=pods, gang=pods > 1)


def asked_at(played: Played) -> list[float]:
    """When each node was asked for, in seconds from the beginning."""
    return [since_start(vm.created_at) for vm in played.lives]


def kept_empty(played: Played, vm: VM) -> float:
    """For how many seconds *vm* was kept after the last pod on it ended."""
    ended = max(p.ended_at for p in played.placements.all if p.node == vm.hostname and p.ended_at is not None)
    assert vm.deleted_at is not None
    return (vm.deleted_at - ended).total_seconds()


def since_start(moment: datetime) -> float:
    """Seconds from the beginning."""
    return (moment - T0).total_seconds()
