"""Processes that open a store or take its lock and end badly, forked from one that has imported both.

Each function here is what such a process does; it answers by a pipe.
"""

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from receiver.adapters.leader import WriterLock
from receiver.adapters.store import open_store
from receiver.ports import TryLater
from tests.adapters.store.builders import NOW, after, alert, delivery
from tests.e2e.forked import FORKS


@contextmanager
def forked(work: Callable[[Connection, str], None], url: str) -> Iterator[tuple[BaseProcess, Connection]]:
    """Run *work* on the store at *url* in a process of its own, which ends with the block; yield it and its answers."""
    answers, answer = FORKS.Pipe()
    process = FORKS.Process(target=work, args=(answer, url), daemon=True)
    process.start()
    answer.close()
    try:
        yield process, answers
    finally:
        process.kill()
        process.join(30)
        process.close()
        answers.close()


def remember_and_die(answer: Connection, url: str) -> None:
    """Remember a delivery, answer its number, and end by SIGKILL."""
    answer.send(open_store(url).remember(delivery(alert("survivor")), NOW))
    os.kill(os.getpid(), signal.SIGKILL)


def remember_for_ever(answer: Connection, url: str) -> None:
    """Remember deliveries from eight threads; each number is a line in the pipe."""
    store = open_store(url)

    def send() -> None:
        while True:
            os.write(answer.fileno(), b"%d\n" % store.remember(delivery(alert()), NOW))

    for _ in range(8):
        threading.Thread(target=send, daemon=True).start()
    signal.pause()


def write_on_a_full_disk(answer: Connection, url: str) -> None:
    """Answer what a large write and a check say while no file may grow, and whether the store is whole afterwards."""
    store = open_store(url)
    number = store.remember(delivery(), NOW)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, resource.RLIM_INFINITY))
    told = []
    for attempt in (lambda: store.remember(delivery(body="x" * (1 << 20)), NOW), store.check):
        try:
            attempt()
            told.append("written")
        except TryLater as error:
            told.append(f"{error.code} {error}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.check()
    answer.send((told, store.memory(NOW, NOW).deliveries == (number,)))


def hold_the_lock(answer: Connection, url: str) -> None:
    """Take the writer lock, answer whether it is held, and keep it."""
    lock = WriterLock(url)
    answer.send((lock.try_acquire(), lock.held()))
    signal.pause()


def hold_the_lock_as_an_orphan(answer: Connection, url: str) -> None:
    """Answer whether the writer lock is held before and after the parent has died."""
    ready = os.pipe()
    if os.fork():
        os.read(ready[0], 1)
        os._exit(0)
    lock = WriterLock(url)
    before = lock.try_acquire(), lock.held()
    parent = os.getppid()
    os.write(ready[1], b"x")
    deadline = time.monotonic() + 20
    while os.getppid() == parent and time.monotonic() < deadline:
        time.sleep(0.01)
    answer.send((before, lock.held()))
    os._exit(0)


def open_when_told(answer: Connection, url: str) -> None:
    """Say that it is ready, open the store at a word, and answer the number of a delivery or what went wrong."""
    answer.send("ready")
    answer.recv()
    try:
        store = open_store(url, lock_wait=30)
        answer.send(store.remember(delivery(), after(seconds=1)))
        store.close()
    except Exception as error:
        answer.send(repr(error))
        raise
