"""Ports over a World, in memory: Civo, Prometheus and Alertmanager. They do not move the world's time."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.activity import Course, Sample
from receiver.core.model.charges import Charge, distinct, windows
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.signals import COMPONENT, HEARTBEAT_ALERT, UNASSIGNED, Alert, Silence
from receiver.ports import AlarmFacts, Charges, CloudPool, Did, Instance, Receipt, TelemetryFacts, TryLater, WontWork
from receiver.replay.world.config import POOL_LABEL, Denied
from receiver.replay.world.objects import WorldPod
from receiver.replay.world.world import World


class Switches:
    """Faults for tests. *writes* are the calls that reached the world, also refused ones, as (verb, args)."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, tuple[object, ...]]] = []
        self.down: Exception | None = None
        self._failures: list[tuple[Exception, str | None]] = []
        self._after: list[tuple[Exception, str]] = []

    def fail_next(self, error: Exception, verb: str | None = None) -> None:
        """Let the next call (of *verb*, if given) raise *error* without any effect."""
        self._failures.append((error, verb))

    def fail_after(self, error: Exception, verb: str) -> None:
        """Let the next write *verb* take effect and then raise *error*, like a lost answer."""
        self._after.append((error, verb))

    def fail_always(self, error: Exception | None) -> None:
        """Let every call raise *error*; None ends that."""
        self.down = error

    def called(self, verb: str) -> None:
        """Raise a fault that is set for *verb*."""
        if self.down is not None:
            raise self.down
        for index, (error, only) in enumerate(self._failures):
            if only in (None, verb):
                del self._failures[index]
                raise error

    def write(self, verb: str, args: tuple[object, ...], do: Callable[[], object]) -> None:
        """Record and run a write. Raises a fault that is set for its answer."""
        self.writes.append((verb, args))
        do()
        for index, (error, only) in enumerate(self._after):
            if only == verb:
                del self._after[index]
                raise error

    def receipt(self, verb: str, args: tuple[object, ...], do: Callable[[], object], sentence: str) -> Receipt:
        """Run a write and return its receipt."""
        self.write(verb, args, do)
        return Receipt(did=Did.DONE, sentence=sentence)


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
    """Return the port's error for a refusal: by its code first, then by its status, as the product's adapter does."""
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
        """Return every pool by id, those without nodes too."""
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
        """Set the count to *target* unless it is reached already or has changed since the decision."""
        self.called("resize")
        required = self._required(pool)
        late = required == shown and required <= target
        if required >= target and not late:
            sentence = f"the count is already {required}, wanted were {target}"
            return Receipt(did=Did.ALREADY, sentence=sentence, required=required)
        if required != decided_on and not late:
            sentence = f"the count is {required}, the decision was made on {decided_on}"
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
        return Receipt(did=Did.DONE, sentence=f"set the count to {target} from {required}", required=after)

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
        """Return the compute resources of each size."""
        return {pool.size: pool.spec.machine for pool in self._world.pools.values()}

    def _required(self, pool: str) -> int:
        if pool not in self._world.pools:
            raise WontWork(f"the cluster has no pool {pool}", code="database_cluster_pool_not_found")
        return self._world.shown_count(pool)


class WorldAccounts(Switches):
    """The account's charges, answered by a World. *others* are charges beside its nodes; *asked* counts the queries."""

    def __init__(self, world: World, others: tuple[Charge, ...] = ()) -> None:
        super().__init__()
        self._world = world
        self.others = others
        self.asked = 0

    def charges(self, frm: datetime, to: datetime) -> Charges:
        """Return the records that overlap *frm* to *to*, in windows that Civo allows."""
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


SAMPLED = timedelta(minutes=2)
HIGH_FOR = timedelta(minutes=5)
LOW_FOR = timedelta(minutes=10)
YOUNG = timedelta(minutes=9)  # a younger pool has too few samples to count as idle


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


class WorldTelemetry(Switches):
    """Prometheus, answered by a World: utilization is the 5-minute average over a pool's GPUs."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.values: dict[str, float] = {}
        self._waiting: dict[str, Pod] = {}  # by uid: a waiting pod's labels do not change

    def look(self) -> TelemetryFacts:
        """Return the current values; none of GPUs while `telemetry_gone`."""
        self.called("look")
        world = self._world
        with_gpus = [p for p in world.pools if world.gpus(p)]
        gone = world.faults.telemetry_gone
        found = {p: world.utilization(p) for p in with_gpus} if not gone else {}
        self._waiting = {p.uid: self._waiting.get(p.uid) or _waiting(p) for p in waiting_pods(world)}
        return TelemetryFacts(
            utilization={p: value for p, value in found.items() if value is not None},
            coverage=dict.fromkeys(with_gpus, 0.0 if gone else 1.0),
            waiting=tuple(self._waiting.values()),
            nodes={} if gone else world.node_activity(),
            rules_alive=not world.faults.rules_dead,
        )

    def courses(self, window: timedelta) -> Mapping[str, Course]:
        """Return the course over *window* (up to a day) of each pod that holds GPUs."""
        self.called("courses")
        return self._world.courses(window)

    def value(self, query: str, at: datetime) -> float | None:  # noqa: ARG002 (they do not change)
        """Return an entry of *values*, at any time: the world has no metrics of the work itself."""
        self.called("value")
        return self.values.get(query)

    def samples(self) -> Mapping[str, Sequence[Sample]]:
        """Return the current activity of each GPU of each pod, with the change of its memory over two minutes."""
        self.called("samples")
        if self._world.faults.telemetry_gone:
            return {}
        courses = self._world.courses(SAMPLED)
        found: dict[str, list[Sample]] = {}
        for gpu in self._world.gpu_samples():
            if gpu.pod is not None:
                key = "/".join(gpu.pod)
                memory = gpu.memory_used / (gpu.memory_used + gpu.memory_free)
                least = max(0.0, memory - (courses[key].memory or 0.0))
                sample = Sample(engine=gpu.util, memory=memory, peak_memory=memory, least_memory=least)
                found.setdefault(key, []).append(sample)
        return found


class WorldAlarms(Switches):
    """Alertmanager with our alert rules. Tests may set *silences* and *extra* alerts.

    *high* and *low* are the utilization ratios of the rules; *utilization* False leaves those two rules out.
    """

    def __init__(self, world: World, *, utilization: bool = True, high: float = 0.70, low: float = 0.50) -> None:
        super().__init__()
        self._world = world
        self._utilization = utilization
        self._high = high
        self._low = low
        self._alerts: dict[tuple[str, str], Alert] = {}  # the firing ones
        self.silences: list[Silence] = []
        self.extra: list[Alert] = []

    def look(self) -> AlarmFacts:
        """Return the firing alerts that are not silenced, and the silences."""
        self.called("look")
        firing: dict[tuple[str, str], str] = {}
        if not self._world.faults.rules_dead:
            firing[HEARTBEAT_ALERT, ""] = "heartbeat"
            pending = {pool_hint(p) for p in waiting_pods(self._world)}
            firing.update({("GpuPodsPending", pool): "scale_up" for pool in sorted(pending)})
            if self._utilization and not self._world.faults.telemetry_gone:
                firing.update(self._by_utilization(pending))
        self._alerts = {key: self._alerts.get(key) or self._alert(*key, action) for key, action in firing.items()}
        live = tuple(s for s in self.silences if s.ends_at > self._world.now)
        heard = (a for a in (*self._alerts.values(), *self.extra) if not any(_silences(s, a) for s in live))
        return AlarmFacts(alerts=tuple(heard), silences=live)

    def _by_utilization(self, pending: set[str]) -> Mapping[tuple[str, str], str]:
        world = self._world
        firing = {}
        for pool in world.pools:
            if not world.gpus(pool):
                continue
            short, long = world.utilization(pool, HIGH_FOR), world.utilization(pool, LOW_FOR)
            if short is not None and short > self._high:
                firing["GpuPoolBusy", pool] = "hold"
            quiet = not pending & {pool, UNASSIGNED}
            if long is not None and long < self._low and quiet and self._seen_for(pool) >= YOUNG:
                firing["GpuPoolUnderutilized", pool] = "scale_down"
        return firing

    def _seen_for(self, pool: str) -> timedelta:
        since = [vm.usable_at for vm in self._world.pools[pool].instances if vm.living and vm.usable_at]
        return self._world.now - min(since) if since else timedelta(0)

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


def _waiting(pod: WorldPod) -> Pod:
    return Pod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        requests=pod.requests,
        phase=PodPhase.WAITING,
        created_at=pod.created_at,
        pool_hint=pool_hint(pod),
    )


def _silences(silence: Silence, alert: Alert) -> bool:
    return all(m.matches(alert.labels) for m in silence.matchers)
