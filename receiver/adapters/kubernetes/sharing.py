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


def of_container(counts: Mapping[str, int]) -> dict[str, int]:
    """Return *counts*, resources of one container, with what it asks of HAMi beside its GPUs as shares of them. HAMi
    gives one GPU where no number stands, and all its memory where no amount stands."""
    if not counts.keys() & {GPUMEM, PERCENTAGE, CORES}:
        return dict(counts)
    others = {name: count for name, count in counts.items() if name not in (GPU, GPUMEM, PERCENTAGE, CORES)}
    memory = f"={counts[GPUMEM]}" if GPUMEM in counts else f"-percentage={counts.get(PERCENTAGE, 100)}"
    return {**others, f"{HAMI}gpumem{memory},gpucores={counts.get(CORES, 0)}": counts.get(GPU, 1)}


def of_annotations(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return the shares that *annotations* ask of KAI. One that is not understood is named as written, and no node
    holds it."""
    name = FRACTION if FRACTION in annotations else MEMORY
    amount = annotations.get(name)
    if amount is None:
        return {}
    count = annotations.get(DEVICES, "1").strip()
    if not _is_count(count):
        return {f"{KAI}{DEVICES}={_quoted(count)}": 1}
    share = f"{KAI}{name}={_plain(amount.strip()) if name == FRACTION else amount.strip()}"
    return {share if share_of(share) else f"{KAI}{name}={_quoted(amount)}": int(count)}


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
        facts = {GPU_MEMORY: min(int(d[2]) for d in healthy), SPLIT: min(int(d[1]) for d in healthy)}
        return {**allocatable, GPU: min(allocatable[GPU], len(healthy))}, facts
    memory = gpu_memory(labels)
    return dict(allocatable), {GPU_MEMORY: memory} if memory and allocatable else {}


def _plain(text: str) -> str:
    """Return a number such as ``.5`` or ``5e-1`` without an exponent; anything else as it is."""
    try:
        number = float(text) if len(text) <= FEW_DIGITS and text.isascii() else None
    except ValueError:
        number = None
    return text if number is None or not 0 < number < 1 else f"{number:.{FEW_DIGITS}f}".rstrip("0")


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= FEW_DIGITS and int(text) > 0


def _quoted(text: str) -> str:
    return f'"{cut(harmless(" ".join(text[: 4 * SHOWN].split())), SHOWN)}"'
