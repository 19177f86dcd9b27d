"""What the tests cost, by folder or file: tests, processor seconds and wall seconds.

``pytest -p tools.test_times --times=DIR`` notes each test, ``python -m tools.test_times DIR`` prints
the table, by file or test if that word follows. Processor seconds are those of the worker and of the processes that it
has waited for (getrusage), so a server that outlives its test counts where it is stopped.
"""

import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

LINES = pytest.StashKey[Path]()


def processor_seconds() -> float:
    """Processor time of this process and of its children that have ended, in seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the folder to write to."""
    parser.addoption("--times", metavar="DIR", help="write what each test costs into this folder")


def pytest_configure(config: pytest.Config) -> None:
    """Open this worker's file."""
    if folder := config.getoption("--times"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        config.stash[LINES] = Path(folder) / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.jsonl"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note what starting and collecting cost this worker."""
    _note(session.config, test="", cpu=processor_seconds(), wall=0.0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note what one test cost, its fixtures included."""
    cpu, wall = processor_seconds(), time.monotonic()
    found = yield
    _note(item.config, test=item.nodeid, cpu=processor_seconds() - cpu, wall=time.monotonic() - wall)
    return found


def _note(config: pytest.Config, **line: object) -> None:
    if LINES in config.stash:
        with config.stash[LINES].open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def table(folder: Path, by: str) -> Iterator[str]:
    """Yield the table, the dearest first. *by* is "folder", "file" or "test"."""
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for path in folder.glob("*.jsonl"):
        for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            parts = line["test"].partition("::")[0].split("/")
            name = {"folder": "/".join(parts[:2]), "file": "/".join(parts), "test": line["test"]}[by]
            for key in (name or "(start and collection)", "all"):
                sums[key] = [a + b for a, b in zip(sums[key], (bool(name), line["cpu"], line["wall"]), strict=True)]
    yield f"{'tests':>6} {'cpu s':>8} {'wall s':>8}"
    for name, (tests, cpu, wall) in sorted(sums.items(), key=lambda row: -row[1][1]):
        yield f"{tests:6.0f} {cpu:8.1f} {wall:8.1f}  {name}"


if __name__ == "__main__":
    print("\n".join(table(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "folder")))
