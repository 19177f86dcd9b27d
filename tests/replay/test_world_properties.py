"""Whatever happens in whatever order, the world stays possible."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.replay.world.objects import GPU, Behaviour, Denied, PodSpec, Timings
from simulator.world import World
from tests.replay.builders import L40S, job, pool, seconds, vms, world


@dataclass
class Op:
    """Something that somebody does to the world; *pick* chooses among what is there."""

    name: str
    pick: int
    amount: int


OPS = st.builds(
    Op,
    name=st.sampled_from(
        [
            "resize",
            "delete",
            "recycle",
            "submit",
            "gang",
            "cordon",
            "evict",
            "pod",
            "node",
            "stuck",
            "wait",
            "zero",
            "bind",
            "work",
            "crash",
            "silent",
            "well",
            "outside",
            "alone",
            "unseen",
            "seen",
        ]
    ),
    pick=st.integers(0, 20),
    amount=st.integers(0, 5),
)
BEHAVIOURS = st.builds(
    Behaviour,
    decrement=st.sampled_from(["at_once", "never", timedelta(seconds=45)]),
    partial_fill=st.booleans(),
    rescale_conflict=st.booleans(),
    victims_by_age=st.sampled_from(["oldest", "newest"]),
)


T = TypeVar("T")


def _at(items: list[T], pick: int) -> T | None:
    return items[pick % len(items)] if items else None


def do(w: World, op: Op, number: int) -> None:
    """Carry *op* out; a refusal is a fine answer."""
    pool_id = "ab"[op.pick % 2]
    vm = _at(vms(w, pool_id), op.pick)
    node = _at(list(w.nodes), op.pick)
    pod = _at(list(w.active_pods), op.pick)
    doings: dict[str, Callable[[], object]] = {
        "resize": lambda: w.resize(pool_id, op.amount),
        "delete": lambda: w.delete_instance(pool_id, vm.id) if vm else None,
        "recycle": lambda: w.recycle(vm.hostname) if vm else None,
        "submit": lambda: w.submit(
            job(f"j{number}", runs=30 * (1 + op.pick), pods=1 + op.amount % 3, gpus_per_pod=1 + op.pick % 3)
        ),
        "gang": lambda: w.submit(
            job(f"g{number}", runs=100, pods=2, gang=True, gang_min=1 + op.pick % 2, gpus_per_pod=1 + op.amount % 2)
        ),
        "cordon": lambda: w.patch_node(node, unschedulable=bool(op.amount % 2)) if node else None,
        "evict": lambda: w.evict(*pod) if pod else None,
        "pod": lambda: w.add_pod(PodSpec(namespace="default", name=f"p{op.amount}", requests={GPU: 1})),
        "node": lambda: w.delete_node(node) if node else None,
        "stuck": lambda: w.faults.stuck_building(pool_id, op.amount % 2),
        "zero": lambda: w.scale_to_zero("Job", "default", w.active_pods[pod].owner_name) if pod else None,
        "bind": lambda: bind_if_it_fits(w, pod, node) if pod and node else None,
        "work": lambda: w.work(*pod, engine=op.amount / 5, memory=op.pick / 20) if pod else None,
        "crash": lambda: w.faults.lose_gpu(node) if node else None,
        "silent": lambda: w.faults.not_ready(node) if node else None,
        "well": lambda: w.faults.recover(node) if node else None,
        "outside": lambda: w.use_gpu(node, engine=op.amount / 5, memory=op.pick / 20) if node else None,
        "alone": lambda: w.stop_using(node) if node else None,
        "unseen": lambda: setattr(w.faults, "telemetry_gone", True),
        "seen": lambda: setattr(w.faults, "telemetry_gone", False),
        "wait": lambda: w.advance(w.now + seconds(30 * op.amount)),
    }
    with suppress(Denied):
        doings[op.name]()


def bind_if_it_fits(w: World, pod: tuple[str, str], node: str) -> None:
    """Bind past the scheduler where GPUs are free: the kubelet refuses the others."""
    held = sum(p.gpus for p in w.pods_on(node))
    if w.active_pods[pod].gpus <= w.nodes[node].gpus.get(GPU, 0) - held:
        w.bind(*pod, node)


def check(w: World, version: int) -> None:
    """Raise AssertionError where the world is impossible."""
    assert w.version >= version
    held: Counter[str] = Counter()
    for pod in w.active_pods.values():
        if pod.node is not None:
            held[pod.node] += pod.gpus
            assert pod.node in w.nodes
    built = {vm.hostname: vm.spec.resources[GPU] for vm in w.lives}  # a crashed driver offers fewer than are held
    assert all(gpus <= built[name] for name, gpus in held.items())
    for p in w.pools.values():
        assert p.required >= 0
        assert p.late_decrements >= 0
        assert len(p.living) <= max(p.required, 0)
    assert all(usage >= 0 for usage in w.quota_usage.values())
    running = {p.key for p in w.active_pods.values() if p.phase == "Running"}
    assert all(s.util == 0 or s.pod in running or s.node in w.used_outside for s in w.gpu_samples())
    check_gpus(w)
    assert w.gpu_seconds <= w.paid_gpu_seconds() + 1e-6


def check_gpus(w: World) -> None:
    """Raise AssertionError where what GPUs are said to do is impossible, or where two say different things."""
    samples = w.gpu_samples()
    for p in w.pools:
        assert w.gpus(p) == sum(s.pool == p for s in samples)
    for name, found in w.node_activity().items():
        assert found.engine == max(s.util for s in samples if s.node == name)
    for course in w.courses(timedelta(minutes=5)).values():
        assert 0 <= course.coverage <= 1
        assert (course.engine is None) == (course.memory is None)
        assert 0 <= (course.engine or 0) <= 1
        assert 0 <= (course.memory or 0) <= 1 + 1e-9


@settings(max_examples=300, deadline=None)
@given(ops=st.lists(OPS, min_size=5, max_size=60), behaviour=BEHAVIOURS, seed=st.integers(0, 3))
def test_no_sequence_of_events_makes_an_impossible_world(ops: list[Op], behaviour: Behaviour, seed: int) -> None:
    w = world(
        pool("a", count=1),
        pool("b", count=1, resources={GPU: 4}),
        timings=Timings(create=seconds(3), build=seconds(9), boot=seconds(4), driver=seconds(12), jitter=0.2),
        behaviour=behaviour,
        stock={L40S: 12},
        quota={"instance_count": 6},
        seed=seed,
    )
    version = 0
    for number, op in enumerate(ops):
        do(w, op, number)
        check(w, version)
        version = w.version
        w.advance(w.now + seconds(7))
        check(w, version)
    w.advance(w.now + timedelta(hours=2))
    check(w, version)
    for p in w.pools:  # nothing has changed for long: the average is what the GPUs do now
        utils = [s.util for s in w.gpu_samples() if s.pool == p]
        assert w.utilization(p, seconds(60)) == (pytest.approx(sum(utils) / len(utils)) if utils else None)
