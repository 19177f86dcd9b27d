"""Logging in and out: who gets a session, with which cookie, where they go next, and what slows a guesser down."""

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from structlog.testing import capture_logs

from receiver.config.web import ReadAccess
from receiver.ports import TryLater
from receiver.web.auth.tokens import ADDRESSES, MOST_FAILURES, Attempts
from tests.web.builders import OPERATOR, READER, TOKEN, Bench, a_full_store
from tests.web.people import Person, field_of
from tests.web.seen import Page, words
from tests.web.stores import a_store_with

EVIL = [
    "//evil.test",
    "https://evil.test/",
    "/\\evil.test",
    "/\t/evil.test",
    "\\\\evil.test",
    "evil.test",
    "javascript:alert(1)",
    "/\r\nX: y",
    "///evil.test",
    "http:evil.test",
    " /x",
    "/x y",
    "/\x7f/evil.test",
]


def a_bench(**more: Any) -> Bench:
    return Bench(**{"store": a_full_store(), "reader_token": READER, **more})


def cookie_of(person: Person, **how: Any) -> str:
    response = person.send("/login", {"token": OPERATOR}, **how)
    assert response.status_code == 303, response.text
    return response.headers["Set-Cookie"]


# --- the cookie


def test_the_cookie_is_for_this_host_this_site_and_no_script_for_twelve_hours() -> None:
    parts = cookie_of(Person.at(a_bench())).split("; ")
    assert parts[0].startswith("gpu_autoscaler_session=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"} <= set(parts)
    assert not [part for part in parts if part.startswith("Domain")]


def test_the_cookie_is_secure_when_the_request_came_by_https() -> None:
    person = Person.at(a_bench())
    response = person.client.post(
        "/login", data={"token": OPERATOR}, base_url="https://localhost", headers={"Origin": "https://localhost"}
    )
    assert "Secure" in response.headers["Set-Cookie"].split("; ")


def test_the_cookie_is_secure_when_the_public_address_is_https_and_the_browser_asked_for_it() -> None:
    bench = a_bench(public_url="https://gpu.example.com")
    proxied = cookie_of(Person.at(bench), Host="gpu.example.com", Origin="https://gpu.example.com")
    forwarded = cookie_of(Person.at(bench))
    assert ("Secure" in proxied, "Secure" in forwarded) == (True, False)


def test_the_cookie_is_not_secure_where_the_public_address_is_http() -> None:
    """A browser would not send it back."""
    bench = a_bench(public_url="http://gpu.example.com")
    assert "Secure" not in cookie_of(Person.at(bench), Host="gpu.example.com", Origin="http://gpu.example.com")


def test_a_header_that_anybody_can_write_does_not_make_the_cookie_secure() -> None:
    assert "Secure" not in cookie_of(Person.at(a_bench()), **{"X-Forwarded-Proto": "https"})


def test_a_session_ends_after_twelve_hours() -> None:
    bench = a_bench(reading=ReadAccess.TOKEN)
    person = Person.at(bench)
    person.log_in()
    bench.clock.at += timedelta(hours=12)
    assert person.get("/").status_code == 303


def test_a_cookie_from_elsewhere_is_replaced_at_the_log_in() -> None:
    person = Person.at(a_bench(reading=ReadAccess.TOKEN))
    person.client.set_cookie("gpu_autoscaler_session", "planted")
    assert person.get("/").status_code == 303
    person.log_in()
    cookie = person.client.get_cookie("gpu_autoscaler_session")
    assert cookie is not None
    assert cookie.value != "planted"
    assert person.get("/").status_code == 200


# --- the form


def test_the_page_asks_for_the_token_in_a_labelled_password_field() -> None:
    page = Page(Person.at(a_bench()).get("/login").text)
    fields = {a.get("id"): a for tag, a in page.elements if tag == "input"}
    labels = {a.get("for") for tag, a in page.elements if tag == "label"}
    assert fields["token"]["type"] == "password"
    assert fields["token"]["autocomplete"] == "current-password"
    assert "token" in labels


@pytest.mark.parametrize("token", [OPERATOR, READER, f"  {OPERATOR}\n"])
def test_the_operators_and_the_readers_token_log_in_also_with_white_space_from_a_paste(token: str) -> None:
    assert Person.at(a_bench()).log_in(token).status_code == 303


@pytest.mark.parametrize("token", [TOKEN, "", "x", OPERATOR[:-1], OPERATOR.upper(), "é" * 30, "\x00", "x" * 10_000])
def test_no_other_token_does_and_the_page_says_so_beside_the_field(token: str) -> None:
    response = Person.at(a_bench()).log_in(token)
    assert (response.status_code, "Set-Cookie" in response.headers) == (403, False)
    fields = {a.get("id"): a for tag, a in Page(response.text).elements if tag == "input"}
    assert fields["token"]["aria-invalid"] == "true"
    assert "token-mistake" in (fields["token"]["aria-describedby"] or "")
    assert not fields["token"].get("value")
    assert len(token) < 2 or token not in response.text


def test_a_form_that_is_larger_than_any_form_is_refused() -> None:
    response = Person.at(a_bench()).send("/login", {"token": "x" * 20_000})
    assert response.status_code == 413
    many = Person.at(a_bench()).send("/login", {f"f{n}": "x" for n in range(30)})
    assert many.status_code == 400


def test_a_server_without_tokens_says_that_nobody_can_log_in() -> None:
    person = Person.at(Bench(operator_token=None))
    assert "no token to log in with" in words(person.get("/login").text)
    assert person.log_in("").status_code == 403


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_token_is_no_token_to_log_in_with(blank: str) -> None:
    person = Person.at(Bench(operator_token=blank))
    assert "no token to log in with" in words(person.get("/login").text)
    assert person.log_in(blank).status_code == 403


@pytest.mark.parametrize("token, mistake", [("", "No token was given"), ("guess", "This is neither the operator")])
def test_a_refusal_says_what_is_wrong_with_the_token(token: str, mistake: str) -> None:
    assert mistake in words(Person.at(a_bench()).log_in(token).text)


@pytest.mark.parametrize("reading, use", [(ReadAccess.OPEN, "reading needs none"), (ReadAccess.TOKEN, "to read")])
def test_the_page_says_what_the_readers_token_is_for(reading: ReadAccess, use: str) -> None:
    assert use in words(Person.at(a_bench(reading=reading)).get("/login").text)


def test_the_token_is_in_no_log() -> None:
    with capture_logs() as logs:
        person = Person.at(a_bench())
        person.log_in(OPERATOR)
        person.log_in("nearly-" + OPERATOR)
    assert [line["event"] for line in logs] == ["log-in", "log-in refused"]
    assert OPERATOR not in str(logs)


# --- where to go next


@pytest.mark.parametrize("path", ["/", "/decisions/42?x=1&y=%20", "/costs?month=2026-03&team=a%2Fb"])
def test_after_the_log_in_the_person_is_where_they_wanted_to_be(path: str) -> None:
    person = Person.at(a_bench(reading=ReadAccess.TOKEN))
    asked = person.get(path)
    page = person.get(asked.location)
    assert person.log_in(wanted=field_of(page.text, "next")).location == path


def test_who_sent_a_form_goes_to_the_overview_after_the_log_in() -> None:
    asked = Person.at(a_bench(reading=ReadAccess.TOKEN)).send("/decisions/42?x=1", {})
    assert (asked.status_code, asked.location) == (303, "/login?next=/")


@pytest.mark.parametrize("wanted", EVIL)
def test_nobody_is_sent_to_another_site(wanted: str) -> None:
    person = Person.at(a_bench())
    assert person.log_in(wanted=wanted).location == "/"
    assert person.get(f"/login?next={quote(wanted)}").location == "/"


@pytest.mark.parametrize("wanted", ["/login?next=/login", "/logout"])
def test_nobody_is_sent_round_in_circles(wanted: str) -> None:
    assert Person.at(a_bench()).log_in(wanted=wanted).location == "/"


def test_who_is_logged_in_goes_on_at_once() -> None:
    person = Person.at(a_bench())
    person.log_in()
    assert person.get("/login?next=/costs").location == "/costs"


def test_a_link_in_a_message_asks_once_more_because_the_first_request_brings_no_cookie() -> None:
    person = Person.at(a_bench(reading=ReadAccess.TOKEN))
    first = person.get("/login?next=/costs", **{"Sec-Fetch-Site": "cross-site"})
    assert first.headers["Refresh"] == "0; url=/login?next=/costs&again=1"
    again = person.get("/login?next=/costs&again=1", **{"Sec-Fetch-Site": "cross-site"})
    assert "Refresh" not in again.headers
    assert "Refresh" in person.get("/login?next=/costs").headers
    assert "Refresh" not in person.get("/login?next=/costs", **{"Sec-Fetch-Site": "same-origin"}).headers


# --- logging out


def test_logging_out_ends_the_session_in_this_browser() -> None:
    person = Person.at(a_bench(reading=ReadAccess.TOKEN))
    person.log_in()
    assert person.fill_in("/logout", {}, page="/").status_code == 303
    assert person.get("/").status_code == 303


def test_another_page_cannot_log_somebody_out() -> None:
    person = Person.at(a_bench())
    person.log_in()
    assert person.send("/logout", {}).status_code == 403


def test_another_site_cannot_log_somebody_out_whatever_it_knows() -> None:
    person = Person.at(a_bench())
    person.log_in()
    form = {"form_token": field_of(person.get("/").text, "form_token")}
    assert person.send("/logout", form, Origin="https://evil.test").status_code == 403
    assert person.send("/logout", form).status_code == 303


def test_without_a_session_logging_out_leads_to_the_overview() -> None:
    response = Person.at(a_bench()).send("/logout", {})
    assert (response.status_code, response.location) == (303, "/")


# --- other sites


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.test"},
        {"Origin": "null"},
        {"Origin": "http://[evil.test"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_site_cannot_log_somebody_in(headers: dict[str, str]) -> None:
    response = Person.at(a_bench()).send("/login", {"token": OPERATOR}, **headers)
    assert (response.status_code, "Set-Cookie" in response.headers) == (403, False)
    assert "another site" in response.text


def test_the_browsers_own_word_counts_where_a_proxy_changed_the_host() -> None:
    person = Person.at(a_bench())
    sent = {"Origin": "https://gpu.example.com", "Sec-Fetch-Site": "same-origin"}
    assert person.send("/login", {"token": OPERATOR}, **sent).status_code == 303


def test_a_client_that_names_no_origin_may_log_in() -> None:
    """Browsers of today name one."""
    assert Person.at(a_bench()).client.post("/login", data={"token": OPERATOR}).status_code == 303


def test_the_public_address_counts_as_our_own() -> None:
    person = Person.at(a_bench(public_url="http://gpu.example.com"))
    assert person.send("/login", {"token": OPERATOR}, Origin="http://gpu.example.com").status_code == 303


# --- guessing


def test_after_ten_wrong_tokens_within_a_minute_an_address_waits_and_the_right_one_passes() -> None:
    person = Person.at(a_bench())
    for _ in range(MOST_FAILURES):
        assert person.log_in("guess").status_code == 403
    refused = person.log_in("guess")
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 61
    assert person.log_in(OPERATOR).status_code == 303


def test_an_empty_form_and_the_webhooks_token_are_no_guesses() -> None:
    person = Person.at(a_bench())
    for _ in range(MOST_FAILURES):
        assert {person.log_in(token).status_code for token in ("", TOKEN)} == {403}
    assert person.log_in("guess").status_code == 403


def test_an_address_that_waits_is_told_what_is_wrong_with_an_empty_form() -> None:
    person = Person.at(a_bench())
    for _ in range(MOST_FAILURES):
        person.log_in("guess")
    assert person.log_in("").status_code == 403


def test_a_right_token_of_another_use_is_no_guess_with_white_space_from_a_paste() -> None:
    person = Person.at(a_bench())
    assert {person.log_in(f" {TOKEN}\n").status_code for _ in range(MOST_FAILURES)} == {403}
    assert person.log_in("guess").status_code == 403


def test_clients_without_an_address_are_one_guesser() -> None:
    """A connection by a Unix socket has none."""
    person = Person.at(a_bench())
    del person.client.environ_base["REMOTE_ADDR"]
    assert {person.log_in("guess").status_code for _ in range(MOST_FAILURES)} == {403}
    assert person.log_in("guess").status_code == 429


def test_a_minute_later_it_may_try_again() -> None:
    at = [100.0]
    attempts = Attempts(now=lambda: at[0])
    for _ in range(MOST_FAILURES):
        attempts.failed("a")
        at[0] += 1
    assert attempts.wait("a") == 51
    at[0] += 49.5
    assert attempts.wait("a") == 1
    at[0] += 0.5
    assert attempts.wait("a") == 0


def test_nine_failures_do_not_wait() -> None:
    attempts = Attempts(now=lambda: 0)
    for _ in range(MOST_FAILURES - 1):
        attempts.failed("a")
    assert attempts.wait("a") == 0


def test_a_guesser_with_many_addresses_does_not_fill_the_memory() -> None:
    attempts = Attempts(now=lambda: 0)
    for number in range(ADDRESSES + 50):
        attempts.failed(f"10.0.{number >> 8}.{number & 255}")
    assert len(attempts._failed) == ADDRESSES


def test_a_guesser_who_goes_on_does_not_lengthen_the_list() -> None:
    attempts = Attempts(now=lambda: 0)
    assert [attempts.failed("a") for _ in range(50)][-1] == MOST_FAILURES


# --- the key of sessions


def test_while_the_key_was_never_read_and_the_store_is_down_a_log_in_says_so() -> None:
    bench = a_bench()
    bench.error = TryLater("store: down")
    assert Person.at(bench).log_in(OPERATOR).status_code == 503


def test_a_page_that_needs_no_session_is_shown_meanwhile() -> None:
    bench = a_bench()
    person = Person.at(bench)
    person.log_in(OPERATOR)
    bench.log.clear()  # another process never read the key
    bench.error = TryLater("store: down")
    assert person.client.get("/login").status_code == 200


def test_a_session_of_another_store_has_ended() -> None:
    bench = a_bench(reading=ReadAccess.TOKEN)
    person = Person.at(bench)
    person.log_in(OPERATOR)
    bench.store = a_store_with(sealing_key="another key")
    assert person.get("/").status_code == 303
