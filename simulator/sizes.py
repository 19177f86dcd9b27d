"""Instance sizes as Civo lists them, with what one costs: published rows, taken from civo.com/pricing on 2026-08-22.

``GET /v2/sizes`` carries no price; the price stands here so that the state summary can count money.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from receiver.replay.world.objects import WorldPool


@dataclass(frozen=True, slots=True)
class Size:
    """One row: USD per hour, None where nothing is published."""

    name: str
    nice_name: str
    cpu_cores: int
    ram_mb: int
    disk_gb: int
    gpu_count: int = 0
    gpu_type: str = ""
    usd_per_hour: Decimal | None = None


L40S, A100_40, A100_80, H100, H200 = (
    "nvidia.com/AD102GL_L40S",
    "nvidia.com/GA100_A100_PCIE_40GB",
    "nvidia.com/GA100_A100_SXM4_80GB",
    "nvidia.com/GH100_H100_SXM5_80GB",
    "nvidia.com/GH100_H200_SXM_141GB",
)


def _gpu(name: str, nice: str, gpus: int, kind: str, cpu: int, ram_gb: int, disk_gb: int, usd: str) -> Size:
    return Size(name, f"{nice} x{gpus}", cpu, ram_gb * 1024, disk_gb, gpus, kind, Decimal(usd))


SIZES: tuple[Size, ...] = (
    Size("g4s.kube.small", "Small", 1, 2048, 40, usd_per_hour=Decimal("0.014881")),
    Size("g4s.kube.medium", "Medium", 2, 4096, 50, usd_per_hour=Decimal("0.029762")),
    Size("g4s.kube.large", "Large", 4, 8192, 60, usd_per_hour=Decimal("0.059524")),
    _gpu("an.g1.l40s.kube.x1", "Nvidia L40S 40GB", 1, L40S, 12, 96, 200, "1.29"),
    _gpu("an.g1.l40s.kube.x2", "Nvidia L40S 40GB", 2, L40S, 24, 192, 400, "2.58"),
    _gpu("an.g1.l40s.kube.x4", "Nvidia L40S 40GB", 4, L40S, 48, 384, 800, "5.16"),
    _gpu("an.g1.l40s.kube.x8", "Nvidia L40S 40GB", 8, L40S, 96, 768, 1600, "10.32"),
    _gpu("g4g.40.kube.small", "Nvidia A100 40GB", 1, A100_40, 8, 56, 200, "1.09"),
    _gpu("g4g.40.kube.medium", "Nvidia A100 40GB", 2, A100_40, 16, 112, 400, "2.18"),
    _gpu("g4g.40.kube.large", "Nvidia A100 40GB", 4, A100_40, 32, 224, 400, "4.36"),
    _gpu("g4g.40.kube.xlarge", "Nvidia A100 40GB", 8, A100_40, 64, 448, 400, "8.72"),
    _gpu("g4g.kube.small", "Nvidia A100 80GB", 1, A100_80, 12, 96, 200, "1.79"),
    _gpu("g4g.kube.medium", "Nvidia A100 80GB", 2, A100_80, 24, 192, 400, "3.58"),
    _gpu("g4g.kube.large", "Nvidia A100 80GB", 4, A100_80, 48, 384, 800, "7.16"),
    _gpu("g4g.kube.xlarge", "Nvidia A100 80GB", 8, A100_80, 96, 768, 1600, "14.32"),
    _gpu("an.g1.h100.kube.x1", "Nvidia H100 80GB", 1, H100, 23, 184, 200, "2.99"),
    _gpu("an.g1.h100.kube.x8", "Nvidia H100 80GB", 8, H100, 184, 1024, 1500, "23.92"),
    _gpu("an.g1.h200sxm.kube.x1", "Nvidia H200 141GB", 1, H200, 23, 169, 400, "3.49"),
    _gpu("an.g1.h200sxm.kube.x8", "Nvidia H200 141GB", 8, H200, 176, 1536, 3200, "27.92"),
)
PRICES: Mapping[str, Decimal] = {s.name: s.usd_per_hour for s in SIZES if s.usd_per_hour is not None}


def sizes_of(pools: Iterable[WorldPool]) -> list[Size]:
    """Return the published sizes, with those of *pools* in the place of what is published under their name."""
    own = {
        p.size: Size(p.size, p.size, p.cpu_cores, p.ram_mb, p.disk_gb, p.gpu_units, p.gpu_type if p.gpu_units else "")
        for p in pools
    }
    published = {s.name: s for s in SIZES}
    return list({**published, **own}.values())


def pool_of(size: Size, **fields: Any) -> WorldPool:
    """Return a pool made of nodes of a published *size*, with id, count and the like from *fields*."""
    return WorldPool(
        size=size.name,
        resources={"nvidia.com/gpu": size.gpu_count} if size.gpu_count else {},
        cpu_cores=size.cpu_cores,
        ram_mb=size.ram_mb,
        disk_gb=size.disk_gb,
        gpu_type=size.gpu_type,
        model_name=" ".join(size.nice_name.split()[:2]).replace("Nvidia", "NVIDIA") if size.gpu_count else "",
        **fields,
    )


def rendered(size: Size) -> Mapping[str, object]:
    """Return *size* as ``GET /v2/sizes`` shows it: no price in it, and selectable says nothing about stock."""
    return {
        "type": "Kubernetes" if ".kube." in size.name else "Instance",
        "name": size.name,
        "nice_name": size.nice_name,
        "description": size.nice_name,
        "cpu_cores": size.cpu_cores,
        "gpu_count": size.gpu_count,
        "gpu_type": size.gpu_type,
        "ram_mb": size.ram_mb,
        "disk_gb": size.disk_gb,
        "transfer_tb": 12 if size.gpu_count else 5,
        "selectable": True,
    }
