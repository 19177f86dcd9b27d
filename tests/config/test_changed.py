"""A configuration with a few keys changed, and one that is read beside the one in force."""

from pathlib import Path

import pytest
import yaml

from receiver.config.changed import with_changes
from receiver.config.live import LiveConfiguration, differences
from receiver.config.settings import load_file
from receiver.config.values import ConfigError
from tests.config.builders import one_pool
from tests.core.builders import NOW

TEXT = """\
mode: act
budget: {monthly_usd: 5000, teams: {vision: 100, ml.research: 5}}
pools:
  - {name: l40s, civo_pool_id: id-1, max_nodes: 4, resources: {nvidia.com/gpu: 1}}
  - {name: a100, civo_pool_id: id-2, max_nodes: 2, windows: [{name: night, max_nodes: 1}]}
  - {name: l40s.x8, civo_pool_id: id-3, max_nodes: 1}
"""


def changed(changes: str) -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load(with_changes(TEXT, changes))
    return found


@pytest.mark.parametrize(
    ("changes", "path", "value"),
    [
        ("mode: observe", ("mode",), "observe"),
        ("objective: cost", ("objective",), "cost"),
        ("budget.monthly_usd: 9", ("budget", "monthly_usd"), "9"),
        ("budget: {teams: {audio: 50}}", ("budget", "teams"), {"vision": "100", "ml.research": "5", "audio": "50"}),
        ("limits.max_gpus: 9", ("limits", "max_gpus"), "9"),
        ("pools.l40s.max_nodes: 6", ("pools", 0, "max_nodes"), "6"),
        ("pools.id-2.max_nodes: 6", ("pools", 1, "max_nodes"), "6"),
        ("pools: {l40s: {resources: {nvidia.com/gpu: 8}}}", ("pools", 0, "resources"), {"nvidia.com/gpu": "8"}),
        ("pools.a100.windows.night.max_nodes: 0", ("pools", 1, "windows", 0, "max_nodes"), "0"),
        ("pools.l40s.x8.max_nodes: 6", ("pools", 2, "max_nodes"), "6"),
        ("pools.l40s.resources.nvidia.com/gpu: 2", ("pools", 0, "resources"), {"nvidia.com/gpu": "2"}),
        ("budget.teams.ml.research: 7", ("budget", "teams", "ml.research"), "7"),
        ("pools.a100.windows: []", ("pools", 1, "windows"), []),
    ],
)
def test_a_key_is_changed_where_it_is(changes: str, path: tuple[str | int, ...], value: object) -> None:
    found: object = changed(changes)
    for part in path:
        found = found[part]  # type: ignore[index]  # a document of any depth
    assert found == value


def test_nothing_else_is_changed() -> None:
    assert with_changes(TEXT, "mode: act") == with_changes(TEXT, "budget.monthly_usd: 5000")


def test_every_change_of_what_is_not_there_is_a_mistake() -> None:
    with pytest.raises(ConfigError) as error:
        with_changes(TEXT, "pools.l40.max_nodes: 1\npools.b200.max_nodes: 1\nmode.of.life: 1")
    assert [str(mistake) for mistake in error.value.mistakes] == [
        "pools.l40.max_nodes: nothing here is named l40; did you mean l40s?",
        "pools.b200.max_nodes: nothing here is named b200; use one of: l40s, a100, l40s.x8",
        "mode.of.life: names no key; name a key such as pools.l40s.max_nodes",
    ]


def test_another_configuration_may_use_the_prices_file_in_force_and_no_other(tmp_path: Path) -> None:
    prices = "as_of: 2026-11-01\nsource: a contract\nsizes: {an.g1.l40s.kube.x1: {usd_per_hour: 1.10}}\n"
    for name in ("prices.yaml", "secret.yaml"):
        (tmp_path / name).write_text(prices)
    file = tmp_path / "config.yaml"
    file.write_text(one_pool(top="prices_file: prices.yaml\n"))
    live = LiveConfiguration(file, load_file(file), lambda: NOW)
    other = live.other("mode: act", changes=True)
    assert list(differences(live.settings, other)) == ["mode observe -> act"]
    assert other.prices == live.settings.prices
    with pytest.raises(ConfigError, match=r'cannot read "secret.yaml": only the prices_file in force is read here'):
        live.other("prices_file: secret.yaml", changes=True)
    assert live.settings.configuration.mode == "observe"
