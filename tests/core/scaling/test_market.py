"""Where a new node is bought: what it would be used for counts, and what the last node there turned out to be."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.actions import Decision
from receiver.core.model.model import Node, Stage
from receiver.core.model.pods import Pod, Preference, Requirement, Toleration
from receiver.core.model.policy import POOL_LABEL, STARTUP_TAINTS, Objective, Pool, Taint
from receiver.core.scaling.demand import disproof, is_believed, offer_of
from tests.core.builders import GPU, NOW, a_node, a_pod, a_policy, a_pool, a_silence, a_state, an_offer, facts, run
from tests.core.worlds import LAWS

DAY = timedelta(hours=24)
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


# --- what a node that came shows --------------------------------------------------------------------------


def test_the_newest_usable_node_says_what_the_next_one_is_like() -> None:
    pool = a_pool()
    nodes = [
        a_node("old", labels={"is": "old"}, created_at=NOW - timedelta(hours=2)),
        a_node("new", labels={"is": "new"}, created_at=NOW - timedelta(hours=1), taints=(PASSING, FOREIGN)),
        a_node("unlooked", created_at=NOW),
        a_node("coming", labels={"is": "coming"}, created_at=NOW, stage=Stage.BOOTING),
    ]
    offer = offer_of(pool, nodes, None, NOW)
    assert offer is not None
    assert (offer.node, offer.at, offer.labels, offer.taints) == ("new", NOW, {"is": "new"}, (FOREIGN,))


def test_a_gpu_that_one_node_lost_is_not_missing_on_the_next() -> None:
    pool = a_pool(resources={GPU: 4})
    whole = a_node("whole", labels={"a": "b"}, allocatable={GPU: 4}, created_at=NOW - DAY)
    broken = a_node("broken", labels={"a": "b"}, allocatable={GPU: 3})
    seen = offer_of(pool, [whole, broken], None, NOW)
    assert seen is not None
    assert (seen.node, seen.allocatable) == ("broken", {GPU: 4})
    later = offer_of(pool, [broken], seen, NOW)
    assert later is not None
    assert later.allocatable == {GPU: 4}


@pytest.mark.parametrize(
    ("changes", "age", "believed"),
    [
        pytest.param({}, DAY, True, id="for a day"),
        pytest.param({}, DAY + timedelta(microseconds=1), False, id="not for longer"),
        pytest.param({}, -timedelta(microseconds=1), False, id="not when seen in the future"),
        pytest.param({"size": "other"}, DAY, False, id="not of another size"),
        pytest.param({"resources": {GPU: 2}}, DAY, False, id="not with other GPUs configured"),
        pytest.param({"labels": {"a": "b"}}, DAY, False, id="not with other labels configured"),
        pytest.param({"taints": (FOREIGN,)}, DAY, False, id="not with other taints configured"),
        pytest.param({"apply_to_nodes": True}, DAY, False, id="not once we put them on ourselves"),
        pytest.param({"max_nodes": 1}, DAY, True, id="whatever the bounds are"),
    ],
)
def test_what_a_node_showed_outlives_it(changes: dict[str, Any], age: timedelta, believed: bool) -> None:
    offer, pool = an_offer(a_pool()), a_pool(**changes)
    assert is_believed(offer, pool, NOW + age) is believed
    assert (offer_of(pool, [], offer, NOW + age) == offer) is believed


def test_what_a_node_showed_before_civo_labelled_it_does_not_outlive_it() -> None:
    pool = a_pool()
    bare = a_node("bare", labels={"kubernetes.io/os": "linux"})
    seen = offer_of(pool, [bare], None, NOW)
    assert seen is not None  # while it is there no second one is bought beside it
    assert offer_of(pool, [], seen, NOW) is None


@pytest.mark.parametrize(
    ("changes", "applied", "fits"),
    [
        pytest.param({}, False, True, id="it came as configured"),
        pytest.param({"labels": {}}, False, False, id="its label is missing"),
        pytest.param({"labels": {}}, True, True, id="its label is missing and we put it on"),
        pytest.param({"labels": {"kind": "other"}}, True, True, id="its label differs and we replace it"),
        pytest.param({"taints": (FOREIGN,)}, False, False, id="it carries a taint that nobody configured"),
        pytest.param({"taints": (FOREIGN,)}, True, False, id="and keeps it beside those that we put on"),
        pytest.param({"taints": (Taint(key="gpu", value="old"),)}, False, False, id="its taint has another value"),
        pytest.param({"taints": (Taint(key="gpu", value="old"),)}, True, True, id="which we replace"),
        pytest.param({"allocatable": {GPU: 1}}, True, False, id="a GPU is missing, which nobody can put on"),
    ],
)
def test_what_we_put_on_nodes_is_not_held_against_them(changes: dict[str, Any], applied: bool, fits: bool) -> None:
    pool = a_kind("l40s", "1", gpus=2, taints=(Taint(key="gpu", value="new"),), apply_to_nodes=applied)
    pod = a_pod(
        gpus=2, node_selector={"kind": "l40s"}, tolerations=(Toleration(key="gpu", operator="Equal", value="new"),)
    )
    why = disproof(pod, pool, an_offer(pool, **changes))
    assert (why is None) is fits
    assert fits or str(why).startswith("node n0 shows otherwise than configured: ")
    state = a_state(pool=pool.id, offer=an_offer(pool, **changes))
    assert run(facts(state, waiting=[pod]), a_policy(pool))[1]["l40s"].target == (1 if fits else 0)


def test_before_any_node_came_the_configuration_is_believed() -> None:
    assert disproof(a_pod(gpus=9), a_pool(), None) is None


def a_living(name: str, **changes: Any) -> Node:
    """A usable node with the labels of a configured one; the higher its name, the newer it is."""
    return a_node(name, **{"labels": a_kind("l40s", "1").offered_labels, **changes})


ODD = (
    pytest.param({"labels": {"kubernetes.io/os": "linux"}}, id="without labels"),
    pytest.param({"labels": {**a_kind("l40s", "1").offered_labels, "kind": "other"}}, id="with another value of one"),
    pytest.param({"taints": (FOREIGN,)}, id="with a taint that nobody configured"),
    pytest.param({"taints": (Taint(key="team", effect="NoExecute"), FOREIGN)}, id="with two"),
)


@pytest.mark.parametrize("odd", ODD)
def test_one_odd_node_disproves_no_pool_while_another_shows_otherwise(odd: dict[str, Any]) -> None:
    pool, pod = a_kind("l40s", "1"), a_pod(node_selector={"kind": "l40s"})
    older, newest = a_living("a"), a_living("b", **odd)
    alone, both = (offer_of(pool, nodes, None, NOW) for nodes in ([newest], [older, newest]))
    assert disproof(pod, pool, alone) is not None
    assert disproof(pod, pool, both) is None
    for offer, target in ((alone, 0), (both, 1)):
        state = a_state(pool=pool.id, offer=offer)
        assert run(facts(state, waiting=[pod]), a_policy(pool))[1]["l40s"].target == target


STARTS = Taint(key="readiness.k8s.io/gpu", value="pending")


def test_a_node_with_a_startup_taint_shows_nothing_yet() -> None:
    pool = a_kind("l40s", "1")
    starting = a_living("b", taints=(STARTS,), startup_taint=STARTS.key)
    assert offer_of(pool, [starting], None, NOW, STARTUP_TAINTS) is None
    with_another = offer_of(pool, [a_living("a"), starting], None, NOW, STARTUP_TAINTS)
    assert with_another == offer_of(pool, [a_living("a")], None, NOW, STARTUP_TAINTS)
    before = an_offer(pool, node="before")
    assert offer_of(pool, [starting], before, NOW, STARTUP_TAINTS) == before


@pytest.mark.parametrize("changes", [{"sick": "XID 79", "sick_since": NOW}, {"sick_since": NOW - timedelta(minutes=5)}])
def test_a_node_that_is_sick_or_was_a_moment_ago_shows_nothing_of_the_next(changes: dict[str, Any]) -> None:
    pool = a_kind("l40s", "1")
    assert offer_of(pool, [a_living("a", taints=(FOREIGN,), **changes)], None, NOW) is None


def test_a_startup_taint_in_what_an_older_version_stored_is_not_believed() -> None:
    pool = a_kind("l40s", "1")
    stored = an_offer(pool, taints=(STARTS, FOREIGN))
    found = offer_of(pool, [], stored, NOW, STARTUP_TAINTS)
    assert found is not None
    assert found.taints == (FOREIGN,)


def test_a_status_taint_says_nothing_of_the_next_node() -> None:
    pool = a_kind("l40s", "1")
    status = Taint(key="status-taint.cluster-autoscaler.kubernetes.io/upgrade")
    found = offer_of(pool, [a_living("a", taints=(status, FOREIGN))], None, NOW, STARTUP_TAINTS)
    assert found is not None
    assert found.taints == (FOREIGN,)


LABELS = st.dictionaries(st.sampled_from(["kind", POOL_LABEL, "zone"]), st.sampled_from(["l40s", "x"]))
TAINTS = st.lists(st.sampled_from([FOREIGN, STARTS, Taint(key="soft", effect="PreferNoSchedule")]), unique=True)
SHOWN = st.fixed_dictionaries(
    {"labels": LABELS.map(lambda found: {"kubernetes.io/os": "linux", **found}), "taints": TAINTS.map(tuple)}
)


@LAWS
@given(st.lists(SHOWN, min_size=1, max_size=5), st.booleans())
def test_a_pod_that_a_living_node_would_hold_is_never_disproved(shown: list[dict[str, Any]], tolerates: bool) -> None:
    pool = a_kind("l40s", "1")
    nodes = [
        a_living(f"n{i}", startup_taint=STARTS.key if STARTS in each["taints"] else "", **each)
        for i, each in enumerate(shown)
    ]
    tolerations = (Toleration(key=FOREIGN.key, operator="Exists"),) if tolerates else ()
    pod = a_pod(node_selector={"kind": "l40s"}, tolerations=tolerations)
    ready = [replace(n, startup_taint="") for n in nodes]
    alone = [disproof(pod, pool, offer_of(pool, [n], None, NOW, STARTUP_TAINTS)) for n in ready]
    together = disproof(pod, pool, offer_of(pool, nodes, None, NOW, STARTUP_TAINTS))
    assert (together is not None) == (not all(n.startup_taint for n in nodes) and None not in alone)


def test_work_goes_to_another_pool_where_the_last_node_did_not_fit() -> None:
    cheap, dear = a_kind("cheap", "1"), a_kind("dear", "9")
    states = a_state(pool="cheap-id", offer=an_offer(cheap, taints=(FOREIGN,))), a_state(pool="dear-id")
    decisions = run(facts(*states, waiting=[a_pod()]), a_policy(cheap, dear))[1]
    assert (decisions["cheap"].target, decisions["dear"].target) == (0, 1)
