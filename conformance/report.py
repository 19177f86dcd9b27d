"""The results for people, as a table, and for machines, as JUnit XML."""

import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from conformance.scenario import Figures, Result

MARKS = {"passed": "ok", "failed": "FAILED", "error": "ERROR", "skipped": "skipped"}
AT_FAULT = {
    "failed": "the autoscaler: it did not do what was expected",
    "error": "the suite or the cluster: the scenario could not be played to its end, which says nothing about the"
    " autoscaler",
}
BUSY = 3  # times as long on a machine that does other work
RESULTS = Path(__file__).with_name("RESULTS.md")


def line(result: Result, place: str = "", *, traceback: bool = False) -> str:
    """Return a scenario's result as it is printed when it ends, *place* is ``3 of 30``."""
    head = f"{MARKS[result.verdict]:<8}{f'{place}  ' if place else ''}{result.name}  ({result.seconds:.0f} s)"
    lines = [head, f"        expected: {result.expected}", f"        seen: {result.seen}"]
    if result.verdict in AT_FAULT:
        lines.append(f"        at fault: {AT_FAULT[result.verdict]}")
    if result.figures:
        lines.append(f"        figures: {figures(result.figures)}")
    shown = f"{result.log}\n{result.traceback}" if traceback else result.log
    lines += [f"        | {each}" for each in shown.strip().splitlines()]
    return "\n".join(lines)


def estimate(names: Collection[str], recorded: str | None = None) -> str:
    """Return how long scenarios of these *names* take, by what RESULTS.md has *recorded* of the simulator's cluster."""
    text = RESULTS.read_text(encoding="utf-8") if recorded is None else recorded
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in text.splitlines() if row.startswith("| ")]
    seconds: dict[str, int] = {}
    for row in rows:
        if len(row) > 1 and row[-1].isdigit():
            seconds.setdefault(row[0], int(row[-1]))
    usual = sum(seconds.values()) / len(seconds) if seconds else 45
    total = sum(seconds.get(name, usual) for name in names)
    shown = f"{total:.0f} s" if total < 120 else f"{total / 60:.0f} min"
    count = "1 scenario" if len(names) == 1 else f"{len(names)} scenarios"
    return f"{count}, about {shown}; up to {BUSY} times that on a busy machine"


def table(results: Iterable[Result]) -> str:
    """Return all results as a table in Markdown."""
    rows = ["| scenario | expected | result | seen | figures | s |", "|---|---|---|---|---|---|"]
    for r in results:
        cells = (r.name, r.expected, MARKS[r.verdict], r.seen, figures(r.figures), f"{r.seconds:.0f}")
        rows.append(f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in cells)} |")
    return "\n".join(rows)


def summary(results: Sequence[Result]) -> str:
    """Return the verdicts in a line."""
    count = {verdict: sum(r.verdict == verdict for r in results) for verdict in MARKS}
    seconds = sum(r.seconds for r in results)
    said = ", ".join(f"{number} {verdict}" for verdict, number in count.items() if number or verdict == "passed")
    return f"{len(results)} scenarios: {said}, {seconds:.0f} s"


def figures(given: Figures) -> str:
    """Return figures in a line: durations and ratios with two digits at most."""
    shown = {name: round(value, 2) if isinstance(value, float) else value for name, value in given.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


def write_junit(results: Sequence[Result], path: Path) -> None:
    """Write *results* to *path* as JUnit XML; figures are properties of their test case. Raises OSError."""
    suite = ET.Element(
        "testsuite",
        name="conformance",
        tests=str(len(results)),
        failures=str(sum(r.verdict == "failed" for r in results)),
        errors=str(sum(r.verdict == "error" for r in results)),
        skipped=str(sum(r.verdict == "skipped" for r in results)),
        time=f"{sum(r.seconds for r in results):.3f}",
    )
    for r in results:
        case = ET.SubElement(suite, "testcase", classname="conformance", name=r.name, time=f"{r.seconds:.3f}")
        properties = ET.SubElement(case, "properties")
        for name, value in (("expected", r.expected), ("seen", r.seen), *r.figures.items()):
            ET.SubElement(properties, "property", name=name, value=_plain(str(value)))
        if r.verdict != "passed":
            kind = {"failed": "failure", "error": "error", "skipped": "skipped"}[r.verdict]
            ending = ET.SubElement(case, kind, message=_plain(r.seen))
            ending.text = _plain("\n".join(filter(None, (r.log, r.traceback)))) or None
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def _plain(text: str) -> str:
    """Return *text* without the control characters that XML cannot hold."""
    return "".join(c for c in text if c in "\n\t" or c >= " ")
