"""Run the tests that reach a mutant, each mutant in a forked child of one process that has imported everything."""

import os
import resource
import shutil
import signal
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count, islice, zip_longest
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any, TypeVar

import coverage
import pytest

from demo.postgres import SERVER, postgres_programs, postgres_server
from tools.mutants.plant import Mutant, file_of, forget, plant

CPU_LIMIT = 10  # seconds of an example beside five times what it took before: an endless loop counts as seen
LAW_LIMIT = 180  # seconds of a law
MUTANT_LIMIT = 240  # CPU seconds of all tests of a mutant, after which it counts as not seen
PROFILE = "mutants"
MEMORY_LIMIT = 4 << 30  # bytes: so does a list without end


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The test that saw *mutant* (None: it survived), whether that is a law, and how many seconds that took."""

    mutant: Mutant
    by: str | None
    law: bool
    seconds: float


Tried = tuple[str | None, bool, float]
K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Which lines of which files each test reached, and its CPU seconds; *failed* did so without a mutant."""

    lines: dict[str, dict[str, set[int]]]
    seconds: dict[str, float]
    failed: tuple[str, ...]


class Campaign:
    """A pytest plugin that runs, in place of the session's tests, for each of *chosen* those that reach it.

    *rings* are the test files of each module, nearest first: a ring is run for what the rings before it did not see,
    the laws of all rings last. *tell* is called with each result. *laws*: also run laws, *postgres*: also tests on
    PostgreSQL, each child on a server of this process, as it would leave its own running.
    """

    def __init__(
        self,
        chosen: Sequence[Mutant],
        rings: Mapping[str, Sequence[Collection[Path]]],
        workers: int,
        tell: Callable[[Seen], None],
        *,
        laws: bool = True,
        postgres: bool = False,
    ) -> None:
        self.laws = laws
        self.postgres = postgres
        self._servers: list[str] = []  # by worker
        self.chosen = chosen
        self.rings = rings
        self.workers = workers
        self.tell = tell
        self.broken: tuple[str, ...] = ()
        self._failed = False
        self._kills: dict[str, Counter[str]] = defaultdict(Counter)
        self._reach = Reach(lines={}, seconds={}, failed=())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken += (f"{report.nodeid}: {report.longreprtext}",)

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self) -> None:
        """The profile of the laws: that one fails is all that is asked, however slow the machine is."""
        from hypothesis import HealthCheck, Phase, settings  # by pytest's plugin, and not before it

        phases, patient = (Phase.explicit, Phase.generate), list(HealthCheck)
        settings.register_profile(PROFILE, phases=phases, deadline=None, suppress_health_check=patient)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run all mutants, with a database server for each worker if tests are to have one."""
        session.config.pluginmanager.unregister(name="terminalreporter")
        if self.broken:
            return True
        programs = postgres_programs() if self.postgres else None
        with ExitStack() as servers:
            if programs is not None:
                self._servers = [servers.enter_context(postgres_server(programs)) for _ in range(self.workers)]
            return self._run_all(session)

    def _run_all(self, session: pytest.Session) -> bool:
        """Ring by ring, map the tests and run the mutants that are still alive."""
        alive = dict.fromkeys(self.chosen, 0.0)  # and the seconds that each has cost so far
        for number, tests in enumerate(self._rings(session.items), 1):
            near = {m.module: tests.get(m.module, ()) for m in alive}
            print(f"ring {number}: {sum(map(len, near.values()))} tests, {len(alive)} mutants alive", flush=True)
            self._measure([item for item in session.items if any(item in items for items in near.values())])
            if self.broken:
                return True
            jobs = [(m, self._job(m, near[m.module], spent)) for m, spent in alive.items() if near[m.module]]
            for mutant, result in _in_children(jobs, self.workers, self._servers):
                by, law, seconds = result or ("an endless loop", False, 0.0)
                alive[mutant] += seconds
                if by is not None:
                    self._kills[mutant.function][by] += 100
                    self._kills[mutant.module][by] += 1
                    self.tell(Seen(mutant=mutant, by=by, law=law, seconds=alive.pop(mutant)))
        for mutant, spent in alive.items():
            self.tell(Seen(mutant=mutant, by=None, law=False, seconds=spent))
        return True

    def _rings(self, items: Sequence[pytest.Item]) -> Iterator[dict[str, list[pytest.Item]]]:
        """The tests of each module, ring by ring."""
        for n in range(max(len(rings) for rings in self.rings.values())):
            yield {
                module: [i for i in items if i.path in rings[n] and not _is_law(i)]
                for module, rings in self.rings.items()
                if n < len(rings)
            }
        if self.laws:
            yield {
                module: [i for i in items if _is_law(i) and any(i.path in ring for ring in rings)]
                for module, rings in self.rings.items()
            }

    def _measure(self, items: Sequence[pytest.Item]) -> None:
        """Add to the map what *items* reach that are not in it. Laws are only timed: they reach every line."""
        files = sorted({str(file_of(m.module)) for m in self.chosen})
        new = [item for item in items if item.nodeid not in self._reach.seconds]
        examples, laws = ([item for item in new if _is_law(item) is law] for law in (False, True))
        kinds = ((kind, of) for kind, of in ((examples, files), (laws, [])) if kind)
        shares = [(kind[n :: self.workers], of) for kind, of in kinds for n in range(self.workers)]
        for _, part in _in_children(
            ((None, partial(self._map, *share)) for share in shares), self.workers, self._servers
        ):
            if part is None:
                raise pytest.UsageError("the tests end the process that runs them")
            self._reach.lines.update(part.lines)
            self._reach.seconds.update(part.seconds)
            self.broken += part.failed

    def _map(self, items: Sequence[pytest.Item], files: Sequence[str]) -> Reach:
        """What *items* reach of *files*. Laws are run without: their random worlds reach every line."""
        measured = coverage.Coverage(include=files, data_file=None, config_file=False, messages=False)
        measured.set_option("run:disable_warnings", ["no-data-collected"])  # *items* may reach nothing of *files*
        seconds, failed = {}, []
        modules = {m.module for m in self.chosen} if files else ()
        if files:
            measured.start()
        for item, following in zip_longest(items, items[1:]):
            if files:
                measured.switch_context(item.nodeid)
            for module in modules:
                forget(module)
            before, self._failed = time.process_time(), False
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            seconds[item.nodeid] = time.process_time() - before
            if self._failed:
                failed.append(item.nodeid)
        if files:
            measured.stop()
        lines: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for file in files:
            for line, contexts in measured.get_data().contexts_by_lineno(file).items():
                for test in contexts:
                    lines[test][file].add(line)
        return Reach(
            lines={item.nodeid: dict(lines[item.nodeid]) for item in items}, seconds=seconds, failed=tuple(failed)
        )

    def _job(self, mutant: Mutant, items: Sequence[pytest.Item], spent: float) -> Callable[[], Tried]:
        """First the tests that saw other mutants of the function, then those that are fast."""
        file, lines = str(file_of(mutant.module)), set(mutant.lines)
        kills = self._kills[mutant.module] + self._kills[mutant.function]
        reach = self._reach
        reaching = [
            item for item in items if _is_law(item) or not lines.isdisjoint(reach.lines[item.nodeid].get(file, ()))
        ]
        reaching.sort(key=lambda i: (-kills[i.nodeid], reach.seconds[i.nodeid]))
        return partial(self._try, mutant, reaching, spent)

    def _try(self, mutant: Mutant, items: Sequence[pytest.Item], spent: float) -> Tried:
        began = time.monotonic()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        plant(mutant)
        self._failed = False
        for item, following in zip_longest(items, items[1:]):
            limit = LAW_LIMIT if _is_law(item) else CPU_LIMIT + 5 * int(self._reach.seconds[item.nodeid])
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + limit, resource.RLIM_INFINITY))
            signal.alarm(20 * limit)  # for one that waits for ever
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return item.nodeid, _is_law(item), time.monotonic() - began
            if spent + time.process_time() > MUTANT_LIMIT:
                break
        return None, False, time.monotonic() - began


def _is_law(item: pytest.Item) -> bool:
    return item.get_closest_marker("hypothesis") is not None


def _in_children(
    jobs: Iterable[tuple[K, Callable[[], T]]], workers: int, servers: Sequence[str]
) -> Iterator[tuple[K, T | None]]:
    """Run each job in a forked child, *workers* at a time, and yield what it returned (None: a signal ended it). Each
    worker has one of the database *servers*; without them tests on PostgreSQL are skipped.

    Raises ChildProcessError for one that failed in any other way: that must not pass for a mutant that was seen.
    """
    fork, waiting = get_context("fork"), iter(jobs)
    running: dict[Any, tuple[K, Any, str, int]] = {}
    while True:
        for key, job in islice(waiting, workers - len(running)):
            reader, writer = fork.Pipe(duplex=False)
            folder = tempfile.mkdtemp(prefix="mutants-")
            worker = next(n for n in count() if n not in {used for *_, used in running.values()})
            server = servers[worker] if servers else ""
            child = fork.Process(target=_run, args=(job, writer, folder, server))
            child.start()
            writer.close()
            running[reader] = key, child, folder, worker
        if not running:
            return
        ready: Any
        for ready in connection.wait(list(running)):
            key, child, folder, _ = running.pop(ready)
            try:
                result = ready.recv()
            except EOFError:
                result = None
            ready.close()
            child.join()
            shutil.rmtree(folder, ignore_errors=True)
            if child.exitcode > 0:  # it wrote its traceback
                raise ChildProcessError(f"{getattr(key, 'name', key)}: it could not be tried")
            yield key, result


def _run(job: Callable[[], T], writer: Any, folder: str, server: str) -> None:
    os.environ[SERVER] = server
    os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = folder
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    writer.send(job())
    os._exit(0)
