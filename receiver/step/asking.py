"""Ask every source of a step once.

A source that fails becomes a SourceState that says so; what it would have told is unknown, never zero.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

import structlog

from receiver.core.model.configuration import ConfigurationFile
from receiver.core.model.memory import Memory
from receiver.core.model.model import (
    Source,
    SourceState,
)
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Policy
from receiver.core.model.signals import PAYLOAD_LIFE, silenced_pools
from receiver.core.money.budget import Month
from receiver.core.scaling.nominations import believed
from receiver.ports import (
    Accounts,
    Alarms,
    Cloud,
    CloudPool,
    Cluster,
    ClusterFacts,
    Sizes,
    StepStore,
    Telemetry,
    TryLater,
    WontWork,
)
from receiver.reports.observed import ObservedDocument
from receiver.step.devices import DeviceJoin
from receiver.step.hosts import beside_other_nodes
from receiver.step.node_objects import deleted_node_objects
from receiver.step.parts import Parts
from receiver.step.pool_states import Answers, templates

T = TypeVar("T")
log = structlog.get_logger("receiver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The sources of a step; None: not configured. *beat* is called before each is asked: a step that waits for one
    after the other is slow, not stuck. *file* tells what the last look at the configuration file found. *payload_life*
    is how long an alert counts after its last delivery where Alertmanager's API does not say what fires. *join* judges
    claims of devices. *waited* are the pods that waited when Kubernetes last answered, by namespace and name.
    *observed* is the last replay of what observe mode saw, for pages alone (None: not known in this process). With
    *readers* the store is a `RecordStore` as well; a replay has none, and its steps write nothing for them. A simulated
    clock *never_jumps*: it is trusted without a look at the step before."""

    cloud: Cloud
    cluster: Cluster | None
    telemetry: Telemetry | None
    alarms: Alarms | None
    store: StepStore
    readers: bool = True
    accounts: Accounts | None = None
    sizes: Sizes | None = None
    beat: Callable[[], None] = lambda: None
    file: Callable[[], ConfigurationFile] = ConfigurationFile
    payload_life: timedelta = PAYLOAD_LIFE
    join: DeviceJoin = field(default_factory=DeviceJoin)
    waited: dict[tuple[str, str], Pod] = field(default_factory=dict)
    observed: Callable[[], ObservedDocument | None] = lambda: None
    never_jumps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What every part of one look works with; *month* is the one of *now*."""

    sources: Sources
    policy: Policy
    memory: Memory
    month: Month
    now: datetime
    parts: Parts


class _Asking:
    """Asks one source after the other, and notes which of them answers."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self.states = {Source.STORE: SourceState(source=Source.STORE, up=True, at=look.now)}

    def __call__(self, source: Source, question: Callable[[], T] | None) -> T | None:
        """Return the answer of *source*; None where *question* is, or where it fails."""
        now = self._look.now
        self._look.sources.beat()
        if question is None:
            self.states[source] = SourceState(source=source, up=False, detail="not configured", configured=False)
            return None
        try:
            response = question()
        except (TryLater, WontWork) as error:
            self.states[source] = SourceState(source=source, up=False, at=now, detail=str(error))
            return None
        except Exception as error:  # an unexpected response must not stop every pool for good
            log.exception("an answer was not understood", source=source.value)
            detail = f"its answer was not understood ({type(error).__name__}); the log has where"
            self.states[source] = SourceState(source=source, up=False, at=now, detail=detail)
            return None
        self.states[source] = SourceState(source=source, up=True, at=now)
        return response

    def cluster(self) -> ClusterFacts | None:
        """Return what Kubernetes shows, with pods that ask for what they claim, and what their rules count."""
        look, kubernetes = self._look, self._look.sources.cluster
        cluster = self(Source.KUBERNETES, kubernetes.look if kubernetes else None)
        if cluster is None:
            return None
        self.states[Source.KUBERNETES] = replace(self.states[Source.KUBERNETES], detail=cluster.unread)
        with look.parts.part("claims"):  # without it pods that claim devices are no demand
            cluster = look.sources.join.join(cluster, templates(look.policy, look.memory))
        if any(pod.reserved for pod in cluster.pods):
            names = {node.name for node in cluster.nodes}
            cluster = replace(cluster, pods=tuple(believed(pod, names, look.now) for pod in cluster.pods))
        with look.parts.part("hosts"):
            return beside_other_nodes(cluster, look.policy)
        return cluster  # unmarked, where that failed

    def machines(self) -> Mapping[str, Mapping[str, int]]:
        """Return what the machine of each size has."""
        look = self._look
        if look.sources.sizes is not None:
            look.sources.beat()
            with look.parts.part("sizes"):
                return look.sources.sizes.machines()
        return {}

    def deleted(self, cloud: Mapping[str, CloudPool] | None, cluster: ClusterFacts | None) -> Collection[str]:
        """Return the instances whose Node object was deleted."""
        look = self._look
        if look.sources.cluster is not None and cloud is not None and cluster is not None:
            look.sources.beat()
            with look.parts.part("node_objects"):
                listed = {n.instance for n in cluster.nodes}
                return deleted_node_objects(look.sources.cluster, look.memory, cloud, listed, look.now)
        return ()


def ask_all(look: Look) -> Answers:
    """Ask every source once."""
    sources, answer = look.sources, _Asking(look)
    cloud = answer(Source.CIVO, sources.cloud.look)
    cluster = answer.cluster()
    telemetry = answer(Source.PROMETHEUS, sources.telemetry.look if sources.telemetry else None)
    alarms = answer(Source.ALERTMANAGER, sources.alarms.look if sources.alarms else None)
    machines, deleted_instances = answer.machines(), answer.deleted(cloud, cluster)
    pods: dict[str, list[Pod]] = {}
    for pod in cluster.pods if cluster else ():
        if pod.node:
            pods.setdefault(pod.node, []).append(pod)
    listed = {i.id for p in (cloud or {}).values() for i in p.instances}
    nodes = cluster.nodes if cluster else ()
    return Answers(
        at=look.now,
        cloud=cloud,
        cluster=cluster,
        telemetry=telemetry,
        alarms=alarms,
        states=answer.states,
        nodes={n.instance: n for n in nodes},
        pods=pods,
        deleted=deleted_instances,
        unjoined=[n for n in nodes if n.ready and n.instance not in listed] if cloud is not None else (),
        foreign=all(n.instance not in listed for n in nodes),
        silenced=silenced_pools(alarms.silences if alarms else (), look.policy),
        machines=machines,
        join=sources.join,
    )
