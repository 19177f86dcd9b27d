"""The table of faults and alerts is whole, is the one of docs/alerts.md, and is measured as a Prometheus would.

All of it takes minutes (`make alerts`); here those faults are brought about that take seconds.
"""

import time
import urllib.parse
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from campaigns.alerts.faults import FAULTS, PAGE, expected, page, raised_by
from simulator.clocks import ManualClock
from simulator.server import Simulator
from tests.rules.catalogue import a_policy, busy
from tests.rules.files import ALERTS, HEARTBEAT
from tests.rules.hours import EPOCH, fired, hours
from tests.rules.scraped import Notebook, honored, series, stored
from tests.rules.servers import get, running

QUICK = {
    "a job ends and its node is idle",
    "a GPU falls off the bus (XID 79)",
}


def test_every_alert_is_raised_by_a_fault_of_the_table() -> None:
    assert {name for fault in FAULTS for name in fault.raises} == {alert.name for alert in ALERTS} - {HEARTBEAT}


def test_every_companion_is_an_alert_and_says_why_it_comes() -> None:
    assert {name for fault in FAULTS for name in fault.also} <= {alert.name for alert in ALERTS}
    assert [f.title for f in FAULTS if set(f.also) & set(f.raises) or not all(f.also.values())] == []


def test_no_two_faults_share_a_title() -> None:
    assert [title for title, count in Counter(f.title for f in FAULTS).items() if count > 1] == []


def test_the_page_of_alerts_is_that_of_the_catalogue() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run make alerts"


@pytest.mark.parametrize("title", sorted(QUICK))
def test_a_fault_raises_its_alerts_and_no_other(title: str, tmp_path: Path) -> None:
    [fault] = [f for f in FAULTS if f.title == title]
    assert raised_by(fault, tmp_path) == expected(fault)


def test_what_is_written_down_is_what_a_prometheus_stores(tmp_path: Path) -> None:
    """Names and labels, scraped over the wire by a real one with the settings of the example."""
    jobs = ("kube-state-metrics", "dcgm-exporter")
    with Simulator(FAULTS[0].start(), clock=ManualClock(EPOCH)) as simulator, hours(FAULTS[0].start(), a_policy()) as h:
        for live in (simulator.live, h.live):
            live.submit([{"id": "a", "namespace": "ml", "duration": "1h"}])
        h.steps = False
        h.pass_time(0.5)
        simulator.live.turn(h.clock.now() - EPOCH)
        h.notebook = Notebook()
        h.pass_time(0.5)
        ours = {s["series"] for s in h.notebook.input_series(h.notebook.names()) if 'job="' in s["series"]}
        metrics = {"metrics_path": "/metrics/kube-state-metrics"}
        plain: dict[str, Any] = {**metrics, "static_configs": [{"targets": [simulator.url.removeprefix("http://")]}]}
        found: dict[str, Any] = {"http_sd_configs": [{"url": f"{simulator.url}/sd/dcgm", "refresh_interval": "1s"}]}
        scrapes = [
            {"job_name": job, "honor_labels": honored(job), **how}
            for job, how in zip(jobs, (plain, found), strict=True)
        ]
        (tmp_path / "config.yml").write_text(
            yaml.safe_dump({"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": scrapes})
        )
        paths = (f"--config.file={tmp_path}/config.yml", f"--storage.tsdb.path={tmp_path}/data")
        with running("prometheus", tmp_path / "log", *paths) as url:
            theirs: set[str] = set()
            deadline = time.monotonic() + 60
            while sum("DCGM_FI_PROF_GR_ENGINE_ACTIVE" in s for s in theirs) < 2 or "kube_pod_info" not in str(theirs):
                assert time.monotonic() < deadline, theirs
                query = urllib.parse.urlencode({"query": '{job!="",__name__!~"scrape_.+"}'})
                answer = get(f"{url}/api/v1/query?{query}")["data"]["result"]
                theirs = {_series(one["metric"]) for one in answer}
                time.sleep(0.2)
    wanted = {_without_instance(s) for s in ours if any(f'job="{job}"' in s for job in jobs)}
    assert {_without_instance(s) for s in theirs} == wanted


def _series(labels: dict[str, str]) -> str:
    return series(labels["__name__"], {k: v for k, v in labels.items() if k != "__name__"})


def _without_instance(text: str) -> str:
    name, _, labels = text.partition("{")
    return f"{name}{{{','.join(x for x in labels.rstrip('}').split(',') if not x.startswith('instance='))}}}"


def test_a_label_that_the_target_has_too_is_renamed_unless_it_is_honored() -> None:
    target = {"job": "j", "pod": "exporter", "__metrics_path__": "/m"}
    assert list(stored('x{pod="p",y=""} 1\n', target, honor=False)) == [
        ('x{exported_pod="p",job="j",pod="exporter"}', "1")
    ]
    assert list(stored('x{pod="p"} 1\n', target, honor=True)) == [('x{job="j",pod="p"}', "1")]


def test_what_is_not_there_any_more_is_stale_once() -> None:
    notebook = Notebook()
    for found in ({"a{}": "1", "b{}": "2"}, {"a{}": "1"}, {"a{}": "3"}, {"a{}": "3", "b{}": "2"}):
        notebook.write(found)
    assert notebook.input_series({"a", "b"}) == [
        {"series": "a{}", "values": "1x1 3x1"},
        {"series": "b{}", "values": "2 stale _ 2"},
    ]


def test_rules_that_cannot_be_run_are_no_silence(tmp_path: Path) -> None:
    with hours(FAULTS[0].start(), a_policy()) as h:
        busy(h, 1)
        h.notebook.write({"kube_pod_info{": "1"})
        with pytest.raises(AssertionError, match=r"parse error|unexpected"):
            fired(h, tmp_path)
