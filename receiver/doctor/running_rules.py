"""The rules that a Prometheus evaluates, read from its answer to ``/api/v1/rules``."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from receiver.adapters.http.timestamps import moment


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRule:
    """One rule as a Prometheus runs it. *health* is ``ok``, ``err`` or ``unknown``; *last* is None before the first
    evaluation, *hold* the ``for`` of an alert, *took* what the last evaluation of its whole group took."""

    group: str
    file: str
    name: str
    kind: str
    expression: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    hold: timedelta = timedelta(0)
    health: str = "ok"
    error: str = ""
    state: str = ""
    interval: timedelta = timedelta(0)
    last: datetime | None = None
    took: timedelta = timedelta(0)


def running_rules(data: Any) -> tuple[RunningRule, ...]:
    """Return the rules in *data*, the ``data`` of the answer. What has no name or expression is left out."""
    groups = data.get("groups") if isinstance(data, Mapping) else None
    return tuple(rule for group in groups or () if isinstance(group, Mapping) for rule in _rules(group))


def _rules(group: Mapping[str, Any]) -> Iterator[RunningRule]:
    last = moment(group.get("lastEvaluation"))
    for rule in group.get("rules") or ():
        if not isinstance(rule, Mapping) or not rule.get("name") or not isinstance(rule.get("query"), str):
            continue
        yield RunningRule(
            group=str(group.get("name") or ""),
            file=str(group.get("file") or ""),
            name=str(rule["name"]),
            kind=str(rule.get("type") or ""),
            expression=rule["query"],
            labels=_words(rule.get("labels")),
            annotations=_words(rule.get("annotations")),
            hold=_seconds(rule.get("duration")),
            health=str(rule.get("health") or "unknown"),
            error=str(rule.get("lastError") or ""),
            state=str(rule.get("state") or ""),
            interval=_seconds(group.get("interval")),
            last=moment(rule.get("lastEvaluation")) or last,
            took=_seconds(group.get("evaluationTime")),
        )


def _words(value: Any) -> Mapping[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


def _seconds(value: Any) -> timedelta:
    return timedelta(seconds=float(value)) if isinstance(value, int | float) else timedelta(0)
