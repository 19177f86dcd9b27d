"""Civo refuses some nodes while fewer are there: what is there is bought at once, and the rest elsewhere."""

from datetime import timedelta

import pytest

from receiver.core.model.actions import OutcomeKind
from receiver.ports import Receipt, Store, TryLater, WontWork
from receiver.replay.world.objects import Job
from tests.core.builders import HOUR, MINUTE
from tests.given import lives
from tests.given.life import PRICE, SIZE, Life, Wrapped, a_job

pytestmark = pytest.mark.chores(False)

SECONDS = timedelta(seconds=1)
FIRST, SECOND = "first-id", "second-id"
DEARER = {"size": "an.g1.a100.kube.x1", "price_usd_per_hour": 2 * PRICE}  # of which all are in stock


def pods(number: int) -> list[Job]:
    """As many pods of one GPU, each of its own."""
    return [a_job(f"j{n}", duration=9 * HOUR) for n in range(number)]


def asked(life: Life, pool: str = "l40s-id") -> list[int]:
    """The counts that Civo was asked for, in order."""
    return [s.action.to_count for s in reversed(life.store.actions(pool=pool))]


@pytest.mark.parametrize(("wanted", "free", "requests"), [(3, 1, [3, 2, 1]), (3, 2, [3, 2]), (2, 1, [2, 1])])
def test_what_is_in_stock_is_bought_within_seconds(store: Store, wanted: int, free: int, requests: list[int]) -> None:
    life = lives.waiting(store, *pods(wanted), stock={SIZE: free})
    life.run(5 * SECONDS)
    assert asked(life) == requests
    assert life.required() == free


def test_the_rest_is_asked_for_again_after_a_minute(store: Store) -> None:
    life = lives.waiting(store, *pods(8), stock={SIZE: 7})
    life.run(5 * SECONDS)
    assert life.required() == 4
    life.run(3 * MINUTE)
    assert life.required() == 7
    backoff = life.steps[-1].facts.pool("l40s-id").backoffs.growth
    assert backoff is not None
    assert backoff.reason.startswith("gpu_count_exceeded")


def test_an_empty_shelf_is_asked_once_per_halving_and_counts_as_one_failure(store: Store) -> None:
    life = lives.waiting(store, *pods(8), stock={SIZE: 0})
    life.run(50 * SECONDS)
    assert asked(life) == [8, 4, 2, 1]
    backoff = life.steps[-1].facts.pool("l40s-id").backoffs.growth
    assert backoff is not None
    assert backoff.failures == 1


def test_the_next_pool_that_fits_takes_the_rest_at_once(store: Store) -> None:
    life = lives.two_pools(store, "first", "second", other=DEARER, stock={SIZE: 1})
    life.submit(*pods(3))
    life.run(5 * SECONDS)
    assert (life.required(FIRST), life.required(SECOND)) == (1, 2)


@pytest.mark.parametrize("code", ["quota_limit_reached", "out_of_capacity"])
def test_a_quota_and_a_full_region_are_tried_for_fewer_as_well(store: Store, code: str) -> None:
    life = lives.at_zero(store, stock={SIZE: 8})

    def resize(pool: str, **given: int) -> Receipt:
        if given["target"] > 1:
            raise WontWork("no more", code=code)
        return life.cloud.resize(pool, decided_on=given["decided_on"], target=given["target"])

    life.wrap_cloud = lambda inner: Wrapped(inner, resize=resize)
    life.submit(*pods(3))
    life.run(5 * SECONDS)
    assert life.required() == 1


def test_another_refusal_is_not_tried_for_fewer(store: Store) -> None:
    life = lives.at_zero(store, stock={SIZE: 8})
    life.cloud.fail_next(WontWork("no such pool", code="database_cluster_pool_not_found"), "resize")
    life.submit(*pods(3))
    life.run(50 * SECONDS)
    assert asked(life) == [3]


def test_a_gang_is_not_cut(store: Store) -> None:
    life = lives.waiting(store, a_job("gang", pods=3, gang=True, duration=HOUR), stock={SIZE: 2})
    life.run(50 * SECONDS)
    assert asked(life) == [3]


def test_beside_a_gang_that_is_in_stock_only_the_single_pods_are_cut(store: Store) -> None:
    life = lives.waiting(store, a_job("gang", pods=4, gang=True, duration=HOUR), *pods(2), stock={SIZE: 4})
    life.run(5 * SECONDS)
    assert asked(life)[-1] == life.required() == 4
    assert min(asked(life)) >= 4


def test_a_single_pod_does_not_wait_for_a_gang_that_is_not_in_stock(store: Store) -> None:
    life = lives.waiting(store, a_job("gang", pods=4, gang=True, duration=HOUR), *pods(1), stock={SIZE: 1})
    life.run(5 * SECONDS)
    assert asked(life) == [5, 4, 1]


def test_a_gang_that_is_not_in_stock_goes_whole_to_the_next_pool(store: Store) -> None:
    life = lives.two_pools(store, "first", "second", other=DEARER, stock={SIZE: 2})
    life.submit(a_job("gang", pods=3, gang=True, duration=HOUR))
    life.run(5 * SECONDS)
    assert (life.required(FIRST), life.required(SECOND)) == (0, 3)


def test_many_gangs_are_halved_too(store: Store) -> None:
    life = lives.waiting(
        store, *(a_job(f"gang{n}", pods=2, gang=True, duration=HOUR) for n in range(4)), stock={SIZE: 3}
    )
    life.run(5 * SECONDS)
    assert asked(life) == [8, 4, 2]


def test_fewer_are_not_asked_for_while_an_unanswered_request_may_still_arrive(store: Store) -> None:
    life = lives.waiting(store, *pods(3), stock={SIZE: 3})
    life.cloud.fail_next(TryLater("no answer", code="timeout"), "resize")
    life.step()
    life.cloud.fail_next(WontWork("none left", code="gpu_count_exceeded"), "resize")
    life.pass_time(5 * SECONDS)
    life.run(50 * SECONDS)
    assert asked(life) == [3]


@pytest.mark.chores(True)
def test_the_refusal_is_told_once_and_what_came_as_well(store: Store) -> None:
    life = lives.waiting(store, *pods(3), stock={SIZE: 1})
    life.run(50 * SECONDS)
    assert [n for n in life.notices() if n.startswith("GPU pool l40s:")] == [
        "GPU pool l40s: too few an.g1.l40s.kube.x1 are free at Civo, 0 -> 3 nodes refused",
        "GPU pool l40s: 0 -> 1 nodes",
    ]


def test_each_request_is_an_action_with_one_absolute_target(store: Store) -> None:
    life = lives.waiting(store, *pods(3), stock={SIZE: 1})
    life.run(5 * SECONDS)
    ended = [(s.action.to_count, s.outcome.kind) for s in reversed(store.actions()) if s.outcome is not None]
    assert ended == [(3, OutcomeKind.FAILED), (2, OutcomeKind.FAILED), (1, OutcomeKind.CONFIRMED)]
