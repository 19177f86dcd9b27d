"""The engine that plants mutants: it plants what it says, and nothing that survives can stay hidden."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from tools.mutants.__main__ import accepted, listed_of, main, stale
from tools.mutants.changed import changed_functions
from tools.mutants.nearest import ROOT, modules, rings
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


@pytest.fixture
def pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module `pools`, which can be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pools", raising=False)
    (tmp_path / "pools.py").write_text(SOURCE)


@pytest.mark.usefixtures("pools")
def test_every_condition_comparison_term_and_call_of_a_function_is_changed_once() -> None:
    assert [mutant.name.removeprefix("pools.") for mutant in mutants("pools")] == PLANTED


ALIKE = """
def noted(notes: set[str], name: str, known: bool) -> None:
    if known:
        notes.add(name)
    else:
        notes.add(name)
    if len(name) > 1:
        notes.add(name)
        notes.add(name)
"""


def test_a_change_that_reads_like_another_is_named_by_the_statement_around_it_and_gives_its_name_to_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "alike.py").write_text(ALIKE)
    before = ALIKE.replace("    if known:", "    if not name:\n        notes.add(name)\n    if known:")
    (tmp_path / "before.py").write_text(before)
    (tmp_path / "more.py").write_text(ALIKE + "        notes.add(name)\n")

    names = [name.partition("dropped ")[2] for name in _of("alike")]
    assert names == ["in if known:", "in the else of if known:", *(f"in if len(name) > 1: (#{n} of 2)" for n in (1, 2))]
    assert set(_of("before")) > set(_of("alike"))
    assert set(_of("alike")) - set(_of("more")) == set(_of("alike")[2:])


def _of(module: str) -> list[str]:
    """Return the names of the mutants of *module* without a note, less that of the module."""
    names = [mutant.name.removeprefix(f"{module}.") for mutant in mutants(module)]
    return [name for name in names if "notes.add(name) -> dropped" in name]


@pytest.mark.usefixtures("pools")
def test_a_function_that_others_hold_is_changed_for_them_too() -> None:
    import pools  # type: ignore[import-not-found]

    held = pools.floor
    by_name = {mutant.name: mutant for mutant in mutants("pools")}
    plant(by_name["pools.floor: max(found, least) -> min(found, least)"])
    assert held([3], 2) == 2
    plant(by_name[f"pools.{PLANTED[-5]}"])
    assert pools.Pool().grown


MADE_BEFORE = """
def at_most(most):
    def check(value):
        return value if value < most else most
    return check

small = at_most(3)
"""


MEMORY = """
from functools import cache


def least(nodes: int) -> int:
    return max(nodes, 1)


@cache
def worked_out(nodes: int) -> int:
    return least(nodes)
"""


def test_what_a_cache_has_of_before_is_worked_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "memory_of_nodes.py").write_text(MEMORY)
    import memory_of_nodes  # type: ignore[import-not-found]

    assert memory_of_nodes.worked_out(3) == 3
    [mutant] = mutants("memory_of_nodes")
    plant(mutant)
    assert memory_of_nodes.worked_out(3) == 1


def test_a_function_that_another_has_made_before_is_changed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "limits.py").write_text(MADE_BEFORE)
    import limits  # type: ignore[import-not-found]

    gc.freeze()  # as the tests do with what they imported
    assert limits.small(5) == 3
    plant(next(m for m in mutants("limits") if m.name == "limits.at_most: if value < most -> True"))
    assert limits.small(5) == 5


def test_every_accepted_mutant_is_planted_and_a_name_that_is_not_is_stale() -> None:
    names = accepted()
    planted = [mutant for module in modules() if listed_of(module, names) for mutant in mutants(module)]
    assert stale(names, planted) == []
    assert stale(["core.scaling.assign.gone: a < b -> a <= b"], planted) == [
        "core.scaling.assign.gone: a < b -> a <= b"
    ]


def test_a_mutant_is_accepted_once_and_with_a_reason(tmp_path: Path) -> None:
    for text in ('[[accepted]]\nwhy = " "\nmutants = ["a"]', '[[accepted]]\nwhy = "so"\nmutants = ["a", "a"]'):
        (tmp_path / "accepted.toml").write_text(text)
        with pytest.raises(ValueError, match="listed twice, or without a reason: a"):
            accepted(tmp_path / "accepted.toml")


RUN = """
import sys
from pathlib import Path
from tools.mutants.__main__ import main
near = [[Path(name)] for name in sys.argv[1:]]
sys.exit(main(["floor"], lambda module: near, ["pools"], near[0][0].with_name("accepted.toml")))
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


NEAR = """
from pools import floor

def test_a_floor_without_nodes_is_the_least():
    assert floor([], 2) == 3
"""
DIFF = """SURVIVED  pools.floor: node < 0 -> node <= 0
{}/pools.py:7
-        if node < 0:
+        if node <= 0:
"""


@pytest.mark.usefixtures("pools")
def test_a_mutant_that_no_test_sees_is_shown_and_fails_the_run_until_it_is_accepted(tmp_path: Path) -> None:
    near, far = tmp_path / "test_near.py", tmp_path / "test_far.py"

    def run(accepted: str) -> tuple[int, str]:
        (tmp_path / "accepted.toml").write_text(f'[[accepted]]\nwhy = "as it should be"\nmutants = [{accepted}]\n')
        command = [sys.executable, "-c", RUN, str(near), str(far)]
        ran = subprocess.run(
            command, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"}, capture_output=True, text=True, check=False
        )
        return ran.returncode, ran.stdout

    near.write_text(NEAR)
    far.write_text(TESTS)
    code, output = run("")
    assert (code, output.count("SURVIVED")) == (1, 1), output
    assert DIFF.format(tmp_path) in output
    code, output = run('"pools.floor: node < 0 -> node <= 0"')
    assert code == 0, output


@pytest.mark.usefixtures("pools")
def test_an_accepted_mutant_that_is_not_planted_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "accepted.toml").write_text('[[accepted]]\nwhy = "so"\nmutants = ["pools.floor: x < y -> x <= y"]')
    assert main(["no mutant"], lambda module: [], ["pools"], tmp_path / "accepted.toml") == 1
    assert "accepted.toml lists what is not planted: pools.floor: x < y -> x <= y" in capsys.readouterr().out


def test_the_tests_of_a_module_are_those_of_its_name_then_importers_then_its_folder() -> None:
    found = [
        {str(path.relative_to(ROOT / "tests")) for path in ring} for ring in rings("receiver.core.scaling.guardrails")
    ]
    named, beside, folder, elsewhere, extra = found
    assert "core/scaling/guardrails/test_growth.py" in named
    assert "core/scaling/test_decide.py" in beside
    assert "core/explain/test_explain.py" in elsewhere
    assert "core/scaling/test_waits.py" in folder
    assert "core/money/test_budget.py" in extra
    assert sum(map(len, found)) == len(set().union(*found))


def test_a_package_without_tests_of_its_own_has_those_of_the_folder_above() -> None:
    found = rings("receiver.step.chores.node_upkeep")
    assert any(ROOT / "tests/step/test_pace.py" in ring for ring in found)


BEFORE = """
import functools


@functools.cache
def kept(): return 1


def changed():
    a = 1
    b = 2
    return a


class Pool:
    def grown(self):
        a = 1
        return a
"""


@pytest.mark.parametrize(
    ("old", "new", "functions"),
    [
        ("    b = 2\n", "    b = 3\n", {"changed"}),
        ("    b = 2\n", "", {"changed"}),
        ("@functools.cache\n", "@functools.lru_cache\n", {"kept"}),
        ("        return a\n", "        return a + 1\n", {"Pool.grown"}),
        ("import functools\n", "import functools, os\n", set()),
    ],
)
def test_a_function_with_a_changed_line_is_changed(tmp_path: Path, old: str, new: str, functions: set[str]) -> None:
    module = tmp_path / "receiver" / "core" / "pools.py"
    module.parent.mkdir(parents=True)
    module.write_text(BEFORE)
    _git(tmp_path, "init", "-q", "-b", "main")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "first")
    module.write_text(BEFORE.replace(old, new))
    (module.parent / "new.py").write_text("def new(): return 1\n")
    assert changed_functions("main", tmp_path).get("receiver.core.pools", set()) == functions
    assert changed_functions("main", tmp_path)["receiver.core.new"] == {"new"}


def test_a_commit_that_git_does_not_know_is_refused(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q", "-b", "main")
    with pytest.raises(ValueError, match="git merge-base"):
        changed_functions("unknown", tmp_path)


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, *arguments], check=True)
