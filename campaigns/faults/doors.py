"""The doors of the product: every port behind a proxy that breaks calls on demand, and our writes seen by the checks.

A crash is a BaseException at a call, before or after its effect, as `kill -9` is. Nothing here decides when: the
scenario's events arm the faults.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from campaigns.faults.blur import blurred
from campaigns.faults.everyday import answered
from campaigns.faults.lines import CrashError
from receiver.ports import TryLater, WontWork
from receiver.replay.world.objects import Denied
from simulator.world import World
from tests.stores import ILLNESSES, ill

PORTS = {
    "cloud": ("look", "resize", "retire"),
    "cluster": (
        *("look", "gpu_pods_on", "cordon", "uncordon", "cordon_for_budget", "uncordon_for_budget"),
        *("drain", "apply_labels_and_taints", "set_soft_taints", "scale_to_zero", "record_event"),
    ),
    "telemetry": ("look", "courses"),
    "alarms": ("look",),
    "store": (
        *("memory", "remembered_alerts", "snapshot", "decision", "actions"),
        *("saw", "decided", "opened", "progressed", "closed", "say", "keep_snapshot", "keep_control"),
    ),
}
QUESTIONS = {
    "cluster": ("missing_rights",)
}  # ports' calls too; when they break is drawn apart, see `campaigns.faults.ends`
NEEDS = {"rehearse_eviction": "create pods/eviction", "evict": "create pods/eviction", "patch_node": "patch nodes"}
LATE = timedelta(seconds=25)  # when a write takes effect whose answer nobody waited for
WRITES = frozenset({"resize", "delete_instance", "patch_node", "evict", "delete_pod", "patch_pod", "scale"})


class Watcher(Protocol):
    """Who is told of what goes through the doors."""

    def before_call(self, name: str) -> None:
        """Port call *name* (``cloud.look``) is about to be made."""

    def called(self, name: str, args: tuple[Any, ...], answer: Any) -> None:
        """It was made; *answer* is what it returned or raised."""

    def before_write(self, verb: str, args: tuple[Any, ...]) -> None:
        """Our write *verb* is about to reach the world."""

    def after_write(self, verb: str, args: tuple[Any, ...]) -> None:
        """It took effect."""

    def under_way(self, verb: str, args: tuple[Any, ...], until: datetime) -> None:
        """Our write *verb* was not answered, and takes effect at *until*."""

    def arrived(self, verb: str, args: tuple[Any, ...]) -> None:
        """A write of ours that was under way took effect."""

    def struck(self, name: str, what: str) -> None:
        """A fault struck at call *name*."""

    def hangs(self, name: str) -> None:
        """Call *name* hangs until it is given up: that takes its time."""


@dataclass(slots=True)
class Fault:
    """The next call *name* fails; *after* its effect, or before it."""

    name: str
    error: str
    after: bool


@dataclass(slots=True)
class Doors:
    """Which faults are armed, and which sources are silent until when."""

    watcher: Watcher
    now: Callable[[], datetime]
    armed: list[Fault]
    silent: dict[str, datetime]
    blurred: tuple[str, datetime] | None = None  # how Prometheus answers, until when
    partial: tuple[Mapping[str, Any], datetime] | None = None  # how Civo answers, until when
    refused: tuple[str, ...] = ()  # the rights that somebody took away
    late: timedelta = LATE

    def arm(self, name: str, error: str, *, after: bool) -> None:
        """Let the next call *name* fail."""
        self.armed.append(Fault(name, error, after))

    def open(self) -> None:
        """Nothing fails any more."""
        self.armed.clear()
        self.silent.clear()
        self.blurred = self.partial = None
        self.refused = ()

    def take(self, name: str) -> Fault | None:
        """Use up and return the fault that call *name* meets, or None."""
        for index, fault in enumerate(self.armed):
            if fault.name == name:
                return self.armed.pop(index)
        return None

    def pass_through(self, port: str, verb: str, method: Callable[..., Any], args: Any, given: Any) -> Any:
        """Make one call, or break it."""
        name = f"{port}.{verb}"
        self.watcher.before_call(name)
        if port in self.silent and self.now() < self.silent[port]:
            raise TryLater(f"{port}: no answer", code="timeout")
        fault = self.take(name) if self.armed else None
        if fault is not None and fault.error in ILLNESSES:
            return self._through_an_ill_store(name, fault.error, method, args, given)
        if fault is not None and not fault.after:
            self.watcher.struck(name, f"{fault.error} before")
            self._take_time(fault)
            raise error_of(fault.error)
        try:
            answer = method(*args, **given)
        except (TryLater, WontWork) as error:
            self.watcher.called(name, (*args, *given.values()), error)
            if fault is not None:
                self.watcher.struck(name, f"{fault.error} after")
                raise error_of(fault.error) from None
            raise
        # what was read did not arrive; what was written is written
        lost = fault is not None and verb in ("look", "missing_rights")
        if name == "telemetry.look" and self.blurred is not None and self.now() < self.blurred[1]:
            answer = blurred(answer, self.blurred[0])
            self.watcher.struck(name, f"answered {self.blurred[0]}")
        if name == "cloud.look" and self.partial is not None and self.now() < self.partial[1]:
            answer = answered(answer, self.partial[0])
        self.watcher.called(name, (*args, *given.values()), error_of("timeout") if lost else answer)
        if fault is not None:
            self.watcher.struck(name, f"{fault.error} after")
            self._take_time(fault)
            raise error_of(fault.error)
        return answer

    def _take_time(self, fault: Fault) -> None:
        if fault.error == "hang":
            self.watcher.hangs(fault.name)

    def _through_an_ill_store(self, name: str, how: str, method: Callable[..., Any], args: Any, given: Any) -> Any:
        """Make one call of the store while its database refuses what it is asked; a read may not notice."""
        try:
            with ill(method.__self__, how):  # type: ignore[attr-defined] # a bound method of the store
                answer = method(*args, **given)
        except TryLater as error:
            self.watcher.called(name, (*args, *given.values()), error)
            self.watcher.struck(name, f"{how}: {error}")
            raise
        self.watcher.called(name, (*args, *given.values()), answer)
        return answer


def error_of(kind: str) -> BaseException:
    """What a fault of *kind* raises."""
    match kind:
        case "crash":
            return CrashError()
        case "wont":
            return WontWork("none left", code="gpu_count_exceeded")
        case "slow_down":
            return TryLater("too many requests", code="http_429", delay=timedelta(seconds=20))
        case "locked":
            return TryLater("store: database is locked", code="store")
        case "rescaling":
            return TryLater("being rescaled", code="cannot_scale_already_rescaling_cluster")
        case _:
            return TryLater("no answer", code="timeout")


class Door:
    """One port behind the doors."""

    def __init__(self, port: str, inner: Any, doors: Doors) -> None:
        self._port, self._inner, self._doors = port, inner, doors

    def __getattr__(self, verb: str) -> Any:
        """Return the method that goes through the doors, made once."""
        method = getattr(self._inner, verb)
        if verb not in (*PORTS[self._port], *QUESTIONS.get(self._port, ())):
            return method

        def call(*args: Any, **given: Any) -> Any:
            return self._doors.pass_through(self._port, verb, method, args, given)

        setattr(self, verb, call)
        return call


class OurWorld:
    """The world as our ports reach it: a write through here is ours, everybody else's goes to the world itself."""

    def __init__(self, world: World, doors: Doors) -> None:
        self._world, self._doors, self._watcher = world, doors, doors.watcher

    def __getattr__(self, name: str) -> Any:
        """Return the world's own attribute; its writes are shown to the watcher first."""
        found = getattr(self._world, name)
        if NEEDS.get(name) in self._doors.refused:
            self._watcher.struck(f"world.{name}", "forbidden")
            raise WontWork(f"grant {NEEDS[name]} in the ClusterRole", code="http_403")
        if name not in WRITES:
            return found

        def write(*args: Any, **given: Any) -> Any:
            seen = (*args, *given.values())
            self._watcher.before_write(name, seen)
            fault = self._doors.take(f"world.{name}") if self._doors.armed else None
            if fault is not None and fault.error == "late":
                late = self._doors.late
                self._watcher.struck(f"world.{name}", f"takes effect {late} later")
                self._watcher.under_way(name, seen, self._world.now + late)
                self._world._agenda.after(late, self._arrives, name, args, given)
                raise error_of("timeout")
            answer = found(*args, **given)
            self._watcher.after_write(name, seen)
            if fault is not None:  # between two writes of one call, as in the middle of a drain
                self._watcher.struck(f"world.{name}", f"{fault.error} after")
                raise error_of(fault.error)
            return answer

        return write

    def _arrives(self, name: str, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
        """A write that nobody waits for any more takes effect, if Civo still takes it."""
        with suppress(Denied):
            if name != "resize" or args[1] > self._world.pools[args[0]].required:
                getattr(self._world, name)(*args, **given)
                self._watcher.arrived(name, (*args, *given.values()))
