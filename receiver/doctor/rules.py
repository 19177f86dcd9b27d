"""The rules of this version in Prometheus: loaded, without errors, with their labels, and evaluated in time.

The files in ``rules/`` are installed into Prometheus and not with this program, which carries only what it compares:
``shipped_rules.json``, written by `python -m tools.shipped_rules`.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any

from receiver.adapters.http.sessions import moment
from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.core.model.signals import COMPONENT, HEARTBEAT_ALERT
from receiver.core.model.text import lasting, some
from receiver.doctor.checks import Area, Check, Finding, Installation, few, text_map
from receiver.doctor.configuration import is_placeholder

LATE = 3  # intervals without an evaluation, and at least a minute
SLOW = 0.5  # share of an interval from which the next burst of series may delay an evaluation

LOADED = Check(
    "rules.loaded",
    "whether Prometheus has loaded every recording and alert rule of this version, once",
    ("warn", "fail", "skip"),
    "install the files of rules/ of this version (kubectl apply the PrometheusRule with the label that Prometheus"
    " selects, such as `release`), and reload Prometheus",
)
HEALTHY = Check(
    "rules.healthy",
    "whether each rule was evaluated without an error",
    ("warn", "fail", "skip"),
    "fix what the error names: an alert whose rule fails is resolved after minutes. many-to-many matching means that a"
    " source is scraped twice",
)
SAME = Check(
    "rules.same",
    "whether each alert has the labels that route it and name its action, as this version ships them",
    ("fail", "skip"),
    "install rules and program of one version, and keep the labels component, action and namespace of its alerts",
)
TIMELY = Check(
    "rules.timely",
    "whether each rule was evaluated within the last three intervals, and a group's evaluation fits into its interval",
    ("warn", "fail", "skip"),
    "give Prometheus more CPU, or fewer series; prometheus_rule_group_iterations_missed_total counts the missed ones",
)
HEARTBEAT = Check(
    "rules.heartbeat",
    "whether the alert GpuAutoscalerHeartbeat fires in Prometheus",
    ("fail", "skip"),
    "load rules/heartbeat.alerts.yaml: without this alert no node is ever removed",
)
RUNBOOKS = Check(
    "rules.runbooks",
    "whether the alerts link to published runbooks, not to the placeholder of the shipped files",
    ("warn", "skip"),
    "replace https://civo-gpu-autoscaler.example/ in the rule files by the URL where you publish docs/",
)
CHECKS = (LOADED, HEALTHY, SAME, TIMELY, HEARTBEAT, RUNBOOKS)


@dataclass(frozen=True, slots=True)
class ShippedRule:
    """A rule of *file* by its *name*; *action* is the label of an alert, empty for a recording rule."""

    file: str
    name: str
    action: str = ""

    @property
    def kind(self) -> str:
        """Prometheus' name of its kind."""
        return "alerting" if self.action else "recording"

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that route an alert and name its action; none for a recording rule."""
        return {"component": COMPONENT, "namespace": COMPONENT, "action": self.action} if self.action else {}


@cache
def _carried() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(files(__package__).joinpath("shipped_rules.json").read_text(encoding="utf-8"))
    return found


def shipped_rules() -> tuple[ShippedRule, ...]:
    """Return every rule, in the order of files, groups and rules."""
    by_file = _carried()["rules"].items()
    return tuple(ShippedRule(file, name, action) for file, rules in by_file for name, action in rules.items())


def longest_range() -> str:
    """Return the longest range of a rule, as a Prometheus duration."""
    return str(_carried()["longest_range"])


def read_by_rules(prefix: str) -> tuple[str, ...]:
    """Return the metrics with *prefix* that any rule reads, in order."""
    return tuple(name for name in _carried()["metrics"] if name.startswith(prefix))


def asleep_without(missing: Collection[str]) -> tuple[str, ...]:
    """Return the names of the alerts that cannot fire without the metrics *missing*."""
    asleep = {alert for name in missing for alert in _carried()["metrics"].get(name, ())}
    return tuple(rule.name for rule in shipped_rules() if rule.name in asleep)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRule:
    """A rule in Prometheus. *health* is ``ok``, ``err`` or ``unknown``; *last* is its last evaluation, *took* the
    duration of its group's last evaluation."""

    group: str
    file: str
    name: str
    kind: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    health: str = "ok"
    error: str = ""
    state: str = ""
    interval: timedelta = timedelta(0)
    last: datetime | None = None
    took: timedelta = timedelta(0)


def running_rules(data: Any) -> tuple[RunningRule, ...]:
    """Return the rules in *data*, the ``data`` of the answer to ``/api/v1/rules``; rules without a name are ignored."""
    groups = data.get("groups") if isinstance(data, Mapping) else None
    return tuple(
        RunningRule(
            group=str(group.get("name") or ""),
            file=str(group.get("file") or ""),
            name=str(rule["name"]),
            kind=str(rule.get("type") or ""),
            labels=text_map(rule.get("labels")),
            annotations=text_map(rule.get("annotations")),
            health=str(rule.get("health") or "unknown"),
            error=str(rule.get("lastError") or ""),
            state=str(rule.get("state") or ""),
            interval=_seconds(group.get("interval")),
            last=moment(rule.get("lastEvaluation")) or moment(group.get("lastEvaluation")),
            took=_seconds(group.get("evaluationTime")),
        )
        for group in groups or ()
        if isinstance(group, Mapping)
        for rule in group.get("rules") or ()
        if isinstance(rule, Mapping) and rule.get("name")
    )


def _seconds(value: Any) -> timedelta:
    return timedelta(seconds=float(value)) if isinstance(value, int | float) else timedelta(0)


Pair = tuple[ShippedRule, RunningRule]


def look(installation: Installation) -> Iterator[Finding]:
    """Check the rules of the configured Prometheus."""
    url = installation.settings.configuration.prometheus.url
    if url is None:
        yield LOADED.skipped("prometheus.url is not set")
        return
    with MonitoringApi("Prometheus", url, installation.clock, installation.timeouts) as api:
        ahead, _ = api.ahead()
        running = api.told("rules")
        if running is None:
            yield LOADED.skipped("this source has no /api/v1/rules; the ruler of Thanos or Mimir, or vmalert, has it")
        else:
            yield from judge(shipped_rules(), running_rules(running), installation.clock.now() + ahead)


def judge(shipped: Sequence[ShippedRule], running: Sequence[RunningRule], now: datetime) -> Iterator[Finding]:
    """Compare the *shipped* rules with the *running* ones of the same name and kind; *now* is Prometheus' time."""
    by_name: dict[tuple[str, str], list[RunningRule]] = {}
    for rule in running:
        by_name.setdefault((rule.kind, rule.name), []).append(rule)
    found = {rule: by_name.get((rule.kind, rule.name), []) for rule in shipped}
    pairs = [(rule, one) for rule, ones in found.items() for one in ones]
    yield from loaded(found)
    if pairs:
        yield from healthy(pairs)
        yield same(pairs)
        yield from timely([rule for _, rule in pairs], now)
        yield heartbeat([rule for _, rule in pairs])
        yield runbooks(pairs)


def loaded(found: Mapping[ShippedRule, Sequence[RunningRule]]) -> Iterator[Finding]:
    """Find rules that are missing, by file, and rules that are loaded more than once."""
    missing = [rule for rule, ones in found.items() if not ones]
    for file in sorted({rule.file for rule in missing}):
        names = [rule.name for rule in missing if rule.file == file]
        yield LOADED.failed(f"{some(len(names), 'rule')} of rules/{file} not loaded: {few(names)}")
    twice = {rule.name: ones for rule, ones in found.items() if len(ones) > 1}
    if twice:
        sources = sorted({one.file for ones in twice.values() for one in ones})
        said = f"{some(len(twice), 'rule')} loaded more than once, from {few(sources)}: {few(twice)}"
        yield LOADED.warned(said, "keep one copy of the rules: two copies record the same series twice")
    if not missing and not twice:
        yield LOADED.passed(f"all {len(found)} rules are loaded")


def healthy(pairs: Sequence[Pair]) -> Iterator[Finding]:
    """Find rules whose evaluation fails, and rules that have not been evaluated."""
    bad = [(ours, rule) for ours, rule in pairs if rule.health == "err" or rule.error]
    yet = [rule.name for _, rule in pairs if rule.health == "unknown" and not rule.error]
    for ours, rule in bad:
        yield HEALTHY.failed(f"{rule.name} (rules/{ours.file}) fails: {rule.error or 'Prometheus gives no reason'}")
    if yet:
        said = f"{some(len(yet), 'rule')} not evaluated yet: {few(yet)}"
        yield HEALTHY.warned(said, "run the doctor again when Prometheus has run for a minute")
    if not bad and not yet:
        yield HEALTHY.passed(f"{len(pairs)} rules evaluated without an error")


def same(pairs: Sequence[Pair]) -> Finding:
    """Find alerts without their labels, which are not delivered to the autoscaler."""
    lost = [
        f"{rule.name} ({label})"
        for ours, rule in pairs
        for label, value in sorted(ours.labels.items())
        if rule.labels.get(label) != value
    ]
    if lost:
        return SAME.failed(f"alerts without the labels that route them and name their action: {few(lost)}")
    return SAME.passed("alerts have the labels that route them and name their action")


def timely(rules: Sequence[RunningRule], now: datetime) -> Iterator[Finding]:
    """Find groups that were evaluated too long ago, or whose evaluation takes too long."""
    late: dict[str, str] = {}
    slow: dict[str, str] = {}
    for rule in rules:
        if rule.last is not None and now - rule.last > max(LATE * rule.interval, timedelta(minutes=1)):
            late[rule.group] = f"{rule.group} ({lasting(now - rule.last)} ago)"
        if rule.interval and rule.took > SLOW * rule.interval:
            slow[rule.group] = f"{rule.group} ({rule.took.total_seconds():.1f}s of {lasting(rule.interval)})"
    if late:
        yield TIMELY.failed(f"last evaluated too long ago: {few(late.values())}")
    if slow:
        over = any(rule.interval and rule.took > rule.interval for rule in rules)
        said = f"an evaluation takes {'longer than' if over else 'most of'} its interval: {few(slow.values())}"
        yield TIMELY.failed(said) if over else TIMELY.warned(said)
    if not late and not slow:
        every = sorted({rule.interval for rule in rules})
        often = f"every {lasting(every[0])}" + (f" to {lasting(every[-1])}" if len(every) > 1 else "")
        took = f"{max(rule.took for rule in rules).total_seconds() * 1000:.0f} ms"
        yield TIMELY.passed(f"evaluated on time, groups {often}; the longest takes {took}")


def heartbeat(rules: Sequence[RunningRule]) -> Finding:
    """Find a heartbeat alert that does not fire."""
    states = [rule.state for rule in rules if rule.name == HEARTBEAT_ALERT]
    if "firing" in states:
        return HEARTBEAT.passed(f"{HEARTBEAT_ALERT} fires")
    why = "is loaded and does not fire" if states else "is not loaded"
    return HEARTBEAT.failed(f"{HEARTBEAT_ALERT} {why}, so no node is removed")


def runbooks(pairs: Sequence[Pair]) -> Finding:
    """Find alerts without a usable link to a runbook."""
    urls = {rule.name: rule.annotations.get("runbook_url", "") for ours, rule in pairs if ours.action}
    invented = [name for name, url in urls.items() if url and is_placeholder(url)]
    if invented:
        return RUNBOOKS.warned(f"the runbook links of {some(len(invented), 'alert')} point to the placeholder host")
    bare = [name for name, url in urls.items() if not url]
    if bare:
        return RUNBOOKS.warned(f"no runbook link: {few(bare)}", "keep runbook_url in the annotations of the alerts")
    return RUNBOOKS.passed(f"{some(len(urls), 'alert')} with a link to a runbook")


AREA = Area(
    name="rules",
    source="Prometheus",
    checks=CHECKS,
    look=look,
    remedy="check prometheus.url and that this pod can reach it (NetworkPolicy)",
)
