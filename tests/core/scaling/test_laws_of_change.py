"""Laws of when the core's answer changes, and of what a pool on trial, dead nodes and moved pods may lead to."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.core.model.actions import Action, Because, VictimStage
from receiver.core.model.model import ON_ITS_WAY, Backoff, Drift, Node, Stage
from receiver.core.model.overrides import Answer, Override, OverrideKind, Question
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Approval, Policy
from receiver.core.model.signals import SignalAction
from tests.core.builders import (
    EVERY_SECOND,
    GPU,
    HOURLY,
    NOW,
    a_node,
    a_pod,
    a_pool,
    a_question,
    a_removal,
    a_signal,
    a_state,
    facts,
)
from tests.core.worlds import LAWS, World, decided

seconds = st.integers(1, 30)  # until something ends
pod = a_pod("moves", phase=PodPhase.RUNNING, node="n", evictable=True, owner="ReplicaSet/web")


def before(span: timedelta) -> st.SearchStrategy[datetime]:
    """Moments of which *span* passes within half a minute from now."""
    return seconds.map(lambda s: NOW - span + timedelta(seconds=s))


EACH = settings(LAWS, max_examples=settings().max_examples // 8)  # for each thing that ends soon
INSTANT = timedelta(microseconds=1)
HOUR, PROVISIONING, LOSS = timedelta(hours=1), timedelta(minutes=20), timedelta(minutes=3)
ENDS_SOON = before(HOUR) | before(timedelta(minutes=55)) | before(timedelta(minutes=54))
KINDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "idle": {"idle_since": before(timedelta(minutes=1)) | before(timedelta(minutes=10)), "created_at": ENDS_SOON},
    "movable": {"pods": st.just((pod,)), "idle_since": st.none(), "created_at": ENDS_SOON},
    "kept": {
        "kept_until": seconds.map(lambda s: NOW + timedelta(seconds=s)),
        "created_at": before(timedelta(minutes=56)),
    },
    "busy": {"pods": st.just((replace(pod, evictable=False),)), "idle_since": st.none()},
    "coming": {"stage": st.sampled_from(sorted(ON_ITS_WAY)), "created_at": before(PROVISIONING)},
    "never": {"stage": st.just(Stage.BROKEN), "created_at": before(PROVISIONING)},
    "watched": {"stage": st.sampled_from([*sorted(ON_ITS_WAY), Stage.BROKEN]), "seen_since": before(PROVISIONING)},
    "lost": {
        "stage": st.just(Stage.BROKEN),
        "was_usable": st.just(True),
        "lost_at": before(LOSS) | before(PROVISIONING),
    },
    "unknown": {"stage": st.just(Stage.UNKNOWN), "created_at": before(PROVISIONING), "was_usable": st.booleans()},
}
FAILED = seconds.map(lambda s: Backoff(failures=1, until=NOW + timedelta(seconds=s), reason="failed"))
GROWN = before(timedelta(hours=24)).map(lambda at: (Drift(at=at, from_count=2, to_count=1, undoes=True),) * 3)
SHRUNK = before(timedelta(hours=24)).map(lambda at: (Drift(at=at, from_count=1, to_count=2, undoes=True),) * 3)
HOLDS: dict[str, st.SearchStrategy[Any]] = {
    "backoff": FAILED,
    "removal_backoff": FAILED | FAILED.map(lambda b: replace(b, instances=("i-n0",))),
    "provisioning": FAILED,
    "drifts": GROWN | SHRUNK,
    "last_grow_at": before(timedelta(seconds=30)),
    "last_shrink_at": before(timedelta(minutes=5)),
    "required_since": before(PROVISIONING),
}


@st.composite
def said_for_a_while(draw: st.DrawFn) -> Override:
    """An override that begins or ends within half a minute."""
    kind = draw(st.sampled_from(list(OverrideKind)))
    at = NOW + timedelta(seconds=draw(st.sampled_from([-60, draw(seconds)])))
    nodes = None if kind in (OverrideKind.PAUSE, OverrideKind.SNOOZE) else draw(st.integers(0, 3))
    until = max(at, NOW) + timedelta(seconds=draw(seconds))
    return Override(id="o", kind=kind, who="alice", why="test", at=at, until=until, nodes=nodes)


@st.composite
def asked(draw: st.DrawFn, there: list[Node]) -> Question:
    """A question of which a wait or everything ends within half a minute, or that comes from a clock ahead."""
    about = draw(st.sampled_from([(), tuple(n.instance for n in there)]))
    moments = {name: NOW + timedelta(seconds=draw(st.integers(-30, 30))) for name in ("asked_at", "wait_ends")}
    over = moments["wait_ends"] + timedelta(seconds=draw(seconds))
    return a_question(
        *about, **moments, expires_at=over, answer=draw(st.sampled_from([None, None, Answer.APPROVE])), who="alice"
    )


@st.composite
def small_worlds(draw: st.DrawFn, soon: str = "") -> World:
    """One pool with up to two nodes, a thing or two that time out soon (*soon* is one of them), and perhaps a pod that
    waits."""
    approval = Approval(removals=True, growth_above_usd_per_hour=Decimal(0))
    asking = draw(st.sampled_from([approval] if soon == "asked" else [None, approval]))
    pool = a_pool(resources={GPU: 2}, min_nodes=draw(st.integers(0, 1)), approval=asking)
    kinds = [soon] if soon in KINDS else []
    kinds += draw(st.lists(st.sampled_from(sorted(KINDS)), max_size=2 - len(kinds)))
    there: list[Node] = []
    for number, kind in enumerate(kinds):
        drawn = {field: draw(strategy) for field, strategy in KINDS[kind].items()}
        shows: dict[str, Any] = {"allocatable": {GPU: 2}}
        if "stage" in drawn:
            shows = {"allocatable": {}, "idle_since": None}
        there.append(a_node(f"n{number}", **shows, **drawn))
    holds = [soon] if soon in HOLDS else draw(st.lists(st.sampled_from(sorted(HOLDS)), max_size=1))
    action = draw(st.none() | removals(there[0])) if there else None
    held = {field: draw(HOLDS[field]) for field in holds}
    state = a_state(*there, **{"required": len(there) + draw(st.integers(0, 1)), "open_action": action, **held})
    hourly = draw(st.booleans())
    spoken = draw(st.sampled_from([(), ()]) | said_for_a_while().map(lambda o: (o,)))
    found = facts(
        state,
        waiting=[a_pod(f"p{n}", gpus=2) for n in range(draw(st.integers(0, 2)))],
        signals=() if hourly else draw(st.sampled_from([(), (a_signal(SignalAction.SCALE_DOWN),)])),
        overrides=spoken,
        questions=(draw(asked(there)),) if asking else (),
    )
    return found, Policy(pools=(pool,), billing=HOURLY if hourly else EVERY_SECOND)


@st.composite
def removals(draw: st.DrawFn, node: Node) -> Action:
    """An open removal of *node*."""
    because = draw(st.sampled_from([Because.IDLE, Because.CONSOLIDATED]))
    stage = draw(st.sampled_from([VictimStage.CHOSEN, VictimStage.CORDONED]))
    return a_removal(node.name, because=because, stage=stage)


def answer(world: World, at: datetime) -> tuple[list[int], datetime | None]:
    """The targets of all pools at *at*, and the moment at which the first of them may change."""
    found, policy = world
    decisions = [d for _, _, d in decided((replace(found, at=at), policy))]
    return [d.target for d in decisions], min((d.reconsider_at for d in decisions if d.reconsider_at), default=None)


@st.composite
def emptying_worlds(draw: st.DrawFn) -> World:
    """A node at its hour's end that could be emptied, or just was, beside a busy one with room."""
    drawn = {field: draw(strategy) for field, strategy in KINDS[draw(st.sampled_from(["movable", "idle"]))].items()}
    node = a_node("n0", allocatable={GPU: 2}, **{**drawn, "created_at": draw(ENDS_SOON)})
    action = draw(removals(node))
    room = a_node("n1", allocatable={GPU: 2}, pods=(replace(pod, evictable=False),), idle_since=None)
    state = a_state(node, room, open_action=draw(st.sampled_from([None, action])))
    return facts(state), Policy(pools=(a_pool(resources={GPU: 2}),), billing=HOURLY)


@pytest.mark.parametrize("soon", ["emptied", "asked", *KINDS, *HOLDS])
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
