"""Alertmanager: what each peer runs and silences, whether it tells us, and a test alert on request."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import click
import yaml

from receiver.adapters.monitoring.alertmanager import AlertmanagerAlarms
from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.core.model.policy import Policy
from receiver.core.model.signals import COMPONENT, HEARTBEAT_ALERT, SignalAction, Silence, silenced_pools
from receiver.core.model.text import some
from receiver.doctor import round_trip
from receiver.doctor.checks import Area, Check, Finding, Installation, few
from receiver.doctor.rules import running_rules, shipped_rules
from receiver.doctor.server import opened as opened_server
from receiver.ports import AlarmFacts, Clock, TryLater
from receiver.web.webhook import PATH

OLDEST = (0, 25)
ROUTED_BY = ("component", "action", "namespace", "severity")
HIDDEN = "<secret>"  # what Alertmanager shows for the address of a webhook, from 0.26 on

PEERS = Check(
    "alertmanager.peers",
    "whether every peer that alertmanager.urls names answers and is ready",
    ("fail", "skip"),
    "start it, or correct alertmanager.urls: while a peer does not answer nothing is removed, it may hold a silence",
)
CLUSTER = Check(
    "alertmanager.cluster",
    "whether the peers know each other, and alertmanager.urls names all of them",
    ("warn", "skip"),
    "name every peer in alertmanager.urls (of the operator: each pod of alertmanager-operated), and see that"
    " --cluster.peer and port 9094 let them talk",
)
VERSIONS = Check(
    "alertmanager.versions",
    "whether they run one version, 0.25 or newer, and one configuration",
    ("warn", "skip"),
    "finish the upgrade, or reload the configuration of the peer that is behind",
)
ARRIVES = Check(
    "alertmanager.heartbeat",
    "whether the heartbeat alert is at every peer, with its labels: Prometheus sends to it",
    ("fail", "skip"),
    "name that peer in alerting.alertmanagers of Prometheus; prometheus_notifications_errors_total counts failures",
)
WEBHOOK = Check(
    "alertmanager.webhook",
    "whether a receiver posts to our /webhook with a bearer token, never cuts a message, and gets those of our alerts "
    "that fire now, the heartbeat included",
    ("warn", "fail", "skip"),
    "take over the receiver and the first two routes of rules/alertmanager.yml (or k8s/alertmanager), before any route"
    " that takes all",
)
SILENCES = Check(
    "alertmanager.silences",
    "whether no silence pauses a pool or mutes our alerts",
    ("warn", "skip"),
    "let it end, or expire it: amtool silence expire ID",
)
CHECKS = (PEERS, CLUSTER, VERSIONS, ARRIVES, WEBHOOK, SILENCES)

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertmanagerPeer:
    """What one peer said: *problem* when it did not answer, *knows* how many peers it sees (0: no cluster), *original*
    its configuration, *beat* the labels of the heartbeat alert that it has, *routed* the receivers that it names for
    each alert that we act on, by the alert's name."""

    url: str
    problem: str = ""
    version: str = ""
    knows: int = 0
    original: str = ""
    beat: Labels | None = None
    routed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    silences: tuple[Silence, ...] = field(default_factory=tuple)


def look(installation: Installation) -> Iterator[Finding]:
    """Yield what every Alertmanager that the configuration names says, and what became of a test alert."""
    settings, clock = installation.settings, installation.clock
    urls = settings.configuration.alertmanager.urls
    server = opened_server(installation)
    try:
        yield round_trip.heard(server, clock.now())
        if not urls:
            yield PEERS.skipped("alertmanager.urls is empty, so routes and silences are not seen")
            yield round_trip.ROUND.skipped("alertmanager.urls is empty")
            return
        peers = [ask(url, clock, installation.timeouts) for url in urls]
        yield from judge(peers, our_alerts(installation), settings.policy, clock.now())
        if not installation.send_test_alert:
            yield round_trip.ROUND.skipped("not asked for (--send-test-alert)")
            return
        with ExitStack() as opened:
            apis = [MonitoringApi("Alertmanager", url, clock, installation.timeouts) for url in urls]
            for api in apis:
                opened.enter_context(api)
            waiting = round_trip.AlertWait(say=lambda text: click.echo(text, err=True))
            yield from round_trip.send(apis, server, clock, waiting)
    finally:
        server.close()


def our_alerts(installation: Installation) -> tuple[Labels, ...]:
    """Return the labels of our alerts as Prometheus runs them; as shipped where it does not say."""
    url, running = installation.settings.configuration.prometheus.url, None
    if url is not None:
        with MonitoringApi("Prometheus", url, installation.clock, installation.timeouts) as api:
            try:
                running = api.told("rules", type="alert")
            except TryLater:
                running = None  # the area of Prometheus says so
    found = [(r.name, r.labels) for r in running_rules(running) if r.labels.get("component") == COMPONENT]
    found = found or [(rule.name, rule.labels) for rule in shipped_rules() if rule.action]
    return tuple({**labels, "alertname": name} for name, labels in dict(found).items())


def ask(url: str, clock: Clock, timeout: tuple[float, float]) -> AlertmanagerPeer:
    """Return what the peer at *url* says. Raises nothing."""
    with MonitoringApi("Alertmanager", url, clock, timeout) as api:
        try:
            api.text("/-/ready")
            status = api.get("/api/v2/status")
            beats = api.get("/api/v2/alerts", filter=f'alertname="{HEARTBEAT_ALERT}"')
            ours = api.get("/api/v2/alerts", filter=f'component="{COMPONENT}"')
            beat = next(iter(_records(beats)), None)
            facts = _facts(url, timeout)
        except TryLater as error:
            return AlertmanagerPeer(url=api.shown, problem=str(error))
        version, cluster, config = (_part(status, name) for name in ("versionInfo", "cluster", "config"))
        settled = cluster.get("status") != "disabled"
        return AlertmanagerPeer(
            url=api.shown,
            version=str(version.get("version") or ""),
            knows=len(cluster.get("peers") or ()) if settled else 0,
            original=str(config.get("original") or ""),
            beat=_words(beat.get("labels")) if beat else None,
            routed=tuple(_routed([*_records(beats), *_records(ours)])),
            silences=facts.silences,
        )


def _facts(url: str, timeout: tuple[float, float]) -> AlarmFacts:
    alarms = AlertmanagerAlarms([url], timeout=timeout[1])
    try:
        return alarms.look()
    finally:
        alarms.close()


def _records(said: Any) -> list[Mapping[str, Any]]:
    return [record for record in said if isinstance(record, Mapping)] if isinstance(said, list) else []


def _routed(alerts: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for alert in alerts:
        labels = _words(alert.get("labels"))
        if labels.get("action") != SignalAction.NOTIFY.value:  # those are for people
            yield labels.get("alertname", ""), tuple(str(r.get("name")) for r in _records(alert.get("receivers")))


def _words(said: Any) -> Mapping[str, str]:
    return {str(k): str(v) for k, v in said.items()} if isinstance(said, Mapping) else {}


def _part(status: Any, name: str) -> Mapping[str, Any]:
    found = status.get(name) if isinstance(status, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def judge(
    peers: Sequence[AlertmanagerPeer], alerts: Sequence[Labels], policy: Policy, now: datetime
) -> Iterator[Finding]:
    """Yield what the *peers* say of themselves, of our *alerts* (labels) and of the pools of *policy*."""
    well = [peer for peer in peers if not peer.problem]
    yield from (PEERS.failed(peer.problem) for peer in peers if peer.problem)
    if len(well) == len(peers):
        yield PEERS.passed(f"{some(len(peers), 'peer')} ready: {few(peer.url for peer in peers)}")
    if not well:
        return
    yield cluster(peers, well)
    yield versions(well)
    yield arrives(well, alerts)
    yield from {finding: None for peer in well for finding in webhook(peer)}
    yield from silences(well, alerts, policy, now)


def arrives(well: Sequence[AlertmanagerPeer], alerts: Sequence[Labels]) -> Finding:
    """Say whether the heartbeat is at every peer, with the labels that its rule gives it."""
    deaf = [peer.url for peer in well if peer.beat is None]
    if deaf:
        return ARRIVES.failed(f"{HEARTBEAT_ALERT} is not at {few(deaf)}, so Prometheus does not send there")
    wanted = {k: v for one in alerts if one["alertname"] == HEARTBEAT_ALERT for k, v in one.items() if k in ROUTED_BY}
    lost = sorted({name for peer in well for name, value in wanted.items() if (peer.beat or {}).get(name) != value})
    if lost:
        said = f"{HEARTBEAT_ALERT} comes to Alertmanager with other labels than its rule gives it: {few(lost)}"
        return ARRIVES.failed(
            said, "see alerting.alert_relabel_configs of Prometheus: our alerts must keep their labels"
        )
    return ARRIVES.passed(f"{HEARTBEAT_ALERT} is at {some(len(well), 'peer')}")


def webhook(peer: AlertmanagerPeer) -> list[Finding]:
    """Judge the webhooks to us in the configuration of *peer*, and whether it routes our alerts to one of them."""
    try:
        loaded = yaml.safe_load(peer.original)
    except yaml.YAMLError:
        loaded = None
    if not isinstance(loaded, Mapping):
        return [WEBHOOK.skipped("Alertmanager shows no configuration that can be read")]
    ours = _to_us(loaded)
    if not ours:
        return [WEBHOOK.failed("no receiver has a webhook that is ours")]
    names = few(name for name, _ in ours)
    lost = [(alert, receivers) for alert, receivers in peer.routed if not {name for name, _ in ours} & set(receivers)]
    if lost:
        others = few(name for _, receivers in lost for name in receivers)
        return [WEBHOOK.failed(f"alerts routed to {others} and not to {names}: {few(alert for alert, _ in lost)}")]
    note = "; Alertmanager hides its address, --send-test-alert shows whether it is ours"
    hidden = any(_address(one) == HIDDEN for _, one in ours)
    said = f"receiver {names} posts to us with a token{note if hidden else ''}"
    return [found for name, one in ours for found in _one_webhook(name, one)] or [WEBHOOK.passed(said)]


def _to_us(loaded: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Webhooks to our path by the name of their receiver. Those that name us count alone: a chat may use the path too.

    A hidden address counts by the name of its receiver.
    """
    found = [
        (str(receiver.get("name")), one)
        for receiver in loaded.get("receivers") or ()
        for one in receiver.get("webhook_configs") or ()
        if _address(one) == HIDDEN or urlsplit(_address(one)).path == PATH
    ]
    named = [(name, one) for name, one in found if COMPONENT in f"{name} {_address(one)}"]
    return named or [(name, one) for name, one in found if _address(one) != HIDDEN]


def _address(one: Mapping[str, Any]) -> str:
    return str(one.get("url") or HIDDEN)  # else it is in a url_file, which is not shown either


def _one_webhook(name: str, one: Mapping[str, Any]) -> Iterator[Finding]:
    authorization = (one.get("http_config") or {}).get("authorization")
    if not authorization or str(authorization.get("type") or "Bearer").lower() != "bearer":
        said = f"receiver {name} sends no bearer token, so every delivery is answered 401"
        yield WEBHOOK.failed(said, "set http_config.authorization with credentials_file")
    if cut := one.get("max_alerts"):
        said = f"receiver {name} cuts messages after {some(cut, 'alert')}: a pool that is cut off looks quiet"
        yield WEBHOOK.warned(said, "set max_alerts: 0")
    if one.get("send_resolved") is False:
        yield WEBHOOK.warned(f"receiver {name} does not send what is resolved", "set send_resolved: true")


def cluster(peers: Sequence[AlertmanagerPeer], well: Sequence[AlertmanagerPeer]) -> Finding:
    """Say whether the peers make one cluster of as many as the configuration names."""
    if len(peers) == 1 and well[0].knows <= 1:
        return CLUSTER.passed("one Alertmanager without peers")
    alone = [peer.url for peer in well if peer.knows == 0]
    if alone:
        said = f"{few(alone)} runs without a cluster beside {some(len(peers) - 1, 'other peer')}: each tells everything"
        return CLUSTER.warned(said)
    wrong = [f"{peer.url} sees {peer.knows}" for peer in well if peer.knows != len(peers)]
    if wrong:
        return CLUSTER.warned(f"alertmanager.urls names {some(len(peers), 'peer')}, {few(wrong)}")
    return CLUSTER.passed(f"{some(len(peers), 'peer')} see each other")


def versions(well: Sequence[AlertmanagerPeer]) -> Finding:
    """Say whether the peers that answer run the same."""
    found = sorted({peer.version for peer in well})
    if len(found) > 1:
        return VERSIONS.warned(f"versions differ: {few(found)}")
    if len({peer.original for peer in well}) > 1:
        return VERSIONS.warned("peers have loaded different configurations")
    if _numbers(found[0]) and _numbers(found[0]) < OLDEST:
        return VERSIONS.warned(
            f"version {found[0]} is older than 0.25", "upgrade Alertmanager: older ones were not tried"
        )
    return VERSIONS.passed(f"version {found[0]}, one configuration")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.lstrip("v").split(".")[:2] if part.isdigit())


def silences(
    well: Sequence[AlertmanagerPeer], alerts: Sequence[Labels], policy: Policy, now: datetime
) -> Iterator[Finding]:
    """Say which silences pause a pool or mute alerts of ours; one without a time left is over."""
    standing = {silence.id: silence for peer in well for silence in peer.silences if silence.ends_at > now}
    beat = next((peer.beat for peer in well if peer.beat), {})
    quiet = True
    for silence in standing.values():
        hit = [a["alertname"] for a in alerts if any(_mutes(silence, one) for one in _as_sent(a, beat, policy))]
        paused = [pool.name for pool in policy.pools if pool.id in silenced_pools([silence], policy)]
        does = [f"pauses GPU pool {few(paused)}"] if paused else []
        does += [f"mutes {some(len(hit), 'alert')} of ours: {few(hit)}"] if hit else []
        if does:
            quiet = False
            until = f"until {silence.ends_at:%Y-%m-%d %H:%M} UTC"
            who = silence.created_by or "somebody"
            said = f"silence {silence.id} of {who} {until} {', and '.join(does)}"
            yield SILENCES.warned(said, f"let it end, or expire it: amtool silence expire {silence.id}")
    if quiet:
        yield SILENCES.passed("no silence pauses a pool or mutes our alerts")


def _mutes(silence: Silence, labels: Labels) -> bool:
    return all(matcher.matches(labels) for matcher in silence.matchers)


def _as_sent(alert: Labels, beat: Labels, policy: Policy) -> list[Labels]:
    """The labels with which *alert* may come: what Prometheus adds to *beat* it adds to each, and a pool's name and id
    where it is about one."""
    plain = {**beat, **alert}
    if alert.get("action") == SignalAction.HEARTBEAT.value:
        return [plain]
    return [plain, *({**plain, "pool": pool.id, "pool_name": pool.name} for pool in policy.pools)]


AREA = Area(
    name="alertmanager",
    source="Alertmanager",
    checks=(*CHECKS, *round_trip.CHECKS),
    look=look,
    remedy="check alertmanager.urls and that this pod may reach them (NetworkPolicy)",
    timeout=round_trip.PATIENCE + 60,
)
