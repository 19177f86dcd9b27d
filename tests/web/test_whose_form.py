"""Whose form it is: a session that ended, another session, another site, a reader, and what is no form of ours."""

from datetime import timedelta

import pytest

from receiver.config.web import ReadAccess
from tests.web.builders import L40S, OPERATOR, READER
from tests.web.override_form import (
    OVERRIDES_PATH,
    PIN_FORM,
    a_bench_for_operators,
    a_stored_override,
    an_operator,
    input_fields,
)
from tests.web.people import Person, field_of
from tests.web.stores import outbox


def test_a_session_that_ended_while_somebody_typed_loses_nothing() -> None:
    bench = a_bench_for_operators(reading=ReadAccess.TOKEN)
    person = an_operator(bench)
    old = field_of(person.get(OVERRIDES_PATH).text, "form_token")
    bench.clock.at += timedelta(hours=13)
    refused = person.send(OVERRIDES_PATH, {"form_token": old, **PIN_FORM})
    assert (refused.status_code, input_fields(refused.text)["why"]["value"]) == (403, "load test")
    assert "Log in (opens another tab)" in refused.text
    person.log_in()
    again = person.send(OVERRIDES_PATH, {"form_token": field_of(refused.text, "form_token"), **PIN_FORM})
    assert (again.status_code, "Check it and send it again" in again.text) == (403, True)
    done = person.send(OVERRIDES_PATH, {"form_token": field_of(again.text, "form_token"), **PIN_FORM})
    assert done.status_code == 303
    assert len(outbox(bench.store)) == 1


@pytest.mark.parametrize("pool", ["l40s", "all", "h100", L40S])
@pytest.mark.parametrize("form", [{}, PIN_FORM])
def test_who_may_not_read_learns_nothing_by_sending_a_form(form: dict[str, str], pool: str) -> None:
    bench = a_bench_for_operators(a_stored_override(), reading=ReadAccess.TOKEN)
    response = Person.at(bench).send(f"/pools/{pool}/overrides", form)
    assert response.status_code == 403
    text = response.text.replace(f"/pools/{pool}/overrides", "").replace(f"%2Fpools%2F{pool}%2Foverrides", "")
    for secret in ("pin-l40s-1", "In force", "a100", "0 to 8"):
        assert secret not in text


@pytest.mark.parametrize(("token", "who"), [("", "operator"), ("wrong", "operator"), ("é", "operator"), ("", "nobody")])
@pytest.mark.parametrize("path", [OVERRIDES_PATH, "/overrides/pin-l40s-1/end"])
def test_a_form_without_the_sessions_own_token_does_nothing(path: str, token: str, who: str) -> None:
    bench = a_bench_for_operators(a_stored_override())
    person = an_operator(bench) if who == "operator" else Person.at(bench)
    assert person.send(path, {"form_token": token, **PIN_FORM}).status_code == 403
    assert outbox(bench.store) == []


def test_the_form_token_of_another_session_does_nothing() -> None:
    bench = a_bench_for_operators()
    theirs = field_of(an_operator(bench).get(OVERRIDES_PATH).text, "form_token")
    assert an_operator(bench).send(OVERRIDES_PATH, {"form_token": theirs, **PIN_FORM}).status_code == 403
    assert outbox(bench.store) == []


@pytest.mark.parametrize("path", [OVERRIDES_PATH, "/overrides/pin-l40s-1/end"])
def test_a_reader_cannot_act(path: str) -> None:
    bench = a_bench_for_operators(a_stored_override())
    person = Person.at(bench)
    person.log_in(READER)
    token = field_of(person.get(OVERRIDES_PATH).text, "form_token")
    assert person.send(path, {"form_token": token, **PIN_FORM}).status_code == 403
    assert outbox(bench.store) == []


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.test"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
@pytest.mark.parametrize("path", [OVERRIDES_PATH, "/overrides/pin-l40s-1/end"])
def test_another_site_cannot_act_though_it_had_cookie_and_form_token(path: str, headers: dict[str, str]) -> None:
    bench = a_bench_for_operators(a_stored_override())
    person = an_operator(bench)
    token = field_of(person.get(OVERRIDES_PATH).text, "form_token")
    response = person.send(path, {"form_token": token, **PIN_FORM}, **headers)
    assert (response.status_code, outbox(bench.store)) == (403, [])
    assert "load test" not in response.text  # what another site typed is not put before an operator


def test_the_operators_bearer_token_does_not_send_forms() -> None:
    bench = a_bench_for_operators()
    headers = {"Authorization": f"Bearer {OPERATOR}"}
    assert bench.client().post(OVERRIDES_PATH, data=PIN_FORM, headers=headers).status_code == 403


def test_a_form_larger_than_any_form_is_refused() -> None:
    bench = a_bench_for_operators()
    assert an_operator(bench).send(OVERRIDES_PATH, {**PIN_FORM, "why": "x" * 20_000}).status_code == 413
    assert an_operator(bench).send(OVERRIDES_PATH, {f"f{n}": "" for n in range(30)}).status_code == 400
    assert outbox(bench.store) == []


def test_an_upload_is_no_form_of_ours() -> None:
    person = an_operator(a_bench_for_operators())
    response = person.client.post(
        OVERRIDES_PATH, data=PIN_FORM, content_type="multipart/form-data", headers={"Origin": "http://localhost"}
    )
    assert response.status_code == 403


@pytest.mark.parametrize(
    "pool", ["..", "%2e%2e", "l40s%00", "l40s%0d%0aX-Evil:1", "<script>", "%3Cscript%3E", "a" * 5000]
)
def test_no_trick_with_a_pools_name_does_more_than_a_404(pool: str) -> None:
    bench = a_bench_for_operators()
    person = an_operator(bench)
    token = field_of(person.get(OVERRIDES_PATH).text, "form_token")
    response = person.send(f"/pools/{pool}/overrides", {"form_token": token, **PIN_FORM})
    assert response.status_code in (404, 405)
    assert "X-Evil" not in response.headers
    assert "<script>" not in response.text
    assert outbox(bench.store) == []
