"""The reconciler's ports over a World, without HTTP: what Civo and Kubernetes would answer, in memory.

They never move the world's time. Each can be told to fail and counts its writes (see Switches).
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from receiver.core.model.charges import Charge, distinct, windows
from receiver.ports import Charges, CloudPool, Did, Instance, Receipt, TryLater, WontWork
from receiver.replay.kubernetes import WorldCluster
from receiver.replay.shapes import as_pod
from receiver.replay.switches import Switches
from receiver.replay.watching import WorldAlarms, WorldTelemetry
from receiver.replay.world.objects import Denied
from receiver.replay.world.world import World

__all__ = ["WorldAccounts", "WorldAlarms", "WorldCloud", "WorldCluster", "WorldTelemetry", "as_pod", "as_port_error"]

LATER_CODES = frozenset(
    {
        "cannot_scale_already_rescaling_cluster",
        "database_cluster_pool_instance_delete_failed",
        "database_cluster_pool_no_sufficient_instances_available",
        "database_quota_lock_failed",
        "database_sizes_list",
    }
)
LATER_STATUSES = frozenset({408, 409, 423, 425, 429})


def as_port_error(refused: Denied) -> TryLater | WontWork:
    """Return Civo's refusal as the product's adapter does: judged by its code first, then by its status."""
    detail = f"Civo refused: {refused.code}: {refused.reason}"
    if refused.details:
        detail += f" ({'; '.join(refused.details.splitlines())})"
    later = refused.code in LATER_CODES or refused.status >= 500 or refused.status in LATER_STATUSES
    return TryLater(detail, code=refused.code) if later else WontWork(detail, code=refused.code)


class WorldCloud(Switches):
    """Civo, answered by a World."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def look(self) -> Mapping[str, CloudPool]:
        """Return every pool by id, those at zero nodes too."""
        self.called("look")
        return {
            pool.id: CloudPool(
                id=pool.id,
                required=self._world.shown_count(pool.id),
                size=pool.size,
                instances=tuple(
                    Instance(id=vm.id, hostname=vm.hostname, status=vm.status, created_at=vm.created_at)
                    for vm in pool.instances
                ),
            )
            for pool in self._world.pools.values()
        }

    def resize(self, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        """Ask for *target* nodes unless the count is there already or moved on."""
        self.called("resize")
        required = self._required(pool)
        late = required == shown and required <= target
        if required >= target and not late:
            sentence = f"{required} nodes are asked for already, {target} were wanted"
            return Receipt(did=Did.ALREADY, sentence=sentence, required=required)
        if required != decided_on and not late:
            sentence = f"{required} nodes are asked for, the decision was made on {decided_on}"
            return Receipt(did=Did.DIFFERS, sentence=sentence, required=required)
        alive = sum(vm.status != "DELETING" for vm in self._world.pools[pool].instances)
        if alive > target:
            sentence = f"{alive} nodes exist, more than the {target} to ask for"
            return Receipt(did=Did.DIFFERS, sentence=sentence, required=required)
        try:
            self.write("resize", (pool, target), lambda: self._world.resize(pool, target))
        except Denied as refused:
            raise as_port_error(refused) from None
        after = self._required(pool)
        return Receipt(did=Did.DONE, sentence=f"asked for {target} nodes instead of {required}", required=after)

    def retire(self, pool: str, instance: str) -> Receipt:
        """Delete one instance; ALREADY when it is gone."""
        self.called("retire")
        try:
            self.write("retire", (pool, instance), lambda: self._world.delete_instance(pool, instance))
        except Denied as refused:
            if refused.status == 404:
                return Receipt(did=Did.ALREADY, sentence=f"instance {instance} is gone already")
            raise as_port_error(refused) from None
        required = self._required(pool)
        return Receipt(did=Did.DONE, sentence=f"asked to delete instance {instance}", required=required)

    def machines(self) -> Mapping[str, Mapping[str, int]]:
        """Return what the machine of each pool's size has."""
        return {pool.size: pool.spec.machine for pool in self._world.pools.values()}

    def _required(self, pool: str) -> int:
        if pool not in self._world.pools:
            raise WontWork(f"the cluster has no pool {pool}", code="database_cluster_pool_not_found")
        return self._world.shown_count(pool)


class WorldAccounts(Switches):
    """The account's charges, answered by a World. *others* are charged beside its nodes; *asked* counts questions."""

    def __init__(self, world: World, others: tuple[Charge, ...] = ()) -> None:
        super().__init__()
        self._world = world
        self.others = others
        self.asked = 0

    def charges(self, frm: datetime, to: datetime) -> Charges:
        """Return the records that overlap *frm* to *to*, in windows that Civo would answer."""
        self.asked += 1
        self.called("charges")
        try:
            found = [self._world.charges(begin, end) for begin, end in windows(frm, to)]
        except Denied as refused:
            raise as_port_error(refused) from None
        nodes = (
            [
                Charge(
                    code=c.code,
                    label=c.label,
                    id=str(c.id),
                    frm=c.frm,
                    to=c.to,
                    hours=Decimal(str(c.num_hours)),
                    product=c.instance,
                )
                for c in answer
            ]
            for answer in found
        )
        return Charges(records=(*distinct(nodes), *self.others))
