"""A promtool test gets every rule on which it depends, and no other."""

import json
from pathlib import Path
from typing import Any

from tests.rules.needed import lean, needed

RULES: dict[str, dict[str, Any]] = {
    str(rule.get("record") or rule["alert"]): rule
    for rule in (
        {"record": "a:up:sum", "expr": "sum(up)"},
        {"record": "a:up:max", "expr": "max_over_time(a:up:sum[1h:1m])"},
        {"record": "b:up:sum", "expr": 'sum({__name__=~"a:up:(sum|min)"})'},
        {"record": "c:up:sum", "expr": "sum(up)"},
        {"alert": "High", "expr": "a:up:max > 1", "annotations": {"summary": '{{ with query "c:up:sum" }}x{{ end }}'}},
        {"alert": "Higher", "expr": "b:up:sum > 1"},
        {"alert": "Low", "expr": "up < 1"},
        {"alert": "Gone", "expr": "absent(down)"},
    )
}


UP = [{"series": 'up{job="a"}', "values": "1"}]


def of(*exprs: str, alerts: tuple[str, ...] = (), series: str = "up") -> set[str]:
    """What a test needs that looks at these, with one input series."""
    test = {
        "input_series": [{"series": series, "values": "1"}],
        "promql_expr_test": [{"expr": expr} for expr in exprs],
        "alert_rule_test": [{"alertname": name} for name in alerts],
    }
    return set(needed(test, RULES))


def test_an_alert_brings_what_it_and_its_annotations_read_in_turn() -> None:
    assert of(alerts=("High",)) == {"High", "a:up:max", "a:up:sum", "c:up:sum"}


def test_a_pattern_of_names_brings_every_recording_that_it_can_match() -> None:
    assert of("count(b:up:sum) > 0") == {"b:up:sum", "a:up:sum"}
    assert of('{__name__=~".:up:max"}') == {"a:up:max", "a:up:sum"}


def test_the_series_of_alerts_brings_those_that_it_names_or_else_all() -> None:
    assert of('ALERTS{alertname="Low", alertstate="firing"}') == {"Low"}
    assert of('ALERTS{alertname=~"High.+"} or ALERTS{alertname="Low"}') == {"Higher", "b:up:sum", "a:up:sum", "Low"}
    assert of("count(ALERTS)") == of('ALERTS{alertname!="Low"}') == set(RULES)


def test_what_is_no_rule_needs_none() -> None:
    assert of("sum(up)", 'a_metric{job="a:up:sum"}') == set()


def test_a_rule_that_reads_nothing_of_the_test_is_left_out_with_what_reads_only_it() -> None:
    assert of(alerts=("High", "Higher", "Low"), series="down") == set()
    assert of(alerts=("High", "Higher", "Low"), series="a:up:sum") == {"High", "a:up:max", "Higher", "b:up:sum"}


def test_a_rule_that_has_a_value_where_nothing_is_read_stays() -> None:
    assert of(alerts=("Gone",), series="down") == of(alerts=("Gone",)) == {"Gone"}


def test_no_rule_is_left_out_where_a_series_has_its_name_among_the_labels() -> None:
    assert of(alerts=("Low",), series='{__name__="up"}') == {"Low"}


def test_tests_with_the_same_rules_share_a_file_and_keep_what_the_file_says(tmp_path: Path) -> None:
    rules = {"groups": [{"name": "one", "rules": list(RULES.values())}, {"name": "two", "rules": []}]}
    (tmp_path / "x.rules.yaml").write_text(json.dumps(rules))
    low, high = (
        {"name": name, "input_series": UP, "alert_rule_test": [{"alertname": name}]} for name in ("Low", "High")
    )
    whole = {"evaluation_interval": "7s", "rule_files": ["x.rules.yaml"], "tests": [low, high, low]}
    (tmp_path / "x.test.yaml").write_text(json.dumps(whole))

    first, second = (json.loads(path.read_text()) for path in lean(tmp_path / "x.test.yaml", tmp_path))

    assert (first["tests"], second["tests"], second["evaluation_interval"]) == ([low, low], [high], "7s")
    [group] = json.loads(Path(first["rule_files"][0]).read_text())["groups"]
    assert (group["name"], [rule["alert"] for rule in group["rules"]]) == ("one", ["Low"])
