"""The second half of the worlds from fixed seeds, and worlds that are only observed."""

from dataclasses import replace

import pytest

from receiver.adapters.store import SqlStore
from tests.faults.campaign import judge, violations
from tests.faults.generate import scenario

BATCH = 6


@pytest.mark.parametrize("first", range(81, 105, BATCH))
def test_the_invariants_hold_in_the_worlds_from_seed(first: int, emptied: SqlStore) -> None:
    assert violations(range(first, first + BATCH), emptied) == []


@pytest.mark.parametrize("seed", range(1, 6))
def test_observe_mode_writes_nothing_whatever_happens(seed: int, emptied: SqlStore) -> None:
    world = replace(scenario(seed), mode="observe")
    assert judge(world, emptied).message == ""
