"""What a step writes for Kueue's checks, and what goes on when it cannot."""

from collections.abc import Sequence
from decimal import Decimal

import pytest

from receiver.capabilities.kueue_check.judging import CheckState
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Budget
from receiver.ports import Store, TryLater, WontWork
from receiver.step import gather
from tests.core.builders import MINUTE, a_pod
from tests.given import lives
from tests.given.life import START, Life, a_job
from tests.given.requests import candidate_of


def pods(name: str, count: int = 1) -> Sequence[Pod]:
    return tuple(a_pod(f"{name}/0-{n}", uid="", gang=f"ml/{name}", created_at=START) for n in range(count))


def a_life(store: Store, *names: str, usd: str = "1000") -> Life:
    """A life with a Workload of one pod for each of *names*, pending."""
    life = lives.at_zero(store, budget=Budget(monthly_usd=Decimal(usd)))
    life.world.requests = tuple(candidate_of(f"ml/{name}", pods(name)) for name in names)
    return life


def states(life: Life) -> dict[str, CheckState]:
    return {key: CheckState(answer.state) for (_, key), answer in life.world.answers.items()}


def test_each_workload_is_answered_once_and_buys_nothing(store: Store) -> None:
    life = a_life(store, "a", "b", usd="2")
    life.run(2 * MINUTE)
    assert states(life) == {"ml/a": CheckState.READY, "ml/b": CheckState.RETRY}
    assert (len(life.writes("answer_request")), life.required()) == (2, 0)


def test_nothing_is_answered_while_a_bug_hides_whose_work_it_is(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    life = a_life(store, "a")
    monkeypatch.setattr(gather, "own_work", lambda *_: 1 / 0)
    life.run(2 * MINUTE)
    assert states(life) == {}
    monkeypatch.undo()
    life.run(MINUTE)
    assert states(life) == {"ml/a": CheckState.READY}


def test_nothing_is_answered_while_civo_does_not_answer(store: Store) -> None:
    life = a_life(store, "a")
    life.cloud.fail_always(TryLater("no"))
    life.run(2 * MINUTE)
    assert states(life) == {}
    life.cloud.fail_always(None)
    life.step()
    assert states(life) == {"ml/a": CheckState.READY}


@pytest.mark.parametrize("error", [TryLater("no"), WontWork("no")])
def test_an_answer_that_cannot_be_written_delays_neither_the_others_nor_the_pools(
    error: Exception, store: Store
) -> None:
    life = a_life(store, "a", "b")
    life.cluster.fail_next(error, "keep_active")
    life.cluster.fail_next(error, "answer_request")
    life.submit(a_job())
    life.step()
    assert (states(life), life.required()) == ({"ml/b": CheckState.READY}, 1)
    life.step()
    assert states(life) == {"ml/a": CheckState.READY, "ml/b": CheckState.READY}


def test_an_answer_that_is_refused_for_good_is_told_once(store: Store) -> None:
    life = a_life(store, "a")
    for _ in range(2):
        life.cluster.fail_next(WontWork("the object is invalid"), "answer_request")
    life.run(2 * MINUTE)
    told = [m.notice for m in store.messages(START, life.now) if m.notice.topic == "checks"]
    assert [(n.key, "ml/a" in n.body) for n in told] == [("the object is invalid", True)]


@pytest.mark.parametrize("error", [TryLater("no"), WontWork("no", code="http_403")])
def test_a_server_that_takes_no_answer_is_not_asked_for_all_of_them_in_one_step(error: Exception, store: Store) -> None:
    life = a_life(store, *"abcdef")
    for _ in range(3):
        life.cluster.fail_next(error, "answer_request")
    life.step()
    assert states(life) == {}
    life.step()
    assert len(states(life)) == 6
