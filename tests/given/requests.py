"""Requests of the cluster's API, as their readers make them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from receiver.adapters.kubernetes.announced import MakeReader
from receiver.capabilities import registry
from receiver.config.settings import load_text
from receiver.core.model.pods import Pod
from receiver.core.model.room_requests import RoomRequest
from tests.core.builders import MINUTE, NOW, a_pod

SMALLEST = """
pools:
  - {name: l40s, civo_pool_id: l40s-id, size: an.g1.l40s.kube.x1, resources: {nvidia.com/gpu: 1}, max_nodes: 8}
"""


def buffer_of(key: str, pod: Pod | None, replicas: int = 0, problem: str = "", *, named: bool = False) -> RoomRequest:
    """The CapacityBuffer *key* of so many chunks like *pod*; None where it has a *problem*."""
    pods = () if pod is None else (pod,)
    return RoomRequest(kind="buffers", key=key, pods=pods, copies=replicas, problem=problem, named=named)


def a_buffer(replicas: int = 2, gpus: int = 1, name: str = "warm", **pod: Any) -> RoomRequest:
    """A CapacityBuffer of namespace ml, each chunk of which has room for *gpus*."""
    return buffer_of(f"ml/{name}", a_pod(f"capacity-buffer-{name}", gpus, uid="", **pod), replicas)


def candidate_of(
    key: str,
    pods: Sequence[Pod] = (),
    problem: str = "",
    *,
    ready: bool = False,
    rejects: bool = False,
    named: bool = False,
) -> RoomRequest:
    """The Workload *key* of Kueue with *pods*: it has its answer and no pods yet (*ready*), or waits for one."""
    terms = {term: "true" for term, holds in (("ready", ready), ("rejects", rejects)) if holds}
    return RoomRequest(
        kind="kueue_check", key=key, pods=tuple(pods), trial=True, problem=problem, named=named, terms=terms
    )


def booking_of(
    key: str,
    pods: Sequence[Pod] = (),
    created_at: datetime = NOW - MINUTE,
    *,
    announced: Sequence[Pod] = (),
    provisioned_at: datetime | None = None,
    consumed: bool = False,
    valid_for: timedelta | None = None,
    problem: str = "",
    named: bool = False,
) -> RoomRequest:
    """The ProvisioningRequest *key* for *pods*."""
    moments = {"created_at": created_at, "provisioned_at": provisioned_at}
    terms = {name: at.isoformat() for name, at in moments.items() if at is not None}
    terms |= {"consumed": "true"} if consumed else {}
    terms |= {"valid_for": str(valid_for.total_seconds())} if valid_for is not None else {}
    return RoomRequest(
        kind="provisioning_requests",
        key=key,
        pods=tuple(pods),
        waits=True,
        announced=tuple(announced),
        problem=problem,
        named=named,
        terms=terms,
    )


EVERY_READER: Sequence[MakeReader] = registry.readers(load_text(SMALLEST).configuration)
