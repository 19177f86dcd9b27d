"""What Civo charges: started units of every instance, from its order to its end, in hours and without money."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.replay.world.config import Behaviour
from receiver.replay.world.objects import VM, Charge, Refused

LONGEST_WINDOW = timedelta(days=31)


class Books:
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

    def charges(self, lives: Iterable[VM], frm: datetime, to: datetime, now: datetime) -> list[Charge]:
        """Return the records that overlap *frm* to *to*, unclipped. Raises Refused as Civo does."""
        if to < frm:
            raise Refused("parameter_date_range", 400, "The date range is the wrong way round")
        if to - frm > LONGEST_WINDOW:
            raise Refused("parameter_date_range_too_long", 400, "The date range spans more than 31 days")
        hour = self.behaviour.granularity / timedelta(hours=1)
        records = []
        for number, vm in enumerate(lives, start=1):
            end = self.end_of(vm)
            if vm.created_at > to or (end is not None and end < frm):
                continue
            records.append(
                Charge(
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
