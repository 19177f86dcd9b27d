"""What a world answers where Civo is asked: pools, instances, quota and money."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from receiver.core.model.policy import Taint
from receiver.replay.world.cloud import SimulatedCloud, WorldBooks
from receiver.replay.world.cluster import Agenda
from receiver.replay.world.config import WorldConfig, WorldPool
from receiver.replay.world.objects import VM, CivoPool, WorldCharge


class CivoSide:
    """Civo's side of a World. What Civo would refuse raises Denied with the code and status of the HTTP answer."""

    config: WorldConfig
    _agenda: Agenda
    _books: WorldBooks
    _cloud: SimulatedCloud

    @property
    def pools(self) -> Mapping[str, CivoPool]:
        """Every pool that Civo keeps a required count for, by id; those at zero too."""
        return self._cloud.pools

    @property
    def lives(self) -> Sequence[VM]:
        """Every instance that ever was, oldest first."""
        return self._cloud.lives

    @property
    def cluster_status(self) -> str:
        """ACTIVE, or SCALING while a pool changes and Behaviour.scaling_status says so."""
        return "SCALING" if self.config.behaviour.scaling_status and self._cloud.changing else "ACTIVE"

    def shown_count(self, pool: str) -> int:
        """The required count as Civo shows it, which may be an older one (Behaviour.list_lag). Unknown: 404."""
        return self._cloud.shown_count(pool)

    def listed_count(self, pool: str) -> int:
        """The ``count`` that a pool list shows (Behaviour.list_count). Unknown: 404."""
        if self.config.behaviour.list_count == "desired":
            return self.shown_count(pool)
        return len(self._cloud.pool(pool).instances)

    def begin_with(self, pool: str, count: int) -> None:
        """Add nodes that are there, ready and usable, as *count* of a WorldPool does. Unknown: 404."""
        self._cloud.begin_with(pool, count)

    def resize(self, pool: str, count: int) -> None:
        """PUT a pool's count (absolute)."""
        self._cloud.resize(pool, count)

    def relabel(
        self, pool: str, *, labels: Mapping[str, str] | None = None, taints: tuple[Taint, ...] | None = None
    ) -> None:
        """PUT a pool's labels or taints; living nodes take them over too. None leaves them."""
        self._cloud.relabel(pool, labels, taints)

    def delete_instance(self, pool: str, instance: str) -> None:
        """DELETE one instance by id. Unknown: 404 ``database_cluster_pool_instance_not_found``."""
        self._cloud.delete_instance(pool, instance)

    def recycle(self, hostname: str) -> None:
        """Replace one node: same count, new instance, new name, no drain."""
        self._cloud.recycle(hostname)

    def create_pool(self, pool: WorldPool) -> None:
        """POST a new pool; its *count* is ordered, not there at once."""
        self._cloud.create_pool(pool)

    def delete_pool(self, pool: str) -> None:
        """DELETE a pool with all its instances."""
        self._cloud.delete_pool(pool)

    def replace_pools(self, counts: Mapping[str, int]) -> None:
        """PUT the cluster with a full list of pools: those not listed are deleted."""
        for pool in counts:
            self._cloud.pool(pool)  # an unknown one refuses the whole list
        for pool in [p for p in self._cloud.pools if p not in counts]:
            self._cloud.delete_pool(pool)
        for pool, count in counts.items():
            self._cloud.resize(pool, count)

    def quota_usage(self) -> Mapping[str, int]:
        """Account usage by bare name: instance_count, cpu_core, ram_mb, disk_gb."""
        return dict(self._cloud.accounts.usage)

    def charges(self, frm: datetime, to: datetime) -> list[WorldCharge]:
        """Records that overlap the window, unclipped. Over 31 days: 400 ``parameter_date_range_too_long``."""
        return self._books.charges(self._cloud.lives, frm, to, self._agenda.now)

    def paid(self, at: datetime | None = None) -> Decimal:
        """USD for every started unit of every instance, up to now or, if nothing changes until then, up to a later
        *at*; sizes without a price count nothing."""
        return self._books.paid(at or self._agenda.now)

    def paid_gpu_seconds(self) -> float:
        """GPU-seconds that are paid for so far, rounded as billed."""
        return self._books.paid_gpu_seconds(self._agenda.now)
