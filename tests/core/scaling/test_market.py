"""Where a new node is bought: what it would be used for counts, and what the last node there turned out to be."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Decision
from receiver.core.model.pods import Pod, Preference, Requirement
from receiver.core.model.policy import Objective, Pool, Taint
from tests.core.builders import GPU, a_pod, a_policy, a_pool, a_silence, a_state, an_offer, facts, run
from tests.core.worlds import LAWS

PASSING = Taint(key="node.kubernetes.io/unschedulable")
FOREIGN = Taint(key="maintenance")


def a_wish(kind: str, weight: int) -> Preference:
    return Preference(weight=weight, term=(Requirement(key="kind", operator="In", values=(kind,)),))


def a_kind(name: str, price: str | None, gpus: int = 1, **changes: Any) -> Pool:
    usd = None if price is None else Decimal(price)
    given = {"resources": {GPU: gpus}, "price_usd_per_hour": usd, "labels": {"kind": name}, "max_nodes": 99}
    return a_pool(name, **{**given, **changes})


def bought(pools: Sequence[Pool], *waiting: Pod) -> dict[str, int]:
    """New nodes by pool, where there is none yet and nothing is kept warm."""
    decisions: dict[str, Decision] = run(
        facts(*(a_state(pool=p.id) for p in pools), waiting=waiting), a_policy(*pools, objective=Objective.COST)
    )[1]
    return {name: d.target for name, d in decisions.items() if d.target}


# --- which pool is cheapest -------------------------------------------------------------------------------


def test_gpus_that_nobody_waits_for_do_not_make_a_node_cheap() -> None:
    pools = [a_kind("small", "2"), a_kind("large", "8", gpus=8)]
    assert bought(pools, a_pod()) == {"small": 1}
    assert bought(pools, *(a_pod(f"p{n}") for n in range(5))) == {"large": 1}


def test_pods_of_other_pools_do_not_make_a_node_cheap() -> None:
    pools = [a_kind("small", "2"), a_kind("large", "8", gpus=8)]
    others = (a_pod(f"p{n}", node_selector={"kind": "small"}) for n in range(5))
    assert bought(pools, a_pod("any"), *others) == {"small": 6}


def test_the_larger_of_those_that_wait_are_counted_first() -> None:
    """A node of four holds the pods of one and of three: 7 USD for four GPUs, not for two."""
    pools = [a_kind("four", "7", gpus=4), a_kind("three", "6", gpus=3)]
    assert bought(pools, a_pod("a"), a_pod("b"), a_pod("c", 3)) == {"four": 1, "three": 1}


def test_with_all_else_alike_the_cheaper_full_node_wins_then_the_name() -> None:
    assert bought([a_kind("b", "1"), a_kind("a", "2", gpus=4)], a_pod()) == {"b": 1}
    assert bought([a_kind("b", "2"), a_kind("a", "2", gpus=4)], a_pod()) == {"a": 1}
    assert bought([a_kind("b", "2"), a_kind("a", "2")], a_pod()) == {"a": 1}


def test_a_pool_without_a_price_comes_last() -> None:
    pools = [a_kind("a", None), a_kind("b", "99")]
    assert bought(pools, a_pod()) == {"b": 1}
    held = facts(a_state(pool="a-id"), a_state(pool="b-id", silence=a_silence()), waiting=[a_pod()])
    assert run(held, a_policy(*pools))[1]["b"].deciding.rule == "not_silenced"  # it is b that is asked


@pytest.mark.parametrize("gang", [None, "ml/train"])
def test_what_the_pods_prefer_goes_before_the_price(gang: str | None) -> None:
    pools = [a_kind("cheap", "1"), a_kind("dear", "9")]
    pods = [a_pod(f"p{n}", gang=gang, preferred=(a_wish("dear", 1),)) for n in range(2)]
    assert bought(pools, *pods) == {"dear": 2}


def test_the_heavier_wish_wins() -> None:
    wishes = (a_wish("a", 10), a_wish("b", 20))
    assert bought([a_kind("a", "1"), a_kind("b", "1")], a_pod(preferred=wishes)) == {"b": 1}


def test_a_gang_is_priced_by_the_nodes_that_it_fills() -> None:
    pools = [a_kind("large", "8", gpus=8), a_kind("small", "2")]

    def gang(size: int) -> list[Pod]:
        return [a_pod(f"p{n}", gang="ml/train") for n in range(size)]

    assert bought(pools, *gang(3)) == {"small": 3}
    assert bought(pools, *gang(5)) == {"large": 1}


@LAWS
@given(
    pods=st.integers(0, 20),
    gpus=st.integers(1, 8),
    cents=st.tuples(st.integers(1, 400), st.integers(1, 3200)),
)
def test_each_new_node_is_the_cheapest_per_gpu_that_is_used_of_it(pods: int, gpus: int, cents: tuple[int, int]) -> None:
    """A focused law: pods of one GPU, a pool of one-GPU nodes and one of larger ones."""
    small, large = cents
    expected = {"small": 0, "large": 0}
    left = pods
    while left > 0:
        used = min(gpus, left)
        # Where a used GPU costs the same, the full node's price per GPU decides, then the name.
        one_of_many = Decimal(large) / used, Decimal(large) / gpus, "large"
        name = min(one_of_many, (Decimal(small), Decimal(small), "small"))[2]
        expected[name] += 1
        left -= used if name == "large" else 1
    pools = [a_kind("large", f"{large / 100:.2f}", gpus=gpus), a_kind("small", f"{small / 100:.2f}")]
    found = bought(pools, *(a_pod(f"p{n:02}") for n in range(pods)))
    assert {name: found.get(name, 0) for name in expected} == expected


def test_work_goes_to_another_pool_where_the_last_node_did_not_fit() -> None:
    cheap, dear = a_kind("cheap", "1"), a_kind("dear", "9")
    states = a_state(pool="cheap-id", offer=an_offer(cheap, taints=(FOREIGN,))), a_state(pool="dear-id")
    decisions = run(facts(*states, waiting=[a_pod()]), a_policy(cheap, dear))[1]
    assert (decisions["cheap"].target, decisions["dear"].target) == (0, 1)
