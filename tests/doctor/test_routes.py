"""Which routes an alert ends at, beside a real Alertmanager and amtool over many made-up trees."""

import json
import random
import re
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.model.silences import Matcher
from receiver.doctor.alertmanager_config import AlertmanagerConfig, read_config
from receiver.doctor.matchers import Unreadable, matcher, parsed, shown
from receiver.doctor.routes import read_route
from tests.rules.files import run
from tests.rules.servers import get, running

JSON = dict[str, Any]
TREES = 60
LABEL_SETS = 12
NAMES = ("a", "b", "c")
VALUES = ("", "x", "y", "xy", 'quo"te', "back\\slash", "two\nlines", "gpu-autoscaler", "5", "on", "x|y")
PATTERNS = (
    "x|y",
    "x.*",
    ".+",
    ".*",
    "(x|y)+",
    "x",
    "[xy]{1,2}",
    "",
    "gpu-.*",
    "(?i)X",
    "x|",
    r"\d+",
    r"back\\slash",
    "^x$",
)


class Forest:
    """Trees made by chance, each below a matcher of its own; every route has a receiver of its own."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self.receivers = ["root"]
        trees = [{**self._route(3), "matchers": [f'tree="{number}"']} for number in range(TREES)]
        for tree in trees:  # the matcher of the tree is all that its root wants
            tree.pop("match", None)
            tree.pop("match_re", None)
        self.config: JSON = {
            "route": {"receiver": "root", "routes": trees},
            "receivers": [{"name": name} for name in self.receivers],
        }
        self.labels = [{"tree": str(n), **self._labels()} for n in range(TREES) for _ in range(LABEL_SETS)]

    def _route(self, depth: int) -> JSON:
        dice = self._dice
        self.receivers.append(f"r{len(self.receivers)}")
        route: JSON = {"receiver": self.receivers[-1], "continue": dice.random() < 0.4}
        for _ in range(dice.choice((0, 1, 1, 2))):
            name, form = dice.choice(NAMES), dice.choice(("match", "match_re", "matchers", "matchers"))
            if form == "match":
                route.setdefault(form, {})[name] = dice.choice(VALUES)
            elif form == "match_re":
                route.setdefault(form, {})[name] = dice.choice(PATTERNS)
            else:
                how = dice.choice(("=", "!=", "=~", "!~"))
                value = dice.choice(PATTERNS if "~" in how else VALUES)
                route.setdefault(form, []).append(f"{name}{how}{_quoted(value)}")
        if depth:
            route["routes"] = [self._route(depth - 1) for _ in range(dice.choice((0, 2, 3)))]
        return route

    def _labels(self) -> dict[str, str]:
        chosen = {name: self._dice.choice(VALUES) for name in NAMES if self._dice.random() < 0.8}
        return {name: value for name, value in chosen.items() if value}


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


@dataclass(frozen=True)
class Compared:
    """What an Alertmanager with the forest says: its configuration, and who gets each alert, by the alert's number."""

    labels: Sequence[Mapping[str, str]]
    config: AlertmanagerConfig
    receivers: Mapping[int, list[str]]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """One real Alertmanager for all trees, asked once."""
    folder, forest = tmp_path_factory.mktemp("routes"), Forest(11)
    file = folder / "config.yml"
    file.write_text(yaml.safe_dump(forest.config, width=10_000), encoding="utf-8")
    paths = (f"--config.file={file}", f"--storage.path={folder / 'data'}", "--cluster.listen-address=")
    with running("alertmanager", folder / "log", *paths) as url:
        alerts = [{"labels": {"number": str(n), **labels}} for n, labels in enumerate(forest.labels)]
        body = json.dumps(alerts).encode()
        request = urllib.request.Request(f"{url}/api/v2/alerts", body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=20).close()
        told = get(f"{url}/api/v2/alerts")
        original = get(f"{url}/api/v2/status")["config"]["original"]
    found = {int(alert["labels"]["number"]): [r["name"] for r in alert["receivers"]] for alert in told}
    return Compared(forest.labels, read_config(original), found)


def test_an_alert_ends_at_the_receivers_that_alertmanager_itself_names(compared: Compared) -> None:
    ours = {
        number: [route.receiver for route in compared.config.route.matching({"number": str(number), **labels})]
        for number, labels in enumerate(compared.labels)
    }
    assert len(compared.receivers) == TREES * LABEL_SETS
    assert {n: ours[n] for n in ours if ours[n] != compared.receivers[n]} == {}


def test_the_trees_tell_apart_what_could_go_wrong(compared: Compared) -> None:
    several = [names for names in compared.receivers.values() if len(names) > 1]
    roots = {route.receiver for route in compared.config.route.children}
    inside = [names for names in compared.receivers.values() if not set(names) & {*roots, "root"}]
    assert len(several) > 50  # `continue` matters
    assert len(inside) > 100  # children take what their parents would


@pytest.mark.parametrize("number", [3, 77, 200, 401])
def test_amtool_says_the_same(compared: Compared, number: int, tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text(yaml.safe_dump(Forest(11).config, width=10_000), encoding="utf-8")
    labels = [f"{name}={_quoted(value)}" for name, value in compared.labels[number].items()]
    told = run("amtool", "config", "routes", "test", f"--config.file={file}", *labels)
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip().split(",") == compared.receivers[number]


def test_times_and_grouping_come_from_the_parent_and_time_intervals_do_not() -> None:
    child = {"receiver": "b", "group_wait": "1s"}
    parent = {"group_by": ["pool"], "group_interval": "1m", "mute_time_intervals": ["nights"], "routes": [child]}
    root = read_route({"receiver": "a", "repeat_interval": "2h", "routes": [parent]})
    (inner,) = root.children[0].children
    assert (root.children[0].receiver, root.children[0].muted) == ("a", ("nights",))
    assert (inner.group_by, inner.muted) == (("pool",), ())
    assert [inner.group_wait, inner.group_interval, inner.repeat_interval] == [
        timedelta(seconds=1),
        timedelta(minutes=1),
        timedelta(hours=2),
    ]
    assert [root.group_wait, root.group_interval] == [timedelta(seconds=30), timedelta(minutes=5)]


@pytest.mark.parametrize(
    "text, matchers",
    [
        ('a="b"', [Matcher(name="a", value="b")]),
        ("a = b", [Matcher(name="a", value="b")]),
        (
            '{a!="b", c=~"d,e"}',
            [Matcher(name="a", value="b", is_equal=False), Matcher(name="c", value="d,e", is_regex=True)],
        ),
        ('a!~"b.*",', [Matcher(name="a", value="b.*", is_regex=True, is_equal=False)]),
        ('a=""', [Matcher(name="a", value="")]),
        (r'a="\"\\\n\u00e9"', [Matcher(name="a", value='"\\\né')]),
        ('"a b"="c"', [Matcher(name="a b", value="c")]),
        ("{}", []),
    ],
)
def test_matchers_are_read_as_alertmanager_writes_them(text: str, matchers: list[Matcher]) -> None:
    assert list(parsed(text)) == matchers


@pytest.mark.parametrize("text", ["a", 'a="b', '="b"', 'a=="b"x"', "a=~[[:alpha:]]", r'a=~"\\pL"', 'a=~"("'])
def test_what_cannot_be_evaluated_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        parsed(text)


@given(st.sampled_from(NAMES), st.text(max_size=8), st.booleans(), st.booleans())
def test_a_matcher_that_is_shown_and_read_again_is_the_same(name: str, value: str, regex: bool, equal: bool) -> None:
    one = matcher(name, re.escape(value) if regex else value, regex=regex, equal=equal)
    plain = shown(one).partition('"')[0]
    assert parsed(plain + _quoted(one.value)) == (one,)
