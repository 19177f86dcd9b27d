"""Compute resources: the CPU, memory, ephemeral storage and pod slots that a GPU pod needs besides its GPUs.

Amounts are whole numbers: CPU in millicores, memory and storage in bytes. A resource that is not named is unknown and
counts as unlimited.
"""

import math
from collections.abc import Mapping

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
    """Return ``2.5 CPUs`` or ``88.5 GiB of memory``: rounded down, or *up*, so that what differs reads differently."""
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
