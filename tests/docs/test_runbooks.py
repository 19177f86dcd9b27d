"""Every alert has its runbook, all have one shape, and what they say to type is what the programs take."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from receiver.adapters.monitoring.alertmanager import AlertmanagerAlarms
from receiver.config import load_text
from receiver.core.model.signals import Silence, silenced_pools
from tests.docs.commands import commands, fenced, is_command, queries, spans
from tests.docs.metrics_page import SIMULATED, THEMSELVES, exported_types, exporter_rows
from tests.docs.pages import ROOT, headings, section, text_of
from tests.lint import none_of
from tests.rules.files import ALERTS, HEARTBEAT, expected_alerts, run
from tests.rules.servers import running
from tools.metric_names import metrics_in
from tools.metric_readers import recordings

FOLDER = ROOT / "docs" / "runbooks"
SHAPE = ["Meaning", "Impact", "How to check", "How to fix", "How to silence", "False positives"]
RUNBOOKS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
POOL = """
pools:
  - {name: NAME, civo_pool_id: ID, size: an.g1.l40s.kube.x1, resources: {nvidia.com/gpu: 1}, max_nodes: 8}
"""
PROMETHEUS = re.compile(r"^- .* in Prometheus .*$", re.MULTILINE)
EVERYBODY = {"alertname", "component", "action", "severity", "namespace"}


def test_alerts_and_runbooks_are_the_same() -> None:
    assert [f"{alert}.md" for alert in sorted(a.name for a in ALERTS)] == sorted(path.name for path in FOLDER.iterdir())


def test_a_runbook_has_its_parts_in_order_and_each_says_something() -> None:
    def is_whole(text: str, name: str) -> bool:
        parts = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
        shape = (headings(text, 1), headings(text, 2)) == ([name], SHAPE)
        return shape and all(len(part.split()) > 2 for part in parts)

    none_of(name for name, text in RUNBOOKS.items() if not is_whole(text, name))


def test_a_runbook_says_what_to_type() -> None:
    def says(text: str) -> bool:
        check = section(text, "How to check")
        asks = [span for span in spans(check) if is_command(span)] or queries(check)
        return bool(asks) and any(line.startswith("amtool ") for line in fenced(_silence(text)))

    none_of(name for name, text in RUNBOOKS.items() if not says(text))


def _silence(text: str) -> str:
    """The part of how to silence, its commands included."""
    found = re.search(r"^## How to silence\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@cache
def _known() -> frozenset[str]:
    told = {name for title in (*SIMULATED, *THEMSELVES) for name in exporter_rows(title)}
    return frozenset({*told, *recordings(), *exported_types(), "ALERTS", "up", "DCGM_FI_DEV_SM_CLOCK"})


def _asked() -> list[tuple[str, str]]:
    pages = [(name, section(text, "How to check")) for name, text in RUNBOOKS.items()]
    pages.append(("troubleshooting", "\n".join(PROMETHEUS.findall(text_of("docs/troubleshooting.md")))))
    return [(name, query) for name, text in pages for query in queries(text)]


def test_the_queries_of_runbooks_can_be_parsed(tmp_path: Path) -> None:
    rules = [{"record": f"asked:{name}:{n}", "expr": query} for n, (name, query) in enumerate(_asked())]
    assert len(rules) > 30
    file = tmp_path / "asked.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}), encoding="utf-8")
    checked = run("promtool", "check", "rules", file)
    assert checked.returncode == 0, checked.stderr


def test_the_queries_of_runbooks_read_metrics_that_there_are() -> None:
    read = [(name, query, metrics_in(query, _known())) for name, query in _asked()]
    unknown = [
        f"{name}: {query} reads {sorted(metrics) or 'no metric'}"
        for name, query, metrics in read
        if not metrics or not {re.sub(r"_bucket$", "", metric) for metric in metrics} <= _known()
    ]
    none_of(unknown)


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real one; amtool reads what it has back to us."""
    folder = tmp_path_factory.mktemp("alertmanager")
    arguments = (
        f"--config.file={ROOT / 'rules' / 'alertmanager.yml'}",
        f"--storage.path={folder}",
        "--cluster.listen-address=",
    )
    with running("alertmanager", folder / "log", *arguments) as url:
        yield url


def test_what_silences_an_alert_fits_it_and_pauses_a_pool_only_where_the_page_says_so(alertmanager: str) -> None:
    """Every silence of the pages is made first, and then all are read at once."""
    shown = [
        (name, words)
        for name, text in RUNBOOKS.items()
        for words in commands(_silence(text), "amtool")
        if words[1:3] == ["silence", "add"]
    ]
    assert {name for name, _ in shown} == RUNBOOKS.keys() - {HEARTBEAT}
    ids = [_add(words, alertmanager) for _, words in shown]
    made = _silences(alertmanager)
    found, pausing, policy = list[str](), set[str](), load_text(POOL).policy
    for (name, words), id_ in zip(shown, ids, strict=True):
        matched = {matcher.name: matcher.value for matcher in made[id_].matchers}
        pauses = bool(silenced_pools([made[id_]], policy))
        if pauses:
            pausing.add(name)
        if not matched.keys() <= _labels(name) or made[id_].comment != "WHY":
            found.append(f"{name}: not a silence of this alert: {' '.join(words)}")
        if not pauses and matched["alertname"] != name:
            found.append(f"{name}: silences another alert: {' '.join(words)}")
    warned = {name for name, text in RUNBOOKS.items() if "**This pauses the pool**" in _silence(text)}
    found += [f"{name}: the page and the silence differ in whether the pool pauses" for name in warned ^ pausing]
    none_of(found)


def _labels(name: str) -> set[str]:
    """The labels that the alert *name* carries when it fires."""
    return EVERYBODY | {label for one in expected_alerts(name) for label in one["exp_labels"]} | {"name"}


def test_the_silence_of_the_heartbeat_can_be_found_and_ended(alertmanager: str) -> None:
    find, end = commands(_silence(RUNBOOKS["GpuAutoscalerHeartbeat"]), "amtool")
    made = _add(["amtool", "silence", "add", "--comment=x", "alertname=GpuAutoscalerHeartbeat"], alertmanager)
    assert made in run(*_at(find, alertmanager)).stdout
    assert run(*_at([word.replace("ID", made) for word in end], alertmanager)).returncode == 0
    assert made not in run(*_at(find, alertmanager)).stdout


def _at(words: list[str], url: str) -> list[str]:
    """*words* for the Alertmanager at *url* in place of the reader's."""
    said = [word for word in words if not word.startswith("--alertmanager.url=")]
    return [*said, f"--alertmanager.url={url}"]


def _add(words: list[str], url: str) -> str:
    """The id of the silence that the command *words* makes."""
    added = run(*_at(words, url))
    assert added.returncode == 0, f"{' '.join(words)}: {added.stderr}"
    return added.stdout.strip()


def _silences(url: str) -> dict[str, Silence]:
    """The silences by id, as the receiver reads them."""
    alarms = AlertmanagerAlarms([url])
    found = alarms.look()
    assert found.started_at is not None  # as a real Alertmanager says it
    alarms.close()
    return {silence.id: silence for silence in found.silences}
