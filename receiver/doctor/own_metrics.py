"""Our own /metrics, and the counters of Prometheus and Alertmanager themselves, as Prometheus has stored them."""

from collections.abc import Iterator, Mapping

from receiver.core.model.text import some
from receiver.doctor.finding import Check, Finding
from receiver.doctor.kube_state_metrics import Answers
from receiver.doctor.rules import asleep_without, read_by_rules
from receiver.doctor.told import few

OTHERS = tuple(name for part in ("alertmanager_", "prometheus_") for name in read_by_rules(part))
# Series that come with what they tell of: a budget, an action, a node that was bought.
SOMETIMES = tuple(f"gpu_autoscaler_{of}_" for of in ("action", "budget", "notices", "policy", "pool", "provision"))
ALWAYS = tuple(name for name in read_by_rules("gpu_autoscaler_") if not name.startswith(SOMETIMES))

QUERIES: Mapping[str, str] = {
    "own up": 'up{job="gpu-autoscaler"}',
    "own builds": "count by (job, version) (gpu_autoscaler_build_info)",
    "own metrics": 'count by (__name__) ({__name__=~"gpu_autoscaler_.+"})',
    "others": f'count by (__name__) ({{__name__=~"{"|".join(OTHERS)}"}})',
}

SCRAPED = Check(
    "telemetry.own",
    "whether Prometheus scrapes the autoscaler itself, under the job that the rules select",
    ("warn", "fail"),
    'scrape /metrics of the Service with job="gpu-autoscaler" (a ServiceMonitor takes the Service\'s name): the rules'
    " read pool names and thresholds there",
)
VERSION = Check(
    "telemetry.own_version",
    "whether what is scraped is of this program's version",
    ("warn", "skip"),
    "finish the rollout, or run the doctor of the version that runs",
)
FAMILIES = Check(
    "telemetry.own_metrics",
    "whether the metrics of ours that the rules read are stored",
    ("warn", "skip"),
    "keep metricRelabelings of our ServiceMonitor from dropping gpu_autoscaler_*",
)
WATCHED = Check(
    "telemetry.watchers",
    "whether Prometheus scrapes itself and Alertmanager, whose own counts two alerts read",
    ("warn",),
    "add the jobs prometheus and alertmanager of rules/prometheus.yml (kube-prometheus-stack has them)",
)
CHECKS = (SCRAPED, VERSION, FAMILIES, WATCHED)


def judge(answers: Answers, version: str) -> Iterator[Finding]:
    """Yield what the *answers* to `QUERIES` say; *version* is this program's."""
    found = scraped(answers)
    yield found
    if found.verdict != "fail":
        yield same_version(answers, version)
        yield stored(answers)
    yield watched(answers)


def scraped(answers: Answers) -> Finding:
    """Say whether it is scraped, and under which job otherwise."""
    jobs = sorted({sample.labels.get("job", "") for sample in answers["own builds"]})
    if any(sample.value == 1 for sample in answers["own up"]):
        return SCRAPED.passed(f"{some(len(answers['own up']), 'instance')} scraped")
    if jobs:
        return SCRAPED.warned(
            f'it is scraped as job="{jobs[0]}", and the alert GpuAutoscalerDown looks at gpu-autoscaler'
        )
    if answers["own up"]:
        return SCRAPED.failed("the autoscaler does not answer its scrapes")
    return SCRAPED.failed("Prometheus does not scrape the autoscaler")


def same_version(answers: Answers, version: str) -> Finding:
    """Say whether other versions run than the one that asks."""
    running = sorted({sample.labels.get("version", "") for sample in answers["own builds"]})
    if not running:
        return VERSION.skipped("gpu_autoscaler_build_info is not stored")
    if running != [version]:
        return VERSION.warned(f"scraped: {few(running)}; this is {version}")
    return VERSION.passed(f"all of it is {version}")


def stored(answers: Answers) -> Finding:
    """Say which metrics are missing that every installation has."""
    there = {sample.labels.get("__name__") for sample in answers["own metrics"]}
    missing = [name for name in ALWAYS if name not in there]
    if missing:
        silent = asleep_without(missing)
        hurt = f"; without it cannot fire: {few(silent)}" if silent else ""
        return FAMILIES.warned(f"not stored: {few(missing)}{hurt}")
    return FAMILIES.passed(f"{some(len(ALWAYS), 'metric')} that every installation has are there")


def watched(answers: Answers) -> Finding:
    """Say which alerts about the way of alerts sleep."""
    there = {sample.labels.get("__name__") for sample in answers["others"]}
    missing = [name for name in OTHERS if name not in there]
    silent = asleep_without(missing)
    if silent:
        return WATCHED.warned(f"not stored: {few(missing)}; without it cannot fire: {few(silent)}")
    return WATCHED.passed("their counts of failures are stored")
