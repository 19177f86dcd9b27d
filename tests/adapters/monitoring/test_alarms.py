"""What `AlertmanagerAlarms` makes of one peer and of several."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.monitoring.alertmanager import ALERTS, SILENCES, STATUS, AlertmanagerAlarms
from receiver.core.model.signals import Matcher
from receiver.ports import AlarmFacts, TryLater
from receiver.ports.alert_payload import LONGEST_TEXT
from tests.adapters.wire import came, hanging_server, unused_url

Look = Callable[..., AlarmFacts]


def an_alert(fingerprint: str = "95f7c0804ff3fc42", **status: Any) -> dict[str, Any]:
    return {
        "fingerprint": fingerprint,
        "labels": {"alertname": "GpuPoolPendingPods", "component": "gpu-autoscaler", "pool": "pool-a"},
        "annotations": {"summary": "Pods wait"},
        "startsAt": "2026-11-20T21:25:05.769613297Z",
        "endsAt": "2026-11-20T21:29:05.769613297Z",
        "status": {"state": "active", "silencedBy": [], "inhibitedBy": [], **status},
    }


def a_silence(number: str = "s-1", state: str = "active", **changes: Any) -> dict[str, Any]:
    return {
        "id": number,
        "status": {"state": state},
        "matchers": [{"name": "pool", "value": "pool-a", "isRegex": False, "isEqual": True}],
        "startsAt": "2026-11-20T21:00:00Z",
        "endsAt": "2026-11-20T23:00:00+01:00",
        "createdBy": "ops",
        "comment": "maintenance",
        **changes,
    }


def peers(httpserver: HTTPServer, *answers: tuple[list[Any], list[Any]]) -> list[str]:
    """Serve one peer per (alerts, silences), each under a path of its own, and return their URLs."""
    for number, (alerts, silences) in enumerate(answers):
        httpserver.expect_request(f"/peer{number}{ALERTS}", method="GET").respond_with_json(alerts)
        httpserver.expect_request(f"/peer{number}{SILENCES}", method="GET").respond_with_json(silences)
    return [httpserver.url_for(f"/peer{number}") for number in range(len(answers))]


@pytest.fixture
def look(httpserver: HTTPServer) -> Look:
    """Return what the adapter sees at peers that give these answers."""

    def ask(*answers: tuple[list[Any], list[Any]]) -> AlarmFacts:
        alarms = AlertmanagerAlarms(peers(httpserver, *answers), timeout=60)
        try:
            return alarms.look()
        finally:
            alarms.close()

    return ask


def test_only_our_alerts_are_asked_for_the_silenced_ones_included(look: Look, httpserver: HTTPServer) -> None:
    look(([], []))
    (request, _), (second, _), *_ = httpserver.log
    assert request.args.to_dict() == {
        "filter": 'component="gpu-autoscaler"',
        "active": "true",
        "silenced": "true",
        "inhibited": "true",
    }
    assert (second.path, second.args.to_dict()) == (f"/peer0{SILENCES}", {})


def test_of_several_peers_the_start_of_the_last_one_is_told(look: Look, httpserver: HTTPServer) -> None:
    for number, at in enumerate(("2026-11-20T12:00:00.5Z", "2026-11-20T14:00:00+01:00")):
        httpserver.expect_request(f"/peer{number}{STATUS}").respond_with_json({"uptime": at})
    assert look(([], []), ([], []), ([], [])).started_at == datetime(2026, 11, 20, 13, tzinfo=UTC)


@pytest.mark.parametrize("answer", [{}, [], {"uptime": "yesterday"}, {"uptime": None}])
def test_a_peer_that_does_not_say_when_it_started_is_read_all_the_same(
    look: Look, httpserver: HTTPServer, answer: Any
) -> None:
    httpserver.expect_request(f"/peer0{STATUS}").respond_with_json(answer)
    found = look(([an_alert()], []))
    assert (len(found.alerts), found.started_at) == (1, None)


def test_a_firing_alert_is_read_with_labels_and_start(look: Look) -> None:
    (alert,) = look(([an_alert()], [])).alerts
    assert (alert.fingerprint, alert.firing) == ("95f7c0804ff3fc42", True)
    assert alert.labels["pool"] == "pool-a"
    assert alert.annotations == {"summary": "Pods wait"}
    assert alert.starts_at == datetime(2026, 11, 20, 21, 25, 5, 769613, tzinfo=UTC)


def test_what_fires_at_any_peer_fires_once(look: Look) -> None:
    facts = look(([an_alert("a"), an_alert("b")], []), ([an_alert("b"), an_alert("c")], []))
    assert [a.fingerprint for a in facts.alerts] == ["a", "b", "c"]


@pytest.mark.parametrize("silencing", [0, 1], ids=["first peer", "second peer"])
def test_an_alert_silenced_at_one_peer_does_not_fire(look: Look, silencing: int) -> None:
    answers: list[tuple[list[Any], list[Any]]] = [
        ([an_alert("a"), an_alert("b")], []),
        ([an_alert("a"), an_alert("b")], []),
    ]
    answers[silencing] = ([an_alert("a", state="suppressed", silencedBy=["s-1"]), an_alert("b")], [])
    assert [a.fingerprint for a in look(*answers).alerts] == ["b"]


def test_an_inhibited_alert_fires(look: Look) -> None:
    assert look(([an_alert(state="suppressed", inhibitedBy=["other"])], [])).alerts


def test_active_silences_are_read_and_told_once(look: Look) -> None:
    facts = look(
        ([], [a_silence("s-1"), a_silence("s-2", "expired")]), ([], [a_silence("s-1"), a_silence("s-3", "pending")])
    )
    (silence,) = facts.silences
    assert (silence.id, silence.created_by, silence.comment) == ("s-1", "ops", "maintenance")
    assert silence.ends_at == datetime(2026, 11, 20, 22, tzinfo=UTC)
    assert silence.matchers == (Matcher(name="pool", value="pool-a"),)


def test_a_silence_that_only_one_peer_knows_counts(look: Look) -> None:
    facts = look(([], []), ([], [a_silence()]))
    assert [s.id for s in facts.silences] == ["s-1"]


def test_what_anybody_writes_into_alerts_and_silences_is_cut_and_steers_no_screen(look: Look) -> None:
    odd = "\x1b[2J" + "x" * 100_000
    alert = {**an_alert(), "labels": {"alertname": odd, "component": "gpu-autoscaler"}, "annotations": {odd: odd}}
    facts = look(([alert], [a_silence(createdBy=odd, comment=odd)]))
    texts = [facts.alerts[0].labels["alertname"], *facts.alerts[0].annotations, facts.silences[0].comment]
    for text in [*texts, facts.silences[0].created_by]:
        assert text == "\ufffd[2J" + "x" * (LONGEST_TEXT - 4)


@pytest.mark.parametrize(
    "raw, matcher",
    [
        ({"name": "pool", "value": "a", "isRegex": False}, Matcher(name="pool", value="a")),
        (
            {"name": "pool", "value": "a", "isRegex": False, "isEqual": False},
            Matcher(name="pool", value="a", is_equal=False),
        ),
        ({"name": "pool", "value": "a|b", "isRegex": True}, Matcher(name="pool", value="a|b", is_regex=True)),
    ],
    ids=["old API without isEqual", "not equal", "regular expression"],
)
def test_matchers_are_read_as_the_api_writes_them(look: Look, raw: dict[str, Any], matcher: Matcher) -> None:
    (silence,) = look(([], [a_silence(matchers=[raw])])).silences
    assert silence.matchers == (matcher,)


@pytest.mark.parametrize("pattern", [r"a\z", "[[:alpha:]]+", "(?U)a+", r"\pL+", "a(?i)b", "(", "(a|a|a|a|a)*!"])
@pytest.mark.parametrize("is_equal", [True, False])
def test_an_expression_that_only_go_evaluates_keeps_the_pool_paused(look: Look, pattern: str, is_equal: bool) -> None:
    raw = {"name": "pool", "value": pattern, "isRegex": True, "isEqual": is_equal}
    (silence,) = look(([], [a_silence(matchers=[raw])])).silences
    assert silence.matchers[0].matches({"pool": "pool-a"})
    assert silence.matchers[0].matches({})


def test_a_redirect_is_not_followed(httpserver: HTTPServer) -> None:
    away = {"Location": httpserver.url_for("/elsewhere")}
    httpserver.expect_request(ALERTS).respond_with_data("", status=302, headers=away)
    httpserver.expect_request("/elsewhere").respond_with_json([])
    alarms = AlertmanagerAlarms([httpserver.url_for("").rstrip("/")], timeout=60)
    with pytest.raises(TryLater, match="302"):
        alarms.look()
    alarms.close()
    assert [request.path for request, _ in httpserver.log] == [ALERTS]


def test_no_peer_is_asked_before_the_time_that_it_named_is_over(httpserver: HTTPServer) -> None:
    httpserver.expect_request(ALERTS).respond_with_data("", status=503, headers={"Retry-After": "120"})
    alarms = AlertmanagerAlarms([httpserver.url_for("")])
    for _ in range(2):
        with pytest.raises(TryLater, match="503"):
            alarms.look()
    alarms.close()
    assert len(httpserver.log) == 1


def test_a_peer_that_does_not_answer_is_named_since_it_may_hold_a_silence(httpserver: HTTPServer) -> None:
    down = unused_url()
    alarms = AlertmanagerAlarms([*peers(httpserver, ([an_alert()], [])), down], timeout=30)
    with pytest.raises(TryLater, match=down) as caught:
        alarms.look()
    alarms.close()
    assert caught.value.code == "unreachable"


@pytest.mark.parametrize("path", [ALERTS, SILENCES])
@pytest.mark.parametrize("status", [302, 401, 404, 410, 500, 503])
def test_a_peer_that_refuses_is_named_with_its_status(httpserver: HTTPServer, path: str, status: int) -> None:
    if path == SILENCES:
        httpserver.expect_request(ALERTS).respond_with_json([])
    httpserver.expect_request(path).respond_with_data("internal words", status=status)
    alarms = AlertmanagerAlarms([httpserver.url_for("")])
    with pytest.raises(TryLater, match=httpserver.url_for("").rstrip("/")) as caught:
        alarms.look()
    alarms.close()
    assert caught.value.code == f"http_{status}"
    assert "internal words" not in str(caught.value)


@pytest.mark.parametrize(
    "alerts, silences",
    [
        ("<html>", "[]"),
        ("{}", "[]"),
        ("[7]", "[]"),
        ('[{"labels": {}, "startsAt": "2026-11-20T21:25:05Z"}]', "[]"),
        ('[{"labels": {}, "fingerprint": "a", "startsAt": "soon"}]', "[]"),
        ("[]", "{}"),
        ("[]", '[{"status": {"state": "active"}, "id": "s", "endsAt": "2026-11-20T21:25:05Z", "matchers": []}]'),
        ("[]", '[{"status": {"state": "active"}, "id": "s", "endsAt": "2026-11-20T21:25:05Z", "matchers": [7]}]'),
        ("[]", '[{"status": {"state": "active"}, "id": "s", "matchers": [{"name": "pool"}]}]'),
    ],
)
def test_an_answer_that_is_not_understood_is_not_read_as_silence(
    httpserver: HTTPServer, alerts: str, silences: str
) -> None:
    httpserver.expect_request(ALERTS).respond_with_data(alerts)
    httpserver.expect_request(SILENCES).respond_with_data(silences)
    alarms = AlertmanagerAlarms([httpserver.url_for("")])
    with pytest.raises(TryLater) as caught:
        alarms.look()
    alarms.close()
    assert caught.value.code == "malformed"


def test_a_peer_that_hangs_costs_its_timeout_only_once() -> None:
    with hanging_server(ALERTS, "GET") as (server, arrivals):
        alarms = AlertmanagerAlarms([server.url_for("")], timeout=0.2)
        with pytest.raises(TryLater) as caught:
            alarms.look()
        alarms.close()
        assert came(arrivals) == ["GET"]
    assert caught.value.code == "timeout"


def test_a_password_in_a_peers_url_is_not_shown() -> None:
    alarms = AlertmanagerAlarms([unused_url().replace("://", "://someone:hidden@")], timeout=1)
    with pytest.raises(TryLater) as caught:
        alarms.look()
    alarms.close()
    assert "hidden" not in str(caught.value) + repr(alarms)


def test_a_prefix_in_a_peers_url_is_kept(httpserver: HTTPServer) -> None:
    httpserver.expect_request(f"/am{ALERTS}").respond_with_json([])
    httpserver.expect_request(f"/am{SILENCES}").respond_with_json([a_silence()])
    alarms = AlertmanagerAlarms([httpserver.url_for("/am/")])
    assert len(alarms.look().silences) == 1
    alarms.close()


def test_no_peer_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="no Alertmanager URL"):
        AlertmanagerAlarms([])
