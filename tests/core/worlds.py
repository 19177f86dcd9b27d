"""Random worlds for the laws of the core: facts and a policy that a step could meet, however unlikely."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.strategies import SearchStrategy

from receiver.core.model.actions import Action, ActionKind, Because, Decision, Victim, VictimStage
from receiver.core.model.model import (
    Backoff,
    Backoffs,
    CivoCount,
    CordonedBy,
    Drift,
    EarlierSteps,
    Facts,
    Instructions,
    LastChanges,
    Node,
    Offer,
    OtherWork,
    PoolState,
    Source,
    SourceState,
    Spend,
    Stage,
)
from receiver.core.model.overrides import Answer, Asks, Override, OverrideKind, Question
from receiver.core.model.pods import Pod, PodPhase, Preference, Requirement
from receiver.core.model.policy import (
    Approval,
    Billing,
    Budget,
    CommittedNodes,
    Fallback,
    Limits,
    Policy,
    Pool,
    Taint,
    Unanswered,
)
from receiver.core.model.room_requests import RoomRequest
from receiver.core.model.signals import Signal, SignalAction
from receiver.core.model.windows import Window
from receiver.core.scaling.bounds import topic_of
from receiver.core.scaling.decide import Explainer
from tests.core.builders import GPU, NOW, a_node, a_pod, a_pool, a_signal, a_silence, an_offer, run
from tests.core.choices import Choices, built
from tests.given.requests import buffer_of

LAWS = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
RARE = settings(LAWS, max_examples=2 * settings().max_examples)  # for laws that few worlds put to the test
POOLS = ("one", "two")
World = tuple[Facts, Policy]
NIGHT = Window(name="night", evict_after=timedelta(minutes=30))  # always open
MOMENTS_BEFORE = (
    30,
    60,
    180,
    300,
    600,
    1200,
    3300,
    3510,
    3600,
)  # seconds: cooldowns, rests, margins, paid hours and so on


def ago(draw: Choices) -> datetime:
    """Any moment within 90 minutes, or one a moment before something that the core times ends."""
    if draw.yes():
        return NOW - timedelta(seconds=draw.number(0, 5400))
    return NOW - timedelta(seconds=draw.one(MOMENTS_BEFORE) - draw.number(0, 30))


def perhaps_ago(draw: Choices) -> datetime | None:
    """Such a moment, or none in one of three."""
    return ago(draw) if draw.number(0, 2) else None


def perhaps_backoff(draw: Choices, often: int) -> Backoff | None:
    """One that ends within a minute of now, or none in *often* of *often* + 1."""
    if draw.number(0, often) < often:
        return None
    return Backoff(failures=1, until=NOW + timedelta(seconds=draw.number(-60, 60)), reason="out of stock")


# What the owner of a pod that runs said of it: mostly consent, so that nodes can be emptied at all.
SAID: tuple[dict[str, Any], ...] = (
    {"evictable": True, "owner": "ReplicaSet/web"},
    {"evictable": True, "owner": "ReplicaSet/web"},
    {"evictable": True},  # nobody starts it again
    {"evictable": True, "owner": "Job/train", "gang": "ml/train"},
    {"evictable": True, "owner": "ReplicaSet/web", "protected": True},
    {"owner": "ReplicaSet/web"},
)

# Whom a pool asks before it changes: mostly nobody, so that other laws see changes.
ASKING: tuple[Approval | None, ...] = (
    None,
    None,
    None,
    None,
    Approval(removals=True),
    Approval(removals=True, growth_above_usd_per_hour=Decimal(2), unanswered=Unanswered.HOLD),
)

GANGS: tuple[dict[str, Any], ...] = ({}, {}, {"gang": "ml/g1"}, {"gang": "ml/g2", "gang_min": 2})


def pods_on(draw: Choices, node: str) -> tuple[Pod, ...]:
    """None, one or two one-GPU pods that run on *node*."""
    count = draw.one([0, 0, 1, 1, 2])
    said = draw.one(SAID) if count else {}
    return tuple(a_pod(f"on-{node}-{n}", phase=PodPhase.RUNNING, node=node, **said) for n in range(count))


def nodes(draw: Choices, pool: Pool, number: int) -> Node:
    """A node of *pool* in any stage; often one whose paid hour ends within minutes."""
    name = f"{pool.name}-{number}"
    stage = draw.one([Stage.USABLE] * 8 + [Stage.BROKEN, *Stage])
    coming_up = (Stage.BUILDING, Stage.BOOTING)
    was_usable = stage is Stage.USABLE or (stage not in coming_up and draw.yes())
    retainted = was_usable and stage is Stage.INSTALLING
    vanished = not was_usable and stage is Stage.BROKEN and draw.yes()
    pods = pods_on(draw, name) if was_usable else ()
    idle = stage is Stage.USABLE and draw.yes()  # also, wrongly, of a node that a pod holds
    return a_node(
        name,
        stage=stage,
        created_at=ago(draw),
        allocatable=dict(pool.resources) if stage is Stage.USABLE else {},
        pods=pods[: pool.gpus_per_node],
        idle_since=ago(draw) if idle else None,
        was_usable=was_usable,
        registered=not vanished,
        lost_at=ago(draw) if vanished or (was_usable and stage in (Stage.BROKEN, Stage.INSTALLING)) else None,
        startup_taint="readiness.k8s.io/gpu" if retainted else "",
        unknown_since=NOW if draw.one([False] * 7 + [True]) else None,
        cordoned_by=draw.one([None, None, None, None, CordonedBy.US, CordonedBy.SOMEONE]),
        protected=draw.one([False] * 7 + [True]),
        hosts=draw.one([()] * 7 + [("prometheus-0",)]),
        kept_until=draw.one([None] * 7 + [NOW + timedelta(minutes=5)]),
    )


def pools(draw: Choices, name: str, asking: Sequence[Approval | None]) -> Pool:
    """A pool of nodes with one, two or eight GPUs."""
    maximum = draw.number(0, 6)
    return a_pool(
        name,
        resources={GPU: draw.one([1, 2, 8])},
        max_nodes=maximum,
        min_nodes=draw.number(0, min(maximum, 1)),
        standby_nodes=draw.one([0, 0, 0, 1]),
        labels={"pool": name},
        price_usd_per_hour=draw.one([Decimal("1.29"), Decimal("1.29"), Decimal("10.32"), None]),
        approval=draw.one(asking),
    )


def actions(draw: Choices, pool: Pool, found: tuple[Node, ...], required: int) -> Action | None:
    """An open action: none, one that grows the pool, or one that removes its first usable node."""
    usable = [n for n in found if n.stage is Stage.USABLE]
    kind = draw.one([None, ActionKind.GROW, ActionKind.RETIRE, ActionKind.RETIRE])
    if kind is None or (kind is ActionKind.RETIRE and not usable):
        return None
    victims: tuple[Victim, ...] = ()
    if kind is ActionKind.RETIRE:
        victims = (
            Victim(
                instance=usable[0].instance,
                node=usable[0].name,
                because=draw.one([Because.IDLE, Because.CONSOLIDATED, Because.EVICTED]),
                stage=draw.one([VictimStage.CHOSEN, VictimStage.CORDONED, VictimStage.DELETED]),
                since=ago(draw),
            ),
        )
    to_count = required + 1 if kind is ActionKind.GROW else max(0, required - 1)
    return Action(
        id="a", pool=pool.id, kind=kind, opened_at=NOW, from_count=required, to_count=to_count, victims=victims
    )


def offers(draw: Choices, pool: Pool) -> Offer | None:
    """What the newest node of *pool* showed: nothing, as configured, a GPU less, no labels, or a taint more."""
    shown = draw.one(["nothing", "nothing", "nothing", "as said", "fewer", "unlabelled", "tainted"])
    if shown == "nothing":
        return None
    return an_offer(
        pool,
        allocatable={GPU: pool.gpus_per_node - (shown == "fewer")},
        labels={} if shown == "unlabelled" else pool.offered_labels,
        taints=(Taint(key="maintenance"),) if shown == "tainted" else (),
    )


def drifts(draw: Choices) -> tuple[Drift, ...]:
    """Three changes that turned our own back, the youngest of which is forgotten within half an hour; or none."""
    if draw.one([True, True, True, False]):
        return ()
    way = draw.one([(2, 1), (1, 2)])
    newest = NOW - timedelta(hours=24) + timedelta(seconds=draw.number(-60, 1800))
    ages = (timedelta(0), timedelta(minutes=1), timedelta(minutes=2))
    return tuple(Drift(at=newest - a, from_count=way[0], to_count=way[1], undoes=True) for a in ages)


def states(draw: Choices, pool: Pool, calm: bool) -> PoolState:
    """A pool as found. A *calm* one has nothing that holds it back but its nodes."""
    found = tuple(nodes(draw, pool, n) for n in range(draw.number(0, 4)))
    living = sum(1 for n in found if n.stage is not Stage.DELETING)
    required = max(0, living + draw.one([0, 0, 0, 1, -1]))
    if calm:
        return PoolState(pool=pool.id, required=required, nodes=found)
    return PoolState(
        pool=pool.id,
        required=required,
        count=CivoCount(since=perhaps_ago(draw), drifts=drifts(draw)),
        nodes=found,
        open_action=actions(draw, pool, found, required),
        last_changes=LastChanges(grown_at=perhaps_ago(draw), shrunk_at=perhaps_ago(draw)),
        backoffs=Backoffs(
            growth=perhaps_backoff(draw, 2),
            refused=draw.one([None, None, required + draw.number(1, 7)]),
            removal=perhaps_backoff(draw, 2),
            provisioning=perhaps_backoff(draw, 1),
        ),
        offer=offers(draw, pool),
        silence=draw.one([None, None, None, None, a_silence()]),
    )


def waiting_pods(draw: Choices, number: int) -> Pod:
    """A pod that waits for one pool or any, alone or in a gang, perhaps one that is not complete."""
    prefers = Preference(weight=10, term=(Requirement(key="pool", operator="In", values=("two",)),))
    return a_pod(
        f"p{number}",
        draw.one([1, 1, 2, 8]),
        created_at=ago(draw),
        node_selector=draw.one([{}, {}, {"pool": "one"}, {"pool": "two"}, {"pool": "three"}]),
        preferred=draw.one([(), (), (prefers,)]),
        priority=draw.one([0, 0, 10]),
        **draw.one(GANGS),
    )


def signals(draw: Choices, actions: list[SignalAction]) -> tuple[Signal, ...]:
    """Up to two firing alerts of some pool or all."""
    chosen = {draw.one(actions): None for _ in range(draw.number(0, 2))}  # each once
    return tuple(a_signal(a, draw.one([None, "one-id", "two-id"])) for a in chosen)


def overrides(draw: Choices) -> tuple[Override, ...]:
    """Up to three overrides of some pool or all: over, in force or still to come."""
    found = []
    for number in range(draw.one([0, 0, 1, 1, 2, 3])):
        kind = draw.one(list(OverrideKind))
        at = NOW + timedelta(seconds=draw.number(-5400, 30))
        found.append(
            Override(
                id=str(number),
                kind=kind,
                who="alice",
                why="test",
                at=at,
                until=max(at, NOW) + timedelta(seconds=draw.number(-30, 600)),
                pool=draw.one([None, "one-id", "two-id"]),
                nodes=None if kind in (OverrideKind.PAUSE, OverrideKind.SNOOZE) else draw.number(0, 6),
            )
        )
    return tuple(found)


def questions(draw: Choices, pool: Pool, state: PoolState) -> tuple[Question, ...]:
    """Up to two questions about *pool*: about its first node, busy or not, or about growth, however answered."""
    found = []
    for number in range(draw.one([0, 1, 1, 2])) if pool.approval else ():
        asks = draw.one([Asks.REMOVAL, Asks.EMPTYING, Asks.GROWTH])
        named = state.nodes[:2] if asks is not Asks.GROWTH else ()
        asked_at = ago(draw)
        found.append(
            Question(
                id=f"{pool.name}-{number}",
                pool=pool.id,
                asks=asks,
                from_count=state.required,
                to_count=draw.number(0, 6),
                asked_at=asked_at,
                due_at=NOW,
                wait_ends=asked_at + draw.one([timedelta(minutes=15), timedelta(hours=2)]),
                expires_at=NOW + timedelta(seconds=draw.number(-30, 600)),
                unanswered=draw.one(list(Unanswered)),
                instances=tuple(n.instance for n in named),
                nodes=tuple(n.name for n in named),
                answer=draw.one([None, Answer.APPROVE, Answer.APPROVE, Answer.PIN]),
                who="alice",
                done_at=draw.one([None, None, None, NOW]),
            )
        )
    return tuple(found)


def a_world(draw: Choices, asking: Sequence[Approval | None]) -> World:
    """Facts and a policy. Half of the worlds are calm: nothing but the law under test holds them back."""
    calm = draw.yes()
    chosen = tuple(pools(draw, name, asking) for name in POOLS)
    down = None if calm else draw.one((None, draw.one(list(Source))))
    monthly = draw.one((None, None, Decimal(5), Decimal(30), Decimal(1000)))
    policy = Policy(
        pools=chosen,
        budget=None if monthly is None else Budget(monthly_usd=monthly),
        billing=Billing(granularity=draw.one([timedelta(hours=1), timedelta(seconds=1)])),
        limits=Limits(
            max_gpus=draw.one((None, draw.number(0, 20))),
            max_growth_per_hour=draw.one((None, draw.number(0, 6))),
            max_removals_per_hour=draw.one((None, draw.number(0, 3))),
        ),
        fallback=draw.one(list(Fallback)),
    )
    spent = Decimal(draw.number(0, 110)) / 100 * (monthly or Decimal(0))
    evicting = graces(draw, chosen)
    policy = replace(policy, pools=tuple(pool for pool, _ in evicting))
    there = tuple(states(draw, p, calm) for p in chosen)
    found = Facts(
        at=NOW,
        pools=there,
        waiting=tuple(waiting_pods(draw, n) for n in range(draw.number(0, 6))),
        signals=() if calm else signals(draw, list(SignalAction)),
        sources={s: SourceState(source=s, up=s is not down, at=NOW) for s in Source},
        spend=Spend(month="2026-11", usd=spent),
        earlier=EarlierSteps(
            grown_last_hour=draw.number(0, 3),
            removed_last_hour=draw.number(0, 3),
            announced={topic_of(w, p): at for p, at in evicting for w in p.windows if at is not None},
        ),
        instructions=Instructions(
            overrides=() if calm else overrides(draw),
            questions=tuple(q for p, s in zip(chosen, there, strict=True) for q in questions(draw, p, s)),
        ),
        other_work=OtherWork(requests=buffers(draw)),
    )
    return found, policy


def buffers(draw: Choices) -> tuple[RoomRequest, ...]:
    """Up to two CapacityBuffers, in half of the worlds."""
    many = draw.one([0, 0, 0, 1, 2])
    chunks = [a_pod(f"chunk-{n}", draw.one([1, 1, 2, 8]), uid="") for n in range(many)]
    return tuple(buffer_of(f"ml/{pod.name}", pod, draw.number(0, 3)) for pod in chunks)


def graces(draw: Choices, chosen: tuple[Pool, ...]) -> tuple[tuple[Pool, datetime | None], ...]:
    """The pools, some with an open window that evicts after half an hour, and when that was told."""
    found = []
    for pool in chosen:
        most = draw.one([None, None, 0, 1, 2])
        windows = () if most is None else (replace(NIGHT, max_nodes=most),)
        found.append((replace(pool, windows=windows), draw.one((None, NOW - timedelta(hours=1), ago(draw), ago(draw)))))
    return tuple(found)


def worlds(asking: Sequence[Approval | None] = ASKING) -> SearchStrategy[World]:
    """Such worlds, each pool of which asks as one of *asking* says."""
    return built(partial(a_committed_world, asking=asking), size=300)  # no world has read more than 283 of them


def a_committed_world(draw: Choices, asking: Sequence[Approval | None]) -> World:
    """A world in which some pools have committed nodes; some commitments are over, or will be in a moment."""
    found, policy = a_world(draw, asking)
    committed = []
    for pool in policy.pools:
        nodes = draw.one([0, 0, 0, 1, 2, 4])
        until = NOW + timedelta(seconds=draw.one([-60, 30, 1800, 3600, 5400, 86_400, 86_400]))
        if nodes:
            price = Decimal("0.89")
            committed.append(CommittedNodes(pool=pool.id, size=pool.size, nodes=nodes, usd_per_hour=price, until=until))
    ahead = {c.pool: Decimal(draw.one([0, 0, 2, 20])) for c in committed if c.until > NOW}
    billing = replace(policy.billing, committed=tuple(committed))
    return replace(found, spend=replace(found.spend, committed=ahead)), replace(policy, billing=billing)


def decided(world: World, explained_by: Explainer | None = None) -> list[tuple[Pool, PoolState, Decision]]:
    """Assign and decide as a step does; pool by pool with its state."""
    found, policy = world
    _, decisions = run(found, policy, explained_by=explained_by)
    return [(p, found.pool(p.id), decisions[p.name]) for p in policy.pools]
