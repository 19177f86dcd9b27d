"""Alertmanager's routing tree, and which of its routes an alert ends at, by the rules of its dispatcher.

https://prometheus.io/docs/alerting/latest/configuration/#route. An alert goes down the tree: of the children of a
route the first that matches takes it, and the next ones too as long as those that matched say `continue`. Where no
child matches, the route itself takes it. Times and grouping come from the parent where a route says none; time
intervals do not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from receiver.core.model.silences import Matcher
from receiver.doctor.matchers import Unreadable, all_match, matcher, parsed
from receiver.doctor.promql import milliseconds

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One route with what it has from its parents. *place* is where it stands: ``route.routes[2]``."""

    place: str
    receiver: str
    matchers: tuple[Matcher, ...] = ()
    goes_on: bool = False
    group_by: tuple[str, ...] = ()
    group_wait: timedelta = timedelta(seconds=30)
    group_interval: timedelta = timedelta(minutes=5)
    repeat_interval: timedelta = timedelta(hours=4)
    muted: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    children: tuple["Route", ...] = ()

    def matching(self, labels: Labels) -> tuple["Route", ...]:
        """Return the routes below this one, or itself, that take an alert with *labels*, in the order of the tree."""
        if not all_match(self.matchers, labels):
            return ()
        found: list[Route] = []
        for child in self.children:
            taken = child.matching(labels)
            found += taken
            if taken and not child.goes_on:
                break
        return tuple(found) or (self,)

    def walk(self, above: tuple["Route", ...] = ()) -> Iterator[tuple["Route", ...]]:
        """Yield every route below this one and itself, each as the way to it from the root."""
        way = (*above, self)
        yield way
        for child in self.children:
            yield from child.walk(way)


def read_route(raw: Any) -> Route:
    """Return the tree in *raw*, the key ``route`` of a configuration whose values are texts.

    Raises Unreadable for what is no route, or has matchers that only Alertmanager can evaluate.
    """
    return _read(raw, "route", Route(place="", receiver=""))


def _read(raw: Any, place: str, parent: Route) -> Route:
    if not isinstance(raw, Mapping):
        raise Unreadable(f"{place} is no route")
    route = Route(
        place=place,
        receiver=str(raw.get("receiver") or parent.receiver),
        matchers=read_matchers(raw, "match", "match_re", "matchers"),
        goes_on=str(raw.get("continue")).lower() == "true",
        group_by=tuple(raw["group_by"]) if raw.get("group_by") else parent.group_by,
        group_wait=_duration(raw.get("group_wait"), parent.group_wait),
        group_interval=_duration(raw.get("group_interval"), parent.group_interval),
        repeat_interval=_duration(raw.get("repeat_interval"), parent.repeat_interval),
        muted=tuple(raw.get("mute_time_intervals") or ()),
        active=tuple(raw.get("active_time_intervals") or ()),
    )
    below = enumerate(raw.get("routes") or ())
    return replace(route, children=tuple(_read(child, f"{place}.routes[{n}]", route) for n, child in below))


def read_matchers(raw: Mapping[str, Any], equal: str, regex: str, either: str) -> tuple[Matcher, ...]:
    """Return what *raw* says in its keys *equal*, *regex* (mappings, the old form) and *either* (texts).

    Alertmanager prints an empty regular expression of the old form as null.
    """
    found = [matcher(str(k), str(v or "")) for k, v in (raw.get(equal) or {}).items()]
    found += [matcher(str(k), str(v or ""), regex=True) for k, v in (raw.get(regex) or {}).items()]
    texts: Sequence[Any] = raw.get(either) or ()
    return (*found, *(one for text in texts for one in parsed(str(text))))


def _duration(said: Any, otherwise: timedelta) -> timedelta:
    return timedelta(milliseconds=milliseconds(str(said))) if said else otherwise
