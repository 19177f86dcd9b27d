"""`receiver.step.parts`: a part of a step that fails is counted under a name that the metric has from the start."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.clock import SystemClock
from receiver.core.explain.explain import State, explain, what_to_do
from receiver.core.explain.rules import RULES
from receiver.core.notices.notice import Cause
from receiver.core.scaling import decide
from receiver.core.scaling.failures import Failure
from receiver.ports import Store
from receiver.runtime.loop import Loop
from receiver.step import publish
from receiver.step.parts import PARTS, counted_as
from tests.e2e.waiting import until
from tests.given import lives
from tests.given.life import TICK
from tests.step.loop_builders import Right, stepped_once

RECEIVER = Path(publish.__file__).parents[1]


def _names(node: ast.AST) -> Iterator[str]:
    """The parts that *node* names: in `part(...)`, in `Failure(part=...)` and in the pairs of what `publish` makes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "part":
        owner = ast.unparse(node.func.value).split(".")[-1]
        yield from (str(a.value) for a in node.args[:1] if isinstance(a, ast.Constant) and owner == "parts")
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "Failure":
        yield from (str(k.value.value) for k in node.keywords if k.arg == "part" and isinstance(k.value, ast.Constant))
    elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.elts[0], ast.Constant):
        yield str(node.elts[0].value)


def used() -> set[str]:
    """Every name of a part in receiver/."""
    found: set[str] = set()
    for file in RECEIVER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Tuple) or file.name == "publish.py":
                found |= set(_names(node))
    return found


def test_every_part_that_the_code_names_is_known_and_no_other() -> None:
    assert used() == set(PARTS)
    assert len(set(PARTS)) == len(PARTS)


def test_all_messages_count_as_one_part() -> None:
    assert {counted_as(part) for part in ("message:grew", "message:misfit", "messages")} == {"messages"}
    assert [counted_as(part) for part in PARTS] == list(PARTS)


def test_the_loop_counts_the_parts_of_a_step_that_failed_in_a_step_that_is_good() -> None:
    counted: list[Any] = []

    class Counting(Right):
        def stepped(self, seconds: float, *, failed: bool, failures: object = ()) -> None:
            counted.append((failed, failures))

    failure = Failure(part="picture", error=ValueError("a bug"))
    right = Counting()
    step = replace(stepped_once(), failures=(failure,))
    loop = Loop(lambda _now: step, right, SystemClock(), TICK, right)
    loop.start()
    try:
        until(lambda: bool(counted), "a step")
    finally:
        loop.stop()
    assert counted[0] == (False, (failure,))


def test_a_step_without_a_picture_is_counted_and_served_the_pools(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = lives.at_zero(store)
    life.step()
    life.pass_time(TICK)
    monkeypatch.setattr(publish, "picture", lambda *_: 1 / 0)
    assert [(f.part, f.pool) for f in life.step().failures] == [("picture", None)]
    shown = store.snapshot()
    assert shown is not None
    assert store.counts()["last_step_at"] == life.now > shown[1]


def test_work_that_waits_for_a_pool_with_a_bug_is_told_so_in_plain_words(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = lives.waiting(store)
    monkeypatch.setattr(decide, "decide", lambda *_: 1 / 0)
    stepped = life.step()
    (decision,) = stepped.decisions.values()
    (told,) = explain(stepped.facts, stepped.assignment, stepped.decisions, life.policy)
    assert (decision.deciding.rule, told.fate.state, told.fate.rule) == ("internal_error", State.HELD, "internal_error")
    assert what_to_do(told.fate.state, told.fate.rule, namespace="ml", pod="train-0") == RULES["internal_error"].advice
    (notice,) = [n.notice for n in store.notices_due(life.now) if n.notice.cause == Cause.HELD]
    assert notice.title == "GPU pool l40s does not grow: its decision failed with an internal error; 1 pod waits"
    assert notice.guide == "runbooks/GpuAutoscalerPartFails.md"
    assert "ZeroDivisionError: division by zero" in notice.body
