"""What the doctor is told of an installation, and a group of checks that ask one source."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from receiver.adapters.clock import SystemClock
from receiver.config import Settings
from receiver.doctor.finding import Check, Finding
from receiver.ports import Clock

TIMEOUT_SECONDS = 60.0  # of an area: several calls, each with a timeout of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What areas are told: the settings as the server would load them, and what the person asked for beside looking.

    Areas open what they ask by themselves, and close it: they run beside each other.
    """

    settings: Settings
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    clock: Clock = field(default_factory=SystemClock)
    send_test_alert: bool = False
    send_test_message: bool = False

    @property
    def timeouts(self) -> tuple[float, float]:
        """(connect, read) seconds of one call: a person waits."""
        return (5, 15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """Checks that belong together because they ask the same source: *source* names it, such as ``Civo's API``.

    *look* yields findings as they come, so that those before a failure are kept. It may raise TryLater and WontWork,
    which become a failure of the area with *remedy*.
    """

    name: str
    source: str
    checks: tuple[Check, ...]
    look: Callable[[Installation], Iterable[Finding]]
    remedy: str
    timeout: float = TIMEOUT_SECONDS

    @property
    def answers(self) -> Check:
        """The check that speaks when the area could not be looked at to its end."""
        looks = f"whether {self.source} could be asked to the end"
        return Check(f"{self.name}.answers", looks, ("fail",), self.remedy)
