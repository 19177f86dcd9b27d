"""ProvisioningRequests: nodes for all pods of a request or for none, booked for ten minutes once they are usable.

The placeholders of a request are waiting pods that do not exist, one gang: they are bought for, keep their nodes and
are refused as such a gang is. So all that is left is to say how far it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from receiver.core.model.pods import Booking
from receiver.core.model.policy import Policy
from receiver.core.model.text import listed, some
from receiver.core.scaling.capacity import Placement
from receiver.core.scaling.wanted import Assignment

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
class BookingProgress:
    """The stage of the request *key*, with a CamelCase *reason* and a sentence."""

    key: str
    stage: BookingStage
    reason: str
    message: str


def progress(
    booking: Booking, assignment: Assignment, policy: Policy, now: datetime, eta: Callable[[str], str]
) -> BookingProgress:
    """Return how far *booking* is. *eta* says when the nodes that the request *key* waits for are usable."""
    stage, reason, message = _of_booked(booking, now) or _of_waiting(booking, assignment, policy, now, eta)
    return BookingProgress(key=booking.key, stage=stage, reason=reason, message=message)


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
    booking: Booking, assignment: Assignment, policy: Policy, now: datetime, eta: Callable[[str], str]
) -> Said:
    if booking.problem:
        return BookingStage.FAILED, "FailedToCreatePods", booking.problem
    if now - booking.created_at >= (booking.valid_for or VALID_FOR):
        return BookingStage.FAILED, "Expired", "ProvisioningRequest is expired"
    if not booking.pods and not booking.consumed:
        return BookingStage.ACCEPTED, "CapacityIsNotFound", "its own pods exist already and wait for nodes"
    misfits = (misfit.detail for misfit in assignment.misfits if misfit.workload.key == booking.key)
    if misfit := next(misfits, ""):
        return BookingStage.FAILED, "CapacityIsNotFound", misfit
    held = (held for wanted in assignment.pools.values() for held in wanted.work.held if held.workload == booking.key)
    if refused := next(held, None):
        stage = BookingStage.FAILED if refused.met in FINAL else BookingStage.ACCEPTED
        return stage, "CapacityIsNotFound", refused.detail
    placements = [(p, g) for p in policy.pools for g in assignment.pools[p.id].work.rooms if _is_of(g, booking)]
    rooms = [room for _, placement in placements for room in placement.rooms]
    if len(rooms) < len(booking.pods):
        return BookingStage.ACCEPTED, "CapacityIsNotFound", "it has no room yet"
    where = listed([f"{some(len(g.rooms), 'pod')} in pool {p.name}" for p, g in placements]) or "all of its pods"
    if all(room.usable for room in rooms):
        return BookingStage.PROVISIONED, "CapacityIsProvisioned", f"booked for ten minutes: room for {where}"
    when = eta(booking.key)
    return BookingStage.ACCEPTED, "NodesAreComing", f"nodes for {where}{', ' if when else ''}{when}"


def _is_of(placement: Placement, booking: Booking) -> bool:
    return placement.workload.gang and placement.workload.key == booking.key
