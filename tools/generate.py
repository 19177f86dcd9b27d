"""Write every file that is generated: `make generate`. Pictures and docs/alerts.md take minutes and have targets of
their own.

``python -m tools.generate messages wire`` runs these generators alone. A generator is a function that returns its files
as they should be, by path, and None for a file that should not exist.
"""

import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import structlog

ROOT = Path(__file__).resolve().parents[1]
Files = Mapping[Path, str | None]
# In this order: some read what those before them write.
GENERATORS = {
    "dashboards": "tools.dashboards.files:generated",
    "http-page": "tools.http_page:generated",
    "configuration-page": "tools.configuration_page:generated",
    "command-page": "tools.command_page:generated",
    "guardrails-page": "tools.guardrails_page:generated",
    "worked-example": "tests.docs.worked:generated",
    "shipped-rules": "tools.shipped_rules:generated",
    "operator-routing": "tools.operator_routing:generated",
    "chart-schema": "tools.chart_schema:generated",
    "chart-files": "tools.install_manifests:chart_files",
    "install-manifests": "tools.install_manifests:manifests",
    "bad-configurations": "tests.config.bad:generated",
    "bad-traces": "tests.replay.traces.bad:generated",
    "messages": "tests.core.notices.book:generated",
    "wire": "tests.core.notices.sent:generated",
    "incidents": "tests.incidents.play:generated",
}


def files_of(name: str) -> Files:
    """Return the files of the generator *name* as they should be."""
    module, _, function = GENERATORS[name].partition(":")
    found: Files = getattr(import_module(module), function)()
    return found


def stale(files: Files) -> Iterator[tuple[Path, str, str | None]]:
    """Yield each of *files* that is not as it should be: its path, what it says (nothing if it is missing), and what it
    should say."""
    for path, text in files.items():
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if before != (text or "") or path.exists() != (text is not None):
            yield path, before, text


def write(files: Files) -> Iterator[str]:
    """Write or remove those of *files* that are not as they should be. Yields what was done."""
    for path, _, text in list(stale(files)):
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        yield f"{path}: {'removed' if text is None else 'written'}"


def main(names: list[str]) -> int:
    """Run the generators *names*, or all; return the exit status."""
    if unknown := set(names) - GENERATORS.keys():
        print(f"unknown: {', '.join(sorted(unknown))}; choose from: {', '.join(GENERATORS)}", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")  # of libraries, which no reader of the output can act on
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for name in names or GENERATORS:
        for done in write(files_of(name)):
            print(done.removeprefix(f"{ROOT}/"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
