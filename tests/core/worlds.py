"""Random worlds for the laws of the core: facts and a policy that a step could meet, however unlikely."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from receiver.core.actions import Action, ActionKind, Because, Decision, Victim, VictimStage
from receiver.core.graces import topic_of
from receiver.core.model import (
    ON_ITS_WAY,
    Backoff,
    CordonedBy,
    Drift,
    Facts,
    Node,
    Offer,
    PoolState,
    Signal,
    SignalAction,
    Source,
    SourceState,
    Spend,
    Stage,
)
from receiver.core.overrides import Override, OverrideKind
from receiver.core.pods import Pod, PodPhase, Preference, Requirement
from receiver.core.policy import Approval, Billing, Budget, Fallback, Limits, Policy, Pool, Taint, Unanswered
from receiver.core.questions import Answer, Asks, Question
from receiver.core.windows import Window
from tests.core.builders import GPU, NOW, a_pod, a_pool, a_signal, a_silence, an_offer, run

LAWS = settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
POOLS = ("one", "two")
# Seconds: any within 90 minutes, and those a moment before something that the core times ends (a cooldown, a rest,
# a loss that is short, idleness, provisioning, a margin, a paid hour).
_ages = st.integers(0, 5400) | st.builds(
    lambda end, left: max(0, end - left), st.sampled_from([30, 60, 180, 300, 600, 1200, 3300, 3600]), st.integers(0, 30)
)
ago = _ages.map(lambda s: NOW - timedelta(seconds=s))
World = tuple[Facts, Policy]
NIGHT = Window(name="night", evict_after=timedelta(minutes=30))  # always open

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


@st.composite
def pods_on(draw: st.DrawFn, node: str) -> tuple[Pod, ...]:
    """None, one or two one-GPU pods that run on *node*."""
    count = draw(st.sampled_from([0, 0, 1, 1, 2]))
    said = draw(st.sampled_from(SAID)) if count else {}
    return tuple(a_pod(f"on-{node}-{n}", phase=PodPhase.RUNNING, node=node, **said) for n in range(count))


@st.composite
def nodes(draw: st.DrawFn, pool: Pool, number: int) -> Node:
    """A node of *pool* in any stage; often one whose paid hour ends within minutes."""
    name = f"{pool.name}-{number}"
    stage = draw(st.sampled_from([Stage.USABLE] * 8 + [Stage.BROKEN, *Stage]))
    was_usable = stage is Stage.USABLE or (stage not in ON_ITS_WAY and draw(st.booleans()))
    pods = draw(pods_on(name)) if was_usable else ()
    idle = stage is Stage.USABLE and draw(st.booleans())  # also, wrongly, of a node that a pod holds
    return Node(
        name=name,
        instance=f"i-{name}",
        stage=stage,
        created_at=draw(ago),
        allocatable=dict(pool.resources) if stage is Stage.USABLE else {},
        pods=pods[: pool.gpus_per_node],
        idle_since=draw(ago) if idle else None,
        was_usable=was_usable,
        lost_at=draw(ago) if was_usable and stage is Stage.BROKEN else None,
        unknown_since=NOW if draw(st.sampled_from([False] * 7 + [True])) else None,
        cordoned_by=draw(st.sampled_from([None, None, None, None, CordonedBy.US, CordonedBy.SOMEONE])),
        protected=draw(st.sampled_from([False] * 7 + [True])),
        hosts=draw(st.sampled_from([()] * 7 + [("prometheus-0",)])),
        kept_until=draw(st.sampled_from([None] * 7 + [NOW + timedelta(minutes=5)])),
    )


@st.composite
def pools(draw: st.DrawFn, name: str) -> Pool:
    """A pool of nodes with one, two or eight GPUs."""
    maximum = draw(st.integers(0, 6))
    return a_pool(
        name,
        resources={GPU: draw(st.sampled_from([1, 2, 8]))},
        max_nodes=maximum,
        min_nodes=draw(st.integers(0, min(maximum, 1))),
        standby_nodes=draw(st.sampled_from([0, 0, 0, 1])),
        labels={"pool": name},
        price_usd_per_hour=draw(st.sampled_from([Decimal("1.29"), Decimal("1.29"), Decimal("10.32"), None])),
        approval=draw(st.sampled_from(ASKING)),
    )


@st.composite
def actions(draw: st.DrawFn, pool: Pool, found: tuple[Node, ...], required: int) -> Action | None:
    """An open action: none, one that grows the pool, or one that removes its first usable node."""
    usable = [n for n in found if n.stage is Stage.USABLE]
    kind = draw(st.sampled_from([None, ActionKind.GROW, ActionKind.RETIRE, ActionKind.RETIRE]))
    if kind is None or (kind is ActionKind.RETIRE and not usable):
        return None
    victims: tuple[Victim, ...] = ()
    if kind is ActionKind.RETIRE:
        victims = (
            Victim(
                instance=usable[0].instance,
                node=usable[0].name,
                because=draw(st.sampled_from([Because.IDLE, Because.CONSOLIDATED, Because.EVICTED])),
                stage=draw(st.sampled_from([VictimStage.CHOSEN, VictimStage.CORDONED, VictimStage.DELETED])),
                since=draw(ago),
            ),
        )
    to_count = required + 1 if kind is ActionKind.GROW else max(0, required - 1)
    return Action(
        id="a", pool=pool.id, kind=kind, opened_at=NOW, from_count=required, to_count=to_count, victims=victims
    )


@st.composite
def offers(draw: st.DrawFn, pool: Pool) -> Offer | None:
    """What the newest node of *pool* showed: nothing, as configured, a GPU less, no labels, or a taint more."""
    shown = draw(st.sampled_from(["nothing", "nothing", "nothing", "as said", "fewer", "unlabelled", "tainted"]))
    if shown == "nothing":
        return None
    return an_offer(
        pool,
        allocatable={GPU: pool.gpus_per_node - (shown == "fewer")},
        labels={} if shown == "unlabelled" else pool.offered_labels,
        taints=(Taint(key="maintenance"),) if shown == "tainted" else (),
    )


@st.composite
def drifts(draw: st.DrawFn) -> tuple[Drift, ...]:
    """Three changes that turned our own back, the youngest of which is forgotten within half an hour; or none."""
    if draw(st.sampled_from([True, True, True, False])):
        return ()
    way = draw(st.sampled_from([(2, 1), (1, 2)]))
    newest = NOW - timedelta(hours=24) + timedelta(seconds=draw(st.integers(-60, 1800)))
    ages = (timedelta(0), timedelta(minutes=1), timedelta(minutes=2))
    return tuple(Drift(at=newest - a, from_count=way[0], to_count=way[1], undoes=True) for a in ages)


@st.composite
def states(draw: st.DrawFn, pool: Pool, calm: bool) -> PoolState:
    """A pool as found. A *calm* one has nothing that holds it back but its nodes."""
    found = tuple(draw(nodes(pool, n)) for n in range(draw(st.integers(0, 4))))
    living = sum(1 for n in found if n.stage is not Stage.DELETING)
    required = max(0, living + draw(st.sampled_from([0, 0, 0, 1, -1])))
    if calm:
        return PoolState(pool=pool.id, required=required, nodes=found)
    ends = st.integers(-60, 60).map(
        lambda s: Backoff(failures=1, until=NOW + timedelta(seconds=s), reason="out of stock")
    )
    return PoolState(
        pool=pool.id,
        required=required,
        required_since=draw(st.none() | ago),
        nodes=found,
        open_action=draw(actions(pool, found, required)),
        last_grow_at=draw(st.none() | ago),
        last_shrink_at=draw(st.none() | ago),
        backoff=draw(st.none() | st.none() | ends),
        removal_backoff=draw(st.none() | st.none() | ends),
        provisioning=draw(st.none() | ends),
        drifts=draw(drifts()),
        offer=draw(offers(pool)),
        silence=draw(st.sampled_from([None, None, None, None, a_silence()])),
    )


@st.composite
def waiting_pods(draw: st.DrawFn, number: int) -> Pod:
    """A pod that waits for one pool or any, alone or in a gang, perhaps one that is not complete."""
    prefers = Preference(weight=10, term=(Requirement(key="pool", operator="In", values=("two",)),))
    return a_pod(
        f"p{number}",
        draw(st.sampled_from([1, 1, 2, 8])),
        created_at=draw(ago),
        node_selector=draw(st.sampled_from([{}, {}, {"pool": "one"}, {"pool": "two"}, {"pool": "three"}])),
        preferred=draw(st.sampled_from([(), (), (prefers,)])),
        priority=draw(st.sampled_from([0, 0, 10])),
        **draw(st.sampled_from(GANGS)),
    )


@st.composite
def signals(draw: st.DrawFn, actions: list[SignalAction]) -> tuple[Signal, ...]:
    """Up to two firing alerts of some pool or all."""
    chosen = draw(st.lists(st.sampled_from(actions), max_size=2, unique=True)) if actions else []
    return tuple(a_signal(a, draw(st.sampled_from([None, "one-id", "two-id"]))) for a in chosen)


@st.composite
def overrides(draw: st.DrawFn) -> tuple[Override, ...]:
    """Up to three overrides of some pool or all: over, in force or still to come."""
    found = []
    for number in range(draw(st.sampled_from([0, 0, 1, 1, 2, 3]))):
        kind = draw(st.sampled_from(list(OverrideKind)))
        at = NOW + timedelta(seconds=draw(st.integers(-5400, 30)))
        found.append(
            Override(
                id=str(number),
                kind=kind,
                who="alice",
                why="test",
                at=at,
                until=max(at, NOW) + timedelta(seconds=draw(st.integers(-30, 600))),
                pool=draw(st.sampled_from([None, "one-id", "two-id"])),
                nodes=None if kind in (OverrideKind.PAUSE, OverrideKind.SNOOZE) else draw(st.integers(0, 6)),
            )
        )
    return tuple(found)


@st.composite
def questions(draw: st.DrawFn, pool: Pool, state: PoolState) -> tuple[Question, ...]:
    """Up to two questions about *pool*: about its first node, busy or not, or about growth, however answered."""
    found = []
    for number in range(draw(st.sampled_from([0, 1, 1, 2]))) if pool.approval else ():
        asks = draw(st.sampled_from([Asks.REMOVAL, Asks.EMPTYING, Asks.GROWTH]))
        named = state.nodes[:2] if asks is not Asks.GROWTH else ()
        asked_at = draw(ago)
        found.append(
            Question(
                id=f"{pool.name}-{number}",
                pool=pool.id,
                asks=asks,
                from_count=state.required,
                to_count=draw(st.integers(0, 6)),
                asked_at=asked_at,
                due_at=NOW,
                wait_ends=asked_at + draw(st.sampled_from([timedelta(minutes=15), timedelta(hours=2)])),
                expires_at=NOW + timedelta(seconds=draw(st.integers(-30, 600))),
                unanswered=draw(st.sampled_from(list(Unanswered))),
                instances=tuple(n.instance for n in named),
                nodes=tuple(n.name for n in named),
                answer=draw(st.sampled_from([None, Answer.APPROVE, Answer.APPROVE, Answer.PIN])),
                who="alice",
                done_at=draw(st.sampled_from([None, None, None, NOW])),
            )
        )
    return tuple(found)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Facts and a policy. Half of the worlds are calm: nothing but the law under test holds them back."""
    calm = draw(st.booleans())
    chosen = tuple(draw(pools(name)) for name in POOLS)
    down = () if calm else draw(st.lists(st.sampled_from(list(Source)), max_size=1))
    budget = draw(
        st.none() | st.sampled_from([Decimal(5), Decimal(30), Decimal(1000)]).map(lambda m: Budget(monthly_usd=m))
    )
    policy = Policy(
        pools=chosen,
        budget=budget,
        billing=Billing(granularity=draw(st.sampled_from([timedelta(hours=1), timedelta(seconds=1)]))),
        limits=Limits(
            max_gpus=draw(st.none() | st.integers(0, 20)),
            max_growth_per_hour=draw(st.none() | st.integers(0, 6)),
            max_removals_per_hour=draw(st.none() | st.integers(0, 3)),
        ),
        fallback=draw(st.sampled_from(list(Fallback))),
    )
    spent = Decimal(draw(st.integers(0, 110))) / 100 * (budget.monthly_usd if budget else Decimal(0))
    evicting = draw(graces(chosen))
    policy = replace(policy, pools=tuple(pool for pool, _ in evicting))
    there = tuple(draw(states(p, calm)) for p in chosen)
    found = Facts(
        at=NOW,
        pools=there,
        waiting=tuple(draw(waiting_pods(n)) for n in range(draw(st.integers(0, 6)))),
        signals=() if calm else draw(signals(list(SignalAction))),
        sources={s: SourceState(source=s, up=s not in down, at=NOW) for s in Source},
        spend=Spend(month="2026-11", usd=spent),
        grown_last_hour=draw(st.integers(0, 3)),
        removed_last_hour=draw(st.integers(0, 3)),
        overrides=() if calm else draw(overrides()),
        questions=tuple(q for p, s in zip(chosen, there, strict=True) for q in draw(questions(p, s))),
        told_to_go={topic_of(w, p): at for p, at in evicting for w in p.windows if at is not None},
    )
    return found, policy


@st.composite
def graces(draw: st.DrawFn, chosen: tuple[Pool, ...]) -> tuple[tuple[Pool, datetime | None], ...]:
    """The pools, some with an open window that evicts after half an hour, and when that was told."""
    found = []
    for pool in chosen:
        most = draw(st.sampled_from([None, None, 0, 1, 2]))
        windows = () if most is None else (replace(NIGHT, max_nodes=most),)
        found.append((replace(pool, windows=windows), draw(st.sampled_from([None, NOW - timedelta(hours=1)]) | ago)))
    return tuple(found)


def decided(world: World) -> list[tuple[Pool, PoolState, Decision]]:
    """Assign and decide as a step does; pool by pool with its state."""
    found, policy = world
    _, decisions = run(found, policy)
    return [(p, found.pool(p.id), decisions[p.name]) for p in policy.pools]
