"""What `CivoCloud.charges` makes of Civo's answers: every field may be missing, and nothing is dropped silently."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from receiver.adapters.civo.cloud import CivoCloud
from receiver.core.model.charges import Charge
from receiver.ports import TryLater, WontWork
from tests.adapters.civo.answers import KEY, SIZE, a_cloud
from tests.adapters.wire import requests_sent

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
END = datetime(2026, 11, 20, 12, tzinfo=UTC)
RECORD: dict[str, Any] = {
    "id": 7,
    "code": f"kube-node-{SIZE}",
    "label": "demo-node-1",
    "from": "2026-11-03T10:00:00Z",
    "to": "2026-11-03T13:30:00Z",
    "num_hours": 4,
    "nodes": 1,
    "size": SIZE,
    "size_gb": None,
    "unit": "hour",
    "product_id": "i-1",
    "region": "LON1",
    "previous_charge_id": None,
    "something_new": {"deep": [1, 2]},
}


@pytest.fixture
def cloud(httpserver: HTTPServer) -> Iterator[CivoCloud]:
    adapter = a_cloud(httpserver.url_for(""))
    yield adapter
    adapter.close()


def one(httpserver: HTTPServer, cloud: CivoCloud, **changes: Any) -> Charge:
    """What is read of one record with *changes* (``...`` leaves a field out)."""
    record = {k: v for k, v in {**RECORD, **changes}.items() if v is not ...}
    httpserver.expect_request("/v2/charges").respond_with_json([record])
    found = cloud.charges(BEGIN, END)
    assert found.unreadable == ()
    [charge] = found.records
    return charge


def test_a_month_is_asked_for_in_utc_with_a_z_and_for_every_region(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    httpserver.expect_request("/v2/charges").respond_with_json([])
    cloud.charges(BEGIN, END)
    [request] = requests_sent(httpserver, "GET")
    assert request.args.to_dict() == {"from": "2026-11-01T00:00:00Z", "to": "2026-11-20T12:00:00Z"}
    assert request.headers["Authorization"] == f"bearer {KEY}"


def test_a_record_is_read_whole(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    assert one(httpserver, cloud) == Charge(
        code=f"kube-node-{SIZE}",
        label="demo-node-1",
        id="7",
        frm=datetime(2026, 11, 3, 10, tzinfo=UTC),
        to=datetime(2026, 11, 3, 13, 30, tzinfo=UTC),
        hours=Decimal(4),
        product="i-1",
    )


@pytest.mark.parametrize(
    ("said", "hours"),
    [
        *((4, 4), (0.05, "0.05"), ("18", 18), (" 18.11 ", "18.11"), (0, 0), (..., None), (None, None)),
        *(("soon", None), (True, None), (-3, None), ("NaN", None), ([4], None)),
        *((1e30, None), ("9e999999", None), (10**400, None), ("1e-999999", 0)),
    ],
)
def test_hours_may_be_a_fraction_or_text_and_what_is_no_number_is_left_to_the_times(
    httpserver: HTTPServer, cloud: CivoCloud, said: object, hours: object
) -> None:
    assert one(httpserver, cloud, num_hours=said).hours == (None if hours is None else Decimal(str(hours)))


def test_times_with_an_offset_are_utc(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    charge = one(
        httpserver, cloud, **{"from": "2026-11-03T11:00:00+01:00", "to": "2026-11-03T14:30:00.123456789+01:00"}
    )
    assert (charge.frm, charge.to) == (
        datetime(2026, 11, 3, 10, tzinfo=UTC),
        datetime(2026, 11, 3, 13, 30, 0, 123456, tzinfo=UTC),
    )


@pytest.mark.parametrize("open_end", [None, ..., ""])
def test_a_record_without_an_end_runs_on(httpserver: HTTPServer, cloud: CivoCloud, open_end: object) -> None:
    assert one(httpserver, cloud, to=open_end).to is None


def test_times_the_wrong_way_round_are_not_believed(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    charge = one(httpserver, cloud, **{"from": "2026-11-05T00:00:00Z"})
    assert (charge.frm, charge.to, charge.hours) == (None, None, Decimal(4))


@pytest.mark.parametrize(
    ("field", "value", "read"),
    [("nodes", 3, 3), ("nodes", "2", 2), ("nodes", 0, 1), ("nodes", None, 1), ("nodes", ..., 1)],
)
def test_nodes_are_one_unless_there_are_more(
    httpserver: HTTPServer, cloud: CivoCloud, field: str, value: object, read: int
) -> None:
    assert one(httpserver, cloud, **{field: value}).nodes == read


def test_the_size_of_a_volume_is_read(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    assert one(httpserver, cloud, code="volume", size_gb="25").size_gb == 25


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ("text", "record 2: it is not an object"),
        (None, "record 2: it is not an object"),
        ({**RECORD, "code": None}, "record 2: it has no code (label demo-node-1)"),
        ({"num_hours": 4}, "record 2: it has no code (label missing)"),
        (
            {"code": "volume", "label": "data", "num_hours": "soon", "from": "yesterday"},
            "record 2: volume has neither hours nor a start (label data)",
        ),
        (
            {"code": "volume", "label": "data", "from": "2026-11-03T10:00:00Z", "to": "later"},
            "record 2: volume has neither hours nor an end (label data)",
        ),
        (
            {"code": "volume", "label": "data", "num_hours": 4, "nodes": "9e999999"},
            "record 2: volume has an impossible number of nodes (label data)",
        ),
    ],
)
def test_a_record_that_cannot_be_read_is_named_and_the_others_count(
    httpserver: HTTPServer, cloud: CivoCloud, record: object, says: str
) -> None:
    httpserver.expect_request("/v2/charges").respond_with_json([RECORD, record])
    found = cloud.charges(BEGIN, END)
    assert (len(found.records), found.unreadable) == (1, (says,))


@pytest.mark.parametrize("answer", [{}, {"items": [RECORD]}, "none", 3], ids=["object", "page", "text", "number"])
def test_an_answer_that_is_no_list_is_no_answer(httpserver: HTTPServer, cloud: CivoCloud, answer: object) -> None:
    httpserver.expect_request("/v2/charges").respond_with_json(answer)
    with pytest.raises(TryLater, match="list of charges"):
        cloud.charges(BEGIN, END)


def test_more_than_31_days_are_asked_for_in_windows_that_civo_answers(httpserver: HTTPServer, cloud: CivoCloud) -> None:
    def answer(request: Request) -> Response:
        frm, to = (datetime.fromisoformat(request.args[name]) for name in ("from", "to"))
        if to - frm > timedelta(days=31):
            return Response('{"code": "parameter_date_range_too_long", "reason": "31 days"}', status=400)
        return Response(f'[{{"id": 7, "code": "volume", "num_hours": {4 if frm == BEGIN else 9}}}]')

    httpserver.expect_request("/v2/charges").respond_with_handler(answer)
    found = cloud.charges(BEGIN, BEGIN + timedelta(days=31, hours=1))
    assert [(r.id, r.hours) for r in found.records] == [("7", Decimal(9))]
    assert len(requests_sent(httpserver, "GET")) == 2


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (503, "down", TryLater),
        (401, '{"result": "requires_authentication"}', WontWork),
        (400, '{"code": "parameter_date_range_too_long"}', WontWork),
        (200, "<html>", TryLater),
    ],
)
def test_a_refusal_is_told_as_every_other(
    httpserver: HTTPServer, cloud: CivoCloud, status: int, body: str, kind: type[Exception]
) -> None:
    httpserver.expect_request("/v2/charges").respond_with_data(body, status=status)
    with pytest.raises(kind) as refused:
        cloud.charges(BEGIN, END)
    assert KEY not in str(refused.value)
