"""GPUs that pods share by KAI Scheduler or HAMi, as both write it into pods and nodes.

KAI (pkg/common/constants of github.com/NVIDIA/KAI-Scheduler): annotations of the pod, no resource in its spec. A
reservation pod holds the whole GPU, and a label of both names the group of pods on it. HAMi (pkg/device/nvidia of
github.com/Project-HAMi/HAMi): resources of the container; a node offers each GPU several times over.
"""

from collections.abc import Mapping

from receiver.core.model.shares import GPU, GPU_MEMORY, HAMI, KAI, SPLIT, gpu_memory, share_of
from receiver.core.model.text import cut, harmless

FRACTION, MEMORY, DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"  # annotations
GROUP = "runai-gpu-group"  # a label; with several devices there is one for each, ``runai-gpu-group/NAME``
RESERVATIONS = "kai-resource-reservation"  # a namespace
GPUMEM, PERCENTAGE, CORES = "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"
REGISTERED = "hami.io/node-nvidia-register"  # of a node: ``UUID,count,MiB,cores,type,NUMA node,healthy,...:`` per GPU
ALLOCATED = "hami.io/vgpu-devices-allocated"  # of a pod: ``UUID,type,MiB,cores:`` per GPU, ``;`` after each container
FEW_DIGITS = 9
SHOWN = 60  # characters of what is not understood


def of_container(found: Mapping[str, int]) -> dict[str, int]:
    """Return *found*, resources of one container, with what it asks of HAMi beside its GPUs as shares of them. HAMi
    gives one GPU where no number stands, and all its memory where no amount stands."""
    if not found.keys() & {GPUMEM, PERCENTAGE, CORES}:
        return dict(found)
    rest = {name: count for name, count in found.items() if name not in (GPU, GPUMEM, PERCENTAGE, CORES)}
    memory = f"={found[GPUMEM]}" if GPUMEM in found else f"-percentage={found.get(PERCENTAGE, 100)}"
    return {**rest, f"{HAMI}gpumem{memory},gpucores={found.get(CORES, 0)}": found.get(GPU, 1)}


def of_annotations(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return the shares that *annotations* ask of KAI. One that is not understood is named as written, and no node
    holds it."""
    name = FRACTION if FRACTION in annotations else MEMORY
    said = annotations.get(name)
    if said is None:
        return {}
    count = annotations.get(DEVICES, "1").strip()
    if not _is_count(count):
        return {f"{KAI}{DEVICES}={_quoted(count)}": 1}
    share = f"{KAI}{name}={_plain(said.strip()) if name == FRACTION else said.strip()}"
    return {share if share_of(share) else f"{KAI}{name}={_quoted(said)}": int(count)}


def devices_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return the devices that a bound pod was given: KAI's groups, or the UUIDs that HAMi wrote down."""
    if ALLOCATED in annotations:
        parts = annotations[ALLOCATED].replace(";", ":").split(":")
        return tuple(uuid for part in parts if (uuid := part.partition(",")[0].strip()))
    groups = [value for name, value in labels.items() if name == GROUP or name.startswith(f"{GROUP}/")]
    return tuple(sorted(filter(None, groups)))


def of_node(
    allocatable: Mapping[str, int], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the GPUs of a node as they are, and what a share needs to know of them. HAMi offers each GPU several
    times over, and registers the healthy ones."""
    devices = [part.split(",") for part in annotations.get(REGISTERED, "").split(":") if part.count(",") >= 6]
    healthy = [d for d in devices if d[6].strip().lower() == "true" and _is_count(d[1]) and _is_count(d[2])]
    if GPU in allocatable and healthy:
        known = {GPU_MEMORY: min(int(d[2]) for d in healthy), SPLIT: min(int(d[1]) for d in healthy)}
        return {**allocatable, GPU: min(allocatable[GPU], len(healthy))}, known
    memory = gpu_memory(labels)
    return dict(allocatable), {GPU_MEMORY: memory} if memory and allocatable else {}


def _plain(said: str) -> str:
    """Return a number such as ``.5`` or ``5e-1`` without an exponent; anything else as it is."""
    try:
        number = float(said) if len(said) <= FEW_DIGITS and said.isascii() else None
    except ValueError:
        number = None
    return said if number is None or not 0 < number < 1 else f"{number:.{FEW_DIGITS}f}".rstrip("0")


def _is_count(said: str) -> bool:
    return said.isascii() and said.isdigit() and len(said) <= FEW_DIGITS and int(said) > 0


def _quoted(said: str) -> str:
    return f'"{cut(harmless(" ".join(said[: 4 * SHOWN].split())), SHOWN)}"'
