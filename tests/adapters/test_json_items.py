"""Objects of a JSON list one by one."""

import json
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.kubernetes import export
from receiver.adapters.kubernetes.export import NoJson, items


def read(folder: Path, text: str) -> list[Any]:
    file = folder / "export.json"
    file.write_text(text, encoding="utf-8")
    return list(items(file))


@pytest.fixture(params=[1, 2, 7, 1 << 20])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Read so many characters at once: where a chunk ends must not matter."""
    monkeypatch.setattr(export, "CHUNK", request.param)
    return int(request.param)


LISTED = [{"a": [1, -2.5e3, 'x\\"]}']}, {}, 12, None, True, "é\u2028"]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.usefixtures("chunk")
def test_what_stands_under_items_comes_one_by_one(tmp_path: Path, indent: int | None) -> None:
    whole = {"apiVersion": "v1", "items": LISTED, "metadata": {"items": [1]}, "kind": "List"}
    assert read(tmp_path, json.dumps(whole, indent=indent)) == LISTED


@pytest.mark.usefixtures("chunk")
def test_an_object_without_a_list_is_an_item_itself(tmp_path: Path) -> None:
    assert read(tmp_path, '{"kind": "Pod", "items": null}') == [{"kind": "Pod", "items": None}]


@pytest.mark.usefixtures("chunk")
def test_several_exports_may_stand_in_one_file(tmp_path: Path) -> None:
    assert read(tmp_path, '{"items": [1]}\n{"items": [2, 3]}\n{"kind": "Pod"}\n[4]\n') == [1, 2, 3, {"kind": "Pod"}, 4]


@pytest.mark.usefixtures("chunk")
def test_a_number_at_the_end_of_a_chunk_is_read_whole(tmp_path: Path) -> None:
    assert read(tmp_path, '{"items": [12345, 678]}') == [12345, 678]


def test_an_empty_list_has_no_items(tmp_path: Path) -> None:
    assert read(tmp_path, '{"items": [ ]}') == []


@pytest.mark.parametrize(
    "text, line, problem",
    [
        ('{"items": [1,\n2,\n', 3, "invalid JSON (Expecting value)"),
        ('{"items": [1]\n', 2, "it ends in the middle of an object"),
        ('{"items": [1 2]}', 1, "expected ,, found 2"),
        ('{"a"\n; 1}', 2, "expected :, found ;"),
        ('{"a": 1\n"b": 2}', 2, 'expected ,, found "'),
        ("{1: 2}", 1, "an object's key is not a string"),
        ("nothing", 1, "expected {, found n"),
        ('{"items": [' + "[" * 100_000, 1, "it is nested too deeply"),
    ],
)
def test_what_is_no_json_is_told_with_its_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    with pytest.raises(NoJson) as refused:
        read(tmp_path, text)
    assert (refused.value.line, refused.value.problem) == (line, problem)
