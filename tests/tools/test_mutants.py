"""The list of planted bugs: each can still be planted, and each test that should see one exists."""

import pytest

from tools.mutants import ROOT, Mutant, mutants, plant

ALL = mutants()


@pytest.mark.parametrize("mutant", ALL, ids=lambda m: f"{m.file}: {m.name}")
def test_a_bug_can_still_be_planted(mutant: Mutant) -> None:
    source = (ROOT / "receiver" / "core" / mutant.file).read_text()
    planted = plant(mutant, source)
    assert planted != source
    compile(planted, mutant.file, "exec")


@pytest.mark.parametrize("law", sorted({m.law for m in ALL if m.law}))
def test_a_law_that_should_see_a_bug_exists(law: str) -> None:
    file, _, name = law.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text() or not name


def test_no_two_bugs_have_one_name() -> None:
    names = [m.name for m in ALL]
    assert len(names) == len(set(names))


def test_a_bug_whose_place_is_gone_is_refused() -> None:
    with pytest.raises(ValueError, match=r"assign\.py no longer holds"):
        plant(Mutant(name="x", file="assign.py", old="not there", new="", examples=()), "source")
