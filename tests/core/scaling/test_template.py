"""What the next node of a pool will be like: by what a node showed when it was new, whatever people did to it later."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.model import CordonedBy, Node, Offer, Stage
from receiver.core.model.pods import Pod, Preference, Requirement, Toleration
from receiver.core.model.policy import POOL_LABEL, STARTUP_TAINTS, Pool, Taint
from receiver.core.scaling.demand import misfit, preference
from receiver.core.scaling.template import OWN, SETTLED_AFTER, NextLabels, is_believed, offer_of, refuses
from tests.core.builders import (
    DAY,
    GPU,
    HOUR,
    MINUTE,
    NOW,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_state,
    an_offer,
    facts,
    run,
    with_fields,
)
from tests.core.worlds import LAWS

FOREIGN = Taint(key="maintenance", value="true")
STARTS = Taint(key="readiness.k8s.io/gpu", value="pending")
POOL = a_pool(labels={"gpu": "on-demand"}, taints=(Taint(key="nvidia.com/gpu", value="present"),))
TOLERATES = (Toleration(key="nvidia.com/gpu", operator="Exists"),)
POD = a_pod(node_selector={"gpu": "on-demand"}, tolerations=TOLERATES)


def a_new(name: str = "n1", since: datetime = NOW, **changes: Any) -> Node:
    """A node of `POOL` as it is made, created ten minutes before it became usable at *since*."""
    given: dict[str, Any] = {
        "created_at": since - 10 * MINUTE,
        "seen_since": since - 10 * MINUTE,
        "usable_since": since,
        "labels": {**POOL.offered_labels, "kubernetes.io/hostname": name},
        "taints": POOL.taints,
    }
    return a_node(name, **{**given, **changes})


def an_old(name: str = "n1", **changes: Any) -> Node:
    """A node that was usable for three hours when it was first seen, now."""
    return a_new(name, **{"created_at": NOW - 3 * HOUR, "seen_since": NOW, "usable_since": NOW, **changes})


def look(
    nodes: Sequence[Node], at: datetime = NOW, before: Offer | None = None, pool: Pool = POOL
) -> Offer | None:  # fmt: skip
    return offer_of(pool, nodes, before, at, STARTUP_TAINTS)


# --- the template is what a node showed when it was new ------------------------------------------------------


def test_the_newest_new_node_says_what_the_next_one_is_like() -> None:
    passing = Taint(key="node.kubernetes.io/unschedulable")
    nodes = [
        a_new("older", NOW - MINUTE, labels={"is": "first"}),
        a_new("newer", NOW, labels={"is": "second"}, taints=(passing, FOREIGN)),
        a_new("unlabelled", NOW + MINUTE, labels={}),
        a_new("coming", NOW + MINUTE, stage=Stage.BOOTING),
    ]
    offer = look(nodes)
    assert offer is not None
    assert (offer.node, offer.since, offer.labels, offer.taints) == ("newer", NOW, {"is": "second"}, (FOREIGN,))


def test_a_new_node_is_followed_until_what_belongs_to_it_is_there() -> None:
    first = look([a_new(labels={POOL_LABEL: POOL.id})])
    complete = a_new(taints=(FOREIGN,))
    settled = look([complete], NOW + SETTLED_AFTER, first)
    assert settled is not None
    assert (settled.labels["gpu"], settled.taints) == ("on-demand", (FOREIGN,))


def test_a_late_look_at_a_new_node_counts_where_it_shows_what_is_configured() -> None:
    early = look([a_new(labels={POOL_LABEL: POOL.id})])
    assert misfit(POD, POOL, early) is not None
    assert misfit(POD, POOL, look([a_new()], NOW + HOUR, early)) is None
    for odd in (tainted(a_new()), labelled(gpu="reserved")(a_new())):
        assert misfit(POD, POOL, look([odd], NOW + HOUR, look([a_new()]))) is None


def test_a_node_whose_pool_label_is_late_is_followed_until_it_comes() -> None:
    offer = look([a_new(labels={"kubernetes.io/os": "linux"})])
    for late in (5 * MINUTE, 6 * MINUTE):
        offer = look([a_new(labels={"kubernetes.io/os": "linux"})], NOW + late, offer)
        assert misfit(POD, POOL, offer) is not None
    offer = look([a_new()], NOW + 7 * MINUTE, offer)
    assert misfit(POD, POOL, offer) is None
    again = look([a_new(labels={**POOL.offered_labels, "gpu": "reserved"})], NOW + 8 * MINUTE, offer)
    assert misfit(POD, POOL, again) is None


def test_a_gpu_that_one_node_lost_is_not_missing_on_the_next() -> None:
    pool = a_pool(resources={GPU: 4})
    whole, broken = an_old("whole", allocatable={GPU: 4}, created_at=NOW - DAY), an_old("broken", allocatable={GPU: 3})
    seen = look([whole, broken], pool=pool)
    assert seen is not None
    assert seen.allocatable == {GPU: 4}
    later = look([broken], before=seen, pool=pool)
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
    seen = look([a_new(labels={"kubernetes.io/os": "linux"})])
    assert seen is not None  # while it is there no second one is bought beside it
    assert look([], before=seen) is None


def test_a_template_refuses_for_a_day_and_then_the_configuration_gets_another_chance() -> None:
    node = a_new(taints=(*POOL.taints, FOREIGN))
    offer = look([node])
    for at, refused in ((NOW + DAY, True), (NOW + DAY + MINUTE, False)):
        seen = look([node], at, offer)
        assert (misfit(POD, POOL, seen) is not None) is refused


@pytest.mark.parametrize(
    ("changes", "applied", "fits"),
    [
        pytest.param({}, False, True, id="it came as configured"),
        pytest.param({"labels": {}}, False, False, id="its label is missing"),
        pytest.param({"labels": {}}, True, True, id="its label is missing and we put it on"),
        pytest.param({"labels": {"kind": "other"}}, True, True, id="its label differs and we replace it"),
        pytest.param({"taints": (FOREIGN,)}, False, False, id="it carries a taint that is not configured"),
        pytest.param({"taints": (FOREIGN,)}, True, False, id="and keeps it beside those that we put on"),
        pytest.param({"taints": (Taint(key="gpu", value="old"),)}, False, False, id="its taint has another value"),
        pytest.param({"taints": (Taint(key="gpu", value="old"),)}, True, True, id="which we replace"),
        pytest.param({"allocatable": {GPU: 1}}, True, False, id="a GPU is missing, which cannot be put on"),
    ],
)
def test_what_we_put_on_nodes_is_not_held_against_them(changes: dict[str, Any], applied: bool, fits: bool) -> None:
    taints = (Taint(key="gpu", value="new"),)
    pool = a_pool(resources={GPU: 2}, labels={"kind": "l40s"}, taints=taints, apply_to_nodes=applied)
    tolerations = (Toleration(key="gpu", operator="Equal", value="new"),)
    pod = a_pod(gpus=2, node_selector={"kind": "l40s"}, tolerations=tolerations)
    offer = an_offer(pool, **changes)
    why = misfit(pod, pool, offer)
    assert (why is None) is fits
    assert fits or str(why).startswith("node n0 shows otherwise than configured: ")
    decisions = run(facts(a_state(pool=pool.id, offer=offer), waiting=[pod]), a_policy(pool))[1]
    assert decisions["l40s"].target == (1 if fits else 0)


def test_a_configured_taint_that_no_new_node_has_keeps_no_pod_away() -> None:
    pod = a_pod(node_selector={"gpu": "on-demand"})
    assert misfit(pod, POOL) == "it does not tolerate the taint nvidia.com/gpu=present:NoSchedule"
    assert misfit(pod, POOL, look([a_new(taints=())])) is None


# --- what people do to a node later says nothing about the next one ------------------------------------------


def tainted(node: Node) -> Node:
    return replace(node, taints=(*node.taints, FOREIGN))


def labelled(**labels: str | None) -> Any:
    def changed(node: Node) -> Node:
        found = {**node.labels, **labels}
        return replace(node, labels={key: value for key, value in found.items() if value is not None})

    return changed


BY_PEOPLE = {
    "tainted": tainted,
    "tainted so that pods are evicted": lambda n: replace(n, taints=(*n.taints, replace(FOREIGN, effect="NoExecute"))),
    "a soft taint": lambda n: replace(n, taints=(*n.taints, replace(FOREIGN, effect="PreferNoSchedule"))),
    "by Cluster Autoscaler": lambda n: replace(n, taints=(*n.taints, Taint(key="ToBeDeletedByClusterAutoscaler"))),
    "the configured taint with another value": lambda n: replace(n, taints=(Taint(key="nvidia.com/gpu", value="no"),)),
    "relabelled": labelled(gpu="reserved"),
    "label removed": labelled(gpu=None),
    "pool label removed": labelled(**{POOL_LABEL: None}),
    "role added": labelled(**{"node-role.kubernetes.io/reserved": ""}),
    "cordoned": lambda n: with_fields(
        n, cordoned_by=CordonedBy.SOMEONE, taints=(*n.taints, Taint(key="node.kubernetes.io/unschedulable"))
    ),
    "driver upgrade": labelled(**{"nvidia.com/gpu-driver-upgrade-state": "cordon-required"}),
    "startup taint again": lambda n: replace(n, taints=(*n.taints, STARTS), startup_taint=STARTS.key),
}
CORRECTED = replace(POOL, resources={GPU: 1, "nvidia.com/mig-1g.10gb": 0})  # another fingerprint, the same nodes


@pytest.mark.parametrize("change", BY_PEOPLE.values(), ids=BY_PEOPLE.keys())
@pytest.mark.parametrize("which", ["only", "newest", "oldest", "all"])
@pytest.mark.parametrize("seen_new", [True, False], ids=["seen when new", "old when first seen"])
@pytest.mark.parametrize("gone", [False, True], ids=["alive", "gone"])
@pytest.mark.parametrize("configuration", ["the same", "changed since"])
def test_no_change_to_a_node_keeps_its_pool_from_growing(
    change: Any, which: str, seen_new: bool, gone: bool, configuration: str
) -> None:
    make = a_new if seen_new else an_old
    nodes = [make("a0")] if which == "only" else [make("a0", created_at=NOW - 5 * HOUR), make("b0")]
    offer = look(nodes)
    hit = {"only": {"a0"}, "oldest": {"a0"}, "newest": {"b0"}, "all": {"a0", "b0"}}[which]
    nodes = [change(node) if node.name in hit else node for node in nodes]
    offer = look(nodes, NOW + HOUR, offer)
    pool = POOL if configuration == "the same" else CORRECTED
    if gone:
        nodes = [node for node in nodes if node.name not in hit]
    for hours in (2, 3):
        offer = look(nodes, NOW + hours * HOUR, offer, pool)
        assert misfit(POD, pool, offer) is None


@pytest.mark.parametrize("change", [tainted, labelled(gpu="reserved"), labelled(gpu=None)])
@pytest.mark.parametrize("count", [1, 2])
def test_nodes_that_were_changed_before_the_first_look_refuse_no_pod(change: Any, count: int) -> None:
    """A roll taints all old nodes, so that the pool grows: `maintenance` on each is not the pool's either."""
    offer = look([change(an_old(f"n{i}")) for i in range(count)])
    assert misfit(POD, POOL, offer) is None
    assert not refuses(offer)


def test_a_node_that_worked_while_kubernetes_did_not_answer_is_no_new_one() -> None:
    for bound, refused in ((NOW - SETTLED_AFTER, True), (NOW - SETTLED_AFTER - MINUTE, False)):
        offer = look([tainted(a_new(pods=(a_pod("works", node="n1", bound_at=bound),)))])
        assert refuses(offer) is refused


def test_a_label_that_a_person_adds_later_buys_no_node() -> None:
    pod = a_pod(node_selector={"gpu": "on-demand", "team": "vision"}, tolerations=TOLERATES)
    for node in (a_new(), an_old()):
        offer = look([labelled(team="vision")(node)], NOW + HOUR, look([node]))
        assert misfit(pod, POOL, offer) == "its node selector wants team=vision, nodes carry no team"


def test_a_label_of_one_of_several_old_nodes_is_not_the_pools() -> None:
    pod = a_pod(node_selector={"team": "vision"}, tolerations=TOLERATES)
    one, both = [labelled(team="vision")(an_old("n1")), an_old("n2")], [labelled(team="vision")(an_old("n1"))] * 2
    assert misfit(pod, POOL, look(one)) is not None
    assert misfit(pod, POOL, look(both)) is None


KEYS, VALUES = st.sampled_from(["gpu", "team", POOL_LABEL, "zone"]), st.sampled_from(["on-demand", "x"])
SOFT = Taint(key="soft", effect="PreferNoSchedule")
SHOWN = st.builds(
    lambda labels, taints: {"labels": {**POOL.offered_labels, **labels}, "taints": tuple(taints)},
    st.dictionaries(KEYS, VALUES),
    st.lists(st.sampled_from([*POOL.taints, FOREIGN, STARTS, SOFT]), unique=True),
)
PODS = st.builds(
    lambda selector, tolerates: a_pod(node_selector=selector, tolerations=tuple(tolerates)),
    st.dictionaries(KEYS, VALUES, max_size=2),
    st.lists(st.sampled_from([*TOLERATES, Toleration(key=FOREIGN.key, operator="Exists")]), unique=True),
)


@LAWS
@given(SHOWN, st.lists(SHOWN, min_size=1, max_size=4), st.booleans(), PODS)
def test_no_change_to_a_settled_node_changes_what_is_refused(
    first: dict[str, Any], later: list[dict[str, Any]], goes: bool, pod: Pod
) -> None:
    first = {**first, "labels": {**first["labels"], POOL_LABEL: POOL.id}}  # Civo's agent has seen it
    node = a_new(labels=first["labels"], taints=first["taints"])
    at = NOW + SETTLED_AFTER
    offer = look([node], at, look([node]))
    why = misfit(pod, POOL, offer)
    for shown in later:
        at += MINUTE
        offer = look([replace(node, labels=shown["labels"], taints=shown["taints"])], at, offer)
        assert misfit(pod, POOL, offer) == why
    if goes:
        assert misfit(pod, POOL, look([], at + HOUR, offer)) == why


# --- odd nodes ------------------------------------------------------------------------------------------------

ODD = (
    pytest.param({"labels": {POOL_LABEL: POOL.id}}, id="without labels"),
    pytest.param({"labels": {**POOL.offered_labels, "gpu": "other"}}, id="with another value of one"),
    pytest.param({"taints": (FOREIGN,)}, id="with a taint that is not configured"),
    pytest.param({"taints": (Taint(key="team", effect="NoExecute"), FOREIGN)}, id="with two"),
)


def in_a_row(nodes: Iterable[Node]) -> Offer | None:
    offer: Offer | None = None
    there: list[Node] = []
    for node in nodes:
        there.append(node)
        offer = look(there, node.times.usable_since or NOW, offer)
    return offer


@pytest.mark.parametrize("odd", ODD)
def test_one_odd_node_refuses_no_pod_and_two_in_a_row_do(odd: dict[str, Any]) -> None:
    sound, one, two = a_new("a0", NOW - HOUR), a_new("b0", NOW, **odd), a_new("c0", NOW + HOUR, **odd)
    assert misfit(POD, POOL, in_a_row([one])) is not None
    assert misfit(POD, POOL, in_a_row([sound, one])) is None
    assert misfit(POD, POOL, in_a_row([sound, one, two])) is not None
    state = a_state(pool=POOL.id, offer=in_a_row([sound, one]))
    assert run(facts(state, waiting=[POD]), a_policy(POOL))[1]["l40s"].target == 1


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("health", [{}, {"sick": "XID 79", "sick_since": NOW}], ids=["well", "sick"])
def test_one_odd_node_refuses_no_pod_beside_an_old_one_that_is_as_configured(
    odd: dict[str, Any], health: dict[str, Any]
) -> None:
    offer = look([an_old("a0", **health), a_new("b0", **odd)])
    assert misfit(POD, POOL, offer) is None
    assert misfit(POD, POOL, look([], NOW + HOUR, offer)) is None


@pytest.mark.parametrize("odd", ODD)
def test_of_nodes_that_come_together_one_odd_one_refuses_no_pod(odd: dict[str, Any]) -> None:
    together = [a_new("a0", NOW - MINUTE), a_new("b0", NOW, **odd)]
    offer = look(together)
    assert misfit(POD, POOL, offer) is None
    assert misfit(POD, POOL, look(together, NOW + HOUR, offer)) is None


def test_the_first_node_of_a_day_is_not_excused_by_one_that_was_odd_before_it() -> None:
    odd = {"taints": (FOREIGN,)}
    assert misfit(POD, POOL, in_a_row([a_new("a0", NOW, **odd), a_new("b0", NOW + 2 * DAY, **odd)])) is not None


def test_a_node_with_a_startup_taint_shows_nothing_yet() -> None:
    starting = a_new("b0", taints=(STARTS,), startup_taint=STARTS.key)
    assert look([starting]) is None
    assert look([a_new("a0"), starting]) == look([a_new("a0")])
    before = an_offer(POOL, node="before")
    assert look([starting], before=before) == before


@pytest.mark.parametrize("changes", [{"sick": "XID 79", "sick_since": NOW}, {"sick_since": NOW - 5 * MINUTE}])
def test_a_node_that_is_sick_or_was_a_moment_ago_shows_nothing_of_the_next(changes: dict[str, Any]) -> None:
    assert look([a_new("a0", taints=(FOREIGN,), **changes)]) is None


def test_a_taint_that_counts_as_startup_taint_since_refuses_no_pod() -> None:
    stored = an_offer(POOL, taints=(*POOL.taints, STARTS, FOREIGN))
    found = look([], before=stored)
    assert found is not None
    assert found.taints == (*POOL.taints, FOREIGN)


def test_a_status_taint_says_nothing_of_the_next_node() -> None:
    status = Taint(key="status-taint.cluster-autoscaler.kubernetes.io/upgrade")
    found = look([a_new("a0", taints=(status, FOREIGN))])
    assert found is not None
    assert found.taints == (FOREIGN,)


# --- labels fit as well as refuse -----------------------------------------------------------------------------

PRODUCT, REGION = "nvidia.com/gpu.product", "topology.kubernetes.io/region"
SEEN = {**POOL.offered_labels, PRODUCT: "NVIDIA-L40S-SHARED", REGION: "LON1"}


@pytest.mark.parametrize("node", [a_new(labels=SEEN), an_old(labels=SEEN)], ids=["new", "old"])
def test_labels_of_a_node_that_are_not_configured_let_a_pod_fit(node: Node) -> None:
    pod = a_pod(node_selector={PRODUCT: "NVIDIA-L40S-SHARED", REGION: "LON1"}, tolerations=TOLERATES)
    offer = look([node])
    assert misfit(pod, POOL, offer) is None
    decisions = run(facts(a_state(pool=POOL.id, offer=offer), waiting=[pod]), a_policy(POOL))[1]
    assert decisions["l40s"].target == 1


def test_preferred_labels_of_nodes_count_as_well() -> None:
    wish = Preference(weight=7, term=(Requirement(key=REGION, operator="In", values=("LON1",)),))
    pod = a_pod(preferred=(wish,))
    assert (preference(pod, POOL, None), preference(pod, POOL, look([an_old(labels=SEEN)]))) == (0, 7)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kubernetes.io/hostname", "k3s-l40s-pool-1a2b"),
        ("k3s.io/hostname", "anything"),
        ("topology.csi.example.com/node", "k3s-l40s-pool-1a2b"),
        ("example.com/disk-of", "disk-k3s-l40s-pool-1a2b-0"),
        ("example.com/machine", "0f6d8a35-6a0c-4b4e-9d43-7f5a5a0a1c11"),
        ("example.com/address", "10.0.0.7"),
    ],
)
def test_a_pod_that_selects_one_node_buys_no_other(key: str, value: str) -> None:
    node = a_new("k3s-l40s-pool-1a2b", labels={**POOL.offered_labels, key: value})
    offer = look([node])
    why = misfit(a_pod(node_selector={key: value}, tolerations=TOLERATES), POOL, offer)
    assert why == f"its node selector wants {key}={value}, nodes carry {key}={OWN}"
    for operator in ("Exists", "NotIn"):
        affinity = ((Requirement(key=key, operator=operator, values=() if operator == "Exists" else (value,)),),)
        assert misfit(a_pod(affinity=affinity, tolerations=TOLERATES), POOL, offer) is None


def test_ids_of_the_pool_and_of_the_cluster_are_no_nodes_own() -> None:
    cluster = "c0ffee00-6a0c-4b4e-9d43-7f5a5a0a1c11"
    pool = a_pool(id="5f3c0000-0000-4000-8000-0000000000b1")
    labels = {**pool.offered_labels, "kubernetes.civo.com/cluster-id": cluster}
    first, second = a_new("k3s-l40s-pool-1a2b", labels=labels), a_new("k3s-l40s-pool-3c4d", labels=labels)
    for key in (POOL_LABEL, "kubernetes.civo.com/cluster-id"):
        nodes = [first] if key == POOL_LABEL else [first, second]
        offer = look(nodes, pool=pool)
        assert misfit(a_pod(node_selector={key: labels[key]}, tolerations=TOLERATES), pool, offer) is None


def test_what_is_possible_of_a_pool_without_nodes_is_what_its_size_and_region_say() -> None:
    pool = a_pool(size="g4g.kube.small", region="lon1")
    labels = NextLabels(pool, None)
    assert labels.values(PRODUCT) == ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe")
    assert labels.values(REGION) == ("lon1", "LON1")
    assert labels.values("beta.kubernetes.io/instance-type") == ("g4g.kube.small",)
    assert labels.values("topology.kubernetes.io/zone") == ()
    for product, fits in (("NVIDIA-A100-80GB-PCIe", True), ("NVIDIA-A100-SXM4-80GB", True), ("NVIDIA-L40S", False)):
        assert (misfit(a_pod(node_selector={PRODUCT: product}), pool) is None) is fits


def test_configured_labels_outrank_what_the_size_says() -> None:
    pool = a_pool(labels={PRODUCT: "mine"})
    assert NextLabels(pool, None).values(PRODUCT) == ("mine",)
    assert NextLabels(pool, look([an_old(labels=SEEN)], pool=pool)).values(PRODUCT) == ("mine",)
    new = look([a_new(labels=SEEN)], pool=pool)
    assert NextLabels(pool, new).values(PRODUCT) == ("NVIDIA-L40S-SHARED",)


def test_a_refused_pod_is_told_every_possible_value() -> None:
    why = misfit(a_pod(node_selector={PRODUCT: "x"}), a_pool(size="g4g.kube.small"))
    assert why is not None
    assert why.endswith(f"nodes carry {PRODUCT}=NVIDIA-A100-SXM4-80GB or NVIDIA-A100-80GB-PCIe")
