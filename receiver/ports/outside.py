"""Ports to the cloud, Prometheus and Alertmanager, the clock and the leader, and the results of calls to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from receiver.core.model.activity import Activity, Course, Sample
from receiver.core.model.charges import Charge
from receiver.core.model.pods import Pod
from receiver.core.model.signals import Alert, Silence


class Did(StrEnum):
    """The effect of a write."""

    DONE = "done"
    ALREADY = "already"  # the target state was reached already; nothing was sent
    DIFFERS = "differs"  # the state is not the one that was decided on; nothing was sent
    OBSERVED = "observed"  # observe mode: nothing was sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The effect of a write, in one sentence; *required* is the cloud's count afterwards, where it was read."""

    did: Did
    sentence: str
    required: int | None = None


class TryLater(Exception):
    """A failure that may pass. *delay* is the least time to wait, if the other side named one.

    *code* is a short word for metrics and messages (``timeout``, ``http_503``, Civo's error ``code``).
    """

    def __init__(self, detail: str, *, code: str = "unavailable", delay: timedelta | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.delay = delay


class WontWork(Exception):
    """A failure that lasts until something is changed; *code* as in TryLater."""

    def __init__(self, detail: str, *, code: str = "refused") -> None:
        super().__init__(detail)
        self.code = code


class WriterLostError(Exception):
    """This process is no longer the writer, or may cease to be before a call ends: it must not write outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instance as Civo lists it; *status* is Civo's term (BUILDING, ACTIVE, DELETING, ...)."""

    id: str
    hostname: str
    status: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudPool:
    """A pool at Civo: the *required* count and the instances that exist."""

    id: str
    required: int
    size: str
    instances: tuple[Instance, ...] = ()


class Cloud(Protocol):
    """The API of node pools. Every call may raise TryLater or WontWork."""

    def look(self) -> Mapping[str, CloudPool]:
        """Return every pool of the cluster by id."""

    def resize(self, pool: str, *, decided_on: int, target: int, shown: int | None = None) -> Receipt:
        """Request *target* nodes, an absolute count above *decided_on*. Idempotent.

        Re-reads the required count first. Nothing is sent if it is at or above *target* (ALREADY), differs from
        *decided_on* (DIFFERS), or more nodes than *target* are alive (DIFFERS: the request would remove some). *shown*
        is the count that Civo is known to show until our last change takes effect: re-reading it is accepted unless
        *target* is below it.
        """

    def retire(self, pool: str, instance: str) -> Receipt:
        """Delete one named instance; ALREADY when it is gone."""


class Sizes(Protocol):
    """The list of node sizes."""

    def machines(self) -> Mapping[str, Mapping[str, int]]:
        """Return CPU, memory and ephemeral storage of each size's machine (`receiver.core.model.resources`), by name.

        Unknown sizes are left out. Never raises, and usually answers from a cache.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """Civo's charges: the readable records, and a description of each unreadable one."""

    records: tuple[Charge, ...] = ()
    unreadable: tuple[str, ...] = ()


class Accounts(Protocol):
    """The API of the account's charges. The call may raise TryLater or WontWork."""

    def charges(self, frm: datetime, to: datetime) -> Charges:
        """Return the charges of the whole account between *frm* and *to*: hours, without amounts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryFacts:
    """The values of the recording rules. *utilization* and *coverage* are ratios by pool id; *waiting* are pods
    as kube-state-metrics reports them (with a pool hint); *rules_alive* is true when the heartbeat alert
    fires in Prometheus, which proves that our rules are evaluated. *nodes* is DCGM's activity by node name."""

    utilization: Mapping[str, float] = field(default_factory=dict)
    coverage: Mapping[str, float] = field(default_factory=dict)
    waiting: tuple[Pod, ...] = ()
    nodes: Mapping[str, Activity] = field(default_factory=dict)
    rules_alive: bool = False


class Telemetry(Protocol):
    """Prometheus, or another server with its HTTP API. May raise TryLater or WontWork."""

    def look(self) -> TelemetryFacts:
        """Return the latest values."""

    def courses(self, window: timedelta) -> Mapping[str, Course]:
        """Return the activity of each pod's GPUs over the last *window*, by ``namespace/name``."""

    def value(self, query: str, at: datetime) -> float | None:
        """Return the value of *query* at *at*, None unless it has exactly one."""

    def samples(self) -> Mapping[str, Sequence[Sample]]:
        """Return the activity of each GPU of each pod over the last two minutes, by ``namespace/name`` of the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmFacts:
    """Our firing alerts (of all peers) that no peer silences, and the active silences."""

    alerts: tuple[Alert, ...] = ()
    silences: tuple[Silence, ...] = ()


class Alarms(Protocol):
    """Alertmanager. May raise TryLater or WontWork."""

    def look(self) -> AlarmFacts:
        """Return the firing alerts and the silences."""


class Clock(Protocol):
    """The source of `now`, read once per step."""

    def now(self) -> datetime:
        """Return the time, timezone-aware UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The leading process, *mine* if it is this one. *term* counts the store's leaders so far (None: not counted)."""

    name: str
    term: int | None = None
    mine: bool = False
