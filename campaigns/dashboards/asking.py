"""Every query of the dashboards, asked of one Prometheus: errors, panels without data, and figures that are wrong."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from campaigns.dashboards.figures import FIGURES, Documents, Figure, Key
from tools.grafana.asking import Refused, Series, Span
from tools.grafana.files import DASHBOARDS, JSON, panels

Where = tuple[str, str, str]  # dashboard, panel, refId


class Server(Protocol):
    """What answers as Grafana's data source does."""

    def course(self, target: JSON, span: Span, step: float) -> list[Series]:
        """Return the series of *target*. Raises Refused."""

    def choices(self, variable: JSON) -> list[str]:
        """Return what *variable* offers. Raises Refused."""


@dataclass(slots=True)
class Findings:
    """The result of asking one server.

    *empty* maps the panels without data to the text that they show instead, "" where they have none. *compared*
    counts figures, and *differ* has a sentence for each that is not the API's.
    """

    asked: int = 0
    compared: int = 0
    errors: list[str] = field(default_factory=list)
    empty: dict[str, str] = field(default_factory=dict)
    differ: list[str] = field(default_factory=list)

    @property
    def mute(self) -> list[str]:
        """Panels that have no data and do not say why."""
        return [panel for panel, text in self.empty.items() if not text]

    @property
    def wrong(self) -> int:
        """How many findings are faults."""
        return len(self.errors) + len(self.mute) + len(self.differ)


def ask(server: Server, span: Span, documents: Mapping[str, Documents], *, at_rest: bool) -> Findings:
    """Ask *server* every query over *span*, and compare what it answers at the end with *documents*.

    These are the API's by cluster; the name is empty if the series of the server's only cluster have no such label.
    """
    findings = Findings()
    answers: dict[Where, Sequence[Series]] = {}
    for uid, dashboard in DASHBOARDS.items():
        for panel in panels(dashboard):
            places = [(uid, panel["title"], target["refId"]) for target in panel["targets"]]
            for place, target in zip(places, panel["targets"], strict=True):
                answers[place] = _answer(server, target, span, span.step(panel), findings, place)
            if not any(series.points for place in places for series in answers[place]):
                findings.empty[f"{uid}: {panel['title']}"] = panel["fieldConfig"]["defaults"].get("noValue", "")
        for note in dashboard["annotations"]["list"]:
            target = {"expr": note["expr"], "instant": False, "legendFormat": "", "refId": "annotation"}
            step = span.step({"interval": "1m"})
            _answer(server, target, span, step, findings, (uid, note["name"], "annotation"))
        for variable in (v for v in dashboard["templating"]["list"] if v["type"] == "query"):
            findings.asked += 1
            try:
                server.choices(variable)
            except Refused as error:
                findings.errors.append(f"{uid}, variable {variable['name']}: {error}")
    for figure in FIGURES:
        if at_rest or not figure.at_rest:
            findings.compared += 1
            answer = answers[f"gpu-autoscaler-{figure.dashboard}", figure.panel, figure.ref]
            findings.differ += differences(figure, answer, documents, span)
    return findings


def _answer(
    server: Server, target: JSON, span: Span, step: float, findings: Findings, place: Where
) -> Sequence[Series]:
    findings.asked += 1
    try:
        return server.course(target, span, step)
    except Refused as error:
        findings.errors.append(f"{', '.join(place)}: {error}")
        return []


def differences(figure: Figure, answer: Sequence[Series], documents: Mapping[str, Documents], span: Span) -> list[str]:
    """Return where *answer* at the end of *span* is not what *documents* say, which are the API's by cluster."""
    shown: dict[Key, float] = {}
    for series in answer:
        goes_on = series.points and series.points[-1][0] >= span.end - 5 * span.scrape
        if goes_on and series.last is not None:
            own = (series.labels.get("cluster", ""),) if figure.by_cluster else ()
            shown[*own, *(series.labels.get(label, "") for label in figure.labels)] = series.last
    expected: dict[Key, float] = {}
    for cluster, of_cluster in documents.items():
        for key, value in figure.read(of_cluster).items():
            whole = ((cluster,) if figure.by_cluster else ()) + key
            expected[whole] = expected.get(whole, 0) + value
    name = f"{figure.dashboard}: {figure.panel} {figure.ref}"
    if not figure.labels and expected and not shown:
        return [f"{name}: nothing instead of {expected}"]
    return [
        f"{name} {', '.join(key)}: {shown.get(key, 0):g} instead of {expected.get(key, 0):g}"
        for key in sorted({*shown, *expected})
        if not math.isclose(shown.get(key, 0), expected.get(key, 0), rel_tol=1e-6, abs_tol=figure.within)
    ]
