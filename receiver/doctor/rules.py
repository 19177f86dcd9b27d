"""Whether Prometheus runs the rules that this version ships, all of them, without errors, and often enough.

The files in ``rules/`` are installed into Prometheus and not with this program. What it has to know of them is in
``shipped_rules.json``, which `python -m tools.shipped_rules` writes.
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
from receiver.doctor.checks import Area, Check, Finding, Installation, few
from receiver.doctor.configuration import is_placeholder

LATE = 3  # intervals without an evaluation, and at least a minute
SLOW = 0.5  # of an interval: the next burst of series makes it miss one

LOADED = Check(
    "rules.loaded",
    "whether Prometheus has loaded every recording and alert rule that this version ships, once",
    ("warn", "fail", "skip"),
    "install the files of rules/ of this version (kubectl apply of the PrometheusRule, with the label that Prometheus"
    " selects by, such as `release`), and reload Prometheus",
)
HEALTHY = Check(
    "rules.healthy",
    "whether each of them was evaluated without an error",
    ("warn", "fail", "skip"),
    "an alert whose rule errs is resolved without a word after minutes: mend what the error names; many-to-many"
    " matching means that a source is scraped twice",
)
SAME = Check(
    "rules.same",
    "whether each alert has the labels that route it and say what to do, as this version ships them",
    ("fail", "skip"),
    "install rules and program of one version, and keep the labels component, action and namespace of its alerts",
)
TIMELY = Check(
    "rules.timely",
    "whether each was evaluated within the last three intervals, and a group's evaluation fits into its interval",
    ("warn", "fail", "skip"),
    "give Prometheus more CPU, or fewer series; prometheus_rule_group_iterations_missed_total counts what it missed",
)
HEARTBEAT = Check(
    "rules.heartbeat",
    "whether the alert GpuAutoscalerHeartbeat fires in Prometheus",
    ("fail", "skip"),
    "load rules/heartbeat.alerts.yaml: without its sign of life no node is ever removed",
)
RUNBOOKS = Check(
    "rules.runbooks",
    "whether the alerts lead to runbooks that somebody can open, not to the placeholder of the shipped files",
    ("warn", "skip"),
    "replace https://civo-gpu-autoscaler.example/ in the rule files by where you publish docs/",
)
CHECKS = (LOADED, HEALTHY, SAME, TIMELY, HEARTBEAT, RUNBOOKS)


@dataclass(frozen=True, slots=True)
class ShippedRule:
    """A rule of *file* by its *name*; *action* is what an alert asks for, empty for a recording."""

    file: str
    name: str
    action: str = ""

    @property
    def kind(self) -> str:
        """What Prometheus calls its kind."""
        return "alerting" if self.action else "recording"

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that route an alert and say what to do; none for a recording."""
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
    """Return the longest window that a rule looks back, as Prometheus writes a duration."""
    return str(_carried()["longest_range"])


def read_by_rules(prefix: str) -> tuple[str, ...]:
    """Return the metrics whose name begins with *prefix* that any rule reads, in order."""
    return tuple(name for name in _carried()["metrics"] if name.startswith(prefix))


def asleep_without(missing: Collection[str]) -> tuple[str, ...]:
    """Return the alerts that cannot fire while the metrics *missing* are not there, by name."""
    asleep = {alert for name in missing for alert in _carried()["metrics"].get(name, ())}
    return tuple(rule.name for rule in shipped_rules() if rule.name in asleep)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRule:
    """One rule as a Prometheus runs it. *health* is ``ok``, ``err`` or ``unknown``; *last* is None before the first
    evaluation, *took* what the last evaluation of its whole group took."""

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
    """Return the rules in *data*, the ``data`` of the answer to ``/api/v1/rules``. What has no name is left out."""
    groups = data.get("groups") if isinstance(data, Mapping) else None
    return tuple(rule for group in groups or () if isinstance(group, Mapping) for rule in _rules(group))


def _rules(group: Mapping[str, Any]) -> Iterator[RunningRule]:
    last = moment(group.get("lastEvaluation"))
    for rule in group.get("rules") or ():
        if not isinstance(rule, Mapping) or not rule.get("name"):
            continue
        yield RunningRule(
            group=str(group.get("name") or ""),
            file=str(group.get("file") or ""),
            name=str(rule["name"]),
            kind=str(rule.get("type") or ""),
            labels=_words(rule.get("labels")),
            annotations=_words(rule.get("annotations")),
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


Pair = tuple[ShippedRule, RunningRule]


def look(installation: Installation) -> Iterator[Finding]:
    """Yield what the configured Prometheus says of our rules."""
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
    """Yield what there is to say of the *shipped* rules among the *running* ones; *now* is Prometheus' own time."""
    found = matched(shipped, running)
    missing = [rule for rule in shipped if rule not in found]
    pairs = [(rule, one) for rule, ones in found.items() for one in ones]
    yield from loaded(missing, found)
    if not pairs:
        return
    yield from healthy(pairs)
    yield same(pairs)
    yield from timely(pairs, now)
    yield heartbeat(pairs)
    yield runbooks(pairs)


def matched(
    shipped: Sequence[ShippedRule], running: Sequence[RunningRule]
) -> Mapping[ShippedRule, tuple[RunningRule, ...]]:
    """Return, by shipped rule, those that run under its name and kind, whatever their group and file are called."""
    by_name: dict[tuple[str, str], list[RunningRule]] = {}
    for rule in running:
        by_name.setdefault((rule.kind, rule.name), []).append(rule)
    named = {rule: tuple(by_name.get((rule.kind, rule.name), ())) for rule in shipped}
    return {rule: ones for rule, ones in named.items() if ones}


def loaded(missing: Sequence[ShippedRule], found: Mapping[ShippedRule, Sequence[RunningRule]]) -> Iterator[Finding]:
    """Say which rules are not there, by file, and which are there twice."""
    files = {rule.file for rule in missing}
    for file in sorted(files):
        names = [rule.name for rule in missing if rule.file == file]
        yield LOADED.failed(f"{some(len(names), 'rule')} of rules/{file} not loaded: {few(names)}")
    twice = [rule.name for rule, ones in found.items() if len(ones) > 1]
    if twice:
        sources = sorted({one.file for rule, ones in found.items() if len(ones) > 1 for one in ones})
        said = f"{some(len(twice), 'rule')} loaded more than once, from {few(sources)}: {few(twice)}"
        yield LOADED.warned(said, "keep one copy of the rules: two record the same series twice")
    if not missing and not twice:
        yield LOADED.passed(f"all {len(found)} rules are loaded")


def healthy(pairs: Sequence[Pair]) -> Iterator[Finding]:
    """Say which rules err, each with what Prometheus says of it, and which were never evaluated."""
    bad = [(ours, rule) for ours, rule in pairs if rule.health == "err" or rule.error]
    yet = [rule.name for _, rule in pairs if rule.health == "unknown" and not rule.error]
    for ours, rule in bad:
        yield HEALTHY.failed(f"{rule.name} (rules/{ours.file}) errs: {rule.error or 'Prometheus does not say why'}")
    if yet:
        said = f"{some(len(yet), 'rule')} not evaluated yet: {few(yet)}"
        yield HEALTHY.warned(said, "ask again when Prometheus has run for a minute")
    if not bad and not yet:
        yield HEALTHY.passed(f"{len(pairs)} rules evaluated without an error")


def same(pairs: Sequence[Pair]) -> Finding:
    """Say which alerts lack a label. Without its routing labels an alert does not reach us."""
    lost = [
        f"{rule.name} ({label})"
        for ours, rule in pairs
        for label, value in sorted(ours.labels.items())
        if rule.labels.get(label) != value
    ]
    if lost:
        return SAME.failed(f"alerts without the labels that route them and say what to do: {few(lost)}")
    return SAME.passed("alerts have the labels that route them and say what to do")


def timely(pairs: Sequence[Pair], now: datetime) -> Iterator[Finding]:
    """Say which groups lag: evaluated long ago, or for longer than their interval."""
    late: dict[str, str] = {}
    slow: dict[str, str] = {}
    for _, rule in pairs:
        if rule.last is not None and now - rule.last > max(LATE * rule.interval, timedelta(minutes=1)):
            late[rule.group] = f"{rule.group} ({lasting(now - rule.last)} ago)"
        if rule.interval and rule.took > SLOW * rule.interval:
            slow[rule.group] = f"{rule.group} ({rule.took.total_seconds():.1f}s of {lasting(rule.interval)})"
    if late:
        yield TIMELY.failed(f"evaluated too long ago: {few(late.values())}")
    if slow:
        over = any(rule.interval and rule.took > rule.interval for _, rule in pairs)
        said = f"an evaluation takes {'longer than' if over else 'most of'} its interval: {few(slow.values())}"
        yield TIMELY.failed(said) if over else TIMELY.warned(said)
    if not late and not slow:
        longest = max(rule.took for _, rule in pairs)
        every = sorted({rule.interval for _, rule in pairs})
        often = f"every {lasting(every[0])} to {lasting(every[-1])}" if len(every) > 1 else f"every {lasting(every[0])}"
        took = f"{longest.total_seconds() * 1000:.0f} ms"
        yield TIMELY.passed(f"evaluated on time, groups {often}; the longest takes {took}")


def heartbeat(pairs: Sequence[Pair]) -> Finding:
    """Say whether the sign of life fires."""
    if any(rule.name == HEARTBEAT_ALERT and rule.state == "firing" for _, rule in pairs):
        return HEARTBEAT.passed(f"{HEARTBEAT_ALERT} fires")
    there = any(rule.name == HEARTBEAT_ALERT for _, rule in pairs)
    why = "is loaded and does not fire" if there else "is not loaded"
    return HEARTBEAT.failed(f"{HEARTBEAT_ALERT} {why}, so no node is removed")


def runbooks(pairs: Sequence[Pair]) -> Finding:
    """Say where the alerts lead people."""
    urls = {rule.name: rule.annotations.get("runbook_url", "") for ours, rule in pairs if ours.action}
    invented = [name for name, url in urls.items() if url and is_placeholder(url)]
    if invented:
        return RUNBOOKS.warned(f"the runbook links of {some(len(invented), 'alert')} lead to the placeholder's host")
    bare = [name for name, url in urls.items() if not url]
    if bare:
        return RUNBOOKS.warned(f"no runbook link: {few(bare)}", "keep runbook_url in the annotations of the alerts")
    return RUNBOOKS.passed(f"{some(len(urls), 'alert')} with a link to a runbook")


AREA = Area(
    name="rules",
    source="Prometheus",
    checks=CHECKS,
    look=look,
    remedy="check prometheus.url and that this pod may reach it (NetworkPolicy)",
)
