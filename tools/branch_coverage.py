"""Branch coverage of the core, the step and the adapters by the whole suite: `make coverage`.

``python -m tools.branch_coverage [PYTEST ARGUMENTS]`` runs the tests under coverage (the processes that they start
included, unless these are killed), and prints lines and branches reached by package and the least covered modules.
``--data DIR`` prints what a run before it left in DIR.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / ".build" / "coverage"
LEAST = 12  # modules that the table names
# The random worlds trace lines themselves, and coverage sees little of a worker after them: they get one of their own.
PARTS = (("--ignore", "tests/campaigns/faults"), ("tests/campaigns/faults",))


def coverage(data: Path, *arguments: str) -> int:
    """Run coverage with its files in *data*; its settings are in pyproject.toml. Returns its exit code."""
    environment = {**os.environ, "COVERAGE_FILE": str(data / "data")}
    command = [sys.executable, "-m", "coverage", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def table(files: dict[str, dict[str, dict[str, int]]]) -> Iterator[str]:
    """Yield the table from the "files" of coverage's JSON report."""
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for path, found in files.items():
        names = ("covered_lines", "num_statements", "covered_branches", "num_branches")
        figures = [found["summary"][name] for name in names]
        package = "/".join(Path(path).parts[:2])
        for key in (package, path):
            sums[key] = [a + b for a, b in zip(sums[key], figures, strict=True)]
    yield f"{'lines':>14} {'branches':>22}"
    packages = sorted(key for key in sums if not key.endswith(".py"))
    least = sorted((key for key in sums if key.endswith(".py")), key=lambda key: sums[key][2] - sums[key][3])[:LEAST]
    for key in (*packages, *least):
        lines, of, branches, of_branches = sums[key]
        share = branches / of_branches if of_branches else 1
        yield f"{lines:6} of {of:5} {branches:6} of {of_branches:5} {share:7.2%}  {key}"


def main() -> int:
    """Run, combine, print. Returns the exit code of pytest."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="print what is in this folder instead of running")
    parser.add_argument("--html", type=Path, help="also write pages with each line into this folder")
    given, pytest = parser.parse_known_args()
    data, failed = given.data or DATA, 0
    if given.data is None:
        data.mkdir(parents=True, exist_ok=True)
        for old in data.iterdir():
            old.unlink()
        for part in PARTS:
            suite = ("-m", "pytest", "-q", "-n", "4", "--dist", "loadfile", "--no-loadscope-reorder", *part)
            failed = coverage(data, "run", *suite, *pytest) or failed
        coverage(data, "combine", "-q")
    if coverage(data, "json", "-q", "-o", str(data / "report.json")):
        return 1
    if given.html:
        coverage(data, "html", "-q", "-d", str(given.html))
    print("\n".join(table(json.loads((data / "report.json").read_text(encoding="utf-8"))["files"])))
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
