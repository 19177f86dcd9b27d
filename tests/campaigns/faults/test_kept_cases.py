"""Every world in which an invariant once did not hold, kept as data.

A seed means another world as soon as the generator changes, so a case is the generated scenario itself, made smaller
(`python -m campaigns.faults --world SEED --shrink tests/campaigns/faults/kept/NAME.json`), with two more keys: `found`,
what was violated and why, and `fixed_by`, the title of the commit that fixed it. How often the loop steps and what is
checked may change; what exists and what happens when stays as it was.
"""

import json
from pathlib import Path

import pytest

from campaigns.faults.campaign import judge
from campaigns.faults.scenario import Scenario
from receiver.adapters.store import SqlStore
from tests.stores import choose

CASES = sorted((Path(__file__).parent / "kept").glob("*.json"))
# Long ones, whose bug has a small example in test_found.py.
NIGHTLY = {"gang-after-a-node-that-never-came-up", "removal-decided-in-the-step-that-closed-another"}


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.stem, marks=[pytest.mark.nightly] * (c.stem in NIGHTLY)) for c in CASES]
)
def test_the_invariants_hold_in_every_kept_world(case: Path, real: SqlStore) -> None:
    plain = json.loads(case.read_text(encoding="utf-8"))
    assert plain["found"]
    assert plain["fixed_by"]
    world = Scenario.from_plain(plain)
    assert judge(world, choose(world.seed, real)).message == ""
