"""Requests of the cluster's API, as their readers make them."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from receiver.adapters.kubernetes.announced import MakeReader
from receiver.capabilities.buffers.reader import Buffers
from receiver.capabilities.kueue_check.reader import AdmissionChecks
from receiver.capabilities.provisioning_requests.progress import Booking
from receiver.capabilities.provisioning_requests.reader import ProvisioningRequests
from receiver.core.model.pods import Pod
from receiver.core.model.room_requests import RoomRequest
from receiver.ports import PROVISIONING_CLASS
from tests.core.builders import MINUTE, NOW, a_pod


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
    return RoomRequest(kind="kueue_check", key=key, pods=tuple(pods), problem=problem, named=named, terms=terms)


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
    terms = Booking(
        created_at=created_at, provisioned_at=provisioned_at, consumed=consumed, valid_for=valid_for
    ).terms()
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


def booking_reader(classes: Collection[str] = (PROVISIONING_CLASS,)) -> MakeReader:
    """What reads ProvisioningRequests of *classes*."""
    return partial(ProvisioningRequests, classes=classes)


EVERY_READER: Sequence[MakeReader] = (booking_reader(), AdmissionChecks, Buffers)
