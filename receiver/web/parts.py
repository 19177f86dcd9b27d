"""What the web side is made of: values and Protocols that bootstrap hands to `create_app`."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from flask import Blueprint, url_for
from prometheus_client import CollectorRegistry

from receiver.config.model import Configuration
from receiver.config.settings import FileSettings, Tokens
from receiver.core.model.model import Facts
from receiver.core.model.policy import Policy
from receiver.core.notices.grouping import Seal
from receiver.ports import Clock, LoopHealth, WebStore
from receiver.reports.picture import ConcernDocument
from receiver.step.parts import NOTHING, Additions
from receiver.web.auth.tokens import Attempts
from receiver.web.operation import Request

if TYPE_CHECKING:  # it imports this module
    from receiver.web.auth.access import Access


class WebInstruments(Protocol):
    """Where the webhook counts itself (`receiver.metrics.collector.Instruments`)."""

    def webhook_answered(self, code: int, seconds: float) -> None:
        """Count one answer with its HTTP status *code* and how long it took in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastStep:
    """The facts that the last step of this process decided from, and the *settings* and *mode* that it decided by, with
    the *additions* of capabilities."""

    facts: Facts
    settings: FileSettings
    mode: str
    additions: Additions = NOTHING


def _nothing(_routes: Blueprint, _parts: "WebParts") -> None:
    """Add no route."""


def _no_way(_concern: ConcernDocument, _parts: "WebParts") -> Iterable[tuple[str, str]]:
    """Nothing can be done about it."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLink:
    """A link with *words* to the page *endpoint*, on the page *on*; both are endpoints of Flask. *on* ``navigation`` is
    the head of every page, ``more`` its foot."""

    on: str
    endpoint: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAdditions:
    """What one capability adds to the web side.

    *add_routes* adds to the blueprint ``api``, below /api/v1, and *requests* describe these routes in the OpenAPI
    document. *add_pages* adds to the blueprint ``pages``, with templates in the folder *templates*; *links* lead to
    these pages, and *guides* names the documentation of each by its endpoint. *slow* are the endpoints whose POST takes
    the processor for about a second: browsers may send it from our own pages only.

    *sealed* makes blueprints by their names: each request to one carries a signature that lets it in, so it takes no
    token of readers. *ways* yields addresses and words of what an operator can do about a concern on a page.
    """

    add_routes: Callable[[Blueprint, "WebParts"], None] = _nothing
    requests: Sequence[Request] = ()
    add_pages: Callable[[Blueprint, "WebParts"], None] = _nothing
    templates: Path | None = None
    links: Sequence[PageLink] = ()
    guides: Mapping[str, str] = field(default_factory=dict)
    slow: Set[str] = frozenset()
    sealed: Mapping[str, Callable[["Access", "WebParts"], Blueprint]] = field(default_factory=dict)
    ways: Callable[[ConcernDocument, "WebParts"], Iterable[tuple[str, str]]] = _no_way


@dataclass(frozen=True, slots=True, kw_only=True)
class WebParts:
    """Everything `create_app` needs.

    *tokens* says which bearer tokens are valid now: without one for the webhook every delivery is refused, without the
    operator's every change. *messages_to* names the destinations of messages. *attempts* outlive a change of the
    configuration. *region* and *cluster_id* are Civo's. *wake* must return at once. *watch* is a
    `receiver.reports.state.WatchState`. *pools_pending* says why Civo has not completed the pools yet, and is empty
    once it has. *last_step* is None before the first one and where another replica steps. *other_settings* reads a
    configuration that is not in force; with True its text holds only changes of the one that is. It raises ConfigError.
    *added* is what capabilities add.
    """

    tokens: Callable[[], Tokens] = field(repr=False)
    store: WebStore
    wake: Callable[[], None]
    clock: Clock
    settings: FileSettings
    heartbeat: Callable[[], LoopHealth]
    registry: CollectorRegistry
    instruments: WebInstruments
    other_settings: Callable[[str, bool], FileSettings] = field(repr=False)
    region: str
    cluster_id: str
    version: str = ""
    messages_to: tuple[str, ...] = ()
    watch: Callable[[], str] = lambda: "off"
    pools_pending: Callable[[], str] = lambda: ""
    attempts: Attempts = field(default_factory=Attempts)
    last_step: Callable[[], LastStep | None] = field(default=lambda: None, repr=False)
    added: Sequence[WebAdditions] = ()

    def __post_init__(self) -> None:
        self.tokens()

    @property
    def configuration(self) -> Configuration:
        return self.settings.configuration

    @property
    def policy(self) -> Policy:
        return self.settings.policy

    @property
    def mode(self) -> str:
        """``act`` or ``observe``."""
        return self.configuration.mode.value

    def seal(self) -> Seal | None:
        """Return what signs links, None without an operator's token. Raises TryLater."""
        token = self.tokens().operator
        return Seal(token, self.store.sealing_key()) if token else None

    def pool_name(self, pool_id: str) -> str:
        """Return what people call *pool_id*, or the id itself when the policy no longer names it."""
        pool = self.policy.pool(pool_id)
        return pool.name if pool else pool_id

    def guide(self, path: str) -> str:
        """Return the address of the page *path* below ``docs/``: ours, unless the configuration names other ones.
        During a request only."""
        return f"{self.configuration.docs_url or url_for('guides.page')}/{path}"


# Nothing but our own files: no inline script or style, no frame, no other host; forms and requests go to ourselves.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    # Other sites learn nothing. With no-referrer browsers would send our own forms as of Origin: null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
NO_STORE = {"Cache-Control": "no-store"}  # every answer but those of files that never change
