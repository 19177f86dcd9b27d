"""Checks, findings and areas."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from receiver.adapters.clock import SystemClock
from receiver.config import Settings
from receiver.core.model.policy import Taint
from receiver.ports import Clock

Verdict = Literal["pass", "warn", "fail", "skip"]
VERDICTS: tuple[Verdict, ...] = ("pass", "warn", "fail", "skip")
PROBLEMS = frozenset({"warn", "fail"})  # the verdicts with a remedy
TIMEOUT_SECONDS = 60.0  # of an area: several calls, each with a timeout of its own
CALL_TIMEOUTS = (5, 15)  # seconds to connect and to read; short, because a person waits
SHOWN = 5  # names of a list


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of the check named *check*; *said* is one sentence without a final full stop."""

    check: str
    verdict: Verdict
    said: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A check. *name* is ``area.words`` and stable: scripts read it. *looks* is what `doctor --list` prints of it.

    *remedy* is that of warnings and failures without a more specific one.
    """

    name: str
    looks: str
    remedy: str

    def passed(self, message: str) -> Finding:
        """Return a finding without a problem."""
        return Finding(self.name, "pass", message)

    def warned(self, message: str, remedy: str = "") -> Finding:
        """Return a warning: it works, but probably not as intended, or not for long."""
        return Finding(self.name, "warn", message, remedy or self.remedy)

    def failed(self, message: str, remedy: str = "") -> Finding:
        """Return a failure: something that is configured cannot work."""
        return Finding(self.name, "fail", message, remedy or self.remedy)

    def skipped(self, message: str) -> Finding:
        """Return that the check was not possible or not needed; *message* gives the reason."""
        return Finding(self.name, "skip", message)

    def warned_if(self, problem: object, message: str, otherwise: str) -> Finding:
        """Return a warning if there is a *problem*, or else that the check passed."""
        return self.warned(message) if problem else self.passed(otherwise)

    def failed_if(self, problem: object, message: str, otherwise: str) -> Finding:
        """Return a failure if there is a *problem*, or else that the check passed."""
        return self.failed(message) if problem else self.passed(otherwise)

    def warnings(self, problems: Iterable[str], otherwise: str) -> Iterator[Finding]:
        """Yield a warning for each of *problems*, or else that the check passed."""
        yield from [self.warned(problem) for problem in problems] or [self.passed(otherwise)]

    def failures(self, problems: Iterable[str], otherwise: str) -> Iterator[Finding]:
        """Yield a failure for each of *problems*, or else that the check passed."""
        yield from [self.failed(problem) for problem in problems] or [self.passed(otherwise)]


def skipped(checks: Iterable[Check], message: str) -> Iterator[Finding]:
    """Skip each of *checks* for the same reason."""
    return (check.skipped(message) for check in checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The settings as the server would load them, and the options of the command. *without_civo* says why Civo did not
    complete the pools; empty if it did, or if the file leaves nothing to it.

    Areas run in parallel, so each opens and closes its own connections.
    """

    settings: Settings
    without_civo: str = ""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    clock: Clock = field(default_factory=SystemClock)
    send_test_alert: bool = False
    send_test_message: bool = False


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
        return Check(f"{self.name}.answers", f"whether the checks of {self.source} could be completed", self.remedy)


def few(names: Iterable[str]) -> str:
    """Return the first of *names*, and how many more there are."""
    listed = list(dict.fromkeys(names))
    hidden_count = len(listed) - SHOWN
    return ", ".join(listed[:SHOWN]) + (f" and {hidden_count} more" if hidden_count > 0 else "")


def taint_text(taint: Taint) -> str:
    """Return *taint* in the notation of kubectl."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
