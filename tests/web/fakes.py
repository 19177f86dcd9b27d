"""A loop whose health a test writes down, and what the webhook counted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from receiver.ports import (
    Leader,
    LoopHealth,
)

LEADER = Leader(name="gpu-autoscaler-0-1-c0ffee", term=4)


@dataclass(frozen=True, kw_only=True)
class FakeHealth(LoopHealth):
    """A loop's health that a test writes down."""

    state: str = "leading"
    beat_age: timedelta = timedelta(seconds=2)
    fresh: timedelta = timedelta(seconds=75)
    steps: int = 7
    errors: int = 1
    good_age: timedelta | None = timedelta(seconds=3)
    good_within: timedelta = timedelta(minutes=5)
    leader: Leader | None = LEADER


@dataclass
class FakeInstruments:
    """Keeps the codes it was told."""

    codes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def webhook_answered(self, code: int, seconds: float) -> None:
        self.codes.append(code)
        self.seconds.append(seconds)


def without(picture: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return *picture* less *keys*, as an older version would have kept it."""
    return {k: v for k, v in picture.items() if k not in keys}
