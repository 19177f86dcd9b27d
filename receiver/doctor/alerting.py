"""The way of an alert: from Prometheus' rules through every Alertmanager to our webhook."""

from collections.abc import Iterator
from contextlib import ExitStack

import click

from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.config import Settings
from receiver.doctor import addresses, alertmanager, inhibition, round_trip, routing
from receiver.doctor.alertmanager_config import read_config
from receiver.doctor.area import Area, Installation
from receiver.doctor.carried import Carried, carried, external_labels
from receiver.doctor.finding import Finding
from receiver.doctor.matchers import Unreadable
from receiver.doctor.running_rules import running_rules
from receiver.doctor.shipped import shipped_rules
from receiver.ports import TryLater

TIMEOUT = round_trip.PATIENCE + 60


def look(installation: Installation) -> Iterator[Finding]:
    """Yield what every Alertmanager that the configuration names says, and what its routes do with our alerts."""
    settings, clock = installation.settings, installation.clock
    urls = settings.configuration.alertmanager.urls
    server = round_trip.server_api(settings.environment, installation.timeouts[1])
    try:
        yield round_trip.heard(server, clock.now())
        if not urls:
            yield alertmanager.PEERS.skipped("alertmanager.urls is empty, so routes and silences are not seen")
            yield round_trip.ROUND.skipped("alertmanager.urls is empty")
            return
        alerts = our_alerts(installation)
        peers = [alertmanager.ask(url, clock, installation.timeouts) for url in urls]
        yield from alertmanager.judge(peers, alerts, settings.policy, clock.now())
        loaded = {peer.original: peer for peer in peers if not peer.problem}
        for peer in loaded.values():
            yield from _routes(peer, alerts, settings)
        if not installation.send_test_alert:
            yield round_trip.ROUND.skipped("not asked for (--send-test-alert)")
            return
        with ExitStack() as opened:
            apis = [MonitoringApi("Alertmanager", url, clock, installation.timeouts) for url in urls]
            for api in apis:
                opened.enter_context(api)
            waiting = round_trip.Waiting(say=lambda text: click.echo(text, err=True))
            yield from round_trip.send(apis, server, clock, waiting)
    finally:
        server.close()


def our_alerts(installation: Installation) -> tuple[Carried, ...]:
    """Return our alerts with the labels that Prometheus gives them; as shipped where it does not say."""
    settings = installation.settings
    url, running, external = settings.configuration.prometheus.url, None, None
    if url is not None:
        with MonitoringApi("Prometheus", url, installation.clock, installation.timeouts) as api:
            try:
                running, external = api.told("rules", type="alert"), api.told("status/config")
            except TryLater:
                running = None  # the area of Prometheus says so
    pools = {pool.id: pool.name for pool in settings.policy.pools}
    return carried(shipped_rules(), running_rules(running), external_labels(external), pools)


def _routes(peer: alertmanager.Peer, alerts: tuple[Carried, ...], settings: Settings) -> Iterator[Finding]:
    try:
        config = read_config(peer.original)
    except Unreadable as error:
        yield routing.REACHES.skipped(f"not computed: {error}; --send-test-alert shows whether it works")
        return
    computed = [route.receiver for route in config.route.matching(peer.beat or {})]
    if alertmanager.differs(peer, computed):
        said = f"computed {', '.join(computed)} for the heartbeat, and Alertmanager says {', '.join(peer.beats_to)}"
        yield routing.REACHES.skipped(f"not computed, since it comes out otherwise: {said}")
        return
    beat, life = settings.configuration.heartbeat_interval, settings.configuration.alertmanager.payload_life
    yield from routing.judge(config, alerts, addresses.known(settings), beat, life)
    yield from inhibition.judge(config, alerts)


AREA = Area(
    name="alertmanager",
    source="Alertmanager",
    checks=(*alertmanager.CHECKS, *routing.CHECKS, inhibition.INHIBITION, *round_trip.CHECKS),
    look=look,
    remedy="check alertmanager.urls and that this pod may reach them (NetworkPolicy)",
    timeout=TIMEOUT,
)
