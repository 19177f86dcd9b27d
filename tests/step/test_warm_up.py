"""How long a new store only looks."""

from datetime import timedelta

import pytest

from receiver.ports import Store
from receiver.runtime.store_opener import WarmUp
from tests.core.builders import MINUTE
from tests.given.life import START


def test_a_new_store_warms_up_from_the_first_count_that_civo_told(store: Store) -> None:
    warm_up = WarmUp(store, MINUTE)
    assert warm_up.ends_at(START) == START + MINUTE
    later = START + timedelta(hours=1)  # until then Civo said nothing
    assert warm_up.ends_at(later) == later + MINUTE
    store.saw((), {"l40s-id": 0}, later)
    assert warm_up.ends_at(later + MINUTE / 2) == later + MINUTE
    assert warm_up.ends_at(later + MINUTE) is None


def test_a_store_that_has_watched_for_longer_is_warm_at_once(store: Store) -> None:
    store.saw((), {"l40s-id": 0}, START)
    assert WarmUp(store, MINUTE).ends_at(START + MINUTE) is None


def test_a_pool_that_is_configured_later_makes_nothing_wait(store: Store) -> None:
    store.saw((), {"l40s-id": 0}, START)
    store.saw((), {"a100-id": 0}, START + 2 * MINUTE)
    assert WarmUp(store, MINUTE).ends_at(START + 2 * MINUTE) is None


def test_a_beginning_that_was_noted_under_a_clock_ahead_is_not_waited_for(store: Store) -> None:
    store.saw((), {"l40s-id": 0}, START + timedelta(days=365))
    assert WarmUp(store, MINUTE).ends_at(START) is None


@pytest.mark.parametrize("period", [timedelta(0), -MINUTE])
def test_no_period_is_no_warm_up(period: timedelta, store: Store) -> None:
    assert WarmUp(store, period).ends_at(START) is None
