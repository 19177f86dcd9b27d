"""Pools on the real step, store and web app, with a destination that keeps what reaches people."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from flask.testing import FlaskClient
from prometheus_client import CollectorRegistry
from pytest_httpserver import HTTPServer

from receiver.adapters.messages import Outbox
from receiver.config.settings import Tokens, load_text
from receiver.core.model.policy import Billing, Pool
from receiver.core.notices.grouping import PageLinks
from receiver.metrics.collector import Instruments
from receiver.ports import StoredNotice
from receiver.replay.world.objects import Timings, WorldPool
from receiver.web.app import create_app
from receiver.web.parts import WebParts
from simulator.store import MemoryStore
from tests.given.life import GPU, PRICE, SIZE, Life, a_job, a_policy, a_world
from tests.payloads import a_payload, an_alert, stamp
from tests.settings import settings_of
from tests.web.fakes import FakeHealth

LABEL = "team.example/pool"
TOKEN = "SECRET-webhook-token-of-the-flood"
SECOND = timedelta(seconds=1)
EVERY = timedelta(minutes=5)
MORE = re.compile(r"And (\d+) more like it since")
AT_ONCE = Timings(
    build=SECOND,
    boot=SECOND,
    driver=SECOND,
    image_pull=SECOND,
    warmup=timedelta(0),
    delete=SECOND,
    node_lingers=SECOND,
    schedule=SECOND / 10,
)


def a_restless_pool(name: str) -> Pool:
    """A pool that may change at any moment: nothing it does waits for a cooldown or a paid hour."""
    return Pool(
        id=f"{name}-id",
        name=name,
        size=SIZE,
        resources={GPU: 1},
        labels={LABEL: name},
        max_nodes=8,
        price_usd_per_hour=PRICE,
        grow_cooldown=timedelta(0),
        shrink_cooldown=timedelta(0),
        idle_for=2 * SECOND,
    )


@dataclass
class Flood:
    """A life over *pools*, its web app and its outbox."""

    store: MemoryStore
    server: HTTPServer
    pools: Sequence[str]
    life: Life = field(init=False)
    client: FlaskClient = field(init=False)
    outbox: Outbox = field(init=False)
    posted: int = 0
    jobs: int = 0

    def __post_init__(self) -> None:
        """Open everything on one world, whose clock all of it reads."""
        pools = tuple(WorldPool(id=f"{n}-id", size=SIZE, resources={GPU: 1}, labels={LABEL: n}) for n in self.pools)
        billing = Billing(granularity=SECOND, removal_margin=timedelta(0))
        policy = a_policy(*(a_restless_pool(name) for name in self.pools), billing=billing)
        self.life = Life(world=a_world(*pools, timings=AT_ONCE), policy=policy, store=self.store)
        self.server.expect_request("/chat", method="POST").respond_with_data("ok")
        chat = self.server.url_for("/chat").replace("http://", "json://")
        self.outbox = Outbox(self.store, [chat], self, links=PageLinks(), every=EVERY)
        health = FakeHealth()
        parts = WebParts(
            tokens=lambda: Tokens(webhook=(TOKEN,)),
            store=self.store,
            wake=lambda: None,
            clock=self,
            settings=settings_of(policy),
            heartbeat=lambda: health,
            registry=CollectorRegistry(),
            instruments=Instruments(),
            other_settings=lambda text, _: load_text(text),
            region="LON1",
            cluster_id="a-cluster",
        )
        self.client = create_app(parts).test_client()

    def now(self) -> datetime:
        """The world's time."""
        return self.life.now

    def post(self, *alerts: dict[str, Any]) -> None:
        """Deliver *alerts* as Alertmanager does; they must be taken."""
        answer = self.client.post("/webhook", headers={"Authorization": f"Bearer {TOKEN}"}, json=a_payload(*alerts))
        assert answer.status_code == 202, answer.text
        assert (answer.json or {})["alerts"] == len(alerts)
        self.posted += len(alerts)

    def an_alert(self, number: int) -> dict[str, Any]:
        """One of many: of every pool, of every kind, firing and over."""
        action = ("scale_up", "scale_down", "hold", "notify")[number // len(self.pools) % 4]
        labels = {
            "pool": self.pools[number % len(self.pools)],
            "action": action,
            "alertname": f"Flood{action}",
            "n": str(number),
        }
        status = "resolved" if number % 3 == 0 else "firing"
        return {**an_alert(status, stamp(self.now()), **labels), "fingerprint": f"{number:016x}"}

    def submit(self, pool: str, seconds: int) -> None:
        """Hand in a job of one GPU that fits *pool* alone."""
        self.jobs += 1
        given = {"duration": seconds * SECOND, "submit_at": self.now(), "node_selector": {LABEL: pool}}
        self.life.world.submit(a_job(f"j{self.jobs}", **given))

    def told(self) -> list[dict[str, Any]]:
        """What the destination got, oldest first."""
        return [json.loads(request.get_data()) for request, _ in self.server.log]

    def said(self) -> Sequence[StoredNotice]:
        """Every notice that was put into the outbox, newest first."""
        return self.store.messages(self.now() - timedelta(days=1), self.now(), limit=100_000)

    def lines(self) -> list[int]:
        """How many more notices each message stands for besides its own."""
        return [int(found[1]) for message in self.told() if (found := MORE.search(message["message"]))]

    def deliver(self, until: datetime) -> None:
        """Let the world go on and the courier come by."""
        while self.now() < until:
            self.life.world.advance(min(until, self.now() + 20 * SECOND))
            self.outbox.deliver_due(self.now())
