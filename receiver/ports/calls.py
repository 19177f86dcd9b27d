"""What a call to the outside can come to: a receipt of a write, or one of three failures."""

from dataclasses import dataclass
from datetime import timedelta
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


class TryLater(Exception):
    """It did not work now and may work later. *delay* is how long to wait at least, when the other side said so.

    *code* is a short word for metrics and messages (``timeout``, ``http_503``, Civo's error ``code``).
    """

    def __init__(self, detail: str, *, code: str = "unavailable", delay: timedelta | None = None) -> None:
        super().__init__(detail)
        self.code = code
        self.delay = delay


class WontWork(Exception):
    """It will not work until a person or the world changes something; *code* as in TryLater."""

    def __init__(self, detail: str, *, code: str = "refused") -> None:
        super().__init__(detail)
        self.code = code


class WriterLostError(Exception):
    """We are no longer the one writer, or may cease to be before a call could end: nothing may be written outside."""
