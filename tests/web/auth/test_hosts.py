"""Pages and API answer under names of ours only, so that nobody reads them through somebody else's browser."""

import pytest

from tests.web.builders import TOKEN, Bench, a_full_store, a_payload
from tests.web.people import bearer

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
def test_addresses_names_inside_and_the_names_that_were_said_are_ours(host: str, path: str) -> None:
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
