"""The metrics of one node's dcgm-exporter (names, units and labels of exporter 4.5 to 4.8)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from receiver.replay.world.objects import WorldPool
from simulator.config import MetricsFace
from simulator.exposition import Family
from simulator.gpu_metrics import POWER_NOISE, GpuSample
from simulator.kubernetes_objects import CONTAINER
from simulator.world import World

DRIVER = "570.148.08"
RESERVED_MIB = 612
XID_MESSAGES: Mapping[int, str] = {
    0: "No Error",
    13: "Graphics Engine Exception",
    31: "GPU memory page fault",
    43: "GPU stopped processing",
    45: "Preemptive cleanup, due to previous errors",
    48: "Double Bit ECC Error",
    63: "GPU memory remapping event",
    64: "GPU memory remapping failure",
    74: "NVLink Error",
    79: "GPU has fallen off the bus",
    94: "Contained ECC error",
    95: "Uncontained ECC error",
    109: "Context Switch Timeout Error",
    119: "GSP RPC timeout",
}


XID = "DCGM_FI_DEV_XID_ERRORS"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
FIELDS: Mapping[str, str] = {
    "DCGM_FI_DEV_SM_CLOCK": "SM clock frequency (in MHz).",
    "DCGM_FI_DEV_MEMORY_TEMP": "Memory temperature (in C).",
    "DCGM_FI_DEV_GPU_TEMP": "GPU temperature (in C).",
    "DCGM_FI_DEV_POWER_USAGE": "Power draw (in W).",
    ENERGY: "Total energy consumption since boot (in mJ).",
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_DEV_MEM_COPY_UTIL": "Memory utilization (in %).",
    XID: "Value of the last XID error encountered.",
    "DCGM_FI_DEV_FB_FREE": "Framebuffer memory free (in MiB).",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
    "DCGM_FI_DEV_FB_RESERVED": "Framebuffer memory reserved (in MiB).",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "Number of remapped rows for uncorrectable errors",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": "Number of remapped rows for correctable errors",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "Whether remapping of rows has failed",
    "DCGM_FI_DEV_ROW_REMAP_PENDING": "Whether remapping of rows is pending",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "Total number of double-bit volatile ECC errors.",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": "Total number of NVLink bandwidth counters for all lanes.",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "Ratio of time the graphics engine is active.",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "Ratio of cycles the tensor (HMMA) pipe is active.",
    "DCGM_FI_PROF_DRAM_ACTIVE": "Ratio of cycles the device memory interface is active sending or receiving data.",
}
WHOLE_GPUS = frozenset({"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL"})
ECC = frozenset({"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"})
NVLINK = frozenset({"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"})
REMAPPED = frozenset({"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"})
REMAP_STATE = frozenset({"DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_PENDING"})
COUNTERS = REMAPPED | ECC | NVLINK | {ENERGY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ills:
    """The faults of single GPUs at *now*, by node and GPU.

    *xids* is the last one each reports. *stalls* is what the engine does (ratio 0-1) while nothing gets done. *leaks*
    says since when memory is taken, and how many MiB an hour. *readings* are values of FIELDS that stand in for all of
    that; None leaves a field out.
    """

    now: datetime
    xids: Mapping[tuple[str, int], int] = field(default_factory=dict)
    stalls: Mapping[tuple[str, int], float] = field(default_factory=dict)
    leaks: Mapping[tuple[str, int], tuple[datetime, float]] = field(default_factory=dict)
    readings: Mapping[tuple[str, int], Mapping[str, float | None]] = field(default_factory=dict)

    def seen(self, sample: GpuSample, gpu: int) -> Mapping[str, float | None]:
        """Return the value of each field that the exporter reads at *sample*, which is of *gpu* on its node."""
        where = (sample.node, gpu)
        values: Mapping[str, float | None] = _values(self._leaked(sample, where), self.now)
        stalled = _stalled(self.stalls[where]) if where in self.stalls else {}
        return {**values, **stalled, **self.readings.get(where, {})}

    def _leaked(self, sample: GpuSample, where: tuple[str, int]) -> GpuSample:
        if where not in self.leaks:
            return sample
        since, rate = self.leaks[where]
        room = sample.memory_free - RESERVED_MIB
        taken = min(room, round(rate * (self.now - since).total_seconds() / 3600))
        return replace(sample, memory_used=sample.memory_used + taken, memory_free=sample.memory_free - taken)


def _stalled(engine: float) -> Mapping[str, float]:
    """Return the fields of a GPU whose kernels poll: the engine works, nothing is computed and nothing is moved."""
    idle = ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_DEV_MEM_COPY_UTIL")
    seen = {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": engine, "DCGM_FI_DEV_GPU_UTIL": round(engine * 100)}
    return {**seen, **dict.fromkeys(idle, 0.0)}


def samples_on(world: World, node: str) -> list[GpuSample]:
    """Return what the GPUs of *node* report; empty while no exporter runs there."""
    return [s for s in world.gpu_samples() if s.node == node]


def dcgm(
    samples: Sequence[GpuSample],
    spec: WorldPool,
    face: MetricsFace,
    ills: Ills,
) -> list[Family]:
    """Return the families of one node's exporter; *samples* are all of that node's, *spec* what it is made of."""
    families = {name: Family(name, FIELDS[name], _type(name)) for name in _delivered(spec, face)}
    for sample, gpu, replica in _devices(samples, spec):
        labels = _labels(sample, gpu, replica, spec, face)
        values = ills.seen(sample, gpu)
        for name, family in families.items():
            value = values.get(name)
            if value is not None:
                family.put(labels, value)
        code = ills.xids.get((sample.node, gpu), 0)
        error = {"err_code": str(code), "err_msg": XID_MESSAGES.get(code, "Unknown Error")}
        families[XID].put({**labels, **error}, code)
    return list(families.values())


def _delivered(spec: WorldPool, face: MetricsFace) -> Iterable[str]:
    """Yield the names that this node's exporter has values for: it skips what a GPU has no answer to."""
    for name in FIELDS:
        if spec.mig and name in WHOLE_GPUS:
            continue  # NVML has no answer for an instance
        if name in NVLINK and (spec.mig or spec.gpu_units < 2):
            continue  # a node with one GPU has no links
        if "_PROF_" in name and not face.profiling:
            continue
        if name in ECC and not face.ecc:
            continue
        if name == "DCGM_FI_DEV_FB_RESERVED" and not face.fb_reserved:
            continue
        yield name


def _type(name: str) -> str:
    return "counter" if name in COUNTERS else "gauge"


def _devices(samples: Sequence[GpuSample], spec: WorldPool) -> Sequence[tuple[GpuSample, int, int]]:
    """Return what has series of its own, with its physical GPU and its number there.

    A MIG instance has; time-sliced replicas share one device, and the last of its pods gives it its labels.
    """
    each = max(1, len(samples) // max(1, spec.gpu_units))
    if spec.mig or each == 1:
        return [(s, s.index // each, s.index % each) for s in samples]
    shown = []
    for gpu in range(spec.gpu_units):
        group = samples[gpu * each : (gpu + 1) * each]
        held = [s for s in group if s.pod is not None]
        busiest = max(group, key=lambda s: s.util)
        shown.append((replace(busiest, pod=held[-1].pod if held else None), gpu, 0))
    return shown


def _labels(sample: GpuSample, gpu: int, replica: int, spec: WorldPool, face: MetricsFace) -> Mapping[str, str]:
    labels = {
        "gpu": str(gpu),
        "UUID": f"{sample.uuid[:-2]}{gpu:02x}",
        "pci_bus_id": f"00000000:{gpu + 1:02X}:00.0",
        "device": f"nvidia{gpu}",
        "modelName": sample.model_name,
        face.node_label: sample.node,
        "DCGM_FI_DRIVER_VERSION": DRIVER,
    }
    if spec.mig:
        labels["GPU_I_PROFILE"] = sample.resource.rpartition("mig-")[2]
        labels["GPU_I_ID"] = str(replica + 7)
    if sample.pod is not None:  # an idle GPU's series carry no workload labels at all
        labels |= {"container": CONTAINER, "namespace": sample.pod[0], "pod": sample.pod[1]}
    return labels


def _values(sample: GpuSample, now: datetime) -> Mapping[str, float]:
    """NVLink's field is in MiB/s, although its type is counter. Power is never quite still, and the energy is that of
    100 W since the last multiple of 1e8 seconds."""
    second = int(now.timestamp())
    return {
        "DCGM_FI_DEV_SM_CLOCK": 2520 if sample.util else 210,
        "DCGM_FI_DEV_MEMORY_TEMP": 0,
        "DCGM_FI_DEV_GPU_TEMP": round(sample.temperature),
        "DCGM_FI_DEV_POWER_USAGE": round(sample.power - POWER_NOISE * (second * 7 % 11) / 10, 3),
        ENERGY: second % 100_000_000 * 100_000,
        "DCGM_FI_DEV_GPU_UTIL": round(sample.util * 100),
        "DCGM_FI_DEV_MEM_COPY_UTIL": round(sample.util * 45),
        "DCGM_FI_DEV_FB_FREE": sample.memory_free - RESERVED_MIB,
        "DCGM_FI_DEV_FB_USED": sample.memory_used,
        "DCGM_FI_DEV_FB_RESERVED": RESERVED_MIB,
        **dict.fromkeys((*REMAPPED, *ECC, *REMAP_STATE), 0),
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": round(sample.util * 250_000),
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": round(sample.util, 6),
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": round(sample.util * 0.55, 6),
        "DCGM_FI_PROF_DRAM_ACTIVE": round(sample.util * 0.4, 6),
    }
