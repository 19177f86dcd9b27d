"""Tokens that change while the server runs: what the old one had begun ends, and the webhook misses nothing."""

from ipaddress import ip_network
from itertools import count

import pytest
from structlog.testing import capture_logs

from receiver.config.web import ReadAccess
from receiver.core.notices.grouping import Seal
from receiver.web.auth.tokens import MOST_FAILURES
from tests.web.builders import OPERATOR, READER, TOKEN, Bench, a_full_store, a_payload
from tests.web.people import Person, bearer
from tests.web.stores import KEY, stored_overrides

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
    old, new = (f"/answer/{Seal(token, KEY).sign('q')}" for token in (OPERATOR, NEW))
    assert (client.get(old).status_code, client.get(new).status_code) == (404, 403)
    bench.operator_token = NEW
    assert (client.get(old).status_code, client.get(new).status_code) == (403, 404)


# --- guessing with bearer tokens


def guess(client: object, times: int, path: str = "/api/v1/overrides", *, same: bool = False) -> list[int]:
    return [
        client.post(path, json=PAUSE, headers=bearer("guess" if same else f"guess-{n}")).status_code  # type: ignore[attr-defined]  # a FlaskClient
        for n in range(times)
    ]


def test_many_wrong_tokens_wait_and_a_right_one_passes() -> None:
    bench = a_bench()
    client = bench.client()
    assert set(guess(client, MOST_FAILURES)) == {401}
    refused = client.post("/api/v1/overrides", json=PAUSE, headers=bearer("guess-again"))
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["Retry-After"]) <= 61
    assert stored_overrides(bench.store) == {}
    assert client.post("/api/v1/overrides", json=PAUSE, headers=bearer(OPERATOR)).status_code == 201


def test_a_right_token_that_is_not_ascii_passes_too() -> None:
    bench = a_bench()
    bench.reader_token = "pâss-wörd-of-ours-à"  # its last byte is a blank in latin-1
    client = bench.client()
    guess(client, MOST_FAILURES)
    header = {"Authorization": f"Bearer {bench.reader_token.encode().decode('latin-1')}"}
    assert client.get("/api/v1/pools", headers=header).status_code == 200


@pytest.mark.parametrize("right", [READER, TOKEN])
def test_a_token_of_ours_at_the_wrong_place_is_no_guess(right: str) -> None:
    client = a_bench().client()
    refused = [client.post("/api/v1/overrides", json=PAUSE, headers=bearer(right)) for _ in range(2 * MOST_FAILURES)]
    assert {response.status_code for response in refused} == {401}
    assert set(guess(client, MOST_FAILURES)) == {401}


# --- whose guesses they are

NUMBERS = count()
BEHIND = {"REMOTE_ADDR": "10.0.0.7"}  # a trusted proxy


def tried(client: object, forwarded: str, times: int = 1, environ: dict[str, str] = BEHIND) -> list[int]:
    """The answers to wrong tokens that a client of the proxy sends, each another one."""
    return [
        client.get(  # type: ignore[attr-defined]  # a FlaskClient
            "/api/v1/pools",
            headers={**bearer(f"guess-{next(NUMBERS)}"), "X-Forwarded-For": forwarded},
            environ_base=environ,
        ).status_code
        for _ in range(times)
    ]


def behind_a_proxy() -> object:
    bench = a_bench()
    bench.trusted_proxies = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    return bench.client()


def test_wrong_tokens_count_by_the_client_behind_a_trusted_proxy() -> None:
    client = behind_a_proxy()
    assert tried(client, "203.0.113.9", MOST_FAILURES + 1)[-1] == 429
    assert tried(client, "203.0.113.10") == [401]


@pytest.mark.parametrize(
    "forwarded",
    [
        "198.51.100.{n}, 203.0.113.9",  # what the client wrote stands first
        "198.51.100.{n}, 203.0.113.9, 10.2.3.4",  # two trusted proxies
        "198.51.100.{n}, 203.0.113.9:4{n}",  # with a port
        "198.51.100.{n}, ::ffff:203.0.113.9, [fd00::{n}]:80",
    ],
)
def test_only_what_trusted_proxies_appended_names_the_client(forwarded: str) -> None:
    client = behind_a_proxy()
    for n in range(MOST_FAILURES):
        tried(client, forwarded.format(n=n))
    assert tried(client, "203.0.113.9") == [429]


@pytest.mark.parametrize("forwarded", ["", "unknown", "203.0.113.{n}, what", "1.2.3.4.5", "10.1.2.3, 10.2.3.4"])
def test_without_a_client_that_a_proxy_names_the_last_known_address_counts(forwarded: str) -> None:
    client = behind_a_proxy()
    for n in range(MOST_FAILURES):
        tried(client, forwarded.format(n=n))
    assert tried(client, forwarded.format(n=99)) == [429]


def test_from_any_other_address_the_forwarded_one_is_ignored() -> None:
    client = behind_a_proxy()
    for n in range(MOST_FAILURES):
        tried(client, f"203.0.113.{n}", environ={"REMOTE_ADDR": "192.0.2.7"})
    assert tried(client, "203.0.113.99", environ={"REMOTE_ADDR": "192.0.2.7"}) == [429]


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
    assert Person(client).log_in("guess").status_code == 429
    assert Person(client).log_in(OPERATOR).status_code == 303


def test_pages_that_everybody_may_read_stay_readable_for_a_guesser() -> None:
    client = Bench(store=a_full_store()).client()
    guess(client, MOST_FAILURES)
    assert client.get("/api/v1/pools", headers=bearer("guess-x")).status_code == 200


def test_where_everybody_may_read_a_guesser_waits_before_the_next_write() -> None:
    client = Bench(store=a_full_store()).client()
    guess(client, MOST_FAILURES)
    assert client.post("/api/v1/overrides", json=PAUSE, headers=bearer("guess-again")).status_code == 429


def test_a_wrong_token_where_none_is_needed_is_no_guess() -> None:
    client = Bench(store=a_full_store()).client()
    for n in range(2 * MOST_FAILURES):
        assert client.get("/api/v1/pools", headers=bearer(f"guess-{n}")).status_code == 200
    assert guess(client, 1) == [401]


def test_what_a_proxy_sends_of_its_own_log_in_is_no_guess() -> None:
    client = a_bench().client()
    for n in range(2 * MOST_FAILURES):
        assert client.get("/api/v1/pools", headers={"Authorization": f"Basic user-{n}"}).status_code == 401
    assert guess(client, 1) == [401]


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
    refused = client.get("/api/v1/pools", headers=bearer("guess-again"), environ_base={"REMOTE_ADDR": other})
    assert refused.status_code == 429
