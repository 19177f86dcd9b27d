"""What Prometheus has stored of our own /metrics, of its own counters and Alertmanager's, and of the exporters."""

from collections.abc import Iterator, Mapping

from receiver.adapters.monitoring.http_apis import MonitoringApi
from receiver.config.environment import installed_version
from receiver.core.model.text import some
from receiver.doctor.checks import Area, Check, Finding, Installation, few
from receiver.doctor.exporters import (
    DCGM_CHECKS,
    DCGM_QUERIES,
    KSM_CHECKS,
    KSM_QUERIES,
    ONE,
    Answers,
    judge_dcgm,
    judge_kube_state_metrics,
)
from receiver.doctor.rules import asleep_without, read_by_rules

OTHERS = tuple(name for part in ("alertmanager_", "prometheus_") for name in read_by_rules(part))
# Series that come with what they tell of: a budget, an action, a node that was bought.
SOMETIMES = tuple(f"gpu_autoscaler_{of}_" for of in ("action", "budget", "notices", "policy", "pool", "provision"))
ALWAYS = tuple(name for name in read_by_rules("gpu_autoscaler_") if not name.startswith(SOMETIMES))

OWN_QUERIES: Mapping[str, str] = {
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
OWN_CHECKS = (SCRAPED, VERSION, FAMILIES, WATCHED)
QUERIES = {**KSM_QUERIES, **DCGM_QUERIES, **OWN_QUERIES}


def look(installation: Installation) -> Iterator[Finding]:
    """Yield what is stored in the configured Prometheus, or in what stands in for it."""
    url = installation.settings.configuration.prometheus.url
    if url is None:
        yield ONE.skipped("prometheus.url is not set")
        return
    with MonitoringApi("Prometheus", url, installation.clock, installation.timeouts) as api:
        answers = {name: api.vector(query) for name, query in QUERIES.items()}
    pools = {pool.id: pool.name for pool in installation.settings.policy.pools}
    yield from judge_kube_state_metrics(answers, pools)
    yield from judge_dcgm(answers, pools)
    yield from judge_own(answers, installed_version())


def judge_own(answers: Answers, version: str) -> Iterator[Finding]:
    """Yield what the *answers* to `OWN_QUERIES` say; *version* is this program's."""
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


AREA = Area(
    name="telemetry",
    source="Prometheus",
    checks=(*KSM_CHECKS, *DCGM_CHECKS, *OWN_CHECKS),
    look=look,
    remedy="check prometheus.url and that this pod may reach it (NetworkPolicy): without Prometheus no node is removed",
)
