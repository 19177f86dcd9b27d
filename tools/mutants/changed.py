"""Which functions changed since a commit, in the working tree and the commits between."""

import re
import subprocess
from collections import defaultdict
from pathlib import Path

from tools.mutants.nearest import ROOT
from tools.mutants.plant import functions_at

HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


def changed_functions(since: str, root: Path = ROOT) -> dict[str, set[str]]:
    """Return the functions below `receiver` that changed since the merge base of HEAD and *since*, by module.

    Raises ValueError for a *since* that git does not know, SyntaxError.
    """
    base = _git(root, "merge-base", since, "HEAD").strip()
    found: dict[str, set[str]] = defaultdict(set)
    diff = _git(root, "diff", "-U0", "--no-color", "--no-ext-diff", "--no-prefix", base, "--", "receiver/*.py")
    for part in re.split(r"^diff --git ", diff, flags=re.MULTILINE)[1:]:
        path = re.search(r"^\+\+\+ (\S+)$", part, re.MULTILINE)
        if path is not None and path[1] != "/dev/null":
            lines = {line for hunk in HUNK.finditer(part) for line in _lines(hunk)}
            found[_module(path[1])] |= functions_at((root / path[1]).read_text(encoding="utf-8"), lines)
    for new in _git(root, "ls-files", "--others", "--exclude-standard", "--", "receiver/*.py").splitlines():
        text = (root / new).read_text(encoding="utf-8")
        found[_module(new)] |= functions_at(text, range(1, text.count("\n") + 2))
    return {module: functions for module, functions in found.items() if functions}


def _lines(hunk: re.Match[str]) -> range:
    """The new lines of *hunk*; where lines only went, the line before them and the one after."""
    first, count = int(hunk[1]), int(hunk[2] or 1)
    return range(first, first + (count or 2))


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _git(root: Path, *arguments: str) -> str:
    ran = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise ValueError(f"git {arguments[0]}: {ran.stderr.strip()}")
    return ran.stdout
