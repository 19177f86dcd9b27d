"""Civo: required counts and the instances that follow them, stock, quota and bills."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from receiver.replay.world.cluster import Agenda, Dice
from receiver.replay.world.nodes import Nodes
from receiver.replay.world.objects import VM, Behaviour, CivoPool, Denied, Faults, WorldCharge, WorldConfig, WorldPool

FIELDS = ("instance_count", "cpu_core", "ram_mb", "disk_gb")
LONGEST_WINDOW = timedelta(days=31)


def needs(spec: WorldPool) -> Mapping[str, int]:
    return {"instance_count": 1, "cpu_core": spec.cpu_cores, "ram_mb": spec.ram_mb, "disk_gb": spec.disk_gb}


class StockAndQuota:
    """Stock (GPU units left to buy, by size) and quota usage. GPUs have stock and no quota."""

    def __init__(self, config: WorldConfig, faults: Faults) -> None:
        self._faults = faults
        self.limits = config.quota
        self._stock: dict[str, int | None] = dict(config.stock)
        self.usage: dict[str, int] = {f: config.quota_used_elsewhere.get(f, 0) for f in FIELDS}

    def take(self, spec: WorldPool, *, from_stock: bool = True) -> None:
        """Count one node, unless *from_stock* is False without taking it from stock."""
        self._use(spec, 1)
        shelf = self._shelf(spec.size)
        stock = shelf.get(spec.size)
        if from_stock and stock is not None:
            shelf[spec.size] = stock - spec.gpu_units

    def restock(self, spec: WorldPool) -> None:
        stock = self._stock.get(spec.size)
        if stock is not None:
            self._stock[spec.size] = stock + spec.gpu_units

    def release_quota(self, spec: WorldPool) -> None:
        self._use(spec, -1)

    def _use(self, spec: WorldPool, nodes: int) -> None:
        for name, amount in needs(spec).items():
            self.usage[name] += nodes * amount

    def affordable(self, spec: WorldPool, count: int) -> int:
        for name, amount in needs(spec).items():
            limit = self.limits.get(name)
            if limit is not None and amount:
                count = min(count, (limit - self.usage[name]) // amount)
        stock = self._shelf(spec.size).get(spec.size)
        if stock is not None and spec.gpu_units:
            count = min(count, stock // spec.gpu_units)
        return max(0, count)

    def check(self, spec: WorldPool, count: int) -> None:
        """Raise Denied unless *count* more nodes fit. Quota is checked before stock and names every limit."""
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
    """Bills instances. The bills of ended ones are added up once, so that a long replay stays cheap."""

    def __init__(self, behaviour: Behaviour, agenda: Agenda) -> None:
        self.behaviour = behaviour
        self._agenda = agenda
        self.lives: list[VM] = []  # every instance that ever was, oldest first
        self._running: dict[str, VM] = {}
        self._settled_gpu_seconds = 0.0

    def ordered(self, vm: VM) -> None:
        self.lives.append(vm)
        self._running[vm.id] = vm

    def ended(self, vm: VM) -> None:
        end = self.end_of(vm)
        if self._running.pop(vm.id, None) is not None and end is not None:
            self._settled_gpu_seconds += self._gpu_seconds(vm, end)

    def end_of(self, vm: VM) -> datetime | None:
        return vm.deleted_at if self.behaviour.billed_until == "delete" else vm.gone_at

    def units(self, vm: VM, until: datetime) -> int:
        """Return the billed units of *vm*: started ones, or whole ones but at least one (`Behaviour.rounding`)."""
        whole, rest = divmod(until - vm.created_at, self.behaviour.granularity)
        if self.behaviour.rounding == "ceil" and rest:
            whole += 1
        return max(1, whole)

    def paid_gpu_seconds(self) -> float:
        running = (self._gpu_seconds(vm, self.end_of(vm) or self._agenda.now) for vm in self._running.values())
        return self._settled_gpu_seconds + sum(running)

    def charges(self, frm: datetime, to: datetime) -> list[WorldCharge]:
        """Return the records that overlap *frm* to *to*, unclipped. Raises Denied as Civo does (over 31 days: 400
        ``parameter_date_range_too_long``)."""
        if to < frm:
            raise Denied("parameter_date_range", 400, "The date range is the wrong way round")
        if to - frm > LONGEST_WINDOW:
            raise Denied("parameter_date_range_too_long", 400, "The date range spans more than 31 days")
        hour = self.behaviour.granularity / timedelta(hours=1)
        ends = [(number, vm, self.end_of(vm)) for number, vm in enumerate(self.lives, start=1)]
        return [
            WorldCharge(
                id=number,
                code=f"kube-node-{vm.size}",
                label=vm.hostname,
                frm=vm.created_at,
                to=end,
                num_hours=self.units(vm, end or self._agenda.now) * hour,
                size=vm.size,
                instance=vm.id,
                pool=vm.pool,
            )
            for number, vm, end in ends
            if vm.created_at <= to and (end is None or end >= frm)
        ]

    def _gpu_seconds(self, vm: VM, until: datetime) -> float:
        seconds = (self.units(vm, until) * self.behaviour.granularity).total_seconds()
        return seconds * vm.gpus


class SimulatedCloud:
    """Pools and instances at Civo. Refusals raise Denied with the code and status of the HTTP answer."""

    def __init__(
        self, config: WorldConfig, agenda: Agenda, faults: Faults, dice: Dice, books: WorldBooks, nodes: Nodes
    ) -> None:
        self._config = config
        self._timings = config.timings
        self.behaviour = config.behaviour
        self._agenda = agenda
        self._faults = faults
        self._dice = dice
        self._books = books
        self._nodes = nodes
        self.accounts = StockAndQuota(config, faults)
        self.pools: dict[str, CivoPool] = {}
        self._prefix = f"k3s-{config.cluster_name}-{dice.word(4)}-{dice.word(6)}-node-pool"
        self._pool_words: dict[str, str] = {}
        self._retrying: set[str] = set()
        self._hostnames: set[str] = set()
        for spec in config.pools:
            self._add_pool(spec)
            self.begin_with(spec.id, spec.count)

    # --- calls of Civo's API ---

    def pool(self, pool_id: str) -> CivoPool:
        try:
            return self.pools[pool_id]
        except KeyError:
            raise Denied("database_cluster_pool_not_found", 404, "Failed to find the pool") from None

    def resize(self, pool_id: str, count: int) -> None:
        pool = self.pool(pool_id)
        refusal = self._faults.next_refusal()
        if refusal is not None:
            raise refusal
        if count < 0:
            raise Denied("database_kubernetes_cluster_invalid", 400, "The count must not be negative")
        if count != pool.required and self.behaviour.rescale_conflict and self.changing:
            raise Denied("cannot_scale_already_rescaling_cluster", 409, "The cluster is already being rescaled")
        missing = count - pool.late_decrements - len(pool.living)
        if missing > 0 and not self.behaviour.partial_fill:
            self.accounts.check(pool.spec, missing)
        self._require(pool, count)
        self._follow(pool)

    def delete_instance(self, pool_id: str, instance: str) -> None:
        """DELETE one instance by id; the required count falls as Behaviour.decrement says. Unknown: 404."""
        pool = self.pool(pool_id)
        vm = next((v for v in pool.instances if v.id == instance), None)
        if vm is None:
            raise Denied("database_cluster_pool_instance_not_found", 404, "Failed to find the instance within the pool")
        if not vm.living:
            return  # it is being deleted already
        decrement = self.behaviour.decrement
        if decrement == "at_once":
            self._require(pool, pool.required - 1)
        elif isinstance(decrement, timedelta):
            pool.late_decrements += 1
            self._agenda.after(decrement, self._decrement, pool)
        self._retire(pool, vm, "delete_instance")

    @property
    def changing(self) -> bool:
        return any(
            p.coming or len(p.instances) != p.required or any(vm.status != "ACTIVE" for vm in p.instances)
            for p in self.pools.values()
        )

    def shown_count(self, pool_id: str) -> int:
        """Return the required count as Civo shows it: that of `Behaviour.list_lag` ago. Unknown: 404."""
        pool = self.pool(pool_id)
        when = self._agenda.now - self.behaviour.list_lag
        count = pool.required
        for until, before in reversed(pool.past_counts):
            if until <= when:
                break
            count = before
        return count

    # --- instances follow the count ---

    def _require(self, pool: CivoPool, count: int) -> None:
        pool.past_counts.append((self._agenda.now, pool.required))
        pool.required = max(0, count)

    def _follow(self, pool: CivoPool) -> None:
        if self.pools.get(pool.id) is not pool:
            return  # it was deleted
        living = pool.living
        surplus = len(living) - max(0, pool.required - pool.late_decrements)
        if surplus > 0:
            for vm in sorted(living, key=self._victim_rank)[:surplus]:
                self._retire(pool, vm, "count")
            return
        fits = self.accounts.affordable(pool.spec, -surplus)
        for _ in range(fits):
            vm = self._new_vm(pool)
            self.accounts.take(pool.spec)
            pool.coming.append(vm)
            if self._timings.create:
                self._agenda.after(self._dice.spread(self._timings.create), self._list, pool, vm)
            else:
                self._list(pool, vm)
        if fits < -surplus and pool.id not in self._retrying:
            self._retrying.add(pool.id)
            self._agenda.after(self._timings.fill_retry, self._retry, pool)

    def _retry(self, pool: CivoPool) -> None:
        self._retrying.discard(pool.id)
        self._follow(pool)

    def _decrement(self, pool: CivoPool) -> None:
        pool.late_decrements -= 1
        self._require(pool, pool.required - 1)
        self._follow(pool)

    def _victim_rank(self, vm: VM) -> tuple[int, float]:
        """Civo's order when a count is lowered: still building, not Ready, cordoned, the rest by age."""
        age = (self._agenda.now - vm.created_at).total_seconds()
        by_age = -age if self.behaviour.victims_by_age == "oldest" else age
        if not vm.listed or vm.status == "BUILDING":
            return (1 if vm.listed else 0, by_age)
        ready, cordoned = self._nodes.health(vm)
        return ((3 if cordoned else 4) if ready else 2, by_age)

    def _list(self, pool: CivoPool, vm: VM) -> None:
        if not vm.living:
            return
        pool.coming.remove(vm)
        pool.instances.append(vm)
        vm.listed = True
        if self._faults.takes("stuck", pool.id) is not None:
            return
        odd = self._faults.takes("odd", pool.id)
        self._agenda.after(self._dice.spread(self._timings.build), self._built, pool, vm, odd or "ACTIVE")

    def _built(self, pool: CivoPool, vm: VM, status: str) -> None:
        if not vm.living:
            return
        vm.status = status
        if status == "ACTIVE":
            vm.active_at = self._agenda.now
            self._nodes.machine_active(vm, pool)

    def _retire(self, pool: CivoPool, vm: VM, by: str) -> None:
        vm.deleted_at = self._agenda.now
        vm.status = "DELETING"
        if not vm.listed:
            pool.coming.remove(vm)
            self._gone(pool, vm)
            return
        self._nodes.machine_dies(vm, by)
        self._agenda.after(self._dice.spread(self._timings.delete), self._gone, pool, vm)

    def _gone(self, pool: CivoPool, vm: VM) -> None:
        if vm.listed:
            pool.instances.remove(vm)
        vm.gone_at = self._agenda.now
        self._books.ended(vm)
        self.accounts.restock(vm.spec)
        self._agenda.after(self._timings.quota_lag, self.accounts.release_quota, vm.spec)
        self._nodes.machine_gone(vm)
        if len(pool.living) < pool.required - pool.late_decrements:
            self._follow(pool)  # the count was not lowered, so Civo builds a replacement

    # --- creation ---

    def _add_pool(self, spec: WorldPool) -> CivoPool:
        self._pool_words.setdefault(spec.id, self._dice.word(4))
        pool = CivoPool(id=spec.id, size=spec.size, spec=spec, labels=dict(spec.labels), taints=spec.taints)
        self.pools[spec.id] = pool
        return pool

    def _new_vm(self, pool: CivoPool) -> VM:
        vm_id = self._dice.uuid()
        hostname = ""
        while not hostname or hostname in self._hostnames:  # the cluster identifies nodes by name, for ever
            hostname = f"{self._prefix}-{self._pool_words[pool.id]}-{self._dice.word(5)}"
        self._hostnames.add(hostname)
        vm = VM(id=vm_id, hostname=hostname, pool=pool.id, size=pool.size, spec=pool.spec, created_at=self._agenda.now)
        self._books.ordered(vm)
        return vm

    def begin_with(self, pool_id: str, count: int) -> None:
        """Add *count* usable nodes at once, as those of `WorldPool.count`. Unknown: 404."""
        pool = self.pool(pool_id)
        pool.required += count
        for _ in range(count):
            vm = self._new_vm(pool)
            self.accounts.take(pool.spec, from_stock=False)
            vm.listed = True
            vm.status = "ACTIVE"
            vm.active_at = self._agenda.now
            pool.instances.append(vm)
            self._nodes.machine_active(vm, pool, at_once=True)
