"""The world in which the implementations of a port are compared, and what stands in it."""

from collections.abc import Sequence
from typing import Any

from simulator.clocks import ManualClock
from simulator.server import Simulator
from tests.simulator.builders import GPU_POOL, START, config

ON_THE_WIRE = "on the wire"  # the parameter of a fixture for the product's adapter over HTTP
OWN_LEASE = "gpu-autoscaler/ours"  # of the installation that asks
GPU = "nvidia.com/gpu"
GPU_SIZE = "an.g1.l40s.kube.x4"
GPU_NODES = {"id": GPU_POOL, "size": GPU_SIZE, "resources": {GPU: 4}, "count": 1}


def a_simulator(*pools: dict[str, Any], **changes: Any) -> Simulator:
    """Return a simulator with one node of four GPUs, or with *pools*; its clock is turned by the test."""
    return Simulator(config(**{"pools": list(pools) or [GPU_NODES], **changes}), clock=ManualClock(START))


def set_counts(sim: Simulator, required: int, *, alive: int, deleting: int = 0) -> None:
    """Let Civo require that many nodes of the pool, while that many are alive and that many are being deleted."""
    pool = sim.world.pools[GPU_POOL]
    sim.world.begin_with(GPU_POOL, alive + deleting - len(pool.instances))
    for vm in pool.instances[:deleting]:
        sim.world.delete_instance(GPU_POOL, vm.id)
    pool.required = required


def counts_sent(sim: Simulator) -> Sequence[int]:
    """Return the list that receives each count that reaches Civo from now on."""
    resize, sent = sim.world.resize, []

    def note(pool_id: str, count: int) -> None:
        sent.append(count)
        resize(pool_id, count)

    sim.world.resize = note  # every way to Civo ends here
    return sent
