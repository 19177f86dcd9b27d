"""Compute resources (CPU, memory, ephemeral storage, pod slots), and what share of a GPU a device is.

Amounts are whole numbers: CPU in millicores, memory and storage in bytes. A resource that is not named is unknown and
counts as unlimited.

A device is a GPU, a MIG slice of one, or a share in one. MIG profiles name their compute slices, of which a GPU has
seven (NVIDIA, MIG user guide, "Supported MIG Profiles") and an A30 four. NVIDIA's device plugin can offer one device
several times; GPU feature discovery then writes how often into the node's label ``<resource>.replicas``
(k8s-device-plugin, "Shared Access to GPUs").
"""

import math
import re
from collections.abc import Mapping
from functools import lru_cache

CPU, MEMORY, STORAGE, SLOTS = "cpu", "memory", "ephemeral-storage", "pods"
COMPUTE = frozenset({CPU, MEMORY, STORAGE, SLOTS})
MIB, GIB = 2**20, 2**30
PODS_OF_A_NODE = 110  # the kubelet's default, which k3s and Talos keep
STORAGE_KEPT_FREE = 10  # per cent: below that the kubelet evicts, so it is not allocatable (`nodefs.available<10%`)
# What Civo reserves of a node (its documentation, "managing node pools"): a share of each tier, and a fixed part.
MEMORY_TIERS = ((4 * GIB, 25), (4 * GIB, 20), (8 * GIB, 10), (112 * GIB, 6), (math.inf, 2))  # per cent
MEMORY_FIXED = (100 + 200 + 100) * MIB  # for the kubelet, for the system, and the eviction threshold
CPU_TIERS = ((1000, 6.0), (1000, 1.0), (2000, 0.5), (math.inf, 0.25))  # per cent


def gpus_in(resources: Mapping[str, int]) -> int:
    """The GPU units among *resources*."""
    return sum(count for resource, count in resources.items() if resource not in COMPUTE)


def allocatable(size: Mapping[str, int]) -> Mapping[str, int]:
    """Estimate what the kubelet of a node of *size* (CPU, memory, storage of the machine) leaves to pods."""
    kept = {
        CPU: _of_tiers(size.get(CPU, 0), CPU_TIERS),
        MEMORY: _of_tiers(size.get(MEMORY, 0), MEMORY_TIERS) + MEMORY_FIXED,
        STORAGE: size.get(STORAGE, 0) * STORAGE_KEPT_FREE // 100,
    }
    found = {resource: max(0, amount - kept[resource]) for resource, amount in size.items() if resource in kept}
    return {**found, SLOTS: PODS_OF_A_NODE} if found else {}


def less(offered: Mapping[str, int], taken: Mapping[str, int]) -> dict[str, int]:
    """What *taken* leaves of *offered*."""
    return {resource: amount - taken.get(resource, 0) for resource, amount in offered.items()}


def too_much(asks: Mapping[str, int], offers: Mapping[str, int]) -> str | None:
    """Return which of *asks* is more than *offers*, in people's units; None when all of them fit."""
    for resource, asked in asks.items():
        offered = offers.get(resource)
        if offered is not None and asked > offered:
            return f"it asks for {amount(resource, asked, up=True)}, a node offers {amount(resource, offered)}"
    return None


def amount(resource: str, units: int, *, up: bool = False) -> str:
    """Return ``2.5 CPUs`` or ``88.5 GiB of memory``: rounded down, or *up*, so that unequal amounts read so."""
    if resource == SLOTS:
        return f"{units} pod slot{'' if units == 1 else 's'}"
    if resource == CPU:
        return f"{_short(units / 1000)} CPU{'' if units == 1000 else 's'}"
    rounded = (math.ceil if up else math.floor)(units * 100 / GIB) / 100
    return f"{_short(rounded)} GiB of {'memory' if resource == MEMORY else 'ephemeral storage'}"


def _of_tiers(total: int, tiers: tuple[tuple[float, float], ...]) -> int:
    """The sum of each tier's share (per cent) of *total*."""
    kept, left = 0.0, float(total)
    for width, share in tiers:
        kept += min(left, width) * share / 100
        left -= min(left, width)
    return math.ceil(kept)


def _short(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".")


GPU = "nvidia.com/gpu"
SHARED = ".shared"  # the suffix of resources that are handed out several times, unless the plugin keeps the name
PRODUCT_LABEL = "nvidia.com/gpu.product"
COMPUTE_SLICES = 7
A30_SLICES = 4
A30_PROFILES = frozenset({(1, 6), (2, 12), (4, 24)})  # compute slices and GB: no other GPU has these profiles
_PROFILE = re.compile(r"mig-(?:(\d+)c\.)?(\d+)g\.(\d+)gb", re.IGNORECASE)


def gpus_of(devices: Mapping[str, int], labels: Mapping[str, str]) -> float:
    """How many GPUs *devices* (resource name to count) are on a node with *labels*. Unless they name slices or
    replicas, each device counts as one GPU."""
    return sum(count * _weight(resource, labels) for resource, count in devices.items())


def _weight(resource: str, labels: Mapping[str, str]) -> float:
    base = resource.removesuffix(SHARED)
    # Where all slices of a node are alike, the plugin may call them GPUs: the product's name tells.
    profile = labels.get(PRODUCT_LABEL, "") if base == GPU else base
    return _slice(profile) / _replicas(labels.get(f"{base}.replicas", ""))


@lru_cache(maxsize=256)  # names come from pods
def _slice(profile: str) -> float:
    found = _PROFILE.search(profile)
    if found is None:
        return 1.0
    part, compute, memory = (int(number or 0) for number in found.groups())
    slices = A30_SLICES if (compute, memory) in A30_PROFILES else COMPUTE_SLICES
    return min((part or compute) / slices, 1.0)


@lru_cache(maxsize=256)  # names come from pods
def _replicas(said: str) -> int:
    return max(int(said), 1) if said.isascii() and said.isdigit() else 1
