"""What a step leaves for the next one to decide from, and whether the clock can be trusted with what is irreversible.

It is stored before anything is made for people.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from receiver.core.model.model import Source
from receiver.core.model.rights import Rights


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTurn:
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
    sources: Mapping[Source, SourceTurn] = field(default_factory=dict)
    kept_out: Mapping[str, datetime] | None = None
    rights: Rights | None = None
    decisions: Mapping[str, int] = field(default_factory=dict)


def is_new_minute(before: Control | None, now: datetime) -> bool:
    """True for the first step of a minute of the clock; *before* is what the step before this one left."""
    return before is None or before.at.replace(second=0, microsecond=0) != now.replace(second=0, microsecond=0)


IN_A_ROW = timedelta(minutes=15)  # steps are seconds apart, five minutes at most
LONG = timedelta(hours=1)


def is_steady(before: datetime | None, now: datetime) -> bool:
    """True when the step *before* (None: there was none) was a moment ago by the same clock.

    After a jump, or a long pause, one step passes until the clock is believed: where it jumped to, or back, is then
    what two steps in a row say.
    """
    return before is not None and timedelta(0) <= now - before <= IN_A_ROW


def believed_since(before: datetime | None, now: datetime, *, steady: bool) -> datetime | None:
    """Since when every step has been *steady*, given since when they were at the step *before*; None: they are not."""
    if not steady:
        return None
    return now if before is None else min(before, now)


def is_sure(since: datetime | None, now: datetime) -> bool:
    """True when the clock has been believed for long enough (*since*) for what nothing ever replaces."""
    return since is not None and now - since >= LONG
