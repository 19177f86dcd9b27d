"""Worlds from fixed seeds, in two files so that two workers share them (`make faults` runs thousands)."""

import pytest

from receiver.adapters.store import SqlStore
from tests.faults.campaign import violations

BATCH = 6


@pytest.mark.parametrize("first", range(1, 25, BATCH))
def test_the_invariants_hold_in_the_worlds_from_seed(first: int, emptied: SqlStore) -> None:
    assert violations(range(first, first + BATCH), emptied) == []
