"""What every test shares."""

import gc
import importlib
import os
from collections.abc import Callable, Generator
from itertools import chain, zip_longest
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from demo.postgres import postgres_programs
from tests import lazy_routes
from tests.quiet import silence

FIGURE = "figure"
LONGEST = ("campaigns", "campaigns/faults", "rules", "step/stories", "step")  # folders whose files compute longest
WAITING = ("browser", "adapters/store", "campaigns/replicas", "e2e", "server")

silence()
lazy_routes.install()


@pytest.fixture
def own_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """For who builds the whole application: its loggers are kept, with this test's output, which is closed later."""
    configure_logs: Callable[[], None] = importlib.import_module("receiver.server.bootstrap").configure_logs

    def configure() -> None:
        configure_logs()
        structlog.configure(cache_logger_on_first_use=False)

    monkeypatch.setattr("receiver.server.bootstrap.configure_logs", configure)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat a request that failed without a pause: how long it is, tests/adapters/http asks."""
    monkeypatch.setattr("urllib3.util.retry.Retry.sleep", lambda *_: None)


# `make test` tries the same examples every time: what passes on one commit passes on it again.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
# For `make laws`: other examples every time, fifty times as many for a law that does not name a number of its own.
settings.register_profile("long", max_examples=5000, deadline=None, derandomize=False)

# The suite makes millions of values that live shortly: looking for cycles at Python's own pace takes a tenth of it.
# Ten thousand values are still in the processor's caches when garbage among them is freed; with half a million, freeing
# took a quarter of tests/web. What outlives a search outlives its test: looking at it again every few searches found
# little more, and took a third of the searching.
gc.set_threshold(10_000, 1_000, 1_000)
# So do promtool, Helm and Prometheus at Go's.
os.environ.setdefault("GOGC", "400")


def pytest_configure() -> None:
    """Refuse to begin where PostgreSQL is required and missing: its tests would be skipped, and the run green."""
    if os.environ.get("REQUIRE_POSTGRESQL") and postgres_programs() is None:
        pytest.exit("REQUIRE_POSTGRESQL is set, and PostgreSQL's initdb is not installed: install `postgresql`", 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest files first, since one that begins last keeps one worker busy and the others waiting; and files
    that wait for other processes between those that compute, so that no core is idle."""
    files = list(dict.fromkeys(item.path for item in items))
    waiting = sorted((file for file in files if _folder(file) in WAITING), key=_turn)
    computing = sorted((file for file in files if _folder(file) not in WAITING), key=_turn)
    order = {file: n for n, file in enumerate(chain.from_iterable(zip_longest(waiting, computing)))}
    items.sort(key=lambda item: order[item.path])


def _folder(file: Path) -> str:
    return file.relative_to(Path(__file__).parent).parent.as_posix()


def _turn(file: Path) -> int:
    turns = (*WAITING, *LONGEST)
    return turns.index(_folder(file)) if _folder(file) in turns else len(turns)


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later search for cycles."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)  # a fixture would be a tenth of what pytest itself does for a test
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """End what a test that started the whole program made of the log, after its fixtures."""
    try:
        return (yield)
    finally:
        silence()


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Note a figure that the test measured; the summary of the run prints those of the tests that passed."""
    return lambda text: record_property(FIGURE, text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures, so that what a document says can be read off a run."""
    passed = terminalreporter.stats.get("passed", ())
    found = [text for report in passed for name, text in report.user_properties if name == FIGURE]
    if found:
        terminalreporter.section("figures")
    for text in found:
        terminalreporter.write_line(str(text))
