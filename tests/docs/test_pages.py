"""What the pages point at exists: links, make targets, commands, tests, files, names, metrics, variables."""

import re
import sqlite3
import subprocess
import sys
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest
import yaml

from receiver.adapters.store import open_store
from receiver.cli.main import main
from receiver.config import load_text
from receiver.config.environment import SECRET, VARIABLES
from receiver.core.model.signals import Alert
from receiver.ports import Delivery
from tests.docs.pages import PAGES, ROOT, headings, section, table, text_of, without_code
from tests.metrics.test_metrics import TOTALS
from tests.metrics.test_metrics import text_of as metrics_of
from tests.step.harness import START
from tests.web.builders import a_full_store

every_page = pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
ADRS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
TESTS = frozenset(
    name
    for path in (ROOT / "tests").rglob("*.py")
    for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
)


def anchors(text: str) -> set[str]:
    """The anchors that a forge gives to the headings of *text*."""
    titles = [re.sub(r"[`*]|\]\([^)]*\)|\[", "", t) for n in range(1, 5) for t in headings(text, n)]
    return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}


def links(text: str) -> list[str]:
    """The targets of the relative links in *text*."""
    return [t for t in re.findall(r"\]\(([^)\s]+)\)", without_code(text)) if not re.match(r"[a-z]+:", t)]


@cache
def metrics() -> frozenset[str]:
    """The names of all metrics that a full store gives."""
    store = a_full_store()
    store.totals = TOTALS
    return frozenset(re.findall(r"^# TYPE (\w+)", metrics_of(store), re.MULTILINE))


@every_page
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    broken = []
    for target in links(text):
        path, _, anchor = target.partition("#")
        there = (page.parent / path) if path else page
        if not there.exists() or (anchor and anchor not in anchors(there.read_text(encoding="utf-8"))):
            broken.append(target)
    assert broken == []


@every_page
def test_every_make_target_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z][a-z-]+)", page.read_text(encoding="utf-8"))) <= targets


@every_page
def test_every_command_of_ours_exists(page: Path) -> None:
    said = re.findall(r"(?:`|^ *|\$ )gpu-autoscaler ([a-z][a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(said) <= set(main.commands)


@every_page
def test_every_test_that_is_named_exists(page: Path) -> None:
    assert set(re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8"))) <= TESTS


@every_page
def test_every_file_that_is_named_exists(page: Path) -> None:
    text = without_code(page.read_text(encoding="utf-8"))
    named = re.findall(r"`((?:receiver|simulator|rules|tests|tools|demo|docs|k8s|requirements)/[\w./*-]*\w)`", text)
    assert [name for name in named if not any(ROOT.glob(name))] == []


@every_page
def test_every_metric_that_is_named_is_served(page: Path) -> None:
    named = set(re.findall(r"gpu_autoscaler_\w+", page.read_text(encoding="utf-8")))
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in named} <= metrics()


@every_page
def test_every_variable_that_is_named_is_read(page: Path) -> None:
    known = {*VARIABLES, *(f"{name}_FILE" for name in SECRET)}
    assert set(re.findall(r"\b(?:GPU_AUTOSCALER|CIVO)_[A-Z_]+\b", page.read_text(encoding="utf-8"))) <= known


@every_page
def test_no_page_tells_where_somebody_keeps_their_files(page: Path) -> None:
    assert re.findall(r"(?<![\w.])/(?:home|root|Users|tmp|work|mnt)/\S+", page.read_text(encoding="utf-8")) == []


@every_page
def test_configurations_of_ours_are_taken(page: Path) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for block in blocks:
        if "pools" in yaml.safe_load(block):
            load_text(block)


def test_every_page_that_the_code_and_the_rules_name_exists() -> None:
    sources = [p for part in ("receiver", "simulator", "tests", "tools", "demo") for p in (ROOT / part).rglob("*.py")]
    sources += [ROOT / "pyproject.toml", ROOT / "Makefile", *(ROOT / "rules").iterdir()]
    named = {n for p in sources for n in re.findall(r"\bdocs/[\w/-]+\.md", p.read_text(encoding="utf-8"))}
    assert named
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_every_guide_that_messages_and_pages_lead_to_exists() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "receiver").rglob("*.py"))
    named = set(re.findall(r"""["'/]((?:runbooks/)?[A-Za-z-]+\.md(?:#[\w-]+)?)["']""", code))
    assert named
    broken = []
    for guide in named:
        page, _, anchor = guide.partition("#")
        there = ROOT / "docs" / page
        if not there.is_file() or (anchor and anchor not in anchors(there.read_text(encoding="utf-8"))):
            broken.append(guide)
    assert broken == []


def test_every_target_of_the_readme_and_of_contributing_is_one_that_make_tells() -> None:
    told = set(re.findall(r"^([a-z-]+):.*## ", text_of("Makefile"), re.MULTILINE))
    listed = {re.sub("[`]|make ", "", row[0]) for row in table(section(text_of("CONTRIBUTING.md"), "Set up"))}
    assert listed <= told
    assert {"demo", "test"} <= listed


@pytest.mark.parametrize("page", ADRS, ids=[p.stem for p in ADRS])
def test_a_decision_page_has_its_number_and_four_parts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert headings(text, 2) == ["Context", "Decision", "Consequences", "Rejected"]
    assert headings(text, 1)[0].startswith(f"{page.name[:4]}. ")


def test_decision_pages_are_numbered_without_a_gap() -> None:
    assert [int(page.name[:4]) for page in ADRS] == list(range(1, len(ADRS) + 1))


def test_ten_invariants_are_told_each_with_tests() -> None:
    page = text_of("docs/invariants.md")
    titles = headings(page, 2)
    assert [title.split()[0] for title in titles] == [f"{n}." for n in range(1, 11)]
    assert [title for title in titles if "`test_" not in section(page, title)] == []


def test_the_backup_that_operations_shows_gives_a_store_with_everything_in_it(tmp_path: Path) -> None:
    [program] = re.findall(r"python3 -c '(.*?)' ledger\.db backup\.db", text_of("docs/operations.md"))
    live = open_store(f"sqlite:///{tmp_path}/ledger.db")
    alert = Alert(fingerprint="f", labels={"action": "scale_up"}, starts_at=START)
    number = live.remember(Delivery(receiver="r", group_key="g", alerts=(alert,)), START)
    command = [sys.executable, "-c", program, f"{tmp_path}/ledger.db", f"{tmp_path}/backup.db"]
    subprocess.run(command, check=True, timeout=60)
    live.close()
    copy = open_store(f"sqlite:///{tmp_path}/backup.db")
    assert copy.memory(START, START - timedelta(days=1)).deliveries == (number,)
    copy.close()
    with sqlite3.connect(f"{tmp_path}/backup.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
