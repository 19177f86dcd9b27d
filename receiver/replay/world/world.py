"""The world: Civo and its cluster behind one clock."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from receiver.replay.world.activity import Gpus
from receiver.replay.world.cloud import SimulatedCloud, WorldBooks
from receiver.replay.world.cluster import Agenda, ClusterObjects, Dice, Journal
from receiver.replay.world.nodes import Nodes
from receiver.replay.world.objects import (
    VM,
    CivoPool,
    Faults,
    FinishedJob,
    Kill,
    WorldChange,
    WorldConfig,
    WorldEvent,
    WorldNode,
    WorldPod,
)
from receiver.replay.world.pods import JobRuns, Pods

Parts = tuple[type[Faults], type[Gpus], type[Pods], type[Nodes], type[SimulatedCloud]]


class World:
    """A GPU cloud and its cluster. Time moves by `advance` alone; everything else happens at `now`.

    Refusals of Civo and Kubernetes raise Denied with the code and status of the HTTP answer. Most calls are those of
    the part that answers them: `SimulatedCloud`, `WorldBooks`, `Nodes`, `Pods`, `Gpus`. Mappings and sequences are live
    views.
    """

    parts: ClassVar[Parts] = (Faults, Gpus, Pods, Nodes, SimulatedCloud)

    def __init__(self, config: WorldConfig, start: datetime) -> None:
        self.config = config
        new_faults, new_gpus, new_pods, new_nodes, new_cloud = self.parts
        self.faults = faults = new_faults()
        timings = config.timings
        self._agenda = agenda = Agenda(start)
        self._journal = Journal(config.journal_limit)
        self._cluster = cluster = ClusterObjects(agenda, self._journal)
        self._activity = activity = new_gpus(agenda)
        self._jobs = jobs = JobRuns(config.backoff_limit)
        self._books = WorldBooks(config.behaviour, agenda)
        self._dice = dice = Dice(config.seed, timings.jitter)
        self._pods = pods = new_pods(cluster, agenda, timings, dice, activity, jobs, config.packing)
        self._nodes = nodes = new_nodes(cluster, agenda, timings, dice, faults, activity, pods, config.region)
        self._cloud = new_cloud(config, agenda, faults, dice, self._books, nodes)
        self.advance, self.next_event_at = agenda.advance, agenda.next_at
        self._show_civo()
        self._show_kubernetes()

    def _show_civo(self) -> None:
        cloud, books = self._cloud, self._books
        self.pools: Mapping[str, CivoPool] = cloud.pools  # by id, those without nodes too
        self.lives: Sequence[VM] = books.lives  # every instance that ever was, oldest first
        self.quota_usage: Mapping[str, int] = cloud.accounts.usage  # by name
        self.shown_count = cloud.shown_count
        self.begin_with = cloud.begin_with
        self.resize = cloud.resize
        self.delete_instance = cloud.delete_instance
        self.charges = books.charges
        self.paid_gpu_seconds = books.paid_gpu_seconds

    def _show_kubernetes(self) -> None:
        cluster, pods, activity = self._cluster, self._pods, self._activity
        self.nodes: Mapping[str, WorldNode] = cluster.nodes  # by name
        self.pods: Mapping[tuple[str, str], WorldPod] = cluster.pods  # by namespace and name, terminated ones too
        self.active_pods: Mapping[tuple[str, str], WorldPod] = cluster.active  # those that have not terminated
        self.events: Sequence[WorldEvent] = cluster.events  # oldest first
        self.journal: Sequence[WorldChange] = self._journal.changes
        self.kills: Sequence[Kill] = pods.kills  # GPU pods that lost their node to a deletion
        self.finished: Sequence[FinishedJob] = self._jobs.finished
        self.failed: Mapping[str, datetime] = self._jobs.failed  # jobs beyond their backoff limit, and since when
        self.pods_on = cluster.on
        self.changes_since = self._journal.since
        self.submit = pods.submit
        self.add_pod = pods.add
        self.ungate = pods.ungate
        self.delete_pod = pods.delete
        self.evict: Callable[..., None] = pods.delete
        self.patch_node = self._nodes.patch
        self.utilization = activity.average
        self.gpus = activity.gpus
        self.node_activity = activity.of_nodes

    @property
    def now(self) -> datetime:
        """The world's time, UTC."""
        return self._agenda.now

    @property
    def version(self) -> int:
        """The resourceVersion: it grows with every visible change of the cluster."""
        return self._journal.version

    def record_event(
        self, *, kind: str, namespace: str, name: str, reason: str, message: str, **details: Any
    ) -> WorldEvent:
        """Create a Kubernetes Event on an object; *details* are its type, uid and component."""
        event = WorldEvent(
            kind=kind,
            namespace=namespace,
            name=name,
            reason=reason,
            message=message,
            at=self.now,
            id=f"{name}.{self._dice.word(16)}",
            **details,
        )
        self._cluster.events.append(self._journal.record("Event", "ADDED", f"{namespace}/{event.id}", event))
        return self._cluster.events[-1]
