"""What pages and the files of k8s tell people to apply, build or give to helm exists, and kubectl builds it."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.commands import commands
from tests.docs.pages import PAGES, ROOT
from tests.lint import load_yamls
from tests.manifests.built import NEW, OLD, build, read

OF_FILES = frozenset({"apply", "create", "delete"})
FILES = sorted((ROOT / "k8s").rglob("*.yaml"))
MADE = r"> {0}\b|# {0}\n|here `{0}`|`{0}/|^({0})$"  # by redirection, as the head of a block, by a name that is given


def comments(file: Path) -> str:
    """Return the comments of a YAML *file* as a block of shell, of which only commands are looked at."""
    lines = [
        line.removeprefix("#").strip() for line in file.read_text(encoding="utf-8").splitlines() if line[:1] == "#"
    ]
    said = [re.sub(r"^Not part of .*?: |^Checked by: ", "", line) for line in lines]
    return "```sh\n" + "\n".join(line for line in said if re.match(r"(kubectl|helm|--|\|)", line)) + "\n```\n"


SAYING = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in PAGES}
SAYING |= {str(f.relative_to(ROOT)): comments(f) for f in FILES}


def folders(text: str) -> set[str]:
    """Return the folders that kubectl is to build."""
    found = set()
    for words in commands(text, "kubectl"):
        found |= {words[n + 1] for n, word in enumerate(words[:-1]) if word in ("-k", "kustomize")}
    return found


def files(text: str) -> set[str]:
    """Return the files that kubectl is to send, or helm to read; not what comes through a pipe."""
    found = set()
    for words in commands(text, "kubectl"):
        if OF_FILES & set(words):
            found |= {words[n + 1] for n, word in enumerate(words[:-1]) if word == "-f"}
    for words in commands(text, "helm"):
        found |= {words[n + 1] for n, word in enumerate(words[:-1]) if word in ("--values", "-f")}
    return found - {"-"}


def is_made(name: str, text: str) -> bool:
    """Whether the page itself lets its reader make *name*."""
    return re.search(MADE.format(re.escape(name)), text, re.MULTILINE) is not None


EVERY = sorted({folder for text in SAYING.values() for folder in folders(text)})


@cache
def kinds(folder: str, kubectl: str) -> tuple[str, ...]:
    return tuple(o["kind"] for o in read(build(ROOT / folder, kubectl)))


@pytest.mark.parametrize("folder", [f for f in EVERY if (ROOT / f).exists()])
def test_what_is_told_to_be_built_is_built_by_the_oldest_kubectl_and_a_new_one(folder: str) -> None:
    assert kinds(folder, NEW)
    assert sorted(kinds(folder, OLD)) == sorted(kinds(folder, NEW))


def test_every_folder_that_is_told_to_be_built_is_there_or_made_by_the_page() -> None:
    assert len(EVERY) > 8
    missing = {
        f"{name}: {folder}"
        for name, text in SAYING.items()
        for folder in folders(text)
        if not (ROOT / folder / "kustomization.yaml").is_file() and not is_made(folder, text)
    }
    assert missing == set()


def test_every_file_that_is_told_to_be_sent_is_there_or_made_by_the_page() -> None:
    told = [(name, file) for name, text in SAYING.items() for file in files(text)]
    assert len(told) > 8
    assert [f"{name}: {f}" for name, f in told if not (ROOT / f).is_file() and not is_made(f, SAYING[name])] == []


@pytest.mark.parametrize("file", sorted({f for text in SAYING.values() for f in files(text) if (ROOT / f).is_file()}))
def test_a_file_that_is_told_to_be_sent_is_yaml(file: str) -> None:
    assert [found for found in load_yamls((ROOT / file).read_text(encoding="utf-8")) if found]


def test_every_folder_that_can_be_applied_by_itself_is_told_of_somewhere() -> None:
    there = {str(f.parent.relative_to(ROOT)) for f in FILES if f.name == "kustomization.yaml"}
    parts = {"k8s/base", "k8s/volume", "k8s/alertmanager", "k8s/overlays/kube-prometheus-stack/dashboards"}
    bases = {
        "k8s/overlays/observe",
        "k8s/overlays/act",
        "k8s/overlays/ha-postgres",
    }  # the reader's own overlay has them
    assert there - parts - bases <= set(EVERY) | {"k8s/workloads/volcano", "k8s/workloads/team"}


def test_no_chart_is_upgraded_to_another_version_by_the_way() -> None:
    upgrades = [words for text in SAYING.values() for words in commands(text, "helm") if words[1] == "upgrade"]
    assert len(upgrades) >= 4
    assert [" ".join(words) for words in upgrades if "--version" not in words] == []


def test_what_is_not_there_is_found() -> None:
    told = ("apply -k k8s/nowhere", "delete --ignore-not-found -k k8s/gone", "apply -f no.yaml")
    text = "".join(f"```sh\nkubectl {said}\n```\n" for said in told)
    assert (folders(text), files(text)) == ({"k8s/nowhere", "k8s/gone"}, {"no.yaml"})
    assert not is_made("no.yaml", text)
    assert is_made("no.yaml", "sed x y > no.yaml\n" + text)
