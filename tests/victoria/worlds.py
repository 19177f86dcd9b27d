"""Worlds to compare two servers in: the series of the promtool tests and of a played cluster, with their recordings.

promtool evaluates the recordings, and both servers get the same samples. So every expression is compared on the same
input, and a difference is that expression's own.
"""

import json
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lint import load_yaml
from tests.rules.files import GROUPS, RULE_FILES, TEST_FILES, run
from tests.rules.full_hour import MINUTES, START, course, policy_at
from tests.rules.hours import EPOCH, EVERY, hours
from tests.rules.scraped import LABEL
from tools.metric_readers import BUCKETS, read

JSON = Mapping[str, Any]
Labels = tuple[tuple[str, str], ...]  # sorted, with __name__
STALE: float = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
TERM = re.compile(r"(?P<start>[+-]?[^\sx+-][^\sx]*?)(?:(?P<step>[+-][\d.]+)?x(?P<times>\d+))?")
FOUND = re.compile(r"\n    expr: .*, time: .*,\n        exp: .*\n        got: (.*)")
SAMPLE = re.compile(r"\{((?:[^\"{}]|\"(?:\\.|[^\"\\])*\")*)\} ([^\s,]+)")
RECORDED = 'last_over_time({__name__=~".+:.+:.+|ALERTS"}[1s])'
EVERYTHING = "a played cluster"  # in which every expression is asked
IMPOSSIBLE = [{"labels": "impossible", "value": 0}]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Samples by moment, Unix time in seconds, in order; *rules* are the names of those that it is about."""

    name: str
    rules: frozenset[str]
    samples: Mapping[int, Mapping[Labels, float]]

    @property
    def names(self) -> frozenset[str]:
        """The metrics and recordings in it."""
        return frozenset(dict(labels)["__name__"] for found in self.samples.values() for labels in found)


def worlds(folder: Path, words: Sequence[str] = ()) -> Iterator[World]:
    """Yield the worlds, or those with one of *words* in their names; *folder* is for promtool's files."""
    for file in TEST_FILES:
        whole = load_yaml(file.read_text(encoding="utf-8"))
        whole = {**whole, "rule_files": [str(file.parent / name) for name in whole["rule_files"]]}
        for test in whole["tests"]:
            if _chosen(name := f"{file.name}: {test['name']}", words):
                yield _world(name, whole, test, folder)
    if _chosen(name := EVERYTHING, words):
        whole = {"rule_files": list(map(str, RULE_FILES)), "evaluation_interval": "30s", "group_eval_order": [*GROUPS]}
        yield _world(name, whole, _played(), folder)


def _chosen(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


def _played() -> JSON:
    """Minutes of simulator and receiver, as a promtool test."""
    with hours(START, policy_at(EPOCH)) as lived:
        course(lived)
        wanted = {*read(), *(f"{name}{BUCKETS}" for name in read())}
        series = lived.notebook.input_series(wanted)
    check = {"expr": "vector(1)", "eval_time": f"{MINUTES}m"}
    return {"interval": f"{EVERY.seconds}s", "input_series": series, "promql_expr_test": [check]}


def _world(name: str, whole: JSON, test: JSON, folder: Path) -> World:
    """Return the samples of *test* with what the rules of *whole* record over it."""
    step = seconds(test.get("interval", "1m"))
    samples: dict[int, dict[Labels, float]] = {}
    for one in test["input_series"]:
        labels = labels_of(one["series"])
        for place, value in enumerate(expanded(one["values"])):
            if value is not None:
                samples.setdefault(place * step, {})[labels] = value
    checks = (*test.get("promql_expr_test", ()), *test.get("alert_rule_test", ()))
    end = max(seconds(check["eval_time"]) for check in checks)
    before: Mapping[Labels, float] = {}
    for moment, recorded in _recorded(whole, test, range(0, end + 1, seconds(whole["evaluation_interval"])), folder):
        samples.setdefault(moment, {}).update({**dict.fromkeys(before.keys() - recorded.keys(), STALE), **recorded})
        before = recorded
    groups = [group for file in whole["rule_files"] for group in load_yaml(Path(file).read_text("utf-8"))["groups"]]
    rules = frozenset(rule.get("record") or rule["alert"] for group in groups for rule in group["rules"])
    return World(
        name=name, rules=rules, samples={moment: samples[moment] for moment in sorted(samples) if moment <= end}
    )


def _recorded(
    whole: JSON, test: JSON, moments: Sequence[int], folder: Path
) -> Iterator[tuple[int, dict[Labels, float]]]:
    """Yield what the rules record at each of *moments*: promtool says it of an expectation that cannot hold."""
    checks = [{"expr": RECORDED, "eval_time": f"{at}s", "exp_samples": IMPOSSIBLE} for at in moments]
    asked = {**test, "promql_expr_test": checks, "alert_rule_test": []}
    path = folder / "world.test.json"
    path.write_text(json.dumps({**whole, "tests": [asked]}), encoding="utf-8")
    said = run("promtool", "test", "rules", path)
    found = FOUND.findall(said.stdout + said.stderr)
    if len(found) != len(moments):
        raise AssertionError((said.stdout + said.stderr)[:2000])
    for moment, text in zip(moments, found, strict=True):
        yield moment, {labels_of(f"{{{inner}}}"): float(value) for inner, value in SAMPLE.findall(text)}


def seconds(duration: object) -> int:
    """Return a duration such as 1h30m in seconds."""
    return sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([dhms])", str(duration)))


def expanded(values: str) -> Iterator[float | None]:
    """Yield the samples of a series in promtool's notation; None is a gap."""
    for text in str(values).split():
        term = TERM.fullmatch(text)
        assert term is not None, text
        start, times = term["start"], int(term["times"] or 0)
        if start == "_":
            yield from [None] * (times or 1)
        elif start == "stale":
            yield STALE
        else:
            yield from (float(start) + place * float(term["step"] or 0) for place in range(times + 1))


def labels_of(series: str) -> Labels:
    """Return the labels of a series in PromQL's notation."""
    name, _, inner = series.partition("{")
    found = {key: json.loads(f'"{value}"') for key, value in LABEL.findall(inner)}
    return tuple(sorted({**({"__name__": name} if name else {}), **found}.items()))
