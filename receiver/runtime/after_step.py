"""Work that is due at certain times, such as the report of a month: each step is followed by a look at it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from receiver.config.settings import FileSettings
from receiver.ports import Store, Telemetry


class AfterStep(Protocol):
    """Does what is due; it never affects scaling."""

    def look(self, now: datetime, *, sure: bool) -> None:
        """Do what is due at *now*; raises only WriterLostError. The clock may have jumped unless it is *sure*."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterStepParts:
    """What it is made of: *settings* are those in force, and *watched* says whether there is a cluster."""

    store: Store
    telemetry: Telemetry | None
    settings: FileSettings
    watched: bool


AfterStepOf = Callable[[AfterStepParts], Sequence[AfterStep]]
