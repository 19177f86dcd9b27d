"""Alertmanager: its peers, the delivery of the heartbeat, and a test alert on request."""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime, timedelta

import click

from receiver.adapters.http.own_api import NotThereError, RefusedError, ServerApi
from receiver.adapters.http.sessions import moment
from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.core.model.signals import COMPONENT, HEARTBEAT_ALERT, SignalAction
from receiver.core.model.text import lasting, some
from receiver.doctor.checks import CALL_TIMEOUTS, Area, Check, Finding, Installation, few
from receiver.doctor.server import opened as opened_server
from receiver.ports import Clock, TryLater

TEST_ALERT = "GpuAutoscalerDoctor"
PATIENCE = 75.0  # seconds: longer than a group_wait of a minute
POLL_SECONDS = 0.5
LASTS = timedelta(minutes=10)  # Alertmanager then ends the test alert even if the doctor was killed

PEERS = Check(
    "alertmanager.peers",
    "whether every peer in alertmanager.urls answers and is ready",
    "start it, or correct alertmanager.urls: while a peer does not answer, no node is removed, because it may hold a"
    " silence that the others lack",
)
CLUSTER = Check(
    "alertmanager.cluster",
    "whether the peers see each other, and alertmanager.urls lists all of them",
    "list every peer in alertmanager.urls (with the operator: each pod of alertmanager-operated), and make sure that"
    " --cluster.peer and port 9094 connect them",
)
ARRIVES = Check(
    "alertmanager.heartbeat",
    "whether every peer has received the heartbeat alert from Prometheus",
    "list that peer in alerting.alertmanagers of Prometheus; prometheus_notifications_errors_total counts failures",
)
HEARD = Check(
    "alertmanager.heard",
    "whether the running autoscaler receives the heartbeat",
    "copy the receiver and the first two routes of rules/alertmanager.yml (or install the chart), before any route that"
    " matches everything; the runbook GpuAutoscalerHeartbeat follows the path of the alert",
)
ROUND = Check(
    "alertmanager.test_alert",
    "whether an alert posted to Alertmanager arrives at the server (with `--send-test-alert`)",
    "see which receiver amtool routes it to, and Alertmanager's log: 401 is a wrong token, a timeout a NetworkPolicy",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertmanagerPeer:
    """The state of one peer: *problem* if it did not answer, *knows* the number of peers it sees (0: no cluster), and
    whether it *beats*: has the heartbeat alert."""

    url: str
    problem: str = ""
    knows: int = 0
    beats: bool = False


def look(installation: Installation) -> Iterator[Finding]:
    """Check every configured Alertmanager, and send a test alert if asked to."""
    urls, clock = installation.settings.configuration.alertmanager.urls, installation.clock
    with closing(opened_server(installation)) as server, ExitStack() as stack:
        yield heard(server, clock.now())
        if not urls:
            yield PEERS.skipped("alertmanager.urls is empty, so silences are not seen")
            yield ROUND.skipped("alertmanager.urls is empty")
            return
        apis = [stack.enter_context(MonitoringApi("Alertmanager", url, clock, CALL_TIMEOUTS)) for url in urls]
        yield from judge([ask(api) for api in apis])
        if installation.send_test_alert:
            click.echo(f"waiting for the test alert, at most {PATIENCE:.0f} s", err=True)
            yield send(apis, server, clock)
        else:
            yield ROUND.skipped("not requested (--send-test-alert)")


def ask(api: MonitoringApi) -> AlertmanagerPeer:
    """Return the state of a peer; why it did not answer is its *problem*."""
    try:
        api.text("/-/ready")
        cluster = api.get("/api/v2/status").get("cluster") or {}
        beats = api.get("/api/v2/alerts", filter=f'alertname="{HEARTBEAT_ALERT}"')
    except TryLater as error:
        return AlertmanagerPeer(url=api.shown, problem=str(error))
    knows = 0 if cluster.get("status") == "disabled" else len(cluster.get("peers") or ())
    return AlertmanagerPeer(url=api.shown, knows=knows, beats=bool(beats))


def judge(peers: Sequence[AlertmanagerPeer]) -> Iterator[Finding]:
    """Judge the *peers* by their state."""
    well = [peer for peer in peers if not peer.problem]
    ready = f"{some(len(peers), 'peer')} ready: {few(peer.url for peer in peers)}"
    yield from PEERS.failures([peer.problem for peer in peers if peer.problem], ready)
    if well:
        yield cluster(peers, well)
        deaf = [peer.url for peer in well if not peer.beats]
        problem = f"{few(deaf)} has no alert {HEARTBEAT_ALERT}, so Prometheus does not send to it"
        yield ARRIVES.failed_if(deaf, problem, f"{some(len(well), 'peer')} with {HEARTBEAT_ALERT}")


def cluster(peers: Sequence[AlertmanagerPeer], well: Sequence[AlertmanagerPeer]) -> Finding:
    """Judge whether the peers form one cluster of the configured size."""
    if len(peers) == 1 and well[0].knows <= 1:
        return CLUSTER.passed("one Alertmanager without peers")
    wrong = [f"{peer.url} sees {peer.knows}" for peer in well if peer.knows != len(peers)]
    listed = some(len(peers), "peer")
    return CLUSTER.warned_if(wrong, f"alertmanager.urls lists {listed}, but {few(wrong)}", f"{listed} see each other")


def heard(server: ServerApi, now: datetime) -> Finding:
    """Judge whether the server receives the heartbeat, as of *now*."""
    try:
        sources = server.get("status").document.get("sources") or ()
    except (TryLater, NotThereError, RefusedError) as error:
        return HEARD.skipped(f"cannot reach the server at {server.shown}: {error}")
    source = next((source for source in sources if source.get("source") == "heartbeat"), None)
    if source is None:
        return HEARD.skipped("the server has completed no step yet")
    at = moment(source.get("at"))
    ago = f"{lasting(max(now - at, timedelta(0)))} ago" if at else "never"
    problem = f"the autoscaler does not receive the heartbeat (last: {ago})"
    return HEARD.failed_if(not source.get("up"), problem, f"the autoscaler received the heartbeat {ago}")


def send(
    peers: Sequence[MonitoringApi],
    server: ServerApi,
    clock: Clock,
    sleep: Callable[[float], None] = time.sleep,
    elapsed: Callable[[], float] = time.monotonic,
) -> Finding:
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
        return ROUND.failed(f"cannot read the received alerts of the server at {server.shown}: {error}")
    began, started, took = clock.now(), elapsed(), None
    refusals = {peer.shown: _post(peer, labels, began, began + LASTS) for peer in peers}
    posted = [peer_name for peer_name, refusal in refusals.items() if not refusal]
    if not posted:
        return ROUND.failed(f"no Alertmanager accepted the test alert: {'; '.join(refusals.values())}")
    try:
        while took is None and elapsed() - started < PATIENCE:
            try:
                received = [alert.get("labels") or {} for alert in server.get_list("alerts")]
                if any(alert_labels.get("test") == labels["test"] for alert_labels in received):
                    took = elapsed() - started
            except (TryLater, NotThereError, RefusedError):
                pass  # asked again until the end
            sleep(POLL_SECONDS)
    finally:
        for peer in peers:
            _post(peer, labels, began, clock.now())
    problem = f"the test alert was accepted by {', '.join(posted)} but did not arrive within {PATIENCE:.0f} s"
    return ROUND.failed_if(took is None, problem, f"the test alert arrived after {took or 0:.1f} s")


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


AREA = Area(
    name="alertmanager",
    source="Alertmanager",
    checks=(PEERS, CLUSTER, ARRIVES, HEARD, ROUND),
    look=look,
    remedy="check alertmanager.urls and that this pod can reach them (NetworkPolicy)",
    timeout=PATIENCE + 60,
)
