"""Civo's side: required counts, the instances that follow them, and which ones go when a count is lowered."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

from receiver.core.model.policy import Taint
from receiver.replay.world.accounts import StockAndQuota, WorldBooks
from receiver.replay.world.clockwork import Agenda, Dice
from receiver.replay.world.config import WorldConfig, WorldPool
from receiver.replay.world.faults import Faults
from receiver.replay.world.objects import VM, CivoPool, Denied


class Ground(Protocol):
    """Where instances become nodes."""

    def machine_active(self, vm: VM, pool: CivoPool, *, at_once: bool = False) -> None:
        """*vm* runs: its node will register (*at_once*: ready and usable already)."""

    def machine_dies(self, vm: VM, by: str) -> None:
        """*vm* is switched off under whatever runs on it; *by* names what did it."""

    def machine_gone(self, vm: VM) -> None:
        """Civo no longer lists *vm*."""

    def pool_relabelled(self, pool: CivoPool) -> None:
        """The pool's labels or taints changed."""

    def health(self, vm: VM) -> tuple[bool, bool]:
        """Whether *vm*'s node is Ready, and whether it is cordoned."""


class SimulatedCloud:
    """Pools and instances at Civo. Every write may raise Denied."""

    def __init__(
        self, config: WorldConfig, agenda: Agenda, faults: Faults, dice: Dice, books: WorldBooks, ground: Ground
    ) -> None:
        self._config = config
        self._timings = config.timings
        self.behaviour = config.behaviour
        self._agenda = agenda
        self._faults = faults
        self._dice = dice
        self._books = books
        self._ground = ground
        self.accounts = StockAndQuota(config, faults)
        self.pools: dict[str, CivoPool] = {}
        self.lives: list[VM] = []
        self._prefix = f"k3s-{config.cluster_name}-{dice.word(4)}-{dice.word(6)}-node-pool"
        self._pool_words: dict[str, str] = {}
        self._retrying: set[str] = set()
        self._hostnames: set[str] = set()
        for spec in config.pools:
            self._add_pool(spec)
            self.begin_with(spec.id, spec.count)

    # --- what may be asked ---

    def pool(self, pool_id: str) -> CivoPool:
        """Return a pool. Raises Denied (404)."""
        try:
            return self.pools[pool_id]
        except KeyError:
            raise Denied("database_cluster_pool_not_found", 404, "Failed to find the pool") from None

    def resize(self, pool_id: str, count: int) -> None:
        """Set the required count (absolute); instances follow."""
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
        """Delete one instance by id; the required count falls as Behaviour.decrement says."""
        pool = self.pool(pool_id)
        vm = next((v for v in pool.instances if v.id == instance), None)
        if vm is None:
            raise Denied("database_cluster_pool_instance_not_found", 404, "Failed to find the instance within the pool")
        if not vm.living:
            return  # on its way out already: a repeat changes nothing
        decrement = self.behaviour.decrement
        if decrement == "at_once":
            self._require(pool, pool.required - 1)
        elif isinstance(decrement, timedelta):
            pool.late_decrements += 1
            self._agenda.after(decrement, self._decrement, pool)
        self._retire(pool, vm, "delete_instance")

    def recycle(self, hostname: str) -> None:
        """Replace one node: same count, new instance, not drained."""
        for pool in self.pools.values():
            for vm in pool.instances:
                if vm.hostname == hostname and vm.living:
                    self._retire(pool, vm, "recycle")
                    self._follow(pool)
                    return
        raise Denied("database_kubernetes_node_not_found", 404, "Failed to find the node")

    def create_pool(self, spec: WorldPool) -> None:
        """Create a pool and order its nodes."""
        if spec.id in self.pools:
            raise Denied("database_kubernetes_cluster_invalid", 400, "The pool exists already")
        if not self.behaviour.partial_fill:
            self.accounts.check(spec, spec.count)
        pool = self._add_pool(spec)
        self._require(pool, spec.count)
        self._follow(pool)

    def delete_pool(self, pool_id: str) -> None:
        """Delete a pool with all its instances."""
        pool = self.pool(pool_id)
        del self.pools[pool_id]
        self._require(pool, 0)
        for vm in pool.living:
            self._retire(pool, vm, "delete_pool")

    def relabel(self, pool_id: str, labels: Mapping[str, str] | None, taints: tuple[Taint, ...] | None) -> None:
        """Set the pool's labels or taints; None leaves them."""
        pool = self.pool(pool_id)
        if labels is not None:
            pool.labels = dict(labels)
        if taints is not None:
            pool.taints = taints
        self._ground.pool_relabelled(pool)

    @property
    def changing(self) -> bool:
        """True while some pool is not what was asked for."""
        return any(
            p.coming or len(p.instances) != p.required or any(vm.status != "ACTIVE" for vm in p.instances)
            for p in self.pools.values()
        )

    def shown_count(self, pool_id: str) -> int:
        """The required count as Civo shows it: the one of `Behaviour.list_lag` ago. Raises Denied (404)."""
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
        living = pool.living
        surplus = len(living) - max(0, pool.required - pool.late_decrements)
        if surplus > 0:
            for vm in sorted(living, key=self._victim_rank)[:surplus]:
                self._retire(pool, vm, "count")
            return
        fits = self.accounts.affordable(pool.spec, -surplus)
        for _ in range(fits):
            self._order(pool)
        if fits < -surplus and pool.id not in self._retrying:
            self._retrying.add(pool.id)
            self._agenda.after(self._timings.fill_retry, self._retry, pool)

    def _retry(self, pool: CivoPool) -> None:
        self._retrying.discard(pool.id)
        if self.pools.get(pool.id) is pool:
            self._follow(pool)

    def _decrement(self, pool: CivoPool) -> None:
        pool.late_decrements -= 1
        self._require(pool, pool.required - 1)
        if self.pools.get(pool.id) is pool:
            self._follow(pool)

    def _victim_rank(self, vm: VM) -> tuple[int, float]:
        """Civo's order on a lowered count: still building, not Ready, cordoned, the rest by age."""
        age = self._agenda.now - vm.created_at
        oldest_first = self.behaviour.victims_by_age == "oldest"
        by_age = -age.total_seconds() if oldest_first else age.total_seconds()
        if not vm.listed or vm.status == "BUILDING":
            return (0 if not vm.listed else 1, by_age)
        ready, cordoned = self._ground.health(vm)
        if not ready:
            return (2, by_age)
        return (3 if cordoned else 4, by_age)

    def _order(self, pool: CivoPool) -> None:
        vm = self._new_vm(pool)
        self.accounts.take(pool.spec)
        pool.coming.append(vm)
        if self._timings.create:
            self._agenda.after(self._dice.spread(self._timings.create), self._list, pool, vm)
        else:
            self._list(pool, vm)

    def _list(self, pool: CivoPool, vm: VM) -> None:
        if not vm.living:
            return
        pool.coming.remove(vm)
        pool.instances.append(vm)
        vm.listed = True
        if self._faults.takes_stuck(pool.id):
            return
        odd = self._faults.takes_odd_status(pool.id)
        self._agenda.after(self._dice.spread(self._timings.build), self._built, pool, vm, odd or "ACTIVE")

    def _built(self, pool: CivoPool, vm: VM, status: str) -> None:
        if not vm.living:
            return
        vm.status = status
        if status == "ACTIVE":
            vm.active_at = self._agenda.now
            self._ground.machine_active(vm, pool)

    def _retire(self, pool: CivoPool, vm: VM, by: str) -> None:
        vm.deleted_at = self._agenda.now
        vm.status = "DELETING"
        if not vm.listed:
            pool.coming.remove(vm)
            self._gone(pool, vm)
            return
        self._ground.machine_dies(vm, by)
        self._agenda.after(self._dice.spread(self._timings.delete), self._gone, pool, vm)

    def _gone(self, pool: CivoPool, vm: VM) -> None:
        if vm.listed:
            pool.instances.remove(vm)
        vm.gone_at = self._agenda.now
        self._books.ended(vm)
        self.accounts.restock(vm.spec)
        self._agenda.after(self._timings.quota_lag, self.accounts.release_quota, vm.spec)
        self._ground.machine_gone(vm)
        if self.pools.get(pool.id) is pool and len(pool.living) < pool.required - pool.late_decrements:
            self._follow(pool)  # the count was not lowered: Civo builds a replacement

    # --- making things ---

    def _add_pool(self, spec: WorldPool) -> CivoPool:
        self._pool_words.setdefault(spec.id, self._dice.word(4))
        pool = CivoPool(id=spec.id, size=spec.size, spec=spec, labels=dict(spec.labels), taints=spec.taints)
        self.pools[spec.id] = pool
        return pool

    def _new_vm(self, pool: CivoPool) -> VM:
        vm = VM(
            id=self._dice.uuid(),
            hostname=self._new_hostname(pool),
            pool=pool.id,
            size=pool.size,
            spec=pool.spec,
            created_at=self._agenda.now,
        )
        self.lives.append(vm)
        self._books.ordered(vm)
        return vm

    def _new_hostname(self, pool: CivoPool) -> str:
        """A name that no node ever had: of two with one name, the cluster would take the second for the first."""
        while True:
            name = f"{self._prefix}-{self._pool_words[pool.id]}-{self._dice.word(5)}"
            if name not in self._hostnames:
                self._hostnames.add(name)
                return name

    def begin_with(self, pool_id: str, count: int) -> None:
        """Add *count* nodes that are there, ready and usable, as those that a world begins with."""
        pool = self.pool(pool_id)
        pool.required += count
        for _ in range(count):
            vm = self._new_vm(pool)
            self.accounts.take(pool.spec, from_stock=False)
            vm.listed = True
            vm.status = "ACTIVE"
            vm.active_at = self._agenda.now
            pool.instances.append(vm)
            self._ground.machine_active(vm, pool, at_once=True)
