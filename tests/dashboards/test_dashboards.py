"""What Grafana, its linter and whoever imports a file need of every dashboard."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import yaml

from tests.lint import none_of
from tools.dashboards.links import RUNBOOKS
from tools.grafana.files import DASHBOARDS, FOLDER, JSON, PATHS, panels, unfolded

PANELS = {f"{uid}: {p['title']}": p for uid, d in DASHBOARDS.items() for p in panels(d)}
UIDS = ("pools", "utilization", "cost", "queues", "receiver")
# Names of Grafana's own list of units (packages/grafana-data/src/valueFormats/categories.ts).
UNITS = {"short", "none", "percentunit", "s", "currencyUSD", "watt", "celsius", "Bps"}
SCREEN = 21  # rows of 38 pixels, with the first heading: a screen of 1080 pixels without Grafana's own bars
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


def test_there_are_five_and_their_uids_do_not_change() -> None:
    assert set(DASHBOARDS) == {f"gpu-autoscaler-{name}" for name in UIDS}
    assert all(d["uid"] == name for name, d in DASHBOARDS.items())


def test_a_file_can_be_imported_provisioned_and_edited_as_it_is() -> None:
    none_of(
        name
        for name, d in DASHBOARDS.items()
        if d["id"] is not None
        or d["editable"] is not True
        or d["__inputs"]  # an import would ask, and provisioning would leave ${DS_...} as it is
        or "gnetId" in d
        or not 36 <= d["schemaVersion"] <= 41  # what Grafana 10 to 13 read without a newer migration
        or any("${DS_" in text for text in texts(d))
    )


def test_a_dashboard_has_what_grafana_com_asks_for() -> None:
    none_of(
        f"{name}: {sorted(listed ^ wanted)}"
        for name, d in DASHBOARDS.items()
        for listed in [{(one["type"], one["id"]) for one in d["__requires"]}]
        for wanted in [
            {("grafana", "grafana"), ("datasource", "prometheus"), *(("panel", p["type"]) for p in panels(d))}
        ]
        if listed != wanted or d["__elements"] or not d["description"] or not {"gpu", "kubernetes"} <= set(d["tags"])
    )


def test_addresses_come_from_the_variable_alone() -> None:
    hosts = re.compile(r"https?://|\.example|127\.0\.0\.1")

    none_of(
        f"{name}: {text}"
        for name, d in DASHBOARDS.items()
        for text in texts({**d, "templating": [v for v in variables(d).values() if v["type"] != "textbox"]})
        if hosts.search(text)
    )
    assert {v["query"] for d in DASHBOARDS.values() for v in variables(d).values() if v["type"] == "textbox"} == {
        "http://127.0.0.1:8080"
    }


def test_the_data_source_is_chosen_and_used_everywhere() -> None:
    chosen = {name: variables(dashboard)["datasource"] for name, dashboard in DASHBOARDS.items()}
    wanted = ("datasource", "prometheus", "Data source")

    none_of(name for name, v in chosen.items() if (v["type"], v["query"], v["label"]) != wanted)
    none_of(
        f"{name}: {place.get('title') or place.get('name') or place}"
        for name, d in DASHBOARDS.items()
        for place in asking(d)
        if place["datasource"] != DATASOURCE
    )


def asking(dashboard: JSON) -> Iterator[JSON]:
    """Everything of a dashboard that names a data source."""
    yield from panels(dashboard)
    yield from (target for panel in panels(dashboard) for target in panel["targets"])
    yield from dashboard["annotations"]["list"]
    yield from (v for v in variables(dashboard).values() if v["type"] == "query")


def test_every_choice_can_be_all_and_then_takes_series_without_the_label() -> None:
    chosen = [(n, v) for n, d in DASHBOARDS.items() for v in variables(d).values() if v["type"] == "query"]

    none_of(set(DASHBOARDS) - {name for name, variable in chosen if variable["name"] == "cluster"})
    none_of(
        f"{name}: {v['name']}"
        for name, v in chosen
        if (v["includeAll"], v["allValue"], v["refresh"]) != (True, ".*", 2) or v["current"]["value"] != ["$__all"]
    )


def test_every_variable_is_used_and_no_other() -> None:
    used = {n: {w for t in texts(d) for w in re.findall(r"\$\{?([a-z]\w*)", t)} for n, d in DASHBOARDS.items()}

    none_of(f"{name}: {found}" for name, d in DASHBOARDS.items() for found in sorted(used[name] ^ set(variables(d))))


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    none_of(f"{name}: {wrong}" for name, dashboard in DASHBOARDS.items() for wrong in overlaps(unfolded(dashboard)))


def overlaps(placed: list[JSON]) -> Iterator[str]:
    """Yield which panels share a number, leave the grid of 24 columns, or lie on another one."""
    taken: dict[tuple[int, int], str] = {}
    numbers: set[int] = set()
    for panel in placed:
        title, place = panel["title"], panel["gridPos"]
        if panel["id"] in numbers or place["x"] + place["w"] > 24:
            yield f"{title}: its number {panel['id']} or its place"
        numbers.add(panel["id"])
        cells = [(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])]
        yield from {f"{title} lies on {taken[cell]}" for cell in cells if cell in taken}
        taken |= dict.fromkeys(cells, title)


def test_the_first_screen_answers_and_every_other_row_is_folded() -> None:
    for name, dashboard in DASHBOARDS.items():
        first, *others = (panel for panel in dashboard["panels"] if panel["type"] == "row")
        assert (first["collapsed"], first["panels"]) == (False, []), name
        assert others, name
        assert all(row["collapsed"] and row["panels"] for row in others), name
        open_panels = [panel["gridPos"] for panel in dashboard["panels"] if panel["type"] != "row"]
        assert max(place["y"] + place["h"] for place in open_panels) <= SCREEN, name


def test_a_folded_row_holds_its_panels_where_they_are_once_it_is_opened() -> None:
    none_of(
        f"{name}: {row['title']}"
        for name, dashboard in DASHBOARDS.items()
        for row in dashboard["panels"]
        if row["type"] == "row" and row["panels"]
        if row["panels"][0]["gridPos"]["y"] != row["gridPos"]["y"] + 1
    )


def test_a_row_of_panels_fills_the_width() -> None:
    widths: Counter[tuple[str, int]] = Counter()
    for name, dashboard in DASHBOARDS.items():
        for panel in unfolded(dashboard):
            widths[name, panel["gridPos"]["y"]] += panel["gridPos"]["w"]

    none_of(f"{name}: the row at {y} is {width} wide" for (name, y), width in widths.items() if width != 24)


def test_a_dashboard_leads_to_the_others_to_the_receiver_and_to_the_documentation() -> None:
    none_of(
        f"{name}: {[link['url'] for link in d['links']]}"
        for name, d in DASHBOARDS.items()
        for others, elsewhere in [(d["links"][:-2], d["links"][-2:])]
        if {link["url"] for link in others} != {f"/d/{uid}" for uid in DASHBOARDS if uid != name}
        or not all(link["keepTime"] and link["includeVars"] for link in others)
        or [link["url"].partition("}")[0] for link in elsewhere] != ["${autoscaler_url"] * 2
        or elsewhere[-1]["url"] != "${autoscaler_url}/docs"
    )


def test_pools_are_shown_by_name_and_chosen_by_id() -> None:
    shown = [text for p in PANELS.values() for text in (*(t["legendFormat"] for t in p["targets"]), *columns(p))]

    none_of(text for text in shown if text == "pool" or "{{pool}}" in text)
    none_of(
        name
        for name, d in DASHBOARDS.items()
        if variables(d)["pool"]["regex"] != '/pool="(?<value>[^"]+)".*pool_name="(?<text>[^"]+)"/'
    )


def test_a_pattern_of_an_override_is_a_regular_expression_and_no_whole_name() -> None:
    none_of(
        f"{name}: {override['matcher']['options']}"
        for name, panel in PANELS.items()
        for override in panel["fieldConfig"]["overrides"]
        if override["matcher"]["id"] == "byRegexp" and not re.fullmatch("/.+/", override["matcher"]["options"])
    )


def test_panels_lead_to_runbooks_that_exist() -> None:
    titles = {p["title"] for d in DASHBOARDS.values() for p in panels(d)}
    assert set(RUNBOOKS) <= titles
    there = {path.stem for path in (FOLDER.parent / "docs" / "runbooks").glob("*.md")}
    linked = [link["url"] for d in DASHBOARDS.values() for p in panels(d) for link in p["links"]]
    named = [re.fullmatch(r"\$\{autoscaler_url\}/docs/runbooks/(\w+)\.md", url) for url in linked]
    assert {match and match[1] for match in named} == {alert for alerts in RUNBOOKS.values() for alert in alerts}
    told = {alert for alerts in RUNBOOKS.values() for alert in alerts}
    assert told == there, "say in tools/dashboards/links.py which panel shows what a new alert is about"


def test_a_panel_says_what_it_shows_and_what_to_look_for() -> None:
    none_of(
        f"{name}: {panel['description']}"
        for name, panel in PANELS.items()
        if not panel["title"] or not re.fullmatch(r"[A-Za-z0-9].+[.:] .+\.", panel["description"])
    )


def test_a_panel_without_data_says_what_is_missing_or_what_there_is_none_of() -> None:
    told = {name: panel["fieldConfig"]["defaults"].get("noValue", "") for name, panel in PANELS.items()}

    none_of(f"{name}: {text!r}" for name, text in told.items() if not re.fullmatch("[A-Z].{5,45}[A-Za-z]", text))


def test_a_cell_without_a_value_does_not_repeat_what_an_empty_table_says() -> None:
    tables = {name: p for name, p in PANELS.items() if p["type"] == "table" and len(p["targets"]) > 1}
    dash = {"matcher": {"id": "byRegexp", "options": "/.*/"}, "properties": [{"id": "noValue", "value": "–"}]}

    none_of(name for name, panel in tables.items() if panel["fieldConfig"]["overrides"][0] != dash)


def test_lines_of_several_pools_have_colours_of_their_own() -> None:
    none_of(
        f"{name}: {override['matcher']['options']}"
        for name, panel in PANELS.items()
        for override in panel["fieldConfig"]["overrides"]
        if any(p["id"] == "color" for p in override["properties"])
        for target in panel["targets"]
        if "{{" in target["legendFormat"] and fits(override["matcher"], target["legendFormat"])
    )


def fits(matcher: JSON, legend: str) -> bool:
    """True when the series of *legend* for two pools both match."""
    names = [re.sub(r"\{\{pool_name\}\}", pool, legend) for pool in ("l40s", "h100")]
    if matcher["id"] == "byName":
        return False
    return all(re.search(matcher["options"].strip("/"), name) for name in names) and names[0] != names[1]


def test_no_two_panels_of_a_dashboard_share_a_title() -> None:
    titles = Counter(f"{name}: {panel['title']}" for name, d in DASHBOARDS.items() for panel in panels(d))

    none_of(title for title, count in titles.items() if count > 1)


def test_a_panel_has_a_unit_that_exists() -> None:
    units = {name: panel["fieldConfig"]["defaults"]["unit"] for name, panel in PANELS.items()}

    none_of(f"{name}: {unit}" for name, unit in units.items() if unit not in UNITS)


def test_a_panel_asks_for_something_and_every_query_has_a_letter() -> None:
    letters = {name: [t["refId"] for t in panel["targets"]] for name, panel in PANELS.items()}

    none_of(f"{name}: {found}" for name, found in letters.items() if not found or found != sorted(set(found)))


def test_thresholds_rise_from_a_first_colour() -> None:
    defaults = ((name, panel["fieldConfig"]["defaults"]) for name, panel in PANELS.items())
    values = {name: [s["value"] for s in has["thresholds"]["steps"]] for name, has in defaults if "thresholds" in has}

    assert values
    none_of(
        f"{name}: {found}"
        for name, found in values.items()
        if found[0] is not None or not all(a < b for a, b in pairwise(found[1:]))
    )


def test_rates_are_over_an_interval_that_fits_the_scrape() -> None:
    fitting = {"$__rate_interval", "1h"}

    none_of(
        f"{name}: {target['expr']}"
        for name, panel in PANELS.items()
        for target in panel["targets"]
        if re.search(r"\w_(?:total|bucket)\b", target["expr"]) and panel["type"] != "table"
        for windows in [set(re.findall(r"_over_time\(\w+_(?:total|bucket)\b[^\[]*\[([^\]]+)\]", target["expr"]))]
        if not windows or not windows <= fitting
    )


def test_annotations_do_not_rely_on_intervals_that_grafana_reckons_wrong_there() -> None:
    none_of(
        f"{name}: {note['name']}"
        for name, dashboard in DASHBOARDS.items()
        for note in dashboard["annotations"]["list"]
        if note["step"] != "60s" or "$__" in note["expr"] or set(re.findall(r"\[([^\]]+)\]", note["expr"])) - {"120s"}
    )


def test_a_counter_is_never_shown_as_it_is_but_in_a_table_of_totals() -> None:
    none_of(
        f"{name}: {target['expr']}"
        for name, panel in PANELS.items()
        for target in panel["targets"]
        if panel["type"] != "table"
        if re.search(r"\w_total\b", re.sub(r"(?:last|min)_over_time\([^\[]*\[", "", target["expr"]))
    )


def columns(panel: JSON) -> JSON:
    """The columns of a table by what they show; empty for other panels."""
    renamed: list[JSON] = [t["options"]["renameByName"] for t in panel["transformations"] if t["id"] == "organize"]
    return renamed[0] if renamed else {}


def test_a_table_shows_every_value_and_overrides_only_what_it_shows() -> None:
    tables = {name: panel for name, panel in PANELS.items() if panel["type"] == "table"}

    assert tables
    none_of(f"{name}: {found}" for name, panel in tables.items() for found in sorted(unshown(panel)))


def unshown(panel: JSON) -> set[str]:
    """The values that a table asks for and hides, and the columns that it sets or sorts by without showing them."""
    shown = columns(panel)
    values = {f"Value #{t['refId']}" for t in panel["targets"]} if len(panel["targets"]) > 1 else set()
    named = {o["matcher"]["options"] for o in panel["fieldConfig"]["overrides"]}
    named |= {s["displayName"] for s in panel["options"]["sortBy"]}
    named -= {"/.*/"}  # every column
    return (values - set(shown)) | (named - set(shown.values()))


def test_utilization_has_the_colours_that_were_agreed() -> None:
    found = {p["title"]: p for p in panels(DASHBOARDS["gpu-autoscaler-utilization"])}
    for title in ("Utilization by GPU", "Utilization by workload"):
        steps = found[title]["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert [(s["value"], s["color"]) for s in steps] == [
            (None, "red"),
            (0.4, "dark-yellow"),
            (0.7, "green"),
            (0.90001, "dark-yellow"),  # 90 % is green
            (0.95001, "red"),  # 95 % is yellow
        ]
    target = found["Fleet utilization against its target"]["fieldConfig"]["defaults"]
    assert [s["value"] for s in target["thresholds"]["steps"] if s["color"] != "transparent"] == [0.65]
    assert target["thresholds"]["steps"][-1]["value"] == 0.85
    assert target["custom"]["thresholdsStyle"] == {"mode": "area"}


def test_a_number_is_asked_for_at_one_moment_and_not_the_last_of_an_hour() -> None:
    numbers = [p for d in DASHBOARDS.values() for p in panels(d) if p["type"] in ("stat", "gauge", "bargauge", "table")]
    assert {p["type"] for p in numbers} == {"stat", "gauge", "bargauge", "table"}
    assert [p["title"] for p in numbers if not all(t["instant"] for t in p["targets"])] == []


def test_no_number_is_written_in_a_colour_that_cannot_be_read_on_white() -> None:
    for uid, dashboard in DASHBOARDS.items():
        for panel in panels(dashboard):
            defaults = panel["fieldConfig"]["defaults"]
            properties = [p["value"] for o in panel["fieldConfig"]["overrides"] for p in o["properties"]]
            looks = [defaults.get("thresholds", {}), *(value for value in properties if isinstance(value, dict))]
            shown = {step["color"] for look in looks for step in look.get("steps", ())}
            if panel["type"] == "stat":
                shown |= {word["color"] for m in defaults.get("mappings", ()) for word in m["options"].values()}
            assert "yellow" not in shown, (uid, panel["title"])


def test_every_dashboard_is_in_a_config_map_that_the_sidecar_finds() -> None:
    kustomization = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert kustomization["generatorOptions"]["labels"] == {"grafana_dashboard": "1"}
    listed = [name for made in kustomization["configMapGenerator"] for name in made["files"]]
    assert sorted(listed) == [p.name for p in PATHS]
    assert all(p.stat().st_size < 200_000 for p in PATHS)  # `kubectl apply` keeps a copy of at most 256 KiB


def test_the_page_about_dashboards_names_each_and_only_panels_that_exist() -> None:
    page = (FOLDER.parent / "docs" / "dashboards.md").read_text()
    assert {uid for uid in DASHBOARDS if f"`{uid}`" in page} == set(DASHBOARDS)
    titles = {p["title"] for d in DASHBOARDS.values() for p in unfolded(d)}
    named = set(re.findall(r'"([A-Z][^"]{5,})"', page))
    assert named
    assert [n for n in named if not any(t.startswith(n) for t in titles)] == []
