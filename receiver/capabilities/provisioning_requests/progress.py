"""ProvisioningRequests: nodes for all pods of a request or for none, booked for ten minutes once they are usable.

The placeholders of a request are waiting pods that do not exist, one gang: they are bought for, keep their nodes and
are refused as such a gang is. So all that is left is to say how far it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from receiver.core.model.policy import Policy
from receiver.core.model.room_requests import RoomAnswer, RoomRequest
from receiver.core.model.text import listed, some
from receiver.core.scaling.capacity import Placement
from receiver.core.scaling.wanted import Assignment

KIND = "provisioning_requests"
BOOKED_FOR = timedelta(minutes=10)  # as Cluster Autoscaler
VALID_FOR = timedelta(days=7)  # as Cluster Autoscaler, without the parameter ValidUntilSeconds
FINAL = ("within_budget", "within_maximum")  # what refuses a request at once: Kueue retries it later


class BookingStage(StrEnum):
    """How far a request is, by the name of the condition that says so."""

    ACCEPTED = "Accepted"
    PROVISIONED = "Provisioned"
    EXPIRED = "BookingExpired"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """The terms of a request: *provisioned_at* is when all its pods had room (None: not yet), *valid_for* how long
    after *created_at* it may wait (None: as long as usual). *consumed*: all its pods exist and have nodes."""

    created_at: datetime
    provisioned_at: datetime | None = None
    consumed: bool = False
    valid_for: timedelta | None = None

    def terms(self) -> dict[str, str]:
        """Return them as a request has them."""
        terms = {"created_at": self.created_at.isoformat()}
        terms |= {"provisioned_at": self.provisioned_at.isoformat()} if self.provisioned_at is not None else {}
        terms |= {"consumed": "true"} if self.consumed else {}
        return terms | ({"valid_for": str(self.valid_for.total_seconds())} if self.valid_for is not None else {})

    @classmethod
    def of(cls, request: RoomRequest) -> Self:
        """Return those of *request*."""
        terms = request.terms
        provisioned, valid_for = terms.get("provisioned_at"), terms.get("valid_for")
        return cls(
            created_at=datetime.fromisoformat(terms["created_at"]),
            provisioned_at=datetime.fromisoformat(provisioned) if provisioned is not None else None,
            consumed="consumed" in terms,
            valid_for=timedelta(seconds=float(valid_for)) if valid_for is not None else None,
        )


def progress(
    request: RoomRequest, assignment: Assignment, policy: Policy, now: datetime, eta: Callable[[str], str]
) -> RoomAnswer:
    """Return how far *request* is: its `BookingStage`. *eta* says when the nodes that it waits for are usable."""
    stage, reason, message = _of_booked(Booking.of(request), now) or _of_waiting(request, assignment, policy, now, eta)
    return RoomAnswer(kind=KIND, key=request.key, state=stage, reason=reason, message=message)


Said = tuple[BookingStage, str, str]


def _of_booked(booking: Booking, now: datetime) -> Said | None:
    since = booking.provisioned_at
    if since is None:
        return None
    if booking.consumed:
        return BookingStage.EXPIRED, "CapacityBookingConsumed", "all pods of the request run"
    if now - since >= BOOKED_FOR:
        return BookingStage.EXPIRED, "CapacityReservationTimeExpired", "Capacity reservation time is expired"
    return BookingStage.PROVISIONED, "CapacityIsProvisioned", ""


def _of_waiting(
    request: RoomRequest, assignment: Assignment, policy: Policy, now: datetime, eta: Callable[[str], str]
) -> Said:
    booking = Booking.of(request)
    if request.problem:
        return BookingStage.FAILED, "FailedToCreatePods", request.problem
    if now - booking.created_at >= (booking.valid_for or VALID_FOR):
        return BookingStage.FAILED, "Expired", "ProvisioningRequest is expired"
    if not request.pods and not booking.consumed:
        return BookingStage.ACCEPTED, "CapacityIsNotFound", "its own pods exist already and wait for nodes"
    misfits = (misfit.detail for misfit in assignment.misfits if misfit.workload.key == request.key)
    if misfit := next(misfits, ""):
        return BookingStage.FAILED, "CapacityIsNotFound", misfit
    held = (held for wanted in assignment.pools.values() for held in wanted.work.held if held.workload == request.key)
    if refused := next(held, None):
        stage = BookingStage.FAILED if refused.met in FINAL else BookingStage.ACCEPTED
        return stage, "CapacityIsNotFound", refused.detail
    placements = [(p, g) for p in policy.pools for g in assignment.pools[p.id].work.rooms if _is_of(g, request)]
    rooms = [room for _, placement in placements for room in placement.rooms]
    if len(rooms) < len(request.pods):
        return BookingStage.ACCEPTED, "CapacityIsNotFound", "it has no room yet"
    where = listed([f"{some(len(g.rooms), 'pod')} in pool {p.name}" for p, g in placements]) or "all of its pods"
    if all(room.usable for room in rooms):
        return BookingStage.PROVISIONED, "CapacityIsProvisioned", f"booked for ten minutes: room for {where}"
    when = eta(request.key)
    return BookingStage.ACCEPTED, "NodesAreComing", f"nodes for {where}{', ' if when else ''}{when}"


def _is_of(placement: Placement, request: RoomRequest) -> bool:
    return placement.workload.gang and placement.workload.key == request.key
