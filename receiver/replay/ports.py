"""Ports over a World, in memory: Civo, Prometheus and Alertmanager. They do not move the world's time."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.charges import Charge, distinct, windows
from receiver.core.model.pods import Pod, PodPhase, Scheduling
from receiver.core.model.signals import COMPONENT, HEARTBEAT_ALERT, UNASSIGNED, Alert
from receiver.core.model.usage import Course, Sample
from receiver.ports import AlarmFacts, Charges, CloudPool, Did, Instance, Receipt, TelemetryFacts, TryLater, WontWork
from receiver.replay.world.objects import POOL_LABEL, Denied, WorldPod
from receiver.replay.world.world import World

LATER_STATUSES = frozenset({408, 409, 423, 425, 429})
HIGH, HIGH_FOR = 0.70, timedelta(minutes=5)  # utilization ratios of the rules
LOW, LOW_FOR = 0.50, timedelta(minutes=10)
YOUNG = timedelta(minutes=9)  # a younger pool has too few samples to count as idle


class WorldPort:
    """A port over *world*. *writes* are the calls that reached it, also refused ones, as (verb, args)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.writes: list[tuple[str, tuple[object, ...]]] = []

    def write(self, do: Callable[[], object], sentence: str, verb: str, *args: object) -> Receipt:
        """Record and run a write; *sentence* is that of its receipt."""
        self.writes.append((verb, args))
        do()
        return Receipt(did=Did.DONE, sentence=sentence)


def as_port_error(refused: Denied) -> TryLater | WontWork:
    """Return the port's error for a refusal, by its status as the product's adapter does."""
    detail = f"Civo refused: {refused.code}: {refused.reason}"
    if refused.details:
        detail += f" ({'; '.join(refused.details.splitlines())})"
    later = refused.status >= 500 or refused.status in LATER_STATUSES
    return TryLater(detail, code=refused.code) if later else WontWork(detail, code=refused.code)


class WorldCloud(WorldPort):
    """Civo, answered by a World."""

    def look(self) -> Mapping[str, CloudPool]:
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
        required = self._required(pool)
        if shown is not None and decided_on < required <= shown:
            sentence = f"the count of {required} is still to fall to {decided_on}"
            return Receipt(did=Did.DIFFERS, sentence=sentence, required=required)
        late = required == shown
        if required >= target:
            sentence = f"the count is already {required}, wanted were {target}"
            return Receipt(did=Did.ALREADY, sentence=sentence, required=required)
        if required != decided_on and not late:
            sentence = f"the count is {required}, the decision was made on {decided_on}"
            return Receipt(did=Did.DIFFERS, sentence=sentence, required=required)
        alive = sum(vm.status != "DELETING" for vm in self._world.pools[pool].instances)
        if alive > target:
            sentence = f"{alive} nodes exist, more than the {target} to ask for"
            return Receipt(did=Did.DIFFERS, sentence=sentence, required=required)
        sentence = f"set the count to {target} from {required}"
        try:
            self.write(lambda: self._world.resize(pool, target), sentence, "resize", pool, target)
        except Denied as refused:
            raise as_port_error(refused) from None
        return Receipt(did=Did.DONE, sentence=sentence, required=self._required(pool))

    def retire(self, pool: str, instance: str) -> Receipt:
        sentence = f"asked to delete instance {instance}"
        try:
            self.write(lambda: self._world.delete_instance(pool, instance), sentence, "retire", pool, instance)
        except Denied as refused:
            if refused.status == 404:
                return Receipt(did=Did.ALREADY, sentence=f"instance {instance} is gone already")
            raise as_port_error(refused) from None
        return Receipt(did=Did.DONE, sentence=sentence, required=self._required(pool))

    def machines(self) -> Mapping[str, Mapping[str, int]]:
        return {pool.size: pool.spec.machine for pool in self._world.pools.values()}

    def _required(self, pool: str) -> int:
        if pool not in self._world.pools:
            raise WontWork(f"the cluster has no pool {pool}", code="database_cluster_pool_not_found")
        return self._world.shown_count(pool)


class WorldAccounts(WorldPort):
    """The account's charges, answered by a World."""

    def charges(self, frm: datetime, to: datetime) -> Charges:
        try:
            answers = [self._world.charges(begin, end) for begin, end in windows(frm, to)]
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
            for answer in answers
        )
        return Charges(records=tuple(distinct(nodes)))


def waiting_pods(world: World) -> list[WorldPod]:
    """Return the GPU pods that kube-state-metrics shows as unschedulable, without those of DaemonSets."""
    return [
        p
        for p in world.active_pods.values()
        if p.requests and p.node is None and p.reason == "Unschedulable" and p.owner_kind != "DaemonSet"
    ]


def pool_hint(pod: WorldPod) -> str:
    """Return the pool in the rules' label: the one in the pod's node selector, else ``unassigned``."""
    return pod.node_selector.get(POOL_LABEL, UNASSIGNED)


class WorldTelemetry(WorldPort):
    """Prometheus, answered by a World: utilization is the 5-minute average over a pool's GPUs."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._waiting: dict[str, Pod] = {}  # by uid: a waiting pod's labels do not change

    def look(self) -> TelemetryFacts:
        world = self._world
        with_gpus = [p for p in world.pools if world.gpus(p)]
        gone = world.faults.telemetry_gone
        utilization = {p: world.utilization(p) for p in with_gpus} if not gone else {}
        waiting_before = self._waiting
        self._waiting = {
            p.uid: waiting_before.get(p.uid)
            or Pod(
                namespace=p.namespace,
                name=p.name,
                uid=p.uid,
                requests=p.requests,
                phase=PodPhase.WAITING,
                created_at=p.created_at,
                scheduling=Scheduling(pool_hint=pool_hint(p)),
            )
            for p in waiting_pods(world)
        }
        return TelemetryFacts(
            utilization={p: value for p, value in utilization.items() if value is not None},
            coverage=dict.fromkeys(with_gpus, 0.0 if gone else 1.0),
            waiting=tuple(self._waiting.values()),
            nodes={} if gone else world.node_activity(),
            rules_alive=not world.faults.rules_dead,
        )

    # A world has no metrics of the work itself, and a replay asks for none.

    def courses(self, window: timedelta) -> Mapping[str, Course]:  # noqa: ARG002
        return {}

    def value(self, query: str, at: datetime) -> float | None:  # noqa: ARG002
        return None

    def samples(self) -> Mapping[str, Sequence[Sample]]:
        return {}


class WorldAlarms(WorldPort):
    """Alertmanager with our alert rules."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._alerts: dict[tuple[str, str], Alert] = {}  # the firing ones

    def look(self) -> AlarmFacts:
        firing: dict[tuple[str, str], str] = {}
        if not self._world.faults.rules_dead:
            firing[HEARTBEAT_ALERT, ""] = "heartbeat"
            pending = {pool_hint(p) for p in waiting_pods(self._world)}
            firing.update({("GpuPodsPending", pool): "scale_up" for pool in sorted(pending)})
            if not self._world.faults.telemetry_gone:
                firing.update(self._by_utilization(pending))
        self._alerts = {key: self._alerts.get(key) or self._alert(*key, action) for key, action in firing.items()}
        return AlarmFacts(alerts=tuple(self._alerts.values()))

    def _by_utilization(self, pending: set[str]) -> Mapping[tuple[str, str], str]:
        world, firing = self._world, {}
        for pool in filter(world.gpus, world.pools):
            short, long = world.utilization(pool, HIGH_FOR), world.utilization(pool, LOW_FOR)
            if short is not None and short > HIGH:
                firing["GpuPoolBusy", pool] = "hold"
            if long is None or long >= LOW or pending & {pool, UNASSIGNED}:
                continue
            usable = [vm.usable_at for vm in world.pools[pool].instances if vm.living and vm.usable_at]
            if usable and world.now - min(usable) >= YOUNG:
                firing["GpuPoolUnderutilized", pool] = "scale_down"
        return firing

    def _alert(self, name: str, pool: str, action: str) -> Alert:
        labels = {
            "alertname": name,
            "component": COMPONENT,
            "namespace": "gpu-autoscaler",
            "action": action,
            "severity": "none" if action == "heartbeat" else "warning",
        }
        if pool:
            labels["pool"] = pool
        text = "\n".join(f"{k}={v}" for k, v in sorted(labels.items()))
        fingerprint = hashlib.sha256(text.encode()).hexdigest()[:16]
        return Alert(fingerprint=fingerprint, labels=labels, starts_at=self._world.now)
