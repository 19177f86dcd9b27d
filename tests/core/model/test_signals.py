"""Which silences pause which pools, and what is said of it."""

from typing import Any

import pytest

from receiver.core.model.model import PoolState
from receiver.core.model.signals import Matcher, PoolSilence, Silence, silenced_pools
from tests.core.builders import HOUR, NOW, a_node, a_policy, a_pool, a_silence, a_state, facts, run
from tests.core.pictures import picture_of

OURS = Matcher(name="component", value="gpu-autoscaler")
POLICY = a_policy(a_pool("l40s"), a_pool("a100"))


def silence(*matchers: Matcher, number: str = "s-1", hours: float = 2, by: str = "ops", comment: str = "") -> Silence:
    return Silence(id=number, matchers=matchers, ends_at=NOW + hours * HOUR, created_by=by, comment=comment)


def pool_is(value: str, **how: bool) -> Matcher:
    return Matcher(name="pool", value=value, **how)


@pytest.mark.parametrize(
    ("matchers", "paused"),
    [
        ([OURS, pool_is("l40s")], {"l40s-id"}),
        ([OURS, pool_is("a100-id")], {"a100-id"}),
        ([pool_is("l40s")], {"l40s-id"}),
        ([OURS, pool_is(".+", is_regex=True)], {"l40s-id", "a100-id"}),
        ([OURS, pool_is("l40", is_regex=True)], set()),
        ([OURS, pool_is("other")], set()),
        ([OURS], set()),
        ([OURS, pool_is("l40s"), Matcher(name="alertname", value="GpuPodsPending")], set()),
        ([Matcher(name="component", value="else"), pool_is("l40s")], set()),
        ([OURS, pool_is("l40s"), Matcher(name="team", value="vision")], set()),
    ],
)
def test_a_silence_pauses_the_pools_that_it_names_without_naming_an_alert(
    matchers: list[Matcher], paused: set[str]
) -> None:
    assert set(silenced_pools([silence(*matchers)], POLICY)) == paused


def test_a_silence_says_who_until_when_and_why() -> None:
    found = silenced_pools([silence(OURS, pool_is("l40s"), comment="new driver")], POLICY)["l40s-id"]
    assert found == PoolSilence(id="s-1", by="ops", until=NOW + 2 * HOUR, comment="new driver")
    assert str(found) == "silenced in Alertmanager by ops until 2026-11-20 14:00 UTC: new driver"


def test_a_silence_without_author_and_comment_is_somebodys() -> None:
    found = silenced_pools([silence(OURS, pool_is("l40s"), by="")], POLICY)["l40s-id"]
    assert str(found) == "silenced in Alertmanager by someone until 2026-11-20 14:00 UTC"


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_silences_the_one_that_ends_last_is_told_with_how_many_there_are(order: int) -> None:
    both = [
        silence(OURS, pool_is("l40s"), number="s-1", hours=3, by="alice", comment="bench"),
        silence(OURS, pool_is("l40s-id"), number="s-2", hours=1, by="bob"),
    ]
    found = silenced_pools(both[::order], POLICY)["l40s-id"]
    assert (found.id, found.by, found.more) == ("s-1", "alice", 1)
    assert str(found) == ("silenced in Alertmanager by alice until 2026-11-20 15:00 UTC (1 other silence too): bench")


def test_a_silenced_pool_of_which_nothing_is_wanted_says_so_all_the_same() -> None:
    _, decisions = run(facts(a_state(a_node(idle_since=NOW), silence=a_silence())), a_policy())
    (decision,) = decisions.values()
    assert ("silence", str(a_silence())) in [(r.rule, r.detail) for r in decision.reasons]


def shown(state: PoolState) -> dict[str, Any]:
    """The pool as pages and the API show it."""
    found, policy = facts(state), a_policy()
    assignment, by_name = run(found, policy)
    decisions = {d.pool: d for d in by_name.values()}
    (pool,) = picture_of(found, assignment, decisions, policy)["pools"]
    return dict(pool)


def test_the_picture_has_the_silence_as_a_sentence_and_in_parts() -> None:
    pool = shown(a_state(silence=a_silence()))
    assert pool["silenced_by"] == str(a_silence())
    assert pool["silence"] == {
        "id": "s-1",
        "by": "ops",
        "until": "2026-11-20T14:00:00+00:00",
        "comment": "new driver",
        "more": 0,
    }


def test_a_pool_that_nobody_silenced_has_none() -> None:
    pool = shown(a_state())
    assert (pool["silenced_by"], pool["silence"]) == (None, None)
