"""What to do next with a node that a removal has chosen."""

from datetime import timedelta
from typing import Any

import pytest

from receiver.core.model.actions import Because, Victim, VictimStage
from receiver.core.model.model import CordonedBy, Node, Stage
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.scaling.retirement import Call, DrainResult, Gone, Later, Move, Spare, VictimView, next_move
from tests.core.builders import AN_INSTANT, MINUTE, NOW, SECOND, a_node, a_pod

WORK = a_pod("late", phase=PodPhase.RUNNING, node="n1")
EVICTED = {"because": Because.EVICTED}
IN_USE = "the GPUs of n1 are in use, and no GPU pod holds them"
STILL_IN_USE = "the GPUs of n1 are still in use after 15m, and no GPU pod holds them"


def cordoned(**changes: Any) -> Victim:
    given = {"instance": "i-n1", "node": "n1", "stage": VictimStage.CORDONED, "since": NOW - MINUTE}
    return Victim(**{**given, **changes})


def ours(**changes: Any) -> Node:
    return a_node("n1", **{"cordoned_by": CordonedBy.US, "cordoned_for": "retire", **changes})


def move(victim: Victim, node: Node | None, **seen: Any) -> Move:
    return next_move(victim, node, VictimView(now=NOW, **seen))


def pods(*found: Pod) -> dict[str, Any]:
    return {"pods": found}


def test_each_call_follows_from_what_the_last_one_showed() -> None:
    drained = {"drain": DrainResult()}
    assert move(cordoned(stage=VictimStage.CHOSEN, since=None), a_node("n1")) is Call.CORDON
    assert move(cordoned(), ours()) is Call.LOOK
    assert move(cordoned(), ours(), **pods()) is Call.DRAIN
    assert move(cordoned(), ours(), **drained) is Call.LOOK
    assert move(cordoned(), ours(), **drained, **pods()) is Call.DELETE


@pytest.mark.parametrize("because", [Because.CONSOLIDATED, Because.EVICTED])
def test_a_node_that_is_emptied_is_drained_before_anybody_looks_at_its_pods(because: Because) -> None:
    victim = cordoned(because=because)
    assert move(victim, ours(pods=(WORK,))) is Call.DRAIN
    assert move(victim, ours(), drain=DrainResult()) is Call.LOOK


def test_a_node_that_does_not_answer_is_looked_at_and_deleted_without_a_drain() -> None:
    lost = ours(ready=False, stage=Stage.BROKEN)
    assert move(cordoned(because=Because.LOST), lost) is Call.LOOK
    assert move(cordoned(because=Because.LOST), lost, **pods()) is Call.DELETE


def test_a_node_that_kubernetes_does_not_know_is_looked_at_and_deleted_without_a_cordon() -> None:
    chosen, unknown = cordoned(stage=VictimStage.CHOSEN, since=None), a_node("n1", registered=False)
    assert move(chosen, unknown) is Call.LOOK
    assert move(chosen, unknown, **pods()) is Call.DELETE


@pytest.mark.parametrize(
    "seen", [pods(WORK), {**pods(WORK), "drain": DrainResult()}], ids=["before", "after the drain"]
)
def test_work_that_is_found_on_the_node_spares_it(seen: dict[str, Any]) -> None:
    assert move(cordoned(), ours(), **seen) == Spare("ml/late started there")


def test_work_that_the_step_saw_spares_the_node_and_one_that_is_kept_says_why() -> None:
    assert move(cordoned(), ours(pods=(WORK,))) == Spare("ml/late started there")
    assert move(cordoned(), ours(), stays="the pool is paused") == Spare("the pool is paused")


def test_a_node_from_which_pods_were_evicted_backs_off_when_it_is_given_back() -> None:
    victim = cordoned(because=Because.CONSOLIDATED, emptied=True, why="2 pods are leaving")
    backs_off = Spare("2 pods are leaving; then the pool is paused", refused=True)
    assert move(victim, ours(), stays="the pool is paused") == backs_off
    assert move(victim, ours(pods=(WORK,)), stays="the pool is paused") == Spare("the pool is paused")
    at_once = cordoned(because=Because.CONSOLIDATED, emptied=True)
    assert move(at_once, ours(), stays="the pool is paused") == Spare("the pool is paused", refused=True)


@pytest.mark.parametrize("stage", [VictimStage.DELETED, VictimStage.GONE, VictimStage.SPARED])
def test_nothing_is_done_with_a_node_whose_removal_is_over(stage: VictimStage) -> None:
    assert move(cordoned(stage=stage), ours(), stays="the pool is paused") == Later()


@pytest.mark.parametrize(
    ("since", "expected"),
    [(5 * SECOND, Call.LOOK), (5 * SECOND - AN_INSTANT, Later()), (-5 * SECOND, Call.LOOK), (-4 * SECOND, Later())],
)
def test_a_cordoned_node_is_left_alone_for_five_seconds(since: timedelta, expected: Move) -> None:
    assert move(cordoned(since=NOW - since), ours()) == expected


def test_a_node_that_was_chosen_a_moment_ago_is_cordoned_at_once() -> None:
    assert move(cordoned(stage=VictimStage.CHOSEN, since=NOW), a_node("n1")) is Call.CORDON
    assert move(cordoned(stage=VictimStage.CHOSEN, since=NOW), a_node("n1", registered=False)) is Call.LOOK


def test_a_cordon_without_a_moment_is_an_old_one() -> None:
    assert move(cordoned(since=None), ours()) is Call.LOOK


def test_before_a_call_may_be_tried_again_a_node_can_only_be_spared() -> None:
    assert move(cordoned(), ours(), early=True) == Later()
    assert move(cordoned(), ours(), early=True, stays="the pool is paused") == Spare("the pool is paused")


@pytest.mark.parametrize("since", [30 * SECOND, -30 * SECOND])
def test_a_person_who_uncordons_the_node_spares_it_once_the_list_must_be_newer_than_the_cordon(
    since: timedelta,
) -> None:
    open_again, refused = ours(cordoned_by=None), Spare("n1 was uncordoned by someone else", refused=True, lifts=False)
    assert move(cordoned(since=NOW - since), open_again) == refused
    assert (
        move(cordoned(since=NOW - since + (AN_INSTANT if since > timedelta(0) else -AN_INSTANT)), open_again) == Later()
    )


@pytest.mark.parametrize("stays", ["", "the pool is paused"])
def test_a_node_is_not_given_back_while_its_delete_may_still_take_effect(stays: str) -> None:
    asked = cordoned(asked_at=NOW - MINUTE + AN_INSTANT)
    assert move(asked, ours(), stays=stays, **pods(WORK)) == Later()
    assert move(cordoned(asked_at=NOW - MINUTE), ours(), stays=stays, **pods(WORK)) != Later()
    emptied = cordoned(because=Because.CONSOLIDATED, emptied=True, asked_at=NOW)
    assert move(emptied, ours(), stays="the pool is paused") == Later()


@pytest.mark.parametrize("node", [None, ours(stage=Stage.DELETING)], ids=["not listed", "being deleted"])
def test_a_node_that_is_gone_was_ours_after_a_recent_cordon(node: Node | None) -> None:
    assert move(cordoned(since=NOW - 30 * MINUTE), node) == Gone(ours=True)
    assert move(cordoned(since=NOW - 30 * MINUTE - AN_INSTANT), node) == Gone(ours=False)
    assert move(cordoned(stage=VictimStage.CHOSEN, since=None), node) == Gone(ours=False)


@pytest.mark.parametrize("because", [Because.STUCK, Because.LOST])
def test_a_dead_node_that_is_gone_was_ours_without_a_cordon(because: Because) -> None:
    assert move(cordoned(stage=VictimStage.CHOSEN, since=None, because=because), None) == Gone(ours=True)


def test_a_ready_node_that_civo_does_not_list_is_waited_for() -> None:
    assert move(cordoned(), None, unlisted=True) == Later()
    assert move(cordoned(since=NOW - 30 * MINUTE - AN_INSTANT), None, unlisted=True) == Gone(ours=False)
    assert move(cordoned(stage=VictimStage.CHOSEN), None, unlisted=True) == Gone(ours=False)
    assert move(cordoned(), ours(stage=Stage.DELETING), unlisted=True) == Gone(ours=True)


@pytest.mark.parametrize(
    ("node", "unsure"),
    [(ours(), True), (ours(stage=Stage.UNKNOWN), False), (ours(stage=Stage.BROKEN), False)],
    ids=["a source is silent", "Kubernetes is silent", "it broke"],
)
def test_a_node_that_a_window_empties_waits_for_a_clear_view(node: Node, unsure: bool) -> None:
    silent: dict[str, Any] = {"stays": "sources are silent", "unsure": unsure}
    assert move(cordoned(**EVICTED), node, **silent) == Later()
    assert move(cordoned(**EVICTED, since=NOW - 15 * MINUTE), node, **silent) == Later()
    assert move(cordoned(**EVICTED, since=NOW - 15 * MINUTE - AN_INSTANT), node, **silent) == Spare(
        "sources are silent"
    )
    assert move(cordoned(**EVICTED, stage=VictimStage.CHOSEN), node, **silent) == Spare("sources are silent")
    assert move(cordoned(), node, **silent) == Spare("sources are silent")


def test_a_node_that_no_window_keeps_goes_on_although_a_source_is_silent() -> None:
    assert move(cordoned(**EVICTED), ours(), unsure=True) is Call.DRAIN


def test_a_node_that_a_window_empties_is_spared_at_once_where_the_view_is_clear() -> None:
    assert move(cordoned(**EVICTED), ours(), stays="the window is over") == Spare("the window is over")


def test_a_drain_is_waited_for_and_given_up_after_a_quarter_of_an_hour() -> None:
    slow = {**pods(), "drain": DrainResult(awaits="2 pods are leaving")}
    assert move(cordoned(since=NOW - 15 * MINUTE), ours(), **slow) == Later()
    late = Spare("node n1 was not drained within 15m: 2 pods are leaving", refused=True)
    assert move(cordoned(since=NOW - 15 * MINUTE - AN_INSTANT), ours(), **slow) == late
    assert move(cordoned(), ours(), drain=DrainResult(refused="web/db keeps it")) == Spare(
        "web/db keeps it", refused=True
    )


def test_an_emptied_node_whose_gpus_are_in_use_is_not_deleted() -> None:
    used, drained = ours(unknown_since=NOW), {"drain": DrainResult()}
    assert move(cordoned(**EVICTED), used, **drained) == Later(IN_USE, code="gpus_in_use")
    assert move(cordoned(**EVICTED, since=NOW - 16 * MINUTE), used, **drained) == Spare(STILL_IN_USE, refused=True)
    assert move(cordoned(because=Because.CONSOLIDATED), used, **drained) is Call.LOOK
