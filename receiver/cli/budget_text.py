"""What `gpu-autoscaler budget` prints: documents of the HTTP API as lines."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from receiver.core.model.text import span
from receiver.reports.screen_words import OLD, clock, moment, usd


def about_budgets(document: Mapping[str, Any], at: datetime | None, now: datetime) -> Iterator[str]:
    """Lines on every budget, from GET /api/v1/budget; *at* is when the step looked."""
    if not document.get("configured"):
        yield "no budget is configured: nothing bounds the spend but max_nodes and limits"
        return
    scopes = document.get("scopes")
    if not scopes:
        yield "no step has finished yet"
        return
    yield f"budgets of {document.get('month')}, USD"
    rows = [("BUDGET", "SPENT", "RESERVED", "OF", "STAGE", "MONTH'S END")]
    rows += [_row(scope) for scope in scopes]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            row[0].ljust(widths[0]),
            *(row[n].rjust(widths[n]) for n in (1, 2, 3)),
            row[4].ljust(widths[4]),
            row[5],
        ]
        yield "  ".join(cells).rstrip()
    since = next((moment(scope["forecast_since"]) for scope in scopes if scope.get("forecast_since")), None)
    if since is not None:
        yield f"at this rate: what runs now goes on running; trend: the pace since {clock(since, None)} goes on"
    for scope in scopes:
        yield from _notes(scope)
    yield from _kept_out(document.get("kept_out") or ())
    if at is not None and now - at > OLD:
        yield f"as of {at:%Y-%m-%d %H:%M:%S} UTC, {span((now - at).total_seconds())} ago: the loop may stand still"


def about_change(document: Mapping[str, Any]) -> Iterator[str]:
    """One line on what was set or taken back, from POST or DELETE /api/v1/budget."""
    whose = f"{document.get('scope')} {document.get('name')}".rstrip()
    amount = document.get("monthly_usd")
    said = f"USD {amount} in {document.get('month')}" if amount is not None else "what the configuration says again"
    yield f"budget of the {whose}: {said}; by {document.get('who')}: {document.get('why')}"


def _row(scope: Mapping[str, Any]) -> tuple[str, str, str, str, str, str]:
    return (
        str(scope.get("title")),
        "unknown" if scope.get("unknown") else usd(scope.get("spent_usd")),
        usd(scope.get("reserved_usd")),
        usd(scope.get("monthly_usd")),
        str(scope.get("stage")),
        f"{usd(scope.get('forecast_burn_usd'))} at this rate, {usd(scope.get('forecast_trend_usd'))} by the trend",
    )


def _notes(scope: Mapping[str, Any]) -> Iterator[str]:
    if scope.get("unknown"):
        yield f"{scope.get('title')}: nothing grows while its spend is unknown: {scope.get('unknown')}"
    if scope.get("unpriced"):
        yield f"{scope.get('title')}: nothing grows until these have a price: {', '.join(scope['unpriced'])}"
    if scope.get("uncounted"):
        yield f"{scope.get('title')}: not counted, because nobody gave a price: {', '.join(scope['uncounted'])}"
    change = scope.get("set_by")
    if change:
        yield f"{scope.get('title')}: set for this month by {change.get('who')}: {change.get('why')}"


def _kept_out(places: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Where the budget hold keeps new GPU work out now."""
    for kept in places:
        since = datetime.fromisoformat(str(kept.get("since"))).astimezone(UTC)
        yield f"new GPU work is kept out of {kept.get('place')} since {since:%Y-%m-%d %H:%M:%S} UTC"
