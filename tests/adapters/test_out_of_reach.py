"""Sources behind a firewall or a NetworkPolicy that drops what we send: nobody refuses, nobody answers."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client
from urllib3.util import connection

from receiver.adapters.civo.cloud import CivoCloud
from receiver.adapters.http.sessions import Calls
from receiver.adapters.kubernetes.cluster import KubernetesCluster
from receiver.adapters.monitoring.alertmanager import AlertmanagerAlarms
from receiver.adapters.monitoring.prometheus import PrometheusTelemetry
from receiver.ports import TryLater

SECONDS = 0.2


@pytest.fixture
def nobody() -> Iterator[str]:
    """The URL of a listener whose queue is full: the kernel drops what else wants to connect."""
    with socket.socket() as listener, socket.socket() as first:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        first.connect(listener.getsockname())
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def _civo(url: str) -> Any:
    return CivoCloud(api_url=url, api_key="k", region="LON1", cluster_id="c", calls=Calls(timeouts=(SECONDS, SECONDS)))


def _kubernetes(url: str) -> Any:
    return KubernetesCluster(client.Configuration(host=url), calls=Calls(timeouts=(SECONDS, SECONDS)))


def _prometheus(url: str) -> Any:
    return PrometheusTelemetry(url, timeout=SECONDS)


def _alertmanager(url: str) -> Any:
    return AlertmanagerAlarms([url], timeout=SECONDS)


SOURCES = pytest.mark.parametrize("source", [_civo, _kubernetes, _prometheus, _alertmanager])


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The connections that were begun."""
    begun: list[object] = []
    really = connection.create_connection

    def counted(*given: Any, **options: Any) -> socket.socket:
        begun.append(given)
        return really(*given, **options)

    monkeypatch.setattr(connection, "create_connection", counted)
    return begun


@SOURCES
def test_who_does_not_even_take_a_connection_costs_the_timeout_only_once(
    source: Callable[[str], Any], nobody: str, tried: list[object]
) -> None:
    asked = source(nobody)
    with pytest.raises(TryLater) as caught:
        asked.look()
    asked.close()
    assert len(tried) == 1
    assert caught.value.code == "timeout"


@SOURCES
def test_a_name_that_nobody_resolves_is_asked_for_only_once(
    source: Callable[[str], Any], tried: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    asked = source("http://nowhere.example:1")
    with pytest.raises(TryLater, match="its name cannot be resolved"):
        asked.look()
    asked.close()
    assert len(tried) == 1
