"""Prometheus and Alertmanager over a World: what our recording and alert rules would say, without either."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from receiver.core.model.activity import Course, Sample
from receiver.core.model.model import UNASSIGNED
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.signals import HEARTBEAT_ALERT, Alert
from receiver.core.model.silences import COMPONENT, Silence
from receiver.ports import AlarmFacts, TelemetryFacts
from receiver.replay.switches import Switches
from receiver.replay.world.config import POOL_LABEL
from receiver.replay.world.objects import WorldPod
from receiver.replay.world.world import World

SAMPLED = timedelta(minutes=2)
HIGH_FOR = timedelta(minutes=5)
LOW_FOR = timedelta(minutes=10)
YOUNG = timedelta(minutes=9)  # a pool seen for less has too few samples to be called idle


def waiting_pods(world: World) -> list[WorldPod]:
    """The GPU pods that kube-state-metrics shows as unschedulable, without DaemonSets'."""
    return [
        p
        for p in world.active_pods.values()
        if p.requests and p.node is None and p.reason == "Unschedulable" and p.owner_kind != "DaemonSet"
    ]


def pool_hint(pod: WorldPod) -> str:
    """The pool that the rules work out: the one that its node selector names, else ``unassigned``."""
    return pod.node_selector.get(POOL_LABEL, UNASSIGNED)


class WorldTelemetry(Switches):
    """Prometheus, answered by a World: utilization is the 5-minute average over a pool's GPUs."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.values: dict[str, float] = {}
        self._waiting: dict[str, Pod] = {}  # by uid: what kube-state-metrics says of a waiting pod does not change

    def look(self) -> TelemetryFacts:
        """Return the latest values; nothing about GPUs while `telemetry_gone`."""
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
        """Return what the GPUs of each pod that holds some did over *window*, up to a day."""
        self.called("courses")
        return self._world.courses(window)

    def value(self, query: str, at: datetime) -> float | None:  # noqa: ARG002 (they do not change)
        """Return what was put into *values*, at any time: the world has no metrics of the work itself."""
        self.called("value")
        return self.values.get(query)

    def samples(self) -> Mapping[str, Sequence[Sample]]:
        """Return what each GPU of each pod does now, with the change of its memory over two minutes."""
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
    """Alertmanager with our alert rules behind it. *silences* and *extra* alerts are a test's to set.

    *high* and *low* are the utilization ratios of the rules; *utilization* False leaves those two rules out.
    """

    def __init__(self, world: World, *, utilization: bool = True, high: float = 0.70, low: float = 0.50) -> None:
        super().__init__()
        self._world = world
        self._utilization = utilization
        self._high = high
        self._low = low
        self._alerts: dict[tuple[str, str], Alert] = {}  # those that fire, from their start on
        self.silences: list[Silence] = []
        self.extra: list[Alert] = []

    def look(self) -> AlarmFacts:
        """Return what fires and is not silenced, and the silences."""
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
        told = "\n".join(f"{k}={v}" for k, v in sorted(labels.items()))
        fingerprint = hashlib.sha256(told.encode()).hexdigest()[:16]
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
