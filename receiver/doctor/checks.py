"""What a check is and comes to, the areas that checks are grouped in, and what several areas judge alike."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from receiver.adapters.clock import SystemClock
from receiver.adapters.http.sessions import ClockReading
from receiver.config import Settings
from receiver.core.model.policy import Taint
from receiver.core.model.text import span
from receiver.ports import Clock

Verdict = Literal["pass", "warn", "fail", "skip"]
VERDICTS: tuple[Verdict, ...] = ("pass", "warn", "fail", "skip")
NEEDS_REMEDY = frozenset({"warn", "fail"})
TIMEOUT_SECONDS = 60.0  # of an area: several calls, each with a timeout of its own
WARN_FROM = timedelta(seconds=10)
FAIL_FROM = timedelta(minutes=1)  # paid hours, cooldowns and silences are then decided wrongly
CLOCK_REMEDY = "let an NTP client (chrony, systemd-timesyncd) set the clock of this host"
SHOWN = 5  # names of a list


@dataclass(frozen=True, slots=True)
class Finding:
    """What the check named *check* came to: *said* is one sentence without a full stop at its end.

    *remedy* says what helps; a warning or a failure has one. Raises ValueError without.
    """

    check: str
    verdict: Verdict
    said: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if self.verdict in NEEDS_REMEDY and not self.remedy:
            raise ValueError(f"{self.check}: a finding that is no good news needs a remedy")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is looked at. *name* is ``area.words``, stable: scripts read it.

    *looks* says what is looked at, for the page. *may* lists what it can come to beside ``pass``. *remedy* is what
    helps when it is no good news; a finding may say it more exactly.
    """

    name: str
    looks: str
    may: tuple[Verdict, ...]
    remedy: str

    def passed(self, said: str) -> Finding:
        """All is well."""
        return Finding(self.name, "pass", said)

    def warned(self, said: str, remedy: str = "") -> Finding:
        """It works, and probably not as meant, or not for long."""
        return self._found("warn", said, remedy or self.remedy)

    def failed(self, said: str, remedy: str = "") -> Finding:
        """Something that is configured cannot work."""
        return self._found("fail", said, remedy or self.remedy)

    def skipped(self, said: str) -> Finding:
        """It could not be looked at, or need not be; *said* gives the reason."""
        return self._found("skip", said)

    def _found(self, verdict: Verdict, said: str, remedy: str = "") -> Finding:
        assert verdict in self.may, f"{self.name} does not declare {verdict}"
        return Finding(self.name, verdict, said, remedy)


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


def few(names: Iterable[str]) -> str:
    """Return the first of *names*, and how many more there are."""
    listed = list(dict.fromkeys(names))
    more = len(listed) - SHOWN
    return ", ".join(listed[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def taint_text(taint: Taint) -> str:
    """A taint as kubectl writes it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def clock_check(area: str, whose: str) -> Check:
    """Return the check of *area* that compares our clock with *whose* (``Civo's``)."""
    looks = f"whether our clock agrees with {whose} to 10 s"
    return Check(f"{area}.clock", looks, ("warn", "fail", "skip"), CLOCK_REMEDY)


def judge_clock(check: Check, told: ClockReading | None) -> Finding:
    """Judge how far our clock is off from what the last answer's ``Date`` says."""
    if told is None:
        return check.skipped("no answer had a Date")
    off = abs(told.ahead)
    if off < WARN_FROM:
        return check.passed("our clock agrees with the one there")
    where = "ahead of" if told.ahead > timedelta(0) else "behind"
    said = f"our clock is {span(off.total_seconds())} {where} the one there"
    return check.failed(said) if off >= FAIL_FROM else check.warned(said)
