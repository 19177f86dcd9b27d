"""Faults of GPUs, and of workloads that make little of them."""

from collections.abc import Callable

from tests.rules.catalogue import LARGE, ON_LARGE, ON_SMALL, SMALL, WITH_LARGE, Fault, a_policy, busy
from tests.rules.hours import Hours

UNDERUSED = {"GpuPoolUnderutilized": "the pool's average is low too"}


def _says(field: str, value: float, minutes: float, before: float = 5) -> Callable[[Hours], None]:
    """A GPU says *value* for a field of DCGM after *before* minutes of work."""

    def course(h: Hours) -> None:
        busy(h, before)
        h.fault(kind="reading", node=h.nodes(SMALL)[0], gpu=0, field=field, value=value)
        h.pass_time(minutes)

    return course


def _xid(code: int) -> Callable[[Hours], None]:
    def course(h: Hours) -> None:
        busy(h)
        h.fault(kind="xid", node=h.nodes(SMALL)[0], gpu=0, code=code)
        h.pass_time(10)

    return course


def _killed_after(code: int) -> Callable[[Hours], None]:
    """XID *code* is followed by the one of the program that is killed because of it."""

    def course(h: Hours) -> None:
        busy(h)
        for xid, minutes in ((code, 1), (45, 40)):
            h.fault(kind="xid", node=h.nodes(SMALL)[0], gpu=0, code=xid)
            h.pass_time(minutes)

    return course


def _frozen(h: Hours) -> None:
    """The exporter of one node repeats itself; it does so at rest, and the node works."""
    busy(h)
    rest = {"PROF_GR_ENGINE_ACTIVE": 0, "DEV_GPU_UTIL": 0, "DEV_POWER_USAGE": 72.31}
    for field, value in {**rest, "DEV_TOTAL_ENERGY_CONSUMPTION": 9}.items():
        h.fault(kind="reading", node=h.nodes(SMALL)[0], gpu=0, field=f"DCGM_FI_{field}", value=value)
    h.pass_time(70)


def _without(field: str) -> Callable[[Hours], None]:
    def course(h: Hours) -> None:
        busy(h)
        for node in h.nodes(SMALL):
            h.fault(kind="reading", node=node, gpu=0, field=field, value=None)
        h.pass_time(40)

    return course


def _falls_off_the_bus(h: Hours) -> None:
    """XID 79 is reported once, then nothing of the GPU."""
    busy(h)
    node = h.nodes(SMALL)[0]
    h.fault(kind="xid", node=node, gpu=0, code=79)
    h.pass_time(1)
    h.fault(kind="telemetry_gone")
    h.pass_time(45)


def _unhealthy(h: Hours) -> None:
    """The simulator's nodes offer all that they have: that this one has more comes from a page of its own."""
    busy(h)
    capacity = f'kube_node_status_capacity{{node="{h.nodes(SMALL)[0]}",resource="nvidia_com_gpu"}} 2\n'
    h.pages["kube-state-metrics"] = lambda: capacity
    h.pass_time(20)


def _leaks(h: Hours) -> None:
    """Memory of 46068 MiB grows by 240 MiB a minute, beginning at a half."""
    busy(h)
    node = h.nodes(SMALL)[0]
    for minute in range(85):
        used = 22000 + 240 * minute
        h.fault(kind="reading", node=node, gpu=0, field="DCGM_FI_DEV_FB_USED", value=used)
        h.fault(kind="reading", node=node, gpu=0, field="DCGM_FI_DEV_FB_FREE", value=46068 - 612 - used)
        h.pass_time(1)


def _stalls(h: Hours) -> None:
    h.submit("train", gpu_util=0.65, gpus_per_pod=8, **ON_LARGE)
    busy(h, 20)
    node = h.nodes(LARGE)[0]
    for gpu in range(8):
        for field, value in (("GR_ENGINE_ACTIVE", 1), ("PIPE_TENSOR_ACTIVE", 0), ("DRAM_ACTIVE", 0)):
            h.fault(kind="reading", node=node, gpu=gpu, field=f"DCGM_FI_PROF_{field}", value=value)
    h.pass_time(25)


def _works_at(engine: float, minutes: float) -> Callable[[Hours], None]:
    def course(h: Hours) -> None:
        h.submit("a", gpu_util=engine, **ON_SMALL)
        h.submit("b", gpu_util=0.69, **ON_SMALL)
        h.pass_time(minutes)

    return course


FAULTS = (
    Fault(title="a GPU is at 90 C", raises=("GpuTemperatureHigh",), course=_says("DCGM_FI_DEV_GPU_TEMP", 90, 12)),
    Fault(title="a GPU is at 84 C", course=_says("DCGM_FI_DEV_GPU_TEMP", 84, 12)),
    Fault(title="a GPU falls off the bus (XID 79)", raises=("GpuXidFatal",), course=_xid(79)),
    Fault(
        title="a GPU falls off the bus (XID 79) and its metrics end",
        raises=("GpuXidFatal",),
        also={"GpuTelemetryMissing": "the exporter is silent too"},
        course=_falls_off_the_bus,
    ),
    Fault(
        title="a double-bit error (XID 48), and the program is killed (XID 45)",
        raises=("GpuXidFatal",),
        course=_killed_after(48),
    ),
    Fault(
        title="an exporter repeats itself",
        raises=("GpuTelemetryMissing",),
        also={"GpuPoolUnderutilized": "for the half hour until that is certain"},
        course=_frozen,
    ),
    Fault(
        title="DCGM's profiling is stuck at 0 on a busy GPU",
        raises=("GpuProfilingStuck",),
        course=_says("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0, 25, before=15),
    ),
    Fault(
        title="the exporter has no energy counter",
        raises=("GpuCountersMissing",),
        course=_without("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"),
    ),
    Fault(
        title="a row of memory waits for a reset",
        raises=("GpuRowRemapPending",),
        course=_says("DCGM_FI_DEV_ROW_REMAP_PENDING", 1, 10),
    ),
    Fault(title="one of two GPUs of a node is unhealthy", raises=("GpuNodeGpusUnhealthy",), course=_unhealthy),
    Fault(title="a program faults on a GPU (XID 31)", raises=("GpuXidError",), course=_xid(31)),
    Fault(title="a process is killed (XID 45)", course=_xid(45)),
    Fault(
        title="a row of memory cannot be remapped",
        raises=("GpuRowRemapFailed",),
        course=_says("DCGM_FI_DEV_ROW_REMAP_FAILURE", 1, 5),
    ),
    Fault(
        title="a row is remapped for an uncorrectable error",
        raises=("GpuEccUncorrectable",),
        course=_says("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 1, 5),
    ),
    Fault(title="a program's GPU memory grows until it is full", raises=("GpuMemoryLeakSuspected",), course=_leaks),
    Fault(
        title="training on eight GPUs hangs in a collective",
        raises=("GpuCollectiveStalled",),
        also={"GpuPoolBusy": "its GPUs spin at 100 %"},
        course=_stalls,
        policy=a_policy(large={"min_nodes": 1}),
        config=WITH_LARGE,
    ),
    Fault(
        title="a pod does not use its GPU for 80 minutes",
        raises=("GpuAllocatedIdle",),
        also=UNDERUSED,
        course=_works_at(0.0, 80),
    ),
    Fault(
        title="a pod runs at 15 % for five and a half hours",
        raises=("GpuWorkloadUnderutilized",),
        also=UNDERUSED,
        course=_works_at(0.15, 330),
    ),
    Fault(title="a pod runs at 45 % for 80 minutes", course=_works_at(0.45, 80)),
)
