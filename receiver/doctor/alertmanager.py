"""Alertmanager: every peer of it, what it has loaded, what it silences, and whether the heartbeat comes through."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from receiver.adapters.monitoring.alertmanager import AlertmanagerAlarms
from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.core.model.policy import Policy
from receiver.core.model.signals import HEARTBEAT_ALERT
from receiver.core.model.silences import Silence, silenced_pools
from receiver.core.model.text import some
from receiver.doctor.carried import Carried
from receiver.doctor.finding import Check, Finding
from receiver.doctor.told import few
from receiver.ports import AlarmFacts, Clock, TryLater

OLDEST = (0, 25)
ROUTED_BY = ("component", "action", "namespace", "severity")

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
SILENCES = Check(
    "alertmanager.silences",
    "whether no silence pauses a pool or mutes our alerts",
    ("warn", "skip"),
    "let it end, or expire it: amtool silence expire ID",
)
CHECKS = (PEERS, CLUSTER, VERSIONS, ARRIVES, SILENCES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """What one peer said: *problem* when it did not answer, *knows* how many peers it sees (0: no cluster), *original*
    its configuration, *beat* the labels of the heartbeat alert that it has, *beats_to* the receivers that it names for
    it."""

    url: str
    problem: str = ""
    version: str = ""
    knows: int = 0
    original: str = ""
    beat: Mapping[str, str] | None = None
    beats_to: tuple[str, ...] = ()
    silences: tuple[Silence, ...] = field(default_factory=tuple)


def ask(url: str, clock: Clock, timeout: tuple[float, float]) -> Peer:
    """Return what the peer at *url* says. Raises nothing."""
    with MonitoringApi("Alertmanager", url, clock, timeout) as api:
        try:
            api.text("/-/ready")
            status = api.get("/api/v2/status")
            beats = api.get("/api/v2/alerts", filter=f'alertname="{HEARTBEAT_ALERT}"')
            beat = beats[0] if isinstance(beats, list) and beats and isinstance(beats[0], Mapping) else None
            facts = _facts(url, timeout)
        except TryLater as error:
            return Peer(url=api.shown, problem=str(error))
        version, cluster, config = (_part(status, name) for name in ("versionInfo", "cluster", "config"))
        settled = cluster.get("status") != "disabled"
        return Peer(
            url=api.shown,
            version=str(version.get("version") or ""),
            knows=len(cluster.get("peers") or ()) if settled else 0,
            original=str(config.get("original") or ""),
            beat=_words(beat.get("labels")) if beat else None,
            beats_to=tuple(str(r.get("name")) for r in beat.get("receivers") or ()) if beat else (),
            silences=facts.silences,
        )


def _facts(url: str, timeout: tuple[float, float]) -> AlarmFacts:
    alarms = AlertmanagerAlarms([url], timeout=timeout[1])
    try:
        return alarms.look()
    finally:
        alarms.close()


def _words(said: Any) -> Mapping[str, str]:
    return {str(k): str(v) for k, v in said.items()} if isinstance(said, Mapping) else {}


def _part(status: Any, name: str) -> Mapping[str, Any]:
    found = status.get(name) if isinstance(status, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def judge(peers: Sequence[Peer], alerts: Sequence[Carried], policy: Policy, now: datetime) -> Iterator[Finding]:
    """Yield what the *peers* say of themselves, of our *alerts* and of the pools of *policy*."""
    well = [peer for peer in peers if not peer.problem]
    yield from (PEERS.failed(peer.problem) for peer in peers if peer.problem)
    if len(well) == len(peers):
        yield PEERS.passed(f"{some(len(peers), 'peer')} ready: {few(peer.url for peer in peers)}")
    if not well:
        return
    yield cluster(peers, well)
    yield versions(well)
    yield arrives(well, alerts)
    yield from silences(well, alerts, policy, now)


def arrives(well: Sequence[Peer], alerts: Sequence[Carried]) -> Finding:
    """Say whether the heartbeat is at every peer, with the labels that its rule gives it."""
    deaf = [peer.url for peer in well if peer.beat is None]
    if deaf:
        return ARRIVES.failed(f"{HEARTBEAT_ALERT} is not at {few(deaf)}, so Prometheus does not send there")
    wanted = {k: v for a in alerts if a.name == HEARTBEAT_ALERT for k, v in a.labels[0].items() if k in ROUTED_BY}
    lost = sorted({name for peer in well for name, value in wanted.items() if (peer.beat or {}).get(name) != value})
    if lost:
        said = f"{HEARTBEAT_ALERT} comes to Alertmanager with other labels than its rule gives it: {few(lost)}"
        return ARRIVES.failed(
            said, "see alerting.alert_relabel_configs of Prometheus: our alerts must keep their labels"
        )
    return ARRIVES.passed(f"{HEARTBEAT_ALERT} is at {some(len(well), 'peer')}")


def differs(peer: Peer, computed: Sequence[str]) -> bool:
    """True when the peer itself names other receivers for the heartbeat than were *computed*."""
    return peer.beat is not None and sorted(set(peer.beats_to)) != sorted(set(computed))


def cluster(peers: Sequence[Peer], well: Sequence[Peer]) -> Finding:
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


def versions(well: Sequence[Peer]) -> Finding:
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


def silences(well: Sequence[Peer], alerts: Sequence[Carried], policy: Policy, now: datetime) -> Iterator[Finding]:
    """Say which silences pause a pool or mute alerts of ours; one without a time left is over."""
    standing = {silence.id: silence for peer in well for silence in peer.silences if silence.ends_at > now}
    quiet = True
    for silence in standing.values():
        hit = [a.name for a in alerts if any(all(m.matches(one) for m in silence.matchers) for one in a.labels)]
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
