"""Builds the loop with its steps, the watches, the outbox and the web application."""

from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from flask import Flask
from prometheus_client import CollectorRegistry

from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.adapters.kubernetes.reflector import Watching
from receiver.adapters.leader import Lease
from receiver.adapters.messages.delivery import Outbox
from receiver.adapters.messages.destinations import check_every_destination
from receiver.config.environment import installed_version
from receiver.config.model import Mode
from receiver.core.model.memory import is_trusted, steady_since
from receiver.core.notices.grouping import PageLinks, Seal
from receiver.metrics.collector import StoreCollector
from receiver.ports import Clock, TryLater
from receiver.reports.monthly import MonthEnd
from receiver.runtime.loop import LONGEST_CALL, Loop
from receiver.runtime.store_opener import Opening, WarmUp
from receiver.runtime.wakeups import WakeupBurst
from receiver.server.bootstrap.outside import Outside
from receiver.step.reconcile import Stepped, step
from receiver.web import WebParts, create_app

PRUNE_EVERY = timedelta(hours=1)

log = structlog.get_logger("receiver")


class Stepping:
    """The steps over *outside*; *begun* is the start of the process."""

    def __init__(self, outside: Outside, begun: datetime) -> None:
        said, store = outside.settings, outside.loops_store
        self._outside = outside
        self._warm_up = WarmUp(store, said.configuration.warm_up)
        watched = outside.sources.cluster is not None
        self._month_end = MonthEnd(store, outside.sources.telemetry, said.policy, watched=watched)
        self._pruned_at = begun
        self._believed: datetime | None = None

    def __call__(self, now: datetime) -> Stepped:
        """Take the step of *now*. Raises what `receiver.step.reconcile.step` raises."""
        self._outside.file.look()
        stepped = self._step(now)
        self._believed = steady_since(self._believed, now, steady=stepped.steady)
        if stepped.steady:  # a clock jump must not prune rows or send a monthly report
            self._prune(now)
            self._month_end.look(now, sure=is_trusted(self._believed, now))
        return stepped

    def _step(self, now: datetime) -> Stepped:
        outside, policy = self._outside, self._outside.settings.policy
        warm_at = self._warm_up.ends_at(now)
        if warm_at is None:
            return step(outside.sources, outside.hands, policy, outside.mode, now)
        stepped = step(outside.sources, outside.only_looks, policy, Mode.OBSERVE.value, now)
        return replace(stepped, reconsider_at=min(warm_at, stepped.reconsider_at or warm_at))

    def _prune(self, now: datetime) -> None:
        if abs(now - self._pruned_at) <= PRUNE_EVERY:
            return
        self._pruned_at = now
        try:
            self._outside.loops_store.prune(now)
        except TryLater as error:  # pruning can wait, scaling cannot
            log.warning("old rows not deleted", error=str(error))


SPARE = timedelta(seconds=10)  # for the other calls of a source beside its slowest one


def loop_of(outside: Outside, opening: Opening, clock: Clock) -> Loop:
    """Return the loop, which steps once the store is open, and connect it with the instruments."""
    said, instruments = outside.settings.configuration, outside.instruments
    stepping = Stepping(outside, clock.now())
    loop = Loop(
        stepping,
        outside.writer,
        clock,
        said.tick,
        instruments,
        may_begin=opening.is_open,
        beat=outside.beat,
        longest_call=max(LONGEST_CALL, said.leader.longest_call + SPARE),
    )
    instruments.leads, instruments.good_age = loop.leads, loop.good_age
    return loop


def watch_cluster(outside: Outside, loop: Loop) -> KubernetesCluster | None:
    """Start the watches that keep the cluster's lists current and wake *loop* for pods; None if they are disabled."""
    cluster, counts = outside.sources.cluster, outside.instruments.watch
    if not isinstance(cluster, KubernetesCluster) or not outside.settings.configuration.kubernetes.watch:
        return None

    def wake() -> None:
        if loop.leads():
            counts.woke()
            loop.wake()

    counts.not_ours()
    counts.ages = cluster.cache_ages
    burst = WakeupBurst(wake)
    cluster.watch(
        Watching(leads=loop.leads, wake=burst.found, stands=counts.stands, fell=counts.fell, idle=counts.not_ours)
    )
    return cluster


def outbox_of(outside: Outside, clock: Clock) -> tuple[Outbox, list[str]]:
    """Return the outbox, and warnings about its destinations."""
    said = outside.settings.configuration
    everybody, of_teams = outside.settings.environment.destinations()
    warnings = list(check_every_destination(everybody, of_teams))
    tokens = outside.secrets.tokens
    links = PageLinks(
        public_url=said.public_url,
        docs_url=said.docs_url,
        seal=lambda: Seal(token) if (token := tokens().operator) else None,
    )
    # Not fenced: a delivery is recorded even by a replica that has lost the lead, so that it is not repeated.
    outbox = Outbox(
        outside.store,
        everybody,
        clock,
        of_teams,
        links=links,
        every=said.notify.at_most_every,
        may_send=outside.writer.held,
    )
    return outbox, warnings


def web_of(outside: Outside, loop: Loop, clock: Clock, messages_to: tuple[str, ...]) -> Flask:
    """Return webhook, pages, API and metrics; *messages_to* are the names of the destinations of messages."""
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
