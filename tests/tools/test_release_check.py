"""What is checked before a release, and what the release workflow asks of this repository."""

import re
from pathlib import Path

import pytest

from tests.lint import load_yaml, none_of
from tools import release_check
from tools.release_check import ROOT, check_versions, notes, version

WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")


def test_chart_changelog_and_package_are_of_one_version() -> None:
    none_of(check_versions(f"v{version()}"))


def test_another_tag_and_a_version_without_notes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(check_versions("v9.9.9")) == [f"the tag v9.9.9 is not v{version()}"]
    monkeypatch.setattr(release_check, "version", lambda: "9.9.9")
    assert "CHANGELOG.md has no section 9.9.9" in list(check_versions(""))


def test_the_notes_are_the_section_of_the_version_and_of_no_other() -> None:
    assert notes(version()).startswith("### Highlights")
    assert "\n## " not in notes(version())


def test_the_workflow_runs_targets_and_names_texts_that_there_are() -> None:
    jobs = load_yaml(WORKFLOW)["jobs"]
    assert jobs["publish"]["needs"] == "check"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"\bmake ([a-z-]+)", re.sub(r"^ *#.*$", "", WORKFLOW, flags=re.MULTILINE))
    assert set(targets) == {"test", "release-check"}
    none_of(target for target in targets if f"\n{target}: " not in makefile)
    [placeholder] = re.findall(r"s#(repository: [^#]+)#", WORKFLOW)
    assert placeholder in (ROOT / "k8s" / "chart" / "values.yaml").read_text(encoding="utf-8")
    arguments = re.findall(r"build-args: (\w+)=", WORKFLOW)
    none_of(name for name in arguments if f"ARG {name}" not in Path(ROOT / "Dockerfile").read_text(encoding="utf-8"))
