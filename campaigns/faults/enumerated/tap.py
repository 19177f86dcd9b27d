"""The tap: every write of the product passes it, and it breaks one of them in one way.

A process is *lost* once another replica leads: `WriterLostError` then ends its step, and the store's fence refuses its
transactions. *term* counts the processes that led.
"""

import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from campaigns.faults.doors import Doors
from campaigns.faults.enumerated.sites import CALLERS, ROOT, Site, store_writes
from campaigns.faults.enumerated.views import Views
from campaigns.faults.lines import CrashError
from receiver.ports import Did, Receipt, TryLater, WriterLostError
from receiver.replay.world.objects import Denied
from receiver.step.parts import Hands
from simulator.world import World

LATE = timedelta(seconds=40)  # when a write takes effect, or an answer of the store comes
HANDED_TO = (Hands.write.__code__, Hands.write_each.__code__)  # the caller of these made the write
TAKEOVER = timedelta(seconds=30)  # from the end of one leader to the first step of the next
UNSEEN = timedelta(minutes=5)  # without a look: whatever begins and ends meanwhile is never seen
PORT_METHOD = {"evict": "drain"}  # of a write whose port method has another name
WORLD_VERB = {
    "resize": "resize",
    "retire": "delete_instance",
    "evict": "evict",
    **dict.fromkeys(("cordon", "uncordon", "cordon_for_budget", "uncordon_for_budget"), "patch_node"),
    **dict.fromkeys(("apply_labels_and_taints", "set_soft_taints"), "patch_node"),
}

# The faults, by name: Sieve's pattern that each one is, empty for those that are not among its three.
INTERMEDIATE, STALE, UNOBSERVED = "intermediate state", "stale state", "unobserved state"
CRASH_BEFORE, CRASH_AFTER = "crash before", "crash after"
ANSWER_LOST, ANSWER_LATE = "answer lost", "late by 40 s"
NEVER_SEEN = "5 min unseen"
LEAD_LOST_BEFORE, LEAD_LOST_AFTER, FORMER_LEADER = "lead lost before", "lead lost after", "arrives after takeover"
OLD = {f"{source} {k} old": (source, k) for source in ("Civo", "Kubernetes") for k in (1, 2, 5)}
FAULTS: dict[str, str] = {
    CRASH_BEFORE: INTERMEDIATE,
    CRASH_AFTER: INTERMEDIATE,
    ANSWER_LOST: "",
    ANSWER_LATE: "",
    **dict.fromkeys(OLD, STALE),
    NEVER_SEEN: UNOBSERVED,
    LEAD_LOST_BEFORE: "",
    LEAD_LOST_AFTER: "",
    FORMER_LEADER: "",
}


@dataclass(frozen=True, slots=True)
class Blow:
    """*fault* at the *number*-th write of *site* in a tour, from 1."""

    site: Site
    number: int
    fault: str


@dataclass
class Tap:
    """Counts the writes of each site, and breaks the one that *blow* names. *violated* notes a write that should have
    been refused, *stored* is all that the store holds."""

    world: World
    doors: Doors
    views: Views
    blow: Blow | None
    violated: Callable[[str, str], None]
    stored: Callable[[], object]
    counts: Counter[Site] = field(default_factory=Counter)
    struck: bool = False
    lost: bool = False
    term: int = 0
    quiet_until: datetime | None = None  # no step is taken before

    def boot(self) -> Callable[[object], None]:
        """A process begins to lead; return its fence."""
        self.lost, self.term = False, self.term + 1
        mine = self.term

        def fence(_connection: object) -> None:
            if self.lost or mine != self.term:
                raise WriterLostError("another replica leads")

        return fence

    def sends(
        self, port: str, writes: list[Any], do: Callable[[], object], done: str, verb: str, *args: Any
    ) -> Receipt:
        """Make one write to Civo or Kubernetes, as `WorldPort.write`."""
        writes.append((verb, args))
        self._make(f"{port}.{PORT_METHOD.get(verb, verb)}", do, verb, fenced=True)
        return Receipt(did=Did.DONE, sentence=done)

    def stores(self, verb: str, do: Callable[[], Any], *, fenced: bool) -> Any:
        """Make one write to the store; one that is not *fenced* every replica may make."""
        return self._make(f"store.{verb}", do, "", fenced=fenced)

    def _make(self, verb: str, do: Callable[[], Any], sent: str, *, fenced: bool) -> Any:
        site = Site(verb, _caller())
        self.counts[site] += 1
        if self.struck or self.blow is None or (self.blow.site, self.blow.number) != (site, self.counts[site]):
            answer = do()
            self.views.note()
            return answer
        self.struck = True
        return self._strike(self.blow.fault, do, sent, fenced=fenced)

    def _strike(self, fault: str, do: Callable[[], Any], sent: str, *, fenced: bool) -> Any:
        """Make the write *do* with *fault*; *sent* is its verb outside, empty for the store."""
        self._before(fault, do, sent, fenced=fenced)
        answer = do()
        self.views.note()
        if fault == CRASH_AFTER:
            raise CrashError
        if fault == ANSWER_LOST:
            raise TryLater("no answer", code="timeout" if sent else "store")
        if fault == NEVER_SEEN:
            self.quiet_until = self.world.now + UNSEEN
        if fault == LEAD_LOST_AFTER:
            self.lost = True
        if fault in OLD:
            self.views.serve_old(*OLD[fault])
        return answer

    def _before(self, fault: str, do: Callable[[], Any], sent: str, *, fenced: bool) -> None:
        """What a fault does before the write, or instead of it."""
        if fault == CRASH_BEFORE:
            raise CrashError
        if fault == ANSWER_LATE and sent:
            self._later(do, sent)
            raise TryLater("no answer", code="timeout")
        if fault == ANSWER_LATE:
            self.world.advance(self.world.now + LATE)
        if fault == FORMER_LEADER:
            self.quiet_until = self.world.now + TAKEOVER
            if sent:
                self._later(do, sent)
            elif fenced:
                self.world._agenda.after(LATE, self._refused, do)
            else:
                do()
            raise CrashError
        if fault == LEAD_LOST_BEFORE:
            self.lost = True
            if fenced:
                raise WriterLostError("another replica leads")

    def _later(self, do: Callable[[], Any], sent: str) -> None:
        """Let the write take effect later; what the checks say of it they say now."""
        if sent in WORLD_VERB:
            self.doors.arm(f"world.{WORLD_VERB[sent]}", "late", after=False)
            with suppress(TryLater):
                do()
            return

        def arrives() -> None:
            with suppress(Denied, KeyError):  # what it would take away may be gone
                do()

        self.world._agenda.after(LATE, arrives)

    def _refused(self, do: Callable[[], Any]) -> None:
        """A former leader's transaction arrives: the fence refuses it, unless it finds nothing to change."""
        before = self.stored()
        with suppress(WriterLostError):
            do()
        if self.stored() != before:
            self.violated("4 former leader", f"{self.blow} was accepted")


class TappedStore:
    """The store behind the tap."""

    def __init__(self, inner: Any, tap: Tap, *, fenced: bool) -> None:
        self._inner, self._tap, self._fenced = inner, tap, fenced

    def __getattr__(self, verb: str) -> Any:
        """Return the method; one that writes goes through the tap."""
        method = getattr(self._inner, verb)
        if verb not in store_writes():
            return method

        def call(*args: Any, **given: Any) -> Any:
            return self._tap.stores(verb, lambda: method(*args, **given), fenced=self._fenced)

        return call


@cache
def _module(file: str) -> str:
    """The module of *file* if it is one that calls ports, below ``receiver``, with dots; else nothing."""
    path = Path(file)
    if ROOT not in path.parents:
        return ""
    name = path.relative_to(ROOT).with_suffix("").as_posix()
    return name.replace("/", ".") if name.startswith(tuple(f"{folder}/" for folder in CALLERS)) else ""


def _caller() -> str:
    """The innermost function of the product, outside its adapters, that led here."""
    frame = sys._getframe(2)
    while not (module := _module(frame.f_code.co_filename)) or frame.f_code in HANDED_TO:
        assert frame.f_back is not None, "a write that the product did not make"
        frame = frame.f_back
    return f"{module}.{frame.f_code.co_qualname.replace('<locals>.', '')}"
