"""From a scenario to a simulated world and the policy of the product that runs in it."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from campaigns.faults.claims import WHOLE, claims_of, configured, sets_of
from campaigns.faults.commitments import commitments_of
from campaigns.faults.grouped import formed
from campaigns.faults.scenario import NAMED_CONDITION, OTHER_STARTUP_TAINTS, PoolPlan, Scenario
from receiver.core.model.pods import Requirement, Toleration, allocatable
from receiver.core.model.policy import STARTUP_TAINTS as BUILT_IN_STARTUP_TAINTS
from receiver.core.model.policy import (
    Approval,
    Billing,
    Budget,
    Fallback,
    Limits,
    Objective,
    Policy,
    Pool,
    Repair,
    Taint,
    Unanswered,
)
from receiver.core.model.windows import Window
from receiver.replay.world.objects import Behaviour, Job, Timings, WorldConfig, WorldPool
from simulator.world import World

BESIDE_GPUS = allocatable(WorldPool(id="any", size="any", resources={}).machine)
HEARTBEAT = timedelta(minutes=10)  # the interval; three of them may be missed


def start_of(scenario: Scenario) -> datetime:
    """When the world begins, UTC."""
    return datetime.fromisoformat(scenario.start)


def world_of(scenario: Scenario) -> World:
    """The world at its beginning."""
    config = WorldConfig(
        pools=tuple(_world_pool(p) for p in scenario.pools),
        timings=_timings(scenario.timings),
        behaviour=behaviour_of(scenario),
        price={_size(p): Decimal(p.price) for p in scenario.pools if p.price is not None},
        seed=scenario.seed,
        packing="first_fit" if scenario.packing == "first_fit" else "most_allocated",
    )
    return World(config, start_of(scenario))


def behaviour_of(scenario: Scenario) -> Behaviour:
    """How Civo behaves; a number as *decrement* is seconds."""
    given = dict(scenario.behaviour)
    decrement = given.pop("decrement", "at_once")
    if not isinstance(decrement, str):
        decrement = timedelta(seconds=decrement)
    return Behaviour(decrement=decrement, granularity=timedelta(seconds=scenario.granularity), **given)


def policy_of(scenario: Scenario) -> Policy:
    """What the operator allows in that world."""
    return Policy(
        pools=tuple(_pool(p) for p in scenario.pools),
        budget=None if scenario.budget is None else Budget(monthly_usd=Decimal(scenario.budget)),
        billing=Billing(
            granularity=timedelta(seconds=scenario.granularity),
            removal_margin=timedelta(seconds=scenario.removal_margin),
            committed=commitments_of(scenario),
        ),
        limits=Limits(**scenario.limits),
        fallback=Fallback(scenario.fallback),
        objective=Objective(scenario.objective),
        heartbeat_interval=HEARTBEAT,
        sick_conditions=(NAMED_CONDITION,),
        startup_taints=(*BUILT_IN_STARTUP_TAINTS, OTHER_STARTUP_TAINTS[-1]),
        longest_override=timedelta(minutes=50),  # what an answer sets is over before a world must be at rest
    )


def job_of(what: Mapping[str, Any], now: datetime) -> Job:
    """The job of an event."""
    job = Job(
        id=what["id"],
        submit_at=now,
        duration=timedelta(seconds=what["seconds"]),
        pods=what.get("pods", 1),
        gpus_per_pod=what.get("each", 1),
        claims=claims_of(what),
        resource=what["resource"],
        namespace="ml",
        team=what.get("team", "vision"),
        gang=what.get("gang", False),
        gang_min=what.get("least"),
        owner_kind=what.get("owner", "Job"),
        node_selector=what.get("selector", {}),
        affinity=tuple(tuple(_requirement(r) for r in term) for term in what.get("affinity", ())),
        tolerations=tuple(_toleration(t) for t in what.get("tolerations", ())),
        priority=what.get("priority", 0),
        annotations=what.get("annotations", {}),
        gpu_util=what.get("util", 0.9),
        gpu_memory=what.get("memory"),
        compute=what.get("compute", {}),
    )
    return formed(job, what)


def taints_of(plan: PoolPlan) -> tuple[Taint, ...]:
    """A pool's taints."""
    return tuple(Taint(key=k, value=v, effect=e) for k, v, e in plan.taints)


def _requirement(plain: Iterable[Any]) -> Requirement:
    key, operator, values = plain
    return Requirement(key=key, operator=operator, values=tuple(values))


def _toleration(plain: Iterable[str]) -> Toleration:
    key, operator, value, effect = plain
    return Toleration(key=key, operator=operator, value=value, effect=effect)


def _size(plan: PoolPlan) -> str:
    return f"an.g1.{plan.name}"


def offers_of(plan: PoolPlan) -> Mapping[str, int]:
    """What an empty node of *plan* offers; beside GPUs all machines are alike."""
    by_name = not plan.devices or (plan.dra and plan.devices == WHOLE)
    return {**BESIDE_GPUS, **(plan.resources if by_name else {})}


def _world_pool(plan: PoolPlan) -> WorldPool:
    return WorldPool(
        id=plan.id,
        size=_size(plan),
        resources=plan.resources,
        labels=plan.labels if plan.true_labels is None else plan.true_labels,
        taints=taints_of(plan),
        count=plan.count,
        gpus=1 if "nvidia.com/gpu" not in plan.resources else None,
        dra=plan.dra,
        devices=sets_of(plan),
        startup_taints=() if plan.startup_taint is None else (Taint(key=plan.startup_taint, value="pending"),),
    )


def _pool(plan: PoolPlan) -> Pool:
    return Pool(
        id=plan.id,
        name=plan.name,
        size=_size(plan),
        resources=plan.resources,
        devices=configured(plan),
        max_nodes=plan.max_nodes,
        price_usd_per_hour=None if plan.price is None else Decimal(plan.price),
        labels=plan.labels,
        taints=taints_of(plan),
        min_nodes=plan.min_nodes,
        standby_nodes=plan.standby_nodes,
        grow_cooldown=timedelta(seconds=plan.grow_cooldown),
        shrink_cooldown=timedelta(seconds=plan.shrink_cooldown),
        idle_for=timedelta(seconds=plan.idle_for),
        provision_timeout=timedelta(seconds=plan.provision_timeout),
        budget_usd=None if plan.budget is None else Decimal(plan.budget),
        approval=None if plan.asks is None else _approval(plan.asks),
        repair=Repair.NONE if plan.repair_share is None else Repair.REPLACE,
        repair_share=Decimal(str(plan.repair_share or 0)),
        windows=() if plan.window is None else (_window(plan.window, plan.evict_after),),
    )


def _approval(plain: Mapping[str, Any]) -> Approval:
    above = plain["growth_above_usd_per_hour"]
    return Approval(
        removals=plain["removals"],
        growth_above_usd_per_hour=None if above is None else Decimal(above),
        wait=timedelta(seconds=plain["wait"]),
        unanswered=Unanswered(plain["unanswered"]),
    )


def _window(plain: list[int], evict_after: int | None) -> Window:
    frm, to, maximum = plain
    grace = None if evict_after is None else timedelta(seconds=evict_after)
    return Window(name="nights", location="UTC", times=((frm, to),), max_nodes=maximum, evict_after=grace)


def _timings(seconds: Mapping[str, float]) -> Timings:
    given: dict[str, Any] = {k: timedelta(seconds=v) for k, v in seconds.items() if k != "jitter"}
    return Timings(jitter=seconds.get("jitter", 0.0), **given)
