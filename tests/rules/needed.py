"""promtool tests with only the rules that they look at.

promtool evaluates every rule of a test's files at every step, and one test in a day of steps looks at few of them. So
each test gets those that it names, and those that they read, in expressions and in annotations. Of these it gets no
rule that can have no value, because it reads nothing that the test's input series bring about.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import Any

from tests.lint import load_yaml
from tools.metric_names import metrics_in, queries_of

JSON = dict[str, Any]
ALERTS = re.compile(r"\bALERTS\b(?:\{([^}]*)\})?")
# What has a value where nothing is read. All else does not: a scalar joined with an empty vector is an empty vector.
FROM_NOTHING = re.compile(r"\b(absent|absent_over_time|vector|scalar)\s*\(|\bALERTS\b|(?<![\w:])\{(?!\s*__name__)")
ALERTNAME = re.compile(r'\balertname\s*(=~?)\s*"([^"]*)"')


def lean(file: Path, folder: Path) -> list[Path]:
    """Write the tests of *file* into *folder*, those with the same rules together; return the files for promtool."""
    whole: JSON = load_yaml(file.read_text(encoding="utf-8"))
    groups = [group for name in whole["rule_files"] for group in _groups(file.parent / name)]
    rules = {_name(rule): rule for group in groups for rule in group["rules"]}
    alike: dict[frozenset[str], list[JSON]] = {}
    for test in whole["tests"]:
        alike.setdefault(needed(test, rules), []).append(test)
    written = []
    for number, (names, tests) in enumerate(alike.items()):
        kept = [{**g, "rules": [rule for rule in g["rules"] if _name(rule) in names]} for g in groups]
        path = folder / f"{number}.rules.json"
        path.write_text(json.dumps({"groups": [group for group in kept if group["rules"]]}), encoding="utf-8")
        written.append(folder / f"{number}.test.json")
        written[-1].write_text(json.dumps({**whole, "rule_files": [str(path)], "tests": tests}), encoding="utf-8")
    return written


def needed(test: Mapping[str, Any], rules: Mapping[str, JSON]) -> frozenset[str]:
    """Return the names of those of *rules* on which *test*'s expectations depend and that can have a value in it."""
    return _looked_at(test, rules) & _with_values(test, rules)


def _looked_at(test: Mapping[str, Any], rules: Mapping[str, JSON]) -> frozenset[str]:
    ahead = {check["alertname"] for check in test.get("alert_rule_test", ())}
    for check in test.get("promql_expr_test", ()):
        ahead |= _read(check["expr"], rules) | set(_fired(check["expr"], rules))
    names: set[str] = set()
    while ahead := (ahead & rules.keys()) - names:
        names |= ahead
        ahead = {read for name in ahead for expr in _expressions(rules[name]) for read in _read(expr, rules)}
    return frozenset(names)


def _with_values(test: Mapping[str, Any], rules: Mapping[str, JSON]) -> frozenset[str]:
    """The names of *rules* that read an input series of *test*, or another rule that does, or have a value anyway."""
    series = {one["series"].partition("{")[0].strip() for one in test.get("input_series", ())}
    if "" in series:  # its name is among the labels
        return frozenset(rules)
    reads = {name: _read(rule["expr"], series | rules.keys()) for name, rule in rules.items()}
    names = {name for name, rule in rules.items() if not reads[name] or FROM_NOTHING.search(rule["expr"])}
    while more := {name for name in rules.keys() - names if reads[name] & (series | names)}:
        names |= more
    return frozenset(names)


def _groups(file: Path) -> Sequence[JSON]:
    groups: Sequence[JSON] = load_yaml(file.read_text(encoding="utf-8"))["groups"]
    return groups


def _name(rule: Mapping[str, Any]) -> str:
    return str(rule.get("record") or rule["alert"])


def _expressions(rule: Mapping[str, Any]) -> Iterator[str]:
    """What *rule* asks for: its expression and the queries of its annotations."""
    yield rule["expr"]
    for template in rule.get("annotations", {}).values():
        yield from queries_of(template)


def _read(expr: str, known: Collection[str]) -> Set[str]:
    names = _listed(expr)
    return metrics_in(expr, known) if names is None else names


@cache
def _listed(expr: str) -> frozenset[str] | None:
    """What *expr* reads. None if a pattern in it matches names without end."""
    try:
        return frozenset(metrics_in(expr))
    except ValueError:
        return None


def _fired(expr: str, rules: Mapping[str, JSON]) -> Iterator[str]:
    """The alerts that *expr* asks for by the series ALERTS: all of them unless it says which."""
    alerts = [name for name, rule in rules.items() if "alert" in rule]
    for selector in ALERTS.findall(expr):
        said = ALERTNAME.search(selector)
        for name in alerts:
            if said is None or (name == said[2] if said[1] == "=" else re.fullmatch(said[2], name)):
                yield name
