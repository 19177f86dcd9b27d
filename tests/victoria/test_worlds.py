"""Samples as promtool's tests write them, and what both servers get of them."""

import struct
from pathlib import Path

import pytest

from tests.victoria.compare import EXPLAINED, Answer, differing, expressions
from tests.victoria.servers import snappy, write_request
from tests.victoria.worlds import STALE, expanded, labels_of, worlds

A, B = (("job", "a"),), (("job", "b"),)


def test_a_series_is_expanded_as_promtool_does() -> None:
    assert list(expanded("1 2x2 _ 0+10x2 5-1x1 _x2 -1e3")) == [1, 2, 2, 2, None, 0, 10, 20, 5, 4, None, None, -1000]
    [stale] = expanded("stale")
    assert stale is not None
    assert struct.pack("<d", stale) == struct.pack("<d", STALE)


def test_labels_are_read_with_their_escapes() -> None:
    assert labels_of(r'up{job="a",x="say \"b\""}') == (("__name__", "up"), ("job", "a"), ("x", 'say "b"'))


def test_a_world_has_the_series_of_its_test_and_what_the_rules_record(tmp_path: Path) -> None:
    [world] = worlds(tmp_path, ["right after a pod moved"])
    assert {"kube_pod_info", "node_pool:gpu_idle:sum", "ALERTS"} <= world.names
    assert "GpuNodesIdle" in world.rules
    pod = labels_of('kube_pod_info{job="kube-state-metrics",namespace="ml",pod="p",uid="1",node="n1"}')
    of_pod = {at: found.get(pod) for at, found in world.samples.items()}
    assert of_pod[570] == 1
    assert struct.pack("<d", of_pod[600] or 0) == struct.pack("<d", STALE)
    assert of_pod[630] is None


def test_a_request_holds_its_series_and_is_no_smaller_than_what_it_holds() -> None:
    request = write_request({(("__name__", "up"), ("job", "a")): [(30, 1.0)]})
    assert request == (
        b"\x0a\x29\x0a\x0e\x0a\x08__name__\x12\x02up\x0a\x08\x0a\x03job\x12\x01a\x12\x0d\x09"
        + struct.pack("<d", 1.0)
        + b"\x10\xb0\xea\x01"
    )
    assert snappy(b"abc") == b"\x03\xf4\x02\x00abc"
    assert len(snappy(b"x" * 70000)) == 70000 + 3 + 2 * 3


@pytest.mark.parametrize(
    "theirs, kind",
    [
        ({A: [1 + 1e-9]}, ""),
        ({A: [1.001]}, "value"),
        ({}, "missing"),
        ({A: [1], B: [1]}, "surplus"),
        ("many-to-many", "error"),
    ],
)
def test_labels_and_values_have_to_agree(theirs: Answer | str, kind: str) -> None:
    assert differing({A: [1]}, theirs).partition(":")[0] == kind


def test_every_rule_and_every_panel_is_among_the_expressions() -> None:
    kinds = {one.name.split()[0] for one in expressions()}
    assert kinds >= {"rule", "panel", "annotation", "doctor:", "receiver:"}
    assert len({one.expr for one in expressions()}) == len(expressions())
    assert EXPLAINED.keys() <= {one.name for one in expressions()}
