"""Run tests in processes that are forked after one collection: ``pytest -p tools.forked_workers --workers 4``.

Each worker of pytest-xdist imports and collects the whole suite again, which costs as much as a thousand tests of the
core. Here one process collects, in which all is compiled once too, and its forks run whole files in the order of the
collection, each taking the next one when it begins the last that it has. Reports come back through pipes. Warnings are
not passed on: here they are errors.
"""

import os
import signal
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

import pytest

PLACE = struct.Struct("=i")  # of a file in the queue
MOST_FILES = 65_536 // PLACE.size  # all that a pipe holds
Files = list[list[pytest.Item]]


@dataclass
class Worker:
    """A fork as its parent sees it, with the test that it runs."""

    pid: int
    reports: Connection
    running: tuple[str, tuple[str, int | None, str]] = ("", ("", None, ""))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the number of workers."""
    parser.addoption("--workers", type=int, default=0, help="run the tests in this many forks; 0 for none")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Fork, and pass on what the workers report; a worker runs its tests, and ends as a session without a terminal."""
    count = session.config.getoption("--workers")
    if not count or session.testsfailed or session.config.option.collectonly:
        return None
    by_path: dict[Path, list[pytest.Item]] = {}
    for item in session.items:
        by_path.setdefault(item.path, []).append(item)
    files = list(by_path.values())
    assert len(files) <= MOST_FILES
    queue, queued = os.pipe()
    os.write(queued, b"".join(map(PLACE.pack, range(len(files)))))
    os.close(queued)
    temporary: Path = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    workers: list[Worker] = []
    for number in range(min(count, len(files))):
        receiving, sending = Pipe(duplex=False)
        pid = os.fork()
        if pid == 0:
            for connection in (receiving, *(worker.reports for worker in workers)):
                connection.close()
            _become_worker(session.config, sending, temporary / f"worker-{number}")
            _run(session, _taken(files, queue))
            sending.send(("done", None))
            return True
        sending.close()
        workers.append(Worker(pid, receiving))
    os.close(queue)
    try:
        _pass_on(session, workers)
    finally:
        for worker in workers:
            os.waitpid(worker.pid, 0)
    return True


def _become_worker(config: pytest.Config, reports: Connection, temporary: Path) -> None:
    """Let this fork print nothing, share no temporary files with others, and send what its tests come to."""
    config.workerinput = {}  # type: ignore[attr-defined]  # by which plugins know that this is not the whole session
    config.pluginmanager.unregister(name="terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    config.option.basetemp = str(temporary)
    factory = pytest.TempPathFactory.from_config(config, _ispytest=True)
    config._tmp_path_factory = factory  # type: ignore[attr-defined]
    config.pluginmanager.register(_Sender(config, reports))


class _Sender:
    """What passes a worker's reports to its parent."""

    def __init__(self, config: pytest.Config, reports: Connection) -> None:
        self._config = config
        self._reports = reports

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        """Say which test runs now, to be named if it ends the worker."""
        self._reports.send(("begun", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report as pytest serializes it."""
        self._reports.send(
            ("report", self._config.hook.pytest_report_to_serializable(config=self._config, report=report))
        )

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        """Say that a test is over."""
        self._reports.send(("ended", (nodeid, location)))


def _taken(files: Files, queue: int) -> Iterator[pytest.Item]:
    """Yield the tests of the files that this worker takes from the queue."""
    while place := os.read(queue, PLACE.size):
        yield from files[PLACE.unpack(place)[0]]


def _run(session: pytest.Session, items: Iterator[pytest.Item]) -> None:
    """Run *items* as pytest's own loop does; a fixture of the session lives until the last."""
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        item = following


def _pass_on(session: pytest.Session, workers: list[Worker]) -> None:
    """Hand every report to the session until each worker is done, and report the test in which one died."""
    hook = session.config.hook
    by_connection: dict[Any, Worker] = {worker.reports: worker for worker in workers}
    while by_connection:
        for connection in wait(list(by_connection)):
            worker = by_connection[connection]
            try:
                kind, content = worker.reports.recv()
            except EOFError:
                kind, content = "died", None
            if kind == "begun":
                worker.running = content
                hook.pytest_runtest_logstart(nodeid=content[0], location=content[1])
            elif kind == "report":
                report = hook.pytest_report_from_serializable(config=session.config, data=content)
                hook.pytest_runtest_logreport(report=report)
            elif kind == "ended":
                hook.pytest_runtest_logfinish(nodeid=content[0], location=content[1])
            else:
                del by_connection[connection]
                if kind == "died" and not session.shouldfail:
                    hook.pytest_runtest_logreport(report=_death(worker))
        if session.shouldfail:
            for worker in by_connection.values():
                os.kill(worker.pid, signal.SIGINT)
            raise session.Failed(session.shouldfail)


def _death(worker: Worker) -> pytest.TestReport:
    nodeid, location = worker.running
    text = f"the worker with process id {worker.pid} died in or after {nodeid}; what it had still to run was not run"
    return pytest.TestReport(nodeid, location, {}, "failed", text, "call")
