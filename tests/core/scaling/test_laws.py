"""Laws of the core over random worlds: what must hold whatever the facts, the policy and the signals are."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from receiver.core.explain.evidence import with_grounds
from receiver.core.model.actions import ActionKind, Change, VictimStage
from receiver.core.model.model import ON_ITS_WAY, CordonedBy, Facts, PoolState, Source, SourceState, Spend, Stage
from receiver.core.model.pods import PodPhase
from receiver.core.model.policy import Budget, Limits, Policy
from receiver.core.model.rights import Rights
from receiver.core.model.signals import SignalAction
from receiver.core.money.cost import unit_price
from receiver.core.scaling.assign import assign
from receiver.core.scaling.bounds import evicting, topic_of
from receiver.core.scaling.decide import case_of, decide, decide_all, plan
from tests.core.builders import (
    AN_INSTANT,
    GPU,
    HOUR_ENDS_SOON,
    HOURLY,
    MINUTE,
    NOW,
    a_due_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_signal,
    a_state,
    assigned,
    facts,
    run,
    with_fields,
)
from tests.core.filled import TWO_STEPS
from tests.core.small_worlds import ENDS_SOON, HOLDS, MOVING_POD, NODE_KINDS, open_removals, small_worlds
from tests.core.worlds import LAWS, POOLS, RARE, World, decided, worlds


@RARE
@given(worlds())
def test_only_nodes_that_are_ours_to_take_and_nobody_uses_may_go(world: World) -> None:
    for pool, state, decision in decided(world):
        by_instance = {n.instance: n for n in state.nodes}
        assert decision.present - decision.target <= len(decision.candidates) <= decision.present
        for instance in decision.candidates:
            node = by_instance[instance]
            assert node.cordon.by is not CordonedBy.SOMEONE
            assert not node.keep.protected
            assert not node.keep.hosts
            if node.stage is Stage.USABLE and not node.pods:
                assert node.idle_since is not None
                assert node.times.unknown_since is None
            if node.stage in ON_ITS_WAY:
                assert NOW - node.created_at > pool.provision_timeout
            elif node.stage is not Stage.USABLE:
                assert node.stage is Stage.BROKEN
                gone_from_kubernetes = not node.registered and not node.was_usable
                lost_at = node.times.lost_at
                assert lost_at is None or gone_from_kubernetes or NOW - lost_at > pool.provision_timeout


@LAWS
@given(worlds())
def test_no_pod_is_moved_whose_owner_did_not_consent_but_by_a_window_that_evicts(world: World) -> None:
    for _, state, decision in decided(world):
        for node in state.nodes:
            if node.instance in decision.candidates and node.pods:
                assert node.stage is Stage.USABLE
                assert all(p.owner and not p.wishes.protected and p.gang is None for p in node.pods)
                assert node.instance in decision.evicted or all(p.wishes.evictable for p in node.pods)


@RARE
@given(worlds())
def test_a_window_evicts_after_the_grace_that_was_told_and_only_what_is_too_many(world: World) -> None:
    found, _ = world
    for pool, state, decision in decided(world):
        if not decision.evicted:
            continue
        [window] = pool.windows
        assert window.evict_after is not None
        assert window.max_nodes is not None
        if not evicting(state).issuperset(decision.evicted):  # what was begun goes on, whether or not the word stands
            assert NOW - found.earlier.announced[topic_of(window, pool)] >= window.evict_after
        usable = state.of(Stage.USABLE)
        assert len(decision.evicted) <= len(usable) - window.max_nodes
        assert len(decision.evicted) <= decision.present - window.max_nodes
        busy = {n.instance: n for n in usable if n.busy}
        assert not any(busy[i].keep.lasts(NOW) for i in decision.evicted)


# What may be so of a usable node three minutes before its next paid hour; half of these let it go.
AT_THE_HOURS_END: tuple[dict[str, Any], ...] = (
    *({},) * 8,
    {"cordoned_by": CordonedBy.US},
    {"created_at": NOW - 30 * MINUTE},
    {"idle_since": NOW - timedelta(seconds=9)},
    {"idle_since": None},
    {"pods": (a_pod("busy", phase=PodPhase.RUNNING),)},
    {"protected": True},
    {"hosts": ("prometheus-0",)},
    {"kept_by": ("default/debug has no controller",)},
    {"cordoned_by": CordonedBy.SOMEONE},
)


@LAWS
@given(
    st.lists(st.sampled_from(AT_THE_HOURS_END), max_size=8),
    st.none() | st.integers(0, 3),
    st.integers(0, 2),
)
def test_exactly_the_nodes_that_nothing_speaks_for_go_at_their_hours_end(
    said: list[dict[str, Any]], per_hour: int | None, before: int
) -> None:
    """A focused law: nothing but the nodes' own state and the hourly limit holds them back."""
    there = [a_due_node(f"n{n}", **changes) for n, changes in enumerate(said)]
    policy = Policy(pools=(a_pool(),), limits=Limits(max_removals_per_hour=per_hour), billing=HOURLY)
    [(_, _, decision)] = decided((facts(a_state(*there), removed_last_hour=before), policy))
    free = {
        n.instance
        for n in there
        if not n.pods
        and n.idle_since == NOW - timedelta(minutes=15)
        and n.created_at == HOUR_ENDS_SOON
        and not n.keep.protected
        and not n.keep.hosts
        and not n.keep.drain_losses
        and n.cordon.by is not CordonedBy.SOMEONE
    }
    assert set(decision.candidates) == free
    left = len(free) if per_hour is None else max(0, per_hour - before)
    assert decision.target == len(there) - min(len(free), left)
    action = plan(decision, a_state(*there), policy)
    assert len(action.victims if action else ()) == len(there) - decision.target


@LAWS
@given(worlds())
def test_no_pool_is_asked_beyond_its_maximum(world: World) -> None:
    for pool, _, decision in decided(world):
        assert decision.target <= max(decision.present, pool.max_nodes)


@LAWS
@given(worlds())
def test_all_pools_together_stay_within_the_limits(world: World) -> None:
    found, policy = world
    gpus = existing = grown = 0
    for pool, state, decision in decided(world):
        nodes_there = max(state.required, len(state.living))
        existing += nodes_there * pool.gpus_per_node
        growth = max(0, decision.target - decision.present)
        gpus += (nodes_there + growth) * pool.gpus_per_node
        grown += growth
    limits = policy.limits
    if limits.max_gpus is not None:
        assert gpus <= max(existing, limits.max_gpus)
    if limits.max_growth_per_hour is not None and grown:
        assert grown + found.earlier.grown_last_hour <= limits.max_growth_per_hour


@LAWS
@given(worlds())
def test_removals_of_a_pool_stay_within_the_hourly_limit(world: World) -> None:
    found, policy = world
    for _, _, decision in decided(world):
        removed = max(0, decision.present - decision.target)
        if policy.limits.max_removals_per_hour is not None and removed:
            assert removed + found.earlier.removed_last_hour <= policy.limits.max_removals_per_hour


@LAWS
@given(st.sampled_from(["1.29", None]), st.integers(1, 3), st.integers(0, 2), st.sampled_from([None, 1000]))
def test_a_pool_without_a_price_never_grows(price: str | None, pods: int, floor: int, monthly: int | None) -> None:
    """A focused law: nothing but the price can hold this pool back."""
    pool = a_pool(price_usd_per_hour=None if price is None else Decimal(price), min_nodes=floor)
    budget = None if monthly is None else Budget(monthly_usd=Decimal(monthly))
    waiting = [a_pod(f"p{n}") for n in range(pods)]
    [(_, _, decision)] = decided((facts(a_state(), waiting=waiting), Policy(pools=(pool,), budget=budget)))
    assert decision.target == (0 if price is None else max(pods, floor))


@LAWS
@given(worlds(), st.booleans())
def test_while_the_months_spend_is_not_known_no_pool_grows(world: World, known: bool) -> None:
    found, policy = world
    spend = replace(found.spend, unknown="" if known else "Civo's charges cannot be read")
    before = decided(world)
    for (_, _, decision), (_, _, free) in zip(decided((replace(found, spend=spend), policy)), before, strict=True):
        assert decision.target == (free.target if known else min(free.target, decision.present))


@LAWS
@given(worlds(), st.sampled_from([None, (), ("patch nodes",)]), st.integers(0, 10))
def test_no_pool_grows_while_its_nodes_could_not_be_removed_again(
    world: World, lacking: tuple[str, ...] | None, minutes: int
) -> None:
    found, policy = world
    rights = Rights(lacking=lacking, since=NOW - timedelta(minutes=minutes), asked_at=NOW)
    held = lacking != () and (lacking is not None or minutes < 5)
    before = decided(world)
    for (_, _, decision), (_, _, free) in zip(decided((replace(found, rights=rights), policy)), before, strict=True):
        assert decision.target == (min(free.target, decision.present) if held else free.target)


@LAWS
@given(worlds(), st.integers(0, 2), st.integers(1, 3))
def test_a_pool_whose_count_is_still_to_fall_does_not_grow(world: World, which: int, uncounted: int) -> None:
    found, policy = world
    stale = found.pools[which % len(found.pools)].pool
    pools = tuple(
        replace(s, count=replace(s.count, uncounted=uncounted)) if s.pool == stale else s for s in found.pools
    )
    late = replace(found, pools=pools), policy
    [decision] = [decision for pool, _, decision in decided(late) if pool.id == stale]
    assert decision.target <= decision.present


@LAWS
@given(worlds())
def test_growth_is_covered_by_the_reservation(world: World) -> None:
    found, policy = world
    budget = policy.budget
    assume(budget is not None)
    assert budget is not None
    cost = running = Decimal(0)
    grew = False
    for pool, state, decision in decided(world):
        growth = max(0, decision.target - decision.present)
        grew = grew or growth > 0
        if growth:
            assert pool.price_usd_per_hour is not None
        if pool.price_usd_per_hour is not None:
            price = unit_price(pool.price_usd_per_hour, policy.billing)
            lasts = [
                c for c in policy.billing.committed if c.pool == pool.id and c.until > NOW + policy.billing.granularity
            ]
            paid = sum(c.nodes for c in lasts)
            there = max(state.required, len(state.living))
            running += max(0, there - paid) * price
            cost += (max(0, there + growth - paid) - max(0, there - paid)) * price
    if grew:
        assert found.spend.usd < budget.monthly_usd * budget.hold_at
    if cost:
        reserved = running + sum(found.spend.committed.values()) + cost
        assert found.spend.usd + reserved <= budget.monthly_usd * budget.stop_at


@example(cents=400, kinds=["one", "two"], max_gpus=1, per_hour=None)  # the two that chance seldom draws
@example(cents=400, kinds=["one", "two"], max_gpus=None, per_hour=1)
@LAWS
@given(
    cents=st.integers(-150, 400),
    kinds=st.lists(st.sampled_from(POOLS), min_size=1, max_size=8),
    max_gpus=st.none() | st.integers(0, 8),
    per_hour=st.none() | st.integers(0, 8),
)
def test_pools_that_race_for_what_is_left_never_share_it_twice(
    cents: int, kinds: list[str], max_gpus: int | None, per_hour: int | None
) -> None:
    """A focused law: nothing but the last dollars, GPUs and growth per hour holds these pools back."""
    chosen = tuple(a_pool(name, labels={"pool": name}) for name in POOLS)
    budget = Budget(monthly_usd=Decimal(10))
    spent = Decimal(799 - cents) / 100  # from 3.99 over the hold line at 8.00 to 9.49
    limits = Limits(max_gpus=max_gpus, max_growth_per_hour=per_hour)
    policy = Policy(pools=chosen, budget=budget, limits=limits)
    found = Facts(
        at=NOW,
        pools=tuple(PoolState(pool=p.id, required=0) for p in chosen),
        waiting=tuple(a_pod(f"p{n}", node_selector={"pool": kind}) for n, kind in enumerate(kinds)),
        signals=(),
        sources={s: SourceState(source=s, up=True, at=NOW) for s in Source},
        spend=Spend(month="2026-11", usd=spent),
    )
    grown = sum(d.target for _, _, d in decided((found, policy)))
    affordable = int((budget.monthly_usd - spent) / Decimal("1.29")) if spent < 8 else 0
    bounds = [len(kinds), affordable, *(b for b in (max_gpus, per_hour) if b is not None)]
    assert grown == min(bounds)


@LAWS
@given(running=st.integers(0, 6), waiting=st.integers(1, 8), spent=st.integers(0, 799))
def test_growth_leaves_the_next_hour_of_what_runs_in_the_budget(running: int, waiting: int, spent: int) -> None:
    """A focused law: nothing but the money for the nodes that run holds this pool back."""
    usd = Decimal(spent) / 100
    busy = (a_node(f"n{n}", pods=(a_pod(f"on-{n}", phase=PodPhase.RUNNING, node=f"n{n}"),)) for n in range(running))
    policy = Policy(pools=(a_pool(max_nodes=20),), budget=Budget(monthly_usd=Decimal(10)))
    asking = [a_pod(f"p{n}") for n in range(waiting)]
    found = facts(a_state(*busy), waiting=asking, spend=Spend(month="2026-11", usd=usd))
    [(pool, _, decision)] = decided((found, policy))
    assert pool.price_usd_per_hour is not None
    affordable = int((Decimal(10) - usd) / pool.price_usd_per_hour) - running
    assert decision.target - running == min(waiting, max(0, affordable))


@LAWS
@given(worlds())
def test_the_same_facts_give_the_same_decision(world: World) -> None:
    assert decided(world, explained_by=with_grounds) == decided(world, explained_by=with_grounds)


@LAWS
@given(worlds())
def test_the_last_reason_leaves_the_target_and_guardrails_only_move_towards_the_present_size(world: World) -> None:
    for _, _, decision in decided(world):
        assert decision.reasons[-1].target == decision.target
        guarded = [r for r in decision.reasons if r.verdict.value in ("allows", "limits", "holds")]
        for before, after in pairwise(guarded):
            low, high = sorted((decision.present, before.target))
            assert low <= after.target <= high


@LAWS
@given(worlds(), st.sampled_from([SignalAction.SCALE_UP]), st.sampled_from([None, "one-id", "two-id"]))
def test_no_growth_signal_lowers_a_target(world: World, action: SignalAction, pool: str | None) -> None:
    found, policy = world
    more = replace(found, signals=(*found.signals, a_signal(action, pool, fingerprint="extra")))
    for (_, _, without), (_, _, with_it) in zip(decided(world), decided((more, policy)), strict=True):
        assert with_it.target >= without.target


@LAWS
@given(
    worlds(),
    st.sampled_from([SignalAction.SCALE_DOWN, SignalAction.PAUSE_SCALE_UP]),
    st.sampled_from([None, "one-id", "two-id"]),
)
def test_no_shrink_signal_raises_the_target_of_its_pool(world: World, action: SignalAction, pool: str | None) -> None:
    found, policy = world
    more = replace(found, signals=(*found.signals, a_signal(action, pool, fingerprint="extra")))
    assignment = assign(
        found, policy
    )  # the same assignment: a pause may move work to another pool, never raise its own
    for p in policy.pools:
        if pool not in (None, p.id):
            continue
        wanted, state = assignment.pools[p.id], found.pool(p.id)
        without = decide(case_of(state, wanted, found, policy))[0]
        with_it = decide(case_of(state, wanted, more, policy))[0]
        assert with_it.target <= max(without.target, state.required)
        assert not (with_it.target > without.target and without.target >= state.required)


@LAWS
@given(worlds())
@example((TWO_STEPS.facts(), TWO_STEPS.policy))  # one that two hundred random worlds mostly miss
def test_what_was_asked_for_once_is_not_asked_for_again(world: World) -> None:
    found, policy = world
    pools = tuple(replace(p, standby_nodes=0, approval=None) for p in policy.pools)
    policy = replace(policy, pools=pools)
    assume(all(s.required >= len(s.living) for s in found.pools))  # else Civo is about to take a node away itself
    first = decided((found, policy))
    assume(not any(r.verdict.value in ("limits", "holds") for _, _, d in first for r in d.reasons))
    assume(not any(r.rule == "gangs_whole" for _, _, d in first for r in d.reasons))  # the limit may leave it next time
    grown = replace(found, pools=tuple(replace(s, required=max(s.required, d.target)) for _, s, d in first))
    for _, _, second in decided((grown, policy)):
        assert second.change is not Change.GROW


@LAWS
@given(
    pods=st.integers(1, 8),
    each=st.sampled_from([1, 2, 3]),
    per_node=st.sampled_from([1, 2, 4, 8]),
    max_nodes=st.integers(0, 6),
    usable=st.integers(0, 3),
    cents=st.integers(0, 799),
)
def test_a_gang_is_bought_for_whole_or_not_at_all(
    pods: int, each: int, per_node: int, max_nodes: int, usable: int, cents: int
) -> None:
    """A focused law: the pool has *usable* empty nodes, some money, and a gang waits."""
    pool = a_pool(resources={GPU: per_node}, max_nodes=max(max_nodes, usable))
    spent = Decimal(799 - cents) / 100
    policy = Policy(pools=(pool,), budget=Budget(monthly_usd=Decimal(10)))
    there = [a_node(f"n{n}", allocatable={GPU: per_node}) for n in range(usable)]
    found = facts(
        a_state(*there),
        waiting=[a_pod(f"rank{n}", each, gang="ml/train") for n in range(pods)],
        spend=Spend(month="2026-11", usd=spent),
    )
    [(_, _, decision)] = decided((found, policy))
    fit = per_node // each
    more = max(0, -(-pods // fit) - usable) if fit else 0
    money = Decimal(10) - spent - usable * Decimal("1.29")
    whole = usable + more <= pool.max_nodes and more * Decimal("1.29") <= money
    assert decision.target == usable + (more if whole else 0)


@LAWS
@given(pods=st.integers(1, 5), bound=st.integers(0, 4), least=st.none() | st.integers(0, 8), room=st.integers(0, 8))
def test_a_gang_gets_what_it_lacks_of_its_minimum_at_once_or_nothing_and_the_rest_one_by_one(
    pods: int, bound: int, least: int | None, room: int
) -> None:
    """A focused law: *bound* pods of the gang run elsewhere, *pods* wait, *least* must run together."""
    found = facts(
        a_state(),
        waiting=[
            a_pod(f"rank{n}", gang="ml/train", gang_min=least, created_at=NOW - timedelta(seconds=n))
            for n in range(pods)
        ],
        bound_gangs={"ml/train": bound},
    )
    assignment, decisions = run(found, Policy(pools=(a_pool(max_nodes=room),)), explained_by=None)
    held = [h.rule for h in assignment.pools["l40s-id"].work.held]
    lacking = pods if least is None else max(0, least - bound)
    if lacking > pods:
        assert (decisions["l40s"].target, held) == (0, ["gang_is_complete"])
    elif lacking > room:
        assert decisions["l40s"].target == 0  # nor does what is beyond the minimum come without it
        assert set(held) == {"gangs_whole"}
    else:
        assert (decisions["l40s"].target, held) == (min(pods, room), [])


@LAWS
@given(worlds())
def test_the_answer_does_not_change_before_the_moment_the_decision_names(world: World) -> None:
    found, policy = world
    decisions = decided(world)  # one step decides for all pools: the earliest moment of any of them counts
    until = min((d.reconsider_at for _, _, d in decisions if d.reconsider_at), default=NOW + timedelta(hours=2))
    for pool, _, decision in decisions:
        for share in (0.01, 0.5, 0.99):
            later = NOW + (until - NOW) * share
            if later <= NOW or later >= until:
                continue
            then = replace(found, at=later)
            again = decide_all(then, assigned(then, policy), policy)[pool.id]
            assert again.target == decision.target, (later, decision.reconsider_at)


@LAWS
@given(st.integers(0, 29_999_999), st.integers(0, 29_999_999))
def test_a_cooldown_holds_until_its_end_and_the_decision_names_that_moment(since: int, later: int) -> None:
    """A focused law: a pod waits, and nothing but the cooldown of 30 s holds the pool."""
    grew = NOW - timedelta(microseconds=since)
    found = facts(a_state(last_grow_at=grew), waiting=[a_pod()])
    policy = Policy(pools=(a_pool(),))
    [(_, _, held)] = decided((found, policy))
    end = grew + timedelta(seconds=30)
    assert (held.target, held.reconsider_at) == (0, end)
    between = min(NOW + timedelta(microseconds=later), end - timedelta(microseconds=1))
    [(_, _, before)] = decided((replace(found, at=between), policy))
    [(_, _, after)] = decided((replace(found, at=end), policy))
    assert (before.target, after.target) == (0, 1)


IDLE_AT_ITS_HOURS_END = a_node(created_at=NOW - timedelta(minutes=57), idle_since=NOW - timedelta(minutes=30))


@LAWS
@given(worlds())
@example(
    (facts(a_state(IDLE_AT_ITS_HOURS_END, required=2)), a_policy(a_pool(min_nodes=1)))
)  # one that random worlds miss
def test_a_removal_is_still_wanted_once_its_nodes_are_cordoned(world: World) -> None:
    """Else the same nodes would be cordoned and made schedulable again, ten times a second."""
    found, policy = world
    for pool, state, decision in decided(world):
        if decision.change is not Change.SHRINK or state.open_action is not None:
            continue
        action = plan(decision, state, policy)
        assert action is not None
        going = {v.instance for v in action.victims}
        begun = replace(
            state,
            open_action=replace(action, victims=tuple(replace(v, stage=VictimStage.CORDONED) for v in action.victims)),
            nodes=tuple(with_fields(n, cordoned_by=CordonedBy.US) if n.instance in going else n for n in state.nodes),
        )
        then = replace(found, pools=tuple(begun if s.pool == pool.id else s for s in found.pools))
        after = decide_all(then, assigned(then, policy), policy)[pool.id]
        assert going <= set(after.candidates[: max(0, after.present - after.target)]), (decision, after)


@LAWS
@given(worlds())
def test_a_plan_does_exactly_what_was_decided(world: World) -> None:
    _, policy = world
    for _, state, decision in decided(world):
        action = plan(decision, state, policy)
        if decision.change is Change.HOLD:
            assert action is None
            continue
        assert action is not None
        if decision.change is Change.GROW:
            assert (action.kind, action.to_count) == (ActionKind.GROW, decision.target)
            assert not action.victims
        else:
            assert action.kind is ActionKind.RETIRE
            assert [v.instance for v in action.victims] == list(
                decision.candidates[: decision.present - decision.target]
            )


EACH = settings(LAWS, max_examples=settings().max_examples // 8)  # for each thing that ends soon


def answer(world: World, at: datetime) -> tuple[list[int], datetime | None]:
    """The targets of all pools at *at*, and the moment at which the first of them may change."""
    found, policy = world
    decisions = [d for _, _, d in decided((replace(found, at=at), policy))]
    return [d.target for d in decisions], min((d.reconsider_at for d in decisions if d.reconsider_at), default=None)


@st.composite
def emptying_worlds(draw: st.DrawFn) -> World:
    """A node at its hour's end that could be emptied, or just was, beside a busy one with room."""
    drawn = {
        field: draw(strategy) for field, strategy in NODE_KINDS[draw(st.sampled_from(["movable", "idle"]))].items()
    }
    node = a_node("n0", allocatable={GPU: 2}, **{**drawn, "created_at": draw(ENDS_SOON)})
    action = draw(open_removals(node))
    room = a_node("n1", allocatable={GPU: 2}, pods=(with_fields(MOVING_POD, evictable=False),), idle_since=None)
    state = a_state(node, room, open_action=draw(st.sampled_from([None, action])))
    return facts(state), Policy(pools=(a_pool(resources={GPU: 2}),), billing=HOURLY)


@pytest.mark.parametrize("soon", ["emptied", "asked", *NODE_KINDS, *HOLDS])
@EACH
@given(st.data(), st.integers(1, 99))
def test_the_answer_changes_at_no_moment_that_was_not_named(soon: str, data: st.DataObject, percent: int) -> None:
    """A chain of ten moments, one named after the other: between two of them the answer stays."""
    world = data.draw(emptying_worlds() if soon == "emptied" else small_worlds(soon))
    at = NOW
    for _ in range(10):
        targets, named = answer(world, at)
        until = named or at + timedelta(hours=2)
        for between in (at + (until - at - AN_INSTANT) * percent / 100, until - AN_INSTANT):
            assert answer(world, between)[0] == targets, (at, between, named)
        at = until
