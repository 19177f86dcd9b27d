"""Civo's sizes: how much CPU, memory and disk the machine of each has, asked for rarely."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import structlog

from receiver.core.model.resources import CPU, GIB, MEMORY, MIB, STORAGE
from receiver.ports import TryLater, WontWork

UNITS = {"cpu_cores": (CPU, 1000), "ram_mb": (MEMORY, MIB), "disk_gb": (STORAGE, GIB)}
MOST = 10**7  # of each: a larger number is no machine's
ASKED_AGAIN = timedelta(hours=6)
TRIED_AGAIN = timedelta(minutes=10)

log = structlog.get_logger("receiver")


class KnownSizes:
    """What *ask* (``GET /v2/sizes``) told last. A size is as large tomorrow as it is today, so it is asked for rarely,
    and an answer that does not come, or says nothing of a size, leaves things as they are."""

    def __init__(self, ask: Callable[[], object], now: Callable[[], datetime]) -> None:
        self._ask, self._now = ask, now
        self._due: datetime | None = None
        self._known: Mapping[str, Mapping[str, int]] = {}

    def machines(self) -> Mapping[str, Mapping[str, int]]:
        """Return what the machine of each size has; see `receiver.ports.Sizes`."""
        now = self._now()
        if self._due is not None and now < self._due:
            return self._known
        self._due = now + TRIED_AGAIN
        try:
            found = machines_of(self._ask())
        except (TryLater, WontWork) as error:
            detail = "pods are matched by what the nodes show, and by GPUs alone where there are none"
            log.warning("sizes unknown", error=str(error), detail=detail)
            return self._known
        self._known, self._due = {**self._known, **found}, now + ASKED_AGAIN
        return self._known


def machines_of(answer: object) -> Mapping[str, Mapping[str, int]]:
    """Return CPU, memory and disk by the size's name. Raises TryLater for what is no list."""
    if not isinstance(answer, list):
        raise TryLater("Civo's answer is not understood: the list of sizes is malformed", code="malformed")
    records = (record for record in answer if isinstance(record, dict) and isinstance(record.get("name"), str))
    found = {record["name"]: _machine(record) for record in records}
    return {name: machine for name, machine in found.items() if machine}


def _machine(record: Mapping[str, object]) -> dict[str, int]:
    told = {resource: (whole(record.get(name)), unit) for name, (resource, unit) in UNITS.items()}
    return {r: n * unit for r, (n, unit) in told.items() if n is not None and 0 < n <= MOST}


def whole(value: object) -> int | None:
    """A number, which may come as text (seen in other clients' decoders)."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(float(value))
    except (ValueError, OverflowError):
        return None
