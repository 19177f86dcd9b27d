"""The example of docs/how-it-decides.md, lived: the page shows what this run gives."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from receiver.adapters.store import SqlStore, open_store
from receiver.core.policy import Budget
from tests.docs.pages import section, table, text_of
from tests.reconcile.harness import FAST, Life, a_job, a_policy, a_world

EXAMPLE = section(text_of("docs/how-it-decides.md"), "A worked example")


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    folder: Path = tmp_path_factory.mktemp("example")
    store: SqlStore = open_store(f"sqlite:///{folder}/ledger.db")
    lived = Life(world=a_world(), policy=a_policy(budget=Budget(monthly_usd=Decimal(100))), store=store)
    lived.submit(a_job(duration=timedelta(minutes=10)))
    lived.run(timedelta(minutes=70))
    yield lived
    store.close()


def clock(moment: datetime | None) -> str:
    assert moment is not None
    return f"{moment:%H:%M:%S}"


def test_the_decisions_are_those_of_the_run(life: Life) -> None:
    name = life.world.lives[0].hostname
    lived: list[list[str]] = []
    for stored in reversed(life.store.decisions(limit=500)):
        decision = stored.decision
        settled = f"{decision.deciding.rule}: {decision.deciding.detail}".replace(name, "the node")
        row = [clock(decision.at), f"{decision.present} -> {decision.target}", settled]
        if not lived or row[1:] != lived[-1][1:]:  # a signal that comes or goes is stored too, and changes nothing
            lived.append(row)
    assert table(EXAMPLE) == lived


def test_the_moments_and_the_money_are_those_of_the_run(life: Life) -> None:
    removal, growth = life.store.actions()
    [victim], [node] = removal.action.victims, life.world.lives
    assert removal.outcome is not None
    usable = node.usable_at
    assert usable is not None
    said = (
        f"At {clock(growth.action.opened_at)} the budget reserves USD {growth.action.reserved_usd:.2f}",
        f"paid until {clock(node.created_at + timedelta(hours=1))}",
        f"At {clock(removal.action.opened_at)} it is cordoned, at {clock(victim.since)} deleted,",
        f"deleted, at {clock(removal.outcome.at)} the removal is confirmed",
        f"One hour was paid: USD {life.step().facts.spend.usd:.2f}",
        f"needs {int((usable - node.created_at).total_seconds())} seconds until",
    )
    plain = " ".join(EXAMPLE.split())
    assert [sentence for sentence in said if sentence not in plain] == []
    assert FAST.build + FAST.boot + FAST.driver == usable - node.created_at


def test_the_writes_are_those_of_the_run(life: Life) -> None:
    assert sorted(verb for verb, _ in life.writes()) == ["announce", "cordon", "resize", "retire"]
    assert "one PUT, one Event on the pod, one cordon, one DELETE" in " ".join(EXAMPLE.split())
