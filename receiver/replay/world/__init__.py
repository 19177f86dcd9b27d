"""A GPU cloud and its Kubernetes cluster as a pure, deterministic state machine (no I/O, no clock of its own)."""

from receiver.replay.world.config import (
    CLAIMS,
    GANG_ANNOTATION,
    GPU,
    POOL_LABEL,
    Behaviour,
    Job,
    Pdb,
    PodSpec,
    Timings,
    WorldConfig,
    WorldPool,
)
from receiver.replay.world.faults import Faults
from receiver.replay.world.objects import (
    VM,
    CivoPool,
    Denied,
    FinishedJob,
    GpuSample,
    Kill,
    WorldChange,
    WorldCharge,
    WorldEvent,
    WorldNode,
    WorldPod,
)
from receiver.replay.world.world import World

__all__ = [
    "CLAIMS",
    "GANG_ANNOTATION",
    "GPU",
    "POOL_LABEL",
    "VM",
    "Behaviour",
    "CivoPool",
    "Denied",
    "Faults",
    "FinishedJob",
    "GpuSample",
    "Job",
    "Kill",
    "Pdb",
    "PodSpec",
    "Timings",
    "World",
    "WorldChange",
    "WorldCharge",
    "WorldConfig",
    "WorldEvent",
    "WorldNode",
    "WorldPod",
    "WorldPool",
]
