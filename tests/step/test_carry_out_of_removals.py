"""One sub-step of a removal at a time: cordon, wait, look, drain, delete; and what spares a node."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from receiver.core.explain.staying import UNKNOWN
from receiver.core.model.actions import Action, ActionKind, Because, Outcome, OutcomeKind, Victim, VictimStage
from receiver.core.model.model import Backoff, CordonedBy, Node, Stage
from receiver.core.model.pods import Pod, PodPhase
from receiver.ports import DRAINING, Did, TryLater, WontWork, WriterLostError
from receiver.step.carry_out import Keeps, Progress, carry_out, settled
from receiver.step.parts import Hands
from tests.core.builders import MINUTE, NOW, SECOND, a_busy_node, a_flight, a_node, a_pod, a_state, with_fields
from tests.step.outside import Outside, receipt

CORDONED_AT = NOW - 5 * SECOND  # long enough ago
POD = a_pod("late", phase=PodPhase.RUNNING, node="n1")


def victim(name: str = "n1", stage: VictimStage = VictimStage.CORDONED, **changes: Any) -> Victim:
    since = None if stage is VictimStage.CHOSEN else CORDONED_AT
    return Victim(**{"instance": f"i-{name}", "node": name, "stage": stage, "since": since, **changes})


def chosen(name: str = "n1", **changes: Any) -> Victim:
    return victim(name, VictimStage.CHOSEN, **changes)


def removal(*victims: Victim, **changes: Any) -> Action:
    given: dict[str, Any] = {"from_count": 4, "to_count": 4 - len(victims), "victims": victims}
    return Action(
        **{"id": "retire", "pool": "l40s-id", "kind": ActionKind.RETIRE, "opened_at": NOW, **given, **changes}
    )


def ours(name: str = "n1", **changes: Any) -> Node:
    """An empty node with our cordon."""
    return a_node(name, **{"cordoned_by": CordonedBy.US, "cordoned_for": "retire", **changes})


def goes_on(
    action: Action,
    *nodes: Node,
    outside: Outside | None = None,
    wanted: Collection[str] | None = None,
    kept: Mapping[str, str] | None = None,
    unsure: Collection[str] = (),
    required: int = 4,
    **state: Any,
) -> Progress:
    """The next sub-step of *action* in a pool of *nodes*; all victims are *wanted* if nothing else is said."""
    kept_victims = [v.instance for v in action.victims if wanted is not None and v.instance not in wanted]
    keeps = Keeps(reasons={i: (kept or {}).get(i, UNKNOWN) for i in kept_victims}, unsure=unsure)
    there = a_state(*nodes, required=required, **state)
    return carry_out(action, there, keeps, (outside or Outside()).hands, NOW)


def one(progress: Progress) -> Victim:
    [found] = progress.action.victims
    return found


def ended(progress: Progress) -> tuple[OutcomeKind, str] | None:
    return None if progress.outcome is None else (progress.outcome.kind, progress.outcome.detail)


# --- the stages -------------------------------------------------------------------------------------------


def test_a_chosen_node_is_cordoned_after_a_look_at_the_lead_and_looked_at_again_in_five_seconds() -> None:
    outside = Outside()
    progress = goes_on(removal(chosen(why="it waited")), a_node(), outside=outside)
    assert outside.calls == ["ready", "cordon n1 for retire"]
    assert one(progress) == victim(stage=VictimStage.CORDONED, since=NOW)
    assert progress.outcome is None
    assert progress.again_at == NOW + 5 * SECOND


@pytest.mark.parametrize("ago", [timedelta(0), 5 * SECOND - timedelta(microseconds=1), -(4 * SECOND)])
def test_a_cordoned_node_is_left_alone_for_five_seconds(ago: timedelta) -> None:
    outside = Outside()
    progress = goes_on(removal(victim(since=NOW - ago)), ours(), outside=outside)
    assert outside.calls == []
    assert one(progress).stage is VictimStage.CORDONED


@pytest.mark.parametrize("since", [CORDONED_AT, NOW - MINUTE, NOW + 5 * SECOND, None])
def test_then_it_is_looked_at_drained_looked_at_again_and_deleted(since: datetime | None) -> None:
    outside = Outside()
    progress = goes_on(removal(victim(since=since, why="it waited")), ours(), outside=outside)
    assert outside.calls == [
        "ready",
        "look n1",
        "ready",
        "drain n1 no GPU pods",
        "ready",
        "look n1",
        "ready",
        "retire i-n1",
    ]
    assert one(progress) == victim(stage=VictimStage.DELETED, since=NOW)
    assert progress.outcome is None
    assert progress.again_at == NOW + 5 * SECOND


def test_a_delete_is_recorded_before_it_is_sent_since_a_crash_would_hide_it() -> None:
    outside = Outside(retire=TryLater("no answer", code="timeout"))
    asked = removal(victim("n1", since=NOW), victim("n2"))
    goes_on(asked, ours("n1"), ours("n2"), outside=outside)
    assert outside.recorded == [replace(asked, victims=(asked.victims[0], replace(asked.victims[1], asked_at=NOW)))]


@pytest.mark.parametrize(("because", "drained"), [(Because.CONSOLIDATED, "consenting"), (Because.EVICTED, "evicting")])
def test_pods_that_may_go_are_drained_and_their_node_is_deleted(because: Because, drained: str) -> None:
    outside = Outside()
    progress = goes_on(removal(victim(because=because)), ours(pods=(POD,)), outside=outside)
    assert outside.writes == [f"drain n1 {drained}", "look n1", "retire i-n1"]
    assert one(progress).stage is VictimStage.DELETED


@pytest.mark.parametrize(("emptied", "margin"), [(False, MINUTE), (True, timedelta(0))])
def test_a_pod_that_came_within_a_minute_of_the_cordon_may_have_come_before_and_is_evicted_once(
    emptied: bool, margin: timedelta
) -> None:
    outside = Outside()
    goes_on(removal(victim(since=CORDONED_AT, emptied=emptied)), ours(), outside=outside)
    assert outside.cordoned_at == CORDONED_AT + margin


@pytest.mark.parametrize(
    ("before", "code", "emptied"), [(False, DRAINING, True), (False, "pdb", False), (True, "pdb", True)]
)
def test_a_node_whose_pods_are_leaving_counts_as_emptied_from_then_on(before: bool, code: str, emptied: bool) -> None:
    outside = Outside(drain=TryLater("not yet", code=code))
    assert one(goes_on(removal(victim(emptied=before)), ours(), outside=outside)).emptied is emptied


def test_a_node_that_does_not_answer_is_not_drained() -> None:
    outside = Outside()
    goes_on(removal(victim(because=Because.STUCK)), ours(ready=False), outside=outside)
    assert outside.writes == ["look n1", "retire i-n1"]


def test_a_node_that_kubernetes_does_not_know_is_deleted_without_a_cordon() -> None:
    outside = Outside()
    progress = goes_on(removal(chosen()), a_node(registered=False), outside=outside)
    assert outside.calls == ["ready", "look n1", "ready", "retire i-n1"]
    assert one(progress).stage is VictimStage.DELETED


def test_a_node_that_was_chosen_a_moment_ago_is_cordoned_at_once() -> None:
    outside = Outside()
    goes_on(removal(chosen(since=NOW)), a_node(), outside=outside)
    assert outside.writes == ["cordon n1 for retire"]


def test_a_cordoned_node_that_kubernetes_no_longer_knows_is_looked_at_like_any_other() -> None:
    outside = Outside()
    goes_on(removal(victim()), ours(registered=False), outside=outside)
    assert outside.writes == ["look n1", "drain n1 no GPU pods", "look n1", "retire i-n1"]


@pytest.mark.parametrize("stage", [VictimStage.DELETED, VictimStage.GONE, VictimStage.SPARED])
def test_nothing_more_is_done_to_a_node_that_was_deleted_or_spared(stage: VictimStage) -> None:
    outside = Outside()
    done = victim(stage=stage)
    progress = goes_on(removal(done, victim("n2", since=NOW)), ours(), ours("n2"), outside=outside, wanted=["i-n2"])
    assert outside.calls == []
    assert progress.action.victims[0] == done


def test_without_the_lead_nothing_is_written() -> None:
    for node, of in ((a_node(), chosen()), (ours(), victim())):
        outside = Outside(leads=False)
        with pytest.raises(WriterLostError):
            goes_on(removal(of), node, outside=outside)
        assert outside.writes == []
        outside = Outside(leads=False)
        with pytest.raises(WriterLostError):
            goes_on(removal(victim()), ours(), outside=outside, wanted=[])
        assert outside.writes == []


def test_without_a_cluster_a_removal_fails() -> None:
    hands = Hands(cloud=Outside().hands.cloud, cluster=None, may_write=lambda: True)
    progress = carry_out(removal(victim()), a_state(ours()), Keeps(), hands, NOW)
    assert ended(progress) == (
        OutcomeKind.FAILED,
        "no_kubernetes: nodes are removed only with access to Kubernetes",
    )
    assert progress.again_at is None


# --- what spares a node -----------------------------------------------------------------------------------


def test_a_node_that_is_no_longer_wanted_is_uncordoned_and_spared() -> None:
    outside = Outside()
    progress = goes_on(removal(victim()), ours(), outside=outside, wanted=[], kept={"i-n1": "the pool is paused"})
    assert outside.calls == ["ready", "uncordon n1"]
    assert one(progress) == victim(stage=VictimStage.SPARED, since=NOW, why="the pool is paused")
    assert ended(progress) == (OutcomeKind.WITHDRAWN, "n1: the pool is paused")
    assert (progress.backoff, progress.late) == (None, None)


def test_a_node_under_repair_that_is_spared_stays_cordoned_for_that_unless_a_person_uncordoned_it() -> None:
    for node, writes in ((ours(), ["cordon n1 for repair"]), (ours(cordoned_by=None), ["uncordon n1"])):
        outside = Outside()
        keeps = Keeps(reasons={"i-n1": UNKNOWN}, repairs=("i-n1",))
        progress = carry_out(removal(victim()), a_state(node, required=4), keeps, outside.hands, NOW)
        assert one(progress).stage is VictimStage.SPARED
        assert outside.writes == writes


def test_a_node_that_others_maintain_is_spared_and_stays_cordoned_until_they_are_done() -> None:
    outside = Outside()
    progress = goes_on(removal(victim()), ours(maintained="gets another driver"), outside=outside, wanted=[])
    assert (one(progress).stage, outside.writes) == (VictimStage.SPARED, [])


def test_before_a_retry_a_node_is_given_back_unless_the_last_call_hung() -> None:
    for error, calls in (("http_503: busy", ["ready", "uncordon n1"]), ("timeout: no answer", [])):
        outside = Outside()
        action = removal(victim(), attempts=1, retry_at=NOW + 10 * SECOND, last_error=error)
        progress = goes_on(action, ours(), outside=outside, wanted=[])
        assert outside.calls == calls
        assert (progress.outcome is None, progress.again_at) == ((not calls), None if calls else NOW + 10 * SECOND)


@pytest.mark.parametrize(("pods", "rests"), [((), True), ((POD,), False)], ids=["empty", "busy again"])
def test_removals_rest_where_pods_were_evicted_in_vain_and_not_where_the_node_has_work_again(
    pods: tuple[Pod, ...], rests: bool
) -> None:
    given = ours(pods=pods)
    progress = goes_on(removal(victim(emptied=True)), given, wanted=[], kept={"i-n1": "the pool is paused"})
    assert one(progress).stage is VictimStage.SPARED
    assert (progress.backoff is not None) is rests


def test_what_it_waited_for_before_is_told_too() -> None:
    spared = one(goes_on(removal(victim(why="the disk is busy")), ours(), wanted=[], kept={"i-n1": "it is needed"}))
    assert spared.why == "the disk is busy; then it is needed"


def test_a_refusal_alone_is_told_of_a_node_that_waited_before() -> None:
    """What it waited for no longer matters: the refusal is why the pool backs off."""
    outside = Outside(drain=receipt(Did.DIFFERS, "ml/web may not be evicted"))
    spared = one(goes_on(removal(victim(why="the disk is busy")), ours(), outside=outside))
    assert (spared.why, spared.waited_for) == ("ml/web may not be evicted", "")


def test_a_cordon_is_lifted_although_the_node_no_longer_names_the_removal() -> None:
    outside = Outside()
    goes_on(removal(victim()), ours(cordoned_for=None), outside=outside, wanted=[])
    assert outside.writes == ["uncordon n1"]


def test_a_node_that_was_only_chosen_is_spared_without_a_write() -> None:
    outside = Outside()
    progress = goes_on(removal(chosen()), a_node(), outside=outside, wanted=[])
    assert outside.calls == []
    assert one(progress).stage is VictimStage.SPARED
    assert one(progress).why == "its removal is no longer allowed"


def test_a_node_whose_cordon_a_crash_left_unrecorded_is_uncordoned() -> None:
    outside = Outside()
    goes_on(removal(chosen()), ours(), outside=outside, wanted=[])
    assert outside.writes == ["uncordon n1"]
    outside = Outside()
    goes_on(removal(chosen()), ours(cordoned_for="another"), outside=outside, wanted=[])
    assert outside.writes == []


def test_work_that_started_spares_its_node() -> None:
    outside = Outside()
    progress = goes_on(removal(victim()), ours(pods=(POD, a_pod("a"))), outside=outside)
    assert outside.writes == ["uncordon n1"]
    assert one(progress).why == "ml/a, ml/late started there"


def test_work_that_only_the_last_look_shows_spares_its_node() -> None:
    outside = Outside(pods=[POD])
    assert one(goes_on(removal(victim()), ours(), outside=outside)).stage is VictimStage.SPARED
    assert outside.writes == ["look n1", "uncordon n1"]
    outside = Outside(pods=[POD])
    spared = one(goes_on(removal(victim(because=Because.EVICTED)), ours(pods=(POD,)), outside=outside))
    assert (spared.stage, spared.why) == (VictimStage.SPARED, "ml/late started there")
    assert outside.writes == ["drain n1 evicting", "look n1", "uncordon n1"]


STUCK = a_pod("stuck", phase=PodPhase.RUNNING, node="n1", leaves_at=NOW - 3 * MINUTE)


@pytest.mark.parametrize("shown", [True, False], ids=["known to the step", "seen by the last look alone"])
def test_the_last_look_counts_no_pod_that_a_dead_kubelet_will_never_end(shown: bool) -> None:
    outside = Outside(pods=[STUCK])
    node = ours(stage=Stage.BROKEN, ready=False, pods=(STUCK,) if shown else ())
    progress = goes_on(removal(victim(because=Because.STUCK)), node, outside=outside)
    assert one(progress).stage is VictimStage.DELETED


def test_a_stuck_pod_of_a_vanished_node_does_not_spare_its_instance() -> None:
    outside = Outside(pods=[STUCK])
    node = a_node(stage=Stage.BROKEN, ready=False, registered=False, pods=(STUCK,))
    progress = goes_on(removal(chosen(because=Because.STUCK)), node, outside=outside)
    assert outside.writes == ["look n1", "retire i-n1"]
    assert one(progress).stage is VictimStage.DELETED


@pytest.mark.parametrize(
    ("node", "pod"),
    [
        pytest.param({"ready": True}, STUCK, id="a stuck pod of a Ready node"),
        pytest.param({}, with_fields(STUCK, leaves_at=NOW - MINUTE), id="a pod that may still end"),
        pytest.param({}, POD, id="a pod that is not deleted"),
    ],
)
def test_the_last_look_spares_a_lost_node_for(node: dict[str, Any], pod: Pod) -> None:
    outside = Outside(pods=[pod])
    found = ours(**{"stage": Stage.BROKEN, "ready": False, **node})
    assert one(goes_on(removal(victim(because=Because.STUCK)), found, outside=outside)).stage is VictimStage.SPARED


def test_a_person_who_uncordons_a_node_keeps_it() -> None:
    for by in (None, CordonedBy.SOMEONE):
        outside, before = Outside(), victim(since=NOW - MINUTE)
        progress = goes_on(removal(before), ours(cordoned_by=by), outside=outside)
        assert outside.calls == []
        assert (one(progress).stage, one(progress).refused) == (VictimStage.SPARED, True)
        assert ended(progress) == (OutcomeKind.FAILED, "n1 was uncordoned by someone else")


def test_a_list_that_may_be_older_than_our_cordon_does_not_show_that_a_person_lifted_it() -> None:
    outside = Outside()
    progress = goes_on(removal(victim()), ours(cordoned_by=None, cordoned_for=None), outside=outside)
    assert (one(progress), ended(progress), outside.calls) == (victim(), None, [])


def test_a_node_that_another_has_cordoned_before_us_is_spared() -> None:
    outside = Outside(cordon=receipt(Did.DIFFERS, "alice cordoned it"))
    spared = one(goes_on(removal(chosen()), a_node(), outside=outside))
    assert spared == victim(stage=VictimStage.SPARED, since=NOW, why="alice cordoned it")


@pytest.mark.parametrize(
    ("age", "spares"), [(MINUTE - SECOND, False), (MINUTE, True), (SECOND - MINUTE, False), (-MINUTE, True)]
)
def test_a_node_whose_delete_was_not_answered_stays_cordoned_while_it_may_take_effect(
    age: timedelta, spares: bool
) -> None:
    outside = Outside()
    asked = victim(asked_at=NOW - age, since=NOW - age)
    progress = goes_on(removal(asked), ours(), outside=outside, wanted=[])
    assert (one(progress).stage is VictimStage.SPARED) is spares
    assert outside.writes == (["uncordon n1"] if spares else [])


# --- refusals and errors ----------------------------------------------------------------------------------


def refused(progress: Progress) -> tuple[str, ...]:
    assert progress.backoff is not None
    assert progress.outcome is not None
    assert progress.outcome.kind is OutcomeKind.FAILED
    return progress.backoff.instances


def test_a_node_that_may_not_be_drained_is_uncordoned_and_backs_off() -> None:
    outside = Outside(drain=receipt(Did.DIFFERS, "ml/web may not be evicted"))
    progress = goes_on(removal(victim()), ours(), outside=outside)
    assert outside.writes == ["look n1", "drain n1 no GPU pods", "uncordon n1"]
    assert refused(progress) == ("i-n1",)
    assert (one(progress).stage, one(progress).refused) == (VictimStage.SPARED, True)
    assert ended(progress) == (OutcomeKind.FAILED, "ml/web may not be evicted")


def test_a_node_that_civo_does_not_delete_is_uncordoned_and_backs_off() -> None:
    outside = Outside(retire=WontWork("it is protected", code="http_403"))
    progress = goes_on(removal(victim()), ours(), outside=outside)
    assert outside.writes[-2:] == ["retire i-n1", "uncordon n1"]
    assert refused(progress) == ("i-n1",)
    assert ended(progress) == (OutcomeKind.FAILED, "http_403: it is protected")


@pytest.mark.parametrize(("ago", "ends"), [(15 * MINUTE, False), (15 * MINUTE + SECOND, True), (None, False)])
def test_a_node_that_does_not_become_empty_within_a_quarter_of_an_hour_is_spared(
    ago: timedelta | None, ends: bool
) -> None:
    outside = Outside(drain=TryLater("the budget of ml/web allows none", code="pdb"))
    progress = goes_on(removal(victim(since=None if ago is None else NOW - ago)), ours(), outside=outside)
    assert (outside.writes[-1] == "uncordon n1") is ends
    if ends:
        assert refused(progress) == ("i-n1",)
        assert one(progress).why == "node n1 was not drained within 15m: the budget of ml/web allows none"
    else:
        assert progress.outcome is None
        assert one(progress).stage is VictimStage.CORDONED
        assert one(progress).why == "the budget of ml/web allows none"
        assert progress.action.last_error == "pdb: the budget of ml/web allows none"


@pytest.mark.parametrize(("ago", "ends"), [(15 * MINUTE, False), (15 * MINUTE + SECOND, True), (None, False)])
def test_an_emptied_node_whose_gpus_are_still_in_use_is_not_deleted(ago: timedelta | None, ends: bool) -> None:
    outside = Outside()
    evicted = victim(because=Because.EVICTED, since=None if ago is None else NOW - ago)
    progress = goes_on(removal(evicted), ours(unknown_since=NOW), outside=outside)
    assert outside.writes == ["drain n1 evicting", *(["uncordon n1"] if ends else [])]
    if ends:
        assert refused(progress) == ("i-n1",)
        assert one(progress).why == "the GPUs of n1 are still in use after 15m, and no GPU pod holds them"
    else:
        assert one(progress).why == "the GPUs of n1 are in use, and no GPU pod holds them"
        assert progress.action.last_error.startswith("gpus_in_use: ")


def test_an_emptied_node_that_no_longer_answers_waits_for_its_gpus_too() -> None:
    outside, evicted = Outside(), victim(because=Because.EVICTED)
    progress = goes_on(removal(evicted), ours(unknown_since=NOW, ready=False), outside=outside)
    assert outside.writes == []
    assert progress.action.last_error.startswith("gpus_in_use: ")


def test_an_idle_node_whose_gpus_are_in_use_without_a_pod_is_deleted_all_the_same() -> None:
    # Whether it is idle was decided before; here only what an eviction left behind is waited for.
    assert one(goes_on(removal(victim()), ours(unknown_since=NOW))).stage is VictimStage.DELETED


def test_a_delete_without_an_answer_is_sent_again_and_the_node_stays_cordoned() -> None:
    outside = Outside(retire=TryLater("no answer", code="http_504"))
    progress = goes_on(removal(victim()), ours(), outside=outside)
    assert one(progress) == victim(why="no answer", asked_at=NOW)
    assert progress.action.last_error == "http_504: no answer"
    assert progress.action.unanswered_at is None  # only a growth without an answer delays the next one
    assert progress.again_at == progress.action.retry_at == NOW + 2 * SECOND


def test_after_a_call_that_hangs_the_other_nodes_wait_for_the_next_step() -> None:
    outside = Outside(cordon=TryLater("no answer", code="timeout"))
    progress = goes_on(removal(chosen("n1"), chosen("n2"), chosen("n3")), a_node("n1"), a_node("n2"), outside=outside)
    assert outside.writes == ["cordon n1 for retire"]
    assert [v.instance for v in progress.action.victims] == ["i-n1", "i-n2", "i-n3"]
    assert progress.hung


def test_after_another_error_the_other_nodes_go_on() -> None:
    outside = Outside(cordon=TryLater("busy", code="http_503"))
    progress = goes_on(removal(chosen("n1"), chosen("n2")), a_node("n1"), a_node("n2"), outside=outside)
    assert outside.writes == ["cordon n1 for retire", "cordon n2 for retire"]
    assert not progress.hung


def test_an_error_that_lasts_ends_the_removal_with_the_victims_as_far_as_they_came() -> None:
    outside = Outside(cordon=WontWork("no right to patch nodes", code="http_403"))
    action = removal(victim("n1"), chosen("n2"), chosen("n3"))
    progress = goes_on(action, ours("n1"), a_node("n2"), a_node("n3"), outside=outside)
    assert ended(progress) == (OutcomeKind.FAILED, "http_403: no right to patch nodes")
    assert [v.stage for v in progress.action.victims] == [
        VictimStage.DELETED,
        VictimStage.CHOSEN,
        VictimStage.CHOSEN,
    ]


def test_nodes_that_were_refused_before_go_on_backing_off_beside_the_new_one() -> None:
    outside = Outside(drain=receipt(Did.DIFFERS, "no"))
    for until, instances in ((NOW + SECOND, ("i-n0", "i-n1")), (NOW, ("i-n1",))):
        before = Backoff(failures=1, until=until, reason="no", instances=("i-n0",))
        assert refused(goes_on(removal(victim()), ours(), outside=outside, removal_backoff=before)) == instances


def test_a_removal_that_is_refused_says_why_its_other_nodes_stay() -> None:
    outside = Outside(drain=receipt(Did.DIFFERS, "no"))
    action = removal(victim("n1"), victim("n2"))
    progress = goes_on(action, ours("n1"), ours("n2"), outside=outside, wanted=["i-n1"], kept={"i-n2": "needed"})
    assert ended(progress) == (OutcomeKind.FAILED, "no; n2: needed")
    assert refused(progress) == ("i-n1",)


def test_a_removal_that_took_one_node_and_was_refused_on_another_has_succeeded() -> None:
    outside = Outside(drain=receipt(Did.DIFFERS, "no"))
    action = removal(victim("n1", VictimStage.DELETED), victim("n2"))
    progress = goes_on(action, ours("n2"), outside=outside, required=3)
    assert ended(progress) == (OutcomeKind.CONFIRMED, "1 node removed, 3 left; n2: no")
    assert progress.backoff is not None
    assert progress.backoff.instances == ("i-n2",)


def test_a_removal_that_succeeds_ends_the_back_off_of_the_pool_and_leaves_that_of_other_nodes() -> None:
    action = removal(victim("n1", VictimStage.DELETED))
    for instances in ((), ("i-n9",)):
        last = Backoff(failures=2, until=NOW + MINUTE, reason="no", instances=instances)
        progress = goes_on(action, required=3, removal_backoff=last)
        assert progress.backoff == (last if instances else None)
        assert goes_on(action, required=3, removal_backoff=replace(last, until=NOW)).backoff is None


def test_observe_mode_writes_nothing_and_says_what_would_go() -> None:
    for name, of in (("cordon", chosen()), ("drain", victim()), ("retire", victim())):
        answer: dict[str, Any] = {name: receipt(Did.OBSERVED)}
        outside = Outside(**answer)
        action = removal(of, chosen("n2"))
        progress = goes_on(action, ours() if of.since else a_node(), a_node("n2"), outside=outside)
        assert ended(progress) == (OutcomeKind.OBSERVED, "would remove n1, n2")
        assert progress.action == action
    outside = Outside(uncordon=receipt(Did.OBSERVED))
    assert ended(goes_on(removal(victim()), ours(), outside=outside, wanted=[])) == (
        OutcomeKind.OBSERVED,
        "would remove n1",
    )


# --- before a retry time ----------------------------------------------------------------------------------


def test_before_its_retry_time_a_removal_can_only_spare() -> None:
    early = NOW + 30 * SECOND
    outside = Outside()
    progress = goes_on(removal(victim(), chosen("n2"), retry_at=early), ours(), a_node("n2"), outside=outside)
    assert outside.calls == []
    assert (progress.action.retry_at, progress.again_at) == (early, early)
    progress = goes_on(removal(victim(), retry_at=early), ours(), outside=outside, wanted=[])
    assert outside.writes == ["uncordon n1"]
    assert one(progress).stage is VictimStage.SPARED


def test_a_retry_time_that_has_come_is_forgotten() -> None:
    assert goes_on(removal(victim(), retry_at=NOW), ours()).action.retry_at is None


def test_before_a_retry_time_that_is_near_a_removal_is_looked_at_when_its_node_is() -> None:
    progress = goes_on(removal(victim(since=NOW), retry_at=NOW + SECOND), ours())
    assert progress.again_at == NOW + 5 * SECOND


def test_a_retry_time_that_a_wrong_clock_set_delays_nothing() -> None:
    assert goes_on(removal(chosen(), retry_at=NOW + timedelta(hours=2)), a_node()).again_at == NOW + 5 * SECOND


# --- nodes that are gone ----------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [None, ours(stage=Stage.DELETING)])
def test_a_cordoned_node_that_is_gone_was_deleted_by_us(node: Node | None) -> None:
    outside = Outside()
    progress = goes_on(removal(victim(why="no answer")), *([node] if node else []), outside=outside)
    assert outside.calls == []
    assert one(progress) == victim(stage=VictimStage.DELETED, since=NOW)


@pytest.mark.parametrize(
    ("of", "is_ours"),
    [
        pytest.param(victim(since=NOW - 30 * MINUTE), True, id="cordoned half an hour ago"),
        pytest.param(victim(since=NOW - 30 * MINUTE - SECOND), False, id="cordoned longer ago"),
        pytest.param(victim(since=None), True, id="cordoned at an unknown time"),
        pytest.param(chosen(), False, id="not cordoned"),
        pytest.param(chosen(because=Because.STUCK), True, id="stuck, which needs no cordon"),
    ],
)
def test_a_node_that_is_gone_was_ours_if_it_was_cordoned_lately(of: Victim, is_ours: bool) -> None:
    found = one(goes_on(removal(of), wanted=[]))
    assert found.stage is (VictimStage.DELETED if is_ours else VictimStage.SPARED)
    assert found.why == ("" if is_ours else "it was already deleted, not by this removal")


# --- nodes that a window empties, while a source is silent ------------------------------------------------

EVICTED = victim(because=Because.EVICTED)


@pytest.mark.parametrize(
    ("of", "node", "unsure", "waits"),
    [
        pytest.param(EVICTED, ours(), True, True, id="a source is silent"),
        pytest.param(EVICTED, ours(), False, False, id="every source answers"),
        pytest.param(EVICTED, ours(stage=Stage.UNKNOWN), False, True, id="Kubernetes is silent on it"),
        pytest.param(EVICTED, ours(stage=Stage.BROKEN), False, True, id="it is broken for now"),
        pytest.param(victim(), ours(), True, False, id="an idle node"),
        pytest.param(chosen(because=Because.EVICTED), a_node(), True, False, id="not cordoned yet"),
        pytest.param(replace(EVICTED, since=NOW - 15 * MINUTE), ours(), True, True, id="for a quarter of an hour"),
        pytest.param(replace(EVICTED, since=NOW - 15 * MINUTE - SECOND), ours(), True, False, id="for longer"),
        pytest.param(replace(EVICTED, since=None), ours(), True, True, id="since an unknown time"),
    ],
)
def test_a_node_that_a_window_is_emptying_waits_while_its_state_is_unclear(
    of: Victim, node: Node, unsure: bool, waits: bool
) -> None:
    outside = Outside()
    progress = goes_on(removal(of), node, outside=outside, wanted=[], unsure=["i-n1"] if unsure else [])
    assert (one(progress) == of) is waits
    assert (outside.calls == [] and progress.outcome is None) or not waits


def test_a_node_that_a_window_is_emptying_and_that_is_still_wanted_goes_on() -> None:
    outside = Outside()
    goes_on(removal(EVICTED), ours(), outside=outside, unsure=["i-n1"])
    assert outside.writes[-1] == "retire i-n1"


def test_a_node_that_a_window_was_emptying_and_that_is_gone_does_not_wait() -> None:
    assert one(goes_on(removal(EVICTED), wanted=[], unsure=["i-n1"])).stage is VictimStage.DELETED


# --- the count and the end --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("required", "stages", "counts"),
    [
        pytest.param(6, [VictimStage.CORDONED, VictimStage.CORDONED], (6, 4), id="raised since"),
        pytest.param(6, [VictimStage.CORDONED, VictimStage.SPARED], (6, 5), id="raised, and one is spared"),
        pytest.param(4, [VictimStage.CORDONED, VictimStage.CORDONED], (4, 2), id="as it was"),
        pytest.param(4, [VictimStage.CORDONED, VictimStage.SPARED], (4, 2), id="as it was, and one is spared"),
        pytest.param(3, [VictimStage.CORDONED, VictimStage.CORDONED], (4, 2), id="lower: perhaps our own DELETE"),
        pytest.param(6, [VictimStage.DELETED, VictimStage.CORDONED], (4, 2), id="raised after a DELETE"),
        pytest.param(6, [VictimStage.GONE, VictimStage.CORDONED], (4, 2), id="raised after one was gone"),
    ],
)
def test_a_removal_lowers_the_count_that_was_raised_since_its_cordon(
    required: int, stages: list[VictimStage], counts: tuple[int, int]
) -> None:
    victims = [victim(f"n{n}", stage, since=NOW) for n, stage in enumerate(stages)]
    action = removal(*victims, from_count=4, to_count=2)
    found = goes_on(action, ours("n0"), ours("n1"), required=required).action
    assert (found.from_count, found.to_count) == counts


def at_the_end(*stages: VictimStage, **state: Any) -> Outcome | None:
    victims = [
        victim(f"n{n}", stage, why="needed" if stage is VictimStage.SPARED else "") for n, stage in enumerate(stages)
    ]
    return settled(removal(*victims), a_state(**{"required": 3, **state}), NOW)


def test_a_removal_goes_on_until_every_node_is_deleted_or_spared() -> None:
    for stage in (VictimStage.CHOSEN, VictimStage.CORDONED):
        assert at_the_end(VictimStage.DELETED, stage) is None
    for stage in (VictimStage.DELETED, VictimStage.GONE):
        assert at_the_end(stage) == Outcome(kind=OutcomeKind.CONFIRMED, at=NOW, detail="1 node removed, 3 left")


def test_a_removal_goes_on_while_civo_lists_a_deleted_node_as_running() -> None:
    assert at_the_end(VictimStage.DELETED, nodes=(a_node("n0"),)) is None
    assert at_the_end(VictimStage.DELETED, nodes=(a_node("n0", civo_status="DELETING"), a_node("n7"))) is not None


def test_a_removal_of_which_all_nodes_are_spared_is_withdrawn() -> None:
    assert at_the_end(VictimStage.SPARED) == Outcome(kind=OutcomeKind.WITHDRAWN, at=NOW, detail="n0: needed")


def test_the_end_of_a_removal_says_what_stays_and_what_civo_still_counts() -> None:
    mixed = at_the_end(VictimStage.DELETED, VictimStage.SPARED)
    assert mixed is not None
    assert mixed.detail == "1 node removed, 3 left; n1: needed"
    late = at_the_end(VictimStage.DELETED, required=4)
    assert late is not None
    assert late.detail == "1 node removed, 3 left, Civo still counts 4"


def test_the_count_that_civo_does_not_lower_at_once_is_late() -> None:
    gone = removal(victim(stage=VictimStage.GONE))
    assert goes_on(gone, required=4).late == a_flight(3, 4, gone.victims[0].since or NOW)
    assert goes_on(gone, required=3).late is None
    spared = removal(victim(stage=VictimStage.SPARED))
    assert ended(goes_on(spared, required=4)) is not None
    assert goes_on(spared, required=4).late is None


@pytest.mark.parametrize(("ago", "fails"), [(15 * MINUTE, False), (15 * MINUTE + SECOND, True), (None, False)])
def test_a_node_that_civo_still_lists_a_quarter_of_an_hour_after_its_delete_backs_off_for_a_day(
    ago: timedelta | None, fails: bool
) -> None:
    deleted = victim(stage=VictimStage.DELETED, since=None if ago is None else NOW - ago)
    progress = goes_on(removal(deleted), ours())
    if fails:
        detail = "Civo accepted the DELETE of n1 and still lists it after 15m"
        assert ended(progress) == (OutcomeKind.FAILED, detail)
        until = NOW + timedelta(hours=24)
        assert progress.backoff == Backoff(failures=1, until=until, reason=detail, instances=("i-n1",))
    else:
        assert progress.outcome is None


def test_a_node_that_has_been_cordoned_for_long_is_no_deleted_one() -> None:
    action = removal(victim(since=NOW - 20 * MINUTE), retry_at=NOW + MINUTE)
    assert goes_on(action, ours()).outcome is None


def test_a_deleted_node_that_is_leaving_or_no_longer_listed_is_not_waited_for() -> None:
    old = NOW - timedelta(hours=1)
    for nodes in ((ours(civo_status="DELETING"),), ()):
        action = removal(victim(stage=VictimStage.DELETED, since=old), victim("n2", since=NOW))
        assert goes_on(action, *nodes, ours("n2")).outcome is None


# --- when to look again -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "after"),
    [
        pytest.param(victim(since=NOW - 2 * SECOND), 3 * SECOND, id="when the cordon is five seconds old"),
        pytest.param(victim(since=NOW - timedelta(seconds=4.95)), timedelta(milliseconds=100), id="not at once"),
        pytest.param(
            victim(since=NOW - 2 * SECOND, asked_at=NOW - 58 * SECOND), 2 * SECOND, id="when the DELETE is over"
        ),
        pytest.param(victim(since=NOW - 2 * SECOND, asked_at=NOW), 5 * SECOND, id="or in five seconds"),
        pytest.param(victim(stage=VictimStage.DELETED, since=NOW - 4 * SECOND), 5 * SECOND, id="a deleted one"),
    ],
)
def test_a_removal_is_looked_at_again(of: Victim, after: timedelta) -> None:
    assert goes_on(removal(of), ours()).again_at == NOW + after


@pytest.mark.parametrize("ago", [5 * SECOND, 10 * SECOND])
def test_a_node_that_waits_is_looked_at_in_five_seconds(ago: timedelta) -> None:
    progress = goes_on(removal(replace(EVICTED, since=NOW - ago)), ours(), wanted=[], unsure=["i-n1"])
    assert progress.again_at == NOW + 5 * SECOND


def test_a_busy_node_is_no_victim_of_a_removal_of_idle_ones() -> None:
    outside = Outside()
    goes_on(removal(chosen()), a_busy_node(), outside=outside)
    assert outside.calls == []


def test_work_that_is_found_while_a_delete_may_still_arrive_is_no_failed_call() -> None:
    outside = Outside(pods=[POD])
    asked = victim(asked_at=NOW - 30 * SECOND)
    progress = goes_on(removal(asked), ours(), outside=outside)
    assert outside.writes == ["look n1"]
    assert one(progress) == asked
    assert (progress.action.attempts, progress.action.last_error, progress.outcome) == (0, "", None)
