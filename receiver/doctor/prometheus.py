"""Prometheus: its clock and queries, and the rules of this version in it: loaded, healthy, labelled, on time.

The files in ``rules/`` are installed into Prometheus and not with this program, which carries only what it compares:
``shipped_rules.json``, written by `make generate`.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any

from receiver.adapters.http.sessions import moment
from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.core.model.signals import COMPONENT, HEARTBEAT_ALERT
from receiver.core.model.text import lasting, some
from receiver.doctor.checks import CALL_TIMEOUTS, Area, Check, Finding, Installation, few
from receiver.doctor.configuration import is_placeholder

Json = Mapping[str, Any]
FAR = timedelta(seconds=60)  # the alert GpuAutoscalerClockSkewed fires there
NOTICEABLE = timedelta(seconds=5)
LATE = 3  # intervals without an evaluation, and at least a minute

CLOCK = Check(
    "prometheus.clock",
    "whether Prometheus' clock and the local one agree: within 5 s, at most a minute",
    "run an NTP client (chrony, systemd-timesyncd) on both machines: ages, cooldowns and paid hours depend on the time",
)
DELAY = Check(
    "prometheus.delay",
    "whether queries show samples at once: within 5 s, unlike VictoriaMetrics' default of 30 s",
    "start VictoriaMetrics or vmselect with -search.latencyOffset=1s, and vmalert with -rule.evalDelay=1s",
)
LOADED = Check(
    "rules.loaded",
    "whether Prometheus has loaded every recording and alert rule of this version, once",
    "install the files of rules/ of this version (kubectl apply the PrometheusRule with the label that Prometheus"
    " selects, such as `release`), and reload Prometheus",
)
HEALTHY = Check(
    "rules.healthy",
    "whether each rule was evaluated without an error",
    "fix what the error names: an alert whose rule fails is resolved after minutes. many-to-many matching means that a"
    " source is scraped twice",
)
SAME = Check(
    "rules.same",
    "whether each alert has the labels that route it and name its action, as this version ships them",
    "install rules and program of one version, and keep the labels component, action and namespace of its alerts",
)
TIMELY = Check(
    "rules.timely",
    "whether each rule was evaluated within the last three intervals",
    "give Prometheus more CPU, or fewer series; prometheus_rule_group_iterations_missed_total counts the missed ones",
)
HEARTBEAT = Check(
    "rules.heartbeat",
    "whether the alert GpuAutoscalerHeartbeat fires in Prometheus",
    "load rules/heartbeat.alerts.yaml: without this alert no node is ever removed",
)
SHIPPED_DOCS = "http://127.0.0.1:8080/docs"  # with what runbook_url begins in rules/: right on the server's own machine
RUNBOOKS = Check(
    "rules.runbooks",
    "whether the alerts link to runbooks at an address that every reader can open, not at 127.0.0.1 as shipped",
    f"replace {SHIPPED_DOCS} in the rule files by /docs below public_url, or by your docs_url",
)


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


@cache
def _carried() -> Mapping[str, Any]:
    rules: Mapping[str, Any] = json.loads(files(__package__).joinpath("shipped_rules.json").read_text(encoding="utf-8"))
    return rules


def shipped_rules() -> tuple[ShippedRule, ...]:
    """Return every rule, in the order of files, groups and rules."""
    by_file = _carried()["rules"].items()
    return tuple(ShippedRule(file, name, action) for file, rules in by_file for name, action in rules.items())


def read_by_rules(prefix: str) -> tuple[str, ...]:
    """Return the metrics with *prefix* that any rule reads, in order."""
    return tuple(name for name in _carried()["metrics"] if name.startswith(prefix))


def asleep_without(missing: Collection[str]) -> tuple[str, ...]:
    """Return the names of the alerts that cannot fire without the metrics *missing*."""
    asleep = {alert for name in missing for alert in _carried()["metrics"].get(name, ())}
    return tuple(rule.name for rule in shipped_rules() if rule.name in asleep)


def running_rules(data: Json) -> list[Json]:
    """Return the rules in *data*, the ``data`` of the answer to ``/api/v1/rules``, each with its ``group``."""
    return [{**rule, "group": group} for group in data.get("groups") or () for rule in group.get("rules") or ()]


def _look_at_clock(installation: Installation) -> Iterator[Finding]:
    url = installation.settings.configuration.prometheus.url
    if url is None:
        yield CLOCK.skipped("prometheus.url is not set")
        return
    with MonitoringApi("Prometheus", url, installation.clock, CALL_TIMEOUTS) as api:
        now = api.server_time()
    yield clock(now.ahead, now.uncertain)
    late = now.delay > NOTICEABLE
    problem = f"queries do not show the last {lasting(now.delay)}: alerts, growth and removals are as much later"
    yield DELAY.warned_if(late, problem, f"queries show samples within {now.delay.total_seconds():.0f} s")


def clock(ahead: timedelta, uncertain: timedelta) -> Finding:
    """Judge how far Prometheus' clock is *ahead* (negative: behind), with the error *uncertain*."""
    off = max(abs(ahead) - uncertain, timedelta(0))
    if off <= NOTICEABLE:
        most = max(abs(ahead), uncertain).total_seconds()
        return CLOCK.passed(f"Prometheus' clock and the local one differ by at most {most:.1f} s")
    side = "ahead of" if ahead > timedelta(0) else "behind"
    problem = f"Prometheus' clock is {lasting(abs(ahead))} {side} the local one"
    return CLOCK.failed(problem) if off > FAR else CLOCK.warned(problem)


def look(installation: Installation) -> Iterator[Finding]:
    """Check the rules of the configured Prometheus."""
    url = installation.settings.configuration.prometheus.url
    if url is None:
        yield LOADED.skipped("prometheus.url is not set")
        return
    with MonitoringApi("Prometheus", url, installation.clock, CALL_TIMEOUTS) as api:
        ahead = api.server_time().ahead
        running = api.told("rules")
    if running is None:
        yield LOADED.skipped("this source has no /api/v1/rules; the ruler of Thanos or Mimir, or vmalert, has it")
    else:
        yield from judge(shipped_rules(), running_rules(running), installation.clock.now() + ahead)


def judge(shipped: Sequence[ShippedRule], running: Sequence[Json], now: datetime) -> Iterator[Finding]:
    """Compare the *shipped* rules with the *running* ones of the same name and kind; *now* is Prometheus' time."""
    by_name: dict[tuple[str, str], list[Json]] = {}
    for rule in running:
        by_name.setdefault((rule["type"], rule["name"]), []).append(rule)
    running_by_rule = {rule: by_name.get((rule.kind, rule.name), []) for rule in shipped}
    pairs = [(ours, one) for ours, ones in running_by_rule.items() for one in ones]
    yield from loaded(running_by_rule)
    if pairs:
        yield from healthy(pairs)
        unlabelled = [
            f"{ours.name} ({label})"
            for ours, rule in pairs
            if ours.action
            for label, value in (("action", ours.action), ("component", COMPONENT), ("namespace", COMPONENT))
            if (rule.get("labels") or {}).get(label) != value
        ]
        without = f"alerts without the labels that route them and name their action: {few(unlabelled)}"
        yield SAME.failed_if(unlabelled, without, "alerts have the labels that route them and name their action")
        yield timely([rule for _, rule in pairs], now)
        states = [rule.get("state") for ours, rule in pairs if ours.name == HEARTBEAT_ALERT]
        heartbeat_state = "is loaded and does not fire" if states else "is not loaded"
        silent = f"{HEARTBEAT_ALERT} {heartbeat_state}, so no node is removed"
        yield HEARTBEAT.failed_if("firing" not in states, silent, f"{HEARTBEAT_ALERT} fires")
        urls = {o.name: (r.get("annotations") or {}).get("runbook_url", "") for o, r in pairs if o.action}
        local = [name for name, url in urls.items() if url.startswith(SHIPPED_DOCS) or is_placeholder(url)]
        bare = [name for name, url in urls.items() if not url]
        problem = f"no runbook link: {few(bare)}"
        if local:
            problem = f"the runbook links of {some(len(local), 'alert')} lead to 127.0.0.1 or a placeholder"
        yield RUNBOOKS.warned_if(local or bare, problem, f"{some(len(urls), 'alert')} with a link to a runbook")


def loaded(running_by_rule: Mapping[ShippedRule, Sequence[Json]]) -> Iterator[Finding]:
    """Find rules that are missing, by file, and rules that are loaded more than once."""
    missing = [rule for rule, copies in running_by_rule.items() if not copies]
    for file in sorted({rule.file for rule in missing}):
        names = [rule.name for rule in missing if rule.file == file]
        yield LOADED.failed(f"{some(len(names), 'rule')} of rules/{file} not loaded: {few(names)}")
    twice = {rule.name: copies for rule, copies in running_by_rule.items() if len(copies) > 1}
    if twice:
        sources = sorted({str(copy["group"].get("file")) for copies in twice.values() for copy in copies})
        problem = f"{some(len(twice), 'rule')} loaded more than once, from {few(sources)}: {few(twice)}"
        yield LOADED.warned(problem, "keep one copy of the rules: two copies record the same series twice")
    if not missing and not twice:
        yield LOADED.passed(f"all {len(running_by_rule)} rules are loaded")


def healthy(pairs: Sequence[tuple[ShippedRule, Json]]) -> Iterator[Finding]:
    """Find rules whose evaluation fails, and rules that have not been evaluated."""
    bad = [
        f"{ours.name} (rules/{ours.file}) fails: {rule.get('lastError') or 'Prometheus gives no reason'}"
        for ours, rule in pairs
        if rule.get("health") == "err" or rule.get("lastError")
    ]
    yet = [ours.name for ours, rule in pairs if rule.get("health") == "unknown" and not rule.get("lastError")]
    if yet:
        problem = f"{some(len(yet), 'rule')} not evaluated yet: {few(yet)}"
        yield HEALTHY.warned(problem, "run the doctor again when Prometheus has run for a minute")
    if bad or not yet:
        yield from HEALTHY.failures(bad, f"{len(pairs)} rules evaluated without an error")


def timely(rules: Sequence[Json], now: datetime) -> Finding:
    """Find groups whose last evaluation is too long ago."""
    late: dict[str, str] = {}
    for rule in rules:
        group = rule["group"]
        last = moment(rule.get("lastEvaluation")) or moment(group.get("lastEvaluation"))
        longest = max(LATE * timedelta(seconds=group.get("interval") or 0), timedelta(minutes=1))
        if last is not None and now - last > longest:
            late[group["name"]] = f"{group['name']} ({lasting(now - last)} ago)"
    return TIMELY.failed_if(late, f"last evaluated too long ago: {few(late.values())}", "evaluated on time")


AREA = Area(
    name="prometheus",
    source="Prometheus",
    checks=(CLOCK, DELAY),
    look=_look_at_clock,
    remedy="check prometheus.url and that this pod can reach it (NetworkPolicy): without Prometheus no node is removed",
)
RULES = Area(
    name="rules",
    source="Prometheus",
    checks=(LOADED, HEALTHY, SAME, TIMELY, HEARTBEAT, RUNBOOKS),
    look=look,
    remedy="check prometheus.url and that this pod can reach it (NetworkPolicy)",
)
