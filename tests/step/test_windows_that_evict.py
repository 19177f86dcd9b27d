"""A window that evicts, from the word before it to the last node: whom it tells, what it spares, what outlives it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.actions import Action, ActionKind, Because, Outcome, OutcomeKind, Victim, VictimStage
from receiver.core.model.pods import Toleration
from receiver.core.model.policy import Budget, Pool
from receiver.core.model.usage import Use
from receiver.core.model.windows import Window
from receiver.ports import PROTECT_ANNOTATION, SAFE_TO_EVICT_ANNOTATION, Store, TryLater
from receiver.step.reconcile import step
from simulator.world import Pdb
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import living, removed, titles
from tests.given import lives, troubles
from tests.given.life import FAST, GPU, START, Life, a_job, a_policy
from tests.stores import a_store

# Short, so that few steps tell it: it opens at 12:06 and evicts from 12:16 on.
NIGHT = Window(name="night", times=((12 * 60 + 6, 12 * 60 + 40),), max_nodes=1, evict_after=10 * MINUTE)
POOL_AT_NIGHT = a_pool(windows=(NIGHT,))
OPENS, ENDS, CLOSES = START + 6 * MINUTE, START + 16 * MINUTE, START + 40 * MINUTE
TICK = 2 * MINUTE
EVICTION = "WindowEviction"
CONSENTS = {SAFE_TO_EVICT_ANNOTATION: "true"}


def at_night(store: Store, **job: Any) -> Life:
    """Three nodes with work for ten hours, and the window has just opened."""
    life = lives.waiting(
        store,
        *(a_job(f"j{n}", duration=10 * HOUR, gpu_util=0.5, annotations=CONSENTS, **job) for n in range(3)),
        pool=POOL_AT_NIGHT,
    )
    life.run(OPENS - life.now + timedelta(seconds=1), tick=TICK)
    assert len(living(life)) == 3
    return life


def until_just_before(life: Life, moment: Any) -> None:
    life.run(moment - timedelta(seconds=1) - life.now, tick=TICK)


def a_pool_of_two() -> Pool:
    """Nodes of two GPUs, and a window that stays open for hours."""
    night = replace(NIGHT, times=((12 * 60 + 6, 24 * 60),), max_nodes=2)
    return a_pool(resources={GPU: 2}, max_nodes=3, windows=(night,))


def gpu_nodes(life: Life) -> set[str | None]:
    return {p.node for p in life.world.active_pods.values() if p.requests}


def events(life: Life) -> list[str]:
    return [e.name for e in life.world.events if e.reason == EVICTION]


def test_what_is_too_many_is_told_at_the_opening_and_evicted_after_the_grace(store: Store) -> None:
    life = at_night(store)
    assert titles(life, "window night") == ["GPU pool l40s: GPU work is evicted from 12:16 UTC on"]
    assert len(events(life)) == 3
    until_just_before(life, ENDS)
    assert life.writes("evict", "cordon") == []
    life.run(3 * MINUTE, tick=TICK)
    assert len(living(life)) == 1
    assert len(life.writes("evict")) == 2
    assert life.world.kills == []
    assert len(titles(life, "evicted from")) == 1


def test_what_was_evicted_waits_until_the_window_closes_and_runs_then(store: Store) -> None:
    life = at_night(store)
    until_just_before(life, CLOSES)
    assert (len(living(life)), len(life.writes("evict"))) == (1, 2)
    life.run(5 * MINUTE, tick=TICK)
    assert len(gpu_nodes(life) - {None}) == 3


@pytest.mark.database("what outlives a process is in it")
def test_a_restart_does_not_begin_the_grace_anew(store: Store) -> None:
    life = at_night(store)
    until_just_before(life, ENDS - TICK)
    again = lives.restarted(life, store)
    until_just_before(again, ENDS)
    assert again.writes("cordon") == []
    again.run(TICK)
    assert len(again.writes("cordon")) == 2


def test_a_lost_store_begins_it_anew_for_nobody_knows_who_was_told(store: Store) -> None:
    life = at_night(store)
    until_just_before(life, ENDS)
    with a_store() as other:
        again = lives.restarted(life, other, pauses_are_jumps=True)
        again.run(9 * MINUTE, tick=TICK)
        assert again.writes("evict") == []
        assert titles(again, "evicted from") == ["GPU pool l40s: GPU work is evicted from 12:25 UTC on"]
        again.run(2 * TICK, tick=TICK)
        assert len(again.writes("evict")) == 2


def test_work_that_ends_by_itself_in_the_grace_leaves_less_to_evict_and_then_nothing(store: Store) -> None:
    life = at_night(store)
    for name in ("j0", "j1"):
        life.world.cancel_job(name)
    life.run(ENDS - life.now + MINUTE, tick=TICK)
    assert life.writes("evict") == []
    assert titles(life, "no work is evicted any more") == ["GPU pool l40s: no work is evicted any more"]


def test_a_pod_that_is_protected_in_the_grace_keeps_its_node(store: Store) -> None:
    life = at_night(store)
    kept = [p for p in life.world.active_pods.values() if p.requests][:2]
    for pod in kept:
        life.world.patch_pod(pod.namespace, pod.name, annotations={PROTECT_ANNOTATION: "true"})
    life.run(ENDS - life.now + TICK, tick=TICK)
    assert {p.node for p in kept} <= gpu_nodes(life)
    assert len(living(life)) == 2
    assert len(life.writes("evict")) == 1


def test_gangs_are_left_whole(store: Store) -> None:
    life = lives.waiting(
        store, a_job("g", duration=10 * HOUR, pods=3, gang=True, gpu_util=0.5, annotations=CONSENTS), pool=POOL_AT_NIGHT
    )
    life.run(ENDS - life.now + TICK, tick=TICK)
    assert (len(living(life)), life.writes("evict"), titles(life, "evicted from")) == (3, [], [])


def test_a_disruption_budget_is_respected_and_its_node_is_given_back(store: Store) -> None:
    life = at_night(store)
    life.world.pdbs.append(Pdb(namespace="ml", selector={}, min_available=3))
    life.run(ENDS - life.now + 17 * MINUTE, tick=TICK)
    assert (len(living(life)), len(gpu_nodes(life) - {None})) == (3, 3)
    assert titles(life, "was not drained within")
    assert not any(n.unschedulable for n in life.world.nodes.values())
    assert life.world.kills == []


def test_a_pod_that_starts_in_the_grace_is_told_as_well(store: Store) -> None:
    life = at_night(store)
    life.world.cancel_job("j0")
    life.run(timedelta(seconds=50))
    life.submit(a_job("late", duration=10 * HOUR, gpu_util=0.5, annotations=CONSENTS))
    life.run(timedelta(seconds=20))
    assert [name for name in events(life) if name.startswith("late")]


@pytest.mark.parametrize("kind", ["pause", "snooze"])
def test_a_pause_takes_the_word_back_and_after_it_the_whole_grace_begins_anew(store: Store, kind: str) -> None:
    life = at_night(store)
    until = ENDS + 3 * MINUTE
    life.set_override(kind, until=until)
    life.run(until - life.now + 9 * MINUTE, tick=TICK)
    assert titles(life, "no work is evicted any more", "by alice")
    assert life.writes("evict") == []
    life.run(2 * TICK, tick=TICK)
    assert len(life.writes("evict")) == 2


def test_observe_mode_says_what_it_would_do_and_what_it_said_is_no_word_for_acting(store: Store) -> None:
    life = at_night(store)
    with a_store() as other:
        watching = lives.restarted(life, other, mode="observe")
        watching.run(ENDS - life.now + 3 * TICK, tick=TICK)
        assert watching.writes() == []
        assert titles(watching, "would be evicted")
        assert titles(watching, "would go 3 -> 1 nodes")
        acting = lives.restarted(life, other)
        acting.run(9 * MINUTE, tick=TICK)
        assert acting.writes("evict", "cordon") == []
        acting.run(2 * TICK, tick=TICK)
        assert len(acting.writes("evict")) == 2


def test_a_word_that_one_step_under_a_slow_clock_would_give_is_not_given(store: Store) -> None:
    life = lives.at_zero(store, a_pool(windows=(replace(NIGHT, times=((11 * 60, 12 * 60 + 40),)),)))
    held = replace(life.policy.pools[0], windows=())
    windows, life.policy = life.policy, a_policy(held)
    life.submit(*(a_job(f"j{n}", duration=10 * HOUR, gpu_util=0.5, annotations=CONSENTS) for n in range(3)))
    life.run(OPENS - life.now, tick=TICK)
    life.policy = windows
    step(life.sources, life.hands, life.policy, "act", life.now - 11 * MINUTE)
    life.run(8 * MINUTE, tick=TICK)
    assert titles(life, "evicted from") == ["GPU pool l40s: GPU work is evicted from 12:16 UTC on"]
    assert life.writes("evict", "cordon") == []


def test_after_a_jump_of_the_clock_the_whole_grace_begins_anew(store: Store) -> None:
    life = at_night(store)
    life.pauses_are_jumps = True
    life.world.advance(life.now + 16 * MINUTE)
    told_anew = life.now
    life.run(9 * MINUTE, tick=TICK)
    assert life.writes("evict", "cordon") == []
    assert len(titles(life, "evicted from")) == 2
    life.run(told_anew + 14 * MINUTE - life.now, tick=TICK)
    assert len(life.writes("evict")) == 2


def test_a_word_that_a_floor_stood_against_while_kubernetes_was_silent_is_taken_back(store: Store) -> None:
    life = at_night(store)
    life.cluster.fail_always(TryLater("down", code="unreachable"))
    until = life.now + 4 * MINUTE
    life.set_override("floor", 3, until=until)
    life.run(until - life.now + MINUTE, tick=MINUTE)
    life.cluster.fail_always(None)
    life.run(ENDS - life.now + MINUTE, tick=TICK)
    assert life.writes("evict", "cordon") == []
    assert titles(life, "no work is evicted any more")


def test_at_a_budgets_stop_the_word_is_taken_back(store: Store) -> None:
    life = at_night(store)
    life.policy = replace(life.policy, budget=Budget(monthly_usd=Decimal("0.5")))
    life.run(ENDS - life.now + 5 * MINUTE, tick=TICK)
    assert life.writes("evict") == []
    assert titles(life, "no work is evicted any more", "A budget is at its stop")


def beside_held_pods(store: Store, min_available: int) -> Life:
    """Three nodes, each with a free pod beside one that a PodDisruptionBudget covers; the grace has just ended."""
    life = lives.at_zero(store, a_pool_of_two())
    for n in range(3):
        life.submit(
            a_job(f"held{n}", duration=10 * HOUR, gpu_util=0.5, namespace="held", annotations=CONSENTS),
            a_job(f"free{n}", duration=10 * HOUR, gpu_util=0.5, annotations=CONSENTS),
        )
    life.run(ENDS - life.now - MINUTE, tick=TICK)
    assert len(living(life)) == 3
    life.world.pdbs.append(Pdb(namespace="held", selector={}, min_available=min_available))
    return life


def test_nobody_is_evicted_from_nodes_that_cannot_be_emptied(store: Store) -> None:
    life = beside_held_pods(store, min_available=3)
    life.run(10 * MINUTE, tick=5 * MINUTE)
    assert life.writes("cordon")
    assert (len(living(life)), life.writes("evict")) == (3, [])


def test_a_node_that_was_given_up_is_not_tried_again_before_the_window_opens_again(store: Store) -> None:
    life = beside_held_pods(store, min_available=3)
    life.run(90 * MINUTE, tick=5 * MINUTE)
    tried = [w[1][0] for w in life.writes("cordon")]
    assert len(tried) == len(set(tried)) == 3
    assert len(titles(life, "evicted from")) == 1
    assert len(titles(life, "no work is evicted any more")) == 1


def test_of_two_nights_that_gave_a_node_up_the_last_one_counts(store: Store) -> None:
    """By the first one it would be emptied again at once."""
    life = lives.at_zero(store, POOL_AT_NIGHT)
    life.run(OPENS - life.now + SECOND, tick=TICK)
    for ago in (24 * HOUR, SECOND):
        victim = Victim(instance="i-1", node="n1", stage=VictimStage.SPARED, because=Because.EVICTED, refused=True)
        at = life.now - ago
        removal = Action(
            id=f"retire-{ago}",
            pool=POOL_AT_NIGHT.id,
            kind=ActionKind.RETIRE,
            opened_at=at,
            from_count=1,
            to_count=0,
            victims=(replace(victim, since=at),),
        )
        assert store.opened(removal)
        store.closed(removal, Outcome(kind=OutcomeKind.FAILED, at=at, detail=""), None)
    assert life.step().facts.earlier.given_back == {"i-1": life.now - SECOND}


# --- what was begun is carried through

NONE_AT_NIGHT = replace(NIGHT, max_nodes=0, evict_after=5 * MINUTE)


def being_emptied(store: Store, **job: Any) -> Life:
    """One node with a Deployment's pod, which has just been evicted for a window that allows no node. It ends within a
    second: before the drain is tried again."""
    life = lives.waiting(
        store,
        a_job("web", duration=10 * HOUR, gpu_util=0.5, owner_kind="ReplicaSet", **job),
        pool=a_pool(windows=(NONE_AT_NIGHT,)),
        timings=replace(FAST, terminate=SECOND),
    )
    life.run(OPENS + 5 * MINUTE - life.now, tick=TICK)
    life.run_until(lambda: life.writes("evict") or life.now >= OPENS + 6 * MINUTE, tick=SECOND)
    return life


@pytest.mark.parametrize("tick", [timedelta(milliseconds=300), SECOND, 10 * SECOND], ids=["300ms", "1s", "10s"])
def test_a_node_that_was_emptied_goes_however_often_the_loop_wakes_in_between(store: Store, tick: timedelta) -> None:
    life = being_emptied(store)
    life.run(MINUTE, tick=tick)
    life.run(15 * MINUTE, tick=TICK)
    assert (life.writes("evict"), removed(life)) == ([("evict", ("ml", "web-0"))], 1)
    assert (living(life), life.writes("uncordon")) == ([], [])
    assert len(titles(life, "work is evicted from")) == len(titles(life, "no work is evicted any more")) == 1
    assert gpu_nodes(life) == {None}


def test_the_word_stands_until_the_node_that_was_emptied_is_deleted(store: Store) -> None:
    life = being_emptied(store)
    while not life.writes("retire"):
        assert titles(life, "no work is evicted any more") == []
        life.run(SECOND, tick=SECOND)
    assert life.now < OPENS + 6 * MINUTE


@pytest.mark.database("what outlives a process is in it")
def test_a_restart_carries_on_what_was_begun(store: Store) -> None:
    life = being_emptied(store)
    again = lives.restarted(life, store)
    again.run(MINUTE, tick=SECOND)
    again.run(9 * MINUTE, tick=10 * SECOND)
    assert (again.writes("evict", "uncordon"), removed(again)) == ([], 1)


def test_a_jump_of_the_clock_calls_nothing_off_that_was_begun(store: Store) -> None:
    life = being_emptied(store)
    life.world.advance(life.now + 16 * MINUTE)
    life.run(MINUTE, tick=SECOND)
    assert (len(life.writes("evict")), life.writes("uncordon"), removed(life)) == (1, [], 1)


@pytest.mark.parametrize("source", ["telemetry", "cluster", "alarms"])
def test_while_a_source_is_silent_what_was_begun_waits_and_stays_cordoned(store: Store, source: str) -> None:
    life = being_emptied(store)
    getattr(life, source).fail_always(TryLater("down", code="unreachable"))
    life.run(3 * MINUTE, tick=10 * SECOND)
    assert life.writes("uncordon", "retire") == []
    getattr(life, source).fail_always(None)
    life.run(MINUTE, tick=SECOND)
    assert (len(life.writes("evict")), life.writes("uncordon"), removed(life)) == (1, [], 1)


def test_a_source_that_stays_silent_gives_the_node_back_in_the_end(store: Store) -> None:
    life = being_emptied(store)
    life.telemetry.fail_always(TryLater("down", code="unreachable"))
    for _ in range(17):
        life.step()
        life.pass_time(MINUTE)
    assert (len(life.writes("uncordon")), life.writes("retire")) == (1, [])


def test_gpus_that_seem_in_use_after_the_last_pod_are_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    life = being_emptied(store)
    with monkeypatch.context() as patched:
        patched.setattr("receiver.step.pool_states.judge", lambda _: Use.ACTIVE)
        for _ in range(12):
            life.step()
            life.pass_time(10 * SECOND)
        assert life.writes("uncordon", "retire") == []
    life.run(2 * MINUTE)
    assert (life.writes("uncordon"), removed(life)) == ([], 1)


def by_word(kind: str, nodes: int | None = None) -> Callable[[Life], object]:
    return lambda life: life.set_override(kind, nodes)


def by_node(**changes: Any) -> Callable[[Life], object]:
    return lambda life: life.world.patch_node(next(iter(life.world.nodes)), **changes)


@pytest.mark.parametrize(
    "stop",
    [
        pytest.param(by_word("pause"), id="a pause"),
        pytest.param(by_word("snooze"), id="a snooze"),
        pytest.param(by_word("floor", 1), id="a floor"),
        pytest.param(by_word("pin", 1), id="a pin"),
        pytest.param(
            lambda life: life.alarms.extra.append(troubles.alert("Stop", "freeze", at=life.now)), id="a freeze"
        ),
        pytest.param(by_node(annotations={PROTECT_ANNOTATION: "true"}), id="a protected node"),
        pytest.param(by_node(unschedulable=False), id="a cordon that somebody lifts"),
    ],
)
def test_who_may_stop_an_eviction_gets_the_node_back_and_the_work_with_it(
    store: Store, stop: Callable[[Life], object]
) -> None:
    life = being_emptied(store)
    stop(life)
    life.run(2 * MINUTE, tick=SECOND)
    assert (len(living(life)), life.writes("retire"), len(life.writes("evict"))) == (1, [], 1)
    assert gpu_nodes(life) == {living(life)[0].hostname}
    assert titles(life, "no work is evicted any more")


def test_a_pod_that_would_come_back_to_the_cordoned_node_is_not_evicted(store: Store) -> None:
    life = being_emptied(store, tolerations=(Toleration(operator="Exists"),))
    life.run(10 * MINUTE, tick=TICK)
    assert (life.writes("evict", "cordon"), titles(life, "evicted from")) == ([], [])
