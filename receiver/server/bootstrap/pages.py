"""The web side over what was opened."""

from flask import Flask
from prometheus_client import CollectorRegistry

from receiver.adapters.leader.lease import Lease
from receiver.config.environment import installed_version
from receiver.metrics.collector import StoreCollector
from receiver.ports import Clock
from receiver.runtime.loop import Loop
from receiver.server.bootstrap.outside import Outside
from receiver.web import WebParts, create_app


def web_of(outside: Outside, loop: Loop, clock: Clock, messages_to: tuple[str, ...]) -> Flask:
    """Return webhook, pages, API and metrics; *messages_to* names the destinations of messages."""
    said, policy = outside.settings.configuration, outside.settings.policy
    instruments = outside.instruments
    registry = CollectorRegistry()
    registry.register(instruments)
    registry.register(StoreCollector(outside.store, policy, clock, mode=outside.mode, destinations=messages_to))

    def wake() -> None:
        loop.wake()
        if isinstance(outside.writer, Lease):
            outside.writer.nudge_leader()

    return create_app(
        WebParts(
            tokens=outside.secrets.tokens,
            store=outside.store,
            wake=wake,
            clock=clock,
            policy=policy,
            mode=outside.mode,
            heartbeat=loop.health,
            registry=registry,
            instruments=instruments,
            max_body_bytes=said.webhook.max_bytes,
            version=installed_version(),
            reading=said.web.reading,
            public_url=said.public_url,
            hosts=said.web.hosts,
            docs_url=said.docs_url,
            messages_to=messages_to,
            watch=lambda: instruments.watch.state,
        )
    )
