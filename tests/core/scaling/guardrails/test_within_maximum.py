"""within_maximum: a pool never exceeds its maximum, nor that of an open window, a ceiling or a pin."""

from datetime import datetime
from typing import Any

import pytest

from receiver.core.model.windows import Window
from tests.core.builders import (
    HOUR,
    NOW,
    a_busy_node,
    a_policy,
    a_pool,
    a_state,
    an_override,
    growing,
    remedies,
    shrinking,
)
from tests.core.scaling.guardrails.cases import cut, held

FREE = "wait for a free GPU in the pool"
HIGHER = "raise max_nodes of the pool (now {})"
NIGHT = Window(name="night", times=((11 * 60, 13 * 60),), max_nodes=1)
ENDS = "wait until the {} of alice ends at 2026-11-20 13:00:00 UTC, or end it: gpu-autoscaler override end {}-1"
BY_ALICE = "{} of 1 node by alice until 2026-11-20 13:00 UTC: load test"
CLOSES = "wait for the next window change: window night is open; the next window change is at 2026-11-20 13:00:00 UTC"


@pytest.mark.parametrize(
    ("pool", "overrides", "detail", "until", "told"),
    [
        pytest.param({"max_nodes": 1}, (), "at most 1 node", None, {HIGHER.format(1): None, FREE: None}, id="its own"),
        pytest.param(
            {"windows": (NIGHT,)},
            (),
            "at most 1 node (window night)",
            NOW + HOUR,
            {CLOSES: NOW + HOUR, HIGHER.format(8): None, FREE: None},
            id="an open window's",
        ),
        *(
            pytest.param(
                {},
                (an_override(kind, 1),),
                f"at most 1 node ({BY_ALICE.format(kind)})",
                NOW + HOUR,
                {ENDS.format(kind, kind): NOW + HOUR, FREE: None},
                id=f"a {kind}'s",
            )
            for kind in ("ceiling", "pin")
        ),
    ],
)
def test_growth_ends_at_a_maximum_and_the_reason_says_whose_and_until_when(
    pool: dict[str, Any],
    overrides: tuple[Any, ...],
    detail: str,
    until: datetime | None,
    told: dict[str, datetime | None],
) -> None:
    policy = a_policy(a_pool(**pool))
    part = growing(policy, pods=3, overrides=overrides)
    whole = growing(policy, a_state(a_busy_node()), pods=3, overrides=overrides)
    assert (part.target, whole.target) == (1, 1)
    for decision, said in ((part, cut(part, "within_maximum")), (whole, held(whole, "within_maximum"))):
        assert (said.detail, said.until) == (detail, until)
        assert remedies(decision, "within_maximum") == told


def test_up_to_its_maximum_a_pool_grows() -> None:
    assert growing(a_policy(a_pool(max_nodes=3)), pods=3).target == 3


def test_a_pool_above_its_maximum_is_not_shrunk_by_a_wish_to_grow() -> None:
    four = a_state(*(a_busy_node(f"n{n}") for n in range(4)))
    held(growing(a_policy(a_pool(max_nodes=2)), four), "within_maximum")


def test_a_window_without_an_end_within_its_horizon_is_named_all_the_same() -> None:
    always = Window(name="night", max_nodes=0)
    said = remedies(growing(a_policy(a_pool(windows=(always,)))), "within_maximum")
    assert "wait for the next window change: window night is open; the next window change is at an unknown time" in said


def test_no_maximum_stops_a_removal() -> None:
    assert shrinking(a_policy(a_pool(max_nodes=0))).target == 0
