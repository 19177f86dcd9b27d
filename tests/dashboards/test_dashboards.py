"""What Grafana, its linter and whoever imports a file need of every dashboard."""

import re
from itertools import pairwise
from typing import Any

import pytest
import yaml

from tests.dashboards.files import DASHBOARDS, FOLDER, JSON, PATHS, panels
from tools.dashboards.__main__ import files, main
from tools.dashboards.links import RUNBOOKS

every_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
every_panel = pytest.mark.parametrize(
    "panel",
    [pytest.param(p, id=f"{uid}: {p['title']}") for uid, d in DASHBOARDS.items() for p in panels(d)],
)
UIDS = ("pools", "utilization", "cost", "queues", "receiver")
KINDS = {"timeseries", "stat", "gauge", "bargauge", "table", "status-history", "state-timeline", "heatmap"}
# Names of Grafana's own list of units (packages/grafana-data/src/valueFormats/categories.ts).
UNITS = {"short", "none", "percentunit", "s", "currencyUSD", "watt", "celsius"}
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def variables(dashboard: JSON) -> dict[str, JSON]:
    return {v["name"]: v for v in dashboard["templating"]["list"]}


def texts(value: Any) -> list[str]:
    """Every text in *value*, however deep."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [t for inner in value.values() for t in texts(inner)]
    return [t for inner in value for t in texts(inner)] if isinstance(value, list) else []


def test_the_committed_files_are_what_the_code_makes() -> None:
    assert {p.name: p.read_text(encoding="utf-8") for p in PATHS} == files(), "run make dashboards"


def test_drift_is_told_and_nothing_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: Any) -> None:
    monkeypatch.setattr("tools.dashboards.__main__.FOLDER", tmp_path)
    monkeypatch.setattr("sys.argv", ["dashboards", "--check"])
    assert main() == 1
    assert "gpu-autoscaler-cost.json is not what" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("sys.argv", ["dashboards"])
    assert main() == 0
    monkeypatch.setattr("sys.argv", ["dashboards", "--check"])
    assert main() == 0


def test_there_are_five_and_their_uids_do_not_change() -> None:
    assert set(DASHBOARDS) == {f"gpu-autoscaler-{name}" for name in UIDS}
    assert all(d["uid"] == name for name, d in DASHBOARDS.items())


@every_dashboard
def test_a_file_can_be_imported_and_provisioned_as_it_is(dashboard: JSON) -> None:
    assert dashboard["id"] is None
    assert dashboard["editable"] is False
    assert "__inputs" not in dashboard
    assert 36 <= dashboard["schemaVersion"] <= 41  # what Grafana 10 to 13 read without a newer migration
    assert not [t for t in texts(dashboard) if "DS_PROMETHEUS" in t]


@every_dashboard
def test_the_data_source_is_chosen_and_used_everywhere(dashboard: JSON) -> None:
    chosen = variables(dashboard)["datasource"]
    assert (chosen["type"], chosen["query"], chosen["label"]) == ("datasource", "prometheus", "Data source")
    places = [*panels(dashboard), *(t for p in panels(dashboard) for t in p["targets"])]
    places += dashboard["annotations"]["list"]
    places += [v for v in variables(dashboard).values() if v["type"] == "query"]
    assert all(place["datasource"] == DATASOURCE for place in places)


@every_dashboard
def test_every_choice_can_be_all_and_then_takes_series_without_the_label(dashboard: JSON) -> None:
    chosen = [v for v in variables(dashboard).values() if v["type"] == "query"]
    assert "cluster" in {v["name"] for v in chosen}
    for variable in chosen:
        assert (variable["includeAll"], variable["allValue"], variable["refresh"]) == (True, ".*", 2)
        assert variable["current"]["value"] == ["$__all"]


@every_dashboard
def test_every_variable_is_used_and_no_other(dashboard: JSON) -> None:
    used = {name for t in texts(dashboard) for name in re.findall(r"\$\{?([a-z]\w*)", t)}
    assert used == set(variables(dashboard))


@every_dashboard
def test_panels_have_numbers_of_their_own_and_do_not_overlap(dashboard: JSON) -> None:
    numbers = [p["id"] for p in dashboard["panels"]]
    assert len(numbers) == len(set(numbers))
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for cell in (
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ):
            assert cell not in taken, f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]


@every_dashboard
def test_a_row_of_panels_fills_the_width(dashboard: JSON) -> None:
    lines: dict[int, int] = {}
    for panel in dashboard["panels"]:
        lines[panel["gridPos"]["y"]] = lines.get(panel["gridPos"]["y"], 0) + panel["gridPos"]["w"]
    assert set(lines.values()) == {24}


@every_dashboard
def test_a_dashboard_leads_to_the_others_to_the_receiver_and_to_the_runbooks(dashboard: JSON) -> None:
    assert dashboard["tags"] == ["gpu-autoscaler"]
    others, *elsewhere = dashboard["links"]
    assert (others["type"], others["tags"], others["keepTime"]) == ("dashboards", ["gpu-autoscaler"], True)
    assert [link["url"].partition("}")[0] + "}" for link in elsewhere] == ["${receiver}", "${runbooks}"]


def test_panels_lead_to_runbooks_that_exist() -> None:
    titles = {p["title"] for d in DASHBOARDS.values() for p in panels(d)}
    assert set(RUNBOOKS) <= titles
    there = {path.stem for path in (FOLDER.parent / "docs" / "runbooks").glob("*.md")}
    linked = [link["url"] for d in DASHBOARDS.values() for p in panels(d) for link in p["links"]]
    named = [re.fullmatch(r"\$\{runbooks\}/(\w+)\.md", url) for url in linked]
    assert {match and match[1] for match in named} == {alert for alerts in RUNBOOKS.values() for alert in alerts}
    told = {alert for alerts in RUNBOOKS.values() for alert in alerts}
    assert told == there, "say in tools/dashboards/links.py which panel shows what a new alert is about"


@every_panel
def test_a_panel_says_what_it_shows(panel: JSON) -> None:
    assert panel["title"]
    assert len(panel["description"].split()) > 2
    assert panel["description"].endswith(".")


@every_panel
def test_a_panel_is_of_a_kind_that_still_exists_and_has_a_unit(panel: JSON) -> None:
    assert panel["type"] in KINDS
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS


@every_panel
def test_a_panel_asks_for_something_and_every_query_has_a_letter(panel: JSON) -> None:
    letters = [t["refId"] for t in panel["targets"]]
    assert letters
    assert letters == sorted(set(letters))


@every_panel
def test_thresholds_rise_from_a_first_colour(panel: JSON) -> None:
    steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [{"value": None}])
    assert steps[0]["value"] is None
    assert all(a["value"] < b["value"] for a, b in pairwise(steps[1:]))


@every_panel
def test_rates_are_over_an_interval_that_fits_the_scrape(panel: JSON) -> None:
    for target in panel["targets"]:
        if "increase(" in target["expr"] or "rate(" in target["expr"]:
            windows = re.findall(r"(?:increase|rate|delta)\([^\[]*\[([^\]]+)\]", target["expr"])
            assert windows
            assert set(windows) <= {"$__rate_interval", "1h"}


@every_dashboard
def test_annotations_do_not_rely_on_intervals_that_grafana_reckons_wrong_there(dashboard: JSON) -> None:
    notes = dashboard["annotations"]["list"]
    assert {n["step"] for n in notes} == {"60s"}
    assert not [n for n in notes if "$__" in n["expr"]]
    assert all("[120s]" in n["expr"] for n in notes if "changes(" in n["expr"])


@every_panel
def test_a_counter_is_never_shown_as_it_is_but_in_a_table_of_totals(panel: JSON) -> None:
    if panel["type"] != "table":
        for target in panel["targets"]:
            bare = re.sub(r"(?:increase|rate)\([^\[]*\[", "", target["expr"])
            assert not re.search(r"\w_total\b", bare)


def columns(panel: JSON) -> JSON:
    steps: list[JSON] = [t["options"] for t in panel["transformations"] if t["id"] == "organize"]
    renamed: JSON = steps[0]["renameByName"]
    return renamed


@pytest.mark.parametrize(
    "panel",
    [pytest.param(p, id=p["title"]) for d in DASHBOARDS.values() for p in panels(d) if p["type"] == "table"],
)
def test_a_table_shows_every_value_and_overrides_only_what_it_shows(panel: JSON) -> None:
    shown = columns(panel)
    if len(panel["targets"]) > 1:
        assert {f"Value #{t['refId']}" for t in panel["targets"]} <= set(shown)
    assert {o["matcher"]["options"] for o in panel["fieldConfig"]["overrides"]} <= set(shown.values())
    assert {s["displayName"] for s in panel["options"]["sortBy"]} <= set(shown.values())


def test_utilization_has_the_colours_that_were_agreed() -> None:
    found = {p["title"]: p for p in panels(DASHBOARDS["gpu-autoscaler-utilization"])}
    for title in ("Utilization by GPU", "Utilization by workload"):
        steps = found[title]["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert [(s["value"], s["color"]) for s in steps] == [
            (None, "red"),
            (0.4, "yellow"),
            (0.7, "green"),
            (0.90001, "yellow"),  # 90 % is green
            (0.95001, "red"),  # 95 % is yellow
        ]
    target = found["Fleet utilization against its target"]["fieldConfig"]["defaults"]
    assert [s["value"] for s in target["thresholds"]["steps"] if s["color"] != "transparent"] == [0.65]
    assert target["thresholds"]["steps"][-1]["value"] == 0.85
    assert target["custom"]["thresholdsStyle"] == {"mode": "area"}


def test_every_dashboard_is_in_a_config_map_that_the_sidecar_finds() -> None:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert kustomization["generatorOptions"]["labels"] == {"grafana_dashboard": "1"}
    listed = [name for made in kustomization["configMapGenerator"] for name in made["files"]]
    assert sorted(listed) == [p.name for p in PATHS]
    assert all(p.stat().st_size < 200_000 for p in PATHS)  # `kubectl apply` keeps a copy of at most 256 KiB


def test_the_page_about_dashboards_names_each_and_only_panels_that_exist() -> None:
    page = (FOLDER.parent / "docs" / "dashboards.md").read_text()
    assert {uid for uid in DASHBOARDS if f"`{uid}`" in page} == set(DASHBOARDS)
    titles = {p["title"] for d in DASHBOARDS.values() for p in d["panels"]}
    named = set(re.findall(r'"([A-Z][^"]{5,})"', page))
    assert named
    assert [n for n in named if not any(t.startswith(n) for t in titles)] == []
