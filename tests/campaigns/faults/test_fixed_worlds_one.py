"""Worlds from fixed seeds, in two files so that two workers share them (`make faults` runs thousands)."""

import pytest

from campaigns.faults.campaign import judge
from campaigns.faults.generate import scenario
from receiver.adapters.store import SqlStore
from tests.campaigns.faults.fixed import ONE
from tests.stores import choose


@pytest.mark.parametrize("seed", ONE)
def test_the_invariants_hold_in_the_worlds_from_seed(seed: int, real: SqlStore) -> None:
    assert judge(scenario(seed), choose(seed, real)).message == ""
