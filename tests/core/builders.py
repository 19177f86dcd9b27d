"""Valid values with defaults, so that a test says only what matters to it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from receiver.capabilities.registry import step_additions
from receiver.core.explain.evidence import with_grounds
from receiver.core.model.actions import Action, ActionKind, Because, Decision, Victim, VictimStage
from receiver.core.model.flights import Flight
from receiver.core.model.memory import NodeLife
from receiver.core.model.model import Facts, Node, Offer, PoolState, Source, SourceState, Spend, Stage
from receiver.core.model.overrides import Asks, Override, OverrideKind, Question
from receiver.core.model.pods import Pod, PodPhase
from receiver.core.model.policy import Billing, Policy, Pool, Unanswered
from receiver.core.model.signals import PoolSilence, Signal, SignalAction
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import Explainer, decide_all
from receiver.core.scaling.failures import Failures
from receiver.core.scaling.guardrails import with_added
from receiver.core.scaling.template import fingerprint
from receiver.core.scaling.wanted import Assignment

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
AN_INSTANT = timedelta(microseconds=1)
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
HOUR_ENDS_SOON = NOW - 57 * MINUTE  # created then: three minutes of a node's paid hour are left
MID_HOUR = NOW - 30 * MINUTE
GPU = "nvidia.com/gpu"
HOURLY = Billing(removal_margin=timedelta(minutes=5))
EVERY_SECOND = Billing(granularity=timedelta(seconds=1), removal_margin=timedelta(0))


def a_pool(name: str = "l40s", **changes: Any) -> Pool:
    """A pool of one-GPU nodes at USD 1.29 an hour, at most 8, that rests for 30 s after it grew."""
    given: dict[str, Any] = {
        "id": f"{name}-id",
        "name": name,
        "size": "an.g1.l40s.kube.x1",
        "resources": {GPU: 1},
        "max_nodes": 8,
        "price_usd_per_hour": Decimal("1.29"),
        "grow_cooldown": timedelta(seconds=30),
    }
    return Pool(**{**given, **changes})


def a_policy(*pools: Pool, **changes: Any) -> Policy:
    """A policy over *pools* (one L40S pool when none is given), without a budget; an idle node may go in the last five
    minutes of its paid hour."""
    return Policy(**{"pools": pools or (a_pool(),), "billing": HOURLY, **changes})


def a_pod(name: str = "train", gpus: int = 1, **changes: Any) -> Pod:
    """A waiting pod of namespace ml that asks for whole GPUs, with *changes* as for `with_fields`. One that is
    *terminating* should long be gone; a *daemon* belongs to a DaemonSet."""
    pod = Pod(
        namespace="ml",
        name=name,
        uid=f"uid-{name}",
        requests={GPU: gpus},
        phase=PodPhase.WAITING,
        created_at=NOW - timedelta(seconds=10),
    )
    if changes.pop("terminating", False):
        changes["leaves_at"] = NOW - timedelta(hours=1)
    if changes.pop("daemon", False):
        changes["owner"] = f"DaemonSet/{name}"
    return with_fields(pod, **changes) if changes else pod


def a_node(name: str = "n1", **changes: Any) -> Node:
    """A usable, empty one-GPU node created 20 minutes ago and idle for 15, with *changes* as for `with_fields`."""
    node = Node(
        name=name,
        instance=f"i-{name}",
        stage=Stage.USABLE,
        created_at=NOW - timedelta(minutes=20),
        allocatable={GPU: 1},
        idle_since=NOW - timedelta(minutes=15),
    )
    return with_fields(node, **changes)


# A test names what matters without the value that holds it, as (value, field).
PARTS_OF_A_NODE = {
    "cordoned_by": ("cordon", "by"),
    "cordoned_for": ("cordon", "action"),
    "closed_for": ("cordon", "stop"),
    "deleted": ("cordon", "deleted"),
    "protected": ("keep", "protected"),
    "kept_until": ("keep", "until"),
    "kept_for": ("keep", "pod"),
    "hosts": ("keep", "hosts"),
    "kept_by": ("keep", "drain_losses"),
    "sick": ("health", "sick"),
    "sick_since": ("health", "since"),
    "partly_sick": ("health", "partly"),
    "maintained": ("health", "maintained"),
    "maintained_until": ("health", "maintained_until"),
    "usable_since": ("times", "usable_since"),
    "seen_since": ("times", "seen_since"),
    "unknown_since": ("times", "unknown_since"),
    "lost_at": ("times", "lost_at"),
    "undated": ("times", "undated"),
    "compute": ("beside", "compute"),
    "others": ("beside", "others"),
    "daemons": ("beside", "daemons"),
    "dra": ("beside", "dra"),
    "devices": ("beside", "devices"),
    "devices_returned": ("beside", "devices_returned"),
}
PARTS_OF_A_POOL = {
    "backoff": ("backoffs", "growth"),
    "refused": ("backoffs", "refused"),
    "removal_backoff": ("backoffs", "removal"),
    "provisioning": ("backoffs", "provisioning"),
    "sickened": ("backoffs", "sickened"),
    "last_grow_at": ("last_changes", "grown_at"),
    "last_shrink_at": ("last_changes", "shrunk_at"),
    "required_since": ("count", "since"),
    "uncounted": ("count", "uncounted"),
    "drifts": ("count", "drifts"),
    "unreadable": ("count", "unreadable"),
    "ready_in": ("startup", "usual"),
    "ready_within": ("startup", "slow"),
    "compute": ("next_node", "compute"),
    "devices": ("next_node", "devices"),
}
PARTS_OF_FACTS = {
    "deferred": ("other_work", "deferred"),
    "requests": ("other_work", "requests"),
    "bound_gangs": ("other_work", "bound_gangs"),
    "refusals": ("other_work", "refusals"),
    "grown_last_hour": ("earlier", "grown_last_hour"),
    "removed_last_hour": ("earlier", "removed_last_hour"),
    "first_changed_at": ("earlier", "first_changed_at"),
    "unanswered": ("earlier", "unanswered"),
    "kept_out": ("earlier", "kept_out"),
    "told_to_go": ("earlier", "announced"),
    "given_up": ("earlier", "given_back"),
    "overrides": ("instructions", "overrides"),
    "questions": ("instructions", "questions"),
    "budget_changes": ("instructions", "budget_changes"),
    "charges": ("spend", "charges"),
}
PARTS_OF_A_POD = {
    "node_selector": ("scheduling", "node_selector"),
    "affinity": ("scheduling", "affinity"),
    "preferred": ("scheduling", "preferred"),
    "tolerations": ("scheduling", "tolerations"),
    "host_rules": ("scheduling", "host_rules"),
    "pool_hint": ("scheduling", "pool_hint"),
    "image": ("scheduling", "image"),
    "evictable": ("wishes", "evictable"),
    "protected": ("wishes", "protected"),
    "idle_shutdown": ("wishes", "idle_shutdown"),
    "stays_idle": ("wishes", "stays_idle"),
    "keep_until": ("wishes", "keep_until"),
    "may_wait": ("wishes", "may_wait"),
    "bound_at": ("times", "bound_at"),
    "running_since": ("times", "running_since"),
    "leaves_at": ("times", "leaves_at"),
    "claims": ("claiming", "words"),
    "claimed": ("claiming", "claims"),
    "not_bought": ("claiming", "not_bought"),
}
PARTS: Mapping[type, Mapping[str, tuple[str, str]]] = {
    Node: PARTS_OF_A_NODE,
    PoolState: PARTS_OF_A_POOL,
    Facts: PARTS_OF_FACTS,
    Pod: PARTS_OF_A_POD,
}
V = TypeVar("V", Node, PoolState, Facts, Pod)


def with_fields(value: V, **changes: Any) -> V:
    """*value* with other fields, those of its parts under the names of `PARTS`. A node that *was_usable* was so since
    long."""
    parts = PARTS[type(value)]
    if "was_usable" in changes and isinstance(value, Node):
        since = changes.get("usable_since") or changes.get("created_at", value.created_at)
        changes["usable_since"] = since if changes.pop("was_usable") else None
    for name in [name for name in changes if name in parts]:
        part, attribute = parts[name]
        changes[part] = replace(changes.get(part, getattr(value, part)), **{attribute: changes.pop(name)})
    return replace(value, **changes)


def a_due_node(name: str = "n1", **changes: Any) -> Node:
    """An idle node in the last minutes of its paid hour: it may go now."""
    return a_node(name, **{"created_at": HOUR_ENDS_SOON, **changes})


def a_busy_node(name: str = "n1", **changes: Any) -> Node:
    """A usable node whose GPU a running pod holds."""
    pod = a_pod(f"on-{name}", phase=PodPhase.RUNNING, node=name)
    return a_node(name, **{"pods": (pod,), "idle_since": None, **changes})


def a_silence(**changes: Any) -> PoolSilence:
    """What ops silenced for two hours."""
    given: dict[str, Any] = {"id": "s-1", "by": "ops", "until": NOW + timedelta(hours=2), "comment": "new driver"}
    return PoolSilence(**{**given, **changes})


def a_state(*nodes: Node, pool: str = "l40s-id", **changes: Any) -> PoolState:
    """A pool with *nodes*, as many as Civo was asked for, with *changes* as for `with_fields`."""
    return with_fields(PoolState(pool=pool, required=len(nodes), nodes=nodes), **changes)


def an_offer(pool: Pool, **changes: Any) -> Offer:
    """What the newest node of *pool* showed when it was new, a moment ago: what the configuration says."""
    given: dict[str, Any] = {
        "node": "n0",
        "at": NOW,
        "configured": fingerprint(pool),
        "allocatable": pool.resources,
        "labels": pool.offered_labels,
        "taints": pool.taints,
        "since": NOW,
    }
    return Offer(**{**given, **changes})


def all_up(*down: Source) -> Mapping[Source, SourceState]:
    """Every source answers, but for those named."""
    return {s: SourceState(source=s, up=s not in down, at=NOW, detail="down" if s in down else "") for s in Source}


def a_signal(action: SignalAction, pool: str | None = "l40s-id", **changes: Any) -> Signal:
    """A firing alert."""
    given = {
        "action": action,
        "alertname": f"Gpu-{action}",
        "fingerprint": f"f-{action}",
        "starts_at": NOW,
        "pool": pool,
    }
    return Signal(**{**given, **changes})


def a_question(*instances: str, **changes: Any) -> Question:
    """An open one, asked five minutes ago: whether *instances* of the L40S pool may go (none: whether it may grow to 8)
    within the next ten, and without an answer they do."""
    given: dict[str, Any] = {
        "id": "q1",
        "pool": "l40s-id",
        "asks": Asks.REMOVAL if instances else Asks.GROWTH,
        "from_count": len(instances),
        "to_count": 0 if instances else 8,
        "asked_at": NOW - timedelta(minutes=5),
        "due_at": NOW - timedelta(minutes=5),
        "wait_ends": NOW + timedelta(minutes=10),
        "expires_at": NOW + timedelta(hours=1),
        "unanswered": Unanswered.PROCEED,
        "instances": instances,
        "nodes": tuple(i.removeprefix("i-") for i in instances),
    }
    return Question(**{**given, **changes})


def a_growth(to_count: int = 1, from_count: int = 0, **changes: Any) -> Action:
    """Growth of the L40S pool that was opened just now."""
    given: dict[str, Any] = {
        "id": "grow-1",
        "pool": "l40s-id",
        "kind": ActionKind.GROW,
        "opened_at": NOW,
        "from_count": from_count,
        "to_count": to_count,
    }
    return Action(**{**given, **changes})


def a_flight(target: int, shown: int | None = None, sent_at: datetime = NOW) -> Flight:
    """A write to the L40S pool whose effect was not seen: a removal where Civo showed more nodes than *target*."""
    kind = ActionKind.RETIRE if shown is not None and target < shown else ActionKind.GROW
    return Flight(pool="l40s-id", kind=kind, target=target, sent_at=sent_at, shown=shown)


def a_removal(
    *nodes: str,
    from_count: int | None = None,
    stage: VictimStage = VictimStage.CORDONED,
    because: Because = Because.IDLE,
    **changes: Any,
) -> Action:
    """The removal of *nodes* (names) of the L40S pool, all of its nodes unless *from_count* says more."""
    before = len(nodes) if from_count is None else from_count
    victims = tuple(Victim(instance=f"i-{n}", node=n, because=because, stage=stage, since=NOW) for n in nodes)
    given = {"id": "retire-1", "kind": ActionKind.RETIRE, "victims": victims, "to_count": before - len(nodes)}
    return replace(a_growth(from_count=before), **{**given, **changes})


def a_life(instance: str = "i-n1", hours: float = 2, **changes: Any) -> NodeLife:
    """A one-GPU node of the L40S pool that was created so many *hours* ago and lives."""
    given: dict[str, Any] = {
        "pool": "l40s-id",
        "name": instance.removeprefix("i-"),
        "size": "an.g1.l40s.kube.x1",
        "created_at": NOW - hours * HOUR,
        "price_usd_per_hour": Decimal("1.29"),
        "gpus": 1,
    }
    return NodeLife(**{"instance": instance, **given, **changes})


def an_override(kind: str, nodes: int | None = None, **changes: Any) -> Override:
    """One of the L40S pool by alice, an hour old, for an hour more."""
    given: dict[str, Any] = {
        "id": f"{kind}-1",
        "who": "alice",
        "why": "load test",
        "at": NOW - HOUR,
        "until": NOW + HOUR,
        "pool": "l40s-id",
    }
    return Override(kind=OverrideKind(kind), nodes=nodes, **{**given, **changes})


def facts(*states: PoolState, waiting: Iterable[Pod] = (), **changes: Any) -> Facts:
    """What one step knows, with *changes* as for `with_fields`."""
    spend = Spend(month="2026-11", usd=Decimal(0))
    known = Facts(at=NOW, pools=states, waiting=tuple(waiting), signals=(), sources=all_up(), spend=spend)
    return with_fields(known, **changes)


ALL_GUARDRAILS = with_added(step_additions().guardrails)  # with those of every capability


def assigned(found: Facts, policy: Policy, failures: Failures | None = None) -> Assignment:
    """Assign as a step does, with what every capability adds."""
    added = step_additions()
    return assign(found, policy, failures, added.sources, added.guardrails)


def run(
    found: Facts, policy: Policy, *, explained_by: Explainer | None = with_grounds
) -> tuple[Assignment, dict[str, Decision]]:
    """Assign and decide as a step does; decisions by pool name. Sentences and evidence take longer than the rest: a law
    that reads neither does without."""
    assignment = assigned(found, policy)
    decisions = decide_all(found, assignment, policy, explained_by=explained_by)
    return assignment, {p.name: decisions[p.id] for p in policy.pools}


def decision_on(state: PoolState, policy: Policy | None = None, **known: Any) -> Decision:
    """The decision on the L40S pool as it is in *state*, with what else is *known*."""
    return run(facts(state, **known), policy or a_policy())[1]["l40s"]


def growing(policy: Policy | None = None, state: PoolState | None = None, pods: int = 1, **known: Any) -> Decision:
    """The decision on a pool (an empty one unless *state* says more) that *pods* of one GPU each wait for."""
    return decision_on(state or a_state(), policy, waiting=[a_pod(f"p{n}") for n in range(pods)], **known)


def shrinking(policy: Policy | None = None, state: PoolState | None = None, **known: Any) -> Decision:
    """The decision on a pool whose only node, unless *state* says otherwise, is idle and due."""
    return decision_on(state or a_state(a_due_node()), policy, **known)


def remedies(decision: Decision, rule: str) -> dict[str, datetime | None]:
    """What would change the answer of *rule*: sentences, each with the moment at which it comes true by itself."""
    kept = [remedy for remedy in decision.evidence["what_would_change"] if remedy["rule"] == rule]
    return {r["text"]: None if r["at"] is None else datetime.fromisoformat(r["at"]) for r in kept}


def rules(decision: Decision, *verdicts: str) -> list[str]:
    """Names of the rules that spoke with one of *verdicts*."""
    return [r.rule for r in decision.reasons if r.verdict.value in verdicts]
