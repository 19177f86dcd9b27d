"""What the pages point at exists: links, make targets, commands, tests, files, names, metrics, variables."""

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path

from receiver.adapters.store import open_store
from receiver.cli.main import main
from receiver.config import ConfigError, load_text
from receiver.config.environment import SECRET, VARIABLES
from receiver.core.model.signals import Alert
from receiver.ports import Delivery
from tests.docs.pages import ROOT, anchors, every_page, headings, in_pages, section, table, text_of, without_code
from tests.given.life import START
from tests.lint import load_yaml, none_of
from tests.manifests.built import read, the
from tests.metrics.counted import a_counted_store
from tests.metrics.scrapes import scrape
from tools.install_manifests import helm

ADRS = [name for name in every_page() if re.match(r"docs/decisions/\d", name)]
OF_OURS = r"`((?:receiver|simulator|campaigns|rules|tests|tools|demo|docs|k8s|requirements)/[\w./*-]*\w)`"


@cache
def known_tests() -> frozenset[str]:
    """The names of all tests."""
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    return frozenset(name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE))


@cache
def metrics() -> frozenset[str]:
    """The names of all metrics that a full store gives."""
    return frozenset(re.findall(r"^# TYPE (\w+)", scrape(a_counted_store()), re.MULTILINE))


def leads_nowhere(link: str, page: Path) -> bool:
    """Whether the relative *link* on *page* has no target."""
    path, _, anchor = link.partition("#")
    there = page.parent / path if path else page
    return not there.exists() or bool(anchor and anchor not in anchors(text_of(str(there.resolve()))))


def test_every_relative_link_leads_somewhere() -> None:
    def links(text: str) -> list[str]:
        return [t for t in re.findall(r"\]\(([^)\s]+)\)", without_code(text)) if not re.match(r"[a-z]+:", t)]

    told = [(page, link) for page, text in every_page().items() for link in links(text)]
    assert len(told) > 500
    none_of(f"{page}: {link}" for page, link in told if leads_nowhere(link, ROOT / page))


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    none_of(in_pages(lambda text: set(re.findall(r"`make ([a-z][a-z-]+)", text)) - targets))


def test_every_command_of_ours_exists() -> None:
    ours = re.compile(r"(?:`|^ *|\$ )gpu-autoscaler ([a-z][a-z-]+)", re.MULTILINE)
    none_of(in_pages(lambda text: set(ours.findall(text)) - main.commands.keys()))


def test_every_test_that_is_named_exists() -> None:
    none_of(in_pages(lambda text: set(re.findall(r"`(test_\w+)`", text)) - known_tests()))


def test_every_file_that_is_named_exists() -> None:
    there = cache(lambda name: any(ROOT.glob(name)))
    none_of(in_pages(lambda text: [n for n in re.findall(OF_OURS, without_code(text)) if not there(n)]))


def test_every_metric_that_is_named_is_served() -> None:
    def named(text: str) -> set[str]:
        return {re.sub(r"_(bucket|count|sum)$", "", name) for name in re.findall(r"gpu_autoscaler_\w+", text)}

    none_of(in_pages(lambda text: named(text) - metrics()))


def test_every_variable_that_is_named_is_read() -> None:
    known = {*VARIABLES, *(f"{name}_FILE" for name in SECRET)}
    none_of(in_pages(lambda text: set(re.findall(r"\b(?:GPU_AUTOSCALER|CIVO)_[A-Z_]+\b", text)) - known))


def test_no_page_tells_where_somebody_keeps_their_files() -> None:
    none_of(in_pages(lambda text: re.findall(r"(?<![\w.])/(?:home|root|Users|tmp|work|mnt)/\S+", text)))


def test_configurations_of_ours_are_taken() -> None:
    def refused(text: str) -> Iterator[str]:
        for block in re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            if "pools" in (said := load_yaml(block)):
                try:
                    if said.keys() <= {"image", "pools", "config"} and "image" in said:  # values of the chart
                        block = block.replace("YOUR_REGISTRY", "registry.example.org")
                        block = the(tuple(read(helm("--values", "-", text=block))), "ConfigMap")["data"]["config.yaml"]
                    load_text(block)
                except ConfigError as error:
                    yield f"{block}{error}"

    none_of(in_pages(refused))


def test_every_page_that_the_code_and_the_rules_name_exists() -> None:
    sources = [p for part in ("receiver", "simulator", "tests", "tools", "demo") for p in (ROOT / part).rglob("*.py")]
    sources += [ROOT / "pyproject.toml", ROOT / "Makefile", *(ROOT / "rules").iterdir()]
    named = {n for p in sources for n in re.findall(r"\bdocs/[\w/-]+\.md", p.read_text(encoding="utf-8"))}
    assert named
    none_of(name for name in sorted(named) if not (ROOT / name).exists())


def test_every_guide_that_messages_and_pages_lead_to_exists() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "receiver").rglob("*.py"))
    named = set(re.findall(r"""["'/]((?:runbooks/)?[A-Za-z-]+\.md(?:#[\w-]+)?)["']""", code))
    assert named
    none_of(guide for guide in sorted(named) if leads_nowhere(guide, ROOT / "docs" / "any page"))


def test_every_target_of_the_readme_and_of_contributing_is_one_that_make_tells() -> None:
    told = set(re.findall(r"^([a-z-]+):.*## ", text_of("Makefile"), re.MULTILINE))
    listed = {re.sub("[`]|make ", "", row[0]) for row in table(section(text_of("CONTRIBUTING.md"), "Set up"))}
    assert listed <= told
    assert {"demo", "test"} <= listed


def test_a_decision_page_has_its_number_and_four_parts() -> None:
    def is_whole(name: str, text: str) -> bool:
        parts = ["Context", "Decision", "Consequences", "Rejected"]
        return headings(text, 2) == parts and headings(text, 1)[0].startswith(f"{Path(name).name[:4]}. ")

    none_of(name for name in ADRS if not is_whole(name, text_of(name)))


def test_decisions_are_numbered_without_a_gap_and_each_page_has_its_line() -> None:
    rows = table(text_of("docs/decisions/README.md"))
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    linked = {f"docs/decisions/{link}" for _, line in rows for link in re.findall(r"\]\(([^)]+)\)", line)}
    assert linked == set(ADRS)


def test_a_decision_that_code_or_pages_lean_on_has_its_page() -> None:
    code = [path.read_text(encoding="utf-8") for path in (ROOT / "receiver").rglob("*.py")]
    texts = [*code, text_of("pyproject.toml"), *every_page().values()]
    numbers = {number for text in texts for number in re.findall(r"docs/decisions/(\d{4})", text)}
    assert numbers
    none_of(sorted(numbers - {Path(name).name[:4] for name in ADRS}))


def test_ten_invariants_are_told_each_with_tests() -> None:
    page = text_of("tests/README.md")
    titles = headings(page, 3)
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
