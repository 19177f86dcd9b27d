"""What kinds of GPU can hold and do, as far as moving work between them needs it.

Memory, dense BF16 rate and memory bandwidth are those of NVIDIA's data sheets (L40S, A100 40 GB PCIe and 80 GB SXM,
H100 SXM, H200 SXM); MIG profiles those of the MIG user guide ("Supported MIG Profiles"), each the largest of its
compute share. Memory is in GB as the profile names count it. Kinds are named as the price file names them.
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
class Kind:
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


KINDS: Mapping[str, Kind] = {
    "L40S": Kind(memory_gb=48, tflops=362, bandwidth=864),
    "A100-40": Kind(
        memory_gb=40, tflops=312, bandwidth=1555, mig=_mig((1, 1, 5), (1, 2, 10), (2, 2, 10), (3, 4, 20), (4, 4, 20))
    ),
    "A100-80": Kind(
        memory_gb=80, tflops=312, bandwidth=2039, mig=_mig((1, 1, 10), (1, 2, 20), (2, 2, 20), (3, 4, 40), (4, 4, 40))
    ),
    "H100": Kind(
        memory_gb=80, tflops=989, bandwidth=3350, mig=_mig((1, 1, 10), (1, 2, 20), (2, 2, 20), (3, 4, 40), (4, 4, 40))
    ),
    "H200": Kind(
        memory_gb=141, tflops=989, bandwidth=4800, mig=_mig((1, 1, 18), (1, 2, 35), (2, 2, 35), (3, 4, 71), (4, 4, 71))
    ),
}


def slowdown(of: Kind, on: Kind) -> float:
    """How much longer the GPU work of *of* may take *on* another kind: by rate or by bandwidth, whichever is worse."""
    return max(of.tflops / on.tflops, of.bandwidth / on.bandwidth)
