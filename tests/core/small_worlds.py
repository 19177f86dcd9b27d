"""Worlds of one pool with up to two nodes, in which something ends within half a minute."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

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
    with_fields,
)
from tests.core.worlds import World

SECONDS_LEFT = st.integers(1, 30)  # until something ends
MOVING_POD = a_pod("moves", phase=PodPhase.RUNNING, node="n", evictable=True, owner="ReplicaSet/web")


def before(span: timedelta) -> st.SearchStrategy[datetime]:
    """Moments of which *span* passes within half a minute from now."""
    return SECONDS_LEFT.map(lambda s: NOW - span + timedelta(seconds=s))


HOUR, PROVISIONING, LOSS = timedelta(hours=1), timedelta(minutes=20), timedelta(minutes=3)
ENDS_SOON = before(HOUR) | before(timedelta(minutes=55)) | before(timedelta(minutes=54))
NODE_KINDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "idle": {"idle_since": before(timedelta(minutes=1)) | before(timedelta(minutes=10)), "created_at": ENDS_SOON},
    "movable": {"pods": st.just((MOVING_POD,)), "idle_since": st.none(), "created_at": ENDS_SOON},
    "kept": {
        "kept_until": SECONDS_LEFT.map(lambda s: NOW + timedelta(seconds=s)),
        "created_at": before(timedelta(minutes=56)),
    },
    "busy": {"pods": st.just((with_fields(MOVING_POD, evictable=False),)), "idle_since": st.none()},
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
FAILED = SECONDS_LEFT.map(lambda s: Backoff(failures=1, until=NOW + timedelta(seconds=s), reason="failed"))
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
def brief_overrides(draw: st.DrawFn) -> Override:
    """An override that begins or ends within half a minute."""
    kind = draw(st.sampled_from(list(OverrideKind)))
    at = NOW + timedelta(seconds=draw(st.sampled_from([-60, draw(SECONDS_LEFT)])))
    nodes = None if kind in (OverrideKind.PAUSE, OverrideKind.SNOOZE) else draw(st.integers(0, 3))
    until = max(at, NOW) + timedelta(seconds=draw(SECONDS_LEFT))
    return Override(id="o", kind=kind, who="alice", why="test", at=at, until=until, nodes=nodes)


@st.composite
def brief_questions(draw: st.DrawFn, there: list[Node]) -> Question:
    """A question of which a wait or everything ends within half a minute, or that comes from a clock ahead."""
    about = draw(st.sampled_from([(), tuple(n.instance for n in there)]))
    moments = {name: NOW + timedelta(seconds=draw(st.integers(-30, 30))) for name in ("asked_at", "wait_ends")}
    over = moments["wait_ends"] + timedelta(seconds=draw(SECONDS_LEFT))
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
    kinds = [soon] if soon in NODE_KINDS else []
    kinds += draw(st.lists(st.sampled_from(sorted(NODE_KINDS)), max_size=2 - len(kinds)))
    there: list[Node] = []
    for number, kind in enumerate(kinds):
        drawn = {field: draw(strategy) for field, strategy in NODE_KINDS[kind].items()}
        shows: dict[str, Any] = {"allocatable": {GPU: 2}}
        if "stage" in drawn:
            shows = {"allocatable": {}, "idle_since": None}
        there.append(a_node(f"n{number}", **shows, **drawn))
    holds = [soon] if soon in HOLDS else draw(st.lists(st.sampled_from(sorted(HOLDS)), max_size=1))
    action = draw(st.none() | open_removals(there[0])) if there else None
    held = {field: draw(HOLDS[field]) for field in holds}
    state = a_state(*there, **{"required": len(there) + draw(st.integers(0, 1)), "open_action": action, **held})
    hourly = draw(st.booleans())
    spoken = draw(st.sampled_from([(), ()]) | brief_overrides().map(lambda o: (o,)))
    found = facts(
        state,
        waiting=[a_pod(f"p{n}", gpus=2) for n in range(draw(st.integers(0, 2)))],
        signals=() if hourly else draw(st.sampled_from([(), (a_signal(SignalAction.SCALE_DOWN),)])),
        overrides=spoken,
        questions=(draw(brief_questions(there)),) if asking else (),
    )
    return found, Policy(pools=(pool,), billing=HOURLY if hourly else EVERY_SECOND)


@st.composite
def open_removals(draw: st.DrawFn, node: Node) -> Action:
    """An open removal of *node*."""
    because = draw(st.sampled_from([Because.IDLE, Because.CONSOLIDATED]))
    stage = draw(st.sampled_from([VictimStage.CHOSEN, VictimStage.CORDONED]))
    return a_removal(node.name, because=because, stage=stage)
