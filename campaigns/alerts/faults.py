"""Every fault and the alerts that it raises, and the page that lists the alerts.

A fault is brought about in simulator or receiver, and the rules are run over what follows. How hours pass in seconds,
and why that is faithful: tests/rules/hours.py.
"""

from collections.abc import Sequence
from pathlib import Path

from campaigns.alerts import gpu_faults, people_faults, scaling_faults
from tests.rules.catalogue import Fault
from tests.rules.files import ALERTS, HEARTBEAT, ROOT
from tests.rules.hours import fired, hours

FAULTS: Sequence[Fault] = (*scaling_faults.FAULTS, *people_faults.FAULTS, *gpu_faults.FAULTS)
PAGE = ROOT / "docs" / "alerts.md"
INTRODUCTION = """\
# Alerts

Every alert of `rules/`, with its runbook. Those with an [action](guardrails.md#other-rules) wake the autoscaler, the
others are for people. The first five wake people in the
[routes that come with the rules](../rules/alertmanager.yml)."""
FIRST = {
    "GpuAutoscalerDown": "no pool grows or shrinks, idle nodes cost money",
    "GpuBudgetStop": "a budget is used up: nothing is bought, all its nodes are cordoned",
    "GpuXidFatal": "a GPU failed below a pod",
    "GpuScaleUpStuck": "nodes were paid for and do not become usable",
    "GpuQueueWaitLong": "GPU pods of a priority class wait longer than `queue_wait`; `production` wakes people",
}


def raised_by(fault: Fault, folder: Path) -> set[str]:
    """Bring *fault* about and return every alert that fired."""
    with hours(fault.start(), fault.policy) as lived:
        fault.course(lived)
        return fired(lived, folder)


def expected(fault: Fault) -> set[str]:
    """Return the alerts that must fire; no other may."""
    return {HEARTBEAT, *fault.raises, *fault.also}


def page() -> str:
    """Return docs/alerts.md."""
    first = [f"- [{name}](runbooks/{name}.md): {meaning}" for name, meaning in FIRST.items()]
    lists = ["## The first five\n\n" + "\n".join(first)]
    by_severity: dict[str, list[str]] = {"critical": [], "warning": []}
    for alert in sorted((rule for rule in ALERTS if rule.name not in FIRST), key=lambda rule: rule.name):
        labels = alert.body["labels"]
        action = "" if labels["action"] == "notify" else f": `{labels['action']}`"
        by_severity.setdefault(labels["severity"], []).append(f"- [{alert.name}](runbooks/{alert.name}.md){action}")
    lists += [f"## Severity {severity}\n\n" + "\n".join(lines) for severity, lines in by_severity.items()]
    return "\n\n".join([INTRODUCTION, *lists]) + "\n"
