"""The example of docs/how-it-decides.md, lived: the page shows what this run gives."""

from datetime import datetime, timedelta

import pytest

from receiver.core.model.text import dollars
from simulator.store import MemoryStore
from tests.docs.pages import section, text_of
from tests.docs.worked import an_hour
from tests.given.life import FAST, Life

EXAMPLE = section(text_of("docs/how-it-decides.md"), "A worked example")


@pytest.fixture(scope="module")
def life() -> Life:
    """The hour of the example."""
    return an_hour(MemoryStore())


def clock(moment: datetime | None) -> str:
    assert moment is not None
    return f"{moment:%H:%M:%S}"


def missing(*sentences: str) -> list[str]:
    """Those of *sentences* that the example does not say."""
    plain = " ".join(EXAMPLE.split())
    return [sentence for sentence in sentences if sentence not in plain]


def test_the_moments_and_the_money_are_those_of_the_run(life: Life) -> None:
    removal, growth = life.store.actions()
    [victim], [node] = removal.action.victims, life.world.lives
    assert removal.outcome is not None
    usable = node.usable_at
    assert usable is not None
    said = (
        f"At {clock(growth.action.opened_at)} the budget reserves {dollars(growth.action.reserved_usd)}",
        f"paid until {clock(node.created_at + timedelta(hours=1))}",
        f"At {clock(removal.action.opened_at)} it is cordoned, at {clock(victim.since)} deleted,",
        f"deleted, at {clock(removal.outcome.at)} the removal is confirmed",
        f"One hour was paid: {dollars(life.step().facts.spend.usd)}",
        f"needs {int((usable - node.created_at).total_seconds())} seconds until",
        f"`removal_margin` is {life.policy.billing.removal_margin.total_seconds():g}s",
    )
    assert missing(*said) == []
    assert FAST.build + FAST.boot + FAST.driver == usable - node.created_at


def test_the_writes_are_those_of_the_run(life: Life) -> None:
    assert sorted(verb for verb, _ in life.writes()) == ["cordon", "record_event", "resize", "retire"]
    assert len(life.writes("set_soft_taints")) == 1
    assert missing("one PUT, one Event on the pod, one soft taint, one cordon, one DELETE") == []
