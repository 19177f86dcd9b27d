"""The report of a month as a message: what a team lead reads on the first."""

from collections.abc import Iterator

from receiver.core.model.text import some, span
from receiver.core.notices.sentences import Cause, Notice, Severity
from receiver.core.report.lines import PaidFor, Subtotal
from receiver.core.report.report import Report

TOPIC = "report:"
CONSUMERS = 5


def topic_of(team: str | None) -> str:
    """The topic under which the reports of a scope are told, each month once."""
    return f"{TOPIC}everybody" if team is None else f"{TOPIC}team:{team}"


def notice_of(found: Report) -> Notice:
    """Return *found* as a notice; its key is the month, so that it is told once whoever restarts when."""
    whose = "" if found.team is None else f" of team {found.team}"
    below = found.everything.efficiency is not None and found.everything.efficiency < found.efficiency_target
    return Notice(
        cause=Cause.REPORT,
        topic=topic_of(found.team),
        key=found.month.name,
        title=f"GPU costs{whose} in {found.month.name}: USD {found.everything.total.usd:,.2f}",
        body="\n".join(_lines(found)),
        severity=Severity.WARNING if below or found.unpriced else Severity.INFO,
    )


def _lines(found: Report) -> Iterator[str]:
    if found.unpriced:
        yield f"Too low: nodes of {', '.join(found.unpriced)} have no price."
    if found.budget is not None and found.budget.ratio is not None:
        yield f"Budget: {found.budget.ratio:.0%} of USD {found.budget.monthly_usd:,.2f}."
    yield _efficiency(found)
    jobs, waits = found.jobs, found.waits
    waited = f"; the median wait was {span(waits.p50.total_seconds())}" if waits.p50 is not None else ""
    yield f"{some(jobs.completed, 'workload')} completed, {jobs.failed} failed{waited}."
    if found.team is None and found.teams:
        yield "Teams: " + ", ".join(_cost(part, "no label") for part in found.teams[:CONSUMERS]) + "."
    if found.workloads:
        yield "Most: " + ", ".join(_cost(part, "?") for part in found.workloads[:CONSUMERS]) + "."
    for cost in found.units:
        if cost.usd_per is not None:
            per = f"{cost.unit.per} {cost.unit.name}" if cost.unit.per != 1 else cost.unit.name
            yield f"Cost per {per}: USD {cost.usd_per:,.4f}."
    if found.right_sizes:
        saves = sum(size.saves_usd for size in found.right_sizes)
        yield f"{some(len(found.right_sizes), 'workload')} would fit something smaller, worth USD {saves:,.2f}."
    team = f" --team {found.team}" if found.team else ""
    yield f"All of it: gpu-autoscaler report --month {found.month.name}{team}, or /costs on the server."


def _efficiency(found: Report) -> str:
    whole = found.everything
    if whole.efficiency is None:
        return "No GPU-hours were paid."
    idle, nobodys = whole.of(PaidFor.IDLE), whole.of(PaidFor.UNALLOCATED)
    parts = [f"USD {idle.usd:,.2f} were held and did nothing"]
    if found.team is None:
        parts.append(f"USD {nobodys.usd:,.2f} were held by nobody")
    return f"Efficiency {whole.efficiency:.0%} (target {found.efficiency_target:.0%}): {', '.join(parts)}."


def _cost(part: Subtotal, unnamed: str) -> str:
    return f"{part.name or unnamed} USD {part.total.usd:,.2f}"
