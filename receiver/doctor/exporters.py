"""kube-state-metrics and the DCGM exporter as Prometheus has stored them, with the labels that the rules need."""

from collections.abc import Iterator, Mapping, Sequence

from receiver.adapters.monitoring.http_apis import InstantSample
from receiver.core.model.policy import POOL_LABEL
from receiver.core.model.text import some, span
from receiver.doctor.checks import Check, Finding, few
from receiver.doctor.rules import asleep_without, read_by_rules

Answers = Mapping[str, Sequence[InstantSample]]
JOB = 'job="kube-state-metrics"'
# Of what the rules read, what a cluster may have none of: it says nothing when it is missing.
SOMETIMES = frozenset(
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
POOL = "label_kubernetes_civo_com_civo_node_pool"  # of POOL_LABEL, as kube-state-metrics writes it
ALWAYS = tuple(name for name in read_by_rules("kube_") if name not in SOMETIMES)

KSM_QUERIES: Mapping[str, str] = {
    "ksm up": f"up{{{JOB}}}",
    "ksm jobs": "count by (job) (kube_node_info)",
    "ksm nodes": f"count by (node, instance) (kube_node_info{{{JOB}}})",
    "ksm renamed": 'count by (job) (kube_pod_info{exported_pod!=""})',
    "ksm pools": f"count by (node, {POOL}) (kube_node_labels{{{JOB}}})",
    "ksm pods": f"count(kube_pod_info{{{JOB}}})",
    "ksm selectors": f"count(kube_pod_nodeselectors{{{JOB}}})",
    "ksm shards": "max(kube_state_metrics_total_shards)",
    "ksm metrics": f'count by (__name__) ({{{JOB}, __name__=~"{"|".join(ALWAYS)}"}})',
}

SCRAPED = Check(
    "telemetry.kube_state_metrics",
    "whether Prometheus scrapes kube-state-metrics under the job that the rules select",
    ("warn", "fail"),
    'scrape it with job="kube-state-metrics" (kube-prometheus-stack does); without it nobody is seen to wait',
)
ONE = Check(
    "telemetry.kube_state_metrics_once",
    "whether there is one kube-state-metrics: two show everything twice, and of shards each shows a part",
    ("warn", "skip"),
    "run one replica of it and scrape it by one job; of shards scrape every one, and alert when one is down",
)
LABELS = Check(
    "telemetry.kube_state_metrics_labels",
    "whether its series keep `namespace` and `pod` of the object (`honor_labels: true`)",
    ("fail", "skip"),
    "set honorLabels: true in its ServiceMonitor, or honor_labels: true in the scrape job",
)
ALLOWED = Check(
    "telemetry.node_pool_label",
    "whether kube_node_labels carries the label that says in which pool a node is",
    ("warn", "fail", "skip"),
    f"start kube-state-metrics with --metric-labels-allowlist=nodes=[{POOL_LABEL}] (metricLabelsAllowlist in Helm)",
)
SELECTORS = Check(
    "telemetry.node_selectors",
    "whether kube_pod_nodeselectors is exported, by which alerts name the pool that a pod waits for",
    ("warn", "skip"),
    "start kube-state-metrics with --metric-opt-in-list=kube_pod_nodeselectors (extraArgs in Helm)",
)
FAMILIES = Check(
    "telemetry.kube_state_metrics_families",
    "whether it exports the metrics that the rules read, as far as every cluster has them",
    ("warn", "skip"),
    "start it without a --metric-allowlist or --metric-denylist that leaves them out, and scrape it without"
    " metricRelabelings that drop them",
)
KSM_CHECKS = (SCRAPED, ONE, LABELS, ALLOWED, SELECTORS, FAMILIES)

GRACE = 900.0  # seconds that a new node has for its driver, the device plugin and the exporter
FRESH = 120.0  # seconds; the autoscaler itself takes nothing older (receiver.adapters.monitoring.prometheus)
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
NVML = "DCGM_FI_DEV_GPU_UTIL"
NODE_LABELS = ("node", "Hostname", "hostname")  # the first that is there counts, as in the rules
_BY = ", ".join(NODE_LABELS)
_GPUS = 'resource=~"nvidia_com_(gpu|gpu_shared|mig_.+)"'
_HELD = f'kube_pod_container_resource_requests{{{JOB}, {_GPUS}, node!=""}} > 0'
_RUNS = f'kube_pod_status_phase{{{JOB}, phase="Running"}} == 1'
_STAYS = f"time() - max by (namespace, pod) (kube_pod_created{{{JOB}}}) > {FRESH:.0f}"

DCGM_QUERIES: Mapping[str, str] = {
    "gpu nodes": f"max by (node) (kube_node_status_allocatable{{{JOB}, {_GPUS}}}) > 0",
    "node pools": f"count by (node, {POOL}) (kube_node_labels{{{JOB}}})",
    "node ages": f"max by (node) (time() - kube_node_created{{{JOB}}})",
    "pods on gpus": f"count(group by (namespace, pod) ({_HELD}) and on (namespace, pod) {_RUNS}"
    f" and on (namespace, pod) {_STAYS})",
    "dcgm ages": f"max by ({_BY}) (time() - timestamp({ENGINE})) or max by ({_BY}) (time() - timestamp({NVML}))",
    "dcgm pods": f'count({ENGINE}{{exported_pod!=""}} or {NVML}{{exported_pod!=""}})'
    f' or count({{__name__=~"{ENGINE}|{NVML}", pod!=""}} unless on (job, instance, namespace, pod) up)',
    "dcgm counters": 'count by (__name__) ({__name__=~"DCGM_.+"})',
}

PRESENT = Check(
    "telemetry.dcgm",
    "whether every GPU node that has been there for 15 minutes delivers DCGM series, by pool",
    ("warn", "fail", "skip"),
    "let the exporter run there: its DaemonSet must tolerate the taints of GPU nodes, and its ServiceMonitor carry the"
    " label that Prometheus selects by (`release`)",
)
FRESHNESS = Check(
    "telemetry.dcgm_fresh",
    "whether they are at most two minutes old",
    ("fail", "skip"),
    "look at the exporter's target in Prometheus (/targets): values that are older are not believed",
)
NAMES = Check(
    "telemetry.dcgm_nodes",
    "whether their node name (`node`, `Hostname` or `hostname`) is that of a Kubernetes node, whose pool is known",
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
    "whether the counters are on that the alerts need, taken from the rules themselves",
    ("warn", "fail", "skip"),
    "add them to the exporter's CSV; k8s/workloads/gpu-operator/dcgm-metrics.csv has all that the rules read",
)
DCGM_CHECKS = (PRESENT, FRESHNESS, NAMES, PODS, COUNTERS)


def judge_kube_state_metrics(answers: Answers, pools: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what the *answers* to `KSM_QUERIES` say; *pools* are the names by id that are configured."""
    found = scraped(answers)
    yield found
    if found.verdict == "fail":
        return
    yield once(answers)
    yield labels(answers)
    yield allowed(answers, pools)
    yield selectors(answers)
    yield exported(answers)


def scraped(answers: Answers) -> Finding:
    """Say whether it is scraped, and under which job otherwise."""
    up = {sample.labels.get("instance") for sample in answers["ksm up"] if sample.value == 1}
    others = [s.labels.get("job", "") for s in answers["ksm jobs"] if s.labels.get("job") != "kube-state-metrics"]
    if up:
        return SCRAPED.passed(f"{some(len(up), 'instance')} scraped")
    if answers["ksm up"]:
        return SCRAPED.failed("kube-state-metrics does not answer its scrapes")
    if others:
        return SCRAPED.failed(f'it is scraped as job="{others[0]}", and the rules select job="kube-state-metrics"')
    return SCRAPED.failed("no target has the job kube-state-metrics")


def once(answers: Answers) -> Finding:
    """Say whether several instances show the same nodes, or different ones."""
    instances: dict[str, set[str]] = {}
    for sample in answers["ksm nodes"]:
        instances.setdefault(sample.labels.get("node", ""), set()).add(sample.labels.get("instance", ""))
    twice = [node for node, seen in instances.items() if len(seen) > 1]
    if twice:
        return ONE.warned(f"{some(len(twice), 'node')} shown by more than one instance: {few(twice)}")
    up = len({sample.labels.get("instance") for sample in answers["ksm up"] if sample.value == 1})
    total = int(max((sample.value for sample in answers["ksm shards"]), default=1))
    if total > 1 or up > 1:
        counted = f"{up} of {total} shards answer" if total > 1 else f"{up} instances show different objects"
        return ONE.warned(f"it is sharded: {counted}; what a missing one knows looks as if it were not there")
    return ONE.passed("one instance shows every node once")


def labels(answers: Answers) -> Finding:
    """Say whether labels of objects were renamed to exported_*."""
    if answers["ksm renamed"]:
        return LABELS.failed("pods stand in exported_pod: namespace and pod are those of kube-state-metrics itself")
    if not answers["ksm pods"]:
        return LABELS.skipped("it shows no pod")
    return LABELS.passed("namespace and pod are the objects' own")


def allowed(answers: Answers, pools: Mapping[str, str]) -> Finding:
    """Say whether nodes carry the label of their pool."""
    nodes = {sample.labels.get("node", "") for sample in answers["ksm nodes"]}
    known = {sample.labels.get("node", ""): sample.labels.get(POOL, "") for sample in answers["ksm pools"]}
    if not nodes:
        return ALLOWED.skipped("it shows no node")
    if not any(known.values()):
        why = "kube_node_labels is not exported at all" if not known else "kube_node_labels has no label of the pool"
        return ALLOWED.failed(f"{why}, so no node is known to be in a pool")
    without = sorted(node for node in nodes if not known.get(node))
    if without:
        said = f"{some(len(without), 'node')} without the label {POOL_LABEL}: {few(without)}"
        return ALLOWED.warned(said, "Civo puts it on; if somebody removed it, recycle the node")
    seen = sorted(name for pool, name in pools.items() if pool in known.values())
    return ALLOWED.passed(
        f"{some(len(nodes), 'node')}, each with its pool; of ours with nodes now: {few(seen) or 'none'}"
    )


def selectors(answers: Answers) -> Finding:
    """Say whether node selectors of pods are exported."""
    if not answers["ksm pods"]:
        return SELECTORS.skipped("it shows no pod")
    if not answers["ksm selectors"]:
        return SELECTORS.warned("kube_pod_nodeselectors is not exported, so alerts say pool=unassigned")
    return SELECTORS.passed("kube_pod_nodeselectors is exported")


def exported(answers: Answers) -> Finding:
    """Say which metrics that rules read are not there, though every cluster with nodes and pods has them."""
    if not answers["ksm pods"] or not answers["ksm nodes"]:
        return FAMILIES.skipped("it shows no pod, or no node")
    there = {sample.labels.get("__name__") for sample in answers["ksm metrics"]}
    missing = [name for name in ALWAYS if name not in there]
    if missing:
        silent = asleep_without(missing)
        hurt = f"; without it cannot fire: {few(silent)}" if silent else ""
        return FAMILIES.warned(f"not exported: {few(missing)}{hurt}")
    return FAMILIES.passed(f"{some(len(ALWAYS), 'metric')} that every cluster has are there")


def judge_dcgm(answers: Answers, pools: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what the *answers* to `DCGM_QUERIES` say; *pools* are the names by id that are configured."""
    ages = _by_node(answers["dcgm ages"])
    gpu_nodes = {sample.labels.get("node", "") for sample in answers["gpu nodes"]}
    if not ages and not gpu_nodes:
        yield PRESENT.skipped("no node offers GPUs now, so there is nothing to measure")
        return
    yield from present(answers, gpu_nodes, set(ages), pools)
    if not ages:
        return
    yield fresh(ages)
    yield names(set(ages), {sample.labels.get("node", "") for sample in answers["node ages"]})
    yield pods(answers)
    yield counters(answers)


def _by_node(samples: Sequence[InstantSample]) -> dict[str, float]:
    found: dict[str, float] = {}
    for sample in samples:
        node = next((sample.labels[name] for name in NODE_LABELS if sample.labels.get(name)), "")
        found[node] = max(sample.value, found.get(node, sample.value))
    return found


def present(answers: Answers, gpu_nodes: set[str], seen: set[str], pools: Mapping[str, str]) -> Iterator[Finding]:
    """Say, by pool, which of the *gpu_nodes* are not among those *seen* by DCGM."""
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
        new = f"; {len(gpu_nodes - seen)} not yet, being new" if gpu_nodes - seen else ""
        yield PRESENT.passed(f"{some(len(gpu_nodes & seen), 'GPU node')} with series{new}")


def fresh(ages: Mapping[str, float]) -> Finding:
    """Say which nodes' series are old; *ages* are in seconds."""
    old = [f"{node} ({span(age)})" for node, age in sorted(ages.items()) if age > FRESH]
    if old:
        return FRESHNESS.failed(f"not renewed: {few(old)}")
    return FRESHNESS.passed(f"the oldest is {span(max(ages.values()))} old")


def names(seen: set[str], nodes: set[str]) -> Finding:
    """Say which names that DCGM gives are no node's."""
    if not nodes:
        return NAMES.skipped("kube-state-metrics shows no node to compare with")
    strange = sorted(name or "(none)" for name in seen - nodes)
    if strange:
        return NAMES.failed(f"no Kubernetes node is called {few(strange)}, so its GPUs belong to no pool")
    return NAMES.passed("every name is a node's")


def pods(answers: Answers) -> Finding:
    """Say whether GPUs in use name who uses them."""
    held = int(sum(sample.value for sample in answers["pods on gpus"]))
    named = int(sum(sample.value for sample in answers["dcgm pods"]))
    if not held:
        return PODS.skipped("no pod has held a GPU for two minutes")
    if not named:
        said = f"{some(held, 'pod')} on GPUs and no DCGM series that names one: idle GPUs cannot be told from used ones"
        return PODS.warned(said)
    return PODS.passed(f"{named} series with a pod's name, {some(held, 'pod')} on GPUs")


def counters(answers: Answers) -> Finding:
    """Say which alerts sleep because a counter is not delivered."""
    there = {sample.labels.get("__name__") for sample in answers["dcgm counters"]}
    read = read_by_rules("DCGM_")
    missing = [name for name in read if name not in there]
    if ENGINE not in there and NVML not in there:
        return COUNTERS.failed(f"neither {ENGINE} nor {NVML} is delivered: utilization is unknown")
    silent = asleep_without(missing)
    if silent:
        needed = [name for name in missing if asleep_without([name])]
        return COUNTERS.warned(f"not delivered: {few(needed)}; without it cannot fire: {few(silent)}")
    left = f"; not delivered, and no alert needs them: {few(missing)}" if missing else ""
    return COUNTERS.passed(f"{len(read) - len(missing)} of {len(read)} counters that rules read{left}")
