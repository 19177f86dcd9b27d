"""Assign the waiting work to pools, over all pools at once: demand to nodes, one budget, one set of limits.

Everything that wants room is a source of size, and all of them are served in the order of one list: first the work that
exists or is announced, then what is spare. So a budget that cannot serve all drops expected work first. Each new node
is checked against budget, maximum and limits in that order, so the guardrails of `decide` can say which left how many.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import chain

from receiver.core.model.model import Facts
from receiver.core.model.policy import Policy, Scope
from receiver.core.money.budget import Budgets, views
from receiver.core.scaling.bounds import BoundsInForce
from receiver.core.scaling.capacity import Allowance, Tally
from receiver.core.scaling.demand import workloads
from receiver.core.scaling.failures import Extra, Failure, Failures, LeftOut, blame
from receiver.core.scaling.guardrails.rule import AddedGuardrail
from receiver.core.scaling.packing import may_not_return, movable
from receiver.core.scaling.placing import serve_demand
from receiver.core.scaling.spare import hold_floors, keep_standby, keep_warm, refused
from receiver.core.scaling.wanted import (
    Allowed,
    Assignment,
    Draft,
    Funding,
    Instances,
    Rank,
    SizeSource,
    WaitingWork,
    Wanted,
)
from receiver.core.scaling.witness import Barred, barred


def assign(
    facts: Facts,
    policy: Policy,
    failures: Failures | None = None,
    sources: Sequence[SizeSource] = (),
    guardrails: Sequence[AddedGuardrail] = (),
) -> Assignment:
    """Return what each pool should have beyond what it has, and why some work stays waiting. Capabilities add *sources*
    of size, and *guardrails*, which the decisions from this assignment ask too.

    An exception that belongs to a pool or a workload is noted in *failures*, and the rest is assigned again without it.
    Without *failures*, or where it belongs to neither, it is raised.
    """
    if failures is None:
        return _assign(_begun(facts, policy, {}, LeftOut(), guardrails), sources)
    left_out = LeftOut()
    while True:
        try:
            return _assign(_begun(left_out.of(facts), policy, failures.set_aside, left_out, guardrails), sources)
        except Exception as error:  # noqa: BLE001  # recorded; the rest goes on
            left_out.learn(error, failures)


def _assign(draft: Draft, sources: Sequence[SizeSource]) -> Assignment:
    facts, aside = draft.facts, draft.aside
    for source in sources:
        draft.postpone(source)
    # The sources of size in the order of service: what waits or was promised, then what is spare. No node is opened for
    # that where work which was refused could start.
    added = {rank: [(source.serve, source.kind) for source in sources if source.rank is rank] for rank in Rank}
    _serve(((serve_demand, None), *added[Rank.WORK], (hold_floors, None)), draft)
    draft.refused = refused(draft)
    _serve(((keep_standby, None), (keep_warm, None), *added[Rank.SPARE]), draft)
    served, budgets = draft.served, draft.allowance.budgets
    empties = movable(served.values(), facts.at, draft.left_out.pairs)
    buys_at = min((p.buys_at for p in draft.patient if p.buys_at is not None and not p.gated), default=None)
    wanted: dict[str, Wanted] = {}
    for pool, tally in served.items():
        with blame(pool=pool):
            replaced = (source.replaced(tally, draft) for source in sources)
            wanted[pool] = _wanted(tally, draft, empties, frozenset(chain.from_iterable(replaced)), buys_at)
    for p in draft.policy.pools:
        if p.id in aside:
            bounds = BoundsInForce(min_nodes=p.min_nodes, max_nodes=p.max_nodes, standby_nodes=p.standby_nodes)
            wanted[p.id] = Wanted(pool=p.id, bounds=bounds, buys_at=buys_at, failed=str(aside[p.id]), added=draft.added)
    return Assignment(
        pools=wanted,
        misfits=draft.misfits,
        patient=draft.patient,
        budgets=budgets,
        answers=draft.answers,
    )


def _serve(sources: Sequence[tuple[Callable[[Draft], None], str | None]], draft: Draft) -> None:
    """Serve each of *sources*. An exception in one costs the part that it names, where that can be left out."""
    for serve, part in sources:
        if part not in draft.left_out.parts:
            with blame(part=part):
                serve(draft)


def _begun(
    facts: Facts,
    policy: Policy,
    aside: Mapping[str, Failure],
    left_out: LeftOut,
    guardrails: Sequence[AddedGuardrail],
) -> Draft:
    """A draft in which nothing is served yet."""
    budgets = views(facts, policy)
    allowance = Allowance(facts, policy, budgets)
    everything = workloads(facts.waiting, facts.other_work.bound_gangs)
    with blame(part=Extra.REFUSALS):
        out = Barred() if Extra.REFUSALS in left_out.parts else barred(facts, everything)
    return Draft(
        facts=facts,
        policy=policy,
        allowance=allowance,
        left_out=left_out,
        aside=aside,
        waiting=everything,
        barred=out,
        added=tuple(guardrails),
    )


def _unreturning(tally: Tally, facts: Facts, policy: Policy, budgets: Budgets) -> frozenset[str]:
    """The instances whose work could not start again if it were moved or evicted now, because of a hold."""
    nodes = tally.state.nodes if budgets.holding or facts.earlier.kept_out else ()
    return frozenset(n.instance for n in nodes if any(may_not_return(pod, policy) for pod in n.pods))


def _wanted(
    tally: Tally, draft: Draft, empties: frozenset[str], replaced: frozenset[str], buys_at: datetime | None
) -> Wanted:
    budgets = draft.allowance.budgets
    existing = {n.instance for n in tally.state.nodes}
    staying = _unreturning(tally, draft.facts, draft.policy, budgets)
    budget, maximum, limits = tally.within
    in_use = frozenset(b.instance for b in tally.shelves.bins if b.used and b.instance is not None)
    return Wanted(
        pool=tally.pool.id,
        bounds=tally.bounds,
        by_source=dict(tally.counts),
        allowed=Allowed(
            budget=budget, maximum=maximum, limits=limits, stock=None if tally.gang_room is None else tally.room
        ),
        work=_work_of(tally),
        nodes=Instances(
            needed=in_use - tally.kept.warm.keys(),
            warm=dict(tally.kept.warm),
            movable=(empties - staying) & existing,
            unreturning=staying & existing,
            repairs=replaced,
        ),
        money=Funding(
            budget=budgets.of(Scope.CLUSTER),
            uncovered=tuple(tally.uncovered.values()),
            stopped=budgets.stopped(tally.pool.id),
        ),
        graces=tally.graces,
        headroom=draft.headroom.get(tally.pool.id),
        buys_at=buys_at,
        added=draft.added,
    )


def _work_of(tally: Tally) -> WaitingWork:
    usable = [(p.workload.key, p.rooms[0]) for p in tally.given if not p.workload.gang and p.rooms[0].usable]
    return WaitingWork(
        asking=tuple(placement.workload for placement in tally.given if placement.buys),
        buffers=tuple(tally.kept.buffers),
        settled=tuple(placement.workload.key for placement in tally.given if not placement.buys),
        placed=tuple((key, room.instance) for key, room in usable if room.instance is not None),
        rooms=tuple(tally.given),
        held=tuple(tally.held),
        refused=dict(tally.refused),
        gpus=sum(placement.workload.gpus for placement in tally.given) + sum(held.gpus for held in tally.held),
    )
