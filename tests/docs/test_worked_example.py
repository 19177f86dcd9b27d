"""The examples of docs/how-it-decides.md, lived: the page shows what these runs give."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import cache

import pytest

from receiver.core.notices.notice import Cause, Notice
from tests.docs.pages import section, table, text_of
from tests.docs.worked import LIVES, MARKED, rows
from tests.faults.stores import a_store
from tests.step.harness import FAST, PRICE, Life

PAGE = text_of("docs/how-it-decides.md")
EXAMPLE = section(PAGE, "A worked example")
TITLES = {
    "an_hour": "A worked example",
    "a_second_pod": "A second pod in a paid hour",
    "a_short_budget": "A short budget",
    "a_gang": "A gang",
    "out_of_stock": "Out of stock",
}


@pytest.fixture(scope="module")
def lived() -> Iterator["Lived"]:
    """Each life, lived once when it is first asked for."""
    with ExitStack() as ends:
        yield Lived(ends)


class Lived:
    """The lives by name."""

    def __init__(self, ends: ExitStack) -> None:
        self._ends = ends
        self.of = cache(self._live)

    def _live(self, name: str) -> Life:
        return LIVES[name](self._ends.enter_context(a_store()))


def clock(moment: datetime | None) -> str:
    assert moment is not None
    return f"{moment:%H:%M:%S}"


def missing(title: str, *sentences: str) -> list[str]:
    """Those of *sentences* that the part *title* does not say."""
    plain = " ".join(section(PAGE, title).split())
    return [sentence for sentence in sentences if sentence not in plain]


def told(life: Life) -> list[Notice]:
    return [found.notice for found in life.store.notices_due(life.now + timedelta(days=1), limit=1000)]


def test_every_example_of_the_page_is_lived_here() -> None:
    assert [found[2] for found in MARKED.finditer(PAGE)] == list(TITLES)


@pytest.mark.parametrize("name", TITLES)
def test_the_decisions_are_those_of_the_run(name: str, lived: Lived) -> None:
    assert table(section(PAGE, TITLES[name])) == rows(lived.of(name)), "run python -m tests.docs.worked"


def test_the_moments_and_the_money_are_those_of_the_run(lived: Lived) -> None:
    life = lived.of("an_hour")
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
    assert missing("A worked example", *said) == []
    assert FAST.build + FAST.boot + FAST.driver == usable - node.created_at


def test_the_writes_are_those_of_the_run(lived: Lived) -> None:
    assert sorted(verb for verb, _ in lived.of("an_hour").writes()) == ["cordon", "record_event", "resize", "retire"]
    assert len(lived.of("an_hour").writes("set_soft_taints")) == 1
    assert "one PUT, one Event on the pod, one soft taint, one cordon, one DELETE" in " ".join(EXAMPLE.split())


def test_the_second_pod_costs_nothing_that_was_not_paid(lived: Lived) -> None:
    life = lived.of("a_second_pod")
    price = life.step().facts.spend.usd
    assert len(life.world.lives) == 1
    assert (
        missing(
            TITLES["a_second_pod"], f"one hour of USD {price} pays for both", f"would have been paid: USD {2 * price}"
        )
        == []
    )


def test_the_figures_of_the_short_budget_are_those_of_the_run(lived: Lived) -> None:
    life = lived.of("a_short_budget")
    first, second = [node.created_at for node in life.world.lives]
    assert first == second
    spent = life.step().facts.spend.usd
    assert [n.cause for n in told(life) if n.cause != Cause.GREW] == [Cause.HELD, Cause.BUDGET_HOLD]
    assert f"USD {2 * PRICE} of 6.00 spent" in rows(life)[-1][-1]
    said = (
        f"only {100 * 2 * PRICE / 6:.0f} % of the money is spent",
        f"At {clock(first + timedelta(hours=1))} their second hour begins",
        f"USD {spent} of 6.00 are spent, {100 * spent / 6:.0f} %: the hold line (80 %) is passed",
    )
    assert missing(TITLES["a_short_budget"], *said) == []


def test_the_gang_starts_together(lived: Lived) -> None:
    life = lived.of("a_gang")
    ranks = [pod for (_, name), pod in life.world.pods.items() if name.startswith("gang-")]
    assert len(ranks) == 3
    assert len({pod.started_at for pod in ranks}) == 1
    assert len(life.world.lives) == 3


def test_the_moments_at_which_an_empty_cloud_is_asked_are_those_of_the_run(lived: Lived) -> None:
    life = lived.of("out_of_stock_everywhere")
    *others, last = [clock(action.action.opened_at) for action in reversed(life.store.actions())]
    assert missing(TITLES["out_of_stock"], f"at {', '.join(others)} and {last}.") == []
    assert [n.cause for n in told(life)] == [Cause.OUT_OF_STOCK, Cause.GREW]
