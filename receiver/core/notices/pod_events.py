"""What pods that wait are told by Kubernetes Events: which of them, what, and never the same twice in a short time."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from receiver.core.explain.explain import Fate, State
from receiver.core.explain.rules import RULES
from receiver.core.model.pods import Pod, Workload

TOLD = (State.HELD, State.GANG_INCOMPLETE, State.FITS_NOWHERE)
AGAIN_AFTER = timedelta(minutes=5)  # the same message is not left on a pod again before
REST = timedelta(minutes=5)  # after Events could not be written: each try may take half a minute
REMEMBERED = 20_000  # pods and messages


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEvent:
    """Why *pods* get no node: *about* names the state, rule and pool, *message* is the sentence with its figures."""

    pods: tuple[Pod, ...]
    about: str
    message: str


def held_events(fates: Iterable[tuple[Workload, Fate]], misfits: Mapping[str, str]) -> Iterator[PodEvent]:
    """Yield what workloads are told that wait and get nothing; *misfits* says why no pool holds them, by key."""
    for workload, fate in fates:
        passing = fate.rule is not None and fate.rule in RULES and RULES[fate.rule].passing
        if fate.state in TOLD and not passing:
            message = misfits.get(workload.key, fate.detail)
            yield PodEvent(pods=workload.pods, about=_about(fate.state, fate.rule, fate.pool), message=message)


def _about(state: object, rule: object, pool: object) -> str:
    return f"{state}:{rule}:{pool}"


class ToldPods:
    """What each pod was told last, as this process remembers it; a new process takes it from the last picture."""

    def __init__(self) -> None:
        self._about: dict[str, str] = {}  # by uid
        self._at: dict[tuple[str, str], datetime] = {}  # by uid and message
        self._rests_until: datetime | None = None
        self.begun = False

    def begin(self, picture: Mapping[str, Any], waiting: Iterable[Pod]) -> None:
        """Believe that the *waiting* pods were told what the last *picture* says of them."""
        self.begun = True
        shown = {(e.get("namespace"), e.get("name")): e for e in picture.get("waiting") or ()}
        for pod in waiting:
            entry = shown.get((pod.namespace, pod.name))
            if entry is not None:
                self._about[pod.uid] = _about(entry.get("state"), entry.get("rule"), entry.get("pool"))

    def wants(self, pod: Pod, about: str) -> bool:
        """True when *pod* was told something else last, or nothing."""
        return bool(pod.uid) and self._about.get(pod.uid) != about

    def may_tell(self, pod: Pod, message: str, now: datetime) -> bool:
        """True unless *pod* got *message* a moment ago, or no Event could be written a moment ago."""
        at = self._at.get((pod.uid, message))
        rests = self._rests_until is not None and now < self._rests_until <= now + REST
        return bool(pod.uid) and not rests and not (at is not None and at <= now < at + AGAIN_AFTER)

    def told(self, pod: Pod, about: str, message: str, now: datetime) -> None:
        """Remember that *pod* got *message* at *now*."""
        self._about[pod.uid], self._at[pod.uid, message] = about, now
        if len(self._about) > REMEMBERED:
            del self._about[next(iter(self._about))]
        if len(self._at) > REMEMBERED:
            del self._at[next(iter(self._at))]

    def rest(self, now: datetime) -> None:
        """Write none for a while after *now*: the API server did not take one."""
        self._rests_until = now + REST
