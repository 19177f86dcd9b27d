"""The running server as the doctor sees it, asked of one that really listens."""

from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.http.own_api import ServerApi
from receiver.doctor import server
from receiver.doctor.checks import Finding, Installation
from receiver.doctor.rounds import go_round
from receiver.doctor.server import AREA
from receiver.ports import TryLater
from tests.adapters.wire import unused_url
from tests.doctor.builders import document, installation, listening, pool
from tests.web.builders import Bench, a_full_store
from tests.web.fakes import FakeHealth


def found(told: Installation) -> dict[str, Finding]:
    """Return what is no pass, by check, but for the version: a test's server has its own."""
    ((_, findings),) = go_round([AREA], told)
    return {f.check: f for f in findings if f.verdict != "pass" and f.check != "server.version"}


def at(tmp_path: Path, url: str, **changes: object) -> Installation:
    """Return an installation of two pools, as the test's server has."""
    pools = [pool(), pool(name="a100", civo_pool_id="pool-a100")]
    return installation(tmp_path, document(**{"pools": pools, **changes}), GPU_AUTOSCALER_URL=url)


def test_a_healthy_server_raises_no_alarm_but_for_what_it_misses_itself(tmp_path: Path) -> None:
    with listening(Bench(store=a_full_store())) as url:
        findings = found(at(tmp_path, url))
    assert set(findings) == {"server.sources"}  # that picture has DCGM silent
    assert "dcgm (no series for l40s)" in findings["server.sources"].said


def test_a_server_that_does_not_answer_fails_where_its_address_is_set(tmp_path: Path) -> None:
    findings = found(at(tmp_path, unused_url()))
    assert findings["server.reached"].verdict == "fail"
    assert "port-forward" in findings["server.reached"].remedy
    assert {f.verdict for name, f in findings.items() if name != "server.reached"} == {"skip"}


def test_another_server_there_is_told(tmp_path: Path) -> None:
    with HTTPServer(host="127.0.0.1") as other:
        other.expect_request("/healthz").respond_with_data("ok")
        finding = found(at(tmp_path, other.url_for("").rstrip("/")))["server.reached"]
    assert "another server" in finding.said


def test_a_loop_that_does_not_beat_and_a_store_that_refuses_fail(tmp_path: Path) -> None:
    bench = Bench(store=a_full_store())
    bench.health = FakeHealth(beat_age=timedelta(hours=1))
    bench.error = TryLater("store: disk full", code="store")
    with listening(bench) as url:
        findings = found(at(tmp_path, url))
    assert findings["server.health"].verdict == "fail"
    assert "disk full" in findings["server.ready"].said


@pytest.mark.parametrize("changes, words", [({"mode": "observe"}, "mode act"), ({"pools": [pool()]}, "2 pools")])
def test_a_server_with_another_file_is_told(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with listening(Bench(store=a_full_store())) as url:
        finding = found(at(tmp_path, url, **changes))["server.configuration"]
    assert finding.verdict == "warn"
    assert words in finding.said
    assert "refused file" in finding.remedy


def test_the_token_goes_out_although_a_netrc_names_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login us password wrong\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    with HTTPServer(host="127.0.0.1") as other:
        other.expect_request("/healthz", headers={"Authorization": "Bearer right"}).respond_with_json({})
        with closing(ServerApi(other.url_for("").rstrip("/"), (1, 5), reader="right")) as asked:
            assert asked.probe("/healthz") == (200, {})


def test_another_version_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "installed_version", lambda: "0.0.1")
    with listening(Bench(store=a_full_store())) as url:
        ((_, findings),) = go_round([AREA], at(tmp_path, url))
    (finding,) = [f for f in findings if f.check == "server.version"]
    assert finding.verdict == "warn"
    assert "this command 0.0.1" in finding.said
