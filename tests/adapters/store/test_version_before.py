"""A store that the version before wrote, two hours of one pool, opens and explains the decisions of then.

The file is a dump of the SQLite store of commit 1d5e3cfff, which kept decisions and their inputs with other code.
"""

import gzip
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from receiver.adapters.store import SqlStore, open_store
from receiver.adapters.store.decisions import read_grounds
from receiver.capabilities.bundles.repetition import made_again
from receiver.capabilities.registry import step_additions
from receiver.core.model.actions import Reason

DUMP = Path(__file__).parent / "kept" / "store-of-0.1.sql.gz"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    """The store as this version opens it, after its migrations."""
    file = tmp_path / "ledger.db"
    with sqlite3.connect(file) as connection:
        connection.executescript(gzip.decompress(DUMP.read_bytes()).decode())
    connection.close()
    opened = open_store(f"sqlite:///{file}")
    yield opened
    opened.close()


def parts(reason: Reason) -> tuple[str, str, int]:
    return reason.rule, reason.verdict.value, reason.target


def test_every_decision_of_the_version_before_is_made_again_from_what_it_stored(store: SqlStore) -> None:
    stored = store.decisions()
    assert len(stored) == 9
    for kept in stored:
        inputs = store.grounds(kept.id)
        assert inputs is not None
        again = made_again(read_grounds(inputs), kept.decision.pool, step_additions())
        assert (again.target, again.change) == (kept.decision.target, kept.decision.change)
        assert [parts(r) for r in again.reasons] == [parts(r) for r in kept.decision.reasons]
        assert all(r.detail for r in again.reasons if r.verdict.value in ("wants", "holds", "limits"))


def test_actions_nodes_and_spend_of_the_version_before_are_read(store: SqlStore) -> None:
    actions = store.actions()
    assert [(a.action.kind.value, a.outcome and a.outcome.kind.value) for a in actions] == [
        ("retire", "confirmed"),
        ("grow", "confirmed"),
    ]
    lives = store.node_lives(datetime(2026, 1, 1, tzinfo=UTC))
    assert len(lives) == 2
    assert all(life.gone_at is not None for life in lives)
    assert store.snapshot() is not None
    assert store.control() is not None
