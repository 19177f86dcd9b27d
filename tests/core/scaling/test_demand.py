"""CPU, memory, storage and pod slots beside GPUs: who fits where, what is bought, and that it holds what it is for."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.model import Facts, PoolState, Stage
from receiver.core.model.pods import CPU, GIB, MEMORY, MIB, SLOTS, STORAGE, Pod, PodPhase, allocatable, amount, gpus_in
from receiver.core.model.policy import Policy, Pool
from receiver.core.scaling.assign import assign
from receiver.core.scaling.demand import refusal
from receiver.core.scaling.template import offer_of, room_beside_gpus
from tests.core.builders import GPU, NOW, a_node, a_pod, a_policy, a_pool, a_state, an_offer, facts
from tests.core.worlds import LAWS

EIGHT = a_pool("eights", resources={GPU: 8}, size="an.g1.l40s.kube.x8")
CPUS = 1000  # millicores
ROOM = {CPU: 96 * CPUS, MEMORY: 700 * GIB}


def asking(name: str = "train", cpus: int = 0, gib: int = 0, **changes: Any) -> Pod:
    """A waiting one-GPU pod that asks for so many CPUs and GiB of memory."""
    return a_pod(name, compute={CPU: cpus * CPUS, MEMORY: gib * GIB}, **changes)


def of_eights(*nodes: Any, **changes: Any) -> PoolState:
    """The state of that pool, whose new nodes have 96 CPUs and 700 GiB for pods."""
    return a_state(*nodes, pool=EIGHT.id, **{"compute": ROOM, **changes})


def bought(state: PoolState, *waiting: Pod, pool: Pool = EIGHT) -> int:
    """How many nodes are asked for."""
    return assign(facts(state, waiting=waiting), a_policy(pool)).pools[pool.id].for_demand


def test_a_pod_that_asks_for_more_cpus_than_a_node_has_is_a_misfit_and_buys_nothing() -> None:
    found = assign(facts(of_eights(), waiting=[asking(cpus=300)]), a_policy(EIGHT))
    assert found.pools[EIGHT.id].for_demand == 0
    [misfit] = found.misfits
    assert misfit.detail.endswith("eights: it asks for 300 CPUs, a node offers 96 CPUs")


@pytest.mark.parametrize(
    ("cpus", "gib", "nodes"), [(0, 0, 1), (12, 10, 1), (24, 10, 2), (25, 10, 3), (90, 10, 8), (1, 350, 4)]
)
def test_pods_are_packed_by_what_they_need_most(cpus: int, gib: int, nodes: int) -> None:
    pods = [asking(f"train-{n}", cpus, gib) for n in range(8)]
    assert bought(of_eights(), *pods) == nodes
    together = [replace(pod, gang="ml/train") for pod in pods]
    assert bought(of_eights(), *together) == nodes


def test_where_nothing_is_known_of_a_size_gpus_alone_count() -> None:
    assert bought(of_eights(compute={}), asking(cpus=300)) == 1


def test_what_pods_without_gpus_take_of_a_node_is_not_free() -> None:
    node = a_node(allocatable={GPU: 8}, compute=ROOM, others={CPU: 80 * CPUS})
    assert bought(of_eights(node), asking(cpus=16)) == 0
    assert bought(of_eights(node), asking(cpus=17)) == 1


def test_a_gpu_pod_takes_its_cpus_too() -> None:
    there = asking("there", cpus=90, phase=PodPhase.RUNNING, node="n1")
    node = a_node(allocatable={GPU: 8}, compute=ROOM, pods=(there,), idle_since=None)
    assert bought(of_eights(node), asking(cpus=6)) == 0
    assert bought(of_eights(node), asking(cpus=7)) == 1


def test_a_node_without_a_free_pod_slot_is_full() -> None:
    node = a_node(allocatable={GPU: 8}, compute={SLOTS: 110}, others={SLOTS: 110})
    one = a_pod(compute={SLOTS: 1})
    assert bought(of_eights(node), one) == 1


def test_a_pod_goes_to_the_pool_whose_nodes_hold_it() -> None:
    thin = a_pool("thin", resources={GPU: 8})
    policy, states = a_policy(thin, EIGHT), (a_state(pool=thin.id, compute={CPU: 8 * CPUS}), of_eights())
    found = assign(facts(*states, waiting=[asking(cpus=20)]), policy)
    assert [found.pools[p.id].for_demand for p in policy.pools] == [0, 1]


def test_a_pool_is_as_cheap_as_the_gpus_that_its_cpus_let_be_used() -> None:
    """A GPU of a big node costs less, but each of these pods takes all CPUs of a node, big or small."""
    big = a_pool("big", resources={GPU: 8}, price_usd_per_hour=Decimal("9.60"))
    small = a_pool("small", price_usd_per_hour=Decimal("1.29"))
    states = [a_state(pool=p.id, compute={CPU: 4 * CPUS}) for p in (big, small)]
    for cpus, pools in ((4, [0, 8]), (0, [1, 0])):
        found = assign(facts(*states, waiting=[asking(f"p{n}", cpus) for n in range(8)]), a_policy(big, small))
        assert [found.pools[p.id].for_demand for p in (big, small)] == pools


def test_work_is_moved_only_to_where_its_memory_is_free() -> None:
    said: dict[str, Any] = {"evictable": True, "owner": "ReplicaSet/web", "phase": PodPhase.RUNNING}

    def nodes(free: int) -> PoolState:
        stays = asking("stays", gib=700 - free, node="n1", **{**said, "evictable": False})
        goes = asking("goes", gib=100, node="n2", **said)
        given = {"allocatable": {GPU: 8}, "compute": ROOM, "idle_since": None}
        return of_eights(a_node("n1", pods=(stays,), **given), a_node("n2", pods=(goes,), **given))

    for free, emptied in ((100, {"i-n2"}), (99, set())):
        assert assign(facts(nodes(free)), a_policy(EIGHT)).pools[EIGHT.id].nodes.movable == emptied


# --- what a node offers


def test_the_estimate_is_what_civo_documents() -> None:
    """12 cores: 60 + 10 + 10 + 20 millicores. 96 GiB: 1 + 0.8 + 0.8 + 4.8 GiB and 400 MiB."""
    found = allocatable({CPU: 12 * CPUS, MEMORY: 96 * GIB, STORAGE: 200 * GIB})
    assert found[CPU] == 11_900
    assert found[MEMORY] == pytest.approx(88.6 * GIB - 400 * MIB, abs=2)
    assert found[STORAGE] == 180 * GIB
    assert found[SLOTS] == 110
    assert allocatable({}) == {}


def test_what_the_newest_node_shows_corrects_the_estimate_less_the_share_of_daemon_sets() -> None:
    older = a_node("old", labels={"a": "b"}, compute={CPU: 12 * CPUS}, created_at=NOW.replace(hour=1))
    newer = a_node("new", labels={"a": "b"}, compute={CPU: 10 * CPUS}, daemons={CPU: 500, SLOTS: 4})
    pool = a_pool()
    offer = offer_of(pool, [older, newer], None, NOW)
    assert offer is not None
    assert offer.allocatable == {GPU: 1, CPU: 9500}
    size = {CPU: 12 * CPUS, MEMORY: 96 * GIB}
    room = room_beside_gpus(size, offer)
    assert (room[CPU], room[MEMORY]) == (9500, allocatable(size)[MEMORY])
    assert room_beside_gpus({}, None) == {}


def test_compute_resources_are_no_gpus() -> None:
    everything = {GPU: 2, "nvidia.com/mig-1g.10gb": 1, CPU: 1000, MEMORY: GIB, STORAGE: GIB, SLOTS: 1}
    assert gpus_in(everything) == 3


def test_an_offer_of_before_says_nothing_of_compute_resources() -> None:
    size = {CPU: 12 * CPUS}
    assert room_beside_gpus(size, an_offer(a_pool())) == allocatable(size)


@pytest.mark.parametrize(
    ("resource", "units", "said"),
    [
        (CPU, 300_000, "300 CPUs"),
        (CPU, 1000, "1 CPU"),
        (CPU, 250, "0.25 CPUs"),
        (MEMORY, 900 * GIB, "900 GiB of memory"),
        (MEMORY, 88 * GIB + 1, "88 GiB of memory"),
        (STORAGE, GIB // 2, "0.5 GiB of ephemeral storage"),
        (SLOTS, 1, "1 pod slot"),
        (SLOTS, 0, "0 pod slots"),
    ],
)
def test_amounts_are_said_in_peoples_units(resource: str, units: int, said: str) -> None:
    assert amount(resource, units) == said


def test_what_is_a_little_too_much_does_not_read_the_same() -> None:
    state = of_eights(compute={MEMORY: 88 * GIB})
    tight = a_pod(compute={MEMORY: 88 * GIB + 1})
    assert refusal(tight, EIGHT, state) == "it asks for 88.01 GiB of memory, a node offers 88 GiB of memory"


# --- laws

LABELLED = ("one", "two")


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Facts, Policy]:
    """One or two pools with a few nodes, usable or on their way, and up to seven pods that wait."""
    pools, states = [], []
    for name in LABELLED[: draw(st.integers(1, 2))]:
        gpus = draw(st.sampled_from([1, 2, 4]))
        room = draw(st.sampled_from([{}, {CPU: 8}, {CPU: 8, MEMORY: 8}, {CPU: 3, MEMORY: 12, SLOTS: 3}]))
        pool = a_pool(name, resources={GPU: gpus}, labels={"pool": name}, max_nodes=20)
        nodes = []
        for number in range(draw(st.integers(0, 2))):
            usable = draw(st.booleans())
            taken = {r: draw(st.integers(0, n)) for r, n in room.items()}
            nodes.append(
                a_node(
                    f"{name}-{number}",
                    stage=Stage.USABLE if usable else Stage.INSTALLING,
                    allocatable={GPU: gpus} if usable else {},
                    compute=room,
                    others=taken if usable else {},
                )
            )
        pools.append(pool)
        states.append(a_state(*nodes, pool=pool.id, compute=room, required=len(nodes) + draw(st.integers(0, 1))))
    pods = []
    for number in range(draw(st.integers(1, 7))):
        where = draw(st.sampled_from([None, None, *LABELLED]))
        pods.append(
            a_pod(
                f"p{number}",
                draw(st.integers(1, 3)),
                compute={CPU: draw(st.integers(0, 6)), MEMORY: draw(st.integers(0, 9)), SLOTS: 1},
                gang=draw(st.sampled_from([None, None, "ml/g"])),
                node_selector={"pool": where} if where else {},
            )
        )
    return facts(*states, waiting=pods), a_policy(*pools)


def packed(pods: Sequence[tuple[Pod, frozenset[str]]], rooms: list[tuple[str, dict[str, int]]]) -> bool:
    """Whether all *pods* fit into *rooms* (pool, what is free) somehow, tried in every way."""
    if not pods:
        return True
    (pod, fitting), *rest = pods
    tried: set[tuple[Any, ...]] = set()
    for pool, free in rooms:
        kind = (pool, *sorted(free.items()))
        if pool not in fitting or kind in tried or not holds(free, pod):
            continue
        tried.add(kind)
        before = dict(free)
        for resource, count in {**pod.requests, **pod.compute}.items():
            if resource in free:
                free[resource] -= count
        if packed(rest, rooms):
            return True
        free.update(before)
    return False


def holds(free: Mapping[str, int], pod: Pod) -> bool:
    """The scheduler's rule: as much is free as is asked for, of every resource that the node counts."""
    beside = all(free.get(resource, count) >= count for resource, count in pod.compute.items())
    return beside and all(free.get(resource, 0) >= count for resource, count in pod.requests.items())


@LAWS
@given(worlds())
def test_the_nodes_asked_for_hold_the_pods_by_every_resource(world: tuple[Facts, Policy]) -> None:
    found, policy = world
    given_out = assign(found, policy)
    empty = {p.id: {**p.resources, **found.pool(p.id).next_node.compute} for p in policy.pools}
    named = {p.id: p.labels["pool"] for p in policy.pools}
    fitting = {
        pod.key: frozenset(
            i
            for i, free in empty.items()
            if holds(free, pod) and pod.scheduling.node_selector.get("pool", named[i]) == named[i]
        )
        for pod in found.waiting
    }
    misfits = {pod.key for m in given_out.misfits for pod in m.workload.pods}
    for misfit in given_out.misfits:
        assert not all(fitting[pod.key] for pod in misfit.workload.pods)
    held = {h.workload for wanted in given_out.pools.values() for h in wanted.work.held}
    served = [p for p in found.waiting if p.key not in misfits and not held & {p.key, p.gang or ""}]
    assert all(fitting[pod.key] for pod in served)
    rooms: list[tuple[str, dict[str, int]]] = []
    for state in found.pools:
        for node in state.nodes:
            taken = node.beside.others if node.stage is Stage.USABLE else {}
            rooms.append((state.pool, {r: n - taken.get(r, 0) for r, n in empty[state.pool].items()}))
        more = state.unlisted + given_out.pools[state.pool].for_demand
        rooms += [(state.pool, dict(empty[state.pool])) for _ in range(more)]
    # An existing node may hold what no new node would: such a pod was called a misfit and is not in `served`.
    assert packed([(pod, fitting[pod.key]) for pod in sorted(served, key=lambda p: -p.gpus)], rooms)
