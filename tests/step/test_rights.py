"""Where Kubernetes would not let us remove a node, none is bought; it is asked seldom, and a grant is seen soon."""

from datetime import timedelta

import pytest

from receiver.core.model.rights import AGAIN_AFTER, GRANTED_FOR, UNKNOWN_HOLDS_FOR, Rights
from receiver.ports import Store, TryLater, WontWork
from tests.given import lives
from tests.given.life import Life

REFUSED = ("patch nodes", "create pods/eviction")
MOMENT = timedelta(seconds=1)


def waiting(store: Store, *refused: str, mode: str = "act") -> Life:
    """A pod waits, no node is there, and the cluster refuses *refused*."""
    life = lives.waiting(store, mode=mode)
    life.cluster.refused = refused
    return life


def asked(life: Life) -> Rights | None:
    return life.steps[-1].facts.rights


def test_nothing_is_bought_while_nodes_could_not_be_removed_and_people_are_told_what_to_grant(store: Store) -> None:
    life = waiting(store, *REFUSED)
    life.run(timedelta(minutes=10))
    decision = life.steps[-1].decisions["l40s-id"]
    assert life.required() == 0
    assert decision.deciding.rule == "nodes_may_be_removed"
    assert "patch nodes, create pods/eviction" in decision.deciding.detail
    assert [n for n in life.notices() if "GPU pools" in n] == [
        "GPU pools do not grow: RBAC does not allow the autoscaler to remove nodes"
    ]


def test_a_grant_is_seen_within_a_minute_without_a_restart_and_told(store: Store) -> None:
    life = waiting(store, *REFUSED)
    life.run(timedelta(minutes=2))
    life.cluster.refused = ()
    life.run(timedelta(minutes=1))
    assert life.required() == 1
    assert "RBAC permissions restored: GPU pools can grow again" in life.notices()


def test_what_is_granted_is_asked_again_after_minutes_and_its_loss_stops_growth(store: Store) -> None:
    life = waiting(store)
    first = life.step() and asked(life)
    life.pass_time(GRANTED_FOR - MOMENT)
    life.step()
    assert asked(life) == first
    life.cluster.refused = REFUSED
    life.pass_time(MOMENT)
    life.step()
    assert asked(life) == Rights(lacking=REFUSED, since=life.now, asked_at=life.now)


@pytest.mark.parametrize("error", [TryLater("no answer", code="timeout"), WontWork("405", code="http_405")])
def test_what_nobody_can_tell_holds_growth_for_some_minutes_and_not_for_ever(
    store: Store, error: TryLater | WontWork
) -> None:
    life = waiting(store)

    def refuse() -> tuple[str, ...]:
        raise error

    life.cluster.missing_rights = refuse  # type: ignore[method-assign]  # this call alone fails, the cluster answers
    life.run(UNKNOWN_HOLDS_FOR - MOMENT)
    assert life.required() == 0
    life.run(timedelta(seconds=20))
    assert life.required() == 1
    assert "Cannot check the RBAC permissions to remove GPU nodes" in life.notices()


def test_a_question_that_is_lost_is_asked_again_soon_and_the_last_answer_counts_meanwhile(store: Store) -> None:
    life = waiting(store)
    life.step()
    life.cluster.refused = REFUSED
    life.cluster.fail_next(TryLater("no answer", code="timeout"), "missing_rights")
    life.pass_time(GRANTED_FOR)
    life.step()
    kept = asked(life)
    assert kept is not None
    assert (kept.lacking, kept.detail) == ((), "no answer")
    life.pass_time(AGAIN_AFTER)
    life.step()
    again = asked(life)
    assert again is not None
    assert again.lacking == REFUSED


@pytest.mark.database("what outlives a process is in it")
def test_a_restart_knows_what_was_answered_before_it(store: Store) -> None:
    life = waiting(store, *REFUSED)
    life.step()
    life.cluster.fail_always(TryLater("no answer", code="timeout"))
    life.pass_time(timedelta(hours=1))
    life.step()
    known = asked(life)
    assert known is not None
    assert known.lacking == REFUSED


def test_a_cluster_that_answers_again_is_asked_at_once(store: Store) -> None:
    life = waiting(store)
    life.cluster.fail_always(TryLater("no answer", code="timeout"))
    life.step()
    life.cluster.fail_always(None)
    life.pass_time(MOMENT)
    life.step()
    assert life.required() == 1


def test_observe_mode_asks_for_no_right_and_shows_the_growth_that_there_would_be(store: Store) -> None:
    life = waiting(store, *REFUSED, mode="observe")
    stepped = life.step()
    assert stepped.facts.rights is None
    assert stepped.decisions["l40s-id"].target == 1


def test_without_a_cluster_there_is_nobody_to_ask(store: Store) -> None:
    life = waiting(store, *REFUSED)
    life.cluster = None  # type: ignore[assignment]  # as with kubernetes.enabled: false
    assert life.step().facts.rights is None
