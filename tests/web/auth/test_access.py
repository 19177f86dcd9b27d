"""Who may read: everybody, or who has a token; what stays open all the same; and what a wrong token meets."""

import re

import pytest
from flask import Flask

from receiver.config.web import ReadAccess
from receiver.web import create_app
from tests.web.builders import L40S, OPERATOR, READER, TOKEN, Bench, a_full_store, a_payload
from tests.web.people import Person, bearer
from tests.web.stores import stored_overrides

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
    docs = {"/docs", "/docs/", "/docs/<path:name>"}
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


@pytest.mark.parametrize("path", ["/what-if", "/api/v1/what-if"])
def test_another_site_cannot_have_us_work_out_what_would_be(path: str) -> None:
    headers = {"Sec-Fetch-Site": "cross-site"}
    assert Bench(store=a_full_store()).client().post(path, headers=headers).status_code == 403


def test_a_form_that_is_sent_without_a_session_comes_back_with_what_was_typed() -> None:
    response = Person.at(closed()).send("/pools/l40s/overrides", {"kind": "pause", "why": "a demo on Friday"})
    assert (response.status_code, "a demo on Friday" in response.text) == (403, True)
