"""Our clock beside the ones of those we talk to."""

from datetime import timedelta

from receiver.adapters.http.timestamps import ClockReading
from receiver.core.model.text import span
from receiver.doctor.finding import Check, Finding

WARN_FROM = timedelta(seconds=10)
FAIL_FROM = timedelta(minutes=1)  # paid hours, cooldowns and silences are then decided wrongly
REMEDY = "let an NTP client (chrony, systemd-timesyncd) set the clock of this host"

CIVO_CLOCK = Check("civo.clock", "whether our clock agrees with Civo's to 10 s", ("warn", "fail", "skip"), REMEDY)
KUBERNETES_CLOCK = Check(
    "kubernetes.clock", "whether our clock agrees with the API server's to 10 s", ("warn", "fail", "skip"), REMEDY
)
STORE_CLOCK = Check(
    "store.clock", "whether our clock agrees with the PostgreSQL server's to 10 s", ("warn", "fail", "skip"), REMEDY
)


def clock(check: Check, told: ClockReading | None) -> Finding:
    """Judge how far our clock is off from what the last answer's ``Date`` says."""
    if told is None:
        return check.skipped("no answer had a Date")
    off = abs(told.ahead)
    if off < WARN_FROM:
        return check.passed("our clock agrees with the one there")
    where = "ahead of" if told.ahead > timedelta(0) else "behind"
    said = f"our clock is {span(off.total_seconds())} {where} the one there"
    return check.failed(said) if off >= FAIL_FROM else check.warned(said)
