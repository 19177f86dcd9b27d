"""The outside in the domain's words: cloud, Prometheus, Alertmanager, clock and leader, and how a call can end."""

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


class WriterLostError(Exception):
    """We are no longer the one writer, or may cease to be before a call could end: nothing may be written outside."""


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


class Sizes(Protocol):
    """Where sizes of nodes are listed."""

    def machines(self) -> Mapping[str, Mapping[str, int]]:
        """Return CPU, memory and ephemeral storage of each size's machine (`receiver.core.model.resources`), by name.

        What is not known is left out. Never raises, and mostly answers from memory.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """What Civo charged: the records that could be read, and of every other what is wrong with it."""

    records: tuple[Charge, ...] = ()
    unreadable: tuple[str, ...] = ()


class Accounts(Protocol):
    """Where the account's charges are. The call may raise TryLater or WontWork."""

    def charges(self, frm: datetime, to: datetime) -> Charges:
        """Return what the whole account was charged for between *frm* and *to*, hours and no money."""


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

    def value(self, query: str, at: datetime) -> float | None:
        """Return the one value that *query* has as of *at*, None when it has none, or several."""

    def samples(self) -> Mapping[str, Sequence[Sample]]:
        """Return what each GPU of each pod did over the last two minutes, by ``namespace/name`` of the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmFacts:
    """Our alerts that fire (union over the peers) and are not silenced (by any), and the active silences."""

    alerts: tuple[Alert, ...] = ()
    silences: tuple[Silence, ...] = ()


class Alarms(Protocol):
    """Alertmanager. May raise TryLater or WontWork."""

    def look(self) -> AlarmFacts:
        """Return what fires now."""


class Clock(Protocol):
    """Where `now` comes from: called once per step."""

    def now(self) -> datetime:
        """Return the time, timezone-aware UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The process that leads, which is *mine* where it is this one. *term* counts the leaders of the store so far, None
    where nobody counts them."""

    name: str
    term: int | None = None
    mine: bool = False
