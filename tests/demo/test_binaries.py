"""Which Prometheus and Alertmanager are started."""

from pathlib import Path

import pytest

from demo.configs import ROOT
from demo.stack import binary


@pytest.fixture(autouse=True)
def _unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROMETHEUS", raising=False)
    monkeypatch.delenv("ALERTMANAGER", raising=False)


@pytest.fixture
def release(tmp_path: Path) -> Path:
    for name in ("prometheus", "promtool", "prometheus-alertmanager", "amtool"):
        (tmp_path / name).touch()
    return tmp_path


def test_a_variable_names_the_server_and_its_tool_stands_beside_it(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS", f"{release}/prometheus")
    monkeypatch.setenv("ALERTMANAGER", f"{release}/prometheus-alertmanager")
    found = {name: binary(name) for name in ("prometheus", "promtool", "alertmanager", "amtool")}
    assert found == {
        "prometheus": f"{release}/prometheus",
        "promtool": f"{release}/promtool",
        "alertmanager": f"{release}/prometheus-alertmanager",
        "amtool": f"{release}/amtool",
    }


def test_of_several_the_first_counts(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS", f"{release}/prometheus, /nowhere/prometheus")
    assert binary("promtool") == f"{release}/promtool"


def test_a_named_program_that_is_not_there_is_not_replaced_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS", "/nowhere/prometheus")
    with pytest.raises(FileNotFoundError, match="/nowhere/promtool was not found, and PROMETHEUS is"):
        binary("promtool")


@pytest.mark.parametrize("value", [None, ""])
def test_where_nothing_is_named_it_is_the_one_of_the_checkout(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv("PROMETHEUS", value)
    assert binary("prometheus") == str(ROOT / ".build" / "bin" / "prometheus")
