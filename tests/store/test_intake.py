"""Deliveries that arrive together share a transaction, and none of them pays for another."""

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from receiver.adapters.store import SqlStore, open_store
from receiver.adapters.store.database import ValuesRefusedError
from receiver.adapters.store.intake import MOST_AT_ONCE, Intake, Received
from receiver.core.model.signals import HEARTBEAT_ALERT
from receiver.ports import TryLater
from tests.e2e.waiting import until
from tests.store.builders import NOW, after, alert, delivery, heartbeat

ROOT = Path(__file__).parents[2]
POISON = delivery(receiver="poison")
TOO_MANY = 10**30  # no engine's integer holds it


class Disk:
    """Keeps deliveries once it is let go; the batches tell which ones shared a transaction."""

    def __init__(self, error: Exception | None = None) -> None:
        self.free = threading.Event()
        self.batches: list[int] = []
        self.error = error
        self._kept = 0

    def keep(self, received: Sequence[Received]) -> Sequence[int]:
        self.batches.append(len(received))
        assert self.free.wait(10)
        if self.error is not None and any(d == POISON for d, _ in received):
            raise self.error
        self._kept += len(received)
        return range(self._kept - len(received) + 1, self._kept + 1)


class Crowd:
    """Deliveries that come one after the other while the first is being committed."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.intake = Intake(disk.keep)
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE + 20)

    def come(self, *receivers: str) -> list[Future[int]]:
        """Return the answers to come, after the disk was let go; a delivery of each receiver, in that order."""
        answers = [self._threads.submit(self.intake.remember, delivery(receiver=receivers[0]), NOW)]
        until(lambda: self.disk.batches, "the first is being committed")
        for number, receiver in enumerate(receivers[1:], 1):
            answers.append(self._threads.submit(self.intake.remember, delivery(receiver=receiver), NOW))
            until(lambda n=number: len(self.intake._waiting) == n, "it waits")  # type: ignore[misc]
        self.disk.free.set()
        self._threads.shutdown()
        return answers


def number_of(intake: Intake) -> int:
    """The number of a delivery that is kept within five seconds, however long a commit may gather."""
    answer: Future[int] = Future()
    threading.Thread(target=lambda: answer.set_result(intake.remember(delivery(), NOW)), daemon=True).start()
    return answer.result(5)


def test_who_comes_alone_commits_alone() -> None:
    disk = Disk()
    disk.free.set()
    intake = Intake(disk.keep)
    assert [intake.remember(delivery(), NOW) for _ in range(3)] == [1, 2, 3]
    assert disk.batches == [1, 1, 1]


def test_who_comes_alone_waits_for_nobody() -> None:
    disk = Disk()
    disk.free.set()
    intake = Intake(disk.keep, gather=60)
    assert [number_of(intake) for _ in range(3)] == [1, 2, 3]


def test_those_who_came_together_are_waited_for_when_one_of_them_comes_again() -> None:
    crowd = Crowd(Disk())
    assert [a.result(1) for a in crowd.come("a", "b", "c")] == [1, 2, 3]
    crowd.intake._gather_seconds = 60
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(crowd.intake.remember, delivery(), NOW)
        until(lambda: crowd.intake._enough, "it waits for the other")
        assert crowd.disk.batches == [1, 2]
        second = threads.submit(crowd.intake.remember, delivery(), NOW)
        assert [first.result(1), second.result(1)] == [4, 5]
    assert crowd.disk.batches == [1, 2, 2]


def test_who_did_not_come_again_is_waited_for_no_more() -> None:
    crowd = Crowd(Disk())
    assert [a.result(1) for a in crowd.come("a", "b", "c")] == [1, 2, 3]
    assert crowd.intake.remember(delivery(), NOW) == 4
    crowd.intake._gather_seconds = 60
    assert number_of(crowd.intake) == 5
    assert crowd.disk.batches == [1, 2, 1, 1]


def test_those_who_come_during_a_commit_share_the_next_one_in_the_order_they_came() -> None:
    crowd = Crowd(Disk())
    assert [a.result(1) for a in crowd.come("a", "b", "c", "d")] == [1, 2, 3, 4]
    assert crowd.disk.batches == [1, 3]


def test_one_transaction_takes_so_many_and_the_rest_the_next() -> None:
    crowd = Crowd(Disk())
    answers = crowd.come(*["a"] * (MOST_AT_ONCE + 3))
    assert sorted(a.result(1) for a in answers) == [*range(1, MOST_AT_ONCE + 4)]
    assert crowd.disk.batches == [1, MOST_AT_ONCE, 2]


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), ValuesRefusedError("too long", code="store")], ids=["bug", "refused"]
)
def test_one_that_cannot_be_kept_fails_alone(error: Exception) -> None:
    crowd = Crowd(Disk(error))
    first, before, poison, behind = crowd.come("a", "b", "poison", "c")
    assert [first.result(1), before.result(1), behind.result(1)] == [1, 2, 3]
    with pytest.raises(type(error), match=str(error)):
        poison.result(1)
    assert crowd.disk.batches == [1, 3, 1, 1, 1]


def test_when_the_store_is_down_everyone_is_told_after_one_try() -> None:
    crowd = Crowd(Disk(TryLater("disk full", code="store")))
    first, *others = crowd.come("a", "poison", "b", "c")
    assert first.result(1) == 1
    for answer in others:
        with pytest.raises(TryLater, match="disk full"):
            answer.result(1)
    assert crowd.disk.batches == [1, 3]  # each waits for a lock as long as it may, so it is not waited for again


def test_who_waits_too_long_for_others_is_told_to_come_again_and_is_not_kept() -> None:
    disk = Disk()
    intake = Intake(disk.keep, patience=0.05)
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(intake.remember, delivery(), NOW)
        until(lambda: disk.batches, "the first is being committed")
        for _ in range(2):  # one that waited, one that need not
            with pytest.raises(TryLater, match="other deliveries wait"):
                intake.remember(delivery(), NOW)
        disk.free.set()
        assert first.result(1) == 1
    assert intake.remember(delivery(), NOW) == 2
    assert disk.batches == [1, 1]


def test_after_a_commit_that_failed_one_delivery_tries_and_the_others_are_told_at_once() -> None:
    disk = Disk(TryLater("disk full", code="store"))
    disk.free.set()
    intake = Intake(disk.keep, patience=60)
    with pytest.raises(TryLater, match="disk full"):
        intake.remember(POISON, NOW)
    disk.free.clear()
    with ThreadPoolExecutor(1) as thread:
        tries = thread.submit(intake.remember, delivery(), NOW)
        until(lambda: len(disk.batches) == 2, "one tries")
        with pytest.raises(TryLater, match="other deliveries wait"):
            intake.remember(delivery(), NOW)
        disk.free.set()
        assert tries.result(1) == 1
    assert intake.remember(delivery(), NOW) == 2


def test_a_thread_that_is_ended_leaves_nobody_waiting() -> None:
    class Ended(BaseException):
        pass

    def keep(received: Sequence[Received]) -> Sequence[int]:
        if len(received) > 1:
            raise Ended
        return disk.keep(received)

    disk = Disk()
    crowd = Crowd(disk)
    crowd.intake = Intake(keep)
    first, *others = crowd.come("a", "b", "c")
    assert first.result(1) == 1
    for answer in others:
        with pytest.raises(Ended):
            answer.result(1)
    assert crowd.intake.remember(delivery(), NOW) == 2


def test_a_delivery_the_database_refuses_does_not_take_others_with_it(store: SqlStore) -> None:
    received = [(delivery(alert(f"f{n}"), truncated=TOO_MANY if n == 3 else 0), NOW) for n in range(8)]
    ready = threading.Barrier(8)

    def send(one: Received) -> int | None:
        ready.wait()
        try:
            return store.remember(*one)
        except (TryLater, OverflowError):
            return None

    with ThreadPoolExecutor(8) as threads:
        numbers = list(threads.map(send, received))
    assert [n is None for n in numbers] == [n == 3 for n in range(8)]
    assert {a.fingerprint: a.delivery for a in store.remembered_alerts(after(seconds=-1))} == {
        f"f{n}": number for n, number in enumerate(numbers) if n != 3
    }
    assert store.counts()["deliveries"] == 7


def test_of_a_batch_the_alerts_keep_their_deliveries_and_the_totals_add_up(store: SqlStore) -> None:
    batch = [
        (delivery(alert("a"), alert("b")), NOW),
        (delivery(), after(seconds=1)),
        (delivery(heartbeat()), after(seconds=2)),
        (delivery(alert("a", firing=False)), after(seconds=3)),
    ]
    first, _, third, fourth = store._keep(batch)
    assert fourth == first + 3
    found = {(a.fingerprint, a.labels["alertname"]): a.delivery for a in store.remembered_alerts(after(seconds=-1))}
    assert found == {
        ("a", alert().labels["alertname"]): fourth,
        ("b", alert().labels["alertname"]): first,
        (heartbeat().fingerprint, HEARTBEAT_ALERT): third,
    }
    counts = store.counts()
    assert (counts["deliveries"], sum(counts["alerts_by_action"].values())) == (4, 4)
    assert (counts["last_delivery_at"], counts["heartbeat_at"]) == (after(seconds=3), after(seconds=2))


ACKNOWLEDGE_AND_DIE = """
import os, signal, sys, threading
from receiver.adapters.store import open_store
from tests.store.builders import NOW, alert, delivery
store = open_store(sys.argv[1])
def send():
    while True:
        os.write(1, b"%d\\n" % store.remember(delivery(alert()), NOW))
for _ in range(8):
    threading.Thread(target=send, daemon=True).start()
sys.stdin.read(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_acknowledged_out_of_a_batch_survives_kill_9(url: str) -> None:
    command = [sys.executable, "-c", ACKNOWLEDGE_AND_DIE, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        acknowledged = [process.stdout.readline() for _ in range(100)]
        process.stdin.write("x")
        process.stdin.flush()
        acknowledged += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    store = open_store(url)
    kept = set(store.memory(NOW, NOW).deliveries)
    store.close()
    assert {int(number) for number in acknowledged} <= kept
