"""GPUs that pods share by KAI Scheduler or HAMi, as both write it into pods and nodes.

KAI (pkg/common/constants of github.com/NVIDIA/KAI-Scheduler): annotations of the pod, no resource in its spec. Since
0.18 each container may ask for memory (``nvidia.com/container.NAME.gpu-memory.request``), which goes before the older
annotations of the pod. A limit without a request is the request, as everywhere in Kubernetes. A reservation pod holds
the whole GPU, and a label of both names the group of pods on it. HAMi (pkg/device/nvidia of
github.com/Project-HAMi/HAMi): resources of the container; a node offers each GPU several times over.
"""

import re
from collections.abc import Mapping
from math import ceil

from kubernetes.utils.quantity import parse_quantity

from receiver.core.model.shares import GPU, GPU_MEMORY, HAMI, KAI, SPLIT, gpu_memory, share_of
from receiver.core.model.text import cut, harmless

FRACTION, MEMORY, DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"  # annotations
LIMIT = ".limit"  # behind the name of what it limits
OF_CONTAINER = re.compile(r"nvidia\.com/container\.(?P<name>.+)\.gpu-memory\.(?P<kind>request|limit)")
MODE, TIME_SLICING, SM_SHARING = "kai.scheduler/gpu-compute-sharing-mode", "time-slicing", "sm-sharing"
MIB = 1024 * 1024
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
    share = _of_containers(annotations) or _of_the_pod(annotations)
    if not share:
        return {}
    count, mode = annotations.get(DEVICES, "1").strip(), annotations.get(MODE, TIME_SLICING).strip()
    if not _is_count(count):
        return {f"{KAI}{DEVICES}={_quoted(count)}": 1}
    if mode not in (TIME_SLICING, SM_SHARING):
        return {f"{MODE}={_quoted(mode)}": 1}
    return {share + (f",mode={mode}" if mode == SM_SHARING else ""): int(count)}


def _of_containers(annotations: Mapping[str, str]) -> str:
    """The share of a pod whose containers ask for memory each: they use the same devices, so it is their sum."""
    amounts: dict[str, str] = {}
    for key, text in annotations.items():
        match = OF_CONTAINER.fullmatch(key)
        if match is not None and (match["kind"] == "request" or match["name"] not in amounts):
            amounts[match["name"]] = text
    total = 0
    for text in amounts.values():
        mib = _mib(text.strip())
        if not mib:
            return f"{KAI}{MEMORY}={_quoted(text)}"
        total += mib
    return f"{KAI}{MEMORY}={total}" if total else ""


def _of_the_pod(annotations: Mapping[str, str]) -> str:
    """The share that the annotations of the pod as a whole ask for."""
    names = (FRACTION, FRACTION + LIMIT, MEMORY, MEMORY + LIMIT)
    name = next((name for name in names if name in annotations), None)
    if name is None:
        return ""
    kind, amount = name.removesuffix(LIMIT), annotations[name]
    share = f"{KAI}{kind}={_plain(amount.strip()) if kind == FRACTION else amount.strip()}"
    return share if share_of(share) else f"{KAI}{kind}={_quoted(amount)}"


def _mib(text: str) -> int:
    """Return the full MiB of a quantity of Kubernetes, rounded up; 0 for none."""
    try:
        amount = parse_quantity(text) / MIB
    except (ValueError, ArithmeticError):
        return 0
    return ceil(amount) if 0 < amount < 10**FEW_DIGITS else 0


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
