"""What a step leaves for the next one to decide from. It is stored before anything is made for people."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from receiver.core.model.model import Source
from receiver.core.model.rights import Rights


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Whether a source answered, and since when it has or has not."""

    up: bool
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The control state of the step at *at*.

    *sources* is how each source stood, *kept_out* where the budget hold kept new work out and since when (None: not
    known), *rights* what the cluster said of the rights that a removal needs. *decisions* are the numbers of the stored
    decisions by pool.
    """

    at: datetime
    sources: Mapping[Source, Turn] = field(default_factory=dict)
    kept_out: Mapping[str, datetime] | None = None
    rights: Rights | None = None
    decisions: Mapping[str, int] = field(default_factory=dict)


def is_new_minute(before: Control | None, now: datetime) -> bool:
    """True for the first step of a minute of the clock; *before* is what the step before this one left."""
    return before is None or before.at.replace(second=0, microsecond=0) != now.replace(second=0, microsecond=0)
