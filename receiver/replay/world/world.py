"""The world as a whole: one clockwork behind which Civo's side and the cluster's side meet."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from receiver.core.model.activity import Activity, Course
from receiver.replay.world.activity import Gpus
from receiver.replay.world.civo_side import CivoSide
from receiver.replay.world.cloud import SimulatedCloud, WorldBooks
from receiver.replay.world.cluster import Agenda, ClusterObjects, Dice, Journal
from receiver.replay.world.config import Behaviour, Faults, WorldConfig
from receiver.replay.world.kubernetes_side import KubernetesSide
from receiver.replay.world.nodes import Nodes
from receiver.replay.world.objects import FinishedJob, GpuSample, HoldObjects, Kill
from receiver.replay.world.pods import JobRuns, Pods


class _Parts:
    """Civo (cloud, books) stands on the nodes, nodes and pods on the cluster's objects, all on one agenda."""

    def __init__(self, config: WorldConfig, start: datetime, faults: Faults) -> None:
        timings = config.timings
        self.agenda = agenda = Agenda(start)
        self.journal = Journal(config.journal_limit)
        self.cluster = cluster = ClusterObjects(agenda, self.journal)
        self.activity = activity = Gpus(agenda)
        self.jobs = JobRuns(config.backoff_limit)
        self.books = WorldBooks(config.behaviour, config.price)
        self.dice = dice = Dice(config.seed, timings.jitter)
        self.pods = Pods(cluster, agenda, timings, dice, activity, self.jobs, config.packing)
        self.nodes = Nodes(cluster, agenda, timings, dice, faults, activity, self.pods, config.region)
        self.cloud = SimulatedCloud(config, agenda, faults, dice, self.books, self.nodes)
        faults.ward = self.nodes


class World(CivoSide, KubernetesSide):
    """A GPU cloud and its cluster. Time moves by `advance` alone; everything else happens at `now`.

    Writes that Civo or Kubernetes would refuse raise Denied with the code and status of the HTTP answer.
    """

    def __init__(self, config: WorldConfig, start: datetime) -> None:
        self.config = config
        self.faults = Faults()
        self.holding = HoldObjects()
        parts = _Parts(config, start, self.faults)
        self._agenda, self._journal, self._cluster = parts.agenda, parts.journal, parts.cluster
        self._activity, self._jobs, self._books, self._dice = parts.activity, parts.jobs, parts.books, parts.dice
        self._pods, self._nodes, self._cloud = parts.pods, parts.nodes, parts.cloud

    def behave(self, behaviour: Behaviour) -> None:
        """Change the switches from now on."""
        self.config = replace(self.config, behaviour=behaviour)
        self._cloud.behaviour = self._books.behaviour = behaviour

    def limit(self, quota: Mapping[str, int]) -> None:
        """Change the account's quota from now on (bare names, absent: endless)."""
        self.config = replace(self.config, quota=quota)
        self._cloud.accounts.limits = quota

    # --- the clock ---

    @property
    def now(self) -> datetime:
        """The world's time, UTC."""
        return self._agenda.now

    def advance(self, to: datetime) -> None:
        """Let everything happen up to and including *to*. Raises ValueError when *to* lies in the past."""
        self._agenda.advance(to)

    def next_event_at(self) -> datetime | None:
        """When something changes unaided, or None."""
        return self._agenda.next_at()

    # --- what GPUs do ---

    def work(self, namespace: str, name: str, *, engine: float, memory: float | None = None) -> None:
        """Change what each GPU of a pod does (ratios) from now on, or once it is loaded; *memory* None leaves that.
        Unknown: 404."""
        self._pods.work((namespace, name), engine, memory)

    def use_gpu(self, node: str, *, engine: float = 0.9, memory: float = 0.5) -> None:
        """Something outside Kubernetes uses every GPU of *node* (ratios), on top of its pods, until `stop_using`.
        Unknown: 404."""
        self._cluster.node(node)
        self._activity.use(node, engine, memory)

    def stop_using(self, node: str) -> None:
        """Nothing outside Kubernetes uses the GPUs of *node* any more."""
        self._activity.stop_using(node)

    @property
    def used_outside(self) -> Collection[str]:
        """The nodes whose GPUs something outside Kubernetes uses."""
        return tuple(self._activity.outside)

    def node_activity(self) -> Mapping[str, Activity]:
        """What DCGM shows now of the busiest GPU of each node whose driver runs, by node name."""
        return dict(self._activity.of_nodes())

    def courses(self, window: timedelta) -> Mapping[str, Course]:
        """What the GPUs of each pod that holds some did over *window* (up to a day), by ``namespace/name``."""
        return {f"{namespace}/{name}": course for (namespace, name), course in self._activity.courses(window)}

    def gpu_samples(self) -> list[GpuSample]:
        """What every GPU reports now (GPUs of nodes whose driver runs)."""
        return list(self._activity.samples())

    def utilization(self, pool: str, window: timedelta = timedelta(minutes=5)) -> float | None:
        """A pool's GPU activity (ratio), averaged over GPUs and *window*; None without GPUs in it."""
        return self._activity.average(pool, window)

    def gpus(self, pool: str) -> int:
        """GPUs of a pool that report now: those of nodes whose driver runs."""
        return self._activity.gpus(pool)

    # --- facts for assertions ---

    @property
    def gpu_seconds(self) -> float:
        """GPU-seconds that running pods have held so far."""
        return self._activity.gpu_seconds()

    @property
    def kills(self) -> Sequence[Kill]:
        """GPU pods that lost their node to a deletion."""
        return self._pods.kills

    @property
    def finished(self) -> Sequence[FinishedJob]:
        """Jobs whose pods have all succeeded."""
        return self._jobs.finished

    @property
    def failed(self) -> Mapping[str, datetime]:
        """Jobs that lost pods more often than the backoff limit lets them, and when they were given up."""
        return self._jobs.failed
