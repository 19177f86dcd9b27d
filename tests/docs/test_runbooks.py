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
from tests.docs.pages import ROOT, headings, section, text_of
from tests.docs.test_metrics_page import SIMULATED, THEMSELVES, received, rows
from tests.rules.files import ALERTS, Rule, run
from tests.rules.servers import running
from tests.rules.test_conventions import fired
from tools.metric_names import metrics_in
from tools.metrics_page import recordings

FOLDER = ROOT / "docs" / "runbooks"
URL = "https://civo-gpu-autoscaler.example/docs/runbooks/"
SHAPE = ["Meaning", "Impact", "How to check", "How to fix", "How to silence", "False positives"]
RUNBOOKS = sorted(FOLDER.glob("*"))
every_runbook = pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
POOL = """
pools:
  - {name: NAME, civo_pool_id: ID, size: an.g1.l40s.kube.x1, resources: {nvidia.com/gpu: 1}, max_nodes: 8}
"""
PROMETHEUS = re.compile(r"^- .* in Prometheus .*$", re.MULTILINE)
EVERYBODY = {"alertname", "component", "action", "severity", "namespace"}


def test_alerts_and_runbooks_are_the_same() -> None:
    assert [f"{alert}.md" for alert in sorted(a.name for a in ALERTS)] == [path.name for path in RUNBOOKS]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_an_alert_leads_to_its_own_runbook(alert: Rule) -> None:
    url = alert.body["annotations"]["runbook_url"]
    assert url == f"{URL}{alert.name}.md"
    assert (FOLDER / url.removeprefix(URL)).is_file()


@every_runbook
def test_a_runbook_has_its_parts_in_order_and_each_says_something(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert headings(text, 1) == [path.stem]
    assert headings(text, 2) == SHAPE
    parts = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    assert [len(part.split()) > 2 for part in parts] == [True] * len(SHAPE)


@every_runbook
def test_a_runbook_says_what_to_type(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    check = section(text, "How to check")
    assert [span for span in spans(check) if is_command(span)] or queries(check)
    assert [line for line in fenced(_silence(text)) if line.startswith("amtool ")]


def _silence(text: str) -> str:
    """The part of how to silence, its commands included."""
    found = re.search(r"^## How to silence\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@cache
def _known() -> frozenset[str]:
    told = {name for title in (*SIMULATED, *THEMSELVES) for name in rows(title)}
    return frozenset({*told, *recordings(), *received(), "ALERTS", "up", "DCGM_FI_DEV_SM_CLOCK"})


def _asked() -> list[tuple[str, str]]:
    pages = [(path.stem, section(path.read_text("utf-8"), "How to check")) for path in RUNBOOKS]
    pages.append(("troubleshooting", "\n".join(PROMETHEUS.findall(text_of("docs/troubleshooting.md")))))
    return [(name, query) for name, text in pages for query in queries(text)]


def test_the_queries_of_runbooks_can_be_parsed(tmp_path: Path) -> None:
    rules = [{"record": f"asked:{name}:{n}", "expr": query} for n, (name, query) in enumerate(_asked())]
    assert len(rules) > 30
    file = tmp_path / "asked.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}), encoding="utf-8")
    checked = run("promtool", "check", "rules", file)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(("name", "query"), _asked())
def test_the_queries_of_runbooks_read_metrics_that_there_are(name: str, query: str) -> None:
    read = {re.sub(r"_bucket$", "", metric) for metric in metrics_in(query, _known())}
    assert read
    assert read <= _known()


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


@every_runbook
def test_what_silences_an_alert_fits_it_and_pauses_a_pool_only_where_the_page_says_so(
    path: Path, alertmanager: str
) -> None:
    text = _silence(path.read_text(encoding="utf-8"))
    [alert] = [alert for alert in ALERTS if alert.name == path.stem]
    labels = EVERYBODY | {label for one in fired(alert.name) for label in one["exp_labels"]} | {"name"}
    paused = False
    for words in commands(text, "amtool"):
        if words[1:3] != ["silence", "add"]:
            continue
        silence = _made(words, alertmanager)
        matched = {matcher.name: matcher.value for matcher in silence.matchers}
        assert set(matched) <= labels
        assert silence.comment == "WHY"
        pauses = bool(silenced_pools([silence], load_text(POOL).policy))
        assert pauses or matched["alertname"] == alert.name
        paused |= pauses
    assert paused == ("**This pauses the pool**" in text)


def test_the_silence_of_the_heartbeat_can_be_found_and_ended(alertmanager: str) -> None:
    find, end = commands(_silence((FOLDER / "GpuAutoscalerHeartbeat.md").read_text(encoding="utf-8")), "amtool")
    made = _made(["amtool", "silence", "add", "--comment=x", "alertname=GpuAutoscalerHeartbeat"], alertmanager)
    assert made.id in run(*_at(find, alertmanager)).stdout
    assert run(*_at([word.replace("ID", made.id) for word in end], alertmanager)).returncode == 0
    assert made.id not in run(*_at(find, alertmanager)).stdout


def _at(words: list[str], url: str) -> list[str]:
    """*words* for the Alertmanager at *url* in place of the reader's."""
    said = [word for word in words if not word.startswith("--alertmanager.url=")]
    return [*said, f"--alertmanager.url={url}"]


def _made(words: list[str], url: str) -> Silence:
    """The silence that the command *words* makes, as the receiver reads it."""
    added = run(*_at(words, url))
    assert added.returncode == 0, added.stderr
    alarms = AlertmanagerAlarms([url])
    [silence] = [silence for silence in alarms.look().silences if silence.id == added.stdout.strip()]
    alarms.close()
    return silence
