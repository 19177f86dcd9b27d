"""GPUs: their holders, their activity now, pool averages of the last 15 minutes and pod courses of the last day."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.usage import Activity
from receiver.replay.world.cluster import Agenda, Key
from receiver.replay.world.objects import VM, WorldPod

METERED = timedelta(minutes=15)
REMEMBERED = timedelta(hours=24)
IDLE_WATTS, FULL_WATTS = 36.0, 330.0
Span = tuple[datetime, datetime]
MEMORY_MIB = 46068  # an L40S as nvidia-smi shows it
IDLE_CELSIUS, FULL_CELSIUS = 31.0, 74.0


class Meter:
    """A pool's GPUs and their summed activity, integrated over time."""

    def __init__(self, now: datetime) -> None:
        self.gpus = 0
        self.busy = 0.0
        self._at = now
        self._gpu_time = self._busy_time = 0.0
        self._history: deque[tuple[datetime, float, float]] = deque([(now, 0.0, 0.0)])

    def change(self, now: datetime, gpus: int, busy: float) -> None:
        self._run_to(now)
        self.gpus += gpus
        self.busy += busy
        self._history.append((now, self._gpu_time, self._busy_time))
        while len(self._history) > 2 and self._history[1][0] <= now - METERED:
            self._history.popleft()

    def average(self, now: datetime, window: timedelta) -> float | None:
        """Return the activity per GPU over the last *window* (up to 15 minutes), None without GPUs in it."""
        self._run_to(now)
        gpus_then, busy_then = self._at_time(now - window)
        gpu_time = self._gpu_time - gpus_then
        return max(0.0, min(1.0, (self._busy_time - busy_then) / gpu_time)) if gpu_time > 0 else None

    def _run_to(self, now: datetime) -> None:
        seconds = (now - self._at).total_seconds()
        self._gpu_time += self.gpus * seconds
        self._busy_time += self.busy * seconds
        self._at = now

    def _at_time(self, when: datetime) -> tuple[float, float]:
        """Return both integrals at *when*; they are linear between two changes."""
        later = (self._at, self._gpu_time, self._busy_time)
        for earlier in reversed(self._history):
            if earlier[0] <= when:
                span = (later[0] - earlier[0]).total_seconds()
                part = (when - earlier[0]).total_seconds() / span if span else 0.0
                return earlier[1] + (later[1] - earlier[1]) * part, earlier[2] + (later[2] - earlier[2]) * part
            later = earlier
        return later[1], later[2]


def watts(engine: float) -> float:
    """Return the power draw (W) of a GPU whose engine is active for that ratio of the time."""
    return IDLE_WATTS + (FULL_WATTS - IDLE_WATTS) * engine


@dataclass(frozen=True, slots=True)
class GpuReading:
    """The state of a GPU from *at* on: *engine* and *memory* are ratios, *memory* changes by *slope* per second."""

    at: datetime
    engine: float = 0.0
    memory: float = 0.0
    slope: float = 0.0

    def memory_at(self, when: datetime) -> float:
        grown = self.slope * (when - self.at).total_seconds() if self.slope else 0.0
        return max(0.0, min(1.0, self.memory + grown))


def held_memory(pod: WorldPod) -> float:
    """Return the used memory (ratio) of each GPU of *pod* after its warm-up."""
    return 0.12 + 0.7 * pod.gpu_util if pod.gpu_memory is None else pod.gpu_memory


@dataclass(slots=True)
class _Gpus:
    """The GPUs of one node: resource and holder of each, and the sum of their activity."""

    vm: VM
    kinds: list[str]
    holders: list[Key | None]
    busy: float = 0.0


class Gpus:
    """GPUs of the nodes whose driver runs, and the pods that hold them.

    A pod holds its GPUs from its binding on. It loads from its start until it is `warm`: the engine is idle and memory
    grows evenly.
    """

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._nodes: dict[str, _Gpus] = {}
        self._meters: dict[str, Meter] = {}
        self._readings: dict[Key, GpuReading] = {}  # of running pods
        self._loading: set[Key] = set()

    # --- nodes ---

    def node_up(self, name: str, vm: VM) -> None:
        kinds = [resource for resource, count in vm.spec.resources.items() for _ in range(count)]
        self._nodes[name] = _Gpus(vm, kinds, [None] * len(kinds))
        self._meter(vm.pool).change(self._agenda.now, len(kinds), 0.0)
        self._changed(name)

    def node_down(self, name: str) -> None:
        node_gpus = self._nodes.pop(name, None)
        if node_gpus is None:
            return
        self._meter(node_gpus.vm.pool).change(self._agenda.now, -len(node_gpus.kinds), -node_gpus.busy)

    # --- pods ---

    def hold(self, pod: WorldPod, node: str) -> None:
        """Give *pod* the lowest free GPUs of each resource on *node*; for claimed devices, of any resource."""
        gpus = self._nodes.get(node)
        if gpus is None or not pod.requests:
            return
        for resource, count in pod.requests.items():
            claimed = gpus.vm.spec.served_by_dra and resource not in gpus.kinds
            kinds = gpus.kinds if not claimed else [resource] * len(gpus.kinds)
            free = [i for i, kind in enumerate(kinds) if kind == resource and gpus.holders[i] is None]
            for index in free[:count]:
                gpus.holders[index] = pod.key
        self._changed(node)

    def release(self, pod: WorldPod) -> None:
        gpus = self._nodes.get(pod.node or "")
        if gpus is not None and pod.node is not None and pod.key in gpus.holders:
            gpus.holders = [None if h == pod.key else h for h in gpus.holders]
            self._changed(pod.node)

    def run(self, pod: WorldPod, warmup: timedelta) -> None:
        """Start *pod*, which loads for *warmup*."""
        self._loading.add(pod.key)
        slope = held_memory(pod) / warmup.total_seconds() if warmup else 0.0
        self._does(pod, GpuReading(self._agenda.now, slope=slope))

    def warm(self, pod: WorldPod) -> None:
        self._loading.discard(pod.key)
        self._does(pod, GpuReading(self._agenda.now, pod.gpu_util, held_memory(pod)))

    def stop(self, pod: WorldPod) -> None:
        self._loading.discard(pod.key)
        if self._readings.pop(pod.key, None) is not None and pod.node is not None:
            self._changed(pod.node)

    def _does(self, pod: WorldPod, reading: GpuReading) -> None:
        if pod.requests and pod.node is not None:
            self._readings[pod.key] = reading
            self._changed(pod.node)

    def _changed(self, name: str) -> None:
        gpus = self._nodes.get(name)
        if gpus is None:
            return
        busy = 0.0
        for holder in gpus.holders:
            busy += self._reading(name, holder).engine
        if busy != gpus.busy:
            self._meter(gpus.vm.pool).change(self._agenda.now, 0, busy - gpus.busy)
            gpus.busy = busy

    def _reading(self, node: str, holder: Key | None) -> GpuReading:  # noqa: ARG002 (a subclass asks for it)
        """Return the current state of a GPU of *node* that *holder* holds."""
        now = self._agenda.now
        reading = self._readings.get(holder) if holder is not None else None
        return (
            GpuReading(now)
            if reading is None
            else GpuReading(now, reading.engine, reading.memory_at(now), reading.slope)
        )

    # --- metrics ---

    def average(self, pool: str, window: timedelta = timedelta(minutes=5)) -> float | None:
        """Return a pool's activity (ratio) over GPUs and *window* (up to 15 minutes), None without GPUs in it."""
        return self._meter(pool).average(self._agenda.now, window)

    def gpus(self, pool: str) -> int:
        return self._meter(pool).gpus

    def of_nodes(self) -> Mapping[str, Activity]:
        """Return the DCGM values of the busiest GPU of each node whose driver runs, by node name."""
        activities = {}
        for name, gpus in self._nodes.items():
            readings = [self._reading(name, holder) for holder in dict.fromkeys(gpus.holders)]
            if readings:
                engine = max(r.engine for r in readings)
                memory = max(r.memory for r in readings)
                activities[name] = Activity(engine=engine, memory=memory, power=watts(engine))
        return activities

    def _meter(self, pool: str) -> Meter:
        if pool not in self._meters:
            self._meters[pool] = Meter(self._agenda.now)
        return self._meters[pool]
