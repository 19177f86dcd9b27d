"""The thread that reads from Civo what the configuration leaves out: it remembers, and is quiet."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from structlog.testing import capture_logs

from receiver.config import FileSettings
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.pool_facts import PoolAtCivo, PoolFacts
from receiver.ports import TryLater
from receiver.runtime.pool_reader import PoolReader
from tests.settings import settings_of

POOL = Pool(id="p", name="p", size="", resources={}, max_nodes=1)
SMALL, LARGE = "an.g1.l40s.kube.x1", "an.g1.l40s.kube.x8"


def facts(size: str = SMALL) -> PoolFacts:
    return PoolFacts(pools={"p": PoolAtCivo(size=size)}, gpus={SMALL: 1, LARGE: 8})


class Memory:
    """A store that a test closes."""

    def __init__(self, known: PoolFacts | None = None) -> None:
        self.known, self.is_open, self.kept = known, True, 0

    def pool_facts(self) -> PoolFacts | None:
        self._require()
        return self.known

    def keep_pool_facts(self, facts: PoolFacts) -> None:
        self._require()
        self.known, self.kept = facts, self.kept + 1

    def _require(self) -> None:
        if not self.is_open:
            raise TryLater("the store is closed")


def silent() -> PoolFacts:
    raise TryLater("Civo is late")


@dataclass
class Configured:
    """The configuration in force, of one pool; it notes that it was asked."""

    needed: bool = True
    refused: bool = True
    asked: threading.Event = field(default_factory=threading.Event)
    settings: FileSettings = field(default_factory=lambda: settings_of(Policy(pools=(POOL,))))

    @property
    def asks_civo(self) -> bool:
        self.asked.set()
        return self.needed


def reader(ask: Callable[[], PoolFacts], memory: Memory) -> PoolReader:
    return PoolReader(ask, memory, Configured(), waits=(0.01,))


def test_an_answer_is_stored_once() -> None:
    memory = Memory()
    found = reader(facts, memory)
    found.look()
    found.look()
    assert (found.facts, memory.known, memory.kept) == (facts(), facts(), 1)


def test_an_answer_that_the_store_did_not_take_is_stored_later() -> None:
    memory = Memory()
    found = reader(facts, memory)
    found.recall()
    memory.is_open = False
    found.look()
    assert found.facts == facts()
    memory.is_open = True
    found.look()
    assert memory.known == facts()


def test_a_size_that_a_late_store_remembers_is_not_replaced_by_the_answer_before_it() -> None:
    memory = Memory(facts())
    found = reader(lambda: facts(LARGE), memory)
    memory.is_open = False
    found.look()
    memory.is_open = True
    found.look()
    assert found.facts == memory.known == facts()


def test_what_the_store_remembers_holds_while_civo_is_silent() -> None:
    found = reader(silent, Memory(facts()))
    found.look()
    assert (found.facts, found.failure) == (facts(), "Civo is late")


def test_what_the_store_remembers_of_another_cluster_is_forgotten() -> None:
    memory = Memory(facts())
    there = replace(facts(LARGE), cluster="LON1/other")
    found = PoolReader(lambda: there, memory, Configured(), cluster="LON1/other")
    found.look()
    assert found.facts == memory.known == there


def test_another_size_is_logged_once_and_not_taken() -> None:
    memory = Memory(facts())
    found = reader(lambda: facts(LARGE), memory)
    with capture_logs() as logs:
        found.look()
        found.look()
    assert found.facts == facts()
    [told] = logs
    assert (told["event"], told["pool"], told["size"]) == ("pool keeps its size", "p", SMALL)
    assert f"write size: {LARGE}" in told["detail"]


@pytest.mark.parametrize("needed", [True, False])
def test_the_thread_asks_only_for_a_file_that_leaves_something_out(needed: bool) -> None:
    asked = threading.Event()

    def ask() -> PoolFacts:
        asked.set()
        return facts()

    live = Configured(needed, refused=False)
    found = PoolReader(ask, Memory(), live)
    found.start()
    assert live.asked.wait(10)
    found.stop()
    assert asked.is_set() is needed


def test_a_bug_does_not_end_the_thread() -> None:
    calls = threading.Semaphore(0)

    def ask() -> PoolFacts:
        calls.release()
        raise KeyError("a bug")

    found = reader(ask, Memory())
    with capture_logs():
        found.start()
        assert all(calls.acquire(timeout=10) for _ in range(3))
        found.stop()
