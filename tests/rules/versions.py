"""The versions of Prometheus and Alertmanager that what depends on them is tested with.

PROMETHEUS names a prometheus and ALERTMANAGER an alertmanager, each also several, separated by commas; promtool and
amtool stand beside them. A variable that is not set stands for the program in .build/bin or on PATH, and for that in
.build/newer/bin where `python -m tools.fetch_binaries --newer` has put one. A test that is not about versions uses the
first. The one that is in use is named by the same variable: so programs that are started deep down are of it too.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.rules.files import ROOT

Chosen = dict[str, str]  # variables with the one program that each names; an empty one stands for ours


def _choices(server: str) -> list[Chosen]:
    named = [place.strip() for place in os.environ.get(server.upper(), "").split(",") if place.strip()]
    newer = ROOT / ".build" / "newer" / "bin" / server
    places = named or ["", *([str(newer)] if newer.exists() else [])]
    return [{server.upper(): place} for place in places]


PROMETHEUS = _choices("prometheus")
ALERTMANAGER = _choices("alertmanager")
# Each version of both at least once, for what needs a pair.
PAIRS: list[Chosen] = [
    (p or PROMETHEUS[-1]) | (a or ALERTMANAGER[-1]) for p, a in zip_longest(PROMETHEUS, ALERTMANAGER)
]


def label(chosen: Chosen) -> str:
    """Return what a test with this version has in its name: the folder of the programs, as releases are unpacked."""
    folders = [Path(place).parent for place in chosen.values() if place]
    names = dict.fromkeys(f.parent.name if f.name == "bin" else f.name for f in folders)
    return "+".join(names) or "ours"


@contextmanager
def using(chosen: Chosen) -> Iterator[None]:
    """Let every program that is started inside be of the *chosen* version."""
    before = {variable: os.environ.get(variable) for variable in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for variable, value in before.items():
            if value is None:
                del os.environ[variable]
            else:
                os.environ[variable] = value


def _each(choices: list[Chosen], request: pytest.FixtureRequest) -> Iterator[Chosen]:
    chosen: Chosen = getattr(request, "param", choices[0])
    with using(chosen):
        yield chosen


def _several(choices: list[Chosen]) -> list[Chosen] | None:
    return choices if len(choices) > 1 else None  # with one, no test has a version in its name


@pytest.fixture(scope="module", params=_several(PROMETHEUS), ids=label)
def each_prometheus(request: pytest.FixtureRequest) -> Iterator[Chosen]:
    """The tests of a module that uses this run once with each version of Prometheus."""
    yield from _each(PROMETHEUS, request)


@pytest.fixture(scope="module", params=_several(ALERTMANAGER), ids=label)
def each_alertmanager(request: pytest.FixtureRequest) -> Iterator[Chosen]:
    """The tests of a module that uses this run once with each version of Alertmanager."""
    yield from _each(ALERTMANAGER, request)


@pytest.fixture(scope="module", params=_several(PAIRS), ids=label)
def each_pair(request: pytest.FixtureRequest) -> Iterator[Chosen]:
    """The tests of a module that uses this run with pairs in which each version of both occurs."""
    yield from _each(PAIRS, request)
