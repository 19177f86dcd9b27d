"""What a device is of a GPU: one, a slice of it, or a share in it.

MIG profiles name their compute slices, of which a GPU has seven (NVIDIA, MIG user guide, "Supported MIG Profiles"),
an A30 four. NVIDIA's device plugin hands one device out several times where it is told to; GPU feature discovery
then writes how often into the node's label ``<resource>.replicas`` (k8s-device-plugin, "Shared Access to GPUs").
"""

import re
from collections.abc import Mapping
from functools import lru_cache

GPU = "nvidia.com/gpu"
SHARED = ".shared"  # the suffix of resources that are handed out several times, unless the plugin keeps the name
PRODUCT_LABEL = "nvidia.com/gpu.product"
COMPUTE_SLICES = 7
A30_SLICES = 4
A30_PROFILES = frozenset({(1, 6), (2, 12), (4, 24)})  # compute slices and GB: no other GPU has these profiles
_PROFILE = re.compile(r"mig-(?:(\d+)c\.)?(\d+)g\.(\d+)gb", re.IGNORECASE)


def gpus_of(devices: Mapping[str, int], labels: Mapping[str, str]) -> float:
    """How many GPUs *devices* (resource name to count) are on a node with *labels*. What says nothing of slices and
    replicas counts as one GPU for each device."""
    return sum(count * _weight(resource, labels) for resource, count in devices.items())


def _weight(resource: str, labels: Mapping[str, str]) -> float:
    base = resource.removesuffix(SHARED)
    # Where all slices of a node are alike, the plugin may call them GPUs: the product's name tells.
    profile = labels.get(PRODUCT_LABEL, "") if base == GPU else base
    return _slice(profile) / _replicas(labels.get(f"{base}.replicas", ""))


@lru_cache(maxsize=256)  # names come from whoever writes pods
def _slice(profile: str) -> float:
    found = _PROFILE.search(profile)
    if found is None:
        return 1.0
    part, compute, memory = (int(number or 0) for number in found.groups())
    slices = A30_SLICES if (compute, memory) in A30_PROFILES else COMPUTE_SLICES
    return min((part or compute) / slices, 1.0)


@lru_cache(maxsize=256)  # names come from whoever writes pods
def _replicas(said: str) -> int:
    return max(int(said), 1) if said.isascii() and said.isdigit() else 1
