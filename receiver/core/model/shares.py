"""Shares of GPUs: pods that use one device together, by annotations of KAI Scheduler or resources of HAMi.

A share is named as its owner wrote it, ``kai.scheduler/gpu-fraction=0.5``. Its count is the number of devices of which
the pod wants so much. Among free resources a shared device is one too, named by what is left of it. So a share fits
only where one device has enough left, and whole GPUs come only from devices that nothing shares. Pods of KAI use a
device by time slices unless they ask for another mode, and no device is shared in two modes.
"""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

GPU = "nvidia.com/gpu"
GPU_MEMORY = "nvidia.com/gpu.memory"  # the label for the MiB of each GPU; among free resources the same, never used up
SPLIT = "hami.io/split-count"  # how many pods HAMi puts on one device
USUAL_SPLIT = 10  # HAMi's default
UNLIMITED = 10**6  # pods of KAI
ALL_CORES = 100  # per cent
UNMEASURED = 10**6  # units of a device whose memory is not known
KAI, HAMI, OPEN = "kai.scheduler/", "hami.io/", "open-gpu/"
SHARES = (KAI, HAMI)
PARTIAL = (*SHARES, OPEN)  # what counts no whole GPUs
_SHARE = re.compile(
    r"kai\.scheduler/gpu-(?:fraction=(?P<fraction>0\.\d{1,9})|memory=(?P<memory>\d{1,9}))(?P<mode>,mode=sm-sharing)?"
    r"|hami\.io/gpumem(?:=(?P<mib>\d{1,9})|-percentage=(?P<percent>\d{1,3})),gpucores=(?P<cores>\d{1,3})",
    re.ASCII,
)


class GpuShare(NamedTuple):
    """What a pod wants of one device: *mib* of its memory or a *part* (ratio 0-1) of it, and *cores* in per cent. Those
    of one *mode* (a number) share it."""

    mib: int
    part: Fraction
    cores: int
    kai: bool
    mode: int = 0


class _Rest(NamedTuple):
    """What is left of a device, or wanted of it: units of memory (MiB where that is known), cores, pods; and the mode
    in which it is shared."""

    memory: int
    cores: int
    pods: int
    mode: int = 0

    def less(self, wanted: "_Rest") -> "_Rest":
        return _Rest(self.memory - wanted.memory, self.cores - wanted.cores, self.pods - wanted.pods, self.mode)

    def holds(self, wanted: "_Rest") -> bool:
        """True where a device that others use has room: for all cores HAMi wants an unused one."""
        fits = wanted.memory <= self.memory and wanted.cores <= self.cores and wanted.cores < ALL_CORES
        return fits and wanted.mode == self.mode


FULL = _Rest(0, 0, 0)


def is_share(resource: str) -> bool:
    return resource.startswith(SHARES)


@lru_cache(maxsize=1024)  # names come from pods
def share_of(resource: str) -> GpuShare | None:
    """Return the share that *resource* names; None for none, and for one that is not understood."""
    match = _SHARE.fullmatch(resource)
    if match is None:
        return None
    mib, cores = int(match["memory"] or match["mib"] or 0), int(match["cores"] or 0)
    part = Fraction(match["fraction"] or 0) + Fraction(int(match["percent"] or 0), 100)
    valid = (mib > 0 or 0 < part <= 1) and cores <= ALL_CORES
    mode = int(match["mode"] is not None)
    return GpuShare(mib, part, cores, kai=resource.startswith(KAI), mode=mode) if valid else None


def part_of_gpu(share: GpuShare, labels: Mapping[str, str]) -> float:
    """Return how much (0-1) of a GPU on a node with *labels* is *share*; all of it where that is not known."""
    memory = gpu_memory(labels)
    part = Fraction(share.mib, memory) if share.mib and memory else share.part or Fraction(1)
    return min(1.0, max(float(part), share.cores / ALL_CORES))


def gpu_memory(labels: Mapping[str, str]) -> int:
    """Return the MiB of each GPU of a node with *labels*, 0 where that is not known."""
    label = labels.get(GPU_MEMORY, "")
    return int(label) if label.isascii() and label.isdigit() and len(label) <= 9 else 0


def why_no_share(requests: Iterable[str], node: Mapping[str, int]) -> str | None:
    """Return why no GPU of a node that offers *node* holds one of the shares among *requests*; None when each does."""
    for name in requests:
        if not is_share(name):
            continue
        share = share_of(name)
        if share is None:
            return f"it asks for {name}, which is not understood"
        new, wanted = _measured(node, share)
        if wanted is None:
            return f"it asks for {name}, and the memory of a GPU is not known (label {GPU_MEMORY}, in MiB)"
        if wanted.memory > new.memory:
            return f"it asks for {name}, a GPU has {new.memory} MiB"
    return None


def put(free: dict[str, int], share: GpuShare, count: int) -> bool:
    """Put *share* on each of *count* devices of *free*: on the fullest that have room, then on whole GPUs. False, where
    they are too few, changes nothing."""
    new, wanted = _measured(free, share)
    if wanted is None or wanted.memory > new.memory:
        return False
    taken: list[tuple[str, int]] = []
    unplaced = count
    for rest, name in sorted((_rest(name), name) for name in free if name.startswith(OPEN)):
        if unplaced and rest.holds(wanted):
            taken.append((name, min(unplaced, free[name])))
            unplaced -= taken[-1][1]
    if unplaced > max(0, free.get(GPU, 0)):
        return False
    for name, devices in taken:
        free[name] -= devices
        if not free[name]:
            del free[name]
    for name, devices in taken:
        _open(free, _rest(name).less(wanted), devices)
    if unplaced:
        free[GPU] -= unplaced
        _open(free, new.less(wanted), unplaced)
    return True


def put_bound(free: dict[str, int], bound: Iterable[tuple[Mapping[str, int], tuple[str, ...]]]) -> None:
    """Take the devices that pods share out of *free*: of each pod its requests and the devices that it was given, as
    far as they are known. What is not understood holds a whole GPU."""
    rest_by_device: dict[str, _Rest] = {}
    loose: list[GpuShare | None] = []
    gpus = free.get(GPU, 0)
    for requests, devices in bound:
        most = max(gpus, len(devices), 1)  # an annotation may name any number, which no scheduler has checked
        requested = [
            (share_of(name) if count <= most else None, count) for name, count in requests.items() if is_share(name)
        ]
        shares = [share for share, count in requested for _ in range(min(count, most))]
        for device, share in zip(devices, shares, strict=False):
            new, wanted = _measured(free, share) if share is not None else (FULL, None)
            rest_by_device[device] = rest_by_device.get(device, new).less(wanted) if wanted is not None else FULL
        loose += shares[len(devices) :]
    free[GPU] = free.get(GPU, 0) - len(rest_by_device)
    for rest in rest_by_device.values():
        _open(free, rest, 1)
    for share in loose:
        if share is None or not put(free, share, 1):
            free[GPU] -= 1


def _measured(node: Mapping[str, int], share: GpuShare) -> tuple[_Rest, _Rest | None]:
    """Return a GPU of *node* that nothing uses, of which KAI uses full hundreds of MiB only, and what *share* wants of
    it: None for an amount of memory where the GPU's is not known."""
    memory = node.get(GPU_MEMORY, 0) or UNMEASURED
    if share.kai:
        new = _Rest(memory - memory % 100, ALL_CORES, UNLIMITED, share.mode)
    else:
        new = _Rest(memory, ALL_CORES, node.get(SPLIT, USUAL_SPLIT))
    if share.mib and GPU_MEMORY not in node:
        return new, None
    return new, _Rest(share.mib or int(share.part * new.memory), share.cores, 1, share.mode)


def _open(free: dict[str, int], rest: _Rest, devices: int) -> None:
    if min(rest.memory, rest.cores, rest.pods) > 0:  # where no memory, no cores or no pods are left, nothing more goes
        name = OPEN + "/".join(map(str, rest))
        free[name] = free.get(name, 0) + devices


@lru_cache(maxsize=4096)
def _rest(name: str) -> _Rest:
    return _Rest(*map(int, name.removeprefix(OPEN).split("/")))
