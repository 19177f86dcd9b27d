"""Faults of the wire: what a caller meets instead of, or after, the answer."""

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

Kind = Literal["error", "rate_limit", "not_json", "timeout", "hang", "slow"]
Face = Literal["civo", "kubernetes", "metrics", "any"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFault:
    """One fault, met by the next *times* matching calls (None: until it is cleared).

    ``error`` answers *status* with Civo's error body (*code*, *reason*, *details*; for Kubernetes a Status).
    ``rate_limit`` answers 429 with *retry_after* as given (seconds or a date) or without. ``not_json`` answers
    *status* with an HTML page. ``timeout`` says nothing for *seconds* and closes the connection. ``hang`` sends
    the head and half a body, then nothing for *seconds*. ``slow`` answers rightly after *seconds*.
    With *after_effect* the call has taken effect when the caller meets the fault. *method* and *path* are
    regular expressions, searched in ``PUT`` and in ``/v2/kubernetes/...?region=lon1``.
    """

    kind: Kind
    face: Face = "civo"
    method: str = ""
    path: str = ""
    times: int | None = 1
    status: int = 503
    code: str = "internal_error"
    reason: str = "Something went wrong"
    details: str = ""
    retry_after: str | int | None = None
    seconds: timedelta = timedelta(seconds=60)
    after_effect: bool = False

    def matches(self, face: str, method: str, path: str) -> bool:
        """True when the call is one of those that it is for."""
        right_face = self.face in ("any", face)
        return right_face and bool(re.search(self.method, method)) and bool(re.search(self.path, path))

    def wrong(self) -> list[str]:
        """Return what is wrong with it."""
        errors = []
        for name, pattern in (("method", self.method), ("path", self.path)):
            try:
                re.compile(pattern)
            except re.error as error:
                errors.append(f"{name}: is no regular expression: {error}")
        if self.times is not None and self.times < 1:
            errors.append("times: must be at least 1, or null for until cleared")
        if not 100 <= self.status <= 599:
            errors.append("status: must be between 100 and 599")
        return errors


@dataclass(slots=True)
class _Standing:
    fault: HttpFault
    left: int | None
    met: int = 0


@dataclass(slots=True)
class HttpFaults:
    """The active faults. Clearing one releases the calls that wait in it."""

    _standing: dict[int, _Standing] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: int = 1
    released: threading.Event = field(default_factory=threading.Event)

    def add(self, fault: HttpFault) -> int:
        """Let *fault* stand and return its number."""
        with self._lock:
            number = self._next
            self._next += 1
            self._standing[number] = _Standing(fault, fault.times)
            return number

    def take(self, face: str, method: str, path: str) -> HttpFault | None:
        """Return the fault that this call meets, the oldest first, and count it."""
        with self._lock:
            for number, standing in self._standing.items():
                if standing.fault.matches(face, method, path):
                    standing.met += 1
                    if standing.left is not None:
                        standing.left -= 1
                        if standing.left == 0:
                            del self._standing[number]
                    return standing.fault
        return None

    def clear(self, number: int | None = None) -> bool:
        """Remove one fault, or all of them; False when there was none of that number."""
        with self._lock:
            known = number is None or number in self._standing
            for n in [n for n in self._standing if number in (None, n)]:
                del self._standing[n]
            if number is None or not self._standing:
                self.released.set()
                self.released = threading.Event()
            return known

    def shown(self) -> list[Mapping[str, object]]:
        """Return the standing faults for people and tests."""
        with self._lock:
            return [
                {
                    "id": number,
                    "kind": s.fault.kind,
                    "face": s.fault.face,
                    "method": s.fault.method,
                    "path": s.fault.path,
                    "left": s.left,
                    "met": s.met,
                    "after_effect": s.fault.after_effect,
                }
                for number, s in self._standing.items()
            ]
