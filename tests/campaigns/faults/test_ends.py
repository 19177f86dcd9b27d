"""The process dies where it was told to, and the database refuses as SQLite does."""

import pytest

from campaigns.faults.campaign import judge
from campaigns.faults.generate import scenario
from campaigns.faults.lines import IN_MEMORY, CrashError, LineTrap
from receiver.core.model.signals import Alert
from receiver.ports import Delivery, TryLater
from simulator.store import MemoryStore
from tests.given import lives
from tests.given.life import START, a_job
from tests.stores import ILLNESSES, WorldStore, ill, rebuilt

DYING = 86  # a short world in which the process is to die sixteen times
DELIVERY = Delivery(receiver="r", group_key="g", alerts=(Alert(fingerprint="f", labels={}, starts_at=START),))


def test_the_process_dies_at_the_line_that_it_was_told_and_only_once(emptied: MemoryStore) -> None:
    life, trap = lives.at_zero(emptied), LineTrap()
    life.submit(a_job())
    trap.arm("step/carry_out", 3)
    with pytest.raises(CrashError), trap.watching():
        life.step()
    assert trap.died_at.startswith("step/carry_out.py:")
    with trap.watching():
        life.step()


@pytest.mark.parametrize("stored", ["emptied", pytest.param("real", marks=pytest.mark.nightly)])
def test_a_world_dies_at_lines_of_its_own_and_holds(stored: str, request: pytest.FixtureRequest) -> None:
    result = judge(scenario(DYING), request.getfixturevalue(stored))
    assert result.message == ""
    assert len(result.tally.lines) >= 3


@pytest.mark.parametrize("stored", ["emptied", "real"])
@pytest.mark.parametrize("how", ILLNESSES)
def test_an_ill_database_takes_no_delivery_and_a_healthy_one_takes_it_again(
    how: str, stored: str, request: pytest.FixtureRequest
) -> None:
    store: WorldStore = request.getfixturevalue(stored)
    large = Delivery(receiver="r", group_key="g" * 1_000_000, alerts=DELIVERY.alerts)  # a full file has some room left
    with ill(store, how), pytest.raises(TryLater):
        store.remember(large, START)
    kept = store.memory(START, START).deliveries
    assert store.remember(DELIVERY, START) not in kept
    assert len(rebuilt(store).memory(START, START).deliveries) == len(kept) + 1


@pytest.mark.parametrize("lines", [3, 4])
def test_in_memory_a_process_dies_after_a_call_or_before_the_next_and_never_within(
    lines: int, emptied: MemoryStore
) -> None:
    trap = LineTrap()
    emptied.forget()
    trap.arm(f"{IN_MEMORY}people", lines)
    with pytest.raises(CrashError), trap.watching():
        deliver_for_ever(emptied)
    assert emptied.counts()["deliveries"] == emptied.counts()["alerts_by_action"]["other"] == 1
    assert trap.died_at.startswith(f"{IN_MEMORY}people.py:")


def deliver_for_ever(store: MemoryStore) -> None:
    while True:
        store.remember(DELIVERY, START)
