"""What the GPUs do: who holds which one, how busy it is, and averages over time for each pool."""

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta

from receiver.replay.world.agenda import Agenda
from receiver.replay.world.objects import VM, GpuSample, WorldPod

KEEP = timedelta(minutes=15)
MEMORY_MIB = 46068  # an L40S as nvidia-smi shows it
IDLE_WATTS, FULL_WATTS = 36.0, 330.0
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
        """Add *gpus* GPUs and *busy* activity from *now* on."""
        self._run_to(now)
        self.gpus += gpus
        self.busy += busy
        self._history.append((now, self._gpu_time, self._busy_time))
        while len(self._history) > 2 and self._history[1][0] <= now - KEEP:
            self._history.popleft()

    def average(self, now: datetime, window: timedelta) -> float | None:
        """Activity per GPU over the last *window* (up to 15 minutes), None without GPUs in it."""
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
        """Return both integrals at *when*: they are straight lines between two changes."""
        later = (self._at, self._gpu_time, self._busy_time)
        for earlier in reversed(self._history):
            if earlier[0] <= when:
                span = (later[0] - earlier[0]).total_seconds()
                part = (when - earlier[0]).total_seconds() / span if span else 0.0
                return earlier[1] + (later[1] - earlier[1]) * part, earlier[2] + (later[2] - earlier[2]) * part
            later = earlier
        return later[1], later[2]


class Activity:
    """GPUs of the nodes whose driver runs, and the pods that hold them."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._nodes: dict[str, tuple[VM, list[tuple[str, str] | None], list[str]]] = {}
        self._meters: dict[str, Meter] = {}
        self._busy: dict[str, tuple[WorldPod, str]] = {}  # by pod uid: a pod past its warm-up, and its pool
        self._running = 0
        self._held = 0.0
        self._held_at = agenda.now

    # --- nodes ---

    def node_up(self, name: str, vm: VM) -> None:
        """The driver runs: *vm*'s GPUs are seen."""
        kinds = [resource for resource, count in vm.spec.resources.items() for _ in range(count)]
        self._nodes[name] = (vm, [None] * len(kinds), kinds)
        self._meter(vm.pool).change(self._agenda.now, len(kinds), 0.0)

    def node_down(self, name: str) -> None:
        """The node's GPUs are seen no more."""
        known = self._nodes.pop(name, None)
        if known is not None:
            self._meter(known[0].pool).change(self._agenda.now, -len(known[2]), 0.0)

    # --- pods ---

    def hold(self, pod: WorldPod, node: str) -> None:
        """*pod* is bound: it takes the lowest free GPUs of each kind."""
        if node not in self._nodes:
            return
        _, holders, kinds = self._nodes[node]
        for resource, count in pod.requests.items():
            free = [i for i, kind in enumerate(kinds) if kind == resource and holders[i] is None]
            for index in free[:count]:
                holders[index] = pod.key

    def release(self, pod: WorldPod) -> None:
        """*pod* lets its GPUs go."""
        if pod.node in self._nodes:
            holders = self._nodes[pod.node][1]
            holders[:] = [None if h == pod.key else h for h in holders]

    def run(self, pod: WorldPod) -> None:
        """*pod* runs: it uses GPU time, idle until `warm`."""
        self._count_to_now()
        self._running += pod.gpus

    def warm(self, pod: WorldPod) -> None:
        """*pod*'s GPUs are busy from now on."""
        known = self._nodes.get(pod.node or "")
        if known is not None and pod.gpus:
            self._busy[pod.uid] = (pod, known[0].pool)
            self._meter(known[0].pool).change(self._agenda.now, 0, pod.gpus * pod.gpu_util)

    def stop(self, pod: WorldPod) -> None:
        """*pod*, which ran, no longer does."""
        self._count_to_now()
        self._running -= pod.gpus
        _, pool = self._busy.pop(pod.uid, (None, None))
        if pool is not None:
            self._meter(pool).change(self._agenda.now, 0, -pod.gpus * pod.gpu_util)

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

    def samples(self) -> Iterable[GpuSample]:
        """What each GPU reports now."""
        working = {pod.key: pod for pod, _ in self._busy.values()}
        for name, (vm, holders, kinds) in self._nodes.items():
            for index, holder in enumerate(holders):
                pod = working.get(holder) if holder else None
                yield self._sample(name, vm, index, kinds[index], holder, pod.gpu_util if pod else 0.0)

    def _sample(
        self, name: str, vm: VM, index: int, kind: str, holder: tuple[str, str] | None, util: float
    ) -> GpuSample:
        used = int(MEMORY_MIB * (0.02 + (0.1 if holder else 0.0) + 0.7 * util)) if holder else 0
        return GpuSample(
            node=name,
            pool=vm.pool,
            index=index,
            uuid=f"GPU-{vm.id[:-2]}{index:02x}",
            resource=kind,
            model_name=vm.spec.model_name,
            util=util,
            memory_used=used,
            memory_free=MEMORY_MIB - used,
            power=IDLE_WATTS + (FULL_WATTS - IDLE_WATTS) * util,
            temperature=IDLE_CELSIUS + (FULL_CELSIUS - IDLE_CELSIUS) * util,
            pod=holder,
        )

    def _meter(self, pool: str) -> Meter:
        if pool not in self._meters:
            self._meters[pool] = Meter(self._agenda.now)
        return self._meters[pool]

    def _count_to_now(self) -> None:
        now = self._agenda.now
        self._held += self._running * (now - self._held_at).total_seconds()
        self._held_at = now
