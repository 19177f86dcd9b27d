"""What act mode would have done in a time that was only observed: a replay of its pods, from the nodes that were there.

The product's own step runs over the simulated world, as for `gpu-autoscaler replay`. What a replay assumes and cannot
know (how long a node takes, where the scheduler packs, how long unfinished pods run) is varied: the largest difference
is the margin of the sum.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from receiver.core.model.memory import NodeLife
from receiver.core.model.pods import Toleration
from receiver.core.model.policy import Policy, Pool
from receiver.core.model.text import some
from receiver.core.money.cost import in_cents, spend_by_pool, unit_price
from receiver.core.report.would_have import WouldChange, WouldHave
from receiver.core.scaling.demand import IGNORED_NAMESPACES
from receiver.ports import Past
from receiver.replay.contest import Product, the_product
from receiver.replay.figures import quantile
from receiver.replay.peers import AlwaysOnPeer
from receiver.replay.play import Played, Setting, play
from receiver.replay.traces.pods import trace_of_pods
from receiver.replay.traces.trace import BadTrace, TraceReading, misfits
from receiver.replay.world.objects import VM, Job
from receiver.replay.world.world import World
from receiver.step.parts import Additions

NOISE = Decimal("0.01")  # of the cost: smaller differences between two replays mean nothing
EPISODE = timedelta(minutes=10)  # changes of a pool in one direction, closer together than this, are one
MOST_CHANGES = 50  # that are listed


Unfinished = Literal["likely", "least", "most"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The time from *since* to *until* as it was observed: the *lives* of its nodes, and its pods, the *past*."""

    since: datetime
    until: datetime
    lives: Sequence[NodeLife]
    past: Past


def would_have(watched: Watched, policy: Policy, setting: Setting, additions: Additions) -> WouldHave:
    """Return what *policy* would have cost and done, with the *additions* of capabilities. Raises ValueError, with a
    sentence, where it cannot be replayed: a pool without a price, or whose `provision_timeout` is shorter than a node
    needs under *setting*.

    It begins where the samples of the pods do: in the time before, every node would seem to be idle.
    """
    watched = _of_work(watched)
    policy, notes = _replayable(policy, setting)
    setting = replace(setting, start=watched.since)
    jobs, left_out = _jobs(watched, policy, "likely")
    played = _act(jobs, watched, policy, setting, additions)
    would = _cost(played, policy, watched)
    varied_costs = [
        _cost(_act(jobs, watched, policy, varied, additions), policy, watched)
        for varied in _variations(setting, policy)
    ]
    margin = would * NOISE + max(abs(cost - would) for cost in varied_costs)
    if any(pod.held_until is None for pod in watched.past.pods):
        ends: tuple[Unfinished, ...] = ("least", "most")
        varied_costs = [
            _cost(_act(_jobs(watched, policy, end)[0], watched, policy, setting, additions), policy, watched)
            for end in ends
        ]
        margin += max(abs(cost - would) for cost in varied_costs)
    nodes = _always_on(jobs, policy, setting)
    changes = _changes(played, policy, watched)
    spent, unpriced = spend_by_pool(
        [life for life in watched.lives if policy.pool(life.pool)], watched.since, watched.until, policy.billing
    )
    waits, waited = _waits(jobs, played), _waited(watched)
    return WouldHave(
        at=watched.until,
        since=watched.since,
        until=watched.until,
        would_usd=in_cents(would),
        margin_usd=in_cents(margin),
        always_on_usd=in_cents(_kept(nodes, policy, watched)),
        as_run_usd=None if unpriced else in_cents(sum(spent.values(), Decimal(0))),
        always_on={pool.name: nodes[pool.id] for pool in policy.pools if nodes[pool.id]},
        bought=sum(max(0, change.after - change.before) for change in changes),
        removed=sum(max(0, change.before - change.after) for change in changes),
        pods=len(waits),
        wait_p95_seconds=quantile(waits, 0.95) if waits else None,
        as_run_wait_p95_seconds=quantile(waited, 0.95) if waited else None,
        changes=tuple(reversed(changes[-MOST_CHANGES:])),
        changes_total=len(changes),
        notes=(*_missing(watched, left_out), *notes),
    )


def _of_work(watched: Watched) -> Watched:
    """Return what of *watched* has samples, with the pods that are work and had not ended before."""
    since = watched.past.begins or watched.since
    pods = [
        p
        for p in watched.past.pods
        if not p.pod.daemon
        and p.pod.namespace not in IGNORED_NAMESPACES
        and (p.held_until is None or p.held_until > since)
    ]
    return replace(watched, since=since, past=replace(watched.past, since=since, pods=pods))


def _jobs(watched: Watched, policy: Policy, unfinished: Unfinished) -> tuple[list[Job], int]:
    """Return the pods as jobs, and how many are left out because they fit no pool or are not fully known.

    It is unknown how long *unfinished* pods run. Those that run would likely have begun earlier and be running still,
    those that never ran have run for as long as others on average; at the least as long as they did, at the most until
    the end.
    """
    ran = [
        p.held_until - p.held_from for p in watched.past.pods if p.held_from is not None and p.held_until is not None
    ]
    mean = sum(ran, timedelta(0)) / len(ran) if ran and unfinished == "likely" else None
    pods = []
    for pod in watched.past.pods:
        started_at = max(pod.pod.created_at, watched.since)
        if pod.held_until is not None:
            pods.append(pod)
        elif pod.held_from is not None:
            pods.append(pod if unfinished == "least" else replace(pod, held_from=started_at))
        elif unfinished != "least":
            ends = None if mean is None or started_at + mean >= watched.until else started_at + mean
            pods.append(replace(pod, held_from=started_at, held_until=ends))
    keys = {taint.key for pool in policy.pools for taint in pool.taints}
    reading = TraceReading(
        skip_bad=True,
        team_label=policy.attribution.team,
        tolerations=tuple(Toleration(key=key, operator="Exists") for key in sorted(keys)),
    )
    try:
        trace = trace_of_pods(replace(watched.past, pods=pods), "", "", reading)
    except BadTrace:  # it has no job that can be replayed
        return [], len(watched.past.troubles)
    wrong = misfits(trace.jobs, policy.pools)
    return [job for job in trace.jobs if job.id not in wrong], len(trace.left_out) + len(wrong)


def _missing(watched: Watched, left_out: int) -> Iterator[str]:
    never = sum(pod.held_from is None for pod in watched.past.pods)
    if never:
        yield f"{some(never, 'pod')} never ran: counted as long as others run on average."
    if left_out:
        yield f"Left out, because they fit no pool or are not fully known: {some(left_out, 'pod')}."
    yield from (f"{note}." for note in watched.past.notes if "has no samples" in note)


def _waited(watched: Watched) -> list[float]:
    """How long the pods waited that ran, in seconds and in order."""
    ran = [(p.held_from, max(p.pod.created_at, watched.since)) for p in watched.past.pods]
    return sorted(
        max(0.0, (started_at - created_at).total_seconds()) for started_at, created_at in ran if started_at is not None
    )


def _replayable(policy: Policy, setting: Setting) -> tuple[Policy, tuple[str, ...]]:
    notes = []
    for pool in policy.pools:
        if pool.price_usd_per_hour is None:
            raise ValueError(f"pool {pool.name} has no price: set price_usd_per_hour")
        if pool.provision_timeout < setting.lead:
            raise ValueError(f"provision_timeout of pool {pool.name} is shorter than the 5 minutes that a node needs")
    if policy.budget is not None and policy.budget.teams:
        policy = replace(policy, budget=replace(policy.budget, teams={}))
        notes.append("Budgets of teams are left out.")
    return policy, tuple(notes)


def _variations(setting: Setting, policy: Policy) -> Iterator[Setting]:
    """The circumstances that may be the true ones instead: a scheduler that spreads pods over nodes that take unequally
    long, and these nodes come as assumed, twice as fast, or as slowly as is usual at Civo."""
    spread = replace(setting, packing="kube", jitter=0.2, seed=setting.seed + 1)
    yield spread
    yield replace(spread, build=setting.build / 2, boot=setting.boot / 2, driver=setting.driver / 2)
    slow = replace(spread, build=timedelta(minutes=10), driver=timedelta(minutes=7))
    if all(pool.provision_timeout > slow.lead for pool in policy.pools):
        yield slow


def _begin(world: World, watched: Watched, pools: Sequence[Pool]) -> None:
    """Give *world* the nodes that were there at the begin, as old as they were."""
    for pool in pools:
        creation_times = [
            life.created_at
            for life in watched.lives
            if life.pool == pool.id
            and life.created_at <= watched.since
            and (life.gone_at is None or life.gone_at > watched.since)
        ]
        world.begin_with(pool.id, len(creation_times))
        for vm, created_at in zip(world.pools[pool.id].instances, sorted(creation_times), strict=True):
            vm.created_at = created_at


def _act(jobs: Sequence[Job], watched: Watched, policy: Policy, setting: Setting, additions: Additions) -> Played:
    contestant = the_product("act mode", policy, setting, additions)
    world = setting.world(policy.pools)
    _begin(world, watched, policy.pools)
    controller = contestant.make(world, {}, jobs)
    assert isinstance(controller, Product)
    return play(world, jobs, controller, setting.reaction(), until=watched.until)


def _cost(played: Played, policy: Policy, watched: Watched) -> Decimal:
    spent, _ = spend_by_pool([_life(vm, policy) for vm in played.lives], watched.since, watched.until, policy.billing)
    return sum(spent.values(), Decimal(0))


def _life(vm: VM, policy: Policy) -> NodeLife:
    pool = policy.pool(vm.pool)
    return NodeLife(
        instance=vm.id,
        pool=vm.pool,
        name=vm.hostname,
        size=vm.size,
        created_at=vm.created_at,
        gone_at=vm.gone_at,
        price_usd_per_hour=None if pool is None else pool.price_usd_per_hour,
    )


def _always_on(jobs: Sequence[Job], policy: Policy, setting: Setting) -> Mapping[str, int]:
    """The nodes of each pool (by id) with which every pod would have started at once, as of the peer `always-on`."""
    world = setting.world(policy.pools)
    AlwaysOnPeer(world, {pool.id: pool.max_nodes for pool in policy.pools}, jobs)
    return {pool.id: len(world.pools[pool.id].instances) for pool in policy.pools}


def _kept(nodes: Mapping[str, int], policy: Policy, watched: Watched) -> Decimal:
    """The cost of keeping *nodes* (by pool id) for the whole time."""
    units = -(-(watched.until - watched.since) // policy.billing.granularity)
    prices = {pool.id: unit_price(pool.price_usd_per_hour or Decimal(0), policy.billing) for pool in policy.pools}
    return sum((count * units * prices[pool] for pool, count in nodes.items()), Decimal(0))


def _waits(jobs: Sequence[Job], played: Played) -> list[float]:
    """How long each pod waited to start, or until the end, in seconds and in order."""
    began = {p.pod: p.started_at for p in reversed(played.placements.all) if p.started_at is not None}
    pods = ((job, f"{job.namespace}/{job.id}-{index}") for job in jobs for index in range(job.pods))
    return sorted(max(0.0, (began.get(pod, played.end) - job.submit_at).total_seconds()) for job, pod in pods)


def _changes(played: Played, policy: Policy, watched: Watched) -> list[WouldChange]:
    """The changes of each pool's size, oldest first."""
    first: dict[str, str] = {}  # the first pod of each node
    for placed in played.placements.all:
        first.setdefault(placed.node, placed.pod)
    changes: list[WouldChange] = []
    for pool in policy.pools:
        lives = [vm for vm in played.lives if vm.pool == pool.id]
        steps = [(vm.created_at, 1, vm) for vm in lives if vm.created_at > watched.since]
        steps += [(vm.deleted_at, -1, vm) for vm in lives if vm.deleted_at is not None]
        count = sum(vm.created_at <= watched.since for vm in lives)
        mine: list[WouldChange] = []
        last = watched.since
        for at, by, vm in sorted(steps, key=lambda step: (step[0], step[2].id)):
            before = mine[-1] if mine else None
            if before is not None and at - last <= EPISODE and (before.after - before.before) * by > 0:
                mine[-1] = replace(before, after=before.after + by)
            else:
                work = _named(first.get(vm.hostname, "")) if by > 0 else ""
                mine.append(WouldChange(at=at, pool=pool.name, before=count, after=count + by, work=work))
            count += by
            last = at
        changes += mine
    return sorted(changes, key=lambda change: (change.at, change.pool))


def _named(pod: str) -> str:
    """The pod or gang of the cluster behind *pod* of the world: ``ml/ml.train-0-0`` was ``ml/train-0``."""
    namespace, _, name = pod.partition("/")
    job = name.rpartition("-")[0].partition("~")[0].removeprefix(f"{namespace}.")
    return f"{namespace}/{job}" if job else pod
