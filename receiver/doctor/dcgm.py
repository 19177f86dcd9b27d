"""The DCGM exporter as Prometheus has stored it: on every GPU node, fresh, with names that join, with pods."""

from collections.abc import Iterator, Mapping, Sequence

from receiver.adapters.monitoring.http_apis import Sample
from receiver.core.model.text import some, span
from receiver.doctor.finding import Check, Finding
from receiver.doctor.kube_state_metrics import JOB, POOL, Answers
from receiver.doctor.rules import asleep_without, read_by_rules
from receiver.doctor.told import few

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

QUERIES: Mapping[str, str] = {
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
CHECKS = (PRESENT, FRESHNESS, NAMES, PODS, COUNTERS)


def judge(answers: Answers, pools: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what the *answers* to `QUERIES` say; *pools* are the names by id that are configured."""
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


def _by_node(samples: Sequence[Sample]) -> dict[str, float]:
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
