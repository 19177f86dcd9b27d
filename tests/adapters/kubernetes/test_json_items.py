"""Objects of JSON lists, and of several documents in one file."""

import json
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.kubernetes.export import items


def read(folder: Path, text: str) -> list[Any]:
    file = folder / "export.json"
    file.write_text(text, encoding="utf-8")
    return list(items(file))


LISTED = [{"a": [1, -2.5e3, 'x\\"]}']}, {}, 12, None, True, "é\u2028"]


@pytest.mark.parametrize("indent", [None, 2])
def test_what_stands_under_items_comes_one_by_one(tmp_path: Path, indent: int | None) -> None:
    whole = {"apiVersion": "v1", "items": LISTED, "metadata": {"items": [1]}, "kind": "List"}
    assert read(tmp_path, json.dumps(whole, indent=indent)) == LISTED


def test_an_object_without_a_list_is_an_item_itself(tmp_path: Path) -> None:
    assert read(tmp_path, '{"kind": "Pod", "items": null}') == [{"kind": "Pod", "items": None}]


def test_several_exports_may_stand_in_one_file(tmp_path: Path) -> None:
    assert read(tmp_path, '{"items": [1]}\n{"items": [2, 3]}\n{"kind": "Pod"}\n[4]\n') == [1, 2, 3, {"kind": "Pod"}, 4]


@pytest.mark.parametrize("text", ['{"items": [ ]}', "", "\n"])
def test_an_empty_list_has_no_items(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == []


@pytest.mark.parametrize(
    "text, line",
    [('{"items": [1,\n2,', 2), ('{"items": [1 2]}', 1), ('{"a"\n; 1}', 2), ('{"a": 1\n"b": 2}', 2), ("nothing", 1)],
)
def test_what_is_no_json_is_told_with_its_line(tmp_path: Path, text: str, line: int) -> None:
    with pytest.raises(json.JSONDecodeError) as refused:
        read(tmp_path, text)
    assert refused.value.lineno == line


def test_brackets_without_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecursionError):
        read(tmp_path, '{"items": [' + "[" * 100_000)
