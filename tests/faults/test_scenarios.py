"""A seed is one world, and a world comes back from its file as it was."""

import pytest

from simulator.store import MemoryStore
from tests.faults.campaign import judge
from tests.faults.generate import scenario
from tests.faults.scenario import Scenario


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_scenario_comes_back_from_json_as_it_was(seed: int) -> None:
    assert Scenario.from_json(scenario(seed).to_json()) == scenario(seed)


def test_a_seed_repeats_the_whole_world(emptied: MemoryStore) -> None:
    first, second = judge(scenario(728), emptied), judge(scenario(728), emptied)
    assert first.tally.counts["writes"] > 0
    assert first == second
