"""What every part of a step works with, once everything is decided."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from receiver.act import Hands
from receiver.core.actions import Decision
from receiver.core.assign import Assignment
from receiver.core.model import Drift, Facts
from receiver.core.policy import Policy
from receiver.ports import Snapshot, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One step's facts and decisions, and what may be written to. *numbers* are the stored decisions' by pool,
    *before* is the picture that the step before this one left."""

    facts: Facts
    assignment: Assignment
    decisions: Mapping[str, Decision]
    numbers: Mapping[str, int]
    drifts: Mapping[str, Drift]
    policy: Policy
    mode: str
    hands: Hands
    store: Store
    before: Snapshot | None
    now: datetime
