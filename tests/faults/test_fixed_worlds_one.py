"""Worlds from fixed seeds, in two files so that two workers share them (`make faults` runs thousands)."""

import pytest

from receiver.adapters.store import SqlStore
from tests.faults.campaign import judge
from tests.faults.fixed import ONE
from tests.faults.generate import scenario
from tests.faults.stores import choose


@pytest.mark.parametrize("seed", ONE)
def test_the_invariants_hold_in_the_worlds_from_seed(seed: int, real: SqlStore) -> None:
    assert judge(scenario(seed), choose(seed, real)).message == ""
