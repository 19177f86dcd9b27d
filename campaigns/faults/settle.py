"""Invariant 5: what must have happened some time after the troubles, and what may keep it from happening.

Everything placeable has run, every pool is at its floor with its spare nodes, no cordon of ours is left, nothing is
open. Left out, because a person or the next month has to come first: growth that the budget does not cover any more,
growth of a pool whose count somebody lowered again and again (it waits a day for a word with them),
and the size of pools at a Civo that never counts a removal, or seems not to (it builds a replacement; removals stop
for a day and that is told), with their dead nodes, which stay cordoned meanwhile.
"""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from campaigns.faults.commitments import nodes_kept, usd_between
from campaigns.faults.everyday import never_starts, spoilt
from campaigns.faults.law import PATIENCE, unnamed
from campaigns.faults.scenario import PoolPlan
from campaigns.faults.truth import ended, nodes_for, per_node
from receiver.ports import CORDON_ANNOTATION, STOP_ANNOTATION
from receiver.replay.world.objects import WorldPod

if TYPE_CHECKING:
    from campaigns.faults.run import Run


def unsettled(run: "Run") -> list[str]:
    """What is left to happen, in words; empty when the world is at rest as it should be."""
    found = [*_cordons(run)]
    tight = _budget_is_tight(run)
    if not tight:
        found += _work(run)
    if run.scenario.behaviour.get("decrement") != "never":
        found += _sizes(run, tight)
    return found + [f"action {a} is open" for a in run.checks.open.values()]


def _cordons(run: "Run") -> Iterator[str]:
    stopped = run.scenario.behaviour.get("decrement") == "never"
    for node in run.world.nodes.values():
        if stopped and not node.ready:
            continue
        if node.unschedulable and CORDON_ANNOTATION in node.annotations and _lives(run, node.instance):
            yield f"{node.name} is cordoned by us"
        if STOP_ANNOTATION in node.annotations and _lives(run, node.instance) and not _may_be_stopped(run, node.pool):
            yield f"{node.name} is closed to new work, and no budget is at its stop"


def _may_be_stopped(run: "Run", pool: str) -> bool:
    """True when a budget of *pool* may be at its stop, or nobody knows what was spent."""
    budget, now = run.policy.budget, run.clock()
    return budget is not None and (run.truth.perhaps_stopped(pool, budget, now) or run.truth.perhaps_unpriced(now))


def _lives(run: "Run", instance: str) -> bool:
    vm = run.truth.vm(instance)
    return vm is not None and vm.living


def _month_end(now: datetime) -> datetime:
    return (now.replace(day=1, hour=0, minute=0, second=0, microsecond=0) + timedelta(days=32)).replace(day=1)


def _work(run: "Run") -> Iterator[str]:
    waiting: dict[str, list[WorldPod]] = {}
    for pod in run.world.active_pods.values():
        if pod.requests:
            waiting.setdefault(pod.owner_name or pod.name, []).append(pod)
    law, refused = run.checks.law, set()
    stopped = run.scenario.behaviour.get("decrement") == "never"  # no removal frees pods from a dead kubelet
    for name, every in waiting.items():
        pods = [p for p in every if not (stopped and p.node in run.world.dead_nodes)]
        if not pods:
            continue
        if any(p.node is not None for p in pods) or _placeable(run, pods):
            yield f"{name} has {len(pods)} pods to run"
        left = [p for p in pods if p.node is None and p.key not in run.world.reserved]
        if left and _placeable(run, left) and _may_grow(run, left):
            refused.add(name)
    law.refuses(refused)


def _may_grow(run: "Run", pods: list[WorldPod]) -> bool:
    """True when each pool that can hold *pods* may have a node more."""
    plans = [p for p in run.scenario.pools if all(run.truth.fits(pod, p) for pod in pods)]
    return all(run.world.pools[plan.id].required < _may_have(run, plan) for plan in plans)


def _placeable(run: "Run", pods: list[WorldPod]) -> bool:
    """True when some pool can hold them, a gang all at once."""
    if run.truth.lacks_pods(pods[0]) or never_starts(pods[0]):
        return False
    return any(
        all(run.truth.fits(p, plan) and run.truth.fits(p, plan, real=True) for p in pods)
        and nodes_for(pods, plan, run.world) <= _may_have(run, plan) - _crowded(run, plan, pods) - _spoilt(run, plan)
        for plan in run.scenario.pools
        if plan.price is not None and not _undone(run, plan) and not _came_bare(run, plan, pods[0])
    )


def _came_bare(run: "Run", plan: PoolPlan, pod: WorldPod) -> bool:
    """True where a node of *plan* came without the labels that *pod* selects: as the pool's only one it shows for a day
    what the next would be like."""
    bare = any(e.kind == "bare" and e.what["pool"] == plan.id for e in run.scenario.events)
    return bare and bool(pod.node_selector or pod.affinity)


def _crowded(run: "Run", plan: PoolPlan, pods: list[WorldPod]) -> int:
    """Nodes of *plan* on which pods without a GPU leave *pods* no room, or a gang less than a whole node."""
    count = min(len(pods), per_node(pods[:1], plan, run.world)) if pods[0].gang else 1
    return sum(not run.truth.has_room(vm.hostname, plan, pods[0], count) for vm in run.world.pools[plan.id].living)


def _spoilt(run: "Run", plan: PoolPlan) -> int:
    """Nodes of *plan* that people keep from work, and that its floor keeps, or a pod that would be lost; and those
    whose kubelet died, where Civo replaces what is removed: removals stop for a day then, beyond the calm."""
    nodes = [run.world.nodes.get(vm.hostname) for vm in run.world.pools[plan.id].living]
    bad = [n.name for n in nodes if n is not None and (spoilt(n) or not plan.labels.items() <= n.labels.items())]
    hosts = len(_host_names(run) & set(bad))
    stopped = run.scenario.behaviour.get("decrement") == "never"
    dead = sum(n is not None and n.name in run.world.dead_nodes and n.name not in bad for n in nodes) if stopped else 0
    return dead + hosts + min(plan.min_nodes, len(bad) - hosts)


def _may_have(run: "Run", plan: PoolPlan) -> int:
    """The largest size of *plan* that maximum, window and limits allow now, with other pools at rest."""
    size = run.truth.max_nodes(plan.id, run.clock())
    limits = run.scenario.limits
    size = min(size, limits.get("max_growth_per_hour", size))  # a gang's nodes are bought at once
    size = min(size, run.scenario.shelf.get(plan.id, size))
    if "max_gpus" in limits:
        others = sum(_at_rest(run, p) * sum(p.resources.values()) for p in run.scenario.pools if p.id != plan.id)
        size = min(size, (limits["max_gpus"] - others) // sum(plan.resources.values()))
    return size


def _at_rest(run: "Run", plan: PoolPlan) -> int:
    never = run.scenario.behaviour.get("decrement") == "never"
    return run.world.pools[plan.id].required if never else max(_rest(plan), _hosts(run, plan), _committed(run, plan))


def _committed(run: "Run", plan: PoolPlan) -> int:
    """Nodes of *plan* that stay because they are paid for anyway."""
    kept = nodes_kept(run.truth.commitments, plan.id, run.clock())
    return min(kept, run.world.pools[plan.id].required)


def _rest(plan: PoolPlan) -> int:
    return min(plan.max_nodes, max(plan.min_nodes, plan.standby_nodes))


def _sizes(run: "Run", tight: bool) -> Iterator[str]:
    for plan in run.scenario.pools:
        pool = run.world.pools[plan.id]
        rest = max(_rest(plan) if plan.price is not None else 0, _hosts(run, plan))
        most = max(rest, _kept_by_work(run, plan, tight), _committed(run, plan)) + _spoilt_hosts(run, plan)
        if not _looks_replaced(run, plan):
            most += sum(vm.id in _backing_off(run, plan) for vm in pool.living)
            for name in unnamed(run, max([run.calm_since, *_overrides_end(run)]), most, plan.id):
                run.checks.violated("5 kept by nothing", name)
        if pool.required > most and not _looks_replaced(run, plan):
            yield f"{plan.id} asks for {pool.required} nodes, {rest} would do"
        held = tight or _undone(run, plan) or _may_have(run, plan) < rest
        if any(p.gang and run.truth.fits(p, plan) for p in run.truth.waiting()):  # a spare node would start half of it
            rest = min(rest, plan.min_nodes)
        if pool.required < rest and not held and rest <= run.truth.max_nodes(plan.id, run.clock()):
            yield f"{plan.id} asks for {pool.required} nodes of {rest}"


def _backing_off(run: "Run", plan: PoolPlan) -> Collection[str]:
    """The instances whose removal backs off until a time that is told: what left them during each try came back."""
    states = run.last.facts.pools if run.last is not None else ()
    known = [s.backoffs.removal for s in states if s.pool == plan.id and s.backoffs.removal is not None]
    return {instance for backoff in known if run.clock() < backoff.until + PATIENCE for instance in backoff.instances}


def _overrides_end(run: "Run") -> Iterator[datetime]:
    """When what people said ends, in the calm at the latest: a pause or a snooze keeps nodes until then."""
    began = ended(run.scenario) - timedelta(seconds=run.scenario.troubled)
    for event in run.scenario.events:
        if event.kind == "override":
            yield began + timedelta(seconds=event.at + event.what["seconds"])


def _spoilt_hosts(run: "Run", plan: PoolPlan) -> int:
    """Nodes that are kept for what they host, and that no work can use, because of people or for want of their GPUs:
    they spare the pool no other node."""
    nodes = [run.world.nodes.get(name) for name in _host_names(run)]
    return sum(node is not None and node.pool == plan.id and (spoilt(node) or not node.gpus) for node in nodes)


def _hosts(run: "Run", plan: PoolPlan) -> int:
    """Nodes that Prometheus runs on, or a pod that would be lost: they are never taken away."""
    hosts = _host_names(run)
    return sum(vm.hostname in hosts for vm in run.world.pools[plan.id].living)


def _host_names(run: "Run") -> set[str]:
    dead = run.world.dead_nodes  # what ran there has ended
    pods = [p for p in run.world.active_pods.values() if p.node is not None and p.node not in dead]
    hosts = [p for p in pods if p.labels.get("app.kubernetes.io/name") == "prometheus" or run.truth.would_be_lost(p)]
    return {p.node or "" for p in hosts}


def _looks_replaced(run: "Run", plan: PoolPlan) -> bool:
    """True where somebody else's growth may have come while a removal was open or the count was late: that looks like
    a replacement."""
    if plan.id in run.raised_during_removal:
        return True
    late = run.scenario.behaviour.get("decrement", "at_once") != "at_once"
    return late and any(
        e.kind in ("count", "recycle", "lose_reserved") and e.what["pool"] == plan.id for e in run.scenario.events
    )


def _undone(run: "Run", plan: PoolPlan) -> bool:
    """True where another system lowered the count again and again: growth there waits a day for a person."""
    down = [e for e in run.scenario.events if e.kind == "delete_instance" or e.what.get("by", 0) < 0]
    return len([e for e in down if e.what.get("pool") == plan.id]) > 1


def _kept_by_work(run: "Run", plan: PoolPlan, tight: bool) -> int:
    """Nodes that work which cannot run may keep: where the budget is tight, or a price is missing, a waiting gang keeps
    what it would use."""
    waits = any(p.gang is not None and run.truth.fits(p, plan) for p in run.truth.waiting())
    return plan.max_nodes if waits and (tight or plan.price is None) else 0


def _budget_is_tight(run: "Run") -> bool:
    """True when the budget does not cover what waits: one more node, or as many as the widest waiting gang takes."""
    budget, truth = run.policy.budget, run.truth
    if budget is None:
        return False
    now = run.clock()
    if truth.perhaps_unpriced(now):
        return True
    counts = truth.count(now)
    widest = max((p.gang_size for p in run.world.active_pods.values() if p.requests), default=1)
    plans = run.scenario.pools
    purses: list[tuple[str | None, Decimal]] = [(None, budget.monthly_usd)]
    purses += [(p.id, Decimal(p.budget)) for p in plans if p.budget is not None]
    for of, usd in purses:
        spent = truth.perhaps_spent(now, of)
        reserved = sum(c.nodes * truth.unit(p) for p, c in counts.items() if of in (None, p))
        reserved += usd_between(truth.commitments, of, now, _month_end(now))
        most = max(truth.unit(p.id) * max(1, widest, _rest(p)) for p in plans if of in (None, p.id))
        if spent >= usd * budget.hold_at or spent + reserved + most > usd * budget.stop_at:
            return True
    return False
