"""The process dies where it was told to, and the database refuses as SQLite does."""

import pytest

from receiver.adapters.store import SqlStore
from receiver.core.model.signals import Alert
from receiver.ports import Delivery, TryLater
from tests.faults.campaign import judge
from tests.faults.generate import scenario
from tests.faults.lines import CrashError, LineTrap
from tests.faults.stores import ILLNESSES, ill, rebuilt
from tests.step.harness import START, Life, a_job, a_policy, a_world

DYING = 86  # a short world in which the process is to die sixteen times
DELIVERY = Delivery(receiver="r", group_key="g", alerts=(Alert(fingerprint="f", labels={}, starts_at=START),))


def test_the_process_dies_at_the_line_that_it_was_told_and_only_once(emptied: SqlStore) -> None:
    life, trap = Life(world=a_world(), policy=a_policy(), store=emptied), LineTrap()
    life.submit(a_job())
    trap.arm("step/carry_out", 3)
    with pytest.raises(CrashError), trap.watching():
        life.step()
    assert trap.died_at.startswith("step/carry_out.py:")
    with trap.watching():
        life.step()


def test_a_world_dies_at_lines_of_its_own_and_holds(emptied: SqlStore) -> None:
    result = judge(scenario(DYING), emptied)
    assert result.message == ""
    assert len(result.tally.lines) >= 3


@pytest.mark.parametrize("how", ILLNESSES)
def test_an_ill_database_takes_no_delivery_and_a_healthy_one_takes_it_again(how: str, emptied: SqlStore) -> None:
    large = Delivery(receiver="r", group_key="g" * 1_000_000, alerts=DELIVERY.alerts)  # a full file has some room left
    with ill(emptied, how), pytest.raises(TryLater):
        emptied.remember(large, START)
    kept = emptied.memory(START, START).deliveries
    assert emptied.remember(DELIVERY, START) not in kept
    assert len(rebuilt(emptied).memory(START, START).deliveries) == len(kept) + 1
