"""A store in which everything happened that the server counts, and the single events."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from receiver.core.model.actions import ActionKind, Outcome, OutcomeKind
from receiver.core.model.memory import Control
from receiver.core.model.model import Drift
from receiver.core.model.signals import HEARTBEAT_ALERT, Alert
from receiver.core.notices.notice import Notice
from receiver.ports import Delivery, StoredNotice
from simulator.store import MemoryStore
from tests.web.builders import L40S, NOW, a_decision, a_full_store, a_life, an_action
from tests.web.stores import add_actions, add_decisions, add_messages

BUILT_IN = (100, 100, 200.125, 2000)  # seconds until Civo had built each node


def a_counted_store() -> MemoryStore:
    """A full store in which pool l40s also grew 3 times by decision and twice in fact, and stayed as it is 9 times; 31
    alerts and the heartbeat came; 5 messages were sent and 1 waits; others changed the count twice."""
    store = a_full_store()
    for number in range(43, 45):
        add_decisions(store, a_decision(number, present=number, target=number + 1))
    for number in range(45, 54):
        add_decisions(store, a_decision(number, present=number, target=number))
    for number in range(2):
        grown = Outcome(kind=OutcomeKind.CONFIRMED, at=NOW - timedelta(minutes=9), detail="")
        add_actions(store, an_action(id=f"grow-{number}", kind=ActionKind.GROW, victims=(), outcome=grown))
    hear(store, NOW - timedelta(seconds=50), "heartbeat", alertname=HEARTBEAT_ALERT)
    hear(store, NOW - timedelta(seconds=20), *("scale_up",) * 30, "lunch")
    for number in range(6):
        sent_at = None if number == 5 else NOW - timedelta(minutes=1)
        add_messages(store, a_message(str(number), timedelta(minutes=2), sent_at))
    for at in (NOW - timedelta(hours=2), NOW - timedelta(hours=1)):
        store.saw((), {L40S: 3}, at, drifts={L40S: Drift(at=at, from_count=3, to_count=4)})
    build(store, *BUILT_IN)
    store.keep_control(Control(at=NOW - timedelta(seconds=7)))
    return store


def hear(store: MemoryStore, at: datetime, *actions: str, alertname: str = "GpuPodsPending") -> None:
    """Deliver alerts with these *actions* at once."""
    labels = [{"alertname": alertname, "action": action} for action in actions]
    alerts = [Alert(fingerprint=f"f{n}", labels=each, starts_at=at, firing=True) for n, each in enumerate(labels)]
    store.remember(Delivery(receiver="test", group_key="g", alerts=tuple(alerts)), at)


def a_message(topic: str, ago: timedelta, sent_at: datetime | None = None) -> StoredNotice:
    """A message put into the outbox so long *ago*."""
    notice = Notice(cause="grew", topic=topic, key="k", title="l40s grew", body="")
    return StoredNotice(id=1, notice=notice, at=NOW - ago, sent_at=sent_at)


def build(store: MemoryStore, *seconds: float, pool: str = L40S) -> None:
    """Let Civo build nodes of *pool* in so many *seconds*."""
    began = NOW - timedelta(hours=5)
    for number, took in enumerate(seconds):
        built = began + timedelta(seconds=took)
        life = a_life(f"i-{pool}-{number}", pool=pool, created_at=began, price_usd_per_hour=Decimal(0))
        store.saw([life], {}, began)
        store.saw([replace(life, seen_at=began, active_at=built)], {}, built)
