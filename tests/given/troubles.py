"""Troubles that come over a life: silent sources, and alerts and silences about the L40S pool."""

from dataclasses import replace
from datetime import datetime, timedelta

from receiver.core.model.signals import COMPONENT, Alert, Matcher, Silence
from receiver.ports import Delivery, TryLater
from receiver.replay.world.objects import PodSpec
from simulator.world import Pdb
from tests.core.builders import DAY, MINUTE
from tests.given.life import POOL, START, Life

UNANSWERED = TryLater("connection refused", code="unavailable")


def alert(name: str, action: str, pool: str = POOL, *, firing: bool = True, at: datetime = START) -> Alert:
    """One alert of ours as Alertmanager sends it."""
    labels = {"alertname": name, "component": COMPONENT, "action": action, "pool": pool}
    return Alert(fingerprint=f"{name}-{pool}", labels=labels, starts_at=at, firing=firing)


def deliver(life: Life, *alerts: Alert) -> None:
    """Let a webhook with *alerts* arrive now."""
    life.store.remember(Delivery(receiver="test", group_key="stories", alerts=alerts), life.now)


def frozen(life: Life) -> None:
    """An alert freezes the pool."""
    life.alarms.extra.append(alert("Maintenance", "freeze", at=life.now))


def silenced(life: Life, lasts: timedelta = DAY) -> None:
    """A silence of Alertmanager's pauses the pool."""
    matchers = (Matcher(name="component", value=COMPONENT), Matcher(name="pool", value="l40s"))
    life.alarms.silences.append(Silence(id="s", matchers=matchers, ends_at=life.now + lasts))


def civo_down(life: Life) -> None:
    """Civo does not answer."""
    life.cloud.fail_always(UNANSWERED)


def kubernetes_down(life: Life) -> None:
    """Kubernetes does not answer."""
    life.cluster.fail_always(UNANSWERED)


def prometheus_down(life: Life) -> None:
    """Prometheus does not answer."""
    life.telemetry.fail_always(UNANSWERED)


def alertmanager_down(life: Life) -> None:
    """Alertmanager does not answer."""
    life.alarms.fail_always(UNANSWERED)


def no_heartbeat(life: Life) -> None:
    """The heartbeat comes no more, and is missed after a minute."""
    life.heartbeats, life.policy = False, replace(life.policy, heartbeat_interval=MINUTE)


def dcgm_gone(life: Life) -> None:
    """No metric of a GPU arrives."""
    life.world.faults.telemetry_gone = True


def rules_dead(life: Life) -> None:
    """Prometheus answers, and evaluates no rules."""
    life.world.faults.rules_dead = True


def kept_by_a_disruption_budget(life: Life, node: str) -> None:
    """A pod on *node*, ml/web-0, may not be evicted."""
    pod = PodSpec(
        namespace="ml", name="web-0", node=node, owner_kind="ReplicaSet", owner_name="web", labels={"app": "web"}
    )
    life.world.add_pod(pod)
    life.world.pdbs.append(Pdb(namespace="ml", selector={"app": "web"}, min_available=1, name="keep-web"))
