"""Alertmanager: its peers, configuration and silences, the delivery of the heartbeat, and a test alert on request."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import click
import yaml

from receiver.adapters.http.own_api import NotThereError, RefusedError, ServerApi
from receiver.adapters.http.sessions import moment
from receiver.adapters.monitoring.alertmanager import AlertmanagerAlarms
from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.core.model.policy import Policy
from receiver.core.model.signals import COMPONENT, HEARTBEAT_ALERT, SignalAction, Silence, silenced_pools
from receiver.core.model.text import lasting, some
from receiver.doctor.checks import Area, Check, Finding, Installation, few, text_map
from receiver.doctor.rules import running_rules, shipped_rules
from receiver.doctor.server import opened as opened_server
from receiver.ports import AlarmFacts, Clock, TryLater
from receiver.web.webhook import PATH

OLDEST = (0, 25)
ROUTED_BY = ("component", "action", "namespace", "severity")
HIDDEN = "<secret>"  # Alertmanager shows this instead of the URL of a webhook since 0.26
TEST_ALERT = "GpuAutoscalerDoctor"
PATIENCE = 75.0  # seconds: longer than a group_wait of a minute
POLL_SECONDS = 0.5
SAID_EVERY = 10.0  # seconds between progress messages
LASTS = timedelta(minutes=10)  # Alertmanager then ends the test alert even if the doctor was killed

PEERS = Check(
    "alertmanager.peers",
    "whether every peer in alertmanager.urls answers and is ready",
    ("fail", "skip"),
    "start it, or correct alertmanager.urls: while a peer does not answer nothing is removed, it may hold a silence",
)
CLUSTER = Check(
    "alertmanager.cluster",
    "whether the peers know each other, and alertmanager.urls names all of them",
    ("warn", "skip"),
    "list every peer in alertmanager.urls (with the operator: each pod of alertmanager-operated), and make sure that"
    " --cluster.peer and port 9094 connect them",
)
VERSIONS = Check(
    "alertmanager.versions",
    "whether they run one version, 0.25 or newer, and one configuration",
    ("warn", "skip"),
    "finish the upgrade, or reload the configuration of the outdated peer",
)
ARRIVES = Check(
    "alertmanager.heartbeat",
    "whether every peer has the heartbeat alert with its labels: Prometheus sends to it",
    ("fail", "skip"),
    "list that peer in alerting.alertmanagers of Prometheus; prometheus_notifications_errors_total counts failures",
)
WEBHOOK = Check(
    "alertmanager.webhook",
    "whether a receiver posts to /webhook with a bearer token, never truncates a message, and gets the autoscaler's "
    "firing alerts, the heartbeat included",
    ("warn", "fail", "skip"),
    "copy the receiver and the first two routes of rules/alertmanager.yml (or k8s/alertmanager), before any route that"
    " matches everything",
)
SILENCES = Check(
    "alertmanager.silences",
    "whether no silence pauses a pool or mutes the autoscaler's alerts",
    ("warn", "skip"),
    "let it end, or expire it: amtool silence expire ID",
)
HEARD = Check(
    "alertmanager.heard",
    "whether the running autoscaler receives the heartbeat",
    ("fail", "skip"),
    "see whether alertmanager.webhook passes; the runbook GpuAutoscalerHeartbeat follows the path of the alert",
)
ROUND = Check(
    "alertmanager.test_alert",
    "with `--send-test-alert`: whether an alert posted to Alertmanager arrives at the server, and how long it takes",
    ("fail", "skip"),
    "see whether alertmanager.webhook passes, which receiver amtool routes it to, and Alertmanager's log: 401 is a"
    " wrong token, a timeout a NetworkPolicy",
)
CHECKS = (PEERS, CLUSTER, VERSIONS, ARRIVES, WEBHOOK, SILENCES, HEARD, ROUND)

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertmanagerPeer:
    """The state of one peer: *problem* if it did not answer, *knows* the number of peers it sees (0: no cluster),
    *original* its configuration, *beat* the labels of its heartbeat alert, *routed* the receivers of each alert with an
    action, by the alert's name."""

    url: str
    problem: str = ""
    version: str = ""
    knows: int = 0
    original: str = ""
    beat: Labels | None = None
    routed: tuple[tuple[str, tuple[str, ...]], ...] = ()
    silences: tuple[Silence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertWait:
    """How to wait for the test alert: *sleep* takes seconds, *say* shows progress, *elapsed* is a monotonic clock."""

    say: Callable[[str], None]
    sleep: Callable[[float], None] = time.sleep
    elapsed: Callable[[], float] = time.monotonic
    patience: float = PATIENCE


def look(installation: Installation) -> Iterator[Finding]:
    """Check every configured Alertmanager, and send a test alert if asked to."""
    settings, clock = installation.settings, installation.clock
    urls = settings.configuration.alertmanager.urls
    server = opened_server(installation)
    try:
        yield heard(server, clock.now())
        if not urls:
            yield PEERS.skipped("alertmanager.urls is empty, so routes and silences are not seen")
            yield ROUND.skipped("alertmanager.urls is empty")
            return
        peers = [ask(url, clock, installation.timeouts) for url in urls]
        yield from judge(peers, our_alerts(installation), settings.policy, clock.now())
        if not installation.send_test_alert:
            yield ROUND.skipped("not requested (--send-test-alert)")
            return
        with ExitStack() as opened:
            apis = [
                opened.enter_context(MonitoringApi("Alertmanager", url, clock, installation.timeouts)) for url in urls
            ]
            yield from send(apis, server, clock, AlertWait(say=lambda text: click.echo(text, err=True)))
    finally:
        server.close()


def our_alerts(installation: Installation) -> tuple[Labels, ...]:
    """Return the labels of the autoscaler's alerts in Prometheus, or as shipped if it does not answer."""
    url, running = installation.settings.configuration.prometheus.url, None
    if url is not None:
        with MonitoringApi("Prometheus", url, installation.clock, installation.timeouts) as api:
            try:
                running = api.told("rules", type="alert")
            except TryLater:
                running = None  # the area prometheus reports it
    found = [(r.name, r.labels) for r in running_rules(running) if r.labels.get("component") == COMPONENT]
    found = found or [(rule.name, rule.labels) for rule in shipped_rules() if rule.action]
    return tuple({**labels, "alertname": name} for name, labels in dict(found).items())


def ask(url: str, clock: Clock, timeout: tuple[float, float]) -> AlertmanagerPeer:
    """Return the state of the peer at *url*. Raises nothing."""
    with MonitoringApi("Alertmanager", url, clock, timeout) as api:
        try:
            api.text("/-/ready")
            status = api.get("/api/v2/status")
            beats = _records(api.get("/api/v2/alerts", filter=f'alertname="{HEARTBEAT_ALERT}"'))
            ours = _records(api.get("/api/v2/alerts", filter=f'component="{COMPONENT}"'))
            facts = _facts(url, timeout)
        except TryLater as error:
            return AlertmanagerPeer(url=api.shown, problem=str(error))
        version, cluster, config = (_part(status, name) for name in ("versionInfo", "cluster", "config"))
        return AlertmanagerPeer(
            url=api.shown,
            version=str(version.get("version") or ""),
            knows=len(cluster.get("peers") or ()) if cluster.get("status") != "disabled" else 0,
            original=str(config.get("original") or ""),
            beat=text_map(beats[0].get("labels")) if beats else None,
            routed=tuple(_routed([*beats, *ours])),
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
        labels = text_map(alert.get("labels"))
        if labels.get("action") != SignalAction.NOTIFY.value:  # those are for people
            yield labels.get("alertname", ""), tuple(str(r.get("name")) for r in _records(alert.get("receivers")))


def _part(status: Any, name: str) -> Mapping[str, Any]:
    found = status.get(name) if isinstance(status, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def judge(
    peers: Sequence[AlertmanagerPeer], alerts: Sequence[Labels], policy: Policy, now: datetime
) -> Iterator[Finding]:
    """Judge the *peers* by their state, the labels of the *alerts* and the pools of *policy*."""
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


def cluster(peers: Sequence[AlertmanagerPeer], well: Sequence[AlertmanagerPeer]) -> Finding:
    """Judge whether the peers form one cluster of the configured size."""
    if len(peers) == 1 and well[0].knows <= 1:
        return CLUSTER.passed("one Alertmanager without peers")
    alone = [peer.url for peer in well if peer.knows == 0]
    if alone:
        said = f"{few(alone)} runs without a cluster beside {some(len(peers) - 1, 'other peer')}: each sends all alerts"
        return CLUSTER.warned(said)
    wrong = [f"{peer.url} sees {peer.knows}" for peer in well if peer.knows != len(peers)]
    if wrong:
        return CLUSTER.warned(f"alertmanager.urls lists {some(len(peers), 'peer')}, but {few(wrong)}")
    return CLUSTER.passed(f"{some(len(peers), 'peer')} see each other")


def versions(well: Sequence[AlertmanagerPeer]) -> Finding:
    """Judge whether all peers run one supported version and one configuration."""
    found = sorted({peer.version for peer in well})
    if len(found) > 1:
        return VERSIONS.warned(f"versions differ: {few(found)}")
    if len({peer.original for peer in well}) > 1:
        return VERSIONS.warned("peers have loaded different configurations")
    numbers = tuple(int(part) for part in found[0].lstrip("v").split(".")[:2] if part.isdigit())
    if numbers and numbers < OLDEST:
        return VERSIONS.warned(f"version {found[0]} is older than 0.25", "upgrade it: older ones are untested")
    return VERSIONS.passed(f"version {found[0]}, one configuration")


def arrives(well: Sequence[AlertmanagerPeer], alerts: Sequence[Labels]) -> Finding:
    """Judge whether the heartbeat is at every peer, with the labels of its rule."""
    deaf = [peer.url for peer in well if peer.beat is None]
    if deaf:
        return ARRIVES.failed(f"{HEARTBEAT_ALERT} is not at {few(deaf)}, so Prometheus does not send there")
    wanted = {k: v for one in alerts if one["alertname"] == HEARTBEAT_ALERT for k, v in one.items() if k in ROUTED_BY}
    lost = sorted({name for peer in well for name, value in wanted.items() if (peer.beat or {}).get(name) != value})
    if lost:
        return ARRIVES.failed(
            f"{HEARTBEAT_ALERT} arrives at Alertmanager with other labels than in its rule: {few(lost)}",
            "see alerting.alert_relabel_configs of Prometheus: the autoscaler's alerts must keep their labels",
        )
    return ARRIVES.passed(f"{HEARTBEAT_ALERT} is at {some(len(well), 'peer')}")


def webhook(peer: AlertmanagerPeer) -> list[Finding]:
    """Judge the webhooks to the autoscaler in the configuration of *peer*, and whether its alerts are routed there."""
    try:
        loaded = yaml.safe_load(peer.original)
    except yaml.YAMLError:
        loaded = None
    if not isinstance(loaded, Mapping):
        return [WEBHOOK.skipped("Alertmanager shows no readable configuration")]
    ours = _to_us(loaded)
    if not ours:
        return [WEBHOOK.failed("no receiver has a webhook to the autoscaler")]
    names = few(name for name, _ in ours)
    lost = [(alert, receivers) for alert, receivers in peer.routed if not {name for name, _ in ours} & set(receivers)]
    if lost:
        others = few(name for _, receivers in lost for name in receivers)
        return [WEBHOOK.failed(f"alerts routed to {others} and not to {names}: {few(alert for alert, _ in lost)}")]
    hidden = any(_address(one) == HIDDEN for _, one in ours)
    note = "; Alertmanager hides its URL, --send-test-alert shows whether it is the right one" if hidden else ""
    passed = WEBHOOK.passed(f"receiver {names} posts to the autoscaler with a token{note}")
    return [found for name, one in ours for found in _one_webhook(name, one)] or [passed]


def _to_us(loaded: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return webhooks to the path of the autoscaler by the name of their receiver.

    If any name or URL contains ``gpu-autoscaler``, only those count, because a chat may use the same path. A hidden URL
    counts by its receiver's name.
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
    return str(one.get("url") or HIDDEN)  # without url it is in a url_file, which is not shown either


def _one_webhook(name: str, one: Mapping[str, Any]) -> Iterator[Finding]:
    authorization = (one.get("http_config") or {}).get("authorization")
    if not authorization or str(authorization.get("type") or "Bearer").lower() != "bearer":
        said = f"receiver {name} sends no bearer token, so every delivery gets status 401"
        yield WEBHOOK.failed(said, "set http_config.authorization with credentials_file")
    if cut := one.get("max_alerts"):
        said = f"receiver {name} truncates messages after {some(cut, 'alert')}: the rest of the pools looks quiet"
        yield WEBHOOK.warned(said, "set max_alerts: 0")
    if one.get("send_resolved") is False:
        yield WEBHOOK.warned(f"receiver {name} does not send resolved alerts", "set send_resolved: true")


def silences(
    well: Sequence[AlertmanagerPeer], alerts: Sequence[Labels], policy: Policy, now: datetime
) -> Iterator[Finding]:
    """Find silences in force that pause a pool or mute the autoscaler's alerts."""
    standing = {silence.id: silence for peer in well for silence in peer.silences if silence.ends_at > now}
    beat = next((peer.beat for peer in well if peer.beat), {})
    quiet = True
    for silence in standing.values():
        hit = [a["alertname"] for a in alerts if any(_mutes(silence, one) for one in _as_sent(a, beat, policy))]
        paused = [pool.name for pool in policy.pools if pool.id in silenced_pools([silence], policy)]
        does = [f"pauses GPU pool {few(paused)}"] if paused else []
        does += [f"mutes {some(len(hit), 'alert')} of the autoscaler: {few(hit)}"] if hit else []
        if does:
            quiet = False
            until = f"until {silence.ends_at:%Y-%m-%d %H:%M} UTC"
            said = f"silence {silence.id} by {silence.created_by or 'an unknown user'} {until} {', and '.join(does)}"
            yield SILENCES.warned(said, f"let it end, or expire it: amtool silence expire {silence.id}")
    if quiet:
        yield SILENCES.passed("no silence pauses a pool or mutes the autoscaler's alerts")


def _mutes(silence: Silence, labels: Labels) -> bool:
    return all(matcher.matches(labels) for matcher in silence.matchers)


def _as_sent(alert: Labels, beat: Labels, policy: Policy) -> list[Labels]:
    """Return the labels with which *alert* may be sent: with those that Prometheus adds to all alerts, seen at *beat*,
    and with the name and id of each pool."""
    plain = {**beat, **alert}
    if alert.get("action") == SignalAction.HEARTBEAT.value:
        return [plain]
    return [plain, *({**plain, "pool": pool.id, "pool_name": pool.name} for pool in policy.pools)]


def heard(server: ServerApi, now: datetime) -> Finding:
    """Judge whether the server receives the heartbeat, as of *now*."""
    try:
        sources = server.get("status").document.get("sources") or ()
    except (TryLater, NotThereError, RefusedError) as error:
        return HEARD.skipped(f"cannot reach the server at {server.shown}: {error}")
    for source in sources:
        if source.get("source") == "heartbeat":
            at = moment(source.get("at"))
            ago = f"{lasting(max(now - at, timedelta(0)))} ago" if at else "never"
            if source.get("up"):
                return HEARD.passed(f"the autoscaler received the heartbeat {ago}")
            return HEARD.failed(f"the autoscaler does not receive the heartbeat (last: {ago})")
    return HEARD.skipped("the server has completed no step yet")


def send(peers: Sequence[MonitoringApi], server: ServerApi, clock: Clock, waiting: AlertWait) -> Iterator[Finding]:
    """Post a test alert to each of *peers*, as Prometheus does, wait until it arrives at *server*, and resolve it."""
    labels = {
        "alertname": TEST_ALERT,
        "component": COMPONENT,
        "namespace": COMPONENT,
        "action": SignalAction.NOTIFY.value,
        "severity": "none",
        "test": uuid.uuid4().hex,
    }
    try:
        server.get_list("alerts")
    except (TryLater, NotThereError, RefusedError) as error:
        yield ROUND.failed(f"cannot read the received alerts of the server at {server.shown}: {error}")
        return
    began = clock.now()
    refusals = {peer.shown: _post(peer, labels, began, began + LASTS) for peer in peers}
    posted = [shown for shown, why in refusals.items() if not why]
    if not posted:
        yield ROUND.failed(f"no Alertmanager accepted the test alert: {'; '.join(refusals.values())}")
        return
    started = waiting.elapsed()
    try:
        took = _until_there(server, labels["test"], waiting)
    finally:
        for peer in peers:
            _post(peer, labels, began, clock.now())
    if took is None:
        waited = f"{waiting.elapsed() - started:.0f} s"
        yield ROUND.failed(f"the test alert was accepted by {', '.join(posted)} and did not arrive within {waited}")
    else:
        yield ROUND.passed(f"the test alert arrived after {took:.1f} s")


def _post(peer: MonitoringApi, labels: dict[str, str], begins: datetime, ends: datetime) -> str:
    """Post the alert; return the error, empty if there is none."""
    alert = {
        "labels": labels,
        "annotations": {"summary": "A test by gpu-autoscaler doctor; no action is needed."},
        "startsAt": begins.isoformat(),
        "endsAt": ends.isoformat(),
    }
    try:
        peer.post("/api/v2/alerts", [alert])
    except TryLater as error:
        return str(error)
    return ""


def _until_there(server: ServerApi, test: str, waiting: AlertWait) -> float | None:
    """Return after how many seconds the alert had arrived; None if it did not in time."""
    began = told = waiting.elapsed()
    while (passed := waiting.elapsed() - began) < waiting.patience:
        if any(_labels(alert).get("test") == test for alert in _received(server)):
            return passed
        if waiting.elapsed() - told >= SAID_EVERY:
            told = waiting.elapsed()
            waiting.say(f"waiting for the test alert for {passed:.0f} s")
        waiting.sleep(POLL_SECONDS)
    return None


def _received(server: ServerApi) -> Sequence[Any]:
    try:
        return server.get_list("alerts")
    except (TryLater, NotThereError, RefusedError):
        return ()


def _labels(alert: Any) -> Mapping[str, Any]:
    labels = alert.get("labels") if isinstance(alert, dict) else None
    return labels if isinstance(labels, dict) else {}


AREA = Area(
    name="alertmanager",
    source="Alertmanager",
    checks=CHECKS,
    look=look,
    remedy="check alertmanager.urls and that this pod can reach them (NetworkPolicy)",
    timeout=PATIENCE + 60,
)
