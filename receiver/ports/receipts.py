"""What a write says of itself."""

from dataclasses import dataclass
from enum import StrEnum


class Did(StrEnum):
    """What a write did."""

    DONE = "done"
    ALREADY = "already"  # the world was there already; nothing was sent
    DIFFERS = "differs"  # the world is not the one that was decided on; nothing was sent
    OBSERVED = "observed"  # observe mode: nothing was sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a write did, in one sentence; *required* is the count at the cloud afterwards, where it was read."""

    did: Did
    sentence: str
    required: int | None = None
