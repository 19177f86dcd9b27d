"""A removal that ends without its nodes says of each the one reason that was true."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.dialects import sqlite

from receiver.adapters.store.columns import Json, to_json
from receiver.adapters.store.schema import actions
from receiver.core.model.actions import Action, ActionKind, OutcomeKind, Victim, VictimStage
from receiver.core.model.model import PoolState
from receiver.ports import PROTECT_ANNOTATION, Store
from receiver.replay.world.objects import PodSpec
from receiver.step.carry_out import settled
from tests.core.builders import HOUR, SECOND
from tests.given import lives, troubles
from tests.given.life import FAST, GPU, START, Life, a_job, removal_ended, until_cordoned

VICTIMS: Any = actions.c.victims.type
HELD = "ml/web-0 may not be evicted: The disruption budget keep-web needs 1 healthy pods"


def taken_by_a_pod(life: Life, node: str) -> None:
    life.world.add_pod(PodSpec(namespace="ml", name="bold", requests={GPU: 1}, duration=HOUR, node=node))


def wanted_by_a_pod(life: Life, node: str) -> None:
    life.world.submit(a_job("next", duration=HOUR))


def protected(life: Life, node: str) -> None:
    life.world.patch_node(node, annotations={PROTECT_ANNOTATION: "true"})


def opened(life: Life, node: str) -> None:
    life.world.patch_node(node, unschedulable=False)


def frozen(life: Life, node: str) -> None:
    troubles.frozen(life)


def deleted_by_somebody(life: Life, node: str) -> None:
    [vm] = life.world.pools["l40s-id"].instances
    life.world.delete_instance("l40s-id", vm.id)


@pytest.mark.parametrize(
    ("happens", "kind", "detail"),
    [
        (
            troubles.kept_by_a_disruption_budget,
            OutcomeKind.WITHDRAWN,
            f"NODE: {HELD}; then its next paid hour began; it can be removed at 13:55:01 UTC",
        ),
        (taken_by_a_pod, OutcomeKind.WITHDRAWN, "NODE: ml/bold started there"),
        (wanted_by_a_pod, OutcomeKind.WITHDRAWN, "NODE: waiting work fits on it: ml/next-0"),
        (protected, OutcomeKind.WITHDRAWN, "NODE: it is protected"),
        (opened, OutcomeKind.FAILED, "NODE was uncordoned by someone else"),
        (
            frozen,
            OutcomeKind.WITHDRAWN,
            "NODE: frozen by alert Maintenance",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_one_reason_is_told(
    store: Store, happens: Callable[[Life, str], None], kind: OutcomeKind, detail: str
) -> None:
    life = lives.at_zero(store)
    node = until_cordoned(life)
    happens(life, node)
    outcome = removal_ended(life)
    assert (outcome.kind, outcome.detail.replace(node, "NODE")) == (kind, detail)


def test_a_node_that_is_wanted_after_pods_were_evicted_from_it_backs_off(store: Store) -> None:
    """Its pods return and keep the waiting work out again; without a backoff they would be evicted again and again."""
    life = lives.at_zero(store, timings=replace(FAST, terminate=30 * SECOND))
    node = until_cordoned(life)
    life.world.add_pod(PodSpec(namespace="ml", name="web-0", node=node, owner_kind="ReplicaSet", owner_name="web"))
    for _ in range(20):
        life.world.advance(life.wake_after_step(5 * SECOND))
        if any(v.emptied for s in life.store.actions() for v in s.action.victims):
            break
    wanted_by_a_pod(life, node)
    outcome = removal_ended(life)
    assert outcome.kind is OutcomeKind.FAILED
    assert "waiting work fits on it: ml/next-0" in outcome.detail
    backoff = life.step().facts.pools[0].backoffs.removal
    assert backoff is not None
    assert backoff.instances == (life.world.nodes[node].instance,)


def test_a_node_that_went_by_itself_is_told_so(store: Store) -> None:
    action = a_removal(Victim(instance="i-1", node="n1", stage=VictimStage.SPARED, why="it went already"))
    outcome = settled(action, PoolState(pool="l40s-id", required=0), START)
    assert outcome is not None
    assert outcome.detail == "n1: it went already"


def test_of_several_nodes_each_has_its_own_reason(store: Store) -> None:
    life = lives.idle_nodes(store, 3)
    while len(life.writes("cordon")) < 3:
        life.world.advance(life.wake_after_step(5 * SECOND))
    first, second, third = (str(args[0]) for _, args in life.writes("cordon"))
    taken_by_a_pod(life, first)
    protected(life, second)
    outcome = removal_ended(life)
    assert outcome.kind is OutcomeKind.CONFIRMED
    said = set(outcome.detail.split("; ")[1:])
    assert said == {f"{first}: ml/bold started there", f"{second}: it is protected"}
    assert third not in outcome.detail


def test_the_message_says_it_too(store: Store) -> None:
    life = lives.at_zero(store)
    node = until_cordoned(life)
    wanted_by_a_pod(life, node)
    removal_ended(life)
    bodies = [n.notice.body for n in store.notices_due(life.now + HOUR, limit=100) if "called off" in n.notice.title]
    assert [body.splitlines()[0] for body in bodies] == [f"{node}: waiting work fits on it: ml/next-0."]


def a_removal(*victims: Victim) -> Action:
    return Action(
        id="a", pool="l40s-id", kind=ActionKind.RETIRE, opened_at=START, from_count=1, to_count=0, victims=victims
    )


def stored_form(victim: Victim) -> dict[str, Any]:
    """The stored form of *victim*."""
    text = VICTIMS.process_bind_param((victim,), sqlite.dialect())
    found: list[dict[str, Any]] = Json().process_result_value(text, sqlite.dialect())
    return found[0]


def read_back(stored: dict[str, Any]) -> tuple[Victim, ...]:
    """The victim in *stored*."""
    found: tuple[Victim, ...] = VICTIMS.process_result_value(to_json([stored]), sqlite.dialect())
    return found


def test_a_removal_that_was_stored_without_reasons_opens_and_ends() -> None:
    stored = {"instance": "i-1", "node": "n1", "because": "idle", "stage": "spared", "since": START, "refused": False}
    (victim,) = read_back(stored)
    assert victim.why == ""
    outcome = settled(a_removal(victim), PoolState(pool="l40s-id", required=1), START)
    assert outcome is not None
    assert outcome.detail == "n1: its removal is no longer allowed"


def test_a_victim_of_a_newer_version_opens_and_an_older_version_reads_ours() -> None:
    plain = Victim(instance="i-1", node="n1")
    values = stored_form(plain)
    assert set(values) == {"instance", "node", "because", "stage", "since", "refused"}
    assert read_back({**values, "mood": "good"}) == (plain,)
    values = stored_form(replace(plain, why="it is protected", asked_at=START))
    assert read_back(values) == (replace(plain, why="it is protected", asked_at=START),)
