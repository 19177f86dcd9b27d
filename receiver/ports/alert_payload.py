"""Parses Alertmanager's webhook payload, version "4" (https://prometheus.io/docs/alerting/latest/configuration/).

It does not retry after a 4xx, so only unusable payloads are refused; everything else is a warning."""

import json
import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from receiver.core.model.signals import COMPONENT, UNASSIGNED, Alert, SignalAction
from receiver.core.model.text import harmless
from receiver.ports import Delivery

VERSION = "4"
FUTURE_TOLERANCE = timedelta(minutes=5)  # clocks that differ a little
OLDEST = timedelta(days=400)  # an alert that claims to be older has a wrong time
MOST_WARNINGS = 20
LONGEST_TEXT = 2000  # characters of a label or an annotation, which decisions repeat
MOST_TRUNCATED = 2**31 - 1  # the store's largest number

_STATUSES = ("firing", "resolved")
_SEND_OURS = "send Alertmanager's own webhook payload unchanged (webhook_configs, no template in between)"
# RFC 3339, as Go writes it: up to nanoseconds, always with an offset.
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")


class BadPayload(ValueError):
    """A body that is not a webhook payload: the problem with *field*, and its *remedy*. str() has no remedy."""

    def __init__(self, problem: str, *, field: str, remedy: str = _SEND_OURS) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.remedy = remedy


def parse(body: bytes, *, received_at: datetime, pools: Collection[str] = ()) -> Delivery:
    """Return the delivery in *body*. Raises BadPayload.

    *received_at* (timezone-aware) replaces an impossible start time. *pools* are the ids and names of the configured
    pools, to warn about others (empty: no warnings). Each alert's own status counts, not the group's, because one
    message mixes both. ``endsAt`` is ignored: an alert ends when it is reported as resolved or no longer found.
    """
    document = _document(body)
    warnings: list[str] = []
    alerts = []
    for index, item in enumerate(document["alerts"]):
        alert = _alert(item, f"alerts[{index}]", received_at, warnings)
        component = alert.labels.get("component", "")
        if component in ("", COMPONENT):
            _check_labels(alert, pools, warnings)
            alerts.append(alert)
        else:
            warnings.append(f"alert {_name(alert)} is not ours (component {_quoted(component)}) and was ignored")
    truncated = document.get("truncatedAlerts", 0)
    if not isinstance(truncated, int) or isinstance(truncated, bool) or truncated <= 0:
        truncated = 0
    else:
        warnings.append(f"Alertmanager left {truncated} alerts out of this message; set max_alerts: 0")
    sentences = list(dict.fromkeys(warnings))  # 1000 alerts of one kind are one warning
    if len(sentences) > MOST_WARNINGS:
        sentences[MOST_WARNINGS:] = [f"and {len(sentences) - MOST_WARNINGS} more warnings"]
    return Delivery(
        receiver=_text(document.get("receiver")),
        group_key=_text(document.get("groupKey")),
        alerts=tuple(alerts),
        truncated=min(truncated, MOST_TRUNCATED),
        body=body.decode(),
        warnings=tuple(sentences),
    )


def _document(body: bytes) -> Mapping[str, Any]:
    """The payload, with a supported version, a status and at least one alert."""
    try:
        document = json.loads(body.decode())
    except UnicodeDecodeError as error:
        raise BadPayload(f"is not UTF-8 (byte {error.start + 1})", field="body") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadPayload(f"is not JSON: {error.msg} at {where}", field="body") from error
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, endless brackets
        raise BadPayload("is not readable JSON", field="body") from error
    if not isinstance(document, dict):
        raise BadPayload(f"must be an object, not {_kind(document)}", field="body")
    version, alerts = document.get("version"), document.get("alerts")
    if version is None:
        raise BadPayload(f'is missing; this receiver supports "{VERSION}"', field="version")
    if version != VERSION:
        remedy = 'point a webhook_configs entry of Alertmanager 0.25 or newer at /webhook: it sends version "4"'
        problem = f'{_quoted(version)} is unknown; this receiver supports "{VERSION}"'
        raise BadPayload(problem, field="version", remedy=remedy)
    _check_status(document.get("status"), "status")
    if not isinstance(alerts, list):
        problem = "is missing" if alerts is None else f"must be a list, not {_kind(alerts)}"
        raise BadPayload(problem, field="alerts")
    if not alerts:
        raise BadPayload("is empty; Alertmanager never sends a message without alerts", field="alerts")
    return document


def _check_status(status: object, field: str) -> None:
    if status is None:
        raise BadPayload("is missing; it says firing or resolved", field=field)
    if status not in _STATUSES:
        raise BadPayload(f"must be firing or resolved, not {_quoted(status)}", field=field)


def _alert(item: object, field: str, received_at: datetime, warnings: list[str]) -> Alert:
    if not isinstance(item, dict):
        raise BadPayload(f"must be an object, not {_kind(item)}", field=field)
    labels = _string_map(item.get("labels"), f"{field}.labels")
    fingerprint = item.get("fingerprint")
    if not isinstance(fingerprint, str) or not fingerprint:
        problem = "is missing" if fingerprint in (None, "") else f"must be a string, not {_kind(fingerprint)}"
        raise BadPayload(f"{problem}; it is Alertmanager's hash of the labels", field=f"{field}.fingerprint")
    _check_status(item.get("status"), f"{field}.status")
    raw_start = item.get("startsAt")
    starts_at = _timestamp(raw_start, f"{field}.startsAt")
    if starts_at is None or not received_at - OLDEST <= starts_at <= received_at + FUTURE_TOLERANCE:
        name = _short(labels.get("alertname") or harmless(fingerprint))
        warnings.append(f"alert {name} has the impossible start time {raw_start}: its time of arrival is used instead")
        starts_at = received_at.astimezone(UTC)
    annotations = item.get("annotations")
    return Alert(
        fingerprint=harmless(fingerprint),
        labels=labels,
        starts_at=starts_at,
        firing=item["status"] == "firing",
        annotations=_strings_of(annotations) if isinstance(annotations, dict) else {},
    )


def _timestamp(raw: object, field: str) -> datetime | None:
    """Return the time in UTC, or None if it is out of range (Go's zero time, year 1)."""
    remedy = "write it as RFC 3339 with an offset, such as 2026-11-20T21:25:05Z"
    if raw is None:
        raise BadPayload("is missing", field=field)
    if not isinstance(raw, str) or not _TIMESTAMP.fullmatch(raw):
        raise BadPayload(f"{_quoted(raw)} is not a timestamp", field=field, remedy=remedy)
    try:
        return datetime.fromisoformat(raw).astimezone(UTC)
    except OverflowError:  # year 1 east of Greenwich
        return None
    except ValueError as error:
        raise BadPayload(f"{_quoted(raw)} is not a timestamp ({error})", field=field, remedy=remedy) from error


def _string_map(value: object, field: str) -> Mapping[str, str]:
    if value is None:
        raise BadPayload("is missing", field=field)
    if not isinstance(value, dict):
        raise BadPayload(f"must be an object of strings, not {_kind(value)}", field=field)
    for key, item in value.items():
        if not isinstance(item, str):
            raise BadPayload(f"must be a string, not {_kind(item)}", field=f"{field}.{_short(harmless(key))}")
    return _strings_of(value)


def _strings_of(value: Mapping[str, object]) -> Mapping[str, str]:
    texts = ((key, item) for key, item in value.items() if isinstance(item, str))
    return {harmless(key[:LONGEST_TEXT]): harmless(item[:LONGEST_TEXT]) for key, item in texts}


def _check_labels(alert: Alert, pools: Collection[str], warnings: list[str]) -> None:
    action, pool = alert.labels.get("action", ""), alert.labels.get("pool", "")
    actions = ", ".join(SignalAction)
    if not action:
        warnings.append(f"alert {_name(alert)} has no label action and has no effect; known actions: {actions}")
    elif action not in tuple(SignalAction):
        unknown = f"action {_quoted(action)} of alert {_name(alert)} is unknown"
        warnings.append(f"{unknown} and has no effect; known: {actions}")
    if pools and pool not in ("", UNASSIGNED, *pools):
        unknown = f"pool {_quoted(pool)} of alert {_name(alert)} is not configured"
        warnings.append(f"{unknown}; known: {', '.join(pools)}")


def _name(alert: Alert) -> str:
    return _short(alert.labels.get("alertname") or alert.fingerprint)


def _text(value: object) -> str:
    return harmless(value) if isinstance(value, str) else ""


def _quoted(value: object) -> str:
    return _short(json.dumps(value))


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
