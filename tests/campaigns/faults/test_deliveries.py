"""Invariant 3 at each write of a step: a remembered delivery is considered, whatever the crash comes between."""

from datetime import timedelta
from typing import Any

import pytest

from campaigns.faults.doors import PORTS, Door, Doors
from campaigns.faults.lines import CrashError
from receiver.core.model.signals import Alert
from receiver.ports import Delivery, Store
from tests.given import lives
from tests.given.life import START

STORE_WRITES = PORTS["store"][PORTS["store"].index("saw") :]

MADE_FOR_PEOPLE = ("say", "keep_snapshot")  # a step that dies there has done everything else


class Nobody:
    """Watches nothing."""

    def __getattr__(self, _name: str) -> object:
        return lambda *_: None


@pytest.mark.parametrize("write", STORE_WRITES)
def test_a_delivery_survives_a_crash_until_it_was_considered(write: str, store: Store) -> None:
    doors = Doors(Nobody(), lambda: START, [], {})  # type: ignore[arg-type] # it answers to every name
    door: Any = Door("store", store, doors)
    life = lives.waiting(door, heartbeats=False)
    alert = Alert(fingerprint="f", labels={"action": "scale_up"}, starts_at=START)
    number = store.remember(Delivery(receiver="r", group_key="g", alerts=(alert,)), life.now)
    doors.arm(f"store.{write}", "crash", after=False)
    try:
        life.step()
    except CrashError:
        life.world.advance(life.now + timedelta(seconds=4))
        again = lives.restarted(life, store, heartbeats=False)
        left = store.memory(life.now, life.now).deliveries
        assert (number not in left) == (write in MADE_FOR_PEOPLE), "considered before what is made for people"
        assert again.step().facts.deliveries == left
    else:
        assert doors.armed, "the step made that write and no crash came of it"
