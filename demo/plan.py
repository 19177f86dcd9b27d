"""The plan of a stack: pools, durations and money, from which the configurations are written."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

API_KEY = "SECRET-civo-api-key"
REGION = "LON1"
CLUSTER_ID = "c1a55e5e-0000-4000-8000-000000000001"
WEBHOOK_TOKEN = "webhook-token-of-this-stack"  # noqa: S105 (made up, for loopback only)
OPERATOR_TOKEN = "operator-token-of-this-stack"  # noqa: S105 (made up, for loopback only)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """A pool, the same for the simulator and for the autoscaler.

    *price* is USD per node-hour as text, *count* the nodes there from the beginning. *autoscaled* False is a
    pool at Civo that the autoscaler does not know of, *gpus* 0 a pool of CPU nodes. *simulator* and *receiver* add
    to or replace keys of the pool's entry in either configuration.
    """

    name: str
    id: str
    size: str = "an.g1.l40s.kube.x1"
    gpus: int = 1
    price: str = "1.29"
    min_nodes: int = 0
    max_nodes: int = 4
    count: int = 0
    cooldown_grow: str = "3s"
    cooldown_shrink: str = "5s"
    idle_for: str = "10s"
    provision_timeout: str = "5m"
    autoscaled: bool = True
    simulator: Mapping[str, Any] = field(default_factory=dict)
    receiver: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan:
    """A stack before it is started. Durations are text as Prometheus writes them; None keeps what `rules/` says.

    *watch* lets the autoscaler watch pods; without it their alert and the tick make a pool grow.
    *scrape* and *evaluation* are Prometheus' intervals; *evaluation* also replaces the `interval` of every rule
    group, nothing else of the rules; *pending_for* gives the alert of waiting pods a `for`. *resend_delay* is how
    soon Prometheus repeats an alert to Alertmanager (a minute by default): whatever fires in its first five seconds
    is lost to an Alertmanager not discovered yet.
    *group_wait*, *group_interval* and *repeat_interval* are those of the
    route that brings scaling alerts to the autoscaler, the *heartbeat_* ones those of the sign of life.
    *simulator*, *receiver* and *prometheus* are merged over the configurations (mappings key by key, all else replaced;
    a None removes the key), *environment* over the autoscaler's environment (None removes a variable).
    *alertmanagers* is how many peers there are. Ports are taken from what is free unless *ports* names one for
    ``simulator``, ``prometheus``, ``receiver``, ``alertmanager-1``, ...
    """

    pools: tuple[PoolPlan, ...]
    mode: str = "act"
    tick: str = "60s"
    watch: bool = False
    granularity: str = "60s"
    removal_margin: str = "20s"
    budget: Mapping[str, Any] | None = None
    scrape: str = "1s"
    resend_delay: str | None = "5s"
    evaluation: str | None = "1s"
    pending_for: str | None = None
    group_wait: str | None = None
    group_interval: str | None = "5s"
    repeat_interval: str | None = None
    heartbeat_group_interval: str | None = None
    heartbeat_repeat_interval: str | None = None
    alertmanagers: int = 1
    simulator: Mapping[str, Any] = field(default_factory=dict)
    receiver: Mapping[str, Any] = field(default_factory=dict)
    prometheus: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str | None] = field(default_factory=dict)
    ports: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The addresses of a stack: its directory, and each part's port on the loopback address."""

    folder: Path
    ports: Mapping[str, int]

    def url(self, part: str) -> str:
        """Return where *part* answers, such as ``http://127.0.0.1:20017``."""
        return f"http://{self.address(part)}"

    def address(self, part: str) -> str:
        """Return *part*'s host and port."""
        return f"127.0.0.1:{self.ports[part]}"

    @property
    def alertmanagers(self) -> tuple[str, ...]:
        """The names of the Alertmanager peers."""
        return tuple(p for p in self.ports if p.startswith("alertmanager-"))

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig of the simulated cluster."""
        return self.folder / "kubeconfig"

    @property
    def database(self) -> Path:
        """The autoscaler's SQLite file."""
        return self.folder / "ledger.db"

    @property
    def token_file(self) -> Path:
        """The file with the webhook token that Alertmanager reads."""
        return self.folder / "webhook-token"

    def config(self, part: str) -> Path:
        """The configuration file of *part*."""
        return self.folder / f"{part}.yml"

    def log(self, part: str) -> Path:
        """The log of *part*: its standard output and error."""
        return self.folder / f"{part}.log"
