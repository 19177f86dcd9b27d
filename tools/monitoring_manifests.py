"""Write what rules/*.yaml and rules/prometheus.yml say as objects of the monitoring overlays: `make manifests`.

- ``k8s/overlays/kube-prometheus-stack/rules/``: one PrometheusRule (monitoring.coreos.com/v1) for each file.
- ``k8s/overlays/plain-prometheus/``: one ConfigMap with the files as they are, and one with the scrape jobs.

The text of a rule file is copied with its comments, so that the object explains itself.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "rules"
STACK = ROOT / "k8s" / "overlays" / "kube-prometheus-stack" / "rules"
PLAIN = ROOT / "k8s" / "overlays" / "plain-prometheus"
WRITTEN = "# Written by `make manifests` from {}: change that.\n"
# The name of the Helm release: kube-prometheus-stack's Prometheus takes up what bears it.
RELEASE = "kube-prometheus-stack"
# What a Prometheus of one's own has jobs for already.
OWN_JOBS = ("alertmanager", "prometheus")


def prometheus_rule(name: str, text: str) -> str:
    """Return the PrometheusRule of the rule file *name* (``pools.rules.yaml``) that holds *text*."""
    return (
        WRITTEN.format(f"rules/{name}")
        + "apiVersion: monitoring.coreos.com/v1\n"
        + "kind: PrometheusRule\n"
        + "metadata:\n"
        + f"  name: gpu-autoscaler-{name.removesuffix('.yaml').replace('.', '-')}\n"
        + "  namespace: gpu-autoscaler\n"
        + "  labels:\n"
        + "    app.kubernetes.io/name: gpu-autoscaler\n"
        + f"    release: {RELEASE}\n"
        + "spec:\n"
        + _indented(text, 2)
    )


def config_map(name: str, source: str, files: dict[str, str]) -> str:
    """Return a ConfigMap with *files* (text by name) that are made of *source*."""
    head = (
        WRITTEN.format(source)
        + "apiVersion: v1\n"
        + "kind: ConfigMap\n"
        + "metadata:\n"
        + f"  name: {name}\n"
        + "  namespace: monitoring\n"
        + "  labels:\n"
        + "    app.kubernetes.io/name: gpu-autoscaler\n"
        + "data:\n"
    )
    return head + "".join(f"  {key}: |\n{_indented(text, 4)}" for key, text in files.items())


def scrape_jobs(text: str) -> str:
    """Return the scrape jobs of Prometheus' configuration *text* that a Prometheus of one's own lacks, in the form of
    its ``scrape_config_files``. Jobs that belong together stand in one block with their comment."""
    _, _, jobs = text.partition("\nscrape_configs:\n")
    blocks = jobs.rstrip("\n").split("\n\n")
    kept = [block for block in blocks if not any(f"job_name: {own}\n" in block for own in OWN_JOBS)]
    return "scrape_configs:\n" + "\n\n".join(kept) + "\n"


def manifests() -> dict[Path, str]:
    """Return the files by where they are."""
    rules = {path.name: path.read_text(encoding="utf-8") for path in sorted(RULES.glob("*.yaml"))}
    scraped = scrape_jobs((RULES / "prometheus.yml").read_text(encoding="utf-8"))
    return {
        **{STACK / name: prometheus_rule(name, text) for name, text in rules.items()},
        PLAIN / "rules.yaml": config_map("gpu-autoscaler-rules", "rules/*.yaml", rules),
        PLAIN / "scrape.yaml": config_map(
            "gpu-autoscaler-scrape", "rules/prometheus.yml", {"gpu-autoscaler.yml": scraped}
        ),
    }


def _indented(text: str, by: int) -> str:
    return "".join(" " * by + line if line.strip() else line for line in text.splitlines(keepends=True))


def main() -> int:
    """Write the files, and take away those of rule files that are gone."""
    STACK.mkdir(parents=True, exist_ok=True)
    wanted = manifests()
    for path in STACK.glob("*.yaml"):
        if path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
