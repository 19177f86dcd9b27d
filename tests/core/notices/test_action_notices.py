"""Which pools a message names as those that can take the work of one that Civo refuses."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Outcome, OutcomeKind, VictimStage
from receiver.core.model.model import Backoff, PoolState
from receiver.core.model.policy import Policy, Pool
from receiver.core.notices.action_notices import Around, ended, instead_of
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import plan
from tests.core.builders import NOW, a_node, a_pod, a_policy, a_pool, a_state, facts, run

L40S, OTHER = a_pool(labels={"gpu": "l40s"}), a_pool("h100", max_nodes=1, price_usd_per_hour=Decimal("2.99"))


def named(other: Pool = OTHER, there: PoolState | None = None, **pod: Any) -> tuple[str, ...]:
    """The pools named beside L40S for one pod, where the *other* pool is as it is *there* (empty)."""
    policy: Policy = a_policy(L40S, other)
    found = facts(a_state(), there or a_state(pool=other.id), waiting=[a_pod(**pod)])
    return instead_of(L40S, assign(found, policy).pools[L40S.id], found, policy)


def left_off(minutes: float) -> PoolState:
    until = NOW + timedelta(minutes=minutes)
    return a_state(pool=OTHER.id, backoff=Backoff(failures=1, until=until, reason="refused"))


def test_a_pool_that_fits_the_work_and_has_room_is_named() -> None:
    assert named() == ("h100",)
    assert named(there=left_off(-1)) == ("h100",)


@pytest.mark.parametrize(
    ("other", "there", "pod"),
    [
        pytest.param(OTHER, a_state(a_node(cordoned_by=None, pods=(a_pod("x"),)), pool=OTHER.id), {}, id="is full"),
        pytest.param(replace(OTHER, price_usd_per_hour=None), None, {}, id="has no price"),
        pytest.param(OTHER, left_off(1), {}, id="is left off itself"),
        pytest.param(OTHER, None, {"node_selector": {"gpu": "l40s"}}, id="does not fit"),
    ],
)
def test_a_pool_is_not_named_that(other: Pool, there: PoolState | None, pod: dict[str, Any]) -> None:
    assert named(other, there, **pod) == ()


def test_none_is_named_where_nothing_waits() -> None:
    policy = a_policy(replace(L40S, standby_nodes=1), OTHER)
    found = facts(a_state(), a_state(pool=OTHER.id))
    assert instead_of(L40S, assign(found, policy).pools[L40S.id], found, policy) == ()


@given(st.lists(st.booleans(), min_size=1, max_size=6).filter(any))
def test_a_removal_names_as_removed_the_nodes_that_went_and_no_others(went: list[bool]) -> None:
    """Of nodes that the decision names some may be wanted again before they go: they are told as kept."""
    nodes = [a_node(f"n{n}", created_at=NOW - timedelta(minutes=56)) for n in range(len(went))]
    found, policy = facts(a_state(*nodes)), a_policy(L40S)
    _, decisions = run(found, policy)
    action = plan(decisions["l40s"], found.pool(L40S.id), policy)
    assert action is not None
    stages = [VictimStage.GONE if gone else VictimStage.SPARED for gone in went]
    victims = tuple(replace(v, stage=stage) for v, stage in zip(action.victims, stages, strict=True))
    outcome = Outcome(kind=OutcomeKind.CONFIRMED, at=NOW, detail="removed")
    around = Around(policy=policy, decision=decisions["l40s"], state=found.pool(L40S.id))
    notice = ended(replace(action, victims=victims), outcome, around)
    why = next(line for line in notice.body.splitlines() if line.startswith("Why: "))
    for victim in victims:
        assert (victim.node in why) is (victim.stage is VictimStage.GONE)
    assert (" kept: " in notice.body) is not all(went)
