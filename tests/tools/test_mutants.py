"""The engine that plants mutants: it plants what it says, and nothing that survives can stay hidden."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.mutants.__main__ import MODULES, accepted, main, stale
from tools.mutants.campaign import ROOT
from tools.mutants.plant import mutants, plant

SOURCE = '''
def floor(nodes: list[int], least: int) -> int:
    """The minimum."""
    assert least >= 0
    found = 0
    for node in nodes:
        if node < 0:
            continue
        found += node
    nodes.append(found)
    if found and least > 1:
        nodes.clear()
        return max(found, least)
    return found + least + 1


class Pool:
    @property
    def grown(self) -> bool:
        return not all([n is not None for n in (1, 2) if n])
'''
PLANTED = [
    "floor: if node < 0 -> True",
    "floor: if node < 0 -> False",
    "floor: node < 0 -> node <= 0",
    "floor: found += node -> found -= node",
    "floor: found += node -> dropped",
    "floor: nodes.append(found) -> dropped",
    "floor: if found and least > 1 -> True",
    "floor: if found and least > 1 -> False",
    "floor: found dropped from found and least > 1",
    "floor: least > 1 dropped from found and least > 1",
    "floor: least > 1 -> least >= 1",
    "floor: nodes.clear() -> dropped",
    "floor: return max(found, least) -> dropped",
    "floor: max(found, least) -> min(found, least)",
    "floor: found + least + 1 -> found + least - 1",
    "floor: found + least -> found - least",
    "Pool.grown: not all([n is not None for n in (1, 2) if n]) -> all([n is not None for n in (1, 2) if n])",
    "Pool.grown: all([n is not None for n in (1, 2) if n]) -> any([n is not None for n in (1, 2) if n])",
    "Pool.grown: n is not None -> n is None",
    "Pool.grown: if n -> True",
    "Pool.grown: if n -> False",
]
SURVIVORS = ["pools.floor: node < 0 -> node <= 0"]


@pytest.fixture
def pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module `pools`, which can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pools", raising=False)
    (tmp_path / "pools.py").write_text(SOURCE)


@pytest.mark.usefixtures("pools")
def test_every_condition_comparison_term_and_call_of_a_function_is_changed_once() -> None:
    assert [mutant.name.removeprefix("pools.") for mutant in mutants("pools")] == PLANTED


@pytest.mark.usefixtures("pools")
def test_a_function_that_others_hold_is_changed_for_them_too() -> None:
    import pools  # type: ignore[import-not-found]

    held = pools.floor
    by_name = {mutant.name: mutant for mutant in mutants("pools")}
    plant(by_name["pools.floor: max(found, least) -> min(found, least)"])
    assert held([3], 2) == 2
    plant(by_name[f"pools.{PLANTED[-5]}"])
    assert pools.Pool().grown


def test_every_accepted_mutant_is_planted_and_a_name_that_is_not_is_told() -> None:
    planted = [mutant for module in MODULES for mutant in mutants(module)]
    assert stale(accepted(), planted) == []
    assert stale(["assign.gone: a < b -> a <= b"], planted) == ["assign.gone: a < b -> a <= b"]


def test_a_mutant_is_accepted_once_and_with_a_reason(tmp_path: Path) -> None:
    for text in ('[[accepted]]\nwhy = " "\nmutants = ["a"]', '[[accepted]]\nwhy = "so"\nmutants = ["a", "a"]'):
        (tmp_path / "accepted.toml").write_text(text)
        with pytest.raises(ValueError, match="listed twice, or without a reason: a"):
            accepted(tmp_path / "accepted.toml")


RUN = """
import sys
from pathlib import Path
from tools.mutants.__main__ import main
sys.exit(main(["floor", *sys.argv[2:]], {"pools": (sys.argv[1],)}, Path(sys.argv[1]).with_name("accepted.toml")))
"""
TESTS = """
from pools import floor

def test_a_floor_is_kept():
    assert floor([-1, 3], 0) == 4
    assert floor([-1, 0, 3], 2) == 3
    assert floor([1], 1) == 3
    assert floor([], 2) == 3

def test_what_was_found_is_noted():
    nodes = []
    floor(nodes, 0)
    assert nodes == [0]
    floor(nodes := [1], 2)
    assert nodes == []
"""


@pytest.mark.usefixtures("pools")
def test_a_mutant_that_no_test_sees_fails_the_run_until_it_is_accepted(tmp_path: Path) -> None:
    def run(accepted: str) -> tuple[int, str]:
        (tmp_path / "accepted.toml").write_text(f'[[accepted]]\nwhy = "as it should be"\nmutants = [{accepted}]\n')
        command = [sys.executable, "-c", RUN, str(tmp_path / "test_pools.py")]
        ran = subprocess.run(
            command, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"}, capture_output=True, text=True, check=False
        )
        return ran.returncode, ran.stdout

    (tmp_path / "test_pools.py").write_text(TESTS)
    code, said = run("")
    lines = [line.partition("  [")[0] for line in said.splitlines() if line.startswith("SURVIVED")]
    assert (code, lines) == (1, [f"SURVIVED  {name}" for name in SURVIVORS]), said
    code, said = run(", ".join(f'"{name}"' for name in SURVIVORS))
    assert code == 0, said


@pytest.mark.usefixtures("pools")
def test_an_accepted_mutant_that_is_not_planted_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "accepted.toml").write_text('[[accepted]]\nwhy = "so"\nmutants = ["pools.floor: x < y -> x <= y"]')
    assert main(["no mutant"], {"pools": ()}, tmp_path / "accepted.toml") == 1
    assert "accepted.toml lists what is not planted: pools.floor: x < y -> x <= y" in capsys.readouterr().out
