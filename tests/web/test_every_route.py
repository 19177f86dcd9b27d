"""The sentences of docs/security.md about requests, on every route: a new one obeys them or fails here."""

import re
from typing import Any

import pytest
from werkzeug.routing import Rule

from receiver.config.web import ReadAccess
from receiver.web.auth.tokens import MOST_FAILURES
from tests.lint import none_of
from tests.web.builders import OPERATOR, READER, Bench, a_full_store
from tests.web.people import Person, bearer

# Alertmanager, kubelet and Prometheus ask under any name, and take or need other tokens.
MACHINES = {"/webhook", "/healthz", "/readyz", "/metrics"}
WRITES = {"remember", "set_override", "end_override", "answer_question", "change_budget", "resume_override"}
OTHER_SITE = {"Origin": "https://evil.test", "Sec-Fetch-Site": "cross-site"}
# What needs no session: the link is signed, and a log-in brings its token.
CREDENTIAL_INSIDE = {"/answer/<signed>", "/login", "/logout"}
LARGER_THAN_ANYTHING = b"x" * 1_000_000


def a_bench(**more: Any) -> Bench:
    return Bench(store=a_full_store(), **{"reading": ReadAccess.TOKEN, "reader_token": READER, **more})


def routes(*methods: str) -> list[tuple[str, str]]:
    """Method and path of each route, with something in place of its parts."""
    rules: list[Rule] = list(a_bench().client().application.url_map.iter_rules())
    return sorted((m, str(rule)) for rule in rules for m in (rule.methods or set()) & set(methods))


def path_of(rule: str) -> str:
    return re.sub(r"<[^>]+>", "1", rule)


CHANGING = [(method, rule) for method, rule in routes("POST", "PUT", "PATCH", "DELETE") if rule not in MACHINES]
READING = [(method, rule) for method, rule in routes("GET") if rule not in MACHINES]


def written(bench: Bench) -> set[str]:
    return WRITES & set(bench.log)


def test_no_route_but_those_of_machines_answers_under_a_foreign_name() -> None:
    client = a_bench().client()
    answers = {
        (method, rule): client.open(path_of(rule), method=method, headers={"Host": "evil.test"}).status_code
        for method, rule in (*CHANGING, *READING)
    }
    none_of(f"{method} {rule}: {code}" for (method, rule), code in answers.items() if code != 421)


def test_nothing_is_changed_without_a_credential() -> None:
    bench = a_bench(reading=ReadAccess.OPEN)
    client = bench.client()
    for method, rule in CHANGING:
        client.open(path_of(rule), method=method, json={"who": "mallory"})
        client.open(path_of(rule), method=method, data={"who": "mallory"})
    assert written(bench) == set()


def test_reading_changes_nothing_whoever_reads() -> None:
    bench = a_bench()
    operator = Person.at(bench)
    operator.log_in(OPERATOR)
    for _, rule in READING:
        operator.get(path_of(rule))
        operator.client.get(path_of(rule), headers=bearer(OPERATOR))
    assert written(bench) == set()


def test_another_site_changes_nothing_with_the_operators_cookie() -> None:
    bench = a_bench()
    operator = Person.at(bench)
    operator.log_in(OPERATOR)
    answers = {
        (method, rule): operator.client.open(path_of(rule), method=method, data={}, headers=OTHER_SITE).status_code
        for method, rule in CHANGING
        if rule not in CREDENTIAL_INSIDE
    }
    none_of(f"{method} {rule}: {code}" for (method, rule), code in answers.items() if code < 400)
    assert written(bench) == set()


def test_every_body_is_bounded() -> None:
    client = a_bench(reading=ReadAccess.OPEN).client()
    given: dict[str, Any] = {"data": LARGER_THAN_ANYTHING, "headers": bearer(OPERATOR)}
    answers = {
        rule: client.open(path_of(rule), method=method, **given).status_code
        for method, rule in CHANGING
        if method == "POST" and rule not in ("/answer/<signed>", "/logout")  # link and session are read first
    }
    none_of(f"{rule}: {code}" for rule, code in answers.items() if code not in (403, 404, 413))


def test_wrong_tokens_are_counted_everywhere_and_a_right_one_passes_everywhere() -> None:
    asked = [(m, r) for m, r in (*CHANGING, *READING) if r.startswith("/api/")]
    client = a_bench().client()
    for n in range(MOST_FAILURES):
        client.get("/api/v1/pools", headers=bearer(f"guess-{n}"))
    wrong = {(m, r): client.open(path_of(r), method=m, headers=bearer("guess")).status_code for m, r in asked}
    right = {(m, r): client.open(path_of(r), method=m, headers=bearer(OPERATOR)).status_code for m, r in asked}
    none_of(f"{m} {r} with a wrong token: {code}" for (m, r), code in wrong.items() if code != 429)
    none_of(f"{m} {r} with the right one: {code}" for (m, r), code in right.items() if code in (401, 403, 429))


@pytest.mark.parametrize("header", ["Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy"])
def test_every_answer_has_the_headers_that_bind_a_browser(header: str) -> None:
    client = a_bench().client()
    none_of(
        f"{method} {rule}"
        for method, rule in routes("GET", "POST", "DELETE")
        if header not in client.open(path_of(rule), method=method).headers
    )
