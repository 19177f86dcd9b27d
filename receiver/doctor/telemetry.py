"""The metrics that the rules read: those of kube-state-metrics, the DCGM exporter, the autoscaler and its watchers."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from receiver.adapters.monitoring.http_apis import InstantSample, MonitoringApi
from receiver.config.environment import installed_version
from receiver.core.model.policy import POOL_LABEL
from receiver.core.model.text import some, span
from receiver.doctor.checks import Area, Check, Finding, Installation, few
from receiver.doctor.rules import asleep_without, read_by_rules

Answers = Mapping[str, Sequence[InstantSample]]
JOB = 'job="kube-state-metrics"'
POOL = "label_kubernetes_civo_com_civo_node_pool"  # POOL_LABEL in the spelling of kube-state-metrics
# Metrics that the rules read and a healthy cluster may lack.
KSM_SOMETIMES = frozenset(
    {
        "kube_node_labels",
        "kube_pod_deletion_timestamp",
        "kube_pod_init_container_resource_requests",
        "kube_pod_nodeselectors",
        "kube_pod_status_reason",
        "kube_pod_status_unschedulable",
        "kube_replicaset_owner",
    }
)
KSM_ALWAYS = tuple(name for name in read_by_rules("kube_") if name not in KSM_SOMETIMES)
OTHERS = tuple(name for part in ("alertmanager_", "prometheus_") for name in read_by_rules(part))
# Series that exist only with their subject: a budget, an action, a node that was bought.
OWN_SOMETIMES = tuple(f"gpu_autoscaler_{of}_" for of in ("action", "budget", "notices", "policy", "pool", "provision"))
OWN_ALWAYS = tuple(name for name in read_by_rules("gpu_autoscaler_") if not name.startswith(OWN_SOMETIMES))
GRACE = 900.0  # seconds for a new node's driver, device plugin and exporter
FRESH = 120.0  # seconds; the autoscaler ignores older values (receiver.adapters.monitoring.prometheus)
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
NVML = "DCGM_FI_DEV_GPU_UTIL"
NODE_LABELS = ("node", "Hostname", "hostname")  # the first that is set counts, as in the rules
_BY = ", ".join(NODE_LABELS)
_GPUS = 'resource=~"nvidia_com_(gpu|gpu_shared|mig_.+)"'
_HELD = f'kube_pod_container_resource_requests{{{JOB}, {_GPUS}, node!=""}} > 0'
_RUNS = f'kube_pod_status_phase{{{JOB}, phase="Running"}} == 1'
_STAYS = f"time() - max by (namespace, pod) (kube_pod_created{{{JOB}}}) > {FRESH:.0f}"

QUERIES: Mapping[str, str] = {
    "ksm up": f"up{{{JOB}}}",
    "ksm jobs": "count by (job) (kube_node_info)",
    "ksm nodes": f"count by (node, instance) (kube_node_info{{{JOB}}})",
    "ksm renamed": 'count by (job) (kube_pod_info{exported_pod!=""})',
    "ksm pools": f"count by (node, {POOL}) (kube_node_labels{{{JOB}}})",
    "ksm pods": f"count(kube_pod_info{{{JOB}}})",
    "ksm selectors": f"count(kube_pod_nodeselectors{{{JOB}}})",
    "ksm shards": "max(kube_state_metrics_total_shards)",
    "ksm metrics": f'count by (__name__) ({{{JOB}, __name__=~"{"|".join(KSM_ALWAYS)}"}})',
    "gpu nodes": f"max by (node) (kube_node_status_allocatable{{{JOB}, {_GPUS}}}) > 0",
    "node pools": f"count by (node, {POOL}) (kube_node_labels{{{JOB}}})",
    "node ages": f"max by (node) (time() - kube_node_created{{{JOB}}})",
    "pods on gpus": f"count(group by (namespace, pod) ({_HELD}) and on (namespace, pod) {_RUNS}"
    f" and on (namespace, pod) {_STAYS})",
    "dcgm ages": f"max by ({_BY}) (time() - timestamp({ENGINE})) or max by ({_BY}) (time() - timestamp({NVML}))",
    "dcgm pods": f'count({ENGINE}{{exported_pod!=""}} or {NVML}{{exported_pod!=""}})'
    f' or count({{__name__=~"{ENGINE}|{NVML}", pod!=""}} unless on (job, instance, namespace, pod) up)',
    "dcgm counters": 'count by (__name__) ({__name__=~"DCGM_.+"})',
    "own up": 'up{job="gpu-autoscaler"}',
    "own builds": "count by (job, version) (gpu_autoscaler_build_info)",
    "own metrics": 'count by (__name__) ({__name__=~"gpu_autoscaler_.+"})',
    "others": f'count by (__name__) ({{__name__=~"{"|".join(OTHERS)}"}})',
}

KSM_SCRAPED = Check(
    "telemetry.kube_state_metrics",
    "whether Prometheus scrapes kube-state-metrics under the job that the rules select",
    ("warn", "fail"),
    'scrape it with job="kube-state-metrics" (as kube-prometheus-stack does); without it no waiting pod is seen',
)
ONE = Check(
    "telemetry.kube_state_metrics_once",
    "whether there is one kube-state-metrics: two show everything twice, and each shard shows a part",
    ("warn", "skip"),
    "run one replica of it and scrape it by one job; scrape every shard, and alert when one is down",
)
LABELS = Check(
    "telemetry.kube_state_metrics_labels",
    "whether its series keep `namespace` and `pod` of the object (`honor_labels: true`)",
    ("fail", "skip"),
    "set honorLabels: true in its ServiceMonitor, or honor_labels: true in the scrape job",
)
ALLOWED = Check(
    "telemetry.node_pool_label",
    "whether kube_node_labels carries the label with the node's pool",
    ("warn", "fail", "skip"),
    f"start kube-state-metrics with --metric-labels-allowlist=nodes=[{POOL_LABEL}] (metricLabelsAllowlist in Helm)",
)
SELECTORS = Check(
    "telemetry.node_selectors",
    "whether kube_pod_nodeselectors is exported, from which alerts take the pool that a pod waits for",
    ("warn", "skip"),
    "start kube-state-metrics with --metric-opt-in-list=kube_pod_nodeselectors (extraArgs in Helm)",
)
KSM_FAMILIES = Check(
    "telemetry.kube_state_metrics_families",
    "whether it exports the metrics that the rules read and every cluster has",
    ("warn", "skip"),
    "start it without a --metric-allowlist or --metric-denylist that excludes them, and scrape it without"
    " metricRelabelings that drop them",
)
PRESENT = Check(
    "telemetry.dcgm",
    "whether every GPU node older than 15 minutes has DCGM series, by pool",
    ("warn", "fail", "skip"),
    "let the exporter run there: its DaemonSet must tolerate the taints of GPU nodes, and its ServiceMonitor must have"
    " the label that Prometheus selects (`release`)",
)
FRESHNESS = Check(
    "telemetry.dcgm_fresh",
    "whether they are at most two minutes old",
    ("fail", "skip"),
    "look at the exporter's target in Prometheus (/targets): older values are ignored",
)
NAMES = Check(
    "telemetry.dcgm_nodes",
    "whether their node name (`node`, `Hostname` or `hostname`) is the name of a Kubernetes node, whose pool is known",
    ("fail", "skip"),
    "give the exporter NODE_NAME from spec.nodeName, or set `node` by a relabeling from"
    " __meta_kubernetes_pod_node_name",
)
PODS = Check(
    "telemetry.dcgm_pods",
    "whether GPUs that pods hold carry the pod's name, in exported_pod or pod",
    ("warn", "skip"),
    "start the exporter with --kubernetes (DCGM_EXPORTER_KUBERNETES=true) and the kubelet's pod-resources socket;"
    " with time-slicing name the resource in NVIDIA_RESOURCE_NAMES",
)
COUNTERS = Check(
    "telemetry.dcgm_counters",
    "whether the exporter delivers the counters that the alerts need",
    ("warn", "fail", "skip"),
    "add them to the exporter's CSV; k8s/workloads/gpu-operator/dcgm-metrics.csv has all that the rules read",
)
SCRAPED = Check(
    "telemetry.own",
    "whether Prometheus scrapes the autoscaler itself, under the job that the rules select",
    ("warn", "fail"),
    'scrape /metrics of the Service with job="gpu-autoscaler" (a ServiceMonitor uses the Service\'s name): the rules'
    " read pool names and thresholds there",
)
VERSION = Check(
    "telemetry.own_version",
    "whether the scraped autoscaler has this program's version",
    ("warn", "skip"),
    "finish the rollout, or run the doctor of the running version",
)
FAMILIES = Check(
    "telemetry.own_metrics",
    "whether the autoscaler's metrics that the rules read are stored",
    ("warn", "skip"),
    "make sure that metricRelabelings of the ServiceMonitor do not drop gpu_autoscaler_*",
)
WATCHED = Check(
    "telemetry.watchers",
    "whether Prometheus scrapes itself and Alertmanager, whose own counters two alerts read",
    ("warn",),
    "add the jobs prometheus and alertmanager of rules/prometheus.yml (kube-prometheus-stack has them)",
)
KSM_CHECKS = (KSM_SCRAPED, ONE, LABELS, ALLOWED, SELECTORS, KSM_FAMILIES)
DCGM_CHECKS = (PRESENT, FRESHNESS, NAMES, PODS, COUNTERS)
OWN_CHECKS = (SCRAPED, VERSION, FAMILIES, WATCHED)


def look(installation: Installation) -> Iterator[Finding]:
    """Check the metrics in the configured Prometheus or a server with its API."""
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


def _values(samples: Sequence[InstantSample], label: str) -> set[str]:
    """Return the values of *label* in *samples*, an empty one where it is missing."""
    return {sample.labels.get(label, "") for sample in samples}


def _stored(check: Check, always: Collection[str], samples: Sequence[InstantSample], whose: str) -> Finding:
    """Compare the metrics of *samples* with those that *always* exist."""
    there = _values(samples, "__name__")
    missing = [name for name in always if name not in there]
    if not missing:
        return check.passed(f"all {some(len(always), 'metric')} that {whose} are there")
    return check.warned(f"not stored: {few(missing)}{_hurt(asleep_without(missing))}")


def _hurt(silent: Sequence[str]) -> str:
    return f"; these alerts cannot fire: {few(silent)}" if silent else ""


def judge_kube_state_metrics(answers: Answers, pools: Mapping[str, str]) -> Iterator[Finding]:
    """Judge the *answers* about kube-state-metrics; *pools* are the configured pools' names by id."""
    found = ksm_scraped(answers)
    yield found
    if found.verdict == "fail":
        return
    yield once(answers)
    if answers["ksm renamed"]:
        yield LABELS.failed("pod names are in exported_pod: namespace and pod are those of kube-state-metrics itself")
    elif not answers["ksm pods"]:
        yield LABELS.skipped("it shows no pod")
    else:
        yield LABELS.passed("namespace and pod are those of the objects")
    yield allowed(answers, pools)
    if not answers["ksm pods"]:
        yield SELECTORS.skipped("it shows no pod")
    elif not answers["ksm selectors"]:
        yield SELECTORS.warned("kube_pod_nodeselectors is not exported, so alerts have pool=unassigned")
    else:
        yield SELECTORS.passed("kube_pod_nodeselectors is exported")
    if answers["ksm pods"] and answers["ksm nodes"]:
        yield _stored(KSM_FAMILIES, KSM_ALWAYS, answers["ksm metrics"], "every cluster has")
    else:
        yield KSM_FAMILIES.skipped("it shows no pod, or no node")


def ksm_scraped(answers: Answers) -> Finding:
    """Judge whether kube-state-metrics is scraped, and under which job."""
    up = _values([sample for sample in answers["ksm up"] if sample.value == 1], "instance")
    others = sorted(_values(answers["ksm jobs"], "job") - {"kube-state-metrics"})
    if up:
        return KSM_SCRAPED.passed(f"{some(len(up), 'instance')} scraped")
    if answers["ksm up"]:
        return KSM_SCRAPED.failed("scrapes of kube-state-metrics fail")
    if others:
        return KSM_SCRAPED.failed(f'it is scraped as job="{others[0]}", and the rules select job="kube-state-metrics"')
    return KSM_SCRAPED.failed("no target has the job kube-state-metrics")


def once(answers: Answers) -> Finding:
    """Judge whether several instances show the same nodes, or different ones."""
    instances: dict[str, set[str]] = {}
    for sample in answers["ksm nodes"]:
        instances.setdefault(sample.labels.get("node", ""), set()).add(sample.labels.get("instance", ""))
    twice = [node for node, seen in instances.items() if len(seen) > 1]
    if twice:
        return ONE.warned(f"{some(len(twice), 'node')} shown by more than one instance: {few(twice)}")
    up = len(_values([sample for sample in answers["ksm up"] if sample.value == 1], "instance"))
    total = int(max((sample.value for sample in answers["ksm shards"]), default=1))
    if total > 1 or up > 1:
        counted = f"{up} of {total} shards answer" if total > 1 else f"{up} instances show different objects"
        return ONE.warned(f"it is sharded: {counted}; the objects of a missing shard seem not to exist")
    return ONE.passed("one instance shows every node once")


def allowed(answers: Answers, pools: Mapping[str, str]) -> Finding:
    """Judge whether nodes carry the label of their pool."""
    nodes = _values(answers["ksm nodes"], "node")
    known = {sample.labels.get("node", ""): sample.labels.get(POOL, "") for sample in answers["ksm pools"]}
    if not nodes:
        return ALLOWED.skipped("it shows no node")
    if not any(known.values()):
        why = "kube_node_labels is not exported at all" if not known else "kube_node_labels lacks the label of the pool"
        return ALLOWED.failed(f"{why}, so no node is known to be in a pool")
    without = sorted(node for node in nodes if not known.get(node))
    if without:
        said = f"{some(len(without), 'node')} without the label {POOL_LABEL}: {few(without)}"
        return ALLOWED.warned(said, "Civo sets it; if it was removed, recycle the node")
    seen = sorted(name for pool, name in pools.items() if pool in known.values())
    return ALLOWED.passed(
        f"{some(len(nodes), 'node')}, each with its pool; configured pools with nodes now: {few(seen) or 'none'}"
    )


def judge_dcgm(answers: Answers, pools: Mapping[str, str]) -> Iterator[Finding]:
    """Judge the *answers* about the DCGM exporter; *pools* are the configured pools' names by id."""
    ages: dict[str, float] = {}
    for sample in answers["dcgm ages"]:
        node = next((sample.labels[name] for name in NODE_LABELS if sample.labels.get(name)), "")
        ages[node] = max(sample.value, ages.get(node, sample.value))
    gpu_nodes = _values(answers["gpu nodes"], "node")
    if not ages and not gpu_nodes:
        yield PRESENT.skipped("no node offers GPUs now, so there is nothing to measure")
        return
    yield from present(answers, gpu_nodes, set(ages), pools)
    if not ages:
        return
    old = [f"{node} ({span(age)})" for node, age in sorted(ages.items()) if age > FRESH]
    if old:
        yield FRESHNESS.failed(f"stale: {few(old)}")
    else:
        yield FRESHNESS.passed(f"the oldest is {span(max(ages.values()))} old")
    yield names(set(ages), _values(answers["node ages"], "node"))
    yield pods(answers)
    yield counters(answers)


def present(answers: Answers, gpu_nodes: set[str], seen: set[str], pools: Mapping[str, str]) -> Iterator[Finding]:
    """Find, by pool, the *gpu_nodes* that are not among the nodes *seen* by DCGM."""
    if not seen:
        said = f"no DCGM series at all, and {some(len(gpu_nodes), 'node')} with GPUs: utilization is unknown"
        yield PRESENT.failed(said)
        return
    ages = {sample.labels.get("node", ""): sample.value for sample in answers["node ages"]}
    pool_of = {sample.labels.get("node", ""): sample.labels.get(POOL, "") for sample in answers["node pools"]}
    blind: dict[str, list[str]] = {}
    for node in sorted(gpu_nodes - seen):
        if ages.get(node, GRACE) >= GRACE:
            pool = pool_of.get(node, "")
            blind.setdefault(pools.get(pool, pool) or "no pool", []).append(node)
    for pool, nodes in sorted(blind.items()):
        yield PRESENT.failed(f"pool {pool}: {some(len(nodes), 'GPU node')} without DCGM series: {few(nodes)}")
    if not blind:
        new = f"; {len(gpu_nodes - seen)} new, without series yet" if gpu_nodes - seen else ""
        yield PRESENT.passed(f"{some(len(gpu_nodes & seen), 'GPU node')} with series{new}")


def names(seen: set[str], nodes: set[str]) -> Finding:
    """Find node names in DCGM series that are not names of Kubernetes nodes."""
    if not nodes:
        return NAMES.skipped("kube-state-metrics shows no node to compare with")
    strange = sorted(name or "(none)" for name in seen - nodes)
    if strange:
        return NAMES.failed(f"no Kubernetes node is called {few(strange)}, so its GPUs belong to no pool")
    return NAMES.passed("every name is the name of a node")


def pods(answers: Answers) -> Finding:
    """Judge whether series of GPUs in use name their pods."""
    held = int(sum(sample.value for sample in answers["pods on gpus"]))
    named = int(sum(sample.value for sample in answers["dcgm pods"]))
    if not held:
        return PODS.skipped("no pod has held a GPU for two minutes")
    if not named:
        said = f"{some(held, 'pod')} on GPUs and no DCGM series that names one: idle and used GPUs look the same"
        return PODS.warned(said)
    return PODS.passed(f"{named} series with a pod's name, {some(held, 'pod')} on GPUs")


def counters(answers: Answers) -> Finding:
    """Find alerts that cannot fire because a counter is missing."""
    there = _values(answers["dcgm counters"], "__name__")
    read = read_by_rules("DCGM_")
    missing = [name for name in read if name not in there]
    if ENGINE not in there and NVML not in there:
        return COUNTERS.failed(f"neither {ENGINE} nor {NVML} is delivered: utilization is unknown")
    silent = asleep_without(missing)
    if silent:
        needed = [name for name in missing if asleep_without([name])]
        return COUNTERS.warned(f"not delivered: {few(needed)}{_hurt(silent)}")
    left = f"; not delivered, and no alert needs them: {few(missing)}" if missing else ""
    return COUNTERS.passed(f"{len(read) - len(missing)} of {len(read)} counters that rules read{left}")


def judge_own(answers: Answers, version: str) -> Iterator[Finding]:
    """Judge the *answers* about the autoscaler's own metrics; *version* is this program's."""
    found = scraped(answers)
    yield found
    if found.verdict != "fail":
        running = sorted(_values(answers["own builds"], "version"))
        if not running:
            yield VERSION.skipped("gpu_autoscaler_build_info is not stored")
        elif running != [version]:
            yield VERSION.warned(f"scraped: {few(running)}; this is {version}")
        else:
            yield VERSION.passed(f"all instances are {version}")
        yield _stored(FAMILIES, OWN_ALWAYS, answers["own metrics"], "every installation has")
    there = _values(answers["others"], "__name__")
    missing = [name for name in OTHERS if name not in there]
    silent = asleep_without(missing)
    if silent:
        yield WATCHED.warned(f"not stored: {few(missing)}{_hurt(silent)}")
    else:
        yield WATCHED.passed("their counters of failures are stored")


def scraped(answers: Answers) -> Finding:
    """Judge whether the autoscaler is scraped, and under which job."""
    jobs = sorted(_values(answers["own builds"], "job"))
    if any(sample.value == 1 for sample in answers["own up"]):
        return SCRAPED.passed(f"{some(len(answers['own up']), 'instance')} scraped")
    if jobs:
        said = f'it is scraped as job="{jobs[0]}", and the alert GpuAutoscalerDown selects job="gpu-autoscaler"'
        return SCRAPED.warned(said)
    if answers["own up"]:
        return SCRAPED.failed("scrapes of the autoscaler fail")
    return SCRAPED.failed("Prometheus does not scrape the autoscaler")


AREA = Area(
    name="telemetry",
    source="Prometheus",
    checks=(*KSM_CHECKS, *DCGM_CHECKS, *OWN_CHECKS),
    look=look,
    remedy="check prometheus.url and that this pod can reach it (NetworkPolicy): without Prometheus no node is removed",
)
