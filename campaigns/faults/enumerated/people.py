"""What comes to the product from outside: Alertmanager's deliveries, people's requests, probes, and where messages go.

Each request is sent again until it is answered, as Alertmanager and people do. What people said is then read from the
store, because a request without an answer may have been kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from werkzeug.test import TestResponse

from campaigns.faults.spoken import Word, Words
from receiver.adapters.store import SqlStore
from receiver.core.model.policy import Policy
from receiver.core.model.signals import COMPONENT
from receiver.core.notices.grouping import Message
from receiver.core.notices.routing import EVERYTHING, Format, Route
from tests.web.builders import OPERATOR, TOKEN, Bench

What = Mapping[str, Any]


class Now:
    """Another object that is *there* now: the web's store and clock outlive a process here."""

    there: Any

    def __getattr__(self, name: str) -> Any:
        """Return its attribute."""
        return getattr(self.there, name)


class Web:
    """The web application of *policy*; its *store* and *clock* are set by the process that serves."""

    def __init__(self, policy: Policy) -> None:
        self.store, self.clock = Now(), Now()
        bench = Bench(store=self.store, clock=self.clock, policy=policy, wake=lambda: None)  # type: ignore[arg-type]
        self._client = bench.client()

    def ask(self, what: What) -> TestResponse:
        """Send the request of an event and return its answer."""
        method, path, body = what["method"], what["path"], what.get("body")
        token = TOKEN if path == "/webhook" else OPERATOR
        headers = {"Authorization": f"Bearer {token}"}
        return self._client.open(path, method=method, headers=headers, json=body)


def alert(name: str, action: str, pool: str = "", *, at: datetime) -> What:
    """A delivery of one firing alert."""
    labels = {"alertname": name, "component": COMPONENT, "action": action, **({"pool": pool} if pool else {})}
    firing = {"status": "firing", "labels": labels, "startsAt": f"{at:%Y-%m-%dT%H:%M:%SZ}", "fingerprint": name}
    body = {"version": "4", "groupKey": name, "receiver": "faults", "status": "firing", "alerts": [firing]}
    return {"method": "POST", "path": "/webhook", "body": body}


def hear(store: SqlStore, words: Words) -> None:
    """Take over into *words* what people have said, as *store* has kept it."""
    known = {word.id: word for word in words.said}
    for stored in reversed(store.overrides(limit=100)):
        said = stored.override
        if said.id not in known:
            known[said.id] = Word(said.id, said.kind.value, said.pool, said.nodes, said.at, said.until)
            words.said.append(known[said.id])
        if stored.ended_at is not None and stored.ended_by is not None:
            known[said.id].until = min(known[said.id].until, stored.ended_at)


@dataclass
class Mailbox:
    """A destination of messages; the first *refuses* of them are not taken."""

    name: str
    refuses: int = 0
    route: Route = EVERYTHING
    format: Format = Format.TEXT
    received: list[str] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """Who it is, in the store."""
        return self.name

    def send(self, message: Message) -> str:
        """Take *message*, or return why not."""
        if self.refuses:
            self.refuses -= 1
            return f"{self.name}: it answered 503"
        self.received.append(f"{message.title}: {message.body}")
        return ""
