"""Gangs beside single pods, nodes on their way and pools that were refused: who gets which room."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from receiver.core.model.model import Backoff, Node, Stage
from receiver.core.model.pods import Pod, PodPhase, Preference, Requirement
from receiver.core.model.policy import Limits, Pool
from receiver.core.scaling import filling
from receiver.core.scaling.assign import Wanted, assign
from receiver.core.scaling.capacity import Tally
from receiver.core.scaling.failures import Failures
from receiver.core.scaling.filling import Room, Seats
from tests.core.builders import GPU, NOW, a_node, a_pod, a_policy, a_pool, a_state, facts

CHEAP = a_pool("cheap", price_usd_per_hour=Decimal(1), labels={"pool": "cheap"})
DEAR = a_pool("dear", price_usd_per_hour=Decimal("1.50"), labels={"pool": "dear"})
WIDE = a_pool("wide", price_usd_per_hour=Decimal("3.50"), resources={GPU: 4})
JUST_REFUSED = Backoff(failures=1, until=NOW + timedelta(minutes=1), reason="out of stock")


def a_gang(count: int, name: str = "g", gpus: int = 1, **changes: Any) -> list[Pod]:
    return [a_pod(f"{name}{n}", gpus, gang=f"ml/{name}", **changes) for n in range(count)]


def coming(count: int, name: str = "c", **changes: Any) -> list[Node]:
    given: dict[str, Any] = {"stage": Stage.BOOTING, "allocatable": {}, "idle_since": None, "created_at": NOW}
    return [a_node(f"{name}{n}", **{**given, **changes}) for n in range(count)]


def idle(count: int, name: str = "n", **changes: Any) -> list[Node]:
    return [a_node(f"{name}{n}", **changes) for n in range(count)]


def wanted(
    waiting: Sequence[Pod], *there: tuple[Pool, Sequence[Node]], failures: Failures | None = None, **state: Any
) -> list[Wanted]:
    """What is wanted of each pool; *state* is of the first."""
    states = [a_state(*nodes, pool=pool.id, **(state if n == 0 else {})) for n, (pool, nodes) in enumerate(there)]
    pools = assign(facts(*states, waiting=waiting), a_policy(*(pool for pool, _ in there)), failures).pools
    return [pools[pool.id] for pool, _ in there]


def demand(waiting: Sequence[Pod], *there: tuple[Pool, Sequence[Node]], **state: Any) -> list[int]:
    return [found.for_demand for found in wanted(waiting, *there, **state)]


def taken(waiting: Sequence[Pod], *there: tuple[Pool, Sequence[Node]]) -> list[set[str]]:
    return [{i.removeprefix("i-") for i in found.needed} for found in wanted(waiting, *there)]


def test_gangs_do_not_make_a_wide_node_cheap_for_a_single_pod() -> None:
    incomplete = [pod for name in "ghij" for pod in a_gang(1, name, gang_min=9)]
    assert demand([a_pod("single"), *incomplete], (CHEAP, ()), (WIDE, ())) == [1, 0]


def test_single_pods_that_wait_beside_a_gang_are_all_counted() -> None:
    incomplete = a_gang(1, gang_min=9, priority=9)
    assert demand([*incomplete, *(a_pod(f"p{n}") for n in range(4))], (CHEAP, ()), (WIDE, ())) == [0, 1]


def test_a_gang_that_lacks_pods_takes_no_room() -> None:
    assert taken(a_gang(2, gang_min=3), (CHEAP, idle(2))) == [set()]


def test_a_pool_that_was_just_refused_keeps_its_pods_for_these_seconds() -> None:
    pods = [a_pod(f"p{n}") for n in range(4)]
    assert demand(pods, (CHEAP, ()), (DEAR, ()), backoff=JUST_REFUSED, refused=3) == [4, 0]


@pytest.mark.parametrize(("refused", "fits"), [(5, True), (4, False)])
def test_a_gang_smaller_than_what_civo_refused_is_requested_whole(refused: int, fits: bool) -> None:
    [found] = wanted(a_gang(4), (CHEAP, ()), backoff=JUST_REFUSED, refused=refused)
    assert found.for_demand == (4 if fits else 0)
    assert found.within_stock == 4 or not fits


def test_of_two_pools_in_which_it_needs_as_many_new_nodes_a_gang_takes_the_one_that_it_prefers() -> None:
    likes = Preference(weight=10, term=(Requirement(key="pool", operator="In", values=("dear",)),))
    gang = a_gang(2, preferred=(likes,))
    assert demand(gang, (CHEAP, idle(1)), (DEAR, idle(1, "m"))) == [0, 1]
    assert demand(a_gang(2), (CHEAP, idle(1)), (DEAR, idle(1, "m"))) == [1, 0]


def test_of_two_pools_in_which_it_needs_one_new_node_a_gang_takes_the_one_where_that_costs_less() -> None:
    wide = replace(WIDE, price_usd_per_hour=Decimal("2.50"))  # less than two nodes of the other, more than one
    assert demand(a_gang(2), (wide, ()), (DEAR, idle(1))) == [0, 1]
    assert demand(a_gang(2), (wide, ()), (DEAR, ())) == [1, 0]


def test_room_that_a_gang_leaves_on_a_node_on_its_way_is_filled_before_another_is_begun() -> None:
    pairs = replace(DEAR, resources={GPU: 2})
    gang = a_gang(1, priority=9, node_selector={"pool": "dear"})
    assert taken([*gang, a_pod("single")], (CHEAP, coming(1)), (pairs, coming(1, "d"))) == [set(), {"d0"}]


def test_two_gangs_take_usable_nodes_rather_than_those_on_their_way() -> None:
    both = [*a_gang(2), *a_gang(2, "h")]
    assert taken(both, (CHEAP, coming(2)), (DEAR, idle(4))) == [set(), {"n0", "n1", "n2", "n3"}]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_gang_that_scattered_room_does_not_hold_begins_no_node_where_another_pool_has_room(swapped: bool) -> None:
    pairs: dict[str, Any] = {"allocatable": {GPU: 2}}
    stays: dict[str, Any] = {"phase": PodPhase.RUNNING, "owner": "ReplicaSet/web"}
    held = [
        node for n in range(4) for node in idle(1, f"s{n}", idle_since=None, pods=(a_pod(f"on{n}", **stays),), **pairs)
    ]
    first, second = (replace(pool, resources={GPU: 2}) for pool in ((DEAR, CHEAP) if swapped else (CHEAP, DEAR)))
    there = ((first, [*held, *coming(2)]), (second, idle(2, **pairs)))
    assert taken(a_gang(2, gpus=2), *there) == [set(), {"n0", "n1"}]


def test_a_gang_begins_no_more_nodes_than_it_uses() -> None:
    gang = a_gang(2, priority=9, node_selector={"pool": "dear"})
    there = ((CHEAP, coming(1)), (DEAR, coming(3, "d")))
    assert taken([*gang, a_pod("single")], *there) == [{"c0"}, {"d0", "d1"}]


def test_a_bug_in_the_rearranging_is_noted_once_and_costs_a_node_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(_: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(filling._Filling, "saved", raises)
    failures = Failures()
    [found, _] = wanted([a_pod(node_selector={"pool": "cheap"})], (CHEAP, ()), (DEAR, idle(1)), failures=failures)
    assert (found.for_demand, len(failures.all), failures.set_aside) == (1, 1, {})


@pytest.mark.parametrize(("place", "pool"), [(1, 0), (0, 1)], ids=["as many new nodes", "more new nodes"])
def test_another_seating_is_taken_only_if_it_saves_nodes_and_leaves_no_trace_otherwise(
    place: int, pool: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seated(tallies: Sequence[Tally], *_: object) -> Iterator[Seats]:
        """The pod in the other idle node, or in a new one of the other pool."""
        [given] = tallies[0].given
        room = tallies[0].bins[1] if pool == 0 else tallies[1].new_bin()
        yield [(given.workload, (Room(room, pool, place, {}),))]

    monkeypatch.setattr("receiver.core.scaling.assign.rearranged", seated)
    floor = replace(DEAR, min_nodes=1)
    states = a_state(*idle(2), pool=CHEAP.id), a_state(pool=DEAR.id)
    policy = a_policy(CHEAP, floor, limits=Limits(max_growth_per_hour=1))
    pools = assign(facts(*states, waiting=[a_pod()]), policy).pools
    assert pools[CHEAP.id].needed == {"i-n0"}
    assert (pools[DEAR.id].for_demand, pools[DEAR.id].for_floor, pools[DEAR.id].within_limits) == (0, 1, 1)
