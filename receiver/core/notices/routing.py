"""Which destinations get a notice, and in which format."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from receiver.core.notices.notice import Notice, Severity

_RANK = {Severity.INFO: 0, Severity.SUCCESS: 0, Severity.WARNING: 1, Severity.FAILURE: 2}


class Format(StrEnum):
    """How a destination gets its messages."""

    TEXT = "text"
    SLACK = "slack"
    CLOUDEVENTS = "cloudevents"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The filter of a destination; the default passes everything. *level* is the least severity, *kinds* are words of
    `Cause`, *pools* are ids. *format* None is the destination's own: Slack's for Slack, else text."""

    level: Severity = Severity.INFO
    kinds: Collection[str] = frozenset()
    pools: Collection[str] = frozenset()
    teams: Collection[str] = frozenset()
    format: Format | None = None

    def wants(self, notice: Notice) -> bool:
        """True if *notice* passes: its kind is listed, it is about a listed pool or team, and it is severe enough.

        An all-clear passes where its warning did. At ``failure`` it passes only if its kind is listed: a pager opens
        an incident for every message.
        """
        if self.kinds and notice.cause not in self.kinds:
            return False
        about = notice.pool in self.pools or notice.team in self.teams
        if (self.pools or self.teams) and not about:
            return False
        clears = notice.all_clear and (self.level is not Severity.FAILURE or bool(self.kinds))
        return clears or _RANK[notice.severity] >= _RANK[self.level]


EVERYTHING = Route()


class Routed(Protocol):
    """Something with a route."""

    @property
    def route(self) -> Route: ...


To = TypeVar("To", bound=Routed)


def recipients(notice: Notice, everybody: Iterable[To], of_teams: Mapping[str, Iterable[To]]) -> tuple[To, ...]:
    """Return who gets *notice*: the team's own destinations in *of_teams* if it is about a team that has some, else
    those of *everybody*; of these, the ones that want it."""
    audience = of_teams.get(notice.team or "", everybody)
    return tuple(destination for destination in audience if destination.route.wants(notice))
