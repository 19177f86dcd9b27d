"""The metrics that the rules read: those of kube-state-metrics, the DCGM exporter, the autoscaler and its watchers."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from receiver.adapters.monitoring.http_apis import InstantSample, MonitoringApi
from receiver.core.model.policy import POOL_LABEL
from receiver.core.model.text import some, span
from receiver.doctor.checks import CALL_TIMEOUTS, Area, Check, Finding, Installation, few
from receiver.doctor.prometheus import asleep_without, read_by_rules

Answers = Mapping[str, Sequence[InstantSample]]
JOB = 'job="kube-state-metrics"'
POOL = "label_kubernetes_civo_com_civo_node_pool"  # POOL_LABEL in the spelling of kube-state-metrics
# Metrics that the rules read and a healthy cluster may lack.
KSM_SOMETIMES = frozenset(
    {
        "kube_node_labels",
        "kube_pod_deletion_timestamp",
        "kube_pod_init_container_info",
        "kube_pod_init_container_resource_requests",
        "kube_pod_status_reason",
        "kube_pod_status_unschedulable",
        "kube_replicaset_owner",
    }
)
KSM_ALWAYS = tuple(name for name in read_by_rules("kube_") if name not in KSM_SOMETIMES)
OTHERS = tuple(name for part in ("alertmanager_", "prometheus_") for name in read_by_rules(part))
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
    "ksm nodes": f"count by (node) (kube_node_info{{{JOB}}})",
    "ksm renamed": 'count by (job) (kube_pod_info{exported_pod!=""} or kube_pod_info{exported_node!=""})',
    "ksm pools": f"count by (node, {POOL}) (kube_node_labels{{{JOB}}})",
    "ksm pods": f"count(kube_pod_info{{{JOB}}})",
    "ksm metrics": f'count by (__name__) ({{{JOB}, __name__=~"{"|".join(KSM_ALWAYS)}"}})',
    "gpu nodes": f"max by (node) (kube_node_status_allocatable{{{JOB}, {_GPUS}}}) > 0",
    "node ages": f"max by (node) (time() - kube_node_created{{{JOB}}})",
    "pods on gpus": f"count(group by (namespace, pod) ({_HELD}) and on (namespace, pod) {_RUNS}"
    f" and on (namespace, pod) {_STAYS})",
    # `and`: for MetricsQL a series that is stale has a time of its last sample.
    "dcgm ages": f"max by ({_BY}) (time() - timestamp({ENGINE}) and {ENGINE})"
    f" or max by ({_BY}) (time() - timestamp({NVML}) and {NVML})",
    "dcgm pods": f'count({ENGINE}{{exported_pod!=""}} or {NVML}{{exported_pod!=""}})'
    f' or count({{__name__=~"{ENGINE}|{NVML}", pod!=""}} unless on (job, instance, namespace, pod) up)',
    "dcgm aliases": "count by (node) (node:dcgm_alias:relabel)",
    "dcgm implausible": "count by (node, fault) (node_gpu:dcgm_implausible:relabel)",
    "dcgm counters": 'count by (__name__) ({__name__=~"DCGM_.+"})',
    "own up": 'up{job="gpu-autoscaler"}',
    "own builds": "count by (job) (gpu_autoscaler_build_info)",
    "others": f'count by (__name__) ({{__name__=~"{"|".join(OTHERS)}"}})',
}

KSM_SCRAPED = Check(
    "telemetry.kube_state_metrics",
    "whether Prometheus scrapes kube-state-metrics under the job that the rules select",
    'scrape it with job="kube-state-metrics" (as kube-prometheus-stack does); without it no waiting pod is seen',
)
LABELS = Check(
    "telemetry.kube_state_metrics_labels",
    "whether its series keep `namespace` and `pod` of the object (`honor_labels: true`)",
    "set honorLabels: true in its ServiceMonitor, or honor_labels: true in the scrape job",
)
ALLOWED = Check(
    "telemetry.node_pool_label",
    "whether kube_node_labels carries the label with the node's pool",
    f"start kube-state-metrics with --metric-labels-allowlist=nodes=[{POOL_LABEL}] (metricLabelsAllowlist in Helm)",
)
FAMILIES = Check(
    "telemetry.kube_state_metrics_families",
    "whether it exports the metrics that the rules read and every cluster has",
    "start it with --metric-opt-in-list=kube_pod_nodeselectors (extraArgs in Helm) and without a --metric-allowlist or"
    " --metric-denylist that excludes the others, and scrape it without metricRelabelings that drop them",
)
PRESENT = Check(
    "telemetry.dcgm",
    "whether every GPU node older than 15 minutes has DCGM series",
    "let the exporter run there: its DaemonSet must tolerate the taints of GPU nodes, and its ServiceMonitor must have"
    " the label that Prometheus selects (`release`)",
)
FRESHNESS = Check(
    "telemetry.dcgm_fresh",
    "whether they are at most two minutes old",
    "look at the exporter's target in Prometheus (/targets): older values are ignored",
)
NAMES = Check(
    "telemetry.dcgm_nodes",
    "whether their node name (`node`, `Hostname` or `hostname`) is the name of a Kubernetes node, whose pool is known",
    "give the exporter NODE_NAME from spec.nodeName, or set `node` by a relabeling from"
    " __meta_kubernetes_pod_node_name",
)
PODS = Check(
    "telemetry.dcgm_pods",
    "whether GPUs that pods hold carry the pod's name, in exported_pod or pod",
    "start the exporter with --kubernetes (DCGM_EXPORTER_KUBERNETES=true) and the kubelet's pod-resources socket;"
    " with time-slicing name the resource in NVIDIA_RESOURCE_NAMES",
)
PLAUSIBLE = Check(
    "telemetry.dcgm_plausible",
    "whether they change with time and agree with each other (the recording node_gpu:dcgm_implausible:relabel)",
    "restart the exporter there (and its hostengine, if it has one of its own); what is not believed is not used",
)
COUNTERS = Check(
    "telemetry.dcgm_counters",
    "whether the exporter delivers the counters that the alerts need",
    "add them to the exporter's CSV; k8s/workloads/gpu-operator/dcgm-metrics.csv has all that the rules read",
)
SCRAPED = Check(
    "telemetry.own",
    "whether Prometheus scrapes the autoscaler itself, under the job that the rules select",
    'scrape /metrics of the Service with job="gpu-autoscaler" (a ServiceMonitor uses the Service\'s name): the rules'
    " read pool names and thresholds there",
)
WATCHED = Check(
    "telemetry.watchers",
    "whether Prometheus scrapes itself and Alertmanager, whose own counters two alerts read",
    "add the jobs prometheus and alertmanager of rules/prometheus.yml (kube-prometheus-stack has them)",
)
DCGM = (PRESENT, FRESHNESS, NAMES, PODS, PLAUSIBLE, COUNTERS)
FAULTS = {
    "frozen": "the energy counter has stood still for 30 minutes",
    "profiling": f"{ENGINE} is 0 and {NVML} shows work",
    "power": "both engine counters are 0 at the power draw of work",
}


def look(installation: Installation) -> Iterator[Finding]:
    """Check the metrics in the configured Prometheus or a server with its API."""
    url = installation.settings.configuration.prometheus.url
    if url is None:
        yield KSM_SCRAPED.skipped("prometheus.url is not set")
        return
    with MonitoringApi("Prometheus", url, installation.clock, CALL_TIMEOUTS) as api:
        answers = {name: api.vector(query) for name, query in QUERIES.items()}
    yield from judge(answers, {pool.id: pool.name for pool in installation.settings.policy.pools})


def judge(answers: Answers, pools: Mapping[str, str]) -> Iterator[Finding]:
    """Judge the *answers*; *pools* are the configured pools' names by id."""
    yield from judge_kube_state_metrics(answers)
    yield from judge_dcgm(answers, pools)
    yield scraped(SCRAPED, "gpu-autoscaler", answers["own up"], answers["own builds"])
    yield _stored(WATCHED, OTHERS, answers["others"])


def _values(samples: Sequence[InstantSample], label: str) -> set[str]:
    """Return the values of *label* in *samples*, an empty one where it is missing."""
    return {sample.labels.get(label, "") for sample in samples}


def _stored(check: Check, always: Collection[str], samples: Sequence[InstantSample]) -> Finding:
    """Compare the metrics of *samples* with those that *always* exist."""
    missing = sorted({*always} - _values(samples, "__name__"))
    problem = f"not stored: {few(missing)}{_hurt(asleep_without(missing))}"
    return check.warned_if(missing, problem, f"all {some(len(always), 'metric')} that the rules read are stored")


def _hurt(silent: Sequence[str]) -> str:
    return f"; these alerts cannot fire: {few(silent)}" if silent else ""


def judge_kube_state_metrics(answers: Answers) -> Iterator[Finding]:
    """Judge whether kube-state-metrics is scraped, under which job, and what it shows."""
    finding = scraped(KSM_SCRAPED, "kube-state-metrics", answers["ksm up"], answers["ksm jobs"])
    yield finding
    if finding.verdict == "fail":
        return
    if answers["ksm renamed"]:
        yield LABELS.failed(
            "names are in exported_pod or exported_node: pod or node is that of kube-state-metrics itself"
        )
    elif not answers["ksm pods"]:
        yield LABELS.skipped("kube-state-metrics shows no pod")
    else:
        yield LABELS.passed("namespace and pod are those of the objects")
    yield allowed(answers)
    if answers["ksm pods"] and answers["ksm nodes"]:
        yield _stored(FAMILIES, KSM_ALWAYS, answers["ksm metrics"])
    else:
        yield FAMILIES.skipped("kube-state-metrics shows no pod or no node")


def allowed(answers: Answers) -> Finding:
    """Judge whether nodes carry the label of their pool; `kubernetes.pool_label` finds single ones without it."""
    nodes, pool_by_node = _values(answers["ksm nodes"], "node"), _pool_of(answers)
    if not nodes:
        return ALLOWED.skipped("kube-state-metrics shows no node")
    cause = (
        "kube_node_labels lacks the label of the pool" if pool_by_node else "kube_node_labels is not exported at all"
    )
    problem = f"{cause}, so no node is known to be in a pool"
    return ALLOWED.failed_if(not any(pool_by_node.values()), problem, f"{some(len(nodes), 'node')}, with their pools")


def _pool_of(answers: Answers) -> dict[str, str]:
    return {sample.labels.get("node", ""): sample.labels.get(POOL, "") for sample in answers["ksm pools"]}


def judge_dcgm(answers: Answers, pools: Mapping[str, str]) -> Iterator[Finding]:
    """Judge the series of the DCGM exporter."""
    ages: dict[str, float] = {}
    for sample in answers["dcgm ages"]:
        node = next((sample.labels[name] for name in NODE_LABELS if sample.labels.get(name)), "")
        ages[node] = max(sample.value, ages.get(node, sample.value))
    gpu_nodes = _values(answers["gpu nodes"], "node")
    if not ages and not gpu_nodes:
        yield PRESENT.skipped("no node offers GPUs now, so there is nothing to measure")
        return
    if not ages:
        problem = f"no DCGM series at all, and {some(len(gpu_nodes), 'node')} with GPUs: utilization is unknown"
        yield PRESENT.failed(problem)
        return
    pool_of = _pool_of(answers)
    lives = {sample.labels.get("node", ""): sample.value for sample in answers["node ages"]}
    new_nodes = gpu_nodes - ages.keys()
    blind = sorted(node for node in new_nodes if lives.get(node, GRACE) >= GRACE)
    named = [f"{node} of pool {pools.get(pool_of.get(node, ''), 'unknown')}" for node in blind]
    problem = f"{some(len(blind), 'GPU node')} without DCGM series: {few(named)}"
    later = f"; {len(new_nodes)} new, without series yet" if new_nodes else ""
    yield PRESENT.failed_if(blind, problem, f"{some(len(gpu_nodes - new_nodes), 'GPU node')} with series{later}")
    stale = [f"{node} ({span(age)})" for node, age in sorted(ages.items()) if age > FRESH]
    yield FRESHNESS.failed_if(stale, f"stale: {few(stale)}", f"the oldest is {span(max(ages.values()))} old")
    yield _named_after_nodes(ages, lives, _values(answers["dcgm aliases"], "node"))
    gpu_pods = int(sum(sample.value for sample in answers["pods on gpus"]))
    named_series = int(sum(sample.value for sample in answers["dcgm pods"]))
    if not gpu_pods:
        yield PODS.skipped("no pod has held a GPU for two minutes")
    else:
        problem = f"{some(gpu_pods, 'pod')} on GPUs and no DCGM series that names one: idle and used GPUs look the same"
        yield PODS.warned_if(
            not named_series, problem, f"{named_series} series with a pod's name, {some(gpu_pods, 'pod')} on GPUs"
        )
    yield plausible(answers)
    yield counters(answers)


def _named_after_nodes(ages: Mapping[str, float], lives: Mapping[str, float], aliases: Collection[str]) -> Finding:
    """Judge the names of nodes in DCGM's series, the keys of *ages*: the rules leave out *aliases*, and the keys of
    *lives* are the nodes."""
    if not lives:
        return NAMES.skipped("kube-state-metrics shows no node to compare with")
    unknown = ages.keys() - lives.keys()
    if strange := sorted(name or "(none)" for name in unknown.difference(aliases)):
        return NAMES.failed(f"no Kubernetes node is called {few(strange)}, so its GPUs belong to no pool")
    doubled = sorted(unknown)
    problem = f"a second exporter reports GPUs of a node as those of {few(doubled)}; the rules ignore that one"
    return NAMES.warned_if(doubled, problem, "every name is the name of a node")


def plausible(answers: Answers) -> Finding:
    """Name the nodes whose exporter is frozen or contradicts itself, by fault."""
    problems = []
    for fault, meaning in FAULTS.items():
        nodes = sorted(s.labels.get("node", "") for s in answers["dcgm implausible"] if s.labels.get("fault") == fault)
        if nodes:
            problems.append(f"{meaning}: {few(nodes)}")
    return PLAUSIBLE.warned_if(problems, "; ".join(problems), "no counter stands still, and none contradicts another")


def counters(answers: Answers) -> Finding:
    """Find alerts that cannot fire because a counter is missing."""
    stored, read = _values(answers["dcgm counters"], "__name__"), read_by_rules("DCGM_")
    if ENGINE not in stored and NVML not in stored:
        return COUNTERS.failed(f"neither {ENGINE} nor {NVML} is delivered: utilization is unknown")
    missing = [name for name in read if name not in stored]
    if silent := asleep_without(missing):
        needed = [name for name in missing if asleep_without([name])]
        return COUNTERS.warned(f"not delivered: {few(needed)}{_hurt(silent)}")
    return COUNTERS.passed(f"{len(read) - len(missing)} of {len(read)} counters that rules read")


def scraped(check: Check, job: str, up: Sequence[InstantSample], jobs: Sequence[InstantSample]) -> Finding:
    """Judge whether targets of *job* are *up*; *jobs* are those under which its metrics are stored."""
    well = [sample for sample in up if sample.value == 1]
    other_jobs = sorted(_values(jobs, "job") - {job})
    problem = f"no target has the job {job}"
    if up:
        problem = f"scrapes of {job} fail"
    elif other_jobs:
        problem = f'it is scraped as job="{other_jobs[0]}", and the rules select job="{job}"'
    return check.failed_if(not well, problem, f"{some(len(well), 'instance')} scraped")


AREA = Area(
    name="telemetry",
    source="Prometheus",
    checks=(KSM_SCRAPED, LABELS, ALLOWED, FAMILIES, *DCGM, SCRAPED, WATCHED),
    look=look,
    remedy="check prometheus.url and that this pod can reach it (NetworkPolicy): without Prometheus no node is removed",
)
