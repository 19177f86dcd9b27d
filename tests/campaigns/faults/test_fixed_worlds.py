"""Worlds from fixed seeds (`make faults FIXED=1` plays more of them, `make faults` thousands of others)."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from campaigns.faults.campaign import judge
from campaigns.faults.fixed import FEW, OBSERVED
from campaigns.faults.generate import scenario
from receiver.adapters.store import SqlStore
from tests.stores import choose

TELLING = ("on", "error", "within", "how", "source", "say", "code", "status", "action")


@pytest.mark.parametrize("seed", FEW)
def test_the_invariants_hold_in_the_worlds_from_seed(seed: int, real: SqlStore) -> None:
    assert judge(scenario(seed), choose(seed, real)).message == ""


def test_observe_mode_writes_nothing_whatever_happens(real: SqlStore) -> None:
    world = replace(scenario(OBSERVED[0]), mode="observe")
    assert judge(world, choose(world.seed, real)).message == ""


def test_the_fixed_worlds_have_every_kind_of_event_and_fault() -> None:
    missing = _kinds(range(1, 300)) - _kinds(FEW)
    assert not missing, "choose other worlds in campaigns/faults/fixed.py: none has\n" + "\n".join(sorted(missing))


def _kinds(seeds: Iterable[int]) -> set[str]:
    """What happens in the worlds of *seeds*: each event's kind, and by what it says of itself."""
    events = [event for seed in seeds for event in scenario(seed).events]
    told = [f"{e.kind} {key}: {e.what[key]}" for e in events for key in TELLING if isinstance(e.what.get(key), str)]
    return {e.kind for e in events} | {f"before {e.call}" for e in events} | set(told)
