"""The signed cookie of a log-in: whose, until when, and what ends it."""

from datetime import timedelta

import pytest

from receiver.web.auth.access import LASTS, SKEW, Role, Sessions, Visitor
from tests.web.builders import NOW, OPERATOR, READER
from tests.web.stores import KEY

OURS = Sessions({Role.OPERATOR: OPERATOR, Role.READER: READER}, KEY)


@pytest.mark.parametrize("role", list(Role))
def test_a_session_says_its_role_and_ends_after_twelve_hours(role: Role) -> None:
    cookie = OURS.begin(role, NOW)
    session = OURS.read(cookie, NOW + LASTS - timedelta(seconds=1))
    assert session is not None
    assert (session.role, session.until) == (role, NOW + timedelta(hours=12))
    assert OURS.read(cookie, NOW + LASTS) is None


def test_another_replica_knows_it() -> None:
    cookie = OURS.begin(Role.OPERATOR, NOW)
    assert Sessions({Role.OPERATOR: OPERATOR, Role.READER: READER}, KEY).read(cookie, NOW) == OURS.read(cookie, NOW)


def test_a_replica_whose_clock_is_a_little_behind_takes_it_and_one_from_far_ahead_is_refused() -> None:
    cookie = OURS.begin(Role.OPERATOR, NOW)
    assert OURS.read(cookie, NOW - SKEW) is not None
    assert OURS.read(cookie, NOW - SKEW - timedelta(seconds=1)) is None


def test_a_token_that_is_changed_ends_its_sessions_and_no_others() -> None:
    cookies = {role: OURS.begin(role, NOW) for role in Role}
    rotated = Sessions({Role.OPERATOR: "another-long-random-word", Role.READER: READER}, KEY)
    assert rotated.read(cookies[Role.OPERATOR], NOW) is None
    assert rotated.read(cookies[Role.READER], NOW) is not None


def test_who_knows_the_readers_token_cannot_make_an_operators_session() -> None:
    forged = Sessions({Role.OPERATOR: READER, Role.READER: READER}, KEY).begin(Role.OPERATOR, NOW)
    assert OURS.read(forged, NOW) is None


@pytest.mark.parametrize("cookie", [None, "", ".", "a.b", "é", "e30.AAAA", "x" * 100_000])
def test_what_we_did_not_sign_is_no_session(cookie: str | None) -> None:
    assert OURS.read(cookie, NOW) is None


@pytest.mark.parametrize("said", [{}, [], "x", None, {"until": "x", "form": "y"}, {"until": 1e300, "form": "y"}])
def test_what_an_older_version_may_have_signed_is_no_session(said: object) -> None:
    seal = OURS._seals[Role.OPERATOR]
    assert OURS.read(str(seal.dumps(said)), NOW) is None


def test_without_the_key_of_the_store_no_cookie_tells_whether_a_guess_of_the_token_is_right() -> None:
    cookie = OURS.begin(Role.OPERATOR, NOW)
    assert Sessions({Role.OPERATOR: OPERATOR}, "another key").read(cookie, NOW) is None
    assert Sessions({Role.OPERATOR: OPERATOR}, "").read(cookie, NOW) is None


def test_one_changed_letter_ends_it() -> None:
    cookie = OURS.begin(Role.OPERATOR, NOW)
    changed = ("A" if cookie[0] != "A" else "B") + cookie[1:]
    assert OURS.read(changed, NOW) is None


def test_no_two_sessions_have_the_same_form_token() -> None:
    sessions = [OURS.read(OURS.begin(Role.OPERATOR, NOW), NOW) for _ in range(5)]
    assert len({s.form_token for s in sessions if s}) == 5


def test_the_cookie_does_not_hold_the_token() -> None:
    assert OPERATOR not in OURS.begin(Role.OPERATOR, NOW)


def test_without_a_session_no_form_is_ours() -> None:
    assert not Visitor().sent("")
