"""The checks of a played trace can fail: each one finds the log that was tampered with."""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from datetime import timedelta
from functools import cache

import pytest

from receiver.replay.figures import violations
from receiver.replay.peers import PEERS
from receiver.replay.play import Binding, Bindings, Played, Reaction, play
from receiver.replay.world.objects import VM, Job, WorldConfig
from simulator.world import World
from tests.replay.builders import L40S, PRICE, T0, job, pool, seconds

MOST = {"a": 4}
HOUR = timedelta(hours=1)


def some_jobs() -> list[Job]:
    """Five jobs, three of them at once, on nodes of two GPUs: nodes come, are shared, rest and go."""
    return [job(f"job-{n}", 900 + 60 * n, submit_at=T0 + seconds(at)) for n, at in enumerate((5, 6, 7, 4000, 9000))]


@cache
def once() -> Played:
    """The five jobs under Cluster Autoscaler."""
    world = World(WorldConfig(pools=(pool(resources={"nvidia.com/gpu": 2}),), price={L40S: PRICE}), T0)
    peer = PEERS["cluster-autoscaler"]
    return play(world, some_jobs(), peer(world, MOST, some_jobs()), Reaction(start=T0, tick=peer.every))


def whole() -> Played:
    """A copy of it that may be tampered with."""
    played = once()
    log = Bindings(all=[copy(p) for p in played.placements.all], registered=list(played.placements.registered))
    return replace(played, lives=[copy(vm) for vm in played.lives], placements=log)


def first(played: Played) -> Binding:
    """The first pod that was placed."""
    return played.placements.all[0]


def its_node(played: Played) -> VM:
    """The node that it was placed on."""
    return next(vm for vm in played.lives if vm.hostname == first(played).node)


def a_job_finishes_twice(played: Played) -> Played:
    return replace(played, finished=[*played.finished, played.finished[0]])


def a_job_is_forgotten(played: Played) -> Played:
    return replace(played, finished=played.finished[1:])


def two_nodes_share_a_name(played: Played) -> Played:
    played.lives[1].hostname = played.lives[0].hostname
    return played


def two_nodes_share_an_id(played: Played) -> Played:
    played.lives[1].id = played.lives[0].id
    return played


def a_node_start_is_not_counted(played: Played) -> Played:
    gone = next(vm for vm in played.lives if vm.hostname not in {p.node for p in played.placements.all[:1]})
    return replace(played, lives=[vm for vm in played.lives if vm is not gone])


def a_node_start_is_made_up(played: Played) -> Played:
    ghost = replace(played.lives[0], id="ghost", hostname="ghost")
    return replace(played, lives=[*played.lives, ghost], paid_gpu_seconds=played.paid_gpu_seconds * 2)


def a_node_registers_twice(played: Played) -> Played:
    played.placements.registered.append(played.lives[0].hostname)
    return played


def a_node_is_ready_before_it_was_ordered(played: Played) -> Played:
    played.lives[0].ready_at = played.lives[0].created_at - seconds(1)
    return played


def a_node_is_gone_before_it_was_deleted(played: Played) -> Played:
    vm = played.lives[0]
    assert vm.deleted_at is not None
    vm.gone_at = vm.deleted_at - seconds(1)
    return played


def a_pod_is_on_no_node(played: Played) -> Played:
    first(played).node = "nowhere"
    return played


def a_pod_is_early(played: Played) -> Played:
    usable = its_node(played).usable_at
    assert usable is not None
    first(played).bound_at = usable - seconds(1)
    return played


def a_pod_stays_on_a_node_that_is_gone(played: Played) -> Played:
    gone = its_node(played).gone_at
    assert gone is not None
    first(played).ended_at = gone + seconds(1)
    return played


def a_gpu_is_held_twice(played: Played) -> Played:
    first(played).gpus = 3
    return played


def a_job_runs_too_short(played: Played) -> Played:
    ended = first(played).ended_at
    assert ended is not None
    first(played).ended_at = ended - seconds(60)
    return played


def a_job_runs_too_long(played: Played) -> Played:
    started = first(played).started_at
    assert started is not None
    first(played).started_at = started - seconds(60)
    return played


def more_is_held_than_exists(played: Played) -> Played:
    for vm in played.lives:
        vm.spec = replace(vm.spec, resources={"nvidia.com/gpu": 0})
    return played


def less_is_paid_than_exists(played: Played) -> Played:
    return replace(played, paid_gpu_seconds=played.paid_gpu_seconds / 4)


def test_a_trace_that_was_not_tampered_with_adds_up() -> None:
    assert violations(some_jobs(), whole(), MOST) == []


@pytest.mark.parametrize(
    ("tampered", "said"),
    [
        (a_job_finishes_twice, "a job finished twice"),
        (a_job_is_forgotten, "lost: job-0"),
        (two_nodes_share_a_name, "2 nodes were called"),
        (two_nodes_share_an_id, "2 nodes were with id"),
        (a_node_start_is_not_counted, "registered and was never started"),
        (a_node_start_is_made_up, "ghost was started and never registered"),
        (a_node_registers_twice, "registered 2 times"),
        (a_node_is_ready_before_it_was_ordered, "lived in the wrong order"),
        (a_node_is_gone_before_it_was_deleted, "lived in the wrong order"),
        (a_pod_is_on_no_node, "nowhere holds pods and never was"),
        (a_pod_is_early, "before its GPUs were usable"),
        (a_pod_stays_on_a_node_that_is_gone, "after it was gone"),
        (a_gpu_is_held_twice, "were held at once"),
        (a_job_runs_too_short, "and should have held"),
        (a_job_runs_too_long, "and should have held"),
        (more_is_held_than_exists, "GPU-seconds were held and only 0 existed"),
        (less_is_paid_than_exists, "were paid"),
    ],
)
def test_a_tampered_log_is_found(tampered: Callable[[Played], Played], said: str) -> None:
    found = violations(some_jobs(), tampered(whole()), MOST)
    assert any(said in line for line in found), found


def test_more_nodes_than_a_pool_may_have_are_found() -> None:
    assert violations(some_jobs(), whole(), {"a": 1}) == ["a may have 1 nodes and had 2"]
