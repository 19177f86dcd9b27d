"""The name under which a change is recorded: remembered by the browser, or given by a proxy that is trusted."""

from ipaddress import ip_network
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.web.builders import ANSWER_LINK, NOW, Bench, a_picture, a_question
from tests.web.override_form import OVERRIDES_PATH, PIN_FORM, a_stored_override, an_operator, input_fields
from tests.web.people import Person
from tests.web.stores import a_store_with, stored_overrides, the_question

HEADER = "X-Forwarded-User"
PROXY, CLIENT = "10.1.2.3", "192.0.2.7"


def a_bench(**more: Any) -> Bench:
    question, override = a_question("gpu-1"), a_stored_override()
    store = a_store_with(
        picture=(a_picture(), NOW),
        questions=[question],
        overrides=[override],
    )
    return Bench(store=store, **more)


def proxied(**more: Any) -> Bench:
    """Where a proxy in 10.0.0.0/8 names people."""
    networks = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    return a_bench(**{"user_header": HEADER, "trusted_proxies": networks, **more})


def answered_by(bench: Bench, address: str, *names: str, typed: str = "mallory") -> str:
    """Who is recorded when a client at *address* approves, with a header for each of *names*."""
    headers = [("Origin", "http://localhost"), *((HEADER, name) for name in names)]
    client = bench.client()
    client.post(
        ANSWER_LINK, data={"answer": "approve", "who": typed}, headers=headers, environ_base={"REMOTE_ADDR": address}
    )
    return the_question(bench.store).who


# --- remembered


def test_a_name_is_remembered_for_a_year_in_a_cookie_that_no_script_and_no_other_site_gets() -> None:
    [cookie] = Person.at(a_bench()).send(ANSWER_LINK, {"answer": "approve", "who": "ada"}).headers.getlist("Set-Cookie")
    assert cookie.startswith("gpu_autoscaler_name=ada; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=31536000"} <= set(cookie.split("; "))


def test_the_cookie_is_secure_where_the_browser_came_by_https() -> None:
    response = Person.at(a_bench()).client.post(
        ANSWER_LINK, data={"answer": "approve", "who": "ada"}, base_url="https://localhost"
    )
    assert "Secure" in response.headers["Set-Cookie"].split("; ")


@pytest.mark.parametrize("name", ["ada", "Zo\u00eb; <b>", "\u5f20\u4f1f", 'a"b\\c'])
def test_a_remembered_name_is_offered_on_the_answer_page_and_both_forms_of_overrides(name: str) -> None:
    person = an_operator(a_bench())
    person.send(ANSWER_LINK, {"answer": "approve", "who": name})
    person.client.get("/")
    html = person.get(OVERRIDES_PATH).text
    assert (input_fields(html)["who"]["value"], input_fields(html)["who-pin-l40s-1"]["value"]) == (name, name)
    bench = a_bench()
    other = Person.at(bench)
    other.client.set_cookie("gpu_autoscaler_name", "ada")
    assert input_fields(other.get(ANSWER_LINK).text)["who"]["value"] == "ada"


@pytest.mark.parametrize(
    ("path", "form"), [(OVERRIDES_PATH, {**PIN_FORM, "who": "ben"}), ("/overrides/pin-l40s-1/end", {"who": "ben"})]
)
def test_a_name_that_is_given_with_an_override_is_remembered(path: str, form: dict[str, str]) -> None:
    person = an_operator(a_bench())
    person.fill_in(path, form, page=OVERRIDES_PATH)
    assert input_fields(person.get(OVERRIDES_PATH).text)["who"]["value"] == "ben"


def test_an_answer_without_a_name_forgets_none() -> None:
    person = Person.at(a_bench())
    person.client.set_cookie("gpu_autoscaler_name", "ada")
    assert "Set-Cookie" not in person.send(ANSWER_LINK, {"answer": "approve", "who": ""}).headers


def test_a_cookie_that_was_tampered_with_is_one_short_line() -> None:
    person = Person.at(a_bench())
    person.client.set_cookie("gpu_autoscaler_name", "a\r\nb" + "x" * 200)
    assert input_fields(person.get(ANSWER_LINK).text)["who"]["value"] == "a b" + "x" * 97


@pytest.mark.parametrize(
    ("path", "site", "again"),
    [(ANSWER_LINK, "cross-site", True), (ANSWER_LINK, "none", False), (f"{ANSWER_LINK}?again=1", "cross-site", False)],
)
def test_a_link_from_another_site_is_asked_for_once_more_to_get_the_cookie(path: str, site: str, again: bool) -> None:
    response = Person.at(a_bench()).get(path, **{"Sec-Fetch-Site": site})
    assert (response.headers.get("Refresh") == f"0; url={ANSWER_LINK}?again=1") is again


# --- given by a proxy


@pytest.mark.parametrize("address", [PROXY, "::ffff:10.1.2.3", "fd00::1", "fd00::1%eth0"])
def test_the_name_of_a_trusted_proxy_counts_whatever_was_typed(address: str) -> None:
    assert answered_by(proxied(), address, "ada") == "ada"


@pytest.mark.parametrize("address", [CLIENT, "11.0.0.1", "::ffff:192.0.2.7", "2001:db8::1", "", "unix:"])
def test_from_any_other_address_the_header_is_ignored(address: str) -> None:
    assert answered_by(proxied(), address, "root") == "mallory"


@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Real-Ip", "Forwarded"])
def test_no_header_makes_a_client_a_proxy(header: str) -> None:
    bench = proxied()
    headers = {HEADER: "root", header: f"for={PROXY}" if header == "Forwarded" else PROXY}
    bench.client().post(
        ANSWER_LINK, data={"answer": "approve", "who": "mallory"}, headers=headers, environ_base={"REMOTE_ADDR": CLIENT}
    )
    assert the_question(bench.store).who == "mallory"


@pytest.mark.parametrize("names", [("root", "ada"), ("root,ada",)])
def test_a_proxy_that_appends_to_what_the_client_sent_names_nobody(names: tuple[str, ...]) -> None:
    assert answered_by(proxied(), PROXY, *names) == "mallory"


def test_without_the_header_or_with_an_empty_one_the_typed_name_counts() -> None:
    assert answered_by(proxied(), PROXY) == "mallory"
    assert answered_by(proxied(), PROXY, " ") == "mallory"


def test_where_no_header_is_configured_none_counts() -> None:
    assert answered_by(a_bench(), PROXY, "root") == "mallory"


def test_a_name_beyond_ascii_is_read_as_utf_8() -> None:
    assert answered_by(proxied(), PROXY, "Zo\u00eb".encode().decode("latin-1")) == "Zo\u00eb"


def test_the_name_is_shown_and_cannot_be_edited() -> None:
    bench = proxied()
    client = bench.client()
    html = client.get(ANSWER_LINK, headers={HEADER: "ada"}, environ_base={"REMOTE_ADDR": PROXY}).text
    assert "<strong>ada</strong>" in html
    assert "who" not in input_fields(html)


def test_an_override_is_recorded_under_the_name_of_the_proxy() -> None:
    bench = proxied()
    person = an_operator(bench)
    person.client.environ_base = {**person.client.environ_base, "REMOTE_ADDR": PROXY, "HTTP_X_FORWARDED_USER": "ada"}
    person.fill_in(OVERRIDES_PATH, PIN_FORM)
    person.fill_in("/overrides/pin-l40s-1/end", {"who": "mallory"}, page=OVERRIDES_PATH)
    overrides = stored_overrides(bench.store)
    assert overrides.pop("pin-l40s-1").ended_by == "ada"
    assert [stored.override.who for stored in overrides.values()] == ["ada"]


def test_a_name_of_a_proxy_is_not_remembered_by_the_browser() -> None:
    person = Person.at(proxied())
    person.client.environ_base = {**person.client.environ_base, "REMOTE_ADDR": PROXY, "HTTP_X_FORWARDED_USER": "ada"}
    response = person.send(ANSWER_LINK, {"answer": "approve", "who": "mallory"})
    assert (response.status_code, "Set-Cookie" in response.headers) == (303, False)


def test_a_name_from_a_proxy_is_no_right_to_act() -> None:
    bench = proxied()
    response = bench.client().post(
        OVERRIDES_PATH,
        data=PIN_FORM,
        headers={HEADER: "ada", "Origin": "http://localhost"},
        environ_base={"REMOTE_ADDR": PROXY},
    )
    assert (response.status_code, len(stored_overrides(bench.store))) == (403, 1)


def test_a_header_that_is_ignored_is_logged_once_without_what_it_says() -> None:
    client = proxied().client()
    with capture_logs() as logs:
        for _ in range(3):
            client.get("/", headers={HEADER: "root"}, environ_base={"REMOTE_ADDR": CLIENT})
    [line] = [line for line in logs if line["event"] == "user header ignored"]
    assert (line["address"], line["header"]) == (CLIENT, HEADER)
    assert "root" not in str(line)
