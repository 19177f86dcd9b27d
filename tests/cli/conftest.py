"""A server for the command line to ask."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from receiver.cli import replay_run
from receiver.config.web import ReadAccess
from receiver.replay import contest
from simulator.store import MemoryStore
from tests.cli.asked import serving
from tests.web.builders import READER, Bench, a_full_store


@pytest.fixture
def kill_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """In a replay, let a running pod lose its node to every policy of a kind."""

    def kill(kind: str) -> None:
        def with_a_kill(*given: Any) -> list[contest.Result]:
            results = contest.contest(*given)
            return [replace(r, figures=replace(r.figures, kills=1)) if r.kind == kind else r for r in results]

        monkeypatch.setattr(replay_run, "contest", with_a_kill)

    return kill


@pytest.fixture
def store() -> MemoryStore:
    """What the server serves; a test may change it."""
    return a_full_store()


@pytest.fixture
def bench(store: MemoryStore) -> Bench:
    """A server over *store*."""
    return Bench(store=store)


@pytest.fixture
def url(bench: Bench) -> Iterator[str]:
    """Where that server listens until the test ends."""
    with serving(bench.parts()) as url:
        yield url


@pytest.fixture
def closed_url(store: MemoryStore) -> Iterator[str]:
    """Where one listens that asks for a token from who reads."""
    with serving(Bench(store=store, reading=ReadAccess.TOKEN, reader_token=READER).parts()) as url:
        yield url
