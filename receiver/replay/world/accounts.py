"""What a growth may run into at Civo: regional GPU stock and the account's quota."""

from collections.abc import Mapping

from receiver.replay.world.config import WorldConfig, WorldPool
from receiver.replay.world.faults import Faults
from receiver.replay.world.objects import Refused

FIELDS = ("instance_count", "cpu_core", "ram_mb", "disk_gb")


def needs(spec: WorldPool) -> Mapping[str, int]:
    """What one node of *spec* takes of each quota."""
    return {"instance_count": 1, "cpu_core": spec.cpu_cores, "ram_mb": spec.ram_mb, "disk_gb": spec.disk_gb}


class Accounts:
    """Counts stock (GPU units left to buy, by size) and quota usage. GPUs have no quota, only stock."""

    def __init__(self, config: WorldConfig, faults: Faults) -> None:
        self._faults = faults
        self.limits = config.quota
        self._stock: dict[str, int | None] = dict(config.stock)
        self.usage: dict[str, int] = {f: config.quota_used_elsewhere.get(f, 0) for f in FIELDS}

    def take(self, spec: WorldPool, *, from_stock: bool = True) -> None:
        """Book one node; nodes that exist when the world begins are not taken from stock."""
        for name, amount in needs(spec).items():
            self.usage[name] += amount
        if from_stock:
            shelf = self._shelf(spec.size)
            left = shelf.get(spec.size)
            if left is not None:
                shelf[spec.size] = left - spec.gpu_units

    def restock(self, spec: WorldPool) -> None:
        """Put a gone node's GPUs back on the shelf."""
        left = self._stock.get(spec.size)
        if left is not None:
            self._stock[spec.size] = left + spec.gpu_units

    def release_quota(self, spec: WorldPool) -> None:
        """Take a gone node off the quota usage."""
        for name, amount in needs(spec).items():
            self.usage[name] -= amount

    def affordable(self, spec: WorldPool, count: int) -> int:
        """How many of *count* nodes stock and quota allow now."""
        for name, amount in needs(spec).items():
            limit = self.limits.get(name)
            if limit is not None and amount:
                count = min(count, (limit - self.usage[name]) // amount)
        left = self._shelf(spec.size).get(spec.size)
        if left is not None and spec.gpu_units:
            count = min(count, left // spec.gpu_units)
        return max(0, count)

    def check(self, spec: WorldPool, count: int) -> None:
        """Raise Refused unless *count* more nodes fit; quota is told before stock, one line per quota."""
        over = [
            f"{name}: limit {limit}, usage {self.usage[name]}, requested {amount * count}"
            for name, amount in needs(spec).items()
            if (limit := self.limits.get(name)) is not None and self.usage[name] + amount * count > limit
        ]
        if over:
            raise Refused(
                "quota_limit_reached",
                403,
                "Failed to perform this action due to a quota being at the limit",
                "\n".join(over),
            )
        if self.affordable(spec, count) < count:
            raise Refused(
                "gpu_count_exceeded",
                403,
                "The requested number of GPU units exceeds the maximum provisionable GPU counts"
                " available in the region",
            )

    def _shelf(self, size: str) -> dict[str, int | None]:
        return self._faults.stock if size in self._faults.stock else self._stock
