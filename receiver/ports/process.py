"""What a process must know about itself and its replicas: the time, and which of them leads."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Where `now` comes from: called once per step."""

    def now(self) -> datetime:
        """Return the time, timezone-aware UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """The process that leads, which is *mine* where it is this one. *term* counts the leaders of the store so far, None
    where nobody counts them."""

    name: str
    term: int | None = None
    mine: bool = False
