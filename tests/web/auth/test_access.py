"""Access to pages and API: who may read, under which names of ours, and what a wrong token meets.

Logging in and out: who gets a session, with which cookie, where they go next, what slows a guesser down, and what ends
a session.
"""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask
from structlog.testing import capture_logs

from receiver.config.web import ReadAccess
from receiver.ports import TryLater
from receiver.web.app import create_app
from receiver.web.auth.access import LASTS, SKEW, Role, Sessions, Visitor
from receiver.web.auth.tokens import ADDRESSES, MOST_FAILURES, Attempts
from tests.web.builders import L40S, NOW, OPERATOR, READER, TOKEN, Bench, a_full_store, a_payload
from tests.web.people import Person, bearer, field_of
from tests.web.seen import Page, words
from tests.web.stores import KEY, a_store_with, stored_overrides

PAGES = ["/", "/decisions/42", "/costs", "/pools/l40s/overrides", "/nothing", "/static"]
READS = ["/api/v1/pools", "/api/v1/pools/nothing", "/api/v1/decisions", "/api/v1/waiting", "/api/v1/nothing"]
OPEN = ["/healthz", "/readyz", "/metrics", "/login", "/static/style.css", "/static/icon.svg"]


def closed(**more: object) -> Bench:
    values: dict[str, object] = {"reading": ReadAccess.TOKEN, "reader_token": READER, "store": a_full_store(), **more}
    return Bench(**values)  # type: ignore[arg-type]  # what a test says of the bench


def app() -> Flask:
    return create_app(closed().parts())


# --- open


@pytest.mark.parametrize("path", ["/", "/api/v1/pools", "/decisions/42"])
def test_by_default_everybody_reads(path: str) -> None:
    assert Bench(store=a_full_store()).client().get(path).status_code == 200


# --- closed


@pytest.mark.parametrize("path", READS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_the_closed_api_answers_401_with_a_challenge_and_says_what_to_send(path: str, method: str) -> None:
    response = closed().client().open(path, method=method)
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="gpu-autoscaler"'
    if method == "GET":
        document = response.get_json()
        assert document["error"] == "the Authorization header is missing"
        assert "GPU_AUTOSCALER_READER_TOKEN" in document["remedy"]


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_closed_page_sends_to_the_log_in_and_shows_nothing(path: str, method: str) -> None:
    response = closed().client().open(path, method=method)
    assert (response.status_code, response.location.partition("?")[0]) == (303, "/login")
    assert "l40s" not in response.text.replace("/pools/l40s/overrides", "").replace("%2Fpools%2Fl40s%2Foverrides", "")


def test_every_route_is_closed_but_those_that_are_meant_to_be_open() -> None:
    routes = {str(rule): rule for rule in app().url_map.iter_rules() if "GET" in (rule.methods or ())}
    client = app().test_client()
    reached = {
        text
        for text in routes
        if client.get(re.sub(r"<[^>]*>", "1", text.replace("<path:filename>", "style.css")), buffered=True).status_code
        not in (303, 401)
    }
    docs = {"/docs", "/docs/", "/docs/search", "/docs/<path:name>"}
    signed = {text for text in routes if text.startswith("/answer")}
    assert reached == {"/healthz", "/readyz", "/metrics", "/login", "/static/<path:filename>"} | signed | docs


@pytest.mark.parametrize("path", OPEN)
def test_what_a_machine_or_the_log_in_needs_stays_open(path: str) -> None:
    assert closed().client().get(path, buffered=True).status_code == 200


def test_the_webhook_takes_its_own_token_all_the_same() -> None:
    response = closed().client().post("/webhook", json=a_payload(), headers=bearer(TOKEN))
    assert response.status_code == 202


@pytest.mark.parametrize("token", [READER, OPERATOR])
@pytest.mark.parametrize("path", ["/api/v1/pools", "/", "/decisions/42"])
def test_the_readers_and_the_operators_token_open_api_and_pages(token: str, path: str) -> None:
    assert closed().client().get(path, headers=bearer(token)).status_code == 200


@pytest.mark.parametrize("token", [TOKEN, READER[:-1], READER + "x", "", "\xff\xfe"])
@pytest.mark.parametrize("path", ["/api/v1/pools", "/"])
def test_no_other_token_opens_anything_and_none_is_repeated(token: str, path: str) -> None:
    response = closed().client().get(path, headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 401
    assert not token or token not in response.text


def test_a_proxys_own_log_in_does_not_stand_in_the_way_of_ours() -> None:
    basic = {"Authorization": "Basic YWRhOnNlY3JldA=="}
    response = closed().client().get("/", headers=basic)
    assert (response.status_code, response.location) == (303, "/login?next=/")
    person = Person.at(closed())
    person.log_in()
    assert person.get("/", **basic).status_code == 200


def test_a_reader_may_not_act() -> None:
    body = {"kind": "pause", "pool": "l40s", "for": "1h", "who": "eve", "why": "x"}
    bench = closed()
    response = bench.client().post("/api/v1/overrides", json=body, headers=bearer(READER))
    assert (response.status_code, stored_overrides(bench.store)) == (401, {})


def test_the_api_is_not_written_to_with_a_session_alone() -> None:
    bench = closed()
    person = Person.at(bench)
    person.log_in()
    body = {"kind": "pause", "pool": "l40s", "for": "1h", "who": "eve", "why": "x"}
    response = person.client.post("/api/v1/overrides", json=body, headers={"Origin": "http://localhost"})
    assert (response.status_code, stored_overrides(bench.store)) == (401, {})


@pytest.mark.parametrize("token", [READER, OPERATOR])
def test_who_logged_in_reads_pages_and_api(token: str) -> None:
    person = Person.at(closed())
    assert person.log_in(token).status_code == 303
    assert (person.get("/").status_code, person.get("/api/v1/pools").status_code) == (200, 200)


def test_without_an_operator_token_a_reader_can_still_log_in() -> None:
    person = Person.at(closed(operator_token=None))
    person.log_in(READER)
    assert person.get("/").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../api/v1/pools",
        "/login/../",
        "/static/%2e%2e/api/v1/pools",
        "//api/v1/pools",
        "/healthz/../",
        "/LOGIN",
        "/webhook/..",
    ],
)
def test_no_trick_with_the_path_leads_past_the_door(path: str) -> None:
    response = closed().client().get(path)
    assert response.status_code in (303, 308, 401, 404)
    assert L40S not in response.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_closed_too(method: str) -> None:
    for path in ("/", "/api/v1/pools", "/decisions/42"):
        assert closed().client().open(path, method=method).status_code in (303, 401)


def test_no_other_site_is_told_that_it_may_read() -> None:
    headers = closed().client().open("/api/v1/pools", method="OPTIONS", headers={"Origin": "https://evil.test"}).headers
    assert not [name for name in headers.keys() if name.lower().startswith("access-control")]  # noqa: SIM118


@pytest.mark.parametrize("path", ["/", "/login", "/api/v1/pools", "/nothing"])
def test_a_host_that_is_no_name_is_a_mistake_of_who_asks(path: str) -> None:
    for bench in (Bench(store=a_full_store()), closed()):
        response = bench.client().get(path, headers={"Host": "a" * 64 + ".test"})
        assert (response.status_code, sorted(response.get_json())) == (400, ["error", "remedy"])


def test_a_form_that_is_sent_without_a_session_comes_back_with_what_was_typed() -> None:
    response = Person.at(closed()).send("/pools/l40s/overrides", {"kind": "pause", "why": "a demo on Friday"})
    assert (response.status_code, "a demo on Friday" in response.text) == (403, True)


# --- hosts of ours


URL = "https://gpu.example.com/autoscaler"


def status(host: str, path: str = "/", **more: object) -> int:
    client = Bench(store=a_full_store(), **more).client()  # type: ignore[arg-type]  # the bench's own fields
    return client.get(path, headers={"Host": host}).status_code


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8080",
        "10.1.2.3",
        "[::1]:8080",
        "[fd00::1]",
        "localhost:8080",
        "gpu-autoscaler",
        "gpu-autoscaler.gpu-autoscaler.svc:8080",
        "gpu-autoscaler.gpu-autoscaler.svc.cluster.local",
        "GPU.example.com",
        "gpu.example.com.:443",
        "gpu.corp.example.com",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/v1/pools"])
def test_addresses_names_inside_and_the_names_that_were_said_are_hosts_of_ours(host: str, path: str) -> None:
    assert status(host, path, public_url=URL, hosts=("gpu.corp.example.com",)) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.test",
        "evil.test:8080",
        "gpu.example.com.evil.test",
        "127.0.0.1.evil.test",
        "svc.evil.test",
        "x.localhost.evil",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/v1/pools", "/login", "/answer/x", "/static/style.css"])
def test_a_name_that_somebody_else_may_own_reads_nothing(host: str, path: str) -> None:
    assert status(host, path, public_url=URL) == 421


def test_whoever_is_refused_is_told_what_to_set() -> None:
    answer = Bench().client().get("/api/v1/pools", headers={"Host": "gpu.corp.example.com"})
    assert "web.hosts" in answer.get_json()["remedy"]
    page = Bench().client().get("/", headers={"Host": "gpu.corp.example.com"})
    assert "web.hosts" in page.text
    assert "gpu.corp.example.com" not in page.text


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_and_scrapes_come_under_any_name(path: str) -> None:
    assert status("gpu.corp.example.com", path) == 200


def test_alertmanager_comes_under_any_name() -> None:
    headers = {"Host": "gpu.corp.example.com", **bearer(TOKEN)}
    assert Bench().client().post("/webhook", json=a_payload(), headers=headers).status_code == 202


def test_no_redirect_leads_to_the_host_that_was_asked_for() -> None:
    client = Bench(store=a_full_store()).client()
    answer = client.get("/pools//l40s?window=7d", headers={"Host": "10.6.6.6"})
    assert answer.status_code == 308
    assert answer.headers["Location"] == "/pools/l40s?window=7d"


# --- logging in


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


# --- sessions


OURS = Sessions({Role.OPERATOR: OPERATOR, Role.READER: READER}, KEY)


@pytest.mark.parametrize("role", list(Role))
def test_a_session_says_its_role_and_ends_after_twelve_hours(role: Role) -> None:
    cookie = OURS.begin(role, NOW)
    session = OURS.read(cookie, NOW + LASTS - timedelta(seconds=1))
    assert session is not None
    assert (session.role, session.until) == (role, NOW + timedelta(hours=12))
    assert OURS.read(cookie, NOW + LASTS) is None


def test_another_replica_knows_a_session() -> None:
    cookie = OURS.begin(Role.OPERATOR, NOW)
    assert Sessions({Role.OPERATOR: OPERATOR, Role.READER: READER}, KEY).read(cookie, NOW) == OURS.read(cookie, NOW)


def test_a_replica_whose_clock_is_a_little_behind_takes_a_session_and_one_from_far_ahead_is_refused() -> None:
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


def test_one_changed_letter_ends_a_session() -> None:
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
