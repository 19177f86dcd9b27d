"""A report as text and as CSV: what `gpu-autoscaler report` prints."""

import csv
import io
import textwrap
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from itertools import zip_longest
from typing import Any

from receiver.capabilities.costs.documents import ReportLine
from receiver.core.model.policy import Unallocated
from receiver.core.model.text import dollars, number, percent, some, span
from receiver.reports.screen import assumed, foreseen, in_columns, minute

WIDTH = 80
NAME = 30  # columns of names
LABEL = 20
OF_BUDGETS = ("<22", ">11", ">11", ">11", ">5", ">4", ">10")
OF_PARTS = (f"<{NAME}", ">10", ">13", ">12", ">11")
OF_TEAMS = ("<20", ">10", ">13", ">12", ">11", ">9")
OF_IDLE = (f"<{NAME}", ">11", ">12", ">11", ">12")
IDLE_LISTED = 10
OF_DAYS = ("<10", ">13", ">12")
POOLS_ESTIMATED = "estimates, each alone, without start-up and waits"
PAID_FOR = (
    ("used", "held, not observed idle"),
    ("idle", "held, engine and memory idle"),
    ("unallocated", "not held by any workload"),
    ("unwatched", "usage not observed"),
    ("ahead", "rest of started hours"),
    ("seeded", "from before the ledger began"),
)
UNALLOCATED = {
    Unallocated.SEPARATE: "in no team's total",
    Unallocated.SHARE: "shared among teams by what they held; not in their budgets",
}
Row = Mapping[str, Any]


def form_of(report: Row) -> Unallocated:
    """Return whose the unallocated cost is in *report*; one that an older version closed does not say so."""
    return Unallocated(report.get("unallocated", Unallocated.SEPARATE))


def as_text(report: Row) -> Iterator[str]:
    """Yield the lines of *report*, of 80 columns at most."""
    for block in (_head, _money, _budgets, _work, _rows, _idle, _units, _right_sizing, _savings, _days):
        for line in block(report):
            if len(line) <= WIDTH:
                yield line
                continue
            is_fact = line[LABEL - 1] == " " and line[:LABEL].strip()
            yield from textwrap.wrap(
                line, WIDTH, subsequent_indent=" " * (LABEL if is_fact else 4), replace_whitespace=False
            )


def shorter(name: str, width: int) -> str:
    """Return *name* in *width* columns; longer ones lose their middle, where workloads of one owner are alike."""
    if len(name) <= width:
        return name
    head = (width - 1) // 2
    return f"{name[:head]}\N{HORIZONTAL ELLIPSIS}{name[len(name) - (width - 1 - head) :]}"


def _fact(label: str, text: str) -> str:
    return f"{label:<{LABEL}}{text}"


def _head(report: Row) -> Iterator[str]:
    title = "all teams" if report["team"] is None else f"team {report['team'] or '(no label)'}"
    state = "complete" if report["complete"] else f"so far, until {minute(report['until'])}"
    if report["over"] and not report["complete"]:
        state = "over, not complete"
    cluster = f"{report['cluster_name']}: " if report.get("cluster_name") else ""
    yield f"{cluster}GPU report {report['month']} - {title} - {state}"
    yield f"A calendar month of {report['timezone']}. Costs are list prices of started hours, before tax."
    if report["finalised"]:
        yield f"Finalised on {minute(report['finalised'])}: no later configuration changes it."
    if report["began"]:
        yield f"The ledger began on {minute(report['began'])}: earlier costs are missing, or one sum."
    if report["observed_from"] is None:
        yield "GPU usage of this month was not observed: the cost of nodes is unwatched."
    elif report["observed_from"] > max(report["from"], report["began"] or report["from"]):
        yield f"GPU usage is known from {minute(report['observed_from'])} on; earlier cost is unwatched."
    if report["unpriced"]:
        yield f"MISSING in every amount: nodes of {', '.join(report['unpriced'])}, which have no price."


def _money(report: Row) -> Iterator[str]:
    yield ""
    yield _fact("cost", f"{dollars(report['usd'])} for {report['gpu_hours']:,.1f} GPU-hours")
    yield _fact("budget", _budget(report))
    for name, words in PAID_FOR:
        amount = report["paid_for"][name]
        if amount["gpu_hours"] or number(amount["usd"]):
            yield _fact("  " + name, f"{dollars(amount['usd']):>12}  {amount['gpu_hours']:>9,.1f} h  {words}")
    yield _fact("unallocated cost", UNALLOCATED[form_of(report)])
    if report["team"] is not None:
        yield _fact("in no team's report", f"{dollars(report['nobodys']['usd'])} not held by any workload")
    efficiency_ratio, target, idle = report["efficiency"], percent(report["efficiency_target"]), report["idle"]
    if efficiency_ratio is None:
        efficiency = f"unknown: no GPU-hours were paid (target {target})"
    else:
        verdict = "meets" if efficiency_ratio >= report["efficiency_target"] else "below"
        efficiency = f"{percent(efficiency_ratio)}, {verdict} the target of {target}: "
        efficiency += f"{dollars(idle['usd'])} and {idle['gpu_hours']:,.1f} h were unused"
    yield _fact("efficiency", efficiency)
    measured = f"of held GPUs ({percent(report['measured'])} measured)"
    for label, name, of in (("utilization", "utilization", "engines"), ("memory waste", "memory_waste", "memory")):
        ratio = report[name]
        yield _fact(label, "not measured" if ratio is None else f"{percent(ratio)} of the {of} {measured}")
    part = report["unlabelled"]
    if report["team"] is None and part["gpu_hours"]:
        namespaces = ", ".join(f"{p['name']} {dollars(p['usd'])}" for p in part["namespaces"][:3])
        yield _fact("unlabelled", f"{dollars(part['usd'])} has no team label: {namespaces}")


def _budget(report: Row) -> str:
    budget = report["budget"]
    if budget is None:
        return "none is set for this team" if report["team"] is not None else "none is set"
    of = f"{dollars(budget['spent_usd'])} of {dollars(budget['monthly_usd'])}"
    sentence = f"{of} ({percent(budget['ratio'])}): {budget['stage']}"
    if number(budget.get("seeded_usd")):  # missing in reports closed by an older version
        sentence += f"; {dollars(budget['seeded_usd'])} of it from before the ledger began"
    return f"{sentence}; set by {budget['set_by']}: {budget['why']}" if budget["set_by"] else sentence


def _budgets(report: Row) -> Iterator[str]:
    if report["budgets"]:
        yield ""
        yield in_columns(("BUDGET", "ALLOWED", "SPENT", "LEFT", "USED", "LINE", "FORECAST"), OF_BUDGETS)
    for line in report["budgets"]:
        amounts = (dollars(line[key]) for key in ("monthly_usd", "spent_usd", "left_usd"))
        name = shorter(f"{line['scope']} {line['name']}".strip(), 22)
        cells = (name, *amounts, percent(line["ratio"], "-"), line["stage"] or "-", dollars(foreseen(line), "-"))
        yield in_columns(cells, OF_BUDGETS)
    if assumed(report["budgets"]):
        yield assumed(report["budgets"])
    if report["standstills"]:
        yield ""
        yield "No growth"
    for period in report["standstills"]:
        yield f"  {standstill(period)}"
    if report["standstills_total"] > len(report["standstills"]):
        yield f"  and {report['standstills_total'] - len(report['standstills'])} more"


def standstill(period: Row) -> str:
    """Return the period in which a pool could not grow, and why."""
    end = f"to {minute(period['until'])}" if period["until"] else "until now"
    cause = f"paused by {period['who']}: {period['why']}" if period["who"] else period["why"]
    return f"{minute(period['from'])} {end}, {period['pool']}: {cause}"


def _work(report: Row) -> Iterator[str]:
    jobs, waits = report["jobs"], report["waits"]
    standing = ("completed", "failed", "running", "waiting", "gone", "gave_up")
    standings = ", ".join(f"{jobs[name]} {name.replace('_', ' ')}" for name in standing if jobs[name])
    yield ""
    yield _fact("workloads", f"{jobs['seen']} seen" + (f": {standings}" if standings else ""))
    typical = "no workload started"
    if waits["started"]:
        typical = f"p50 {span(waits['p50'])}, p95 {span(waits['p95'])}, longest {span(waits['longest'])}"
        typical += f" ({some(waits['started'], 'start')})"
    yield _fact("queue wait", typical)
    if waits["still"]:
        yield _fact("", f"{waits['still']} still waiting, the longest for {span(waits['still_longest'])} so far")
    yield _fact("cost per workload", dollars(report["per_workload_usd"], "no workload held a GPU"))
    yield _fact("cost per completed", dollars(report["per_completed_usd"], "none completed"))


def _rows(report: Row) -> Iterator[str]:
    teams, is_shared = report["teams"] if report["team"] is None else (), form_of(report) is Unallocated.SHARE
    for title, parts, unnamed, columns in (
        ("GPU KIND", report["kinds"], "before the ledger began", OF_PARTS),
        ("TEAM (held + shared)" if is_shared else "TEAM (what it held)", teams, "(no label)", OF_TEAMS),
        ("TOP CONSUMERS", report["consumers"], "?", OF_PARTS),
    ):
        if parts:
            yield ""
            yield in_columns((title, "GPU-HOURS", "COST", "UNUSED", "EFFICIENCY", "AN HOUR")[: len(columns)], columns)
        for part in parts:
            name = shorter(part["name"] or unnamed, int(columns[0][1:]))
            amounts, mean = (dollars(part["usd"]), dollars(part["idle_usd"])), part.get("burn_usd_per_hour")
            ratio = percent(part["efficiency"], "-")
            cells = (name, f"{part['gpu_hours']:,.1f}", *amounts, ratio, dollars(mean, "-"))
            yield in_columns(cells[: len(columns)], columns)
    hidden_count = report["consumers_total"] - len(report["consumers"])
    if hidden_count > 0:
        yield f"and {some(hidden_count, 'more workload')}; --format csv has every line"


def _idle(report: Row) -> Iterator[str]:
    idle = report.get("idle_workloads")  # missing in reports closed by an older version
    if idle is None:
        return
    yield ""
    held, saved = (f"{dollars(idle[name]['usd'])} ({idle[name]['gpu_hours']:,.1f} h)" for name in ("held", "saved"))
    yield f"Idle workloads: {held} held, {saved} saved (estimate)"
    yield in_columns(("NAMESPACE", "HELD HOURS", "HELD", "SAVED HOURS", "SAVED"), OF_IDLE)
    for space in idle["namespaces"]:
        pairs = [(f"{space[of]['gpu_hours']:,.1f}", dollars(space[of]["usd"])) for of in ("held", "saved")]
        yield in_columns((shorter(space["name"], NAME), *pairs[0], *pairs[1]), OF_IDLE)
    for row in idle["workloads"][:IDLE_LISTED]:
        became = "scaled to zero, saved" if row["ended"] else "held"
        yield f"  {row['workload']}: {became} {dollars(row['usd'])} ({row['gpu_hours']:,.1f} h)"
    if (more := idle["workloads_total"] - IDLE_LISTED) > 0:
        yield f"  and {some(more, 'more workload')}"


def _units(report: Row) -> Iterator[str]:
    if report["units"]:
        yield ""
    for unit in report["units"]:
        name = f"{unit['per']} {unit['name']}" if str(unit["per"]) != "1" else unit["name"]
        if unit["usd_per"] is None:
            yield f"Cost per {name}: unknown, {unit['why_not']}"
        else:
            count = f"{unit['count']:,.0f}" if unit["count"] >= 1000 else f"{unit['count']:g}"
            yield f"Cost per {name}: {dollars(unit['usd_per'])} ({dollars(unit['usd'])} for {count})"


def _right_sizing(report: Row) -> Iterator[str]:
    if report["right_sizes"] or report["tight"]:
        yield ""
    if report["right_sizes"]:
        workloads = some(report["right_sizes_total"], "workload")
        yield f"Right-sizing: {workloads} would fit something smaller and save {dollars(report['right_sizes_usd'])}"
    for size in report["right_sizes"]:
        yield f"  {shorter(size['workload'], 44)}: {size['kind']} -> {size['to']}, saves {dollars(size['saves_usd'])}"
        used = f", {size['gpus_used']} of {size['gpus']} GPUs in use" if size["gpus"] is not None else ""
        peaks = f"memory {percent(size['peak_memory'])}, engine {percent(size['peak_engine'])}{used}"
        yield f"    (peaks: {peaks}; observed for {size['hours']:,.1f} h)"
    for full in report["tight"]:
        usage = f"{percent(full['peak_memory'])} of the memory of its {full['kind'] or 'GPU'}"
        yield f"  {shorter(full['workload'], 36)} used {usage} and needs more"


def _savings(report: Row) -> Iterator[str]:
    if report["team"] is not None:
        return
    changes = report.get("pool_changes", ())  # missing in reports closed by an older version
    if changes:
        yield ""
        yield f"Pools to add or merge: {POOLS_ESTIMATED}"
    yield from (f"  {change['sentence']}" for change in changes)
    if report["baselines"] or report["commitments"] or report.get("committed"):
        yield ""
        yield "Committed capacity, judged by this month alone"
    for base in report["baselines"]:
        always = f"{some(base['always'], 'node')} all the time, {base['peak']} at the peak"
        yield f"  {base['size']}: {always}, at least one for {base['any_hours']:,.1f} h"
    for held in report.get("committed", ()):
        price, until = dollars(held["usd_per_hour"]), held["until"][:10]
        yield f"  {held['pool']} has {held['nodes']} until {until} at {price}/h: {verdict_on(held)}"
    for offer in report["commitments"]:
        verdict = "no such node with a price in this month"
        if offer["break_even"] is not None:
            commit = f"; commit to {offer['recommended']}, saves {dollars(offer['saves_usd'])}"
            advice = commit if offer["recommended"] else ", which no node reached"
            verdict = f"pays off from {percent(offer['break_even'])} of all hours{advice}"
        yield f"  {offer['size']} for {offer['term_months']} months at {dollars(offer['usd_per_hour'])}/h: {verdict}"
    compared = report["always_on"]
    if compared is None or not compared["peaks"]:
        return
    yield ""
    peaks = ", ".join(f"{name} {count}" for name, count in compared["peaks"].items())
    saved = f"{dollars(compared['saved_usd'])} ({percent(compared['saved_ratio'])})"
    peak = f"each pool at its peak all the time ({peaks})"
    yield f"Savings against always-on: {saved}; {peak} would have cost {dollars(compared['usd'])}"
    for name, since in compared["since"].items():
        if since > report["from"]:
            yield f"  {name} since {minute(since)}: not in the ledger before"
    if compared["left_out"]:
        yield f"  without {', '.join(compared['left_out'])}: no price"


def verdict_on(committed: Row) -> str:
    """What the month says of a pool's committed nodes: whether one more, or one fewer, would have paid."""
    if Decimal(committed["more_saves_usd"]) > 0:
        return f"one more would have saved {dollars(committed['more_saves_usd'])}"
    if Decimal(committed["fewer_saves_usd"]) > 0:
        return f"one fewer would have saved {dollars(committed['fewer_saves_usd'])}"
    return "neither one more nor one fewer would have paid"


def _days(report: Row) -> Iterator[str]:
    days = [
        in_columns((day["day"], dollars(day["usd"]), dollars(day["idle_usd"])), OF_DAYS)
        for day in report["days"]
        if number(day["usd"]) or number(day["idle_usd"])
    ]
    if days:
        yield ""
        yield "    ".join([in_columns(("DAY", "COST", "UNUSED"), OF_DAYS)] * min(len(days), 2))
    half = -(-len(days) // 2)
    for left, right in zip_longest(days[:half], days[half:], fillvalue=""):
        yield f"{left}    {right}".rstrip()


COLUMNS = ("record", "month", *ReportLine.model_fields, "fact", "value")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # prefixes of formulas in spreadsheets


def as_csv(report: Row) -> str:
    """Return *report* as CSV (RFC 4180): its cost lines (record ``line``), then everything else (record ``fact``).

    Facts leave the columns of lines empty, so that those still add up. A fact is named by its path in the document,
    such as ``days.0.usd``. Text that a spreadsheet would take for a formula gets an apostrophe.
    """
    written = io.StringIO()
    table = csv.DictWriter(written, COLUMNS, lineterminator="\r\n", restval="")
    table.writeheader()
    rows = [
        {"record": "line", **{name: line.get(name) for name in ReportLine.model_fields}} for line in report["lines"]
    ]
    facts = _facts({name: value for name, value in report.items() if name != "lines"})
    for row in rows:
        table.writerow(without_formulas({**row, "month": report["month"]}, ("usd",)))
    for path, value in facts:
        amounts = ("value",) if "usd" in str(path[-1]).split("_") else ()
        row = {"record": "fact", "month": report["month"], "fact": ".".join(map(str, path)), "value": value}
        table.writerow(without_formulas(row, amounts))
    return written.getvalue()


def without_formulas(row: Row, amounts: Collection[str]) -> dict[str, Any]:
    """Return *row* with an apostrophe before each text that a spreadsheet would take for a formula, except in the
    columns of *amounts*: they are texts as well, and one below zero stays a number."""
    return {
        name: f"'{value}" if name not in amounts and isinstance(value, str) and value.startswith(FORMULA) else value
        for name, value in row.items()
    }


def _facts(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the leaves of *value* with their paths; unknown values are empty."""
    if not isinstance(value, Mapping | list):
        yield path, value
        return
    for name, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from _facts(inner, (*path, name))
