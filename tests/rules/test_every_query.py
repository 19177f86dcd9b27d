"""Every expression of rules and dashboards, asked of a real Prometheus: of one that has everything and of an empty one.

What the first has comes from simulator and receiver: minutes of their pages, written into its database, and the rules
as they are shipped. Changed are two things: groups are evaluated every second, and an hour in the rule about idle GPUs
is a few seconds, since recordings have no history there. Once all is recorded the server is started again without
rules: to evaluate each of them every second took most of the time of these tests. `make pictures` scrapes for itself,
and has every panel drawn.
"""

import json
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.clock import SystemClock
from tests.e2e.waiting import until
from tests.lint import load_yaml
from tests.rules.files import ALERTS, HEARTBEAT, RECORDINGS, RULE_FILES, run
from tests.rules.full_hour import MINUTES, START, course, policy_at
from tests.rules.hours import EVERY, Hours, hours
from tests.rules.servers import get, running
from tests.rules.versions import Chosen
from tools.grafana.files import DASHBOARDS, filled, panels, queries
from tools.grafana.scenario import IDLE_RULE, shortened
from tools.metric_names import queries_of
from tools.metric_readers import BUCKETS, read

pytestmark = pytest.mark.usefixtures("each_prometheus")

SECONDS = (("[1m:1s]", "[4s:1s]"), ("[1m]", "[4s]"), (">= 50", ">= 3"))
# These time requests over HTTP, and here nobody sends any. `make pictures` fails when they have nothing to show.
BY_HTTP = {"Time to answer a webhook", "Time of Civo's answers"}
# These compare recordings with those of a minute before, or of the node's life.
RISES = {
    "node_gpu:dcgm_xid_error_new:max",
    "node_gpu:dcgm_uncorrectable_rise:max",
    "namespace_pod:gpu_unseen:sum",
}
# These tell of nodes that no cluster here has, and have scenarios of their own: a second exporter, a DRA driver.
ELSEWHERE = {"node:dcgm_alias:relabel", "node_pool:gpu_dra:relabel"}
HEARD = f'ALERTS{{alertname="{HEARTBEAT}", alertstate="firing"}}'
RECORDED = 'group by (name) (label_replace({__name__=~".+:.+"}, "name", "$1", "__name__", "(.+)"))'
# These are drawn where something changes, with names of pools that are recorded only for the last seconds here.
CLUSTERS = ("lon", "fra")
MARKS = {"Decided to grow", "Decided to shrink", "Ended actions"}


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A database with what the rules made of it, and every rule as the server saw it."""

    folder: Path
    rules: list[dict[str, Any]]


@contextmanager
def evaluating(folder: Path) -> Iterator[str]:
    """A Prometheus over the database in *folder*, if there is one, with the rules, evaluated every second."""
    for file in RULE_FILES:
        content = load_yaml(file.read_text(encoding="utf-8"))
        for group in content["groups"]:
            group["interval"] = "1s"
            for rule in group["rules"]:
                if rule.get("record") == IDLE_RULE:
                    rule["expr"] = _in_seconds(rule["expr"])
        (folder / f"rules-{file.name}").write_text(json.dumps(content))
    with prometheus(folder, rule_files=[f"{folder}/rules-*.yaml"]) as url:
        until_evaluated(url)
        yield url


@contextmanager
def prometheus(folder: Path, rule_files: Sequence[str] = ()) -> Iterator[str]:
    """A Prometheus over the database in *folder*, if there is one."""
    (folder / "config.yml").write_text(json.dumps({"rule_files": [*rule_files]}))
    paths = (f"--config.file={folder}/config.yml", f"--storage.tsdb.path={folder}/data")
    with running("prometheus", folder / "log", *paths) as url:
        yield url


def _in_seconds(expr: str) -> str:
    expr = shortened(expr)
    for before, after in SECONDS:
        assert before in expr
        expr = expr.replace(before, after)
    return expr


@pytest.fixture(scope="module")
def empty_evaluated(each_prometheus: Chosen, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """One that scrapes nothing."""
    folder = tmp_path_factory.mktemp("empty")
    with evaluating(folder) as url:
        # its rule is evaluated before the series is stored
        until(lambda: bool(asked(url, HEARD)), "the series of an alert")
        return Evaluated(folder, rules(url))


@pytest.fixture(scope="module")
def full_evaluated(each_prometheus: Chosen, tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    """One that has scraped everything for a while, up to now."""
    folder = tmp_path_factory.mktemp("full")
    begin = SystemClock().now().replace(microsecond=0) - timedelta(minutes=MINUTES)
    with hours(START, policy_at(begin), begin) as lived:
        course(lived)
        page = scraped(lived, begin)
    stored(folder, page)
    with evaluating(folder) as url:
        until_recorded(url)
        return Evaluated(folder, rules(url))


@pytest.fixture(scope="module")
def empty(empty_evaluated: Evaluated) -> Iterator[str]:
    """A server over what the rules made of nothing."""
    with prometheus(empty_evaluated.folder) as url:
        yield url


@pytest.fixture(scope="module")
def full(full_evaluated: Evaluated) -> Iterator[str]:
    """A server over what the rules made of everything."""
    with prometheus(full_evaluated.folder) as url:
        yield url


@pytest.fixture(scope="module")
def bare(each_prometheus: Chosen, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One of a cluster whose pools have no node and that no pod asks for one."""
    folder = tmp_path_factory.mktemp("bare")
    begin = SystemClock().now().replace(microsecond=0) - timedelta(minutes=2)
    pools = [{**pool, "count": 0} for pool in START["pools"]]
    policy = policy_at(begin)
    empty = tuple(replace(pool, min_nodes=0, windows=()) for pool in policy.pools)
    with hours({**START, "pools": pools}, replace(policy, pools=empty), begin) as lived:
        lived.pass_time(2)
        page = scraped(lived, begin)
    stored(folder, page)
    with evaluating(folder) as url:
        until(lambda: bool(asked(url, "cluster:gpu_spend_usd_per_hour:sum")), "a recording of recordings")
    with prometheus(folder) as url:
        yield url


@pytest.fixture(scope="module")
def two(full: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A store of two clusters that are alike, as their Prometheus servers with external labels would fill it."""
    folder = tmp_path_factory.mktemp("two")
    query = urllib.parse.urlencode({"query": f'{{__name__=~".+"}}[{2 * MINUTES}m]'})
    series = get(f"{full}/api/v1/query?{query}")["data"]["result"]
    lines = [
        line for cluster in CLUSTERS for one in series for line in exposed({**one["metric"], "cluster": cluster}, one)
    ]
    stored(folder, "\n".join([*lines, "# EOF\n"]))
    with prometheus(folder) as url:
        yield url


def exposed(labels: Mapping[str, str], series: Mapping[str, Any]) -> Iterator[str]:
    """The samples of a series as lines of OpenMetrics, with *labels*."""
    told = ",".join(f"{name}={json.dumps(value)}" for name, value in labels.items() if name != "__name__")
    yield from (f"{labels['__name__']}{{{told}}} {value} {at:.3f}" for at, value in series["values"])


def scraped(lived: Hours, begin: datetime) -> str:
    """What was scraped since *begin* and is read by rules or dashboards, as a page of OpenMetrics."""
    wanted = {*read(), *(f"{name}{BUCKETS}" for name in read())}
    return lived.notebook.open_metrics(wanted, begin.timestamp(), EVERY.total_seconds())


def stored(folder: Path, page: str) -> None:
    """Write a page of OpenMetrics into a database in *folder*."""
    (folder / "page.txt").write_text(page, encoding="utf-8")
    made = run("promtool", "tsdb", "create-blocks-from", "openmetrics", folder / "page.txt", folder / "data")
    assert made.returncode == 0, made.stdout + made.stderr


def rules(url: str) -> list[dict[str, Any]]:
    """Every rule as the server sees it."""
    return [rule for group in get(f"{url}/api/v1/rules")["data"]["groups"] for rule in group["rules"]]


def until_evaluated(url: str) -> None:
    """Wait until every rule was evaluated."""
    deadline = time.monotonic() + 60
    while any(rule["health"] == "unknown" for rule in rules(url)):
        assert time.monotonic() < deadline, rules(url)
        time.sleep(0.1)


def until_recorded(url: str) -> None:
    """Wait until every recording is there, as long as the longest chain of them may take; the tests say what is not."""
    deadline = time.monotonic() + 60
    missing = {recording.name for recording in RECORDINGS} - RISES - ELSEWHERE
    while missing and time.monotonic() < deadline:
        missing -= {labels["name"] for labels, _ in answered(url, RECORDED)}
        time.sleep(0.5)


def asked(url: str, expr: str) -> list[Any]:
    """What *expr* yields now that is a number. An error fails the test."""
    return [value for _, value in answered(url, expr)]


def answered(url: str, expr: str) -> list[tuple[Mapping[str, str], str]]:
    """The same with its labels."""
    found = get(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': expr})}")["data"]
    scalar = found["resultType"] == "scalar"
    results = [{"metric": {}, "value": found["result"]}] if scalar else found["result"]
    return [(one["metric"], one["value"][1]) for one in results if one["value"][1] != "NaN"]


def over_time(url: str, expr: str) -> list[Any]:
    """What *expr* yields over the minutes that were written down, as a panel asks. An error fails the test."""
    now = time.time()
    query = {"query": expr, "start": f"{now - 60 * MINUTES:.3f}", "end": f"{now:.3f}", "step": "60"}
    found = get(f"{url}/api/v1/query_range?{urllib.parse.urlencode(query)}")["data"]["result"]
    return [value for one in found for _, value in one["values"] if value != "NaN"]


def templates() -> list[str]:
    """The queries that alerts send for their annotations."""
    return [q for alert in ALERTS for text in alert.body["annotations"].values() for q in queries_of(text)]


@pytest.mark.parametrize("database", ["empty_evaluated", "full_evaluated"])
def test_no_rule_errs(database: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(database).rules
    assert len(found) == len(ALERTS) + len(RECORDINGS)
    assert [(r["name"], r.get("lastError")) for r in found if r["health"] != "ok"] == []


@pytest.mark.parametrize("server", ["empty", "full", "two"])
def test_no_query_errs(server: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(server)
    of_alerts = () if server == "two" else templates()  # those are evaluated in each cluster
    for expr in (*(filled(q.expr) for q in queries()), *of_alerts):
        asked(url, expr)
        over_time(url, expr)


def test_nothing_is_told_of_what_nobody_exports(empty: str) -> None:
    assert [r.name for r in RECORDINGS if asked(empty, r.name)] == []


def test_an_alert_that_fires_is_a_series(empty: str) -> None:
    assert asked(empty, HEARD) == ["1"]


def test_every_recording_has_something_to_tell(full: str) -> None:
    assert [r.name for r in RECORDINGS if r.name not in RISES | ELSEWHERE and not asked(full, r.name)] == []


@pytest.mark.parametrize("server", ["full", "two"])
def test_every_panel_has_something_to_show(server: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(server)
    bare: set[str] = set()
    for panel in {(q.dashboard, q.panel) for q in queries()}:
        exprs = [filled(q.expr) for q in queries() if (q.dashboard, q.panel) == panel]
        if not any(asked(url, expr) or over_time(url, expr) for expr in exprs):
            bare.add(panel[1])
    assert bare == BY_HTTP | MARKS


def test_a_panel_that_is_not_scraped_for_shows_no_number_and_no_table_of_good_news(empty: str) -> None:
    for query in queries():
        for labels, _ in answered(empty, filled(query.expr)):
            told = any(value.startswith("no data from ") for value in labels.values())
            assert told or query.panel == "Cooldowns, windows and overrides", query  # which has words for it


def test_a_cluster_without_nodes_is_not_taken_for_one_that_is_not_scraped(bare: str) -> None:
    shown = {(uid, p["title"]): p for uid, d in DASHBOARDS.items() for p in panels(d)}
    empty = {
        key: panel["fieldConfig"]["defaults"]["noValue"]
        for key, panel in shown.items()
        if not any(answered(bare, filled(target["expr"])) for target in panel["targets"])
    }
    assert {key: said for key, said in empty.items() if said.startswith("No data from")} == {}
    none = ("Allocated but idle", "GPUs with a fatal XID", "GPUs with memory errors", "Nodes without telemetry")
    numbers = [asked(bare, filled(p["targets"][0]["expr"])) for p in shown.values() if p["title"] in none]
    assert numbers == [["0"]] * len(none)


def test_the_numbers_of_two_clusters_are_those_of_both(full: str, two: str) -> None:
    titles = ("Spent", "Budget", "Forecast", "Cost per hour", "Idle this month", "Desired", "Ready", "GPUs pending")
    for title in titles:
        (expr,) = {filled(q.expr) for q in queries() if q.panel == title}
        (one,), (both,) = asked(full, expr), asked(two, expr)
        assert float(both) == pytest.approx(2 * float(one)), title


def test_what_belongs_to_one_cluster_is_not_added_to_its_namesake_in_another(two: str) -> None:
    own = {"pool", "pool_name", "node", "workload", "scope"}
    shown = [(q, labels) for q in queries() if q.field != "annotation" for labels, _ in answered(two, filled(q.expr))]
    apart = [(q, labels) for q, labels in shown if own & labels.keys() and "none" not in labels.values()]
    assert apart
    assert [(q, labels) for q, labels in apart if "cluster" not in labels] == []
