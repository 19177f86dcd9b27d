"""Room that exists or is on its way is filled so that no other filling saves a node, whatever the order of steps."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from receiver.core.model.model import Backoff, Facts, PoolState
from receiver.core.model.pods import Requirement
from receiver.core.model.policy import Budget, Policy
from receiver.core.scaling import filling
from receiver.core.scaling.assign import assign
from tests.core.builders import GPU, NOW, a_node, a_pod, a_policy, a_pool, a_state, facts, run
from tests.core.choices import Choices, built
from tests.core.filled import (
    TWO_STEPS,
    Asked,
    Filled,
    fits,
    grown,
    least,
    rooms_of,
    waiting,
)
from tests.core.worlds import LAWS, RARE


def wanted(found: Facts, policy: Policy) -> dict[str, int]:
    """New nodes for demand by pool id."""
    return {pool: wanted.for_demand for pool, wanted in assign(found, policy).pools.items()}


def test_the_same_pods_are_not_bought_for_twice() -> None:
    found, policy = TWO_STEPS.facts(), TWO_STEPS.policy
    first = wanted(found, policy)
    assert sum(first.values()) == 1
    assert sum(wanted(grown(found, first), policy).values()) == 0


@pytest.mark.parametrize(
    ("world", "nodes"),
    [
        pytest.param(
            Filled(
                sizes=(1, 1),
                prices=(Decimal(1), Decimal(1)),
                free=((), ()),
                coming=(1, 0),
                asked=(
                    Asked(each=1, pods=1, pools=(0, 1)),
                    Asked(each=1, pods=1, pools=(0,)),
                    Asked(each=1, pods=1, pools=(1,)),
                ),
            ),
            2,
            id="a pod that fits both leaves the node on its way to one that fits only there",
        ),
        pytest.param(
            Filled(
                sizes=(2, 2),
                prices=(Decimal(1), Decimal(1)),
                free=((1,), ()),
                coming=(0, 0),
                asked=(
                    Asked(each=1, pods=1, pools=(0, 1)),
                    Asked(each=1, pods=1, pools=(0,)),
                    Asked(each=1, pods=1, pools=(1,)),
                ),
            ),
            1,
            id="room beside another on a new node saves the node before it",
        ),
        pytest.param(
            Filled(
                sizes=(2, 2, 2),
                prices=(Decimal(1), Decimal(2), Decimal(1)),
                free=((), (), ()),
                coming=(0, 0, 0),
                asked=(Asked(each=1, pods=1, pools=(0, 1)), Asked(each=1, pods=1, pools=(1, 2))),
            ),
            1,
            id="one node that two pods fit in the place of two that cost as much",
        ),
        pytest.param(
            Filled(
                sizes=(4, 4),
                prices=(Decimal(1), Decimal(1)),
                free=((), ()),
                coming=(1, 1),
                asked=(
                    Asked(each=1, pods=1, pools=(0, 1)),
                    Asked(each=1, pods=1, pools=(0, 1)),
                    Asked(each=4, pods=1, pools=(0,)),
                ),
            ),
            0,
            id="small pods leave a whole node to a pod that needs one",
        ),
        pytest.param(
            Filled(
                sizes=(1, 1),
                prices=(Decimal(1), Decimal(1)),
                free=((), ()),
                coming=(2, 2),
                asked=(
                    Asked(each=1, pods=2, pools=(0, 1)),
                    Asked(each=1, pods=2, pools=(0,)),
                ),
            ),
            0,
            id="a gang leaves the nodes of a pool to a gang that fits no other",
        ),
        pytest.param(
            Filled(
                sizes=(1, 1),
                prices=(Decimal(2), Decimal("2.5")),
                free=((), ()),
                coming=(0, 12),
                asked=(Asked(each=1, pods=16, pools=(0, 1)),),
            ),
            4,
            id="a gang adds four nodes to twelve that are on their way, although nodes of another pool are cheaper",
        ),
    ],
)
def test_as_few_nodes_are_wanted_as_will_do(world: Filled, nodes: int) -> None:
    assert sum(wanted(world.facts(), world.policy).values()) == nodes


def test_a_pod_that_no_node_may_be_bought_for_gets_the_room_of_one_that_fits_elsewhere() -> None:
    one, two = a_pool("one", labels={"gpu": "one"}, max_nodes=1), a_pool("two", price_usd_per_hour=Decimal(9))
    states = a_state(pool="one-id", required=1), a_state(pool="two-id", required=1)
    pods = [a_pod("a"), a_pod("b", node_selector={"gpu": "one"})]
    assignment, decisions = run(facts(*states, waiting=pods), a_policy(one, two))
    assert (decisions["one"].target, decisions["two"].target) == (1, 1)
    assert {key for pool in assignment.pools.values() for key in pool.work.settled} == {"ml/a", "ml/b"}


def test_a_gang_that_no_nodes_may_be_bought_for_gets_the_room_of_pods_that_fit_elsewhere() -> None:
    one, two = a_pool("one", labels={"gpu": "one"}, max_nodes=2), a_pool("two", price_usd_per_hour=Decimal(9))
    states = a_state(pool="one-id", required=2), a_state(pool="two-id", required=2)
    gang = [a_pod(f"rank{n}", gang="ml/train", node_selector={"gpu": "one"}) for n in range(2)]
    pods = [a_pod("a", priority=1), a_pod("b", priority=1), *gang]
    assignment, _ = run(facts(*states, waiting=pods), a_policy(one, two))
    assert not any(pool.work.held or pool.for_demand for pool in assignment.pools.values())


def test_where_room_is_short_the_higher_priority_gets_it_and_then_the_older() -> None:
    pool = a_pool("one", max_nodes=2)
    ages = {"young": 1, "old": 3, "older": 4}
    pods = [a_pod(name, created_at=NOW - timedelta(minutes=m)) for name, m in ages.items()]
    pods.append(a_pod("urgent", priority=9))
    assignment, _ = run(facts(a_state(pool="one-id", required=2), waiting=pods), a_policy(pool))
    assert set(assignment.pools["one-id"].work.settled) == {"ml/urgent", "ml/older"}


@pytest.mark.parametrize(("most", "nodes"), [(filling.MOST_LEFT_OUT, 1), (0, 2)], ids=["usual", "none"])
def test_after_so_many_tries_to_save_a_node_a_step_goes_on_with_those_it_has(
    most: int, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod for either pool takes the only node of the first. The one that the second wants has room for it, too."""
    one = a_pool("one", labels={"gpu": "one"})
    two = a_pool("two", labels={"gpu": "two"}, resources={GPU: 2})
    selecting = [a_pod(name, node_selector={"gpu": name}) for name in ("one", "two")]
    known = facts(a_state(a_node(), pool="one-id"), a_state(pool="two-id"), waiting=[a_pod(priority=9), *selecting])
    monkeypatch.setattr(filling, "MOST_LEFT_OUT", most)
    assert sum(wanted(known, a_policy(one, two)).values()) == nodes


def test_what_a_saved_node_would_have_cost_is_there_for_work_that_the_budget_refused() -> None:
    """Three pools. The first pod takes the only room in one, so one node is bought there that two's node saves."""
    one = a_pool("one", resources={GPU: 2}, labels={"gpu": "one"}, price_usd_per_hour=Decimal(1))
    two, three = (replace(one, id=f"{n}-id", name=n, labels={"gpu": n}) for n in ("two", "three"))
    there = a_node(allocatable={GPU: 2}, pods=(a_pod("on", node="n1"),), idle_since=None)
    pods = [
        a_pod("a", priority=5, affinity=()),
        a_pod("b", priority=4, node_selector={"gpu": "one"}),
        a_pod("c", priority=3, node_selector={"gpu": "two"}),
        a_pod("d", 2, priority=2, node_selector={"gpu": "three"}),
    ]
    policy = a_policy(one, two, three, budget=Budget(monthly_usd=Decimal("3.50")))  # one runs, two more nodes fit
    states = a_state(there, pool="one-id"), a_state(pool="two-id"), a_state(pool="three-id")
    _, decisions = run(facts(*states, waiting=pods), policy)
    assert [decisions[n].target for n in ("one", "two", "three")] == [1, 1, 1]


def test_a_gang_stays_whole_when_others_are_rearranged_right_after_a_refusal_of_civo() -> None:
    """Half of the six nodes that Civo refused are asked for next, but a gang of four gets all of its four."""
    one, two = (a_pool(n, resources={GPU: 2}, labels={"gpu": n}) for n in ("one", "two"))
    gangs = a_pool("gangs", labels={"gpu": "gangs"})
    there = a_node(allocatable={GPU: 2}, pods=(a_pod("on", node="n1"),), idle_since=None)
    out = Backoff(failures=1, until=NOW + timedelta(minutes=1), reason="gpu_count_exceeded")
    term = (Requirement(key="gpu", operator="In", values=("one", "two")),)
    pods = [
        a_pod("a", priority=3, affinity=(term,)),
        a_pod("b", priority=2, node_selector={"gpu": "one"}),
        a_pod("c", priority=1, node_selector={"gpu": "two"}),
        *(a_pod(f"rank{n}", gang="ml/train", node_selector={"gpu": "gangs"}) for n in range(4)),
    ]
    states = a_state(there, pool="one-id"), a_state(pool="two-id"), a_state(pool="gangs-id", backoff=out, refused=6)
    assignment, decisions = run(facts(*states, waiting=pods), a_policy(one, two, gangs))
    assert [assignment.pools[f"{n}-id"].for_demand for n in ("one", "two", "gangs")] == [0, 1, 4]
    assert decisions["gangs"].target == 4


# --- laws ---


def alike(draw: Choices) -> Filled:
    """Pods of one GPU in two or three pools of nodes of one size and price; each fits all of them or one."""
    return a_filled(draw, (1,), gangs=False, same=True, some=False)


def any_pools(draw: Choices) -> Filled:
    """Pods of one GPU, each of which fits any of three pools of nodes of any size and price."""
    return a_filled(draw, (1,), gangs=False, same=False, some=True)


def mixed(draw: Choices) -> Filled:
    """Pods of one, two or four GPUs, whole nodes among them, and gangs, in pools of nodes of one size and price."""
    return a_filled(draw, (1, 1, 2, 4), gangs=True, same=True, some=True)


def a_filled(draw: Choices, each: Sequence[int], *, gangs: bool, same: bool, some: bool) -> Filled:
    """Two or three pools, up to six workloads."""
    count = draw.one([2, 2, 3])
    sizes = tuple(draw.one([1, 2, 4]) for _ in range(count))
    prices = tuple(draw.one([Decimal(1), Decimal(2), Decimal("2.5")]) for _ in range(count))
    if same:
        sizes, prices = (sizes[0],) * count, (prices[0],) * count
    free = tuple(tuple(draw.number(0, size) for _ in range(draw.one([0, 0, 1, 2]))) for size in sizes)
    coming = tuple(draw.one([0, 0, 1, 1, 2]) for _ in range(count))
    asked = []
    for _ in range(draw.number(1, 6)):
        gpus = draw.one([n for n in each if n <= max(sizes)])
        able = tuple(n for n in range(count) if sizes[n] >= gpus)
        one = (draw.one(able),)
        few = tuple(n for n in able if draw.yes()) if some else able
        pods = draw.one([1, 1, 1, 2, 3]) if gangs else 1
        asked.append(Asked(each=gpus, pods=pods, pools=draw.one([able, one, few or one])))
    return Filled(sizes=sizes, prices=prices, free=free, coming=coming, asked=tuple(asked))


WORLDS = st.one_of(*(built(make, size=64) for make in (alike, any_pools, mixed)))


@LAWS
@given(built(alike, size=64))
@example(TWO_STEPS)
def test_pods_alike_take_the_least_nodes_that_will_do(world: Filled) -> None:
    found = world.facts()
    bought = wanted(found, world.policy)
    count = sum(bought.values())
    assert count == least(world.asked, rooms_of(found, world.policy), world.sizes, count)


@RARE
@given(WORLDS)
@example(TWO_STEPS)
def test_none_of_the_new_nodes_could_be_left_out(world: Filled) -> None:
    found = world.facts()
    bought = wanted(found, world.policy)
    rooms = rooms_of(found, world.policy)
    new = [(n, world.sizes[n]) for n, pool in enumerate(world.policy.pools) for _ in range(bought[pool.id])]
    assert fits(world.asked, [*rooms, *new])
    for pool in set(new):
        fewer = list(new)
        fewer.remove(pool)
        assert not fits(world.asked, [*rooms, *fewer]), (pool, bought)


@LAWS
@given(WORLDS, st.randoms(use_true_random=False))
@example(TWO_STEPS, random.Random(0))
def test_what_was_bought_for_is_not_bought_for_again_in_any_order_of_pods_and_arrivals(
    world: Filled, dice: random.Random
) -> None:
    """Nodes come up one after another, while the pods wait and are listed in another order each time."""
    found, policy = world.facts(), world.policy
    found = grown(found, wanted(found, policy))
    for _ in range(4):
        pods = list(found.waiting)
        dice.shuffle(pods)
        moved = [replace(pod, created_at=NOW - timedelta(seconds=dice.randint(1, 99))) for pod in pods]
        found = replace(arrived(found, policy, dice), waiting=tuple(moved))
        assert not any(wanted(found, policy).values())


def arrived(found: Facts, policy: Policy, dice: random.Random) -> Facts:
    """*found* with the next node of one pool usable, if any is on its way."""
    states: list[PoolState] = list(found.pools)
    place = dice.randrange(len(states))
    state, pool = states[place], policy.pools[place]
    if state.unlisted:
        node = a_node(f"{pool.name}-u{len(state.nodes)}", allocatable=dict(pool.resources))
        states[place] = replace(state, nodes=(*state.nodes, node))
    return replace(found, pools=tuple(states))


@LAWS
@given(built(alike, size=64), built(alike, size=64), st.randoms(use_true_random=False))
def test_pods_that_come_later_take_the_least_nodes_that_will_do_beside_those_on_their_way(
    world: Filled, later: Filled, dice: random.Random
) -> None:
    found, policy = world.facts(), world.policy
    found = grown(found, wanted(found, policy))
    count = len(world.sizes)
    fitting = tuple(replace(a, pools=tuple(n for n in a.pools if n < count) or (0,)) for a in later.asked)
    more = (*world.asked, *fitting)[:9]
    pods = list(waiting(more, count))
    dice.shuffle(pods)
    found = replace(found, waiting=tuple(pods))
    bought = sum(wanted(found, policy).values())
    assert bought == least(more, rooms_of(found, policy), world.sizes, bought)
