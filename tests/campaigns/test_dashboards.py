"""What the campaign of the dashboards takes for a fault, with answers that are made up."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from campaigns.dashboards.asking import ask, differences
from campaigns.dashboards.figures import FIGURES, OWNERS, Documents, Figure
from tools.grafana.asking import Refused, Series, Span
from tools.grafana.files import DASHBOARDS, JSON, panels, queries

SPAN = Span(start=0, end=600, scrape=5)
NOTHING = {"configured": True, "monthly_usd": "10", "spent_usd": None}


def documents(ready: int = 0, name: str = "l40s") -> Documents:
    """What the API of a cluster says that has one pool."""
    pool: dict[str, Any] = dict.fromkeys(("required", "building", "busy", "idle", "unknown", "sick", "wanted"), 0)
    pool |= {"name": name, "ready": ready, "min_nodes": 0, "max_nodes": 3, "pending_gpus": 0, "held_gpus": 0}
    pool |= {"gpus_per_node": 8, "price_usd_per_hour": "1.29"}
    costs: dict[str, Any] = {by: {"lines": []} for by in (*OWNERS, "gpu_kind")}
    always_on = {"spent_usd": "0"}
    return Documents(pools=(pool,), waiting=(), budget=NOTHING, costs=costs, always_on=always_on)


def series(value: float, **labels: str) -> Series:
    """A series with one point."""
    return Series(name="", ref="A", labels=labels, points=[(600.0, value)])


def figure(panel: str, ref: str = "A") -> Figure:
    """The figure of a panel of Pools."""
    return next(f for f in FIGURES if (f.dashboard, f.panel, f.ref) == ("pools", panel, ref))


@dataclass
class FakeServer:
    """Answers every query with *answer* of it."""

    answer: Callable[[JSON], Sequence[Series]] = lambda _: [series(1.0)]
    variables: list[str] = field(default_factory=list)

    def course(self, target: JSON, span: Span, step: float) -> list[Series]:
        return list(self.answer(target))

    def choices(self, variable: JSON) -> list[str]:
        self.variables.append(variable["name"])
        return []


def test_every_query_annotation_and_variable_of_every_dashboard_is_asked() -> None:
    server = FakeServer()
    findings = ask(server, SPAN, {"": documents()}, at_rest=True)
    assert findings.asked == len(list(queries())) + len(server.variables)
    assert set(server.variables) == {"cluster", "pool", "namespace"}


def test_a_refused_query_is_an_error_and_the_others_are_asked() -> None:
    def answer(target: JSON) -> Sequence[Series]:
        if "gpu_autoscaler_mode" in target["expr"]:
            raise Refused("many-to-many")
        return [series(1.0)]

    findings = ask(FakeServer(answer), SPAN, {"": documents()}, at_rest=True)
    assert findings.errors == ["gpu-autoscaler-receiver, Mode, A: many-to-many"]
    assert findings.asked > 100


def test_a_panel_without_data_has_to_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    panel = next(p for p in panels(DASHBOARDS["gpu-autoscaler-receiver"]) if p["title"] == "Mode")
    monkeypatch.delitem(panel["fieldConfig"]["defaults"], "noValue")
    findings = ask(FakeServer(lambda _: []), SPAN, {"": documents()}, at_rest=True)
    assert findings.mute == ["gpu-autoscaler-receiver: Mode"]
    assert findings.empty["gpu-autoscaler-receiver: Sources"] == "No data from the receiver"


def test_what_is_a_minute_old_is_compared_only_at_rest() -> None:
    counts = [ask(FakeServer(), SPAN, {"": documents()}, at_rest=rest).compared for rest in (True, False)]
    assert counts == [len(FIGURES), sum(not f.at_rest for f in FIGURES)]


def test_counts_of_two_clusters_are_added_up() -> None:
    said = {"lon": documents(ready=2), "fra": documents(ready=3)}
    assert differences(figure("Ready"), [series(5)], said, SPAN) == []
    assert differences(figure("Ready"), [series(3)], said, SPAN) == ["pools: Ready A : 3 instead of 5"]


def test_a_pool_is_compared_with_that_of_its_own_cluster() -> None:
    said = {"lon": documents(ready=2), "fra": documents(ready=3)}
    right = [series(2, cluster="lon", pool_name="l40s"), series(3, cluster="fra", pool_name="l40s")]
    assert differences(figure("Pools now", "B"), right, said, SPAN) == []
    assert differences(figure("Pools now", "B"), [series(5, pool_name="l40s")], said, SPAN) == [
        "pools: Pools now B , l40s: 5 instead of 0",
        "pools: Pools now B fra, l40s: 0 instead of 3",
        "pools: Pools now B lon, l40s: 0 instead of 2",
    ]


def test_a_sum_that_is_not_shown_is_not_zero() -> None:
    assert differences(figure("Ready"), [], {"": documents()}, SPAN) == ["pools: Ready A: nothing instead of {(): 0.0}"]


def test_a_line_that_ended_before_is_not_compared() -> None:
    ended = Series(name="", ref="A", labels={"pool_name": "l40s"}, points=[(570.0, 7.0)])
    assert differences(figure("Desired and ready by pool"), [ended], {"": documents()}, SPAN) == []


def test_a_sum_that_the_api_does_not_know_is_not_shown() -> None:
    spent = next(f for f in FIGURES if f.panel == "Spent")
    assert differences(spent, [], {"": documents()}, SPAN) == []
    assert differences(spent, [series(4)], {"": documents()}, SPAN) == ["cost: Spent A : 4 instead of 0"]


def test_cents_do_not_count_where_the_api_gives_whole_ones() -> None:
    spent = next(f for f in FIGURES if f.panel == "Spent")
    said: Mapping[str, Documents] = {"": replace(documents(), budget={**NOTHING, "spent_usd": "4.00"})}
    assert differences(spent, [series(4.004)], said, SPAN) == []
    assert differences(spent, [series(4.01)], said, SPAN) != []


def test_every_figure_is_a_query_of_a_dashboard() -> None:
    known = {(q.dashboard, q.panel, q.field) for q in queries()}
    assert [f for f in FIGURES if (f"gpu-autoscaler-{f.dashboard}", f.panel, f.ref) not in known] == []
