"""Stories of capacity that was bought twice, or bought for what no node could help."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from receiver.ports import Receipt, Store
from receiver.replay.world.objects import Behaviour, PodSpec, Timings
from tests.core.builders import HOUR, MINUTE, SECOND, a_pool
from tests.expect import bought, living, titles
from tests.given import lives, troubles
from tests.given.life import BIG_SIZE, FAST, GPU, POOL, PRICE, SIZE, Life, Wrapped, a_job
from tests.given.pods import waiting

SLOW_DRIVER = replace(FAST, driver=7 * MINUTE)


def of_size(store: Store, gpus: int, timings: Timings) -> Life:
    """An empty pool whose nodes have *gpus* GPUs each."""
    size = SIZE if gpus == 1 else BIG_SIZE
    pool = a_pool(size=size, resources={GPU: gpus}, max_nodes=100, price_usd_per_hour=gpus * PRICE)
    return lives.at_zero(store, pool, timings=timings)


@pytest.mark.chores(False)
@pytest.mark.parametrize("webhooks", [False, True], ids=["the alert fires", "and its webhooks come every 20 s"])
@pytest.mark.parametrize(("gpus", "nodes"), [(1, 40), (8, 5)], ids=["1-GPU nodes", "8-GPU nodes"])
def test_forty_jobs_on_nodes_that_are_ready_minutes_before_their_gpus_buy_forty_gpus(
    store: Store, figure: Callable[[str], None], gpus: int, nodes: int, webhooks: bool
) -> None:
    """Cluster Autoscaler #1949, #3164, #7095, k8s-device-plugin #1746: a node was Ready before its GPU was
    allocatable, its pods still waited, and were bought for again: 40 jobs got 80 GPUs and more."""
    life = of_size(store, gpus, timings=SLOW_DRIVER)
    life.submit(*(a_job(f"j{n}", duration=5 * MINUTE) for n in range(40)))
    ready_without_gpu = 0

    def look_on() -> None:
        nonlocal ready_without_gpu
        found = life.world.nodes.values()
        if any(n.ready and not n.gpus for n in found):
            ready_without_gpu += 1
            assert any(a.labels["alertname"] == "GpuPodsPending" for a in life.alarms.look().alerts)
        if webhooks:
            troubles.deliver(life, troubles.alert("GpuPodsPending", "scale_up", at=life.now))
        assert bought(life) * gpus <= 40

    life.rest = 20 * SECOND
    life.run(15 * MINUTE, tick=20 * SECOND, each=look_on)
    assert ready_without_gpu > 15  # more than five minutes of it
    assert (bought(life), bought(life) * gpus) == (nodes, 40)
    assert len(life.world.finished) == 40
    assert [count for _, (_, count) in life.writes("resize")] == [nodes]
    factor = bought(life) * gpus / 40
    figure(f"40 one-GPU jobs, {gpus}-GPU nodes, webhooks {webhooks}: {bought(life) * gpus} GPUs, factor {factor:.2f}")


@pytest.mark.chores(False)
def test_jobs_of_different_lengths_are_never_killed_by_the_scale_down_that_follows(store: Store) -> None:
    """Cluster Autoscaler #7095, #4048: what was bought too much was removed under running Jobs, until their
    backoffLimit failed them."""
    life = of_size(store, 1, timings=SLOW_DRIVER)
    life.submit(*(a_job(f"j{n}", duration=(n + 1) * 20 * MINUTE) for n in range(9)))
    life.run(5 * HOUR, tick=MINUTE)
    assert life.world.kills == []
    assert life.writes("evict") == []
    assert len(life.world.finished) == 9
    assert all(job.restarts == 0 for job in life.world.finished)
    assert living(life) == []


@pytest.mark.chores(False)
@pytest.mark.parametrize("gated", [False, True], ids=["pulls its image", "is gated"])
def test_a_pod_that_is_pending_for_another_reason_than_room_is_no_demand(store: Store, gated: bool) -> None:
    """kube-state-metrics #835, kubernetes #96186: phase Pending includes ImagePull, ContainerCreating and
    scheduling gates; who counts phases buys nodes for pods that have one, or want none yet."""
    life = of_size(store, 1, timings=replace(FAST, image_pull=2 * HOUR))
    if gated:
        life.world.add_pod(waiting("held", gate="queue.example/gate"))
    else:
        life.submit(a_job())
    life.run(100 * MINUTE, tick=30 * SECOND)
    assert bought(life) == (0 if gated else 1)
    assert life.writes("retire") == []  # a pod that pulls for an hour is no idleness either


def test_no_stock_for_six_hours_is_asked_for_rarely_told_once_and_recovered_from_alone(store: Store) -> None:
    """AKS #2345: a size without capacity was asked for again and again, until the API throttled everything."""
    life = lives.waiting(store, stock={SIZE: 0})
    life.run(6 * HOUR, tick=30 * SECOND)
    # After 0, 1, 3, 7, 15, 31 minutes, then every 30 to 33: 5 more in the first three hours, 6 in the next.
    assert 10 <= len(life.writes("resize")) <= 17
    assert len(titles(life, "are free at Civo")) == 1
    life.world.faults.stock[SIZE] = 8
    life.run(45 * MINUTE, tick=30 * SECOND)
    assert len(life.world.finished) == 1


@pytest.mark.chores(False)
@pytest.mark.parametrize("raised_to", [2, 4], ids=["to less than we want", "to our maximum"])
def test_a_count_that_somebody_raises_between_our_look_and_our_put_is_not_exceeded(
    store: Store, raised_to: int
) -> None:
    """gitpod #14165: two writers, each sure of its own count, went to 95 nodes where 75 were allowed."""
    life = lives.at_zero(store, a_pool(max_nodes=4))
    raised: list[int] = []

    def resize(pool: str, **given: Any) -> Receipt:
        if not raised:
            raised.append(raised_to)
            life.world.resize(POOL, raised_to)
        return life.cloud.resize(pool, **given)

    life.wrap_cloud = lambda inner: Wrapped(inner, resize=resize)
    life.submit(*(a_job(f"j{n}") for n in range(3)))
    life.run(10 * MINUTE)
    assert bought(life) == max(3, raised_to)
    assert all(isinstance(count, int) and count <= 4 for _, (_, count) in life.writes("resize"))


def _a_life_with_messages(store: Store, *, noisy: bool) -> list[tuple[str, tuple[object, ...]]]:
    """What is written in a life in which webhooks of every kind come before each step, or none."""
    life = lives.at_zero(store, rest=MINUTE)
    life.alarms = None  # type: ignore[assignment]  # so that remembered webhooks are what a step knows of alerts
    steps = 0

    def messages() -> None:
        nonlocal steps
        steps += 1
        if noisy:
            troubles.deliver(life, troubles.alert("GpuPodsPending", "scale_up", firing=steps % 3 > 0, at=life.now))
            troubles.deliver(
                life, troubles.alert(f"GpuNodeIdle{steps}", "scale_down", firing=steps % 2 > 0, at=life.now)
            )

    life.submit(a_job("one"), a_job("two", duration=40 * MINUTE))
    life.run(65 * MINUTE, tick=MINUTE, each=messages)
    life.submit(a_job("three"))
    life.run(10 * MINUTE, tick=20 * SECOND, each=messages)
    return life.writes()


@pytest.mark.chores(False)
def test_what_messages_came_before_does_not_change_what_is_done(new_store: Callable[[], Store]) -> None:
    """actions-runner-controller #1326, #1962: each `done` event took one off a counter, also for work that had
    never added one; together with polling everything was counted twice."""
    calm = _a_life_with_messages(new_store(), noisy=False)
    assert calm
    assert _a_life_with_messages(new_store(), noisy=True) == calm


@pytest.mark.chores(False)
def test_scale_from_zero_and_back_to_zero_with_two_pools_of_different_sizes_one_out_of_stock(
    store: Store, figure: Callable[[str], None]
) -> None:
    """Cluster Autoscaler #5278, #2721, #929: no growth from zero; claudie #2023: never back to zero."""
    big = a_pool("big", size=BIG_SIZE, resources={GPU: 8}, price_usd_per_hour=Decimal("8.50"))
    life = lives.at_zero(store, a_pool("small"), big, stock={SIZE: 0})
    life.submit(*(a_job(f"j{n}", gpus_per_pod=1) for n in range(9)), a_job("wide", gpus_per_pod=8))
    life.run(20 * MINUTE)
    assert (bought(life, "small-id"), bought(life, "big-id")) == (0, 3)  # 17 GPUs on nodes of eight
    assert len(life.world.finished) == 10
    life.run(2 * HOUR, tick=30 * SECOND)
    assert (life.required("small-id"), life.required("big-id")) == (0, 0)
    assert living(life, "big-id") == []
    assert life.world.kills == []
    counts = f"{bought(life, 'small-id')} small and {bought(life, 'big-id')} big nodes"
    figure(f"zero and back, the small pool out of stock: 17 GPUs of work bought {counts}, 0 left")


@pytest.mark.chores(False)
def test_a_second_resize_that_civo_refuses_while_it_rescales_loses_nothing_and_buys_nothing_twice(
    store: Store,
) -> None:
    """Nomad Autoscaler #610: a second scaling request during the first one was carried out on top of it."""
    behaviour = Behaviour(rescale_conflict=True)
    life = lives.at_zero(store, behaviour=behaviour)
    for number in range(5):
        life.submit(a_job(f"j{number}"))
        life.run(20 * SECOND, tick=5 * SECOND)
    life.run(15 * MINUTE)
    assert bought(life) == 5
    assert len(life.world.finished) == 5


def test_a_cpu_pod_that_waits_is_none_of_ours(store: Store) -> None:
    """kubernetes-mixin #271: an alert on any pending pod is no demand for GPUs."""
    life = lives.at_zero(store)
    life.world.add_pod(PodSpec(namespace="web", name="front", node_selector={"disk": "ssd"}))
    life.pass_time(SECOND)
    troubles.deliver(life, troubles.alert("GpuPodsPending", "scale_up"))
    life.run(10 * MINUTE)
    assert life.writes("resize") == []
