"""What `kubectl apply` takes without Helm, rendered from the chart.

- ``k8s/install/``: one file for each way to run the autoscaler, and one for each kind of monitoring.
- ``k8s/chart/files/scrape.yml``: the scrape jobs of rules/prometheus.yml that a Prometheus of one's own lacks.
- ``k8s/chart/files/rules`` and ``k8s/chart/files/dashboards``: copies of the files of rules and dashboards. Links would
  do for Helm, but Flux leaves links out of the archive that it renders (https://github.com/fluxcd/flux2/issues/4088).
"""

import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "k8s" / "chart"
INSTALL = ROOT / "k8s" / "install"
SCRAPE = CHART / "files" / "scrape.yml"
COPIED = {
    "rules": "*.yaml",
    "dashboards": "*.json",
}  # folder of the repository and of the chart's files, and what of it
HELM = ROOT / ".build" / "bin" / "helm-4"
NAME = "gpu-autoscaler"  # of the release and of its namespace
EXAMPLE = CHART / "ci" / "example-values.yaml"
# Labels of what Helm installs, which these files are not.
OF_HELM = re.compile(r"^ +(app\.kubernetes\.io/managed-by|helm\.sh/chart): .*\n", re.MULTILINE)
OWN_JOBS = ("alertmanager", "prometheus")  # what a Prometheus of one's own has jobs for already
WRITTEN = "# Written by `make generate` from k8s/chart: change that.\n"
# The values of each file beside the example's, which of the chart's templates it holds, and what it is.
SERVER, MONITORING = r"templates/[^/]+\.yaml", r"templates/monitoring/.+"
FILES = {
    "observe": (
        "createNamespace=true",
        SERVER,
        "One replica with a volume: decides, reports, changes nothing.",
    ),
    "act": ("createNamespace=true,mode=act", SERVER, "The same with `mode: act` and the rights to make changes."),
    "ha": ("createNamespace=true,ha.enabled=true", SERVER, "Three replicas on PostgreSQL, observing."),
    "vm": ("createNamespace=true,runsOn=vm", SERVER, "What an autoscaler outside of the cluster needs in it."),
    "act-rights": ("mode=act", r"templates/act-rights\.yaml", "Only the rights to make changes."),
    "fence": ("mode=act", r"templates/fence/.+", "Bounds on the rights to make changes; Kubernetes 1.30 or newer."),
    "kube-prometheus-stack": ("dashboards.enabled=false", MONITORING, "Monitoring with the Prometheus Operator."),
    "plain-prometheus": ("monitoring=plain", MONITORING, "Monitoring with a Prometheus without the operator."),
}


class NotRendered(Exception):
    """Helm refused the values; the text is what it said."""


@cache
def helm(*arguments: str | Path, text: str | None = None) -> str:
    """Return the output of ``helm template`` for the chart with *arguments*, and *text* as its standard input; the same
    arguments are rendered once. Raises NotRendered."""
    command = [HELM, "template", NAME, CHART, "--namespace", NAME, *arguments]
    environment = {**os.environ, "GOGC": "800"}  # collects no garbage in a quarter of a second
    ran = subprocess.run(command, capture_output=True, text=True, input=text, env=environment, timeout=60, check=False)
    if ran.returncode != 0:
        raise NotRendered("\n".join(line for line in ran.stderr.splitlines() if not line.startswith("level=INFO")))
    return ran.stdout


def rendered(values: str, templates: str) -> str:
    """Return the objects that the example's values with *values* make of the *templates* (a pattern of their paths)."""
    return "---\n" + "---\n".join(
        f"{OF_HELM.sub('', text).strip()}\n"
        for source, text in _by_source(helm("--values", EXAMPLE, "--set", values))
        if re.fullmatch(templates, source)
    )


def _by_source(text: str) -> Iterator[tuple[str, str]]:
    """Yield each object's template and text."""
    for part in re.split(r"^---\n", text, flags=re.MULTILINE):
        source, _, rest = part.partition("\n")
        if source.startswith("# Source: ") and rest.strip():
            yield source.removeprefix(f"# Source: {NAME}/"), rest


def scrape_jobs(text: str) -> str:
    """Return the scrape jobs of Prometheus' configuration *text* that a Prometheus of one's own lacks, in the form of
    its ``scrape_config_files``. Jobs that belong together stand in one block with their comment."""
    _, _, jobs = text.partition("\nscrape_configs:\n")
    blocks = jobs.rstrip("\n").split("\n\n")
    kept = [block for block in blocks if not any(f"job_name: {own}\n" in block for own in OWN_JOBS)]
    return "scrape_configs:\n" + "\n\n".join(kept) + "\n"


def scraped() -> str:
    """Return the content of the chart's scrape.yml."""
    return scrape_jobs((ROOT / "rules" / "prometheus.yml").read_text(encoding="utf-8"))


def copies() -> dict[Path, str]:
    """Return the chart's copies of rules and dashboards by where they are."""
    return {
        CHART / "files" / folder / path.name: path.read_text(encoding="utf-8")
        for folder, pattern in COPIED.items()
        for path in sorted((ROOT / folder).glob(pattern))
    }


def copied() -> set[Path]:
    """Return the files that are in the folders of copies."""
    return {path for folder in COPIED for path in (CHART / "files" / folder).iterdir()}


def manifests() -> dict[Path, str | None]:
    """Return the files of k8s/install by where they are; None for one that was rendered and is of no entry any more."""
    written = [path for path in INSTALL.glob("*.yaml") if path.read_text(encoding="utf-8").startswith(WRITTEN)]
    texts = {
        INSTALL / f"{name}.yaml": f"{WRITTEN}# {what}\n{rendered(values, templates)}"
        for name, (values, templates, what) in FILES.items()
    }
    return {**dict.fromkeys(written), **texts}


def chart_files() -> dict[Path, str | None]:
    """Return what the chart has of rules, dashboards and scrape jobs; None for a copy of a file that is gone."""
    return {**dict.fromkeys(copied()), **copies(), SCRAPE: scraped()}
