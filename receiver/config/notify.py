"""Where messages go and in which format: filters of the destinations whose URLs stand in the environment.

The text below a field is its row in docs/configuration.md (`make generate`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from receiver.config import values
from receiver.config.environment import LOOPBACK, split_name
from receiver.config.values import Mistake, Patterned, Section, Wrong, did_you_mean, spell, text
from receiver.core.notices.grouping import AT_MOST_EVERY
from receiver.core.notices.notice import Cause, Severity
from receiver.core.notices.routing import Format, Route


def notice_kind(value: object) -> str:
    """Return a word of `Cause`; raise Wrong."""
    cause = text(value)
    if cause not in set(Cause):
        raise Wrong(f'"{cause}" is no kind of message', lambda: did_you_mean(cause, Cause))
    return cause


NoticeKind = Annotated[str, Patterned(notice_kind, pattern="|".join(Cause))]
URLS = "GPU_AUTOSCALER_NOTIFY_URLS"


class LeastSeverity(StrEnum):
    """The severities that a destination can start at."""

    FAILURE = Severity.FAILURE.value
    WARNING = Severity.WARNING.value
    INFO = Severity.INFO.value


class DestinationSpec(Section):
    level: LeastSeverity = LeastSeverity.INFO
    """the least severity; `failure` is for a pager"""
    kinds: tuple[NoticeKind, ...] = ()
    """only these, such as `grew` or `budget_stop`"""
    pools: tuple[values.Text, ...] = ()
    """only messages about these pools"""
    teams: tuple[values.Text, ...] = ()
    """only these teams' reports and budgets"""
    format: Format | None = None
    """by default `slack`, with buttons, for Slack, and `text` elsewhere"""


class NotifySpec(Section):
    at_most_every: values.Spacing = AT_MOST_EVERY
    """at most one message of each kind about one pool in this time; [others are
    grouped](operations.md#how-many-messages-come)"""
    weekly_digest: bool = False
    """on Monday at 08:00, in the budget's zone"""
    destinations: dict[values.LabelValue, DestinationSpec] = Field(default_factory=dict)

    def unknown(self, pools: Collection[str], teams: Collection[str]) -> Iterator[Wrong]:
        """Yield each pool and team of a destination that no message can be about."""
        for name, spec in self.destinations.items():
            at = ("notify", "destinations", name)
            for index, pool in enumerate(spec.pools):
                if pool not in pools:
                    yield Wrong(f'there is no pool "{pool}"', did_you_mean(pool, pools), (*at, "pools", index))
            for index, team in enumerate(spec.teams):
                if team not in teams:
                    problem = f'no message is about the team "{team}": it has neither a budget nor a monthly report'
                    remedy = "add it to budget.teams or reports.monthly.teams, or remove it"
                    yield Wrong(problem, remedy, (*at, "teams", index))


def routes_of(notify: NotifySpec, pool_ids: Mapping[str, str]) -> Mapping[str, Route]:
    """Return the routes by name; *pool_ids* has the id of each pool by its name."""
    return {
        name: Route(
            level=Severity(spec.level),
            kinds=frozenset(spec.kinds),
            pools=frozenset(pool_ids.get(pool, pool) for pool in spec.pools),
            teams=frozenset(spec.teams),
            format=spec.format,
        )
        for name, spec in notify.destinations.items()
    }


def unsendable(notify: NotifySpec, entries: Sequence[str]) -> Iterator[Mistake]:
    """Yield a mistake for each destination that cannot take its format, by the *entries* of the environment."""
    for path, _, spec, urls in _with_urls(notify, entries):
        for parts in map(urlsplit, urls if spec.format is Format.CLOUDEVENTS else ()):
            if parts.scheme not in ("https", "http") or not parts.hostname:
                remedy = f"write an https URL in {URLS}"
                yield Mistake(path=f"{path}.format", problem="needs an https URL", remedy=remedy)


def oddities(notify: NotifySpec, entries: Sequence[str]) -> Iterator[str]:
    """Yield a warning for each destination without a URL in *entries*, or with one that encrypts nothing."""
    for path, name, spec, urls in _with_urls(notify, entries):
        if not urls:
            yield f"{path}: has no URL, so nothing is sent there; add {name}=URL to {URLS}"
        for parts in map(urlsplit, urls if spec.format is Format.CLOUDEVENTS else ()):
            if parts.scheme == "http" and parts.hostname not in LOOPBACK:
                yield f"{path}: its URL is http, so events are sent unencrypted; use https"


def _with_urls(notify: NotifySpec, entries: Sequence[str]) -> Iterator[tuple[str, str, DestinationSpec, Sequence[str]]]:
    named = [split_name(entry) for entry in entries]
    for name, spec in notify.destinations.items():
        yield (
            spell(("notify", "destinations", name)),
            name,
            spec,
            [url for called, url in named if called == name],
        )
