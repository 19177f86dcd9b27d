"""What GPUs do, by three witnesses: the engine, the memory and the power."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Use(StrEnum):
    """What the witnesses say together."""

    ACTIVE = "active"
    QUIET = "quiet"
    UNKNOWN = "unknown"  # they contradict each other, or too few of them spoke


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The busiest GPU of a node as DCGM shows it now, each None where it says nothing.

    *engine* is the share of time the engine worked (ratio), *memory* used memory of used, free and reserved
    (ratio), *power* watts.
    """

    engine: float | None = None
    memory: float | None = None
    power: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What the busiest GPU of a pod did over the last *window*: peaks, and how much of it was seen.

    *engine* is the highest share of time the engine worked (ratio), *memory* by how much used memory changed
    (highest less lowest, ratio of the GPU's), *power* the highest watts, *power_floor* the lowest ones. *coverage*
    is the share of the window that has samples (ratio).
    """

    window: timedelta
    engine: float | None = None
    memory: float | None = None
    power: float | None = None
    power_floor: float | None = None
    coverage: float = 0.0
