"""What the GPUs do: who holds which one, how busy it is, and averages over time for each pool."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from receiver.core.model.activity import Activity, Course
from receiver.replay.world.agenda import Agenda
from receiver.replay.world.cluster import Key
from receiver.replay.world.courses import Gaps, History, Reading, watts
from receiver.replay.world.meters import Meter
from receiver.replay.world.objects import VM, GpuSample, WorldPod

MEMORY_MIB = 46068  # an L40S as nvidia-smi shows it
IDLE_CELSIUS, FULL_CELSIUS = 31.0, 74.0


def held_memory(pod: WorldPod) -> float:
    """The memory (ratio) that *pod* holds of each of its GPUs once it is loaded."""
    return 0.12 + 0.7 * pod.gpu_util if pod.gpu_memory is None else pod.gpu_memory


@dataclass(slots=True)
class _Gpus:
    """The GPUs of one node: what each is, who holds it, and how busy they are together."""

    vm: VM
    kinds: list[str]
    holders: list[Key | None]
    busy: float = 0.0


class Gpus:
    """GPUs of the nodes whose driver runs, and the pods that hold them.

    A pod holds its GPUs from its binding on and loads from its start on (engine idle, memory growing evenly)
    until it is `warm`. What something outside Kubernetes does on a node comes on top.
    """

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._nodes: dict[str, _Gpus] = {}
        self._meters: dict[str, Meter] = {}
        self._readings: dict[Key, Reading] = {}  # what running pods do
        self._loading: set[Key] = set()
        self._histories: dict[Key, History] = {}
        self._gaps = Gaps()
        self._running = 0
        self._held = 0.0
        self._held_at = agenda.now
        self.outside: dict[str, Reading] = {}  # by node

    # --- nodes ---

    def node_up(self, name: str, vm: VM) -> None:
        """The driver runs: *vm*'s GPUs are seen."""
        kinds = [resource for resource, count in vm.spec.resources.items() for _ in range(count)]
        self._nodes[name] = _Gpus(vm, kinds, [None] * len(kinds))
        self._meter(vm.pool).change(self._agenda.now, len(kinds), 0.0)
        self._changed(name)

    def node_down(self, name: str) -> None:
        """The node's GPUs are seen no more."""
        known = self._nodes.pop(name, None)
        if known is None:
            return
        self._meter(known.vm.pool).change(self._agenda.now, -len(known.kinds), -known.busy)
        for key in filter(None, set(known.holders)):
            self._histories[key].note(self._agenda.now, None)

    def use(self, name: str, engine: float, memory: float) -> None:
        """Something outside Kubernetes uses every GPU of the node."""
        self.outside[name] = Reading(self._agenda.now, engine, memory)
        self._changed(name)

    def stop_using(self, name: str) -> None:
        """Nothing outside Kubernetes uses the node's GPUs any more."""
        if self.outside.pop(name, None) is not None:
            self._changed(name)

    def telemetry_gone(self, gone: bool) -> None:
        """Nobody sees what GPUs do, or everybody again."""
        self._gaps.gone(self._agenda.now, gone)

    # --- pods ---

    def hold(self, pod: WorldPod, node: str) -> None:
        """*pod* is on *node*: it takes the lowest free GPUs of each kind."""
        gpus = self._nodes.get(node)
        if gpus is None or not pod.requests:
            return
        for resource, count in pod.requests.items():
            free = [i for i, kind in enumerate(gpus.kinds) if kind == resource and gpus.holders[i] is None]
            for index in free[:count]:
                gpus.holders[index] = pod.key
        self._histories.setdefault(pod.key, History())
        self._changed(node)

    def release(self, pod: WorldPod) -> None:
        """*pod* lets its GPUs go."""
        gpus = self._nodes.get(pod.node or "")
        if gpus is not None and pod.node is not None and pod.key in gpus.holders:
            gpus.holders = [None if h == pod.key else h for h in gpus.holders]
            self._changed(pod.node)
        self._histories.pop(pod.key, None)

    def run(self, pod: WorldPod, warmup: timedelta) -> None:
        """*pod* runs: it uses GPU time, and loads for *warmup*."""
        self._count_to_now()
        self._running += pod.gpus
        self._loading.add(pod.key)
        slope = held_memory(pod) / warmup.total_seconds() if warmup else 0.0
        self._does(pod, Reading(self._agenda.now, slope=slope))

    def warm(self, pod: WorldPod) -> None:
        """*pod* is loaded and works from now on."""
        self._loading.discard(pod.key)
        self._does(pod, Reading(self._agenda.now, pod.gpu_util, held_memory(pod)))

    def change(self, pod: WorldPod) -> None:
        """*pod* works otherwise from now on, or, while it loads, as soon as it is warm."""
        if pod.key in self._readings and pod.key not in self._loading:
            self.warm(pod)

    def stop(self, pod: WorldPod) -> None:
        """*pod*, which ran, no longer does."""
        self._count_to_now()
        self._running -= pod.gpus
        self._loading.discard(pod.key)
        if self._readings.pop(pod.key, None) is not None and pod.node is not None:
            self._changed(pod.node)

    def _does(self, pod: WorldPod, reading: Reading) -> None:
        if pod.requests and pod.node is not None:
            self._readings[pod.key] = reading
            self._changed(pod.node)

    def _changed(self, name: str) -> None:
        """Bring the meter of the node's pool and the histories of its pods up to what its GPUs do now."""
        gpus = self._nodes.get(name)
        if gpus is None:
            return
        now = self._agenda.now
        busy = 0.0
        noted: dict[Key, Reading] = {}
        for holder in gpus.holders:
            if holder is None:
                busy += self._reading(name, None).engine
                continue
            if holder not in noted:
                noted[holder] = self._reading(name, holder)
                self._histories[holder].note(now, noted[holder])
            busy += noted[holder].engine
        if busy != gpus.busy:
            self._meter(gpus.vm.pool).change(now, 0, busy - gpus.busy)
            gpus.busy = busy

    def _reading(self, node: str, holder: Key | None) -> Reading:
        """What a GPU of *node* does now that *holder* holds."""
        now = self._agenda.now
        own = self._readings.get(holder) if holder is not None else None
        other = self.outside.get(node)
        if other is None:
            return Reading(now) if own is None else Reading(now, own.engine, own.memory_at(now), own.slope)
        if own is None:
            return other
        memory = min(1.0, own.memory_at(now) + other.memory)
        return Reading(now, max(own.engine, other.engine), memory, own.slope)

    # --- what is seen ---

    def gpu_seconds(self) -> float:
        """GPU-seconds held by running pods so far."""
        self._count_to_now()
        return self._held

    def average(self, pool: str, window: timedelta) -> float | None:
        """A pool's activity over *window*."""
        return self._meter(pool).average(self._agenda.now, window)

    def gpus(self, pool: str) -> int:
        """GPUs of *pool* that report now."""
        return self._meter(pool).gpus

    def of_nodes(self) -> Iterator[tuple[str, Activity]]:
        """Yield the busiest GPU of each node as DCGM shows it now."""
        for name, gpus in self._nodes.items():
            readings = [self._reading(name, holder) for holder in dict.fromkeys(gpus.holders)]
            if readings:
                engine = max(r.engine for r in readings)
                memory = max(r.memory for r in readings)
                yield name, Activity(engine=engine, memory=memory, power=watts(engine))

    def courses(self, window: timedelta) -> Iterator[tuple[Key, Course]]:
        """Yield what each pod that holds GPUs did over *window* (up to a day)."""
        for key, history in self._histories.items():
            yield key, history.course(self._agenda.now, window, self._gaps)

    def samples(self) -> Iterable[GpuSample]:
        """What each GPU reports now."""
        for name, gpus in self._nodes.items():
            for index, holder in enumerate(gpus.holders):
                yield _sample(name, gpus, index, self._reading(name, holder))

    def _meter(self, pool: str) -> Meter:
        if pool not in self._meters:
            self._meters[pool] = Meter(self._agenda.now)
        return self._meters[pool]

    def _count_to_now(self) -> None:
        now = self._agenda.now
        self._held += self._running * (now - self._held_at).total_seconds()
        self._held_at = now


def _sample(name: str, gpus: _Gpus, index: int, reading: Reading) -> GpuSample:
    used = int(MEMORY_MIB * reading.memory)
    return GpuSample(
        node=name,
        pool=gpus.vm.pool,
        index=index,
        uuid=f"GPU-{gpus.vm.id[:-2]}{index:02x}",
        resource=gpus.kinds[index],
        model_name=gpus.vm.spec.model_name,
        util=reading.engine,
        memory_used=used,
        memory_free=MEMORY_MIB - used,
        power=watts(reading.engine),
        temperature=IDLE_CELSIUS + (FULL_CELSIUS - IDLE_CELSIUS) * reading.engine,
        pod=gpus.holders[index],
    )
