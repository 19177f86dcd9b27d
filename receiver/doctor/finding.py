"""What a check came to, and what a check is."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["pass", "warn", "fail", "skip"]
VERDICTS: tuple[Verdict, ...] = ("pass", "warn", "fail", "skip")
NEEDS_REMEDY = frozenset({"warn", "fail"})


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
