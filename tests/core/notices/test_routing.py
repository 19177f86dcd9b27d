"""Which destinations get a notice: a filter lets through what it names, and without one nothing is withheld."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.notices.notice import Cause, Notice, Severity
from receiver.core.notices.routing import EVERYTHING, Route, recipients
from tests.core.notices.cases import CASES


@dataclass(frozen=True)
class Place:
    """A destination by its name."""

    name: str
    route: Route = EVERYTHING


def a_notice(**changes: Any) -> Notice:
    given_values: dict[str, Any] = {"topic": "t", "key": "k", "cause": Cause.GREW, "title": "t", "body": "b"}
    return Notice(**{**given_values, **changes})


def passed(route: Route) -> set[str]:
    """The messages of the book that *route* lets through."""
    return {name for name, case in CASES.items() if route.wants(case())}


def test_a_pager_gets_what_a_person_must_act_on_now_and_nothing_else() -> None:
    wakes = {name for name, case in CASES.items() if case().severity is Severity.FAILURE}  # listed in test_messages
    assert passed(Route(level=Severity.FAILURE)) == wakes


@pytest.mark.parametrize(
    ("level", "severity", "passes"),
    [
        ("info", "info", True),
        ("info", "failure", True),
        ("warning", "info", False),
        ("warning", "success", False),
        ("warning", "warning", True),
        ("warning", "failure", True),
        ("failure", "warning", False),
        ("failure", "success", False),
        ("failure", "failure", True),
    ],
)
def test_a_level_passes_what_is_at_least_as_severe(level: str, severity: str, passes: bool) -> None:
    assert Route(level=Severity(level)).wants(a_notice(severity=Severity(severity))) is passes


def test_an_all_clear_passes_where_its_warning_did() -> None:
    clear = a_notice(cause=Cause.SOURCE_BACK, all_clear=True)
    assert Route(level=Severity.WARNING).wants(clear)


def test_a_pager_gets_an_all_clear_only_of_a_kind_that_it_lists() -> None:
    clear = a_notice(cause=Cause.SOURCE_BACK, all_clear=True)
    listed = Route(level=Severity.FAILURE, kinds={Cause.SOURCE_SILENT, Cause.SOURCE_BACK})
    assert not Route(level=Severity.FAILURE).wants(clear)
    assert listed.wants(clear)


def test_kinds_pass_what_they_name() -> None:
    route = Route(kinds={"grew", "shrank"})
    assert route.wants(a_notice(cause=Cause.SHRANK))
    assert not route.wants(a_notice(cause=Cause.STUCK))


def test_pools_pass_what_is_about_them_and_not_what_is_about_no_pool() -> None:
    route = Route(pools={"a"})
    assert [route.wants(a_notice(pool=pool)) for pool in ("a", "b", None)] == [True, False, False]


def test_pools_and_teams_pass_what_is_about_either() -> None:
    route = Route(pools={"a"}, teams={"vision"})
    assert route.wants(a_notice(pool="a"))
    assert route.wants(a_notice(topic="report:team:vision"))
    assert not route.wants(a_notice(topic="report:team:search"))


def test_teams_alone_pass_what_is_about_them_and_not_what_is_about_no_team() -> None:
    route = Route(teams={"vision"})
    assert route.wants(a_notice(topic="report:team:vision"))
    assert not route.wants(a_notice(topic="report:team:search"))
    assert not route.wants(a_notice(pool="a"))


def test_a_destination_whose_route_withholds_a_notice_does_not_get_it() -> None:
    pager, channel = Place("pager", Route(level=Severity.FAILURE)), Place("channel")
    assert recipients(a_notice(), [pager, channel], {}) == (channel,)


def test_what_is_about_a_team_goes_to_its_own_destinations_instead() -> None:
    report = a_notice(topic="report:team:vision")
    everybody, own = [Place("all")], [Place("own")]
    assert recipients(report, everybody, {"vision": own}) == tuple(own)
    assert recipients(report, everybody, {"search": own}) == tuple(everybody)


NOTICES = st.builds(
    a_notice,
    cause=st.sampled_from(Cause),
    severity=st.sampled_from(Severity),
    pool=st.sampled_from(["a", "b", None]),
    topic=st.sampled_from(["t", "report:team:vision", "budget:team:search"]),
    all_clear=st.booleans(),
)
ROUTES = st.builds(
    Route,
    level=st.sampled_from([Severity.INFO, Severity.WARNING, Severity.FAILURE]),
    kinds=st.sets(st.sampled_from(Cause), max_size=3),
    pools=st.sets(st.sampled_from("ab")),
    teams=st.sets(st.sampled_from(["vision", "search"])),
)


@given(NOTICES, st.lists(ROUTES, max_size=4), st.booleans())
def test_every_notice_reaches_every_destination_without_a_filter(
    notice: Notice, routes: list[Route], has_own: bool
) -> None:
    filtered = [Place(str(number), route) for number, route in enumerate(routes)]
    open_to_all = [Place("first"), Place("second")]
    own = {"vision": [Place("own")]} if has_own else {}
    found = recipients(notice, [*filtered, *open_to_all], own)
    names = [place.name for place in found]
    assert {place.name for place in own.get(notice.team or "", open_to_all)} <= set(names)
    assert len(names) == len(set(names))


@given(NOTICES, ROUTES, ROUTES)
def test_a_stricter_filter_passes_nothing_that_a_looser_one_withholds(
    notice: Notice, route: Route, more: Route
) -> None:
    levels = [Severity.INFO, Severity.WARNING, Severity.FAILURE]
    level = max(route.level, more.level, key=levels.index)
    stricter = Route(level=level, kinds=route.kinds, pools=route.pools, teams=route.teams)
    assert route.wants(notice) or not stricter.wants(notice)
