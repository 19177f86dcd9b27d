"""Tokens that change while the server runs: what the old one had begun ends, and the webhook misses nothing."""

import pytest
from structlog.testing import capture_logs

from receiver.config.web import ReadAccess
from receiver.core.notices.grouping import Seal
from receiver.web.auth.tokens import MOST_FAILURES
from tests.web.builders import OPERATOR, READER, TOKEN, Bench, a_full_store, a_payload
from tests.web.people import Person
from tests.web.test_access import bearer

NEW = "another-long-random-word"
PAUSE = {"kind": "pause", "pool": "l40s", "for": "1h", "who": "ada", "why": "x"}


def a_bench() -> Bench:
    return Bench(store=a_full_store(), reading=ReadAccess.TOKEN, reader_token=READER)


def test_alertmanager_is_heard_with_the_old_and_the_new_token_until_the_old_one_is_taken_away() -> None:
    bench = a_bench()
    client = bench.client()

    def heard(token: str) -> int:
        return client.post("/webhook", json=a_payload(), headers=bearer(token)).status_code

    assert (heard(TOKEN), heard(NEW)) == (202, 401)
    bench.tokens = (TOKEN, NEW)
    assert (heard(TOKEN), heard(NEW)) == (202, 202)
    bench.tokens = (NEW,)
    assert (heard(TOKEN), heard(NEW)) == (401, 202)


def test_a_changed_operators_token_opens_and_the_old_one_does_no_more() -> None:
    bench = a_bench()
    client = bench.client()
    bench.operator_token = NEW
    assert client.post("/api/v1/overrides", json=PAUSE, headers=bearer(OPERATOR)).status_code == 401
    assert client.post("/api/v1/overrides", json=PAUSE, headers=bearer(NEW)).status_code == 201
    assert client.get("/", headers=bearer(NEW)).status_code == 200


def test_a_changed_operators_token_ends_its_sessions_and_leaves_those_of_readers() -> None:
    bench = a_bench()
    client = bench.client()
    operator, reader = Person(client), Person(client.application.test_client())
    operator.log_in(OPERATOR)
    reader.log_in(READER)
    bench.operator_token = NEW
    assert (operator.get("/").status_code, reader.get("/").status_code) == (303, 200)


def test_a_changed_operators_token_ends_the_links_that_the_old_one_signed() -> None:
    bench = a_bench()
    client = bench.client()
    old, new = (f"/answer/{Seal(token).sign('q')}" for token in (OPERATOR, NEW))
    assert (client.get(old).status_code, client.get(new).status_code) == (404, 403)
    bench.operator_token = NEW
    assert (client.get(old).status_code, client.get(new).status_code) == (403, 404)


# --- guessing with bearer tokens


def guess(client: object, times: int, path: str = "/api/v1/overrides", *, same: bool = False) -> list[int]:
    return [
        client.post(path, json=PAUSE, headers=bearer("guess" if same else f"guess-{n}")).status_code  # type: ignore[attr-defined]  # a FlaskClient
        for n in range(times)
    ]


def test_who_tries_many_tokens_waits_and_the_right_one_does_not_help_meanwhile() -> None:
    bench = a_bench()
    client = bench.client()
    assert set(guess(client, MOST_FAILURES)) == {401}
    refused = client.post("/api/v1/overrides", json=PAUSE, headers=bearer(OPERATOR))
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 61
    assert bench.store.kept_overrides == {}
    other = client.get("/api/v1/pools", headers=bearer(READER), environ_base={"REMOTE_ADDR": "10.0.0.9"})
    assert other.status_code == 200


def test_a_program_with_a_token_of_yesterday_locks_nobody_out() -> None:
    client = a_bench().client()
    assert set(guess(client, 3 * MOST_FAILURES, same=True)) == {401}
    assert client.get("/api/v1/pools", headers=bearer(READER)).status_code == 200


def test_guessing_at_the_webhook_never_locks_alertmanager_out() -> None:
    client = a_bench().client()
    assert set(guess(client, 3 * MOST_FAILURES, "/webhook")) == {401}
    assert client.post("/webhook", json=a_payload(), headers=bearer(TOKEN)).status_code == 202


def test_guesses_at_the_log_in_at_the_api_and_at_the_webhook_are_counted_together() -> None:
    client = a_bench().client()
    guess(client, MOST_FAILURES, "/webhook")
    assert Person(client).log_in(OPERATOR).status_code == 429


def test_pages_that_everybody_may_read_stay_readable_for_a_guesser() -> None:
    client = Bench(store=a_full_store()).client()
    guess(client, MOST_FAILURES)
    assert client.get("/api/v1/pools", headers=bearer("guess-x")).status_code == 200


def test_the_log_has_each_guess_once_and_no_token() -> None:
    client = a_bench().client()
    with capture_logs() as logs:
        guess(client, 5, same=True)
        guess(client, 2)
    refused = [line for line in logs if line["event"] == "token refused"]
    assert [line["failures"] for line in refused] == [1, 2, 3]
    assert refused[0]["address"] == "127.0.0.1"
    assert "guess" not in str(logs)


@pytest.mark.parametrize("address, other", [("2001:db8::1", "2001:db8::2"), ("::ffff:10.0.0.1", "10.0.0.1")])
def test_one_network_of_ipv6_is_one_guesser(address: str, other: str) -> None:
    client = a_bench().client()
    for n in range(MOST_FAILURES):
        client.get("/api/v1/pools", headers=bearer(f"guess-{n}"), environ_base={"REMOTE_ADDR": address})
    refused = client.get("/api/v1/pools", headers=bearer(READER), environ_base={"REMOTE_ADDR": other})
    assert refused.status_code == 429
