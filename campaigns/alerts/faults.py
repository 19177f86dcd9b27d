"""Every fault and the alerts that it raises, and the page that says so.

A fault is brought about in simulator or receiver, and the rules are run over what follows. How hours pass in seconds,
and why that is faithful: tests/rules/hours.py.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from campaigns.alerts import gpu_faults, people_faults, scaling_faults
from tests.rules.catalogue import Fault
from tests.rules.files import ALERTS, HEARTBEAT, ROOT
from tests.rules.hours import fired, hours

FAULTS: Sequence[Fault] = (*scaling_faults.FAULTS, *people_faults.FAULTS, *gpu_faults.FAULTS)
PAGE = ROOT / "docs" / "alerts.md"
INTRODUCTION = """\
# Alerts

Every alert of `rules/` and what raises it. `make alerts` writes this page: it causes each fault in the simulator or the
receiver, runs the shipped rules over what Prometheus would have scraped, and compares the alerts that fire. Hours pass
in seconds, because the clock is simulated.

Limits of this test: scrapes and rules run every 30 s, whatever the interval of a group; the receiver gets no webhooks;
the failure counters of Alertmanager and Prometheus are real ones, increased by hand.
"""


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
    return "\n".join([INTRODUCTION, *_alerts(), "", *_companions(), "", *_silent(), ""])


def _alerts() -> Iterator[str]:
    yield "## What raises each alert\n"
    yield "Each runbook says what to do; [Other rules](guardrails.md#other-rules) explains each `action`.\n"
    yield "| alert | action | severity | raised by |"
    yield "|---|---|---|---|"
    for alert in sorted(ALERTS, key=lambda rule: rule.name):
        by = "; ".join(fault.title for fault in FAULTS if alert.name in fault.raises)
        labels = alert.body["labels"]
        said = "always" if alert.name == HEARTBEAT else by
        yield f"| [{alert.name}](runbooks/{alert.name}.md) | {labels['action']} | {labels['severity']} | {said} |"


def _companions() -> Iterator[str]:
    yield "## Faults that raise further alerts\n"
    yield "A fault raises only the alerts in these two tables.\n"
    yield "| fault | also raises |"
    yield "|---|---|"
    for fault in FAULTS:
        if fault.also:
            yield f"| {fault.title} | {'; '.join(f'{name}: {why}' for name, why in fault.also.items())} |"


def _silent() -> Iterator[str]:
    yield "## Faults that raise no alert\n"
    yield from (f"- {fault.title}" for fault in FAULTS if not expected(fault) - {HEARTBEAT})
