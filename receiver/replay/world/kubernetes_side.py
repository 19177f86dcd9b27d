"""What a world answers where Kubernetes is asked: nodes, pods, events, and changes of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from receiver.core.model.policy import Taint
from receiver.replay.world.cloud import SimulatedCloud
from receiver.replay.world.cluster import Agenda, ClusterObjects, Dice, Journal
from receiver.replay.world.config import Job, Pdb, PodSpec
from receiver.replay.world.nodes import Nodes
from receiver.replay.world.objects import WorldChange, WorldEvent, WorldNode, WorldPod
from receiver.replay.world.pods import JobRuns, Pods


class KubernetesSide:
    """The cluster's side of a World. What Kubernetes would refuse raises Denied with the HTTP answer's status."""

    _agenda: Agenda
    _cloud: SimulatedCloud
    _cluster: ClusterObjects
    _dice: Dice
    _jobs: JobRuns
    _journal: Journal
    _nodes: Nodes
    _pods: Pods

    @property
    def pdbs(self) -> list[Pdb]:
        """PodDisruptionBudgets; append to it."""
        return self._pods.pdbs

    @property
    def version(self) -> int:
        """Grows with every visible change of the cluster (resourceVersion)."""
        return self._journal.version

    @property
    def nodes(self) -> Mapping[str, WorldNode]:
        """Node objects by name."""
        return self._cluster.nodes

    @property
    def pods(self) -> Mapping[tuple[str, str], WorldPod]:
        """Pod objects by (namespace, name), finished ones included."""
        return self._cluster.pods

    @property
    def active_pods(self) -> Mapping[tuple[str, str], WorldPod]:
        """The pods that have not terminated."""
        return self._cluster.active

    def pods_on(self, node: str) -> list[WorldPod]:
        """The pods bound to *node* that have not terminated."""
        return [self._cluster.pods[key] for key in self._cluster.pods_on.get(node, ())]

    @property
    def crashed_nodes(self) -> Collection[str]:
        """The nodes whose driver crashed (Faults.lose_gpu)."""
        return frozenset(self._nodes.crashed)

    @property
    def silent_nodes(self) -> Collection[str]:
        """The nodes whose kubelet does not answer (Faults.not_ready)."""
        return frozenset(self._nodes.silent)

    @property
    def journal(self) -> Sequence[WorldChange]:
        """The changes still kept, oldest first."""
        return self._journal

    @property
    def oldest_version(self) -> int:
        """Changes up to this version were compacted away."""
        return self._journal.oldest_version

    def changes_since(self, version: int, kind: str | None = None) -> list[WorldChange]:
        """Changes after *version*. Raises Denied(status=410) when some of them were compacted away."""
        return self._journal.since(version, kind)

    def compact(self, before_version: int) -> None:
        """Forget changes older than *before_version*."""
        self._journal.compact(before_version)

    @property
    def events(self) -> Sequence[WorldEvent]:
        """Kubernetes Events, oldest first."""
        return self._cluster.events

    def submit(self, job: Job) -> list[WorldPod]:
        """Create a job's pods now, whatever its *submit_at*."""
        return [self._pods.add(spec) for spec in self._jobs.pods_of(job, self._agenda.now)]

    def submit_later(self, jobs: Iterable[Job]) -> None:
        """Submit each job at its *submit_at* (now, when that has passed)."""
        for job in jobs:
            self._agenda.at(job.submit_at, self.submit, job)

    def cancel_job(self, job_id: str) -> None:
        """Delete a job's pods for good."""
        kind = self._jobs.kind_of(job_id)
        self._jobs.cancel(job_id)
        self._pods.delete_owned(kind, job_id)

    def add_pod(self, spec: PodSpec) -> WorldPod:
        """Create one pod. An existing name: 409 ``AlreadyExists``."""
        return self._pods.add(spec)

    def bind(self, namespace: str, name: str, node: str) -> None:
        """Put a waiting pod on *node* past the scheduler, whatever its cordon or taints. Unknown: 404, bound: 409."""
        self._pods.bind((namespace, name), node)

    def scale_to_zero(self, kind: str, namespace: str, name: str) -> None:
        """Scale a controller to zero replicas, or suspend a Job: its pods go and do not come back."""
        self._pods.scale_to_zero((kind, namespace, name))

    def at_zero(self, kind: str, namespace: str, name: str) -> bool:
        """True once a controller was scaled to zero, until a pod of it is created again."""
        return self._pods.at_zero((kind, namespace, name))

    def ungate(self, namespace: str, name: str) -> None:
        """Remove a pod's scheduling gate."""
        self._pods.ungate((namespace, name))

    def patch_pod(
        self,
        namespace: str,
        name: str,
        *,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
    ) -> WorldPod:
        """Change a pod's labels or annotations; a value of None removes the key. Unknown: 404."""
        return self._pods.patch((namespace, name), labels, annotations)

    def delete_pod(self, namespace: str, name: str) -> None:
        """Ask a pod to go (graceful); a controller's pod comes back. Unknown: 404."""
        self._pods.delete((namespace, name))

    def evict(self, namespace: str, name: str) -> None:
        """As delete_pod, but 429 when a PodDisruptionBudget forbids it."""
        self._pods.evict((namespace, name))

    def rehearse_eviction(self, namespace: str, name: str) -> None:
        """Change nothing, and answer as evict would now (``dryRun=All``)."""
        self._pods.evict((namespace, name), dry_run=True)

    def patch_node(
        self,
        name: str,
        *,
        unschedulable: bool | None = None,
        labels: Mapping[str, str | None] | None = None,
        annotations: Mapping[str, str | None] | None = None,
        taints: Sequence[Taint] | None = None,
    ) -> WorldNode:
        """Change a node; a value of None removes the key. Unknown: 404."""
        return self._nodes.patch(name, unschedulable, labels, annotations, taints)

    def delete_node(self, name: str) -> None:
        """Delete the node object: its VM stays, billed, and the pool's count with it."""
        instance = self._cluster.node(name).instance
        vm = next((v for v in self._cloud.lives if v.id == instance), None)
        self._nodes.delete_object(vm, name)

    def record_event(
        self,
        *,
        kind: str,
        namespace: str,
        name: str,
        reason: str,
        message: str,
        type_: str = "Normal",
        uid: str = "",
        component: str = "",
    ) -> WorldEvent:
        """Keep a Kubernetes Event."""
        return self._cluster.record(
            WorldEvent(
                kind=kind,
                namespace=namespace,
                name=name,
                uid=uid,
                reason=reason,
                message=message,
                type=type_,
                component=component,
                at=self._agenda.now,
                id=f"{name}.{self._dice.word(16)}",
            )
        )
