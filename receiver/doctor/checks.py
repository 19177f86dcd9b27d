"""Checks, findings and areas, and the judgements that several areas share."""

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
FAIL_FROM = timedelta(minutes=1)  # paid hours, cooldowns and silences are wrong then
CLOCK_REMEDY = "run an NTP client (chrony, systemd-timesyncd) on this host"
SHOWN = 5  # names of a list


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of the check named *check*; *said* is one sentence without a final full stop.

    A warning or failure has a *remedy*. Raises ValueError without one.
    """

    check: str
    verdict: Verdict
    said: str
    remedy: str = ""

    def __post_init__(self) -> None:
        if self.verdict in NEEDS_REMEDY and not self.remedy:
            raise ValueError(f"{self.check}: a warning or failure needs a remedy")


@dataclass(frozen=True, slots=True)
class Check:
    """A check. *name* is ``area.words`` and stable: scripts read it.

    *looks* describes it in the documentation. *may* lists its possible verdicts beside ``pass``. A finding may have a
    more specific *remedy*.
    """

    name: str
    looks: str
    may: tuple[Verdict, ...]
    remedy: str

    def passed(self, said: str) -> Finding:
        """Return a finding without a problem."""
        return Finding(self.name, "pass", said)

    def warned(self, said: str, remedy: str = "") -> Finding:
        """Return a warning: it works, but probably not as intended, or not for long."""
        return self._found("warn", said, remedy or self.remedy)

    def failed(self, said: str, remedy: str = "") -> Finding:
        """Return a failure: something that is configured cannot work."""
        return self._found("fail", said, remedy or self.remedy)

    def skipped(self, said: str) -> Finding:
        """Return that the check was not possible or not needed; *said* gives the reason."""
        return self._found("skip", said)

    def _found(self, verdict: Verdict, said: str, remedy: str = "") -> Finding:
        assert verdict in self.may, f"{self.name} does not declare {verdict}"
        return Finding(self.name, verdict, said, remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The settings as the server would load them, and the options of the command.

    Areas run in parallel, so each opens and closes its own connections.
    """

    settings: Settings
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    clock: Clock = field(default_factory=SystemClock)
    send_test_alert: bool = False
    send_test_message: bool = False

    @property
    def timeouts(self) -> tuple[float, float]:
        """Seconds of one call to (connect, read); short, because a person waits."""
        return (5, 15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """Checks of the same *source*, such as ``Civo's API``.

    *look* yields findings one by one, so that those before a failure are kept. It may raise TryLater and WontWork,
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
        """The check that fails when the area could not be completed."""
        looks = f"whether the checks of {self.source} could be completed"
        return Check(f"{self.name}.answers", looks, ("fail",), self.remedy)


def few(names: Iterable[str]) -> str:
    """Return the first of *names*, and how many more there are."""
    listed = list(dict.fromkeys(names))
    more = len(listed) - SHOWN
    return ", ".join(listed[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def text_map(value: object) -> Mapping[str, str]:
    """Return a JSON object such as labels as text, empty if it is not an object."""
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


def taint_text(taint: Taint) -> str:
    """Return *taint* in the notation of kubectl."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def clock_check(area: str, whose: str) -> Check:
    """Return the check of *area* that compares the local clock with *whose* (``Civo's``)."""
    looks = f"whether the local clock agrees with {whose} within 10 s"
    return Check(f"{area}.clock", looks, ("warn", "fail", "skip"), CLOCK_REMEDY)


def judge_clock(check: Check, told: ClockReading | None) -> Finding:
    """Judge the difference between the local clock and the last answer's ``Date``."""
    if told is None:
        return check.skipped("no answer had a Date header")
    off = abs(told.ahead)
    if off < WARN_FROM:
        return check.passed("the clocks agree")
    where = "ahead of" if told.ahead > timedelta(0) else "behind"
    said = f"the local clock is {span(off.total_seconds())} {where} the remote one"
    return check.failed(said) if off >= FAIL_FROM else check.warned(said)
