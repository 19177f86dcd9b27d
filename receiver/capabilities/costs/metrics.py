"""This month's costs as metrics, with a bounded number of series."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from prometheus_client.core import Metric

from receiver.capabilities.costs.monthly import as_paid, costs_of
from receiver.core.model.policy import Policy
from receiver.core.money.accounting import EVERY
from receiver.core.money.attribution import By, Line, Part
from receiver.core.money.budget import month_of
from receiver.core.report.always_on import always_on
from receiver.core.report.lines import teller
from receiver.metrics.families import Families, Row, gauge, single
from receiver.ports import ReadStore

MOST_SERIES = 50  # of each family's teams, namespaces, workloads and so on have a series: the dearest ones
OTHERS = "(other)"  # no label value and no name in Kubernetes has parentheses
# Beside the team: what workloads held by another label or class, each a family of its own with one label.
FAMILIES = {
    By.PROJECT: ("cost_project_usd", "USD of what a project's workloads held this month."),
    By.WORKLOAD_CLASS: ("cost_workload_class_usd", "USD of what workloads of a class held this month."),
    By.ENVIRONMENT: ("cost_environment_usd", "USD of what an environment's workloads held this month."),
    By.COST_CENTER: ("cost_center_usd", "USD of what a cost center's workloads held this month."),
    By.PRIORITY_CLASS: ("cost_priority_class_usd", "USD of what workloads of a priority class held this month."),
}


class CostFamilies:
    """The families of `cost_families`, worked out once a minute: a month of thousands of nodes takes a second."""

    def __init__(self, store: ReadStore, policy: Policy) -> None:
        self._store, self._policy = store, policy
        self._told: tuple[datetime, tuple[Metric, ...]] | None = None

    def at(self, now: datetime) -> tuple[Metric, ...]:
        """Return what holds at *now*, up to a minute old. Raises TryLater when the store fails."""
        cached = self._told
        if cached is None or abs(now - cached[0]) >= EVERY:
            cached = self._told = (now, tuple(cost_families(self._store, self._policy, now)))
        return cached[1]


def cost_metrics(store: ReadStore, policy: Policy) -> Families:
    """Return what tells this month's costs at a scrape."""
    families = CostFamilies(store, policy)
    return lambda scrape: families.at(scrape.at)


def cost_families(store: ReadStore, policy: Policy, now: datetime) -> Iterator[Metric]:
    """Yield this month's costs so far, with series of the dearest, running or ended; the rest is ``(other)``."""
    month = month_of(now, policy.timezone)
    attributed = costs_of(store, policy, month, now)
    told_by = teller(attributed, policy)  # with the cents of the report
    kinds = [((line.part.value, line.key), line.usd) for line in told_by(By.GPU_KIND)]
    yield gauge("cost_usd", "This month's cost in USD, by what became of it.", kinds, "part", "gpu_kind")
    text = "From when on it is known who held GPUs this month, Unix time."
    yield single("cost_observed_from_timestamp_seconds", text, attributed.observed_from)
    teams = _bounded(told_by(By.TEAM))
    yield gauge("cost_team_usd", "USD of what a team's workloads held this month.", _usd(teams), "team")
    idle = [((key,), sum(line.idle_usd for line in lines)) for key, lines in teams.items()]
    yield gauge("cost_team_idle_usd", "USD of what a team held and did not use.", idle, "team")
    seconds = [
        ((key, state), sum(getattr(line, field) for line in lines))
        for key, lines in teams.items()
        for state, field in (("held", "seconds"), ("measured", "measured"), ("idle", "idle"))
    ]
    yield gauge("team_gpu_seconds", "GPU-seconds of a team's workloads this month.", seconds, "team", "state")
    for by, (name, text) in FAMILIES.items():
        yield gauge(name, text, _usd(_bounded(told_by(by))), by.value)
    spaces = _usd(_bounded(told_by(By.NAMESPACE)))
    text = "USD of what a namespace's workloads held this month."
    yield gauge("cost_namespace_usd", text, spaces, "workload_namespace")
    workloads = _usd(_bounded(told_by(By.WORKLOAD)))
    rows = [((name.partition("/")[0] if name != OTHERS else "", name), usd) for (name,), usd in workloads]
    text = "USD of what a workload held this month, running or ended."
    yield gauge("cost_workload_usd", text, rows, "workload_namespace", "workload")
    compared = always_on(store.node_lives(month.start), as_paid(policy, store), month, now, store.watched())
    text = "USD of this month had every pool been at its peak for as long as it was watched."
    yield single("always_on_usd", text, compared.usd)
    yield single("always_on_spent_usd", "USD that the same pools did cost in the same time.", compared.spent_usd)


def _bounded(lines: Iterable[Line]) -> dict[str, list[Line]]:
    series: dict[str, list[Line]] = {}
    for line in lines:
        if line.part is Part.HELD:
            full = len(series.keys() - {OTHERS}) >= MOST_SERIES
            series.setdefault(OTHERS if full else line.key, []).append(line)
    return series


def _usd(lines_by_key: Mapping[str, Sequence[Line]]) -> list[Row]:
    return [((key,), sum(line.usd for line in lines)) for key, lines in lines_by_key.items()]
