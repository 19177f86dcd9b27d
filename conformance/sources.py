"""Sources that go away, come back, and forget."""

from datetime import timedelta

import requests

from conformance.removal import EMPTY, emptied
from conformance.scenario import Seen, UnmetError, scenario
from conformance.stage import Stage
from receiver.adapters.clock import SystemClock

LATER = {"idle_for": "8s"}  # the source is away before the idle node is due
AWAY = 15.0  # seconds


def _nothing_while_away(stage: Stage) -> None:
    stage.holds(lambda: not stage.removals() and not stage.resizes(), "no change while it is away", AWAY)


def _two_run(stage: Stage) -> float:
    """Wait until two pods run: one on the node that was there, one on a node that was bought."""
    ran = stage.until(lambda: len(stage.cluster.running()) == 2, "2 pods that run", EMPTY)
    if len(stage.bought) != 2:
        raise UnmetError(f"{len(stage.bought)} nodes for 2 pods")
    return ran


@scenario(
    "API server away",
    "nothing is removed or bought meanwhile; after it the waiting pod gets 1 node",
    pool=LATER,
)
def api_server_away(stage: Stage) -> Seen:
    """What cannot be seen is unknown, not gone."""
    stage.have_nodes(1)
    stage.serve()
    stage.kubernetes_lever.away()
    _nothing_while_away(stage)
    for name in ("first", "second"):
        stage.cluster.pod(name)
    stage.kubernetes_lever.back()
    ran = _two_run(stage)
    return Seen(said=f"nothing in {AWAY:.0f} s, then {stage.resizes()}", figures={"both_run_after": ran})


@scenario("API server restarts", "every connection is cut; a pod that comes then gets 1 node within the usual time")
def api_server_restarts(stage: Stage) -> Seen:
    """Watches begin anew."""
    stage.serve()
    stage.until(lambda: stage.product.get("/healthz")["watch"] == "up", "a watch")
    stage.kubernetes_lever.cut()
    stage.cluster.pod("train")
    asked = stage.until(stage.resizes, "a request for a node")
    stage.until(lambda: stage.cluster.running() == ["train"], "a pod that runs")
    return Seen(said=f"Civo was asked for {stage.resizes()}", figures={"asked_after": asked})


@scenario("410 Gone", "watches from a forgotten version are listed anew; a pod that comes then gets 1 node")
def watch_expired(stage: Stage) -> Seen:
    """The API server's history does not reach back to where the watch was."""
    stage.serve()
    stage.until(lambda: stage.product.get("/healthz")["watch"] == "up", "a watch")
    stage.kubernetes_lever.expire(times=4)
    stage.kubernetes_lever.cut()
    stage.until(lambda: not stage.kubernetes_lever.armed(), "4 watches that are told 410")
    stage.cluster.pod("train")
    asked = stage.until(stage.resizes, "a request for a node")
    stage.until(lambda: stage.cluster.running() == ["train"], "a pod that runs")
    stage.holds(lambda: stage.civo.required() == 1, "1 node", 3.0)
    return Seen(said=f"Civo was asked for {stage.resizes()}", figures={"asked_after": asked})


@scenario(
    "Prometheus away",
    "nothing is removed or bought meanwhile; after it the waiting pod gets 1 node",
    monitoring=True,
    pool=LATER,
)
def prometheus_away(stage: Stage) -> Seen:
    """Without `fallback: kubernetes`."""
    stage.have_nodes(1)
    stage.serve()
    stage.prometheus_lever.away()
    _nothing_while_away(stage)
    for name in ("first", "second"):
        stage.cluster.pod(name)
    stage.holds(lambda: not stage.resizes(), "nothing bought while it is away", 5.0)
    stage.prometheus_lever.back()
    ran = _two_run(stage)
    return Seen(said=f"nothing in {AWAY + 5:.0f} s, then {stage.resizes()}", figures={"both_run_after": ran})


@scenario(
    "Alertmanager away",
    "growth goes on, nothing is removed: a silence may stand; after it the idle nodes go",
    monitoring=True,
    pool=LATER,
)
def alertmanager_away(stage: Stage) -> Seen:
    """A silence cannot be read there."""
    stage.have_nodes(1)
    stage.serve()
    stage.alertmanager_lever.away()
    for name in ("first", "second"):
        stage.cluster.pod(name)
    ran = _two_run(stage)
    for name in ("first", "second"):
        stage.cluster.delete_pod(name)
    stage.holds(lambda: not stage.removals(), "nothing removed while it is away", AWAY)
    stage.alertmanager_lever.back()
    gone = emptied(stage)
    return Seen(said="bought without it, removed with it", figures={"both_run_after": ran, "empty_after": gone})


@scenario(
    "a silence", "the pool is held while the silence stands, and the pod gets its node when it ends", monitoring=True
)
def silence(stage: Stage) -> Seen:
    """As a person sets it with amtool."""
    stage.serve()
    now = SystemClock().now()
    matchers = [
        {"name": n, "value": v, "isRegex": False} for n, v in (("component", "gpu-autoscaler"), ("pool", "gpu"))
    ]
    times = {"startsAt": now.isoformat(), "endsAt": (now + timedelta(hours=1)).isoformat()}
    said = {"matchers": matchers, **times, "createdBy": "conformance", "comment": "a scenario"}
    silences = f"{stage.alertmanager_url}/api/v2/silences"
    answer = requests.post(silences, json=said, timeout=30)
    answer.raise_for_status()
    try:
        stage.cluster.pod("train")
        held = stage.until(lambda: "not_silenced" in stage.product.held_by(), "a pool that is held by the silence")
        stage.holds(lambda: not stage.resizes(), "nothing bought while it stands", 5.0)
    finally:
        requests.delete(f"{silences[:-1]}/{answer.json()['silenceID']}", timeout=30)
    ran = stage.until(lambda: stage.cluster.running() == ["train"], "a pod that runs")
    return Seen(said="held by not_silenced, then bought", figures={"held_after": held, "runs_after": ran})
