"""A gang larger than any pool may be buys nothing, whatever its pods are declared by: no node for it, none to spare."""

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.core.model.pods import Pod
from receiver.core.model.policy import Objective
from tests.adapters.kubernetes.group_objects import (
    BASIC,
    JOB_SETS,
    NATIVE_WORKLOADS,
    POD_GROUPS,
    WORKER_SETS,
    a_job_set,
    a_native_workload,
    a_pod_group,
    a_replicated_job,
    a_worker_set,
    gang_of,
    in_job_set,
    in_pod_group,
    in_worker_set,
    in_workload,
)
from tests.adapters.kubernetes.served_cluster import seen_pods
from tests.core.builders import GPU, a_pod, a_policy, a_pool, a_state, facts, run
from tests.given.requests import buffer_of

EIGHT = range(8)
AFTER_HEAD = [{"name": "head", "status": "Ready"}]
LATER = a_job_set(a_replicated_job("head"), a_replicated_job("workers", 1, 7, after=AFTER_HEAD))
POD_GROUP = {POD_GROUPS.format("v1beta1"): [a_pod_group(gang_of(8))]}
FORMS: dict[str, tuple[list[Any], dict[str, list[Any]]]] = {
    "PodGroup": ([in_pod_group(f"w-{n}") for n in EIGHT], POD_GROUP),
    "PodGroup of which half is not tried": (
        [*(in_pod_group(f"w-{n}") for n in range(4)), *(in_pod_group(f"w-{n}", conditions=[]) for n in range(4, 8))],
        POD_GROUP,
    ),
    "Workload": ([in_workload(f"w-{n}") for n in EIGHT], {NATIVE_WORKLOADS: [a_native_workload(workers=gang_of(8))]}),
    "LeaderWorkerSet": ([in_worker_set(n, size=8) for n in EIGHT], {WORKER_SETS: [a_worker_set(8)]}),
    "lone leader": ([in_worker_set(size=8)], {WORKER_SETS: [a_worker_set(8)]}),
    "JobSet": ([in_job_set(f"w-{n}") for n in EIGHT], {JOB_SETS: [a_job_set(a_replicated_job("workers", 2, 4))]}),
    "lone first Job": ([in_job_set("h-0", "head")], {JOB_SETS: [LATER]}),
}


def bought(waiting: Iterable[Pod], most: int) -> list[int]:
    """The nodes that three pools ask for, of at most *most* small ones, with everything on that buys nodes to spare."""
    small = a_pool("small", max_nodes=most, standby_nodes=1)
    sibling = replace(a_pool("sibling", max_nodes=3, standby_nodes=1), resources=small.resources)
    wide = a_pool("wide", resources={GPU: 4}, price_usd_per_hour=4 * Decimal("1.29"), max_nodes=1)
    policy = a_policy(small, sibling, wide, objective=Objective.BALANCED)
    buffer = buffer_of("ml/warm", a_pod("capacity-buffer-warm", uid=""), 2)
    states = (a_state(pool=pool.id) for pool in policy.pools)
    _, decisions = run(facts(*states, waiting=tuple(waiting), requests=(buffer,)), policy)
    return [decisions[pool.name].target for pool in policy.pools]


@pytest.mark.parametrize("form", FORMS)
def test_a_gang_larger_than_any_pool_may_be_buys_nothing(httpserver: HTTPServer, form: str) -> None:
    pods, served = FORMS[form]
    waiting = seen_pods(httpserver, *pods, served=served).values()
    assert bought(waiting, most=7) == [0, 0, 0]


@pytest.mark.parametrize("form", FORMS)
def test_a_gang_as_large_as_a_pool_may_be_is_bought_whole(httpserver: HTTPServer, form: str) -> None:
    pods, served = FORMS[form]
    waiting = seen_pods(httpserver, *pods, served=served).values()
    assert bought(waiting, most=8)[0] == 8


def test_pods_of_a_basic_group_are_bought_one_by_one(httpserver: HTTPServer) -> None:
    pods, _ = FORMS["PodGroup"]
    waiting = seen_pods(httpserver, *pods, served={POD_GROUPS.format("v1beta1"): [a_pod_group(BASIC)]}).values()
    assert sum(bought(waiting, most=3)) > 0
