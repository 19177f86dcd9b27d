"""One scene for every message of the book: two GPU pools under a budget at five past noon, and work of two teams."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from receiver.capabilities.registry import step_additions
from receiver.core.explain.explain import fates
from receiver.core.model.actions import Action, Decision, Outcome, OutcomeKind, Victim, VictimStage
from receiver.core.model.model import Drift, Facts, Node, PoolState, Spend, Stage
from receiver.core.model.pods import Pod
from receiver.core.model.policy import Budget, Policy
from receiver.core.notices.action_notices import Around, ended, instead_of
from receiver.core.notices.concerns import concerns, good_news, notices_of
from receiver.core.notices.notice import Concern, Notice, Seen, behind
from receiver.core.scaling.decide import plan
from receiver.core.scaling.wanted import Assignment
from tests.core.builders import MINUTE, NOW, a_busy_node, a_node, a_pod, a_policy, a_pool, a_state, facts, run

NUMBER = 42  # of the decision that a message leads to
L40S = a_pool(labels={"gpu": "l40s"})
H100 = a_pool(
    "h100", size="an.g1.h100.kube.x1", price_usd_per_hour=Decimal("2.99"), max_nodes=2, labels={"gpu": "h100"}
)
BUDGET = Budget(monthly_usd=Decimal(5000), timezone="Europe/London", teams={"vision": Decimal(800)})
POLICY = a_policy(L40S, H100, budget=BUDGET)


def training(*numbers: int, **changes: Any) -> tuple[Pod, ...]:
    """Waiting pods of the Job train of team vision, one GPU each."""
    given: dict[str, Any] = {"owner": "Job/train", "labels": {"team": "vision"}}
    return tuple(a_pod(f"train-{n}", **{**given, **changes}) for n in numbers or (0, 1))


def pool_of(*nodes: Node, **changes: Any) -> PoolState:
    """The L40S pool, whose nodes are usually usable after 6 minutes."""
    return a_state(*nodes, **{"ready_in": 6 * MINUTE, **changes})


def known(*states: PoolState, spent: str = "2120.45", **changes: Any) -> Facts:
    """What is known: *states* (an empty H100 pool unless one is given), and what the month has cost since it began."""
    pools = states if any(s.pool == H100.id for s in states) else (*states, a_state(pool=H100.id))
    spend = Spend(
        month="2026-11",
        usd=Decimal(spent),
        teams={"vision": Decimal("610.20")},
        seen={L40S.id: Decimal(spent)},
        seen_since=datetime(2026, 11, 1, tzinfo=UTC),
    )
    return facts(*pools, **{"spend": spend, **changes})


def standing(
    found: Facts,
    policy: Policy,
    drifts: Mapping[str, Drift] | None = None,
    reopened: Mapping[str, datetime] | None = None,
) -> list[Notice]:
    """The messages about what needs a person by *found*, and about what no longer does."""
    seen = all_seen(found, policy, drifts, reopened)
    return [*notices_of(concerns(seen, step_additions().concerns), policy, found.at), *good_news(found)]


def all_seen(
    found: Facts,
    policy: Policy,
    drifts: Mapping[str, Drift] | None = None,
    reopened: Mapping[str, datetime] | None = None,
) -> Seen:
    """What concerns are found in after a step on *found*."""
    assignment, by_name = run(found, policy)
    decisions = {p.id: by_name[p.name] for p in policy.pools}
    return Seen(
        facts=found,
        assignment=assignment,
        decisions=decisions,
        policy=policy,
        drifts=drifts or {},
        numbers={},
        reopened=reopened or {},
        behind=behind((fate for _, fate in fates(found, assignment, decisions, policy)), assignment),
    )


def decided(found: Facts, policy: Policy = POLICY) -> tuple[Assignment, Decision]:
    """The assignment, and the decision of the L40S pool."""
    assignment, decisions = run(found, policy)
    return assignment, decisions["l40s"]


def told_of(
    found: Facts,
    kind: OutcomeKind,
    detail: str = "done",
    policy: Policy = POLICY,
    gone: bool = False,
    stages: Sequence[VictimStage] = (),
    **around: Any,
) -> Notice:
    """The notice of the action that the decision on *found* asks for, when it ends as *kind*."""
    assignment, decision = decided(found, policy)
    state = found.pool(L40S.id)
    action = plan(decision, state, policy)
    assert action is not None, decision
    known_around = Around(
        policy=policy,
        budgets=assignment.budgets,
        decision=decision,
        state=state,
        instead=instead_of(L40S, assignment.pools[L40S.id], found, policy),
        **around,
    )
    return ended(_numbered(action, gone, stages), Outcome(kind=kind, at=NOW, detail=detail), known_around)


def _numbered(action: Action, gone: bool, stages: Sequence[VictimStage]) -> Action:
    """*action* with a decision's number; its victims went, or are at *stages*."""
    stages = stages or [VictimStage.GONE if gone else VictimStage.CORDONED] * len(action.victims)
    victims: tuple[Victim, ...] = tuple(replace(v, stage=s) for v, s in zip(action.victims, stages, strict=True))
    why = {VictimStage.SPARED: "ml/train-3 started there"}
    victims = tuple(replace(v, why=why.get(v.stage, "")) for v in victims)
    return replace(action, decision=NUMBER, victims=victims)


def busy(name: str = "l40s-1", **changes: Any) -> Node:
    """A node on which a pod of the Job train runs."""
    (pod,) = training(9, node=name)
    return a_busy_node(name, **{"pods": (pod,), **changes})


def idle(name: str = "l40s-2", **changes: Any) -> Node:
    """A node that idles and whose paid hour ends in four minutes."""
    return a_node(name, **{"created_at": NOW - 56 * MINUTE, "idle_since": NOW - 20 * MINUTE, **changes})


def late(name: str = "l40s-3", stage: Stage = Stage.INSTALLING, **changes: Any) -> Node:
    """A node that did not become usable in its time."""
    given: dict[str, Any] = {"created_at": NOW - 25 * MINUTE, "allocatable": {}, "idle_since": None}
    return a_node(name, **{"stage": stage, **given, **changes})


def concerns_of(known: Facts, policy: Policy | None = None) -> list[Concern]:
    """What needs a person after a step on *known*."""
    return list(concerns(all_seen(known, policy or a_policy()), step_additions().concerns))
