"""A seed is one world, and a world comes back from its file as it was."""

import pytest

from campaigns.faults.campaign import judge
from campaigns.faults.generate import scenario
from campaigns.faults.scenario import Scenario
from simulator.store import MemoryStore


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_scenario_comes_back_from_json_as_it_was(seed: int) -> None:
    assert Scenario.from_json(scenario(seed).to_json()) == scenario(seed)


def test_a_seed_repeats_the_whole_world(emptied: MemoryStore) -> None:
    first, second = judge(scenario(568), emptied), judge(scenario(568), emptied)
    assert first.tally.counts["writes"] > 0
    assert first == second
