"""What the reconciler needs from the outside, in the domain's words, and the two ways it can fail."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from receiver.core.actions import Action, Decision, Outcome
from receiver.core.activity import Activity, Course
from receiver.core.memory import Memory, NodeLife
from receiver.core.model import Backoff, Drift, LateCount, Offer
from receiver.core.pods import Pod
from receiver.core.policy import Taint
from receiver.core.signals import Alert, Silence
from receiver.core.tell import Notice


class TryLater(Exception):
    """It did not work now and may work later. *delay* is how long to wait at least, when the other side said so.

    *code* is a short word for metrics and messages (``timeout``, ``http_503``, Civo's error ``code``).
    """

    def __init__(self, detail: str, *, code: str = "unavailable", delay: timedelta | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.delay = delay


class WontWork(Exception):
    """It will not work until a person or the world changes something; *code* as in TryLater."""

    def __init__(self, detail: str, *, code: str = "refused") -> None:
        super().__init__(detail)
        self.code = code


class Did(StrEnum):
    """What a write did."""

    DONE = "done"
    ALREADY = "already"  # the world was there already; nothing was sent
    DIFFERS = "differs"  # the world is not the one that was decided on; nothing was sent
    OBSERVED = "observed"  # observe mode: nothing was sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a write did, in one sentence; *required* is the count at the cloud afterwards, where it was read."""

    did: Did
    sentence: str
    required: int | None = None


# --- Civo -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance as Civo lists it; *status* is Civo's own word (BUILDING, ACTIVE, DELETING, ...)."""

    id: str
    hostname: str
    status: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPool:
    """A pool at Civo: the count it was asked for and what exists. A pool at zero exists only as a requirement."""

    id: str
    required: int
    size: str
    instances: tuple[Instance, ...] = ()


class Cloud(Protocol):
    """Where node pools live. Every call may raise TryLater or WontWork."""

    def look(self) -> Mapping[str, CloudPool]:
        """Return every pool of the cluster by id."""

    def resize(self, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        """Ask for *target* nodes, an absolute count above *decided_on*.

        Re-reads the required count first: at or above *target* nothing is sent (ALREADY); different from
        *decided_on* nothing is sent (DIFFERS). Asking twice is asking once. *shown* is the number that Civo is
        known to show while our last change does not show yet: re-reading that very number is no objection,
        unless *target* is below it. With more nodes alive than *target* nothing is sent (DIFFERS): whatever the
        count says, the lower one would take some of them away.
        """

    def retire(self, pool: str, instance: str) -> Receipt:
        """Delete one named instance; ALREADY when it is gone."""


# --- Kubernetes -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNode:
    """A Kubernetes node. *instance* is the id in ``spec.providerID`` (``civo://<id>``), empty if there is none."""

    name: str
    instance: str
    ready: bool
    unschedulable: bool
    allocatable: Mapping[str, int] = field(default_factory=dict)  # GPU resources only
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    hosts: tuple[str, ...] = ()  # monitoring and our own pods that run there


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Nodes, and the GPU pods that wait, start or run (terminated pods are left out)."""

    nodes: tuple[ClusterNode, ...]
    pods: tuple[Pod, ...]


CORDON_ANNOTATION = "gpu-autoscaler.io/cordoned-for"
PROTECT_ANNOTATION = "gpu-autoscaler.io/protect"
GANG_ANNOTATION = "gpu-autoscaler.io/gang"
GANG_SIZE_ANNOTATION = "gpu-autoscaler.io/gang-size"
IDLE_SHUTDOWN_ANNOTATION = "gpu-autoscaler.io/idle-shutdown"
KEEP_UNTIL_ANNOTATION = "gpu-autoscaler.io/keep-until"
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"


class Cluster(Protocol):
    """Kubernetes. Every call may raise TryLater or WontWork."""

    def look(self) -> ClusterFacts:
        """Return what exists now."""

    def gpu_pods_on(self, node: str) -> Sequence[Pod]:
        """Return the GPU pods bound to *node*, read with quorum (no cache)."""

    def cordon(self, node: str, action: str) -> Receipt:
        """Mark *node* unschedulable with our annotation naming *action*."""

    def uncordon(self, node: str) -> Receipt:
        """Undo a cordon of ours; a cordon of someone else is left alone (DIFFERS)."""

    def drain(self, node: str, *, consenting: bool = False) -> Receipt:
        """Evict what may go (no GPU pod, no DaemonSet or mirror pod). TryLater while a PodDisruptionBudget
        or a pod that is still leaving stands in the way. *consenting* evicts GPU pods too whose owner
        consented (``safe-to-evict: "true"``), and nothing at all while one GPU pod there did not."""

    def dress(self, node: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> Receipt:
        """Put *labels* and *taints* on *node*; others that it carries stay. ALREADY when it has them all."""

    def scale_to_zero(self, pod: Pod) -> Receipt:
        """Scale the owner of *pod* to zero replicas, or suspend it if it is a Job. ALREADY when it is there;
        WontWork for a pod without an owner that can be scaled."""

    def announce(self, pod: Pod, *, reason: str, message: str) -> Receipt:
        """Leave a Kubernetes Event on *pod*."""


# --- Prometheus and Alertmanager --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryFacts:
    """What the recording rules say. *utilization* and *coverage* are ratios by pool id; *waiting* are pods
    as kube-state-metrics knows them (with a pool hint); *rules_alive* is true when the heartbeat alert
    fires in Prometheus, which proves that our rules are evaluated. *nodes* is what DCGM shows now, by node name."""

    utilization: Mapping[str, float] = field(default_factory=dict)
    coverage: Mapping[str, float] = field(default_factory=dict)
    waiting: tuple[Pod, ...] = ()
    nodes: Mapping[str, Activity] = field(default_factory=dict)
    rules_alive: bool = False


class Telemetry(Protocol):
    """Prometheus, or anything that speaks its HTTP API. May raise TryLater or WontWork."""

    def look(self) -> TelemetryFacts:
        """Return the latest values."""

    def courses(self, window: timedelta) -> Mapping[str, Course]:
        """Return what the GPUs of each pod did over the last *window*, by ``namespace/name``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmFacts:
    """Our alerts that fire (union over the peers) and are not silenced (by any), and the active silences."""

    alerts: tuple[Alert, ...] = ()
    silences: tuple[Silence, ...] = ()


class Alarms(Protocol):
    """Alertmanager. May raise TryLater or WontWork."""

    def look(self) -> AlarmFacts:
        """Return what fires now."""


# --- the ledger -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One webhook payload, parsed. *body* is the payload as received, for the record."""

    receiver: str
    group_key: str
    alerts: tuple[Alert, ...]
    truncated: int = 0
    body: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDecision:
    """A decision with its row number."""

    id: int
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAction:
    """An action with what became of it (None while open)."""

    action: Action
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredNotice:
    """A notice in the outbox."""

    id: int
    notice: Notice
    attempts: int


class Store(Protocol):
    """The durable memory. Every write is one transaction; every call may raise TryLater (store down)."""

    def remember(self, delivery: Delivery, at: datetime) -> int:
        """Keep *delivery* durably and return its number; the commit is on disk when this returns."""

    def memory(self, now: datetime, month_start: datetime) -> Memory:
        """Return what a step at *now* needs: lives that are living or ended after *month_start*."""

    def remembered_alerts(self, since: datetime) -> tuple[Alert, ...]:
        """Return, per fingerprint, the newest alert of the deliveries received after *since*."""

    def considered(self, deliveries: Sequence[int], at: datetime) -> None:
        """Mark *deliveries* as considered by a finished step."""

    def saw(
        self,
        lives: Sequence[NodeLife],
        required: Mapping[str, int],
        at: datetime,
        *,
        works: Collection[str] = (),
        drifts: Mapping[str, Drift] | None = None,
        offers: Mapping[str, Offer] | None = None,
    ) -> None:
        """Insert or update node lives by instance id, and the last required count by pool (as Civo shows it).

        A stage of provisioning that a life has newly passed is counted in the histograms of its pool. *works* are
        pools of which a node became usable: their provisioning back-off ends. *drifts* are kept for a day. *offers*
        replace those kept, by pool; their time is written to the hour only."""

    def decided(self, decision: Decision) -> int:
        """Store *decision* if its target, present size or (rule, verdict) pairs differ from the pool's last one.

        Returns the number of the stored decision, or of the last one when nothing changed.
        """

    def opened(self, action: Action, provisioning: Backoff | None = None) -> bool:
        """Store *action* as open; False when the pool has an open action already or the id was used before.

        *provisioning* is stored with it, in the same transaction: the action removes nodes that never came up."""

    def progressed(self, action: Action) -> None:
        """Update an open action's victims, attempts, retry time and last error."""

    def closed(
        self,
        action: Action,
        outcome: Outcome,
        backoff: Backoff | None,
        notice: Notice | None = None,
        *,
        late: LateCount | None = None,
    ) -> None:
        """Close *action* and, in the same transaction, put *notice* into the outbox as `say` does.

        A confirmed or observed one resets the pool's back-off of its kind; a failed one sets it. *late* is kept
        as the pool's late count; a confirmed growth without one ends it."""

    def stop_removals(self, pool: str, backoff: Backoff, notice: Notice, at: datetime) -> None:
        """Back *pool* off from removal, forget its late count and put *notice* into the outbox, in one transaction."""

    def say(self, notice: Notice, at: datetime) -> bool:
        """Put *notice* into the outbox unless the last of its topic had the same key; True when it was put there.

        An all-clear whose topic has told nothing yet is dropped too.
        """

    def told(self, prefix: str) -> Mapping[str, tuple[str, datetime]]:
        """Return what was told last per topic that begins with *prefix*: its key, and when."""

    def notices_due(self, now: datetime, limit: int = 20) -> Sequence[StoredNotice]:
        """Return undelivered notices whose retry time has come, oldest first."""

    def notice_sent(self, notice: int, at: datetime) -> None:
        """Mark a notice as delivered."""

    def notice_failed(self, notice: int, at: datetime, retry_at: datetime | None, error: str) -> None:
        """Count a failed delivery; *retry_at* None gives the notice up."""

    def keep_snapshot(self, snapshot: Mapping[str, Any], at: datetime) -> None:
        """Replace the picture that pages, API and metrics show (JSON-able)."""

    def snapshot(self) -> tuple[Mapping[str, Any], datetime] | None:
        """Return the latest picture and its time, or None before the first step."""

    def decisions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredDecision]:
        """Return decisions, newest first."""

    def decision(self, number: int) -> StoredDecision | None:
        """Return one decision."""

    def actions(self, *, pool: str | None = None, limit: int = 50) -> Sequence[StoredAction]:
        """Return actions, newest first."""

    def counts(self) -> Mapping[str, Any]:
        """Return totals for /metrics: deliveries, alerts, decisions, actions by label values, outbox."""

    def check(self) -> None:
        """Raise TryLater unless a write would work now."""


class Clock(Protocol):
    """Where `now` comes from: called once per step."""

    def now(self) -> datetime:
        """Return the time, timezone-aware UTC."""
