"""Run tests in several processes, forked from one that has collected them: ``pytest -p tools.forked_tests --forks=4``.

pytest-xdist starts each worker as a new interpreter, which imports the product and collects all tests for itself: seven
seconds of processor time each, and twenty where nothing is compiled yet. A fork has all of that already. Workers take
one file after the other, in the order of the collection, and send their reports to the process that collected.
"""

import multiprocessing
import os
import random
import signal
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

FORKS = multiprocessing.get_context("fork")
# Folders whose files share a browser and a stack, or a PostgreSQL: each further worker would start its own.
ONE_WORKER = tuple(Path(__file__).parents[1] / "tests" / folder for folder in ("browser", "adapters/store"))
INDEX = 2  # bytes of a file's number in the queue


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the number of workers."""
    parser.addoption("--forks", type=int, default=0, metavar="N", help="run the tests in N forked processes")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests of *session* in forks of this process, where they are asked for."""
    options = session.config.option
    if not options.forks or options.collectonly or session.testsfailed:
        return None  # pytest's own loop, which also refuses to begin after an error of the collection
    files = _taken_together(session.items)
    queue = _filled_queue(len(files))
    folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all workers
    workers: dict[Connection, BaseProcess] = {}
    try:
        for number in range(options.forks):
            reader, writer = FORKS.Pipe(duplex=False)
            target, arguments = _work, (session, files, queue, writer, folder / f"worker-{number}")
            workers[reader] = FORKS.Process(target=target, args=arguments, name=f"worker-{number}")
            workers[reader].start()
            writer.close()
        for report in _reports(session, workers):
            session.config.hook.pytest_runtest_logreport(report=report)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
    except BaseException:
        for process in workers.values():
            process.terminate()
        raise
    finally:
        os.close(queue)
        for process in workers.values():
            process.join()
    return True


def _taken_together(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """Return the tests that one worker takes at once: those of a file, or of a folder in ONE_WORKER."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        folder = item.path.parent
        files.setdefault(folder if folder in ONE_WORKER else item.path, []).append(item)
    return list(files.values())


def _filled_queue(count: int) -> int:
    """Return the reading end of a pipe that holds the numbers below *count*, which processes take from it in turn."""
    reading, writing = os.pipe()
    os.write(writing, b"".join(number.to_bytes(INDEX) for number in range(count)))
    os.close(writing)
    return reading


def _reports(session: pytest.Session, workers: dict[Connection, BaseProcess]) -> Iterator[pytest.TestReport]:
    """Yield the reports of *workers* until each has ended. Raises Failed if one ends before its last test does."""
    hook, latest = session.config.hook, dict.fromkeys(workers, "any test")
    running = list(workers)
    while running:
        for worker in wait(running):
            assert isinstance(worker, Connection)
            try:
                data = worker.recv()
            except EOFError:
                workers[worker].join()
                name, code = workers[worker].name, workers[worker].exitcode
                session.shouldfail = f"{name} ended with {code} in or after {latest[worker]}"
                raise session.Failed(session.shouldfail) from None
            if data is None:
                running.remove(worker)
                continue
            for one in data:
                report = hook.pytest_report_from_serializable(config=session.config, data=one)
                latest[worker] = report.nodeid
                yield report


class _Sender:
    """Stands for the terminal in a worker: sends its reports to the process that collected.

    They go in one message per test, which wakes that process once: when the test after it has been set up.
    """

    def __init__(self, config: pytest.Config, to: Connection) -> None:
        self._config, self._to, self._unsent = config, to, list[object]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep *report*, and send what has come together where the next test begins."""
        self._unsent.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))
        if report.when == "setup":
            self.send()

    def send(self) -> None:
        """Send what is not sent."""
        self._to.send(self._unsent)
        self._unsent.clear()


def _work(
    session: pytest.Session, files: Sequence[Sequence[pytest.Item]], queue: int, to: Connection, folder: Path
) -> None:
    """Run files of the *queue* as a worker, with its temporary files in *folder*."""
    config = session.config
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # fixtures are torn down before it ends
    random.seed()
    folder.mkdir(mode=0o700)
    config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]  # pytest has no other way
    plugins = config.pluginmanager
    capture = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()  # what is captured goes to a file, which a fork shares
    capture.start_global_capturing()
    capture.suspend_global_capture()
    plugins.unregister(plugins.getplugin("terminalreporter"))
    sender = _Sender(config, to)
    plugins.register(sender)
    try:
        _run(files, queue)
    finally:
        session._setupstate.teardown_exact(None)
        sender.send()
    to.send(None)


def _run(files: Sequence[Sequence[pytest.Item]], queue: int) -> None:
    """Run one file of the *queue* after the other."""
    file = _taken(files, queue)
    while file:
        following: Sequence[pytest.Item] = ()
        for item, next_item in zip(file, [*file[1:], None], strict=True):
            if next_item is None:
                following = _taken(files, queue)
                next_item = following[0] if following else None  # the fixtures of both go on
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
        file = following


def _taken(files: Sequence[Sequence[pytest.Item]], queue: int) -> Sequence[pytest.Item]:
    """Take the next file from the *queue*; nothing where all are taken."""
    number = os.read(queue, INDEX)
    return files[int.from_bytes(number)] if number else ()
