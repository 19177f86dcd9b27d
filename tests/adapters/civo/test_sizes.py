"""What `CivoCloud.machines` makes of Civo's list of sizes, and how rarely it asks."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from receiver.adapters.civo.cloud import SIZES_READ_AGAIN, SIZES_RETRIED, CivoCloud, KnownSizes
from receiver.core.model.pods import GIB
from receiver.ports import TryLater
from tests.adapters.civo.answers import SIZE, a_cloud
from tests.adapters.wire import hanging_server, requests_sent

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
MACHINE = {"cpu": 12_000, "memory": 96 * GIB, "ephemeral-storage": 200 * GIB}


def a_size(**changes: Any) -> dict[str, Any]:
    return {"name": SIZE, "cpu_cores": 12, "ram_mb": 98_304, "disk_gb": 200, "gpu_count": 1, **changes}


@pytest.fixture
def cloud(httpserver: HTTPServer) -> Iterator[CivoCloud]:
    adapter = a_cloud(httpserver.url_for(""))
    yield adapter
    adapter.close()


def test_sizes_are_asked_for_once(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    httpserver.expect_request("/v2/sizes", method="GET").respond_with_json([a_size()])
    assert [cloud.machines() for _ in range(3)] == [{SIZE: MACHINE}] * 3
    (request,) = requests_sent(httpserver, "GET")
    assert request.args.to_dict() == {"region": "LON1"}


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        ([], {}),
        ({"items": [a_size()]}, {}),
        ([a_size(cpu_cores="12", ram_mb="98304")], {SIZE: MACHINE}),
        ([a_size(cpu_cores=None, disk_gb=0)], {SIZE: {"memory": 96 * GIB}}),
        ([a_size(cpu_cores=-1, ram_mb=10**30, disk_gb="much")], {}),
        ([a_size(name=None), "nonsense", a_size()], {SIZE: MACHINE}),
    ],
    ids=["none", "no list", "numbers as text", "some absent", "nonsense", "other records"],
)
def test_what_an_answer_does_not_tell_is_unknown(
    httpserver: HTTPServer, cloud: CivoCloud, answer: Any, known: dict[str, Any]
) -> None:
    httpserver.expect_request("/v2/sizes").respond_with_json(answer)
    assert cloud.machines() == known


def test_no_answer_holds_up_nobody(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    httpserver.expect_request("/v2/sizes").respond_with_json({"code": "not_found"}, status=404)
    assert cloud.machines() == {}


def test_a_hanging_answer_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("receiver.adapters.civo.cloud.SIZES_TIMEOUTS", (0.2, 0.2))
    with hanging_server("/v2/sizes", "GET") as (server, arrivals):
        cloud = a_cloud(server.url_for(""), read_timeout=60)
        assert [cloud.machines(), cloud.machines()] == [{}, {}]
        assert arrivals.count("GET") <= 2  # the session tries a read once more
        cloud.close()


def test_an_answer_is_believed_for_hours_and_a_failure_tried_again_after_minutes() -> None:
    answers: list[Any] = [[a_size()], TryLater("no"), [a_size(cpu_cores=24), a_size(name="other")]]
    asked: list[datetime] = []
    now = NOW

    def ask() -> object:
        asked.append(now)
        answer = answers[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    sizes = KnownSizes(ask, lambda: now)
    for minute in range(int((SIZES_READ_AGAIN + SIZES_RETRIED) / timedelta(minutes=1)) + 1):
        now = NOW + timedelta(minutes=minute)
        assert sizes.machines()[SIZE]["memory"] == 96 * GIB
    assert [at - NOW for at in asked] == [timedelta(0), SIZES_READ_AGAIN, SIZES_READ_AGAIN + SIZES_RETRIED]
    assert (sizes.machines()[SIZE]["cpu"], sizes.machines()["other"]) == (24_000, MACHINE)


def test_a_size_that_a_later_answer_leaves_out_stays_known() -> None:
    answers, now = [[a_size(), a_size(name="other")], [a_size()]], NOW
    sizes = KnownSizes(lambda: answers.pop(0), lambda: now)
    sizes.machines()
    now += SIZES_READ_AGAIN
    assert sizes.machines() == {SIZE: MACHINE, "other": MACHINE}
    assert not answers
