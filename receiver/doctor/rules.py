"""Whether Prometheus runs the rules that this version ships, all of them, without errors, and often enough."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from receiver.core.model.signals import HEARTBEAT_ALERT
from receiver.core.model.text import lasting, some
from receiver.doctor.configuration import is_placeholder
from receiver.doctor.finding import Check, Finding
from receiver.doctor.promql import milliseconds, normalized
from receiver.doctor.running_rules import RunningRule
from receiver.doctor.shipped import ShippedRule
from receiver.doctor.told import few

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
    "whether each has the expression, the labels and the `for` that this version ships",
    ("warn", "fail", "skip"),
    "install rules and program of one version, or know why you changed it",
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

Pair = tuple[ShippedRule, RunningRule]


def judge(shipped: Sequence[ShippedRule], running: Sequence[RunningRule], now: datetime) -> Iterator[Finding]:
    """Yield what there is to say of the *shipped* rules among the *running* ones; *now* is Prometheus' own time."""
    found = matched(shipped, running)
    missing = [rule for rule in shipped if rule not in found]
    pairs = [(rule, one) for rule, ones in found.items() for one in ones]
    yield from loaded(missing, found)
    if not pairs:
        return
    yield from healthy(pairs)
    yield from same(pairs)
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


def same(pairs: Sequence[Pair]) -> Iterator[Finding]:
    """Say which rules differ from what is shipped. Without its routing labels an alert does not reach us."""
    lost = [f"{r.name} ({label})" for s, r in pairs if s.is_alert for label in _routing_labels(s, r)]
    if lost:
        said = f"alerts without the labels that route them and say what to do: {few(lost)}"
        yield SAME.failed(said, "keep the labels component, action and namespace of the shipped alerts")
    differs = [name for name, parts in ((r.name, _differences(s, r)) for s, r in pairs) if parts]
    if differs:
        parts = sorted({part for s, r in pairs for part in _differences(s, r)})
        yield SAME.warned(f"{some(len(differs), 'rule')} not as shipped ({', '.join(parts)}): {few(differs)}")
    if not lost and not differs:
        yield SAME.passed("expressions, labels and `for` are those of this version")


def _routing_labels(shipped: ShippedRule, running: RunningRule) -> list[str]:
    wanted = {k: shipped.labels[k] for k in ("component", "action", "namespace") if k in shipped.labels}
    return [label for label, value in wanted.items() if running.labels.get(label) != value]


def _differences(shipped: ShippedRule, running: RunningRule) -> list[str]:
    found = []
    if normalized(shipped.expression) != normalized(running.expression):
        found.append("expression")
    if any(
        running.labels.get(k) != v for k, v in shipped.labels.items() if k not in ("component", "action", "namespace")
    ):
        found.append("labels")
    if shipped.is_alert and abs(milliseconds(shipped.hold) - running.hold / timedelta(milliseconds=1)) >= 1:
        found.append("for")
    return found


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
    urls = {rule.name: rule.annotations.get("runbook_url", "") for ours, rule in pairs if ours.is_alert}
    invented = [name for name, url in urls.items() if url and is_placeholder(url)]
    if invented:
        return RUNBOOKS.warned(f"the runbook links of {some(len(invented), 'alert')} lead to the placeholder's host")
    bare = [name for name, url in urls.items() if not url]
    if bare:
        return RUNBOOKS.warned(f"no runbook link: {few(bare)}", "keep runbook_url in the annotations of the alerts")
    return RUNBOOKS.passed(f"{some(len(urls), 'alert')} with a link to a runbook")
