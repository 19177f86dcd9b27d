"""The account at Civo: the stock and quota that a growth may run into, and what is charged."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.replay.world.config import Behaviour, WorldConfig, WorldPool
from receiver.replay.world.faults import Faults
from receiver.replay.world.objects import VM, Denied, WorldCharge

FIELDS = ("instance_count", "cpu_core", "ram_mb", "disk_gb")
LONGEST_WINDOW = timedelta(days=31)


def needs(spec: WorldPool) -> Mapping[str, int]:
    """What one node of *spec* takes of each quota."""
    return {"instance_count": 1, "cpu_core": spec.cpu_cores, "ram_mb": spec.ram_mb, "disk_gb": spec.disk_gb}


class StockAndQuota:
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
        """Raise Denied unless *count* more nodes fit; quota is told before stock, one line per quota."""
        over = [
            f"{name}: limit {limit}, usage {self.usage[name]}, requested {amount * count}"
            for name, amount in needs(spec).items()
            if (limit := self.limits.get(name)) is not None and self.usage[name] + amount * count > limit
        ]
        if over:
            raise Denied(
                "quota_limit_reached",
                403,
                "Failed to perform this action due to a quota being at the limit",
                "\n".join(over),
            )
        if self.affordable(spec, count) < count:
            raise Denied(
                "gpu_count_exceeded",
                403,
                "The requested number of GPU units exceeds the maximum provisionable GPU counts"
                " available in the region",
            )

    def _shelf(self, size: str) -> dict[str, int | None]:
        return self._faults.stock if size in self._faults.stock else self._stock


class WorldBooks:
    """Bills instances. Ended ones are summed up once, so that a long replay stays cheap."""

    def __init__(self, behaviour: Behaviour, price: Mapping[str, Decimal]) -> None:
        self.behaviour = behaviour
        self._price = price
        self._running: dict[str, VM] = {}
        self._settled = Decimal(0)
        self._settled_gpu_seconds = 0.0

    def ordered(self, vm: VM) -> None:
        """Begin to bill *vm*."""
        self._running[vm.id] = vm

    def ended(self, vm: VM) -> None:
        """*vm* is gone: its bill no longer changes."""
        end = self.end_of(vm)
        if self._running.pop(vm.id, None) is not None and end is not None:
            self._settled += self._usd(vm, end)
            self._settled_gpu_seconds += self._gpu_seconds(vm, end)

    def end_of(self, vm: VM) -> datetime | None:
        """When *vm*'s bill ended, None while it runs on."""
        return vm.deleted_at if self.behaviour.billed_until == "delete" else vm.gone_at

    def units(self, vm: VM, until: datetime) -> int:
        """Paid units of *vm* up to *until*: started ones, or whole ones but at least one."""
        whole, rest = divmod(until - vm.created_at, self.behaviour.granularity)
        if self.behaviour.rounding == "ceil" and rest:
            whole += 1
        return max(1, whole)

    def paid(self, now: datetime) -> Decimal:
        """USD so far; sizes without a price count nothing."""
        return sum((self._usd(vm, self.end_of(vm) or now) for vm in self._running.values()), self._settled)

    def paid_gpu_seconds(self, now: datetime) -> float:
        """GPU-seconds paid for so far, rounded as billed."""
        running = (self._gpu_seconds(vm, self.end_of(vm) or now) for vm in self._running.values())
        return self._settled_gpu_seconds + sum(running)

    def charges(self, lives: Iterable[VM], frm: datetime, to: datetime, now: datetime) -> list[WorldCharge]:
        """Return the records that overlap *frm* to *to*, unclipped. Raises Denied as Civo does."""
        if to < frm:
            raise Denied("parameter_date_range", 400, "The date range is the wrong way round")
        if to - frm > LONGEST_WINDOW:
            raise Denied("parameter_date_range_too_long", 400, "The date range spans more than 31 days")
        hour = self.behaviour.granularity / timedelta(hours=1)
        records = []
        for number, vm in enumerate(lives, start=1):
            end = self.end_of(vm)
            if vm.created_at > to or (end is not None and end < frm):
                continue
            records.append(
                WorldCharge(
                    id=number,
                    code=f"kube-node-{vm.size}",
                    label=vm.hostname,
                    frm=vm.created_at,
                    to=end,
                    num_hours=self.units(vm, end or now) * hour,
                    size=vm.size,
                    instance=vm.id,
                    pool=vm.pool,
                )
            )
        return records

    def _usd(self, vm: VM, until: datetime) -> Decimal:
        price = self._price.get(vm.size, Decimal(0))
        microseconds = self.behaviour.granularity // timedelta(microseconds=1)
        return price * self.units(vm, until) * microseconds / 3_600_000_000  # divided last, so that cents stay exact

    def _gpu_seconds(self, vm: VM, until: datetime) -> float:
        seconds = (self.units(vm, until) * self.behaviour.granularity).total_seconds()
        return seconds * sum(vm.spec.resources.values())
