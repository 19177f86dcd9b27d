"""What the web side is made of: values and Protocols that bootstrap hands to `create_app`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from prometheus_client import CollectorRegistry

from receiver.config.model import Reading
from receiver.core.policy import Policy
from receiver.links import PageLinks
from receiver.ports import Clock, Store


class LoopHealth(Protocol):
    """How the loop is doing at this moment.

    *state* is ``starting``, ``leading``, ``waiting`` (for the leader lock) or ``stopped``. *beat_age* is the
    time since the last beat, or since the start when there was none; a loop that waits for the lock beats
    too. *fresh* is the age up to which a beat counts as alive (three ticks and the longest call timeout).
    *steps* and *errors* count since the process started.
    """

    @property
    def state(self) -> str: ...
    @property
    def beat_age(self) -> timedelta: ...
    @property
    def fresh(self) -> timedelta: ...
    @property
    def steps(self) -> int: ...
    @property
    def errors(self) -> int: ...


class WebInstruments(Protocol):
    """Where the webhook counts itself (`receiver.metrics.Instruments`)."""

    def webhook_answered(self, code: int, seconds: float) -> None:
        """Count one answer with its HTTP status *code* and how long it took in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebParts:
    """Everything `create_app` needs.

    *webhook_tokens* are the bearer tokens that POST /webhook takes; two of them during a rotation; none
    means that every delivery is refused. *operator_token* is the one that people send with what they change; None
    means that nobody may. They are kept out of repr. *max_body_bytes* bounds a delivery. *reading* TOKEN asks for
    *reader_token* or the operator's from who reads pages or API. *public_url* is where people reach the pages, None
    when nobody said, *docs_url* where they read docs/. *messages_to* names the destinations of messages, without
    their secrets.
    *wake* tells the loop to step now and must return at once. *mode* is ``act`` or ``observe``. *watch* says how the
    watch of pods stands (`receiver.watch_metrics.WatchState`).
    """

    webhook_tokens: tuple[str, ...] = field(repr=False)
    store: Store
    wake: Callable[[], None]
    clock: Clock
    policy: Policy
    mode: str
    heartbeat: Callable[[], LoopHealth]
    registry: CollectorRegistry
    instruments: WebInstruments
    max_body_bytes: int = 16 * 1024 * 1024
    version: str = ""
    operator_token: str | None = field(default=None, repr=False)
    reader_token: str | None = field(default=None, repr=False)
    reading: Reading = Reading.OPEN
    public_url: str | None = None
    docs_url: str | None = None
    messages_to: tuple[str, ...] = ()
    watch: Callable[[], str] = lambda: "off"

    def __post_init__(self) -> None:
        """Raise ValueError for an empty token, which every caller would know, and for a limit below one byte."""
        if any(not token.strip() for token in self.webhook_tokens):
            raise ValueError("a webhook token is empty: set GPU_AUTOSCALER_WEBHOOK_TOKEN to a long random word")
        if self.max_body_bytes < 1:
            raise ValueError("max_body_bytes must be at least 1")

    def pool_name(self, pool_id: str) -> str:
        """Return what people call *pool_id*, or the id itself when the policy no longer names it."""
        pool = self.policy.pool(pool_id)
        return pool.name if pool else pool_id

    def guide(self, path: str) -> str | None:
        """Return the address of the page *path* below ``docs/``, None where nobody said where that is read."""
        return PageLinks(docs_url=self.docs_url).guide(path)
