"""How the process of a replica learns what the others stored."""

from pathlib import Path

import pytest

from receiver.adapters.clock import SystemClock
from receiver.runtime.store_opener import Opening
from receiver.server.bootstrap import loop_of
from tests.step.process_builders import outside_of


@pytest.mark.parametrize(
    ("database", "known"), [("postgresql://nobody@127.0.0.1:9/none", "delivery 7"), ("", None)], ids=["shared", "own"]
)
def test_a_loop_looks_for_news_where_replicas_share_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str, known: object
) -> None:
    outside = outside_of(tmp_path, database=database)
    monkeypatch.setattr(outside.store, "newest", lambda: "delivery 7")
    assert loop_of(outside, Opening(lambda: None), SystemClock())._terms.newest() == known


def test_a_store_that_does_not_answer_has_no_news(tmp_path: Path) -> None:
    assert outside_of(tmp_path, database="postgresql://nobody@127.0.0.1:9/none").newest() is None
