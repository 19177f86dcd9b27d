"""GPU metrics of a world over time: samples as DCGM shows them, courses of pods, gaps, and use beside the pods."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from receiver.core.model.usage import Course
from receiver.replay.world.activity import GpuReading, Gpus, watts
from receiver.replay.world.cluster import Agenda, Key
from receiver.replay.world.objects import WorldPod

REMEMBERED = timedelta(hours=24)
MEMORY_MIB = 46068  # an L40S as nvidia-smi shows it
IDLE_CELSIUS, FULL_CELSIUS = 31.0, 74.0
POWER_NOISE = 1.0  # W between two readings of the same GPU
Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """The metrics of one GPU: *util* ratio 0-1, memory in MiB, power in W, temperature in Celsius. *pod* is the holder
    (namespace, name), or None."""

    node: str
    pool: str
    index: int
    uuid: str
    resource: str
    model_name: str
    util: float
    memory_used: int
    memory_free: int
    power: float
    temperature: float
    pod: tuple[str, str] | None = None


class Gaps:
    """The times without GPU metrics, in the whole world."""

    def __init__(self) -> None:
        self._over: deque[Span] = deque()
        self._since: datetime | None = None

    def gone(self, now: datetime, gone: bool) -> None:
        if gone and self._since is None:
            self._since = now
        elif not gone and self._since is not None:
            self._over.append((self._since, now))
            self._since = None
        while self._over and self._over[0][1] < now - REMEMBERED:
            self._over.popleft()

    def between(self, start: datetime, end: datetime) -> Iterator[Span]:
        """Yield the parts of *start* to *end* with metrics."""
        spans: Iterable[Span] = self._over if self._since is None else (*self._over, (self._since, end))
        for begin, over in spans:
            if over < start or begin > end:
                continue
            if begin > start:
                yield start, begin
            start = over
            if start >= end:
                return
        yield start, end


class History:
    """The readings of one pod's GPUs, which all do the same; None while their node is down."""

    def __init__(self) -> None:
        self._readings: deque[tuple[datetime, GpuReading | None]] = deque()

    def note(self, now: datetime, reading: GpuReading | None) -> None:
        if self._readings and self._readings[-1][0] == now:
            self._readings.pop()
        self._readings.append((now, reading))
        while len(self._readings) > 1 and self._readings[1][0] <= now - REMEMBERED:
            self._readings.popleft()

    def course(self, now: datetime, window: timedelta, gaps: Gaps) -> Course:
        """Return peaks and coverage of the *window* (up to a day) that ends *now*."""
        engine: list[float] = []
        memory: list[float] = []
        seen = timedelta(0)
        start, later = now - window, now
        for at, reading in reversed(self._readings):
            if reading is not None:
                for begin, over in gaps.between(max(at, start), later):
                    seen += over - begin
                    engine.append(reading.engine)
                    memory += (reading.memory_at(begin), reading.memory_at(over))
            if at <= start:
                break
            later = at
        coverage = seen / window
        if not engine:
            return Course(window=window, coverage=coverage)
        return Course(
            window=window,
            engine=max(engine),
            memory=max(memory) - min(memory),
            power=watts(max(engine)),
            power_floor=watts(min(engine)) - POWER_NOISE,
            coverage=coverage,
        )


class ObservedGpus(Gpus):
    """GPUs whose metrics are kept for a day, and which may be used from outside Kubernetes."""

    def __init__(self, agenda: Agenda) -> None:
        super().__init__(agenda)
        self._histories: dict[Key, History] = {}
        self._gaps = Gaps()
        self._running = 0
        self._held = 0.0
        self._held_at = agenda.now
        self.outside: dict[str, GpuReading] = {}  # by node

    def node_down(self, name: str) -> None:
        known = self._nodes.get(name)
        super().node_down(name)
        for key in filter(None, set(known.holders) if known is not None else ()):
            self._histories[key].note(self._agenda.now, None)

    def use(self, name: str, engine: float, memory: float) -> None:
        self.outside[name] = GpuReading(self._agenda.now, engine, memory)
        self._changed(name)

    def stop_using(self, name: str) -> None:
        if self.outside.pop(name, None) is not None:
            self._changed(name)

    def telemetry_gone(self, gone: bool) -> None:
        self._gaps.gone(self._agenda.now, gone)

    def hold(self, pod: WorldPod, node: str) -> None:
        if node in self._nodes and pod.requests:
            self._histories.setdefault(pod.key, History())
        super().hold(pod, node)

    def release(self, pod: WorldPod) -> None:
        super().release(pod)
        self._histories.pop(pod.key, None)

    def run(self, pod: WorldPod, warmup: timedelta) -> None:
        self._count_to_now()
        self._running += pod.gpus
        super().run(pod, warmup)

    def stop(self, pod: WorldPod) -> None:
        self._count_to_now()
        self._running -= pod.gpus
        super().stop(pod)

    def change(self, pod: WorldPod) -> None:
        """Apply a changed activity of *pod*, now or at the end of its warm-up."""
        if pod.key in self._readings and pod.key not in self._loading:
            self.warm(pod)

    def _changed(self, name: str) -> None:
        super()._changed(name)
        if name in self._nodes:
            for holder in filter(None, dict.fromkeys(self._nodes[name].holders)):
                self._histories[holder].note(self._agenda.now, self._reading(name, holder))

    def _reading(self, node: str, holder: Key | None) -> GpuReading:
        own, other = super()._reading(node, holder), self.outside.get(node)
        if other is None:
            return own
        if holder not in self._readings:
            return other
        return GpuReading(own.at, max(own.engine, other.engine), min(1.0, own.memory + other.memory), own.slope)

    def courses(self, window: timedelta) -> Mapping[str, Course]:
        """Return the course over *window* (up to a day) of each pod that holds GPUs, by ``namespace/name``."""
        now = self._agenda.now
        return {"/".join(key): h.course(now, window, self._gaps) for key, h in self._histories.items()}

    def samples(self) -> list[GpuSample]:
        """Return the current metrics of every GPU of the nodes whose driver runs."""
        found = []
        for name, gpus in self._nodes.items():
            for index, holder in enumerate(gpus.holders):
                reading = self._reading(name, holder)
                used = int(MEMORY_MIB * reading.memory)
                found.append(
                    GpuSample(
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
                        pod=holder,
                    )
                )
        return found

    def gpu_seconds(self) -> float:
        self._count_to_now()
        return self._held

    def _count_to_now(self) -> None:
        now = self._agenda.now
        self._held += self._running * (now - self._held_at).total_seconds()
        self._held_at = now
