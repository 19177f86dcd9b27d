"""`gpu-autoscaler replay --decision`, asked of a server over a store in which steps decided."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from receiver.cli.main import main
from receiver.core.model.actions import Verdict
from simulator.store import MemoryStore
from tests.adapters.wire import unused_url
from tests.cli.asked import serving
from tests.given import lives
from tests.given.life import a_job, a_policy
from tests.web.builders import Bench

CONFIG = """\
pools:
  - name: {name}
    civo_pool_id: {pool}
    size: an.g1.l40s.kube.x1
    resources: {{nvidia.com/gpu: 1}}
    max_nodes: {most}
    price_usd_per_hour: 1.29
"""


@pytest.fixture
def store() -> MemoryStore:
    """A store in which a step decided to buy two nodes."""
    found = MemoryStore()
    life = lives.waiting(found, a_job("one"), a_job("two"))
    life.run(timedelta(seconds=30))
    return found


@pytest.fixture
def url(store: MemoryStore) -> Iterator[str]:
    """A server over it."""
    with serving(Bench(store=store, policy=a_policy()).parts()) as address:
        yield address


def again(url: str, number: int | str, *more: str) -> Result:
    """Run the command as a person would."""
    return CliRunner(env={"GPU_AUTOSCALER_URL": url}).invoke(main, ["replay", "--decision", str(number), *more])


def growth(store: MemoryStore) -> int:
    """The number of the decision that bought."""
    return next(d.id for d in store.decisions() if d.decision.target > d.decision.present)


def a_config(folder: Path, **changes: Any) -> str:
    """A configuration file."""
    pool = a_policy().pools[0]
    file = folder / "other.yaml"
    file.write_text(CONFIG.format(**{"name": pool.name, "pool": pool.id, "most": 1, **changes}))
    return str(file)


def test_the_same_version_decides_the_same_and_says_so(url: str, store: MemoryStore) -> None:
    done = again(url, growth(store))
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[2] == "same decision"
    assert [line.split() for line in lines[4:6]] == [["then", "now"], ["nodes", "then", "0", "0"]]


def test_under_another_policy_it_shows_what_would_differ(url: str, store: MemoryStore, tmp_path: Path) -> None:
    done = again(url, growth(store), "--config", a_config(tmp_path))
    assert done.exit_code == 1
    assert "differs: nodes wanted" in done.stdout
    assert any(line.split() == ["nodes", "wanted", "2", "1"] for line in done.stdout.splitlines())
    assert any(line.startswith("~ ") for line in done.stdout.splitlines())


def test_a_program_gets_json(url: str, store: MemoryStore, tmp_path: Path) -> None:
    number = growth(store)
    same = json.loads(again(url, number, "--json").stdout)
    assert (same["decision"], same["same"], same["differs"], same["policy"]) == (number, True, {}, None)
    assert same["then"]["reasons"] == same["now"]["reasons"]
    other = json.loads(again(url, number, "--json", "--config", a_config(tmp_path)).stdout)
    assert (other["same"], other["differs"]["to"]) == (False, [2, 1])


def test_a_decision_that_another_version_made_differently_shows_the_rules(url: str, store: MemoryStore) -> None:
    kept = store.decision(growth(store))
    assert kept is not None
    gone = replace(kept.decision.reasons[0], rule="of_old", verdict=Verdict.LIMITS)
    odd = replace(kept.decision, reasons=(*kept.decision.reasons[1:], gone))
    grounds = store.grounds(kept.id)
    assert grounds is not None
    from receiver.adapters.store.decisions import read_grounds

    done = again(url, store.decided(odd, read_grounds(grounds)))
    assert done.exit_code == 1
    assert "- of_old limits" in done.stdout
    assert f"+ {kept.decision.reasons[0].rule} " in done.stdout


@pytest.mark.parametrize(
    ("number", "said"), [(99, "no decision has this id"), ("x", "a decision's id is a whole number")]
)
def test_a_decision_that_is_not_there_ends_with_2(url: str, number: int | str, said: str) -> None:
    done = again(url, number)
    assert done.exit_code == 2
    assert said in done.stderr
    assert said in again(url, number, "--json").stdout


def test_one_that_was_made_before_this_was_kept_says_so(url: str, store: MemoryStore) -> None:
    kept = store.decision(growth(store))
    assert kept is not None
    done = again(url, store.decided(replace(kept.decision, target=5)))
    assert done.exit_code == 2
    assert "what this decision was made from is not kept" in done.stderr


def test_a_pool_that_nothing_was_known_of_is_named(url: str, store: MemoryStore, tmp_path: Path) -> None:
    number = growth(store)
    done = again(url, number, "--config", a_config(tmp_path, name="h100", pool="h100-id"))
    assert done.exit_code == 2
    assert f"decision {number} has no facts about pool h100" in done.stderr
    assert done.stderr.splitlines()[-1].endswith(" and run gpu-autoscaler replay again")


def test_a_configuration_that_cannot_be_used_is_refused(url: str, store: MemoryStore, tmp_path: Path) -> None:
    done = again(url, growth(store), "--config", a_config(tmp_path, most=-1))
    assert done.exit_code == 2
    assert "max_nodes" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("to check again: gpu-autoscaler check-config ")


@pytest.mark.parametrize(
    "other", [("--trace", "t.csv"), ("--billing", "second"), ("--tick", "1s"), ("--html", "f")], ids=" ".join
)
def test_it_goes_with_nothing_of_a_trace(other: tuple[str, str]) -> None:
    done = again(unused_url(), 1, *other)
    assert done.exit_code == 2
    assert "--decision can be combined with --config and --json only" in done.stderr


def test_a_server_that_cannot_be_reached_ends_with_3() -> None:
    assert again(unused_url(), 1).exit_code == 3
