"""Kubernetes behind the port `Cluster`.

Promises never to evict a pod that holds a GPU unless its owner consented, or a window's grace is over and it yields,
and never to delete anything but by eviction, and a ResourceQuota of our own.
"""

import socket
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml
from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException
from urllib3.connection import HTTPConnection

from receiver.adapters.clock import SystemClock
from receiver.adapters.http.sessions import Calls, Remarks, last_word, quick_retry, user_agent
from receiver.adapters.kubernetes import api
from receiver.adapters.kubernetes.announced import MakeReader, Reading, ResourceReader
from receiver.adapters.kubernetes.api import ClusterWire, section, versioned
from receiver.adapters.kubernetes.budget_hold import HoldingMeans
from receiver.adapters.kubernetes.dra import Dra
from receiver.adapters.kubernetes.drain import Drain, Keepers
from receiver.adapters.kubernetes.gangs import Gangs
from receiver.adapters.kubernetes.installations import Installations, Own
from receiver.adapters.kubernetes.nodes import node_from
from receiver.adapters.kubernetes.owners import Owners
from receiver.adapters.kubernetes.pods import TERMINATED, Declaration, SeenPod
from receiver.adapters.kubernetes.queues import Queues
from receiver.adapters.kubernetes.reflector import WINDOW_SECONDS, Lists, Watching
from receiver.adapters.kubernetes.sightings import Sightings
from receiver.core.model.pods import KEPT_BY_DEFAULT, KeepRule, Pod, PodPhase, named
from receiver.core.model.policy import Pool
from receiver.core.model.room_requests import RoomAnswer
from receiver.core.model.text import harmless
from receiver.core.model.usage import EndedPod
from receiver.core.scaling.terminations import LEAST, comes_soon, is_overdue
from receiver.ports import Clock, ClusterFacts, Did, Receipt, TryLater, WontWork

LIVING = "status.phase!=Succeeded,status.phase!=Failed"
CONNECTIONS = 24  # one for each watch beside those of the step
COMPONENT = "gpu-autoscaler"
GOOD_NEWS = frozenset({"TriggeredScaleUp", "WaitsForNode", "MayWait"})  # Event reasons of type Normal
NAME_ROOM = 200  # an Event's name is the pod's and a random part, 253 characters at most
MESSAGE_ROOM = 1000  # the API allows 1024
MOST = 200  # characters of what an authorizer says


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Which objects of a cluster are read, and what is ours among them."""

    kueue_queued: bool = False  # whether queued Workloads of Kueue are demand
    volcano_podgroups: bool = False  # and PodGroups of Volcano
    keep_nodes_for: Collection[KeepRule] = KEPT_BY_DEFAULT  # pods without a GPU that keep their nodes
    readers: Sequence[MakeReader] = ()  # of the requests that capabilities serve
    installation: Own | None = None
    pools: Callable[[], Sequence[str]] = lambda: ()  # the names and ids of ours


def connect(
    kubeconfig: str | None = None,
    *,
    calls: Calls | None = None,
    options: ClusterOptions | None = None,
    clock: Clock | None = None,
) -> "KubernetesCluster":
    """Return the cluster of *kubeconfig* (a path, or several as in KUBECONFIG), or else the one we run in. Raises
    WontWork when neither gives credentials; no call is made yet."""
    return KubernetesCluster(credentials(kubeconfig), calls=calls, options=options, clock=clock)


def credentials(kubeconfig: str | None) -> client.Configuration:
    configuration = client.Configuration()
    try:
        if kubeconfig:
            load: Any = config.load_kube_config  # the client leaves it untyped
            load(config_file=kubeconfig, client_configuration=configuration, persist_config=False)
        else:
            config.load_incluster_config(client_configuration=configuration)
    except (ConfigException, OSError, ValueError, yaml.YAMLError, TypeError, AttributeError, LookupError) as error:
        where = f"KUBECONFIG {kubeconfig}" if kubeconfig else "the pod's service account"
        remedy = "set KUBECONFIG to a readable file, or run inside the cluster with a mounted token"
        raise WontWork(f"no Kubernetes credentials from {where}: {error}; {remedy}", code="no_credentials") from error
    configuration.socket_options = _noticing_dead_peers()
    return configuration


def _noticing_dead_peers() -> list[tuple[int, int, int]]:
    """Options of urllib3's connections (tcp(7)): a silent one is probed after 15 s, and dead after three probes of 5 s.
    macOS has another name for the first."""
    idle = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", None))
    timing = ((idle, 15), (getattr(socket, "TCP_KEEPINTVL", None), 5), (getattr(socket, "TCP_KEEPCNT", None), 3))
    probes = [(socket.IPPROTO_TCP, option, value) for option, value in timing if option is not None]
    return [*HTTPConnection.default_socket_options, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *probes]


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource (``pods/eviction``) of an API group, empty for the core's, as RBAC has it. *name* is that
    of the one object it is needed for, empty where it is needed for any."""

    verb: str
    group: str
    resource: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


# Without one of these no node goes, or none on which any pod is that no DaemonSet put there.
TO_REMOVE = (Right("get", "", "nodes"), Right("patch", "", "nodes"), Right("create", "", "pods/eviction"))


class KubernetesCluster(Drain, Owners, HoldingMeans):
    """The nodes and GPU pods of the cluster that *configuration* names.

    It takes the configuration and not a client of the caller's, because the retries that urllib3 makes by
    itself must be ours: the stock client repeats reads that timed out and sleeps as long as a server asks.
    """

    def __init__(
        self,
        configuration: client.Configuration,
        *,
        calls: Calls | None = None,
        options: ClusterOptions | None = None,
        clock: Clock | None = None,
        timeouts: tuple[float, float] = (5, 30),
        **chosen: Any,
    ) -> None:
        """Instead of *calls* only their *timeouts* may be given, and instead of *options* those *chosen* by name."""
        calls, options = calls or Calls(timeouts=timeouts), options or ClusterOptions(**chosen)
        configuration.retries = quick_retry()
        configuration.connection_pool_maxsize = CONNECTIONS
        self._client = client.ApiClient(configuration)
        self._client.user_agent = user_agent()
        self._clock = clock or SystemClock()
        if calls.last_word is not None:
            last_word(self._client.rest_client.pool_manager, calls.last_word)
        self._wire = ClusterWire(self._client, calls, self._clock)
        self._remarks = Remarks(self._clock)
        self._lists = Lists(self._wire, self._clock, self._remarks)
        self._dra = Dra(self._lists, self._clock)
        self._sightings = Sightings()
        self._keepers = Keepers(self._lists, options.keep_nodes_for)
        self._own = options.installation.key if options.installation is not None else ""
        self._gangs = Gangs(self._lists, self._dra.read)
        reading = Reading(lists=self._lists, clock=self._clock, pod=self._dra.read, pools=options.pools)
        requests = [make(reading) for make in options.readers]
        self._request_readers = {reader.kind: reader for reader in requests}
        self._queues = Queues(reading, kueue=options.kueue_queued, volcano=options.volcano_podgroups)
        self._installations = Installations(self._wire, self._clock, self._remarks, options.installation)
        self._readers: tuple[ResourceReader, ...] = (*requests, self._queues, self._installations)

    def __repr__(self) -> str:
        return f"KubernetesCluster({self._wire.url!r})"

    def close(self) -> None:
        self.stop(0)
        self._client.rest_client.close()
        self._client.close()

    def watch(self, watching: Watching, window: int = WINDOW_SECONDS) -> None:
        """Keep what `look` and `held_places` read current by watches of *window* seconds at most; the first read starts
        them. Pods that need a node wake the loop. What a removal rests on is still read from the API server."""
        self._lists.watch(watching, window)

    def cache_ages(self) -> Mapping[str, float]:
        """Return by resource how many seconds ago the API server last confirmed what the watches keep."""
        return self._lists.ages()

    def stop(self, timeout: float = 5.0) -> None:
        """End the watches; wait for their threads, at most *timeout* seconds."""
        self._lists.stop(timeout)

    def look(self) -> ClusterFacts:
        """Return the nodes, then the living GPU pods, then what queues hold back: a pod bound in between is seen, and
        one that a queue lets through is missed, not counted twice. What is removed is read again first."""
        nodes = self._lists.every("nodes", api.NODES, view=node_from)
        served = self._dra.served()
        pods: list[SeenPod] = self._lists.every(
            "pods", api.PODS, options={"field_selector": LIVING}, view=SeenPod, wanted=_needs_a_node_now
        )
        claims = self._dra.claims(served, pods)
        taken = claims.taken() if claims is not None else None
        nodes_by_name = {n.name: served.on(n, taken) for n in nodes}
        gpu_nodes = {name for name, node in nodes_by_name.items() if node.allocatable or node.dra}
        silent, now = {name for name, node in nodes_by_name.items() if not node.ready}, self._clock.now()
        hosts, keepers = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
        others, daemons = defaultdict[str, Counter[str]](Counter), defaultdict[str, Counter[str]](Counter)
        self._keepers.begin()
        stand_ins = _reservations(pods)
        for claim, node in claims.without_pod() if claims is not None else ():
            keepers[node].append(f"claim {claim} has devices there for a pod that is about to start")
        for pod in pods:
            for doubt in pod.doubts:
                self._remarks.warn("annotation not understood", doubt)
            if pod.hosts_us and not (pod.node in silent and is_overdue(pod.leaves_at, now)):
                hosts[pod.node].append(pod.key)
            if pod.node not in gpu_nodes:
                continue
            if not (pod.hosts_us or pod.daemon or pod.gpus) and (reason := self._keepers.why(pod)):
                keepers[pod.node].append(f"{pod.key} {reason}")
            soon = pod.leaves_at is not None and not pod.daemon and comes_soon(pod.leaves_at, LEAST, now)
            if (not pod.gpus and not pod.terminated and not soon) or pod.uid in stand_ins:
                others[pod.node].update(pod.compute)
            if pod.daemon and not pod.terminated:
                daemons[pod.node].update(pod.compute)
        loaded = (
            replace(
                node,
                hosts=tuple(sorted(hosts[name])),
                kept_by=named(keepers[name]),
                others=dict(others[name]),
                daemons=dict(daemons[name]),
            )
            for name, node in nodes_by_name.items()
        )
        demand = self._demand([pod for pod in pods if pod.uid not in stand_ins])
        counted = {pod.key for pod in demand}
        demand += tuple(pod.bystander for pod in pods if pod.bystander is not None and pod.key not in counted)
        dra_resources = served.classes.serving if served.classes is not None else None
        facts = ClusterFacts(nodes=tuple(loaded), pods=demand, dra_resources=dra_resources)
        for reader in self._readers:
            facts = reader.add_to(facts, pods)
        return replace(facts, pods=self._sightings.note(facts.pods, pods, self._clock.now()))

    def answer_request(self, answer: RoomAnswer) -> Receipt:
        reader = self._request_readers.get(answer.kind)
        if reader is None:
            return Receipt(did=Did.DIFFERS, sentence=f"requests of the kind {answer.kind} are not read")
        return reader.answer(answer)

    def keep_active(self, kind: str) -> Receipt:
        reader = self._request_readers.get(kind)
        if reader is None:
            return Receipt(did=Did.ALREADY, sentence=f"requests of the kind {kind} are not read")
        return reader.keep_active()

    def make_known(self, pools: Sequence[Pool]) -> Receipt:
        return self._installations.make_known(pools)

    def _demand(self, living_pods: Sequence[SeenPod]) -> tuple[Pod, ...]:
        """Return the GPU pods among *living_pods*, and those that claim devices, with what their gangs need, and those
        that queues announce."""
        pods, roll = self._gangs.of(living_pods, self._clock.now())
        waiting = {p.gang for p in pods if p.gang and p.uid and p.phase is PodPhase.WAITING}
        groups = self._queues.groups({gang.by for gang in roll.gangs.values()})
        unfinished = {gang.partition("/")[0] for gang in roll.short_of_size() & waiting}
        succeeded_pods = self._pods_of(unfinished, "status.phase=Succeeded")  # no node is needed for them again
        least = roll.minimums(groups, roll.succeeded(succeeded_pods))
        pods = [replace(p, gang_min=least.get(p.gang)) if p.gang else p for p in pods]
        untried = frozenset(s.key for s in living_pods if s.untried)
        held_back = [p for p in pods if p.key in untried]
        queued = self._queues.waiting(living_pods, groups.get(Declaration.VOLCANO, ()), held_back)
        announced = {p.key for p in queued}
        return (*self._queues.patient([p for p in pods if p.key not in announced], groups), *queued)

    def ended(self, namespaces: Collection[str]) -> Sequence[EndedPod]:
        """Return the GPU pods of *namespaces* that have terminated; one list for each namespace."""
        return [pod.ended for pod in self._pods_of(namespaces, TERMINATED) if pod.ended is not None]

    def _pods_of(self, namespaces: Collection[str], selector: str) -> list[SeenPod]:
        pods: list[SeenPod] = []
        for namespace in sorted(namespaces):
            pods += map(SeenPod, self._wire.every("pods", api.PODS_OF, namespace, field_selector=selector))
        return pods

    def may(self, right: Right) -> bool:
        """True when the API server says that we have *right* in every namespace. Raises TryLater and WontWork. An
        authorizer that failed is no refusal: the server then answers "not allowed" and names the failure."""
        resource, _, below = right.resource.partition("/")
        attributes = {"verb": right.verb, "group": right.group, "resource": resource}
        attributes |= {"name": right.name} if right.name else {}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**attributes, **({"subresource": below} if below else {})}},
        }
        status = section(self._wire.ask("create", api.REVIEW, api.REVIEWS, body), "status")
        allowed, failed = status.get("allowed"), status.get("evaluationError")
        if not isinstance(allowed, bool):
            raise TryLater(f"Kubernetes did not answer whether the autoscaler may {right}", code="malformed")
        if failed and not allowed and status.get("denied") is not True:
            reason = harmless(str(failed))[:MOST]
            raise TryLater(f"Kubernetes could not work out whether we may {right}: {reason}", code="evaluation")
        return allowed

    def missing_rights(self) -> Sequence[str]:
        """Return the rights that a removal needs and that the API server says we do not have. Raises as `may` does."""
        return tuple(str(right) for right in TO_REMOVE if not self.may(right))

    def admit(self, pod: Pod) -> Receipt:
        """See `Cluster.admit`. A pod that is gone, or that others gated meanwhile: DIFFERS."""
        raw = self._wire.find("pods", api.POD, pod.namespace, pod.name)
        seen_pod = SeenPod(raw) if raw is not None else None
        if raw is None or seen_pod is None or seen_pod.uid != pod.uid or seen_pod.leaving:
            return Receipt(did=Did.DIFFERS, sentence=f"pod {pod.key} is gone or going")
        if seen_pod.phase is not PodPhase.DEFERRED:
            return Receipt(did=Did.ALREADY, sentence=f"pod {pod.key} is not behind our scheduling gate alone")
        body = {"metadata": versioned(raw), "spec": {"schedulingGates": None}}
        self._wire.ask("patch", "pods", api.POD, pod.namespace, pod.name, body)
        return Receipt(did=Did.DONE, sentence=f"removed the scheduling gate of pod {pod.key}")

    def record_event(self, pod: Pod, *, reason: str, message: str) -> Receipt:
        now = f"{self._clock.now():%Y-%m-%dT%H:%M:%SZ}"
        name = f"{pod.name[:NAME_ROOM].rstrip('.-')}.{uuid.uuid4().hex}"
        involved = {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": pod.namespace},
            "involvedObject": involved,
            "reason": reason,
            "message": message[:MESSAGE_ROOM],
            "type": "Normal" if reason in GOOD_NEWS else "Warning",
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._wire.ask("create", "events", api.EVENTS_OF, pod.namespace, body)
        return Receipt(did=Did.DONE, sentence=f"left the Event {reason} on pod {pod.key}")


def _needs_a_node_now(before: SeenPod | None, after: SeenPod) -> bool:
    return after.needs_node and not (before is not None and before.uid == after.uid and before.needs_node)


def _reservations(pods: Sequence[SeenPod]) -> frozenset[str]:
    """The uids of KAI's reservation pods whose GPUs living pods share: those hold the GPUs, which count once."""
    placed = [pod for pod in pods if pod.devices and not pod.terminated]
    shared = {(pod.node, device) for pod in placed if not pod.reserves and pod.gpus for device in pod.devices}
    return frozenset(pod.uid for pod in placed if pod.reserves and (pod.node, pod.devices[0]) in shared)
