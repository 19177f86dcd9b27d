"""What pages and the files of k8s tell people to apply, build or give to helm exists, and kubectl builds it."""

import re
from functools import cache
from pathlib import Path

from tests.docs.commands import commands
from tests.docs.pages import ROOT, every_page
from tests.lint import load_yamls, none_of
from tests.manifests.built import BUILT

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


@cache
def saying() -> dict[str, str]:
    """Return the text of every page and of the comments of every file, by name."""
    return every_page() | {str(f.relative_to(ROOT)): comments(f) for f in FILES}


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


@cache
def told() -> list[tuple[str, str]]:
    """Return each folder that kubectl is to build, after the name of the page or file that says so."""
    return [(name, folder) for name, text in saying().items() for folder in sorted(folders(text))]


def test_what_is_told_to_be_built_is_built_by_the_oldest_kubectl_and_a_new_one_in_the_tests() -> None:
    none_of(f"{name}: {f}" for name, f in told() if (ROOT / f).exists() and f.rstrip("/") not in BUILT)


def test_every_folder_that_is_told_to_be_built_is_there_or_made_by_the_page() -> None:
    def is_there(folder: str) -> bool:
        return (ROOT / folder / "kustomization.yaml").is_file()

    assert len({folder for _, folder in told()}) > 4
    none_of(f"{name}: {f}" for name, f in told() if not is_there(f) and not is_made(f, saying()[name]))


def test_every_file_that_is_told_to_be_sent_is_there_or_made_by_the_page() -> None:
    sent = [(name, file) for name, text in saying().items() for file in sorted(files(text))]
    assert len(sent) > 8
    none_of(f"{name}: {f}" for name, f in sent if not (ROOT / f).is_file() and not is_made(f, saying()[name]))


def test_a_file_that_is_told_to_be_sent_is_yaml() -> None:
    there = {f for text in saying().values() for f in files(text) if (ROOT / f).is_file()}
    none_of(f for f in sorted(there) if not load_yamls((ROOT / f).read_text(encoding="utf-8")))


def test_every_folder_that_can_be_applied_by_itself_is_told_of_somewhere() -> None:
    by_others = {"k8s/workloads/volcano", "k8s/workloads/team"}
    none_of(sorted(set(BUILT) - by_others - {folder for _, folder in told()}))


def test_no_chart_is_upgraded_to_another_version_by_the_way() -> None:
    asked = [words for text in saying().values() for words in commands(text, "helm")]
    upgrades = [words for words in asked if words[1:2] == ["upgrade"] and words[2:]]
    assert len(upgrades) >= 2
    none_of(" ".join(words) for words in upgrades if "--version" not in words and "k8s/chart" not in words)


def test_what_is_not_there_is_found() -> None:
    wrong = ("apply -k k8s/nowhere", "delete --ignore-not-found -k k8s/gone", "apply -f no.yaml")
    text = "".join(f"```sh\nkubectl {said}\n```\n" for said in wrong)
    assert (folders(text), files(text)) == ({"k8s/nowhere", "k8s/gone"}, {"no.yaml"})
    assert not is_made("no.yaml", text)
    assert is_made("no.yaml", "sed x y > no.yaml\n" + text)
