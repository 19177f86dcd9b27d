"""Check everything of a release that needs no registry: `make release-check`.

``python -m tools.release_check [--tag v0.2.0]`` builds wheel and chart into .build/release and judges them; exit code 1
if something does not fit. ``--notes`` only prints the changelog's section of this version.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tools.install_manifests import CHART, EXAMPLE, HELM, NAME, helm

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / ".build" / "release"
TEMPLATES = tuple(f"{folder.relative_to(ROOT).as_posix()}/" for folder in sorted(ROOT.glob("receiver/**/templates")))
WHEEL_HAS = ("receiver/config/civo_prices.yaml", "receiver/doctor/shipped_rules.json", *TEMPLATES)
WHEEL_LACKS = ("simulator/", "campaigns/", "tests/", "tools/")


def version() -> str:
    """Return the version of pyproject.toml."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def notes(of: str) -> str:
    """Return the dated section of CHANGELOG.md on the version *of*, empty without one."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## \[{re.escape(of)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def run(*command: str | Path) -> str:
    """Return the output of *command*. Raises RuntimeError with what it said when it fails."""
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {(ran.stderr or ran.stdout).strip()[-500:]}")
    return ran.stdout


def check_versions(tag: str) -> Iterator[str]:
    """Yield what names another version than pyproject.toml."""
    for key in ("version", "appVersion"):
        if f"\n{key}: {version()}\n" not in (CHART / "Chart.yaml").read_text(encoding="utf-8"):
            yield f"k8s/chart/Chart.yaml: {key} is not {version()}"
    if tag and tag != f"v{version()}":
        yield f"the tag {tag} is not v{version()}"
    if not notes(version()):
        yield f"CHANGELOG.md has no section {version()}"


def check_wheel(_tag: str) -> Iterator[str]:
    """Build the wheel of what is committed; yield what it lacks or has too much."""
    with tempfile.TemporaryDirectory() as folder:
        run("git", "archive", "--output", f"{folder}/tree.tar", "HEAD")
        tree = Path(folder) / "tree"
        with tarfile.open(f"{folder}/tree.tar") as archive:
            archive.extractall(tree, filter="data")
        run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", OUT, tree)
    [wheel] = OUT.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    yield from (f"{wheel.name} lacks {part}" for part in WHEEL_HAS if not any(n.startswith(part) for n in names))
    yield from (f"{wheel.name} has {n}" for n in names if n.startswith(WHEEL_LACKS))


def check_chart(_tag: str) -> Iterator[str]:
    """Package the chart; yield where the package differs from the folder."""
    run(HELM, "lint", "--strict", CHART, "--values", EXAMPLE)
    run(HELM, "package", CHART, "--destination", OUT)
    package = OUT / f"{NAME}-{version()}.tgz"
    if run(HELM, "template", NAME, package, "--namespace", NAME, "--values", EXAMPLE) != helm("--values", EXAMPLE):
        yield f"{package.name} makes other objects than k8s/chart"
    with tarfile.open(package) as archive:
        yield from (f"{package.name} has the link {m.name}" for m in archive if m.issym())


def check_tree(_tag: str) -> Iterator[str]:
    """Yield what is not committed."""
    yield from (f"not committed: {line}" for line in run("git", "status", "--porcelain").splitlines())


CHECKS: dict[str, Callable[[str], Iterator[str]]] = {
    "versions and changelog": check_versions,
    "wheel": check_wheel,
    "chart": check_chart,
    "work tree": check_tree,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every check and print what it found. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tag", default="", help="the tag to be released, such as v0.2.0")
    parser.add_argument("--notes", action="store_true", help="print the changelog's section and end")
    given = parser.parse_args(arguments)
    if given.notes:
        print(notes(version()))
        return 0
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    failed = False
    for name, check in CHECKS.items():
        try:
            wrong = list(check(given.tag))
        except RuntimeError as error:
            wrong = [str(error)]
        failed |= bool(wrong)
        print(f"{'FAIL' if wrong else 'ok':5} {name}", *(f"      {line}" for line in wrong), sep="\n")
    print("Not tried here: pushing, signing, arm64, and what `make image-check` proves of the image.")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
