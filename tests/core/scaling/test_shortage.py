"""After a refusal for lack of stock a pool asks for fewer nodes: half as many each time, and gangs whole."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Action, Outcome, OutcomeKind
from receiver.core.model.model import Backoff
from receiver.core.model.pods import Pod
from receiver.core.scaling.waits import REFUSAL_LASTS, refused_counts, smaller_request
from tests.core.builders import NOW, SECOND, a_growth, a_pod, a_policy, a_pool, a_state, facts, run
from tests.core.worlds import LAWS, World, decided, worlds

NO_STOCK = "gpu_count_exceeded: Civo did not take the request"
HELD = Backoff(failures=1, until=NOW + timedelta(minutes=1), reason=NO_STOCK)
ROOMY = a_policy(a_pool(max_nodes=99))


def ended(
    action: Action, kind: OutcomeKind = OutcomeKind.FAILED, detail: str = NO_STOCK, at: datetime | None = None
) -> tuple[Action, Outcome]:
    """What became of it *at* that moment, or in the step that opened it."""
    return action, Outcome(kind=kind, at=at or action.opened_at, detail=detail)


@pytest.mark.parametrize(
    ("last", "refused"),
    [
        (ended(a_growth(3)), {"l40s-id": 3}),
        (ended(a_growth(3), detail="quota_limit_reached: no"), {"l40s-id": 3}),
        (ended(a_growth(3), detail="http_500: 6 times in a row: no"), {}),
        (ended(a_growth(3), OutcomeKind.WITHDRAWN), {}),
        (ended(a_growth(3, attempts=1)), {}),  # an earlier try may have arrived
        (ended(a_growth(3, opened_at=NOW - 9 * SECOND), at=NOW), {}),  # a crash
        (ended(a_growth(3, opened_at=NOW - REFUSAL_LASTS)), {}),
        (ended(a_growth(3, opened_at=NOW + SECOND)), {}),  # under a wrong clock
    ],
)
def test_a_refusal_counts_while_it_is_fresh_and_sure(last: tuple[Action, Outcome], refused: dict[str, int]) -> None:
    assert refused_counts([last], NOW) == refused


def test_the_lowest_count_since_the_last_growth_counts() -> None:
    five, three, four = (ended(a_growth(n)) for n in (5, 3, 4))
    assert refused_counts([five, three, four], NOW) == {"l40s-id": 3}
    assert refused_counts([five, three, ended(a_growth(2), OutcomeKind.CONFIRMED)], NOW) == {}


@pytest.mark.parametrize(
    ("present", "refused", "request_"),
    [(0, 1, None), (0, 2, (1, 1)), (0, 3, (2, 2)), (4, 12, (4, 7)), (2, 2, None), (5, 3, None)],
)
def test_half_of_what_was_refused_is_asked_for(present: int, refused: int, request_: tuple[int, int] | None) -> None:
    assert smaller_request(present, refused) == request_


def test_a_gang_that_does_not_fit_below_the_refused_count_names_it() -> None:
    state = a_state(refused=4, backoff=HELD)
    found = facts(state, waiting=[a_pod(f"r{n}", gang="ml/g") for n in range(4)])
    assignment, decisions = run(found, a_policy())
    assert decisions["l40s"].target == 0
    [held] = assignment.pools["l40s-id"].held
    assert held.rule == "gangs_whole"
    assert held.detail.endswith("Civo has just refused 4 nodes in all for pool l40s")


@LAWS
@given(worlds())
def test_no_pool_asks_for_as_many_as_were_just_refused(world: World) -> None:
    for _, state, decision in decided(world):
        if state.refused is not None and state.backoff is not None and state.backoff.holds(NOW, timedelta(hours=1)):
            assert decision.target < max(state.refused, state.required + 1)


@LAWS
@given(
    gangs=st.lists(st.integers(2, 9), max_size=4),
    singles=st.integers(0, 20),
    stock=st.integers(0, 20),
    gangs_first=st.booleans(),
)
def test_requests_end_soon_with_gangs_whole_and_half_of_the_stock_at_least(
    gangs: list[int], singles: int, stock: int, gangs_first: bool
) -> None:
    """Civo refuses each request of more than *stock* nodes."""
    sizes = [(f"g{n}", i) for n, size in enumerate(gangs) for i in range(size)]
    ranks = [a_pod(f"{gang}-{i}", gang=f"ml/{gang}", priority=gangs_first) for gang, i in sizes]
    waiting = [*ranks, *(a_pod(f"p{n}") for n in range(singles))]
    asked: list[int] = []
    while (request := _next_request(waiting, asked)).target > stock:
        assert request.target < min(asked, default=99)
        asked.append(request.target)
    most = len(waiting)
    assert len(asked) <= most.bit_length() + len(gangs) + 1
    assert request.target == 0 or request.target >= request.gangs
    if not gangs:
        assert 2 * request.target > min(stock, singles) or request.target == min(stock, singles)


class Request(NamedTuple):
    """A request for *target* nodes, on which gangs are to have so many."""

    target: int
    gangs: int


def _next_request(waiting: list[Pod], refused: list[int]) -> Request:
    """What is asked for after requests for *refused* nodes were refused."""
    state = a_state()
    if refused:
        state = replace(state, refused=min(refused), backoff=HELD)
    assignment, decisions = run(facts(state, waiting=waiting), ROOMY)
    asking = assignment.pools["l40s-id"].asking
    return Request(decisions["l40s"].target, sum(len(w.pods) for w in asking if w.gang))
