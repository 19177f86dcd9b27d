"""What kinds of GPU can hold and do, as far as moving work between them needs it.

Memory, dense BF16 rate (without sparsity: half of what data sheets print first) and memory bandwidth; MIG profiles by
the memory of their names. Kinds are named as the price file names them. Checked in November 2026 against

- https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html (profiles of the A100, fractions
  of memory and of SMs) and supported-gpus.html beside it (memory and slices; the L40S is not among them);
- https://github.com/aws/sagemaker-hyperpod-cli, src/sagemaker/hyperpod/inference/constant.py (profiles of H100: p5, and
  H200: p5e);
- https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf
  as https://glennklockwood.com/garden/processors/A100 cites it (A100: 312 TFLOPS, 1555 and 2039 GB/s on SXM);
- https://www.thundercompute.com/blog/nvidia-a100-specs-full-guide (A100 PCIe: 1555 GB/s with 40 GB, 1935 with 80);
- https://glennklockwood.com/garden/processors/h100 (H100 SXM: 989.4 TFLOPS, 3.35 TB/s; the H200 has the same engine);
- https://www.saulelectric.com/nvidia-h200.html (H200: 141 GB, 4.8 TB/s, slices of 18 GB);
- https://www.mullet.se/product.html?product_id=355414 (L40S: 48 GB, 864 GB/s, 362.05 TFLOPS, and 733 with sparsity).

The A100 with 80 GB is taken as SXM: the PCIe card is 5 % slower, so work that leaves it looks a little heavier than it
is, and work that comes to it a little lighter.
"""

from collections.abc import Mapping
from dataclasses import dataclass

COMPUTE_SLICES = 7  # a GPU with MIG has seven compute slices and eight memory slices
MEMORY_SLICES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MigProfile:
    """A part of a GPU: *compute* of its 7 compute slices, *memory* of its 8 memory slices, *memory_gb* of memory."""

    name: str
    compute: int
    memory: int
    memory_gb: int

    @property
    def share(self) -> float:
        """The part of a GPU that it takes from others (ratio): compute or memory, whichever is more."""
        return max(self.compute / COMPUTE_SLICES, self.memory / MEMORY_SLICES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuKind:
    """One kind of GPU: *memory_gb*, *tflops* (dense BF16), *bandwidth* of its memory in GB/s, *mig* smallest first."""

    memory_gb: int
    tflops: float
    bandwidth: float
    mig: tuple[MigProfile, ...] = ()


def _mig(*profiles: tuple[int, int, int]) -> tuple[MigProfile, ...]:
    return tuple(
        MigProfile(name=f"{compute}g.{gb}gb", compute=compute, memory=memory, memory_gb=gb)
        for compute, memory, gb in profiles
    )


KINDS: Mapping[str, GpuKind] = {
    "L40S": GpuKind(memory_gb=48, tflops=362, bandwidth=864),
    "A100-40": GpuKind(
        memory_gb=40, tflops=312, bandwidth=1555, mig=_mig((1, 1, 5), (1, 2, 10), (2, 2, 10), (3, 4, 20), (4, 4, 20))
    ),
    "A100-80": GpuKind(
        memory_gb=80, tflops=312, bandwidth=2039, mig=_mig((1, 1, 10), (1, 2, 20), (2, 2, 20), (3, 4, 40), (4, 4, 40))
    ),
    "H100": GpuKind(
        memory_gb=80, tflops=989, bandwidth=3350, mig=_mig((1, 1, 10), (1, 2, 20), (2, 2, 20), (3, 4, 40), (4, 4, 40))
    ),
    "H200": GpuKind(
        memory_gb=141, tflops=989, bandwidth=4800, mig=_mig((1, 1, 18), (1, 2, 35), (2, 2, 35), (3, 4, 71), (4, 4, 71))
    ),
}


def slowdown(of: GpuKind, on: GpuKind) -> float:
    """How much longer the GPU work of *of* may take *on* another kind: by rate or by bandwidth, whichever is worse."""
    return max(of.tflops / on.tflops, of.bandwidth / on.bandwidth)
