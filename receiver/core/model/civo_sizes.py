"""The labels that nodes of Civo's GPU sizes carry, as far as the size alone says.

A pool at zero shows nothing, and much GPU work selects labels of NVIDIA's GPU feature discovery. Where Civo does not
say which board a size has, or releases of the driver or of the discovery print another value, each value is possible:
a node that turns out otherwise costs one paid hour, and refuses such work afterwards.

Sources: sizes and boards from Civo's pricing page (2026-08-22); products, MiB and families as nodes of other clouds
show them (``kubectl get node -o yaml``, ``nvidia-smi``); the rules of the labels from NVIDIA/k8s-device-plugin,
internal/lm/resource.go: the product is NVML's name with dashes, the memory NVML's total in MiB, and time-slicing
without ``renameByDefault`` appends ``-SHARED``. Older releases call Ada ``ampere`` and Blackwell ``undefined``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from receiver.core.model.shares import GPU, GPU_MEMORY

Values = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gpu:
    """One kind of GPU by the values of its labels; *compute* is its CUDA compute capability, *vcpus* those of a node by
    its number of GPUs, as far as Civo publishes them."""

    products: Values
    memory: Values  # MiB
    families: Values
    compute: tuple[str, str]
    vcpus: Mapping[int, int]
    mig: bool = True


L40S = _Gpu(
    products=("NVIDIA-L40S",),
    memory=("46068",),
    families=("ada-lovelace", "ampere"),
    compute=("8", "9"),
    vcpus={1: 12, 2: 24, 4: 48, 8: 96},
    mig=False,
)
A100_40 = _Gpu(
    products=("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB"),
    memory=("40960", "40536", "40537"),  # releases of the driver before 510 leave out what they reserve
    families=("ampere",),
    compute=("8", "0"),
    vcpus={1: 8, 2: 16, 4: 32, 8: 64},
)
A100_80 = _Gpu(
    products=("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe"),
    memory=("81920", "81251"),
    families=("ampere",),
    compute=("8", "0"),
    vcpus={1: 12, 2: 24, 4: 48, 8: 96},
)
H100 = _Gpu(
    products=("NVIDIA-H100-80GB-HBM3",),
    memory=("81559",),
    families=("hopper",),
    compute=("9", "0"),
    vcpus={1: 23, 8: 184},
)
H200 = _Gpu(
    products=("NVIDIA-H200",), memory=("143771",), families=("hopper",), compute=("9", "0"), vcpus={1: 23, 8: 176}
)
B200 = _Gpu(
    products=("NVIDIA-B200",),
    memory=("183359",),
    families=("blackwell", "undefined"),
    compute=("10", "0"),
    vcpus={8: 220},
)
# The name of a size says its kind, and its GPUs as a number or a word.
SIZES = (
    (re.compile(r"an\.g1\.l40s\.kube\.x(\d+)"), L40S),
    (re.compile(r"g4g\.40\.kube\.(small|medium|large|xlarge)"), A100_40),
    (re.compile(r"g4g\.kube\.(small|medium|large|xlarge)"), A100_80),
    (re.compile(r"an\.g1\.h100(?:sxm)?\.kube\.x(\d+)"), H100),
    (re.compile(r"an\.g1\.h200(?:sxm)?\.kube\.x(\d+)"), H200),
    (re.compile(r"an\.g1\.b200(?:sxm)?\.kube\.x(\d+)"), B200),
)
GPUS_IN_WORDS = {"small": 1, "medium": 2, "large": 4, "xlarge": 8}
NO_LABELS: Mapping[str, Values] = {}


def _hardware(size: str) -> tuple[_Gpu, int] | None:
    """The kind of GPU of *size* and how many a node of it has; None for an unknown size."""
    for name, kind in SIZES:
        if (match := name.fullmatch(size)) is not None:
            return kind, GPUS_IN_WORDS.get(match[1]) or int(match[1])
    return None


def gpus_of_size(size: str) -> int | None:
    """Return how many GPUs a node of the Civo *size* has; None for an unknown size."""
    hardware = _hardware(size)
    return None if hardware is None else hardware[1]


def vcpus_of_size(size: str) -> int | None:
    """Return how many virtual CPUs a node of the Civo *size* has; None where Civo does not publish it."""
    hardware = _hardware(size)
    return None if hardware is None else hardware[0].vcpus.get(hardware[1])


@lru_cache(maxsize=1024)  # by what pools are configured with
def labels_of_size(size: str, units: int | None) -> Mapping[str, Values]:
    """Return the possible values of each label that GPU feature discovery puts on a node of the Civo *size*; none for
    an unknown size. *units* of nvidia.com/gpu are configured (None: other resources)."""
    hardware = _hardware(size)
    if hardware is None:
        return NO_LABELS
    kind, count = hardware
    labels: dict[str, Values] = {
        f"{GPU}.product": kind.products,
        GPU_MEMORY: kind.memory,
        f"{GPU}.count": (str(count),),
        f"{GPU}.family": kind.families,
        f"{GPU}.compute.major": kind.compute[:1],
        f"{GPU}.compute.minor": kind.compute[1:],
        "nvidia.com/mig.capable": ("true" if kind.mig else "false",),
        "feature.node.kubernetes.io/pci-10de.present": ("true",),
    }
    if units not in (None, count):  # shares of time, or slices by the strategy `single`, whose memory is not known
        del labels[GPU_MEMORY]
        labels[f"{GPU}.product"] += tuple(f"{product}-SHARED" for product in kind.products)
        labels[f"{GPU}.count"] += (str(units),)
    return labels
