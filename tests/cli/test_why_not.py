"""Why did it not scale? The answer stands in the first five lines of `explain`, of the pod and of the pool.

Each case is lived through: the real step on a simulated world, and the commands over HTTP.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.policy import Budget
from receiver.core.model.signals import COMPONENT, Matcher, Silence
from simulator.store import MemoryStore
from tests.cli.asked import ask, serving
from tests.clocks import FixedClock
from tests.given import lives
from tests.given.life import SIZE, Life, a_job
from tests.web.builders import Bench

MINUTE = timedelta(minutes=1)
FIRST = 5  # lines that a person reads before looking elsewhere


@dataclass(frozen=True, kw_only=True)
class Case:
    """A life that ends with a pod ml/train-0 that waits, and the words that answer why."""

    live: Callable[[MemoryStore], Life]
    of_the_pod: str
    of_the_pool: str


def over_budget(store: MemoryStore) -> Life:
    return lived(store, budget=Budget(monthly_usd=Decimal(1)))


def silenced(store: MemoryStore) -> Life:
    life = lives.at_zero(store)
    names = (Matcher(name="component", value=COMPONENT), Matcher(name="pool", value="l40s"))
    ends = life.now + timedelta(hours=2)
    life.alarms.silences = [Silence(id="s-1", matchers=names, ends_at=ends, created_by="ada", comment="new driver")]
    return waiting(life)


def out_of_stock(store: MemoryStore) -> Life:
    return lived(store, stock={SIZE: 0})


def mislabelled(store: MemoryStore) -> Life:
    return lived(store, node_selector={"gpu": "a100"})


def waiting_for_the_driver(store: MemoryStore) -> Life:
    return lived(store, minutes=2)


def lived(store: MemoryStore, *, minutes: int = 1, node_selector: Any = None, **changes: Any) -> Life:
    return waiting(lives.at_zero(store, **changes), minutes=minutes, node_selector=node_selector or {})


def waiting(life: Life, *, minutes: int = 1, **job: Any) -> Life:
    life.submit(a_job(**job))
    life.run(minutes * MINUTE)
    return life


CASES = {
    "the budget": Case(
        live=over_budget,
        of_the_pod="the budget does not cover it: cluster budget: $0.00 of $1.00 spent in 2026-11",
        of_the_pool="[within_budget]",
    ),
    "a silence": Case(
        live=silenced,
        of_the_pod="silenced in Alertmanager by ada until 2026-11-20 14:00 UTC: new driver",
        of_the_pool="silenced in Alertmanager by ada until 2026-11-20 14:00 UTC: new driver",
    ),
    "no stock": Case(
        live=out_of_stock,
        of_the_pod="backing off until",
        of_the_pool="[not_backing_off]",
    ),
    "a label": Case(
        live=mislabelled,
        of_the_pod="its node selector wants gpu=a100",
        of_the_pool="fits no pool: ml/train-0: its node selector wants gpu=a100",
    ),
    "the driver": Case(
        live=waiting_for_the_driver,
        of_the_pod="installs its GPU driver",
        of_the_pool="installs its GPU driver",
    ),
}


@pytest.fixture(scope="module", params=list(CASES))
def told(request: pytest.FixtureRequest) -> tuple[Case, list[str], list[str]]:
    """A case, and what `explain` says of the pod and of the pool."""
    case = CASES[request.param]
    store = MemoryStore()
    life = case.live(store)
    bench = Bench(store=store, policy=life.policy, clock=FixedClock(life.now))
    with serving(bench.parts()) as url:
        pod = ask(url, "explain", "pod", "ml/train-0", at=life.now)
        pool = ask(url, "explain", "l40s", at=life.now)
    assert (pod.exit_code, pool.exit_code) == (0, 0), pod.output + pool.output
    return case, pod.stdout.splitlines(), pool.stdout.splitlines()


def test_explain_pod_answers_in_its_first_lines(told: tuple[Case, list[str], list[str]]) -> None:
    case, pod, _ = told
    assert any(case.of_the_pod in line for line in pod[:FIRST]), pod


def test_explain_pool_answers_in_its_first_lines(told: tuple[Case, list[str], list[str]]) -> None:
    case, _, pool = told
    assert any(case.of_the_pool in line for line in pool[:FIRST]), pool


def test_what_would_change_it_is_said_where_something_holds(told: tuple[Case, list[str], list[str]]) -> None:
    case, _, pool = told
    if case.live in (over_budget, silenced, out_of_stock):
        assert any(line.startswith("to change it: ") for line in pool), pool
