"""Payloads of the shape that Alertmanager 0.25 to 0.34 send, whole, odd and broken."""

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.ports import Delivery
from receiver.ports.alert_payload import LONGEST_TEXT, MOST_WARNINGS, BadPayload, parse

NOW = datetime(2026, 11, 20, 21, 26, tzinfo=UTC)
POOLS = ("5f3c", "l40s")


def alert(**changes: Any) -> dict[str, Any]:
    return {
        "status": "firing",
        "labels": {
            "alertname": "GpuPodsWaiting",
            "component": "gpu-autoscaler",
            "action": "scale_up",
            "pool": "5f3c",
            "severity": "warning",
        },
        "annotations": {"summary": "2 GPU pods wait", "runbook_url": "https://example.org/GpuPodsWaiting"},
        "startsAt": "2026-11-20T21:25:05.769613297Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": "95f7c0804ff3fc42",
    } | changes


def labelled(**labels: str) -> dict[str, Any]:
    item = alert()
    item["labels"] = {**item["labels"], **labels}
    return item


def payload(*alerts: Any, **changes: Any) -> dict[str, Any]:
    return {
        "receiver": "gpu\\.autoscaler",
        "status": "firing",
        "alerts": list(alerts) or [alert()],
        "groupLabels": {"alertname": "GpuPodsWaiting", "pool": "5f3c"},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager:9093",
        "version": "4",
        "groupKey": '{}:{alertname="GpuPodsWaiting", pool="5f3c"}',
        "truncatedAlerts": 0,
    } | changes


def read(document: Any) -> Delivery:
    return parse(json.dumps(document).encode(), received_at=NOW, pools=POOLS)


def without(document: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != key}


def test_a_payload_of_alertmanager_becomes_a_delivery_without_warnings() -> None:
    delivery = read(payload())
    assert delivery.receiver == "gpu\\.autoscaler"
    assert delivery.group_key == '{}:{alertname="GpuPodsWaiting", pool="5f3c"}'
    assert delivery.truncated == 0
    assert delivery.warnings == ()
    (found,) = delivery.alerts
    assert found.fingerprint == "95f7c0804ff3fc42"
    assert found.labels["action"] == "scale_up"
    assert found.annotations["summary"] == "2 GPU pods wait"
    assert found.firing


def test_nanoseconds_are_cut_to_microseconds() -> None:
    assert read(payload()).alerts[0].starts_at == datetime(2026, 11, 20, 21, 25, 5, 769613, tzinfo=UTC)


def test_a_start_with_an_offset_becomes_utc() -> None:
    starts_at = read(payload(alert(startsAt="2026-11-20T22:25:05+01:00"))).alerts[0].starts_at
    assert starts_at == datetime(2026, 11, 20, 21, 25, 5, tzinfo=UTC)
    assert starts_at.utcoffset() == timedelta(0)


def test_the_body_is_kept_as_it_came() -> None:
    body = json.dumps(payload(), indent=3).encode()
    assert parse(body, received_at=NOW).body.encode() == body


def test_keys_that_newer_versions_add_are_ignored() -> None:
    newer = payload(
        alert(dashboardURL="http://x"), notification_reason="repeat interval elapsed", routeLabels={"team": "ml"}
    )
    assert read(newer).warnings == ()


def test_only_version_status_and_alerts_are_required_of_the_message() -> None:
    document = {key: value for key, value in payload().items() if key in ("version", "status", "alerts")}
    delivery = read(document)
    assert (delivery.receiver, delivery.group_key, len(delivery.alerts)) == ("", "", 1)


def test_each_alerts_own_status_counts_and_not_the_groups() -> None:
    delivery = read(payload(alert(), alert(status="resolved", fingerprint="b"), status="firing"))
    assert [a.firing for a in delivery.alerts] == [True, False]
    resolved_group = read(payload(alert(), status="resolved"))
    assert resolved_group.alerts[0].firing


def test_an_alert_without_annotations_is_taken() -> None:
    assert read(payload(without(alert(), "annotations"))).alerts[0].annotations == {}


def test_a_pool_may_be_called_by_its_name_or_be_unassigned() -> None:
    assert read(payload(labelled(pool="l40s"), labelled(pool="unassigned"), labelled(pool=""))).warnings == ()


def test_an_alert_without_the_component_label_is_taken_as_ours() -> None:
    item = alert()
    del item["labels"]["component"]
    assert len(read(payload(item)).alerts) == 1


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        (b"", "body", "is not JSON: Expecting value at line 1, column 1"),
        (b'{"a": 1,\n "b" 2}', "body", "at line 2, column 6"),
        (b"\xff\xfe", "body", "is not UTF-8 (byte 1)"),
        (b"[" * 100_000, "body", "is not readable JSON"),
        (b"1" * 5000, "body", "is not readable JSON"),
        (b"[]", "body", "must be an object, not a list"),
        (b"null", "body", "must be an object, not null"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused_with_its_place(body: bytes, field: str, says: str) -> None:
    with pytest.raises(BadPayload) as refused:
        parse(body, received_at=NOW)
    assert refused.value.field == field
    assert says in str(refused.value)
    assert refused.value.remedy


BROKEN: list[tuple[str, Any, str, str, str]] = [
    ("no version", without(payload(), "version"), "version", 'this receiver supports "4"', "webhook_configs"),
    ("version 5", payload(version="5"), "version", '"5" is unknown; this receiver supports "4"', "0.25 or newer"),
    ("no status", without(payload(), "status"), "status", "is missing", "webhook_configs"),
    ("odd status", payload(status="ok"), "status", 'must be firing or resolved, not "ok"', "unchanged"),
    ("no alerts", without(payload(), "alerts"), "alerts", "is missing", "unchanged"),
    ("alerts is an object", payload(alerts={}), "alerts", "must be a list, not an object", "unchanged"),
    ("no alert in alerts", payload(alerts=[]), "alerts", "is empty", "unchanged"),
    ("an alert is a string", payload(alert(), "x"), "alerts[1]", "must be an object, not a string", "unchanged"),
    ("no labels", payload(without(alert(), "labels")), "alerts[0].labels", "is missing", "unchanged"),
    ("labels is a list", payload(alert(labels=[])), "alerts[0].labels", "must be an object of strings", "unchanged"),
    (
        "a label is a number",
        payload(alert(labels={"pool": 7})),
        "alerts[0].labels.pool",
        "must be a string, not a number",
        "unchanged",
    ),
    (
        "no fingerprint",
        payload(without(alert(), "fingerprint")),
        "alerts[0].fingerprint",
        "is missing; it is Alertmanager's hash of the labels",
        "unchanged",
    ),
    ("empty fingerprint", payload(alert(fingerprint="")), "alerts[0].fingerprint", "is missing", "unchanged"),
    ("fingerprint 7", payload(alert(fingerprint=7)), "alerts[0].fingerprint", "must be a string", "unchanged"),
    ("no alert status", payload(without(alert(), "status")), "alerts[0].status", "is missing", "unchanged"),
    (
        "an alert is pending",
        payload(alert(status="pending")),
        "alerts[0].status",
        'must be firing or resolved, not "pending"',
        "unchanged",
    ),
    ("no start", payload(without(alert(), "startsAt")), "alerts[0].startsAt", "is missing", "unchanged"),
    (
        "a start in words",
        payload(alert(startsAt="yesterday")),
        "alerts[0].startsAt",
        '"yesterday" is not a timestamp',
        "RFC 3339",
    ),
    ("a start without zone", payload(alert(startsAt="2026-11-20T21:25:05")), "alerts[0].startsAt", "not a", "RFC 3339"),
    ("month 13", payload(alert(startsAt="2026-13-20T21:25:05Z")), "alerts[0].startsAt", "month", "RFC 3339"),
    ("a number as start", payload(alert(startsAt=1763673905)), "alerts[0].startsAt", "1763673905 is", "RFC 3339"),
]


@pytest.mark.parametrize(("document", "field", "says", "helps"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_what_cannot_be_understood_is_refused_with_field_and_remedy(
    document: Any, field: str, says: str, helps: str
) -> None:
    with pytest.raises(BadPayload) as refused:
        read(document)
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")
    assert says in str(refused.value)
    assert helps in refused.value.remedy


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(BadPayload) as refused:
        read(payload(status="x" * 10_000))
    assert len(str(refused.value)) < 200


def test_a_label_name_that_no_log_can_write_is_replaced_in_the_message() -> None:
    with pytest.raises(BadPayload) as refused:
        read(payload(alert(labels={"\ud800" + "x" * 1000: 1})))
    assert len(refused.value.field) < 100
    assert str(refused.value).encode()


def test_no_count_of_truncated_alerts_is_too_large_to_be_kept() -> None:
    assert read(payload(truncatedAlerts=10**33)).truncated == 2**31 - 1


def test_truncated_alerts_are_counted_and_warned_of() -> None:
    delivery = read(payload(truncatedAlerts=3))
    assert delivery.truncated == 3
    assert delivery.warnings == ("Alertmanager left 3 alerts out of this message; set max_alerts: 0",)


def test_an_unknown_pool_is_kept_and_warned_of_with_the_known_ones() -> None:
    delivery = read(payload(labelled(pool="a100")))
    assert len(delivery.alerts) == 1
    assert delivery.warnings == ('pool "a100" of alert GpuPodsWaiting is not configured; known: 5f3c, l40s',)


def test_pools_are_not_checked_when_none_are_given() -> None:
    assert parse(json.dumps(payload(labelled(pool="a100"))).encode(), received_at=NOW).warnings == ()


def test_an_unknown_action_is_kept_and_warned_of_with_the_known_ones() -> None:
    (warning,) = read(payload(labelled(action="grow"))).warnings
    assert warning.startswith('action "grow" of alert GpuPodsWaiting is unknown and has no effect; known: scale_up,')


def test_an_alert_without_action_is_warned_of() -> None:
    (warning,) = read(payload(labelled(action=""))).warnings
    assert "has no label action" in warning


def test_an_alert_of_another_component_is_left_out_and_warned_of() -> None:
    delivery = read(payload(labelled(component="etcd"), alert(fingerprint="ours")))
    assert [a.fingerprint for a in delivery.alerts] == ["ours"]
    assert delivery.warnings == ('alert GpuPodsWaiting is not ours (component "etcd") and was ignored',)


@pytest.mark.parametrize(
    "start",
    [
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59-01:00",
        "2026-11-20T21:31:00.000001Z",
        "2025-10-16T21:25:59Z",
    ],
)
def test_a_start_that_cannot_be_true_becomes_the_moment_of_arrival(start: str) -> None:
    delivery = read(payload(alert(startsAt=start)))
    assert delivery.alerts[0].starts_at == NOW
    assert delivery.warnings == (
        f"alert GpuPodsWaiting has the impossible start time {start}: its time of arrival is used instead",
    )


@pytest.mark.parametrize("start", ["2026-11-20T21:31:00Z", "2025-10-16T21:26:00Z"])
def test_a_start_at_the_edge_of_what_can_be_true_is_kept(start: str) -> None:
    delivery = read(payload(alert(startsAt=start)))
    assert delivery.alerts[0].starts_at == datetime.fromisoformat(start)
    assert delivery.warnings == ()


def test_the_same_warning_is_given_once_for_many_alerts() -> None:
    assert len(read(payload(*[labelled(pool="a100") for _ in range(500)])).warnings) == 1


def test_many_different_warnings_are_cut_with_their_number() -> None:
    warnings = read(payload(*[labelled(pool=f"pool-{n}") for n in range(100)])).warnings
    assert len(warnings) == MOST_WARNINGS + 1
    assert warnings[-1] == "and 80 more warnings"


def test_a_book_in_a_label_or_an_annotation_is_cut() -> None:
    book = "word " * 100_000
    (kept,) = read(payload(alert(labels={"alertname": book, book: "x"}, annotations={"summary": book}))).alerts
    texts = [*kept.labels, *kept.labels.values(), *kept.annotations.values()]
    assert max(len(text) for text in texts) == LONGEST_TEXT


def test_characters_that_no_database_stores_are_replaced() -> None:
    delivery = read(payload(labelled(team="a\x00b\ud800c"), groupKey="k\x00"))
    assert delivery.alerts[0].labels["team"] == "a\ufffdb\ufffdc"
    assert delivery.group_key == "k\ufffd"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_bad_payload(body: bytes) -> None:
    with pytest.raises(BadPayload):
        parse(body, received_at=NOW)


@given(st.sampled_from([*payload(), *(f"alerts.{key}" for key in alert())]), json_values)
def test_whatever_stands_in_a_field_the_answer_is_a_delivery_or_bad_payload(field: str, value: Any) -> None:
    document = copy.deepcopy(payload())
    outer, _, inner = field.partition(".")
    if inner:
        document["alerts"][0][inner] = value
    else:
        document[outer] = value
    try:
        delivery = read(document)
    except BadPayload as refused:
        assert refused.field.startswith(outer)  # noqa: PT017 (either outcome is right; each is checked)
    else:
        assert all(a.fingerprint for a in delivery.alerts)
