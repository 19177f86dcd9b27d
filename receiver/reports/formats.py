"""A report as text and as CSV: what `gpu-autoscaler report` prints."""

import csv
import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import zip_longest
from typing import Any

from receiver.core.model.text import some, span
from receiver.reports.screen import in_columns


def moment(stated: str) -> str:
    """A time of the document to the minute."""
    return f"{stated[:16].replace('T', ' ')} UTC"


def shorter(name: str, width: int) -> str:
    """*name* in *width* columns; longer ones lose their middle, where workloads of one owner are alike."""
    if len(name) <= width:
        return name
    head = (width - 1) // 2
    return f"{name[:head]}\N{HORIZONTAL ELLIPSIS}{name[len(name) - (width - 1 - head) :]}"


def usd(amount: Any, otherwise: str = "unknown") -> str:
    """USD with cents."""
    found = decimal(amount)
    return otherwise if found is None else f"${found:,.2f}"


def fine_usd(amount: Any) -> str:
    """USD with cents, or with four digits below 1."""
    found = decimal(amount)
    return "unknown" if found is None else f"${found:,.2f}" if found >= 1 else f"${found:.4f}"


def hours(number: float) -> str:
    """GPU-hours to a tenth."""
    return f"{number:,.1f}"


def count(number: float) -> str:
    """A count, below a thousand with its fraction."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:g}"


def percent(ratio: float | None) -> str:
    """A ratio as whole percent."""
    return "unknown" if ratio is None else f"{ratio * 100:.0f} %"


def decimal(amount: Any) -> Decimal | None:
    """An amount of the document, or None."""
    try:
        return None if amount is None else Decimal(str(amount))
    except InvalidOperation:
        return None


WIDTH = 80
NAME = 30  # columns of names
LABEL = 20
OF_BUDGETS = ("<22", ">11", ">11", ">11", ">5", ">4", ">10")
OF_PARTS = (f"<{NAME}", ">10", ">13", ">12", ">11")
OF_DAYS = ("<10", ">13", ">12")
Row = Mapping[str, Any]


def as_text(report: Row) -> Iterator[str]:
    """Yield the lines of *report*, of 80 columns at most."""
    for block in (_head, _money, _budgets, _work, _rows_of, _consumers, _units, _savings, _days):
        for line in block(report):
            yield from _folded(line)


def _head(report: Row) -> Iterator[str]:
    whose = "everybody" if report["team"] is None else f"team {report['team'] or '(no label)'}"
    state = "complete" if report["complete"] else f"so far, until {moment(report['until'])}"
    if report["over"] and not report["complete"]:
        state = "over, not complete"
    yield f"GPU report {report['month']} - {whose} - {state}"
    yield f"A calendar month of {report['timezone']}. Costs are list prices of started hours, before tax."
    if report["finalised"]:
        yield f"Finalised on {moment(report['finalised'])}: no later configuration changes it."
    if report["began"]:
        yield f"The ledger began on {moment(report['began'])}: earlier costs are missing, or one sum."
    if report["observed_from"] is None:
        yield "GPU usage of this month was not observed: the cost of nodes is unwatched."
    elif report["observed_from"] > max(report["from"], report["began"] or report["from"]):
        yield f"GPU usage is known from {moment(report['observed_from'])} on; earlier cost is unwatched."
    if report["unpriced"]:
        yield f"MISSING in every amount: nodes of {', '.join(report['unpriced'])}, which have no price."


def _money(report: Row) -> Iterator[str]:
    yield ""
    yield _fact("cost", f"{usd(report['usd'])} for {hours(report['gpu_hours'])} GPU-hours")
    yield _fact("budget", _budget(report))
    for name, words in PAID_FOR:
        amount = report["paid_for"][name]
        if amount["gpu_hours"] or decimal(amount["usd"]):
            yield _fact("  " + name, f"{usd(amount['usd']):>12}  {hours(amount['gpu_hours']):>9} h  {words}")
    if report["team"] is not None:
        nobodys = report["nobodys"]
        yield _fact("in no team's report", f"{usd(nobodys['usd'])} not held by any workload")
    yield _fact("efficiency", _efficiency(report))
    yield _fact("utilization", _measured(report, "utilization", "of the engines of held GPUs"))
    yield _fact("memory waste", _measured(report, "memory_waste", "of the memory of held GPUs"))
    part = report["unlabelled"]
    if report["team"] is None and part["gpu_hours"]:
        where = ", ".join(f"{p['name']} {usd(p['usd'])}" for p in part["namespaces"][:3])
        yield _fact("unlabelled", f"{usd(part['usd'])} has no team label: {where}")


PAID_FOR = (
    ("used", "held, not observed idle"),
    ("idle", "held, engine and memory idle"),
    ("unallocated", "not held by any workload"),
    ("unwatched", "usage not observed"),
    ("ahead", "rest of started hours"),
    ("seeded", "from before the ledger began"),
)


def _budget(report: Row) -> str:
    budget = report["budget"]
    if budget is None:
        return "none is set for this team" if report["team"] is not None else "none is set"
    said = f"{usd(budget['spent_usd'])} of {usd(budget['monthly_usd'])} ({percent(budget['ratio'])}): {budget['stage']}"
    before = decimal(budget.get("seeded_usd"))  # missing in reports closed by an older version
    said += f"; {usd(before)} of it from before the ledger began" if before else ""
    return f"{said}; set by {budget['set_by']}: {budget['why']}" if budget["set_by"] else said


def _efficiency(report: Row) -> str:
    found, target = report["efficiency"], report["efficiency_target"]
    if found is None:
        return f"unknown: no GPU-hours were paid (target {percent(target)})"
    idle = report["idle"]
    verdict = "meets" if found >= target else "below"
    return (
        f"{percent(found)}, {verdict} the target of {percent(target)}: "
        f"{usd(idle['usd'])} and {hours(idle['gpu_hours'])} h were idle"
    )


def _measured(report: Row, name: str, of: str) -> str:
    if report[name] is None:
        return "not measured"
    return f"{percent(report[name])} {of} ({percent(report['measured'])} measured)"


def _budgets(report: Row) -> Iterator[str]:
    if report["budgets"]:
        yield ""
        yield in_columns(("BUDGET", "ALLOWED", "SPENT", "LEFT", "USED", "LINE", "FORECAST"), OF_BUDGETS)
    for line in report["budgets"]:
        spent, left = usd(line["spent_usd"]), usd(line["left_usd"])
        used, stage = percent(line["ratio"]) if line["ratio"] is not None else "-", line["stage"] or "-"
        name = shorter(f"{line['scope']} {line['name']}".strip(), 22)
        forecast = usd(foreseen(line), "-")
        yield in_columns((name, usd(line["monthly_usd"]), spent, left, used, stage, forecast), OF_BUDGETS)
    if assumed(report["budgets"]):
        yield assumed(report["budgets"])
    if report["standstills"]:
        yield ""
        yield "No growth"
    for each in report["standstills"]:
        yield f"  {standstill(each)}"
    if report["standstills_total"] > len(report["standstills"]):
        yield f"  and {report['standstills_total'] - len(report['standstills'])} more"


def foreseen(line: Row) -> Any:
    """The higher of a budget's two forecasts, None without any."""
    known = [line[key] for key in ("forecast_burn_usd", "forecast_trend_usd") if line.get(key) is not None]
    return max(known, key=lambda amount: decimal(amount) or Decimal(0), default=None)


def assumed(budgets: Sequence[Row]) -> str:
    """The assumption of the forecasts of *budgets*, empty without any."""
    if all(foreseen(line) is None for line in budgets):
        return ""
    since = next((line["forecast_since"] for line in budgets if line.get("forecast_since")), None)
    other = f", or the pace since {moment(since)} continues" if since else ""
    return f"Forecast: {'the higher of two: ' if since else ''}what runs now keeps running{other}."


def standstill(each: Row) -> str:
    """The period in which a pool could not grow, and why."""
    end = f"to {moment(each['until'])}" if each["until"] else "until now"
    why = f"paused by {each['who']}: {each['why']}" if each["who"] else each["why"]
    return f"{moment(each['from'])} {end}, {each['pool']}: {why}"


def _work(report: Row) -> Iterator[str]:
    jobs, waits = report["jobs"], report["waits"]
    standing = ("completed", "failed", "running", "waiting", "gone", "gave_up")
    said = ", ".join(f"{jobs[name]} {name.replace('_', ' ')}" for name in standing if jobs[name])
    yield ""
    yield _fact("workloads", f"{jobs['seen']} seen" + (f": {said}" if said else ""))
    if waits["started"]:
        typical = f"p50 {span(waits['p50'])}, p95 {span(waits['p95'])}, longest {span(waits['longest'])}"
        yield _fact("queue wait", f"{typical} ({some(waits['started'], 'start')})")
    else:
        yield _fact("queue wait", "no workload started")
    if waits["still"]:
        yield _fact("", f"{waits['still']} still waiting, the longest for {span(waits['still_longest'])} so far")
    yield _fact("cost per workload", usd(report["per_workload_usd"], "no workload held a GPU"))
    yield _fact("cost per completed", usd(report["per_completed_usd"], "none completed"))


def _rows_of(report: Row) -> Iterator[str]:
    yield from _table("GPU KIND", report["kinds"], "before the ledger began")
    if report["team"] is None:
        yield from _table("TEAM (what it held)", report["teams"], "(no label)")


def _consumers(report: Row) -> Iterator[str]:
    more = report["consumers_total"] - len(report["consumers"])
    yield from _table("TOP CONSUMERS", report["consumers"], "?")
    if more > 0:
        yield f"and {some(more, 'more workload')}; --format csv has every line"


def _table(title: str, parts: Sequence[Row], unnamed: str) -> Iterator[str]:
    if not parts:
        return
    yield ""
    yield in_columns((title, "GPU-HOURS", "COST", "IDLE", "EFFICIENCY"), OF_PARTS)
    for part in parts:
        name = shorter(part["name"] or unnamed, NAME)
        efficiency = percent(part["efficiency"]) if part["efficiency"] is not None else "-"
        cells = (name, hours(part["gpu_hours"]), usd(part["usd"]), usd(part["idle_usd"]), efficiency)
        yield in_columns(cells, OF_PARTS)


def _units(report: Row) -> Iterator[str]:
    yield ""
    if not report["units"]:
        yield "Cost per unit of work: no units are configured"
    for unit in report["units"]:
        name = f"{unit['per']} {unit['name']}" if str(unit["per"]) != "1" else unit["name"]
        if unit["usd_per"] is None:
            yield f"Cost per {name}: unknown, {unit['why_not']}"
        else:
            yield f"Cost per {name}: {fine_usd(unit['usd_per'])} ({usd(unit['usd'])} for {count(unit['count'])})"


def _savings(report: Row) -> Iterator[str]:
    yield from _right_sizing(report)
    if report["team"] is not None:
        return
    yield ""
    yield "Committed capacity, judged by this month alone"
    for base in report["baselines"]:
        yield (
            f"  {base['size']}: {some(base['always'], 'node')} all the time, {base['peak']} at the peak, "
            f"at least one for {hours(base['any_hours'])} h"
        )
    if not report["commitments"]:
        yield "  no commitment prices are configured"
    for offer in report["commitments"]:
        yield "  " + _offer(offer)
    yield ""
    yield from _always_on(report)


def _days(report: Row) -> Iterator[str]:
    said = [in_columns((day["day"], usd(day["usd"]), usd(day["idle_usd"])), OF_DAYS) for day in report["days"]]
    if said:
        yield ""
        yield "    ".join([in_columns(("DAY", "COST", "IDLE"), OF_DAYS)] * min(len(said), 2))
    half = -(-len(said) // 2)
    for left, right in zip_longest(said[:half], said[half:], fillvalue=""):
        yield f"{left}    {right}".rstrip()


def _right_sizing(report: Row) -> Iterator[str]:
    yield ""
    if not report["right_sizes"]:
        yield "Right-sizing: no measured workload fits something smaller"
    else:
        found = some(report["right_sizes_total"], "workload")
        yield f"Right-sizing: {found} would fit something smaller and save {usd(report['right_sizes_usd'])}"
    for size in report["right_sizes"]:
        yield f"  {shorter(size['workload'], 44)}: {size['kind']} -> {size['to']}, saves {usd(size['saves_usd'])}"
        yield f"    ({evidence(size)})"
    for peaks in report["tight"]:
        said = f"{percent(peaks['peak_memory'])} of the memory of its {peaks['kind'] or 'GPU'}"
        yield f"  {shorter(peaks['workload'], 36)} used {said} and needs more"


def evidence(size: Row) -> str:
    """The peaks behind a proposal, and the hours of observation."""
    used = f", {size['gpus_used']} of {size['gpus']} GPUs in use" if size["gpus"] is not None else ""
    memory, engine = percent(size["peak_memory"]), percent(size["peak_engine"])
    return f"peaks: memory {memory}, engine {engine}{used}; observed for {hours(size['hours'])} h"


def _offer(offer: Row) -> str:
    what = f"{offer['size']} for {offer['term_months']} months at {usd(offer['usd_per_hour'])}/h"
    if offer["break_even"] is None:
        return f"{what}: no such node with a price in this month"
    pays = f"pays off from {percent(offer['break_even'])} of all hours"
    if not offer["recommended"]:
        return f"{what}: {pays}, which no node reached"
    return f"{what}: {pays}; commit to {offer['recommended']}, saves {usd(offer['saves_usd'])}"


def _always_on(report: Row) -> Iterator[str]:
    compared = report["always_on"]
    if compared is None or not compared["peaks"]:
        yield "Savings against always-on: nothing to compare"
        return
    peaks = ", ".join(f"{name} {count}" for name, count in compared["peaks"].items())
    yield (
        f"Savings against always-on: {usd(compared['saved_usd'])} ({percent(compared['saved_ratio'])}); each pool at "
        f"its peak all the time ({peaks}) would have cost {usd(compared['usd'])}"
    )
    for name, since in compared["since"].items():
        if since > report["from"]:
            yield f"  {name} since {moment(since)}: not in the ledger before"
    if compared["left_out"]:
        yield f"  without {', '.join(compared['left_out'])}: no price"


def _fact(label: str, said: str) -> str:
    return f"{label:<{LABEL}}{said}"


def _folded(line: str) -> Iterator[str]:
    """*line*, wrapped with its indentation if it is too long."""
    if len(line) <= WIDTH:
        yield line
        return
    indent = LABEL if len(line) > LABEL and line[LABEL - 1] == " " and line[:LABEL].strip() else 4
    yield from textwrap.wrap(
        line, WIDTH, subsequent_indent=" " * indent, drop_whitespace=True, replace_whitespace=False
    )


OF_LINES = (
    "month",
    "paid_for",
    "pool",
    "size",
    "kind",
    "namespace",
    "workload",
    "team",
    "project",
    "workload_class",
    "environment",
    "cost_center",
    "priority_class",
    "gpu_hours",
    "usd",
)
COLUMNS = ("record", *OF_LINES, "fact", "value")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # prefixes of formulas in spreadsheets


def as_csv(report: Mapping[str, Any]) -> str:
    """Return *report* as CSV (RFC 4180): its cost lines (record ``line``), then everything else (record ``fact``).

    Facts leave the columns of lines empty, so that those still add up. A fact is named by its path in the document,
    such as ``days.0.usd``. Text that a spreadsheet would take for a formula gets an apostrophe.
    """
    written = io.StringIO()
    table = csv.DictWriter(written, COLUMNS, lineterminator="\r\n", restval="")
    table.writeheader()
    for line in report["lines"]:
        said = {name: _cell(line.get(name, report["month"])) for name in OF_LINES}
        table.writerow({"record": "line", **said})
    for fact, value in _facts({name: value for name, value in report.items() if name != "lines"}, ""):
        table.writerow({"record": "fact", "month": report["month"], "fact": _cell(fact), "value": _cell(value)})
    return written.getvalue()


def _facts(value: Any, way: str) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of *value* with their paths; unknown values are empty."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _facts(inner, f"{way}.{name}" if way else str(name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _facts(inner, f"{way}.{number}")
    else:
        yield way, value


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
