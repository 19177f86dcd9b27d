"""Run the tests that reach a mutant, each mutant in a forked child of one process that has imported everything."""

import os
import resource
import shutil
import signal
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any, TypeVar

import coverage
import pytest

from tools.mutants.plant import Mutant, file_of, plant

ROOT = Path(__file__).resolve().parents[2]
CPU_LIMIT = 10  # seconds of an example beside five times what it took before: an endless loop counts as seen
LAW_LIMIT = 180  # seconds of a law
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

    *tests* are the files and folders of each module, *tell* is called with each result.
    """

    def __init__(
        self,
        chosen: Sequence[Mutant],
        tests: Mapping[str, tuple[str, ...]],
        workers: int,
        tell: Callable[[Seen], None],
        *,
        laws: bool = True,
    ) -> None:
        self.laws = laws
        self.chosen = chosen
        self.tests = {m: tuple((ROOT / place).resolve() for place in places) for m, places in tests.items()}
        self.workers = workers
        self.tell = tell
        self.broken: tuple[str, ...] = ()
        self._failed = False
        self._kills: dict[str, Counter[str]] = defaultdict(Counter)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self) -> None:
        """The profile of the laws: that one fails is all that is asked, however slow the machine is."""
        from hypothesis import HealthCheck, Phase, settings  # by pytest's plugin, and not before it

        phases, patient = (Phase.explicit, Phase.generate), list(HealthCheck)
        settings.register_profile(PROFILE, phases=phases, deadline=None, suppress_health_check=patient)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Map the tests, then run the mutants."""
        session.config.pluginmanager.unregister(name="terminalreporter")
        items = [item for item in session.items if self.laws or not _is_law(item)]
        files = sorted({str(file_of(m.module)) for m in self.chosen})
        reach = Reach(lines={}, seconds={}, failed=())
        examples, laws = ([item for item in items if _is_law(item) is law] for law in (False, True))
        shares = [
            (kind[n :: self.workers], of) for kind, of in ((examples, files), (laws, [])) for n in range(self.workers)
        ]
        for _, part in _in_children(((None, partial(self._map, *share)) for share in shares), self.workers):
            if part is None:
                raise pytest.UsageError("the tests end the process that runs them")
            reach.lines.update(part.lines)
            reach.seconds.update(part.seconds)
            self.broken += part.failed
        if not self.broken:
            jobs = ((m, self._job(m, items, reach)) for m in self.chosen)
            for mutant, found in _in_children(jobs, self.workers):
                by, law, seconds = found or ("an endless loop", False, 0.0)
                self._kills[mutant.function][by or ""] += 100
                self._kills[mutant.module][by or ""] += 1
                self.tell(Seen(mutant=mutant, by=by, law=law, seconds=seconds))
        return True

    def _map(self, items: Sequence[pytest.Item], files: Sequence[str]) -> Reach:
        """What *items* reach of *files*. Laws are run without: their random worlds reach every line."""
        measured = coverage.Coverage(include=files, data_file=None, config_file=False, messages=False)
        seconds, failed = {}, []
        if files:
            measured.start()
        for item, following in zip_longest(items, items[1:]):
            if files:
                measured.switch_context(item.nodeid)
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

    def _job(self, mutant: Mutant, items: Sequence[pytest.Item], reach: Reach) -> Callable[[], Tried]:
        """Examples before laws; first the tests that saw other mutants of the function, then those that are fast."""
        file, places, lines = str(file_of(mutant.module)), self.tests[mutant.module], set(mutant.lines)
        kills = self._kills[mutant.module] + self._kills[mutant.function]
        reaching = [
            item
            for item in items
            if any(item.path.is_relative_to(place) for place in places)
            and (_is_law(item) or not lines.isdisjoint(reach.lines[item.nodeid].get(file, ())))
        ]
        reaching.sort(key=lambda i: (_is_law(i), -kills[i.nodeid], reach.seconds.get(i.nodeid, 0)))
        return partial(self._try, mutant, reaching, reach.seconds)

    def _try(self, mutant: Mutant, items: Sequence[pytest.Item], usual: Mapping[str, float]) -> Tried:
        began = time.monotonic()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        plant(mutant)
        self._failed = False
        for item, following in zip_longest(items, items[1:]):
            limit = LAW_LIMIT if _is_law(item) else CPU_LIMIT + 5 * int(usual[item.nodeid])
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + limit, resource.RLIM_INFINITY))
            signal.alarm(20 * limit)  # for one that waits for ever
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return item.nodeid, _is_law(item), time.monotonic() - began
        return None, False, time.monotonic() - began


def _is_law(item: pytest.Item) -> bool:
    return item.get_closest_marker("hypothesis") is not None


def _in_children(jobs: Iterable[tuple[K, Callable[[], T]]], workers: int) -> Iterator[tuple[K, T | None]]:
    """Run each job in a forked child, *workers* at a time, and yield what it returned (None: a signal ended it).

    Raises ChildProcessError for one that failed in any other way: that must not pass for a mutant that was seen.
    """
    fork, waiting = get_context("fork"), iter(jobs)
    running: dict[Any, tuple[K, Any, str]] = {}
    while True:
        for key, job in islice(waiting, workers - len(running)):
            reader, writer = fork.Pipe(duplex=False)
            folder = tempfile.mkdtemp(prefix="mutants-")
            child = fork.Process(target=_run, args=(job, writer, folder))
            child.start()
            writer.close()
            running[reader] = key, child, folder
        if not running:
            return
        ready: Any
        for ready in connection.wait(list(running)):
            key, child, folder = running.pop(ready)
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


def _run(job: Callable[[], T], writer: Any, folder: str) -> None:
    os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = folder
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    writer.send(job())
    os._exit(0)
