"""Laws of when the core's answer changes, and of what a pool on trial, dead nodes and moved pods may lead to."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.model.policy import Policy
from tests.core.builders import (
    GPU,
    HOURLY,
    NOW,
    a_node,
    a_pool,
    a_state,
    facts,
)
from tests.core.small_worlds import ENDS_SOON, HOLDS, MOVING_POD, NODE_KINDS, open_removals, small_worlds
from tests.core.worlds import LAWS, World, decided

EACH = settings(LAWS, max_examples=settings().max_examples // 8)  # for each thing that ends soon
INSTANT = timedelta(microseconds=1)


def answer(world: World, at: datetime) -> tuple[list[int], datetime | None]:
    """The targets of all pools at *at*, and the moment at which the first of them may change."""
    found, policy = world
    decisions = [d for _, _, d in decided((replace(found, at=at), policy))]
    return [d.target for d in decisions], min((d.reconsider_at for d in decisions if d.reconsider_at), default=None)


@st.composite
def emptying_worlds(draw: st.DrawFn) -> World:
    """A node at its hour's end that could be emptied, or just was, beside a busy one with room."""
    drawn = {
        field: draw(strategy) for field, strategy in NODE_KINDS[draw(st.sampled_from(["movable", "idle"]))].items()
    }
    node = a_node("n0", allocatable={GPU: 2}, **{**drawn, "created_at": draw(ENDS_SOON)})
    action = draw(open_removals(node))
    room = a_node("n1", allocatable={GPU: 2}, pods=(replace(MOVING_POD, evictable=False),), idle_since=None)
    state = a_state(node, room, open_action=draw(st.sampled_from([None, action])))
    return facts(state), Policy(pools=(a_pool(resources={GPU: 2}),), billing=HOURLY)


@pytest.mark.parametrize("soon", ["emptied", "asked", *NODE_KINDS, *HOLDS])
@EACH
@given(st.data(), st.integers(1, 99))
def test_the_answer_changes_at_no_moment_that_was_not_named(soon: str, data: st.DataObject, percent: int) -> None:
    """A chain of ten moments, one named after the other: between two of them the answer stays."""
    world = data.draw(emptying_worlds() if soon == "emptied" else small_worlds(soon))
    at = NOW
    for _ in range(10):
        targets, named = answer(world, at)
        until = named or at + timedelta(hours=2)
        for between in (at + (until - at - INSTANT) * percent / 100, until - INSTANT):
            assert answer(world, between)[0] == targets, (at, between, named)
        at = until
